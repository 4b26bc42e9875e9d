"""Base class of radios: block, law, and power while messages are in progress.

Between two messages a radio is idle (`RadioLaw.resting`), or in a stage before that (`States`).
While a message is in progress, from its first bit to its last, the radio is connected, and for a
part of that time its bits are on the air: for as long as the radio's own rate requires, though the
message may take longer because a link behind the radio is slow, or shared.

A radio that states powers of its directions draws `send` or `receive` on the air, and connected
power for the rest of the message: that of its first stage, such as a tail, or `base` where that is
more; on the air it draws no less than that. Without such a stage it draws idle power while it
waits. A radio that states energies per bit draws `base` all the time, which is its connected power
(Huang et al., MobiSys 2012, equation 1), and its energy depends on bits, not on time on the air.

With both directions in progress, connected power is drawn once, and each direction adds its power
on the air beyond that.
"""

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from math import ceil, inf
from typing import Annotated, Literal, NamedTuple, Self

from pydantic import Field, model_validator

from fedsim.blocks.choice import failure
from fedsim.blocks.quantities import UNLIMITED, Bytes, Fraction, JoulesPerBit, Seconds, Watts
from fedsim.blocks.spec import KindFirst, Spec, as_written
from fedsim.physics.packet_loss import AnyPacketLoss
from fedsim.physics.radios.rates import Rates
from fedsim.physics.radios.traces import Trace
from fedsim.physics.signals import Signal

# The states of a radio between two messages: its stages, and its promotion.
#
# After its last bit a radio goes through its stages in order, each for its time, and stays in the
# last one. LTE has a tail and then idles; NB-IoT listens, listens now and then (connected DRX), is
# paged now and then (idle, with eDRX), and sleeps (PSM). All of them are one thing here: a mean
# power, for some time, out of which a radio wakes in `wake_time`, and in which it hears what is
# sent to it every `cycle`.
#
# Powers are beyond what the radio draws at rest, that is in its last stage, whose own power is 0.
# What listens now and then draws its mean power: the log has a row a stage, not one a paging
# occasion. A message up wakes the radio at once; one down waits in the network for the next
# occasion, and only then wakes it.


@dataclass(frozen=True, slots=True)
class RadioStage:
    """A stage of a radio that transfers nothing.

    Attributes:
        power: on average, beyond that at rest, W.
        time: how long it lasts, s; infinite for the last one.
        cycle: the radio can be reached at the multiples of it since the stage began, s; 0 for
            always.
        wake_time: from waking until bits can flow, s.
        wake_power: meanwhile, beyond that at rest, W.
        name: what the log calls it; empty where there is but one.
    """

    power: float = 0.0
    time: float = inf
    cycle: float = 0.0
    wake_time: float = 0.0
    wake_power: float = 0.0
    name: str = ""


@dataclass(frozen=True, slots=True)
class States:
    """The stages of a radio, from its last bit on.

    >>> States((RadioStage(1.0, 10.0), RadioStage(cycle=4.0))).reception_time(1, 100.0, 105.0)
    108.0

    Attributes:
        stages: in their order, two or more. The first one hears always; the last one is the
            rest: it has no power of its own, and no end.
    """

    stages: tuple[RadioStage, ...] = (RadioStage(time=0.0), RadioStage())

    @property
    def stateful(self) -> bool:
        """Whether there is anything but a radio that is always ready."""
        rest = self.stages[-1]
        passing = any(stage.time > 0 for stage in self.stages[:-1])
        return passing or rest.wake_time > 0 or rest.cycle > 0

    def above(self, power: float) -> "States":
        """Return the same stages, their powers beyond one that a radio draws at rest, W.

        No stage draws less than that.
        """
        if not power:
            return self
        *stages, rest = self.stages
        least = [replace(each, power=max(each.power - power, 0.0)) for each in stages]
        woken = [
            replace(each, wake_power=max(each.wake_power - power, 0.0)) for each in (*least, rest)
        ]
        return States(tuple(woken))

    @property
    def longest_wait(self) -> float:
        """What a message down waits at most until it is heard, or somewhat more, s."""
        return sum(stage.cycle for stage in self.stages)

    def reception_time(self, number: int, since: float, now: float) -> float:
        """Return when a message down is heard, if nothing else wakes the radio, s.

        Args:
            number: of the stage that it is in.
            since: when that began, s.
            now: when the message is there, s.
        """
        while (stage := self.stages[number]).cycle > 0:
            occasion = max(ceil((now - since) / stage.cycle), 1)
            due = since + occasion * stage.cycle
            if due <= since + stage.time:
                return max(due, now)
            since += stage.time
            number += 1
        return max(since, now)


# Packets: how a message is cut up, and what that adds to it.


@dataclass(frozen=True, slots=True)
class Framing:
    """So many bytes of every packet are headers: "60 per 1500".

    >>> Framing(60, 1500).packets(8 * 1441), Framing(60, 1500).bits(8 * 1441)
    (2, 960)

    Attributes:
        overhead: bytes of each packet that are not the message's.
        packet: the longest packet, bytes, with the overhead.

    Raises:
        ValueError: the overhead is negative, or leaves no room for a message.
    """

    overhead: int
    packet: int

    def __post_init__(self) -> None:
        if not 0 <= self.overhead < self.packet:
            raise ValueError(
                f"the overhead is at least 0 and below the packet; got {self.overhead} of "
                f"{self.packet} bytes"
            )

    def packets(self, message: int) -> int:
        """Return how many packets a message of so many bits is cut into; none for no bits."""
        return -(-message // (8 * (self.packet - self.overhead)))

    def bits(self, message: int) -> int:
        """Return the bits that framing adds to a message of so many bits."""
        return 8 * self.overhead * self.packets(message)


@lru_cache
def framing(overhead: int, packet: int) -> Framing:
    """Return one framing shared by all that split messages alike; arguments as for `Framing`."""
    return Framing(overhead, packet)


NONE = Framing(0, 1500)
"""Packets of an Ethernet's length that have no headers."""


class Draw(Spec):
    """What a radio draws while it transfers, beyond its idle power.

    P = base + send + receive + energy_up * up rate + energy_down * down rate: `base` flows
    while a message is in progress, `send` and `receive` while bits are on the air in their
    direction, and the rates are those of the moment (1 mW per Mbit/s is 1 nJ per bit).

    A message is on the air for its bits over the radio's own rate. Where something else holds it
    up, such as a slow link behind the radio, the rest of its time is at connected power:
    see `fedsim.physics.radios.base`. The two ways to state a radio differ in what `base`
    contains. With an energy per bit it is the intercept of measured power over throughput, as in
    Huang et al., MobiSys 2012: connected, awake, at no throughput, so all of the connected power.
    With `send` and `receive` it is usually 0, for these are whole powers of states.
    """

    energy_up: JoulesPerBit = as_written("0 J/bit", "energy of a bit that is sent")
    energy_down: JoulesPerBit = as_written("0 J/bit", "energy of a bit that is received")
    base: Watts = as_written("0 W", "power while a message is in progress, whatever the rate")
    send: Watts = as_written("0 W", "further power while its bits are on the air, sent")
    receive: Watts = as_written("0 W", "further power while its bits are on the air, received")


class Listening(Spec):
    """What a radio draws between two messages, once no state of a connection holds it.

    It listens for a share of the time and sleeps for the rest: always for a receiver that is on
    when idle, seldom for one that polls or wakes at agreed times. Only the mean power counts,
    `listening * listen + (1 - listening) * sleep`; how long a message has to wait until it is
    heard is in `latency`.
    """

    listen: Watts = as_written("0 W", "power while it listens for messages, between them")
    sleep: Watts = as_written("0 W", "power between them while it does not listen")
    listening: Fraction = as_written("100 %", "the share of that time in which it listens")

    @property
    def mean(self) -> float:
        """The mean power between messages, W."""
        return self.listening * self.listen + (1.0 - self.listening) * self.sleep


class Connection(Spec):
    """The states of a cellular radio beyond busy and idle.

    Huang et al., "A Close Examination of Performance and Power Characteristics of 4G LTE
    Networks", MobiSys 2012. An idle radio is promoted first, and bits wait. Then it is
    connected: while no bits flow it draws `tail_power`, and once they have not for
    `tail_time`, it is idle again.
    """

    promotion_power: Watts = as_written("0 W", "power while an idle radio gets ready")
    promotion_time: Seconds = as_written("0 s", "how long an idle radio takes to get ready")
    tail_power: Watts = as_written("0 W", "power once nothing is transferred, until it is idle")
    tail_time: Seconds = as_written("0 s", "from the last bit until it is idle")

    @property
    def as_states(self) -> States:
        """A tail, where it has one, and being idle."""
        idle = RadioStage(wake_time=self.promotion_time, wake_power=self.promotion_power)
        return States((RadioStage(self.tail_power, self.tail_time), idle))


LATENCY = "one-way delay, half of the round-trip time"

NO_DRAW = Draw()
ALWAYS_READY = Connection()

Tries = Annotated[int, Field(ge=1)] | Literal["unlimited"]
"""How often a packet is sent at most."""


class RadioLaw(KindFirst):
    """A client's radio. A user-defined one is a subclass with its `kind` and its `rates`.

    One that also inherits `Draw`, `Connection` or `Listening` has their keys, and draws what they
    say. All of these powers are beyond `idle`.
    """

    kind: str
    latency: Seconds = Field(description=LATENCY)
    idle: Watts = as_written("0 W", "power whenever the client is on")
    loss: AnyPacketLoss = as_written({"kind": "none"}, "how packets are lost")
    tries: Tries = as_written(
        UNLIMITED, 'how often a packet is sent at most; "unlimited" loses none for good'
    )

    @abstractmethod
    def rates(self, signals: Mapping[str, Signal]) -> Rates:
        """Return the rate laws of its two directions.

        Args:
            signals: what its `traces` say, by the same keys.
        """

    @property
    def traces(self) -> Mapping[str, Trace]:
        """The traces that it follows, by their keys in the block."""
        return {}

    @property
    def draw(self) -> Draw:
        """What it draws while it transfers."""
        return self if isinstance(self, Draw) else NO_DRAW

    @property
    def connection(self) -> Connection:
        """Its states beyond busy and idle."""
        return self if isinstance(self, Connection) else ALWAYS_READY

    @property
    def states(self) -> States:
        """What it does between two messages, stage by stage; powers are beyond that at rest."""
        return self.connection.as_states.above(self.waiting)

    @property
    def waiting(self) -> float:
        """The mean power at rest beyond `idle`, W: 0 unless it inherits `Listening`."""
        return self.mean if isinstance(self, Listening) else 0.0

    @property
    def resting(self) -> float:
        """Its power whenever the client is on, W: that of the last of its states.

        What it draws in any other state is beyond this, and never less.
        """
        return self.idle + self.waiting

    @property
    def packaging(self) -> Framing:
        """How a message is cut into packets, and what that adds."""
        return NONE

    @property
    def most_tries(self) -> int | None:
        """How often a packet is sent at most; None for as often as it takes."""
        return None if self.tries == UNLIMITED else int(self.tries)

    @property
    def transmissions(self) -> float:
        """How often a packet is sent, on average."""
        return self.loss.expected_transmissions(self.most_tries)


class PacketRadio(RadioLaw):
    """A radio whose transport frames packets."""

    framing: Bytes = as_written("0 B", "what the transport adds to every packet")
    packet: Bytes = as_written("1500 B", "the largest packet, framing included")

    @property
    def packaging(self) -> Framing:
        """How a message is cut into packets, and what that adds."""
        return framing(int(self.framing), int(self.packet))

    @model_validator(mode="after")
    def _packets_carry_something(self) -> Self:
        if self.packet <= self.framing:
            text = (
                f'got "{self.packet:g} B" with {self.framing:g} B of framing in it, which leaves'
                f" no room; give {self.framing + 1:g} B or more"
            )
            raise failure(("packet", text, self.packet))
        return self


class RadioPowers(NamedTuple):
    """The powers of one kind of radio, beyond what it draws at rest.

    Pairs are (down, up).

    Attributes:
        held: while a message is in progress in either direction, W.
        per_bit: the energy of a bit, J/bit.
        on_air: while bits are on the air, beyond `held`, W.
    """

    held: float
    per_bit: tuple[float, float]
    on_air: tuple[float, float]


def powers_of(law: RadioLaw) -> RadioPowers:
    """Return the powers of a radio.

    Example:
        >>> from fedsim.physics.radios import Radio
        >>> powers = powers_of(Radio.model_validate({"kind": "wifi-6"}))
        >>> powers.held, [round(watts, 3) for watts in powers.on_air]
        (0.141, [0.222, 1.599])
    """
    draw, rest = law.draw, law.waiting
    per_bit = draw.energy_down, draw.energy_up
    base = max(draw.base - rest, 0.0)
    if not (draw.send or draw.receive):
        return RadioPowers(base, per_bit, (0.0, 0.0))
    held = max(base, law.states.stages[0].power if law.states.stateful else 0.0)
    down, up = (max(draw.base + own - rest - held, 0.0) for own in (draw.receive, draw.send))
    return RadioPowers(held, per_bit, (down, up))
