"""Base class of radios: block, law, and power while messages are in progress.

Between two messages a radio is idle (`RadioLaw.resting`), or in an earlier stage (`States`). While
a message is in progress, from its first bit to its last, the radio is connected. Its bits are on
the air for a part of that time: as long as the radio's own rate requires. The message may take
longer because a link behind the radio is slow or shared.

A radio with powers per direction draws `send` or `receive` on the air, and connected power for the
rest of the message. Connected power is that of its first stage, such as a tail, or `base` if that
is more; on the air it draws no less than this. A radio without such a stage draws idle power while
it waits. A radio with energies per bit draws `base` all the time, which is its connected power
(Huang et al., MobiSys 2012, equation 1). Its energy depends on bits, not on time on the air.

With messages in both directions, connected power is drawn once. Each direction adds its power on
the air above that.
"""

from abc import abstractmethod
from collections.abc import Iterator, Mapping
from typing import Annotated, Literal, NamedTuple, Self

from pydantic import Field, model_validator

from fedsim.core.blocks.choice import failure
from fedsim.core.blocks.nature import Nature
from fedsim.core.blocks.quantities import UNLIMITED, Bytes, Fraction, JoulesPerBit, Seconds, Watts
from fedsim.core.blocks.spec import KindFirst, Spec, as_written
from fedsim.core.columns import choose, larger
from fedsim.physics.packet_loss import AnyPacketLoss
from fedsim.physics.radios.channel import NONE, Framing, framing
from fedsim.physics.radios.rates import Rates
from fedsim.physics.radios.stages import RadioStage, States
from fedsim.physics.radios.traces import Trace
from fedsim.physics.signals import Signal


def mean_power(on: float, off: float, time: float, cycle: float) -> float:
    """Return the mean power of a device that is on for `time` in each `cycle`, W.

    Without a cycle (0) it is always on.

    >>> mean_power(100.0, 20.0, 1.0, 4.0), mean_power(100.0, 20.0, 1.0, 0.0)
    (40.0, 100.0)
    """
    return off + (on - off) * time / cycle if cycle else on


def check_listening(radio: Spec, on: str, cycle: str) -> None:
    """Check that a radio listens in each cycle no longer than the cycle lasts.

    Args:
        radio: the radio.
        on: the name of the field with the listening time.
        cycle: the name of the field with the cycle, which is 0 if the radio always listens.

    Raises:
        ValidationError: it listens longer than the cycle.
    """
    seen, most = getattr(radio, on), getattr(radio, cycle)
    if 0 < most < seen:
        raise failure((on, f'got "{seen:g} s"; at most {cycle}, "{most:g} s"', seen))


class Draw(Spec):
    """The power of a radio while it transfers, in addition to its idle power.

    P = base + send + receive + energy_up * up rate + energy_down * down rate: `base` applies while
    a message is in progress, and `send` and `receive` while bits are on the air in their direction.
    The rates are the current ones (1 mW per Mbit/s is 1 nJ per bit).

    A message is on the air for its bits divided by the radio's own rate. If something else delays
    it, such as a slow link behind the radio, the radio draws connected power for the rest of its
    time (see the module's description). A radio can be described in two ways, which differ in the
    meaning of `base`. With energies per bit, `base` is the intercept of measured power over
    throughput, as in Huang et al., MobiSys 2012: the whole connected power at zero throughput. With
    `send` and `receive`, `base` is usually 0, since these are whole powers of states.
    """

    energy_up: JoulesPerBit = as_written("0 J/bit", "energy per bit sent")
    energy_down: JoulesPerBit = as_written("0 J/bit", "energy per bit received")
    base: Watts = as_written("0 W", "power while a message is in progress, at any rate")
    send: Watts = as_written("0 W", "additional power while sent bits are on the air")
    receive: Watts = as_written("0 W", "additional power while received bits are on the air")


class Listening(Spec):
    """The power of an idle radio, between two messages.

    The radio listens for a share of the time and sleeps otherwise: the share is 100 % for a
    receiver that is always on, and small for one that polls or wakes at agreed times. Only the mean
    power counts, `listening * listen + (1 - listening) * sleep`. The wait of a message until the
    radio listens is part of `latency`.
    """

    listen: Watts = as_written("0 W", "power while it listens, between messages")
    sleep: Watts = as_written("0 W", "power while it does not listen, between messages")
    listening: Fraction = as_written(
        "100 %", "share of the time between messages in which it listens"
    )

    @property
    def mean(self) -> float:
        """The mean power between messages, W."""
        return self.listening * self.listen + (1.0 - self.listening) * self.sleep


class Connection(Spec):
    """The states of a cellular radio besides busy and idle.

    Huang et al., "A Close Examination of Performance and Power Characteristics of 4G LTE Networks",
    MobiSys 2012. An idle radio is first promoted, while bits wait. Then it is connected. While no
    bits are transferred it draws `tail_power`, and after `tail_time` without bits it is idle again.
    """

    promotion_power: Watts = as_written("0 W", "power during the promotion of an idle radio")
    promotion_time: Seconds = as_written("0 s", "duration of the promotion of an idle radio")
    tail_power: Watts = as_written("0 W", "power after the last bit, until it is idle")
    tail_time: Seconds = as_written("0 s", "duration from the last bit until it is idle")

    @property
    def as_states(self) -> States:
        """The tail, and the idle stage after it."""
        idle = RadioStage(wake_time=self.promotion_time, wake_power=self.promotion_power)
        return States((RadioStage(self.tail_power, self.tail_time), idle))


LATENCY = "one-way delay, half of the round-trip time"

NO_DRAW = Draw()
ALWAYS_READY = Connection()

Tries = Annotated[int, Field(ge=1)] | Literal["unlimited"]
"""The largest number of transmissions of a packet."""


class RadioLaw(KindFirst):
    """A client's radio. A user-defined one is a subclass with its `kind` and its `rates`.

    A subclass that also inherits `Draw`, `Connection` or `Listening` has their keys and powers. All
    of these powers are in addition to `idle`.
    """

    kind: str
    latency: Seconds = Field(description=LATENCY)
    idle: Watts = as_written("0 W", "power whenever the client is on")
    loss: AnyPacketLoss = as_written({"kind": "none"}, "loss of packets")
    tries: Tries = as_written(
        UNLIMITED,
        'largest number of transmissions of a packet; with "unlimited" none is lost for good',
    )

    @abstractmethod
    def rates(self, signals: Mapping[str, Signal]) -> Rates:
        """Return the rate laws of its two directions.

        Args:
            signals: the signals of its `traces`, under the same keys.
        """

    def natures(self) -> Iterator[tuple[str, Nature]]:
        """Yield that its rates vary, that it loses packets, or that messages wait for it."""
        if self.traces:
            yield "", Nature(varies=f"{self.kind} follows a trace")
        if self.loss.mean:
            yield "", Nature(loses=f"{self.kind} loses packets")
        if self.traces or self.loss.mean:
            return
        if not all(rate.continuous and rate.constant for rate in self.rates({})):
            yield "", Nature(varies=f"{self.kind} has no constant rate")
        elif self.states.stages[0].name and not self.latency:
            # Without latency, waking the radio and the first bit of a message would coincide.
            yield "", Nature(waits=f"{self.kind} has no latency")

    @property
    def traces(self) -> Mapping[str, Trace]:
        """The traces that its rates follow, by their keys in the block."""
        return {}

    @property
    def draw(self) -> Draw:
        """The powers during transfers."""
        return self if isinstance(self, Draw) else NO_DRAW

    @property
    def connection(self) -> Connection:
        """The promotion and the tail of the radio."""
        return self if isinstance(self, Connection) else ALWAYS_READY

    @property
    def cellular(self) -> bool:
        """Whether it is an LTE or 5G radio, which may share a cell (`network.cell`)."""
        return False

    @property
    def states(self) -> States:
        """The stages between two messages, with powers relative to the idle power."""
        return self.connection.as_states.above(self.waiting)

    @property
    def unreachable(self) -> tuple[str, str]:
        """The key of a long sleep of the radio, and a sentence on it; else empty texts."""
        return "", ""

    @property
    def waiting(self) -> float:
        """The mean power between messages above `idle`, W: 0 unless it inherits `Listening`."""
        return self.mean if isinstance(self, Listening) else 0.0

    @property
    def resting(self) -> float:
        """The power in the last stage, W, which the radio draws at least while the client is on.

        All other stages draw this power or more.
        """
        return self.idle + self.waiting

    @property
    def packaging(self) -> Framing:
        """The division of a message into packets, with their headers."""
        return NONE

    @property
    def most_tries(self) -> int | None:
        """The largest number of transmissions of a packet; None for no limit."""
        return None if self.tries == UNLIMITED else int(self.tries)

    @property
    def transmissions(self) -> float:
        """The mean number of transmissions of a packet."""
        return self.loss.expected_transmissions(self.most_tries)


class PacketRadio(RadioLaw):
    """A radio whose transport divides messages into packets with headers."""

    framing: Bytes = as_written("0 B", "header bytes of the transport in every packet")
    packet: Bytes = as_written("1500 B", "the largest packet, framing included")

    @property
    def packaging(self) -> Framing:
        """The division of a message into packets, with their headers."""
        return framing(int(self.framing), int(self.packet))

    @model_validator(mode="after")
    def _packets_carry_something(self) -> Self:
        if self.packet <= self.framing:
            text = (
                f'got "{self.packet:g} B" with {self.framing:g} B of framing, which leaves no'
                f" room; give {self.framing + 1:g} B or more"
            )
            raise failure(("packet", text, self.packet))
        return self


# The powers of a radio. Each is a number, or an array where the figures of a radio are arrays.


class RadioPowers(NamedTuple):
    """The powers of one kind of radio, in addition to idle power.

    Pairs are (down, up).

    Attributes:
        held: while a message is in progress in either direction, W.
        per_bit: the energy per bit, J/bit.
        on_air: while bits are on the air, in addition to `held`, W.
    """

    held: float
    per_bit: tuple[float, float]
    on_air: tuple[float, float]


def awake_power(law: RadioLaw) -> float:
    """Return the power of the first stage above that at rest, W; 0 if the radio has no stages."""
    power: float = choose(law.states.stateful, law.states.stages[0].power, 0.0)
    return power


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
    # The power at rest is charged at all times, so only what exceeds it is added here.
    base = larger(draw.base - rest, 0.0)
    by_state = (draw.send > 0) | (draw.receive > 0)
    # A radio with powers by state stays in its first stage while a message is in progress.
    held = choose(by_state, larger(base, awake_power(law)), base)
    down, up = (
        choose(by_state, larger(draw.base + own - rest - held, 0.0), 0.0)
        for own in (draw.receive, draw.send)
    )
    return RadioPowers(held, per_bit, (down, up))
