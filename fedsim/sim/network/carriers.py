"""Carriers: on what terms one direction of a radio takes a message."""

from collections.abc import Callable
from math import inf
from typing import NamedTuple, Protocol

import numpy as np

from fedsim.physics.channels import Fading, Shannon
from fedsim.physics.lora import LoRa
from fedsim.physics.radios import Rate
from fedsim.physics.signals import Signal


class Terms(NamedTuple):
    """What a message meets.

    Attributes:
        cap: the fastest its bits may flow, bit/s.
        share: of the time in which they flow, how much is on the air.
        rest: how long the sender keeps silent afterwards, s.
    """

    cap: float | Signal
    share: float = 1.0
    rest: float = 0.0


class Carrier(Protocol):
    """Says on what terms a message travels."""

    def terms(self, bits: int, framed: int, round_number: int) -> Terms:
        """Return the terms.

        Args:
            bits: of the message, its header included.
            framed: the same and the framing.
            round_number: the round in which it starts.
        """
        ...


class Steady:
    """The same rate for every message, or one that follows a trace."""

    __slots__ = ("_terms",)

    def __init__(self, rate: float | Signal) -> None:
        self._terms = Terms(rate)

    def terms(self, bits: int, framed: int, round_number: int) -> Terms:  # noqa: ARG002
        """See `Carrier.terms`."""
        return self._terms


class Faded:
    """A channel that is drawn anew in every round (block fading)."""

    __slots__ = ("_fading",)

    def __init__(self, fading: Fading) -> None:
        self._fading = fading

    def terms(self, bits: int, framed: int, round_number: int) -> Terms:  # noqa: ARG002
        """See `Carrier.terms`."""
        return Terms(self._fading.rate(round_number))


class Spread:
    """LoRa: frames on the air, with silences between them where a duty cycle binds."""

    __slots__ = ("_model",)

    def __init__(self, model: LoRa) -> None:
        self._model = model

    def terms(self, bits: int, framed: int, round_number: int) -> Terms:  # noqa: ARG002
        """See `Carrier.terms`."""
        if not bits:
            return Terms(inf)
        span = self._model.span(bits)
        return Terms(framed / span.elapsed, span.on_air / span.elapsed, span.rest)


def carrier(rate: Rate, rng: Callable[[], np.random.Generator]) -> Carrier:
    """Return the carrier of one direction of one client's radio.

    Args:
        rate: of the direction.
        rng: makes the client's stream for this channel.
    """
    if isinstance(rate, Shannon):
        return Faded(rate.drawn(rng()))
    return Spread(rate) if isinstance(rate, LoRa) else Steady(rate)
