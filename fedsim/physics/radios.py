"""Radios: how long bits take, and what they cost in joules."""

from dataclasses import dataclass
from math import inf

from fedsim.physics.channels import Shannon
from fedsim.physics.lora import LoRa
from fedsim.physics.loss import LossModel
from fedsim.physics.packets import NONE, Framing
from fedsim.physics.signals import Signal

Rate = float | Signal | Shannon | LoRa
"""One direction's rate: constant, in bit/s; following a trace; fading; or time on air."""


@dataclass(frozen=True, slots=True)
class RadioModel:
    """A radio: P = base + send + receive + energy_up * up rate + energy_down * down rate.

    `base` flows while anything is transferred, `send` and `receive` while their direction is
    busy, and the rates are those of the moment. Linear power, with the states below, is from
    Huang et al., "A Close Examination of Performance and Power Characteristics of 4G LTE
    Networks", MobiSys 2012 (1 mW per Mbit/s is 1 nJ per bit); `send` and `receive` alone are
    a radio of constant state powers.

    An idle radio is promoted first: for `promotion_time` it draws `promotion_power` and bits
    wait. Then it is connected. While no bits flow, it draws `tail_power`; and once they have
    not for `tail_time`, it is idle again.

    Attributes:
        up, down: rates.
        latency: one way, s.
        energy_up, energy_down: J/bit.
        base: W.
        send, receive: W.
        idle: power all the time, W.
        promotion_power, promotion_time: W, s.
        tail_power, tail_time: W, s.
        framing: what the transport adds to every message.
        loss: how packets are lost; None where none are.
        tries: how often a packet is sent at most; None for as often as it takes.
    """

    up: Rate = inf
    down: Rate = inf
    latency: float = 0.0
    energy_up: float = 0.0
    energy_down: float = 0.0
    base: float = 0.0
    send: float = 0.0
    receive: float = 0.0
    idle: float = 0.0
    promotion_power: float = 0.0
    promotion_time: float = 0.0
    tail_power: float = 0.0
    tail_time: float = 0.0
    framing: Framing = NONE
    loss: LossModel | None = None
    tries: int | None = None

    @property
    def stateful(self) -> bool:
        """Whether it has states beyond busy and idle."""
        return self.promotion_time > 0 or self.tail_time > 0


def limit(rate: Rate) -> float | Signal:
    """Return what bounds the rate of every message: a trace as it is, else the fastest."""
    return rate.peak if isinstance(rate, Shannon | LoRa) else rate
