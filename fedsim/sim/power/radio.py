"""Radios: metered energy of both directions, and of the states between messages."""

from collections.abc import Sequence
from math import inf

from fedsim.physics.radios.stages import reception_time
from fedsim.physics.signals import Signal
from fedsim.results.record.log import EventLog
from fedsim.results.record.rounds import Traffic
from fedsim.sim.engine.calendar import Calendar
from fedsim.sim.power import transitions
from fedsim.sim.power.airtime import Airtime
from fedsim.sim.power.radio_kind import Pair, RadioKind
from fedsim.sim.power.supply import Part, Supply
from fedsim.sim.power.transitions import replaced

_BITS = 1, 2
_NOTHING: Pair = (0.0, 0.0)

OpenState = tuple[int, float, float, float, int]
"""A state of a radio that is not charged yet: client, begin (s), power (W), the time at which it
ends by itself (s), and the index of the stage after it."""


class RadioMeter:
    """Meters the energy of a radio that may send and receive at once.

    Connected power is on while any message is in progress, and is paid once: each transfer pays, at
    its end, for the time that is not paid yet. Time on the air is paid per bit, at the radio's own
    rate, however long the transfer took. The sum is the exact integral of the power, however the
    two directions overlap; see `fedsim.physics.radios.base`.

    Attributes:
        law: the radio law.
        began: the times from which bits flow down, and up; possibly in the future; infinite if
            there are none.
        joules: the energy beyond idle power so far.
        supply: the battery, if any, whose load follows every change of the power.
        detached: whether messages use only `end` of this radio.
        flowing: the directions in which bits flow, a bit mask: 1 for down, 2 for up.
        held: the power while a message is in progress, W.
        per_bit: the energy of a bit, down and up, J/bit.
        rates: the rates of bits, down and up, bit/s; only with a battery or a varying rate.
        paid_until: the time until which `held` is paid, s.
        extras: whether messages may have been on the air for other times than their bits.
    """

    __slots__ = (
        "_airtimes",
        "_in_vain",
        "_kind",
        "began",
        "detached",
        "extras",
        "flowing",
        "held",
        "joules",
        "law",
        "paid_until",
        "per_bit",
        "rates",
        "supply",
    )

    stage = last = 0  # it has one stage
    waking = False

    def __init__(self, kind: RadioKind, supply: Supply | None = None) -> None:
        self.law = kind.law
        self.supply = supply
        self.detached = supply is None and kind.detached
        self.began = [inf, inf]
        self.joules = 0.0
        self._kind = kind
        self.held = kind.powers.held
        self.per_bit = kind.per_bit
        self.rates = _NOTHING
        self._airtimes: list[Airtime | None] | None = None  # of messages whose rate is a signal
        self.flowing = 0
        self.paid_until = 0.0
        self._in_vain = 0.0  # collisions of a message that ends at this instant, J
        self.extras = False

    def reception_time(self, now: float) -> float:
        """Return when the radio can be reached by a message that is ready now, s."""
        return now

    def wake(self, now: float, round_number: int) -> float:
        """Return when the radio can transfer a message that is ready now, s."""
        return now

    def set_airtime(self, up: bool, seconds: float, back: float = 0.0) -> None:
        """Set the time on the air of a bit of the next message, and of its answer, s."""
        powers = self._kind.powers
        # Also for a time of 0: the energy of the message before must not stay.
        if powers.on_air[up] or powers.on_air[not up]:
            joules = self._kind.bit_energy(up, seconds, back)
            self.per_bit = replaced(self.per_bit, up, joules)

    def spend_on_air(self, up: bool, seconds: float) -> None:
        """Meter the time on the air of collisions of a message that ends now, s."""
        if joules := self._kind.powers.on_air[up] * seconds:
            if self.supply is not None:
                joules = self.supply.spend(Part.RADIO, joules)
            self._in_vain += joules
            self.extras = True

    def follow_signal(self, up: bool, now: float, own: Signal | None) -> None:
        """Meter the time on air of a message whose bits begin to flow now.

        Args:
            up: the direction.
            now: the time, s.
            own: the rate of the radio alone, bit/s; None if nothing else limits the message.
        """
        if self._kind.powers.on_air[up]:
            if self._airtimes is None:
                self._airtimes = [None, None]
            self._airtimes[up] = Airtime(now, own)
            self.extras = True

    def change(self, up: bool, rate: float, now: float) -> None:
        """Apply a change of the rate of bits, or of the rate that the radio alone would allow."""
        if self._airtimes is not None and (airtime := self._airtimes[up]) is not None:
            airtime.change(now, rate)
            self.rates = replaced(self.rates, up, rate)
            self.update_load()
        elif self.supply is not None and self.rates[up] != rate:
            self.rates = replaced(self.rates, up, rate)
            self.update_load()

    begin, end = transitions.begin, transitions.end
    mark_idle, switch_off = transitions.mark_idle, transitions.switch_off
    set_rate, update_load, book = transitions.set_rate, transitions.update_load, transitions.book

    def add_extras(self, joules: float, now: float, up: bool) -> float:
        """Return the energy of a message with its time on air and collisions, J."""
        if self._airtimes is not None and (airtime := self._airtimes[up]) is not None:
            self._airtimes[up] = None
            joules += self._kind.powers.on_air[up] * airtime.until(now)
        joules += self._in_vain
        self._in_vain = 0.0
        return joules

    def unsettled(self, now: float, passed: Sequence[float]) -> float:
        """Return what `end` would charge now for messages in progress, J.

        Args:
            now: the time, s.
            passed: the bits that have passed, down and up.
        """
        joules = self.per_bit[0] * passed[0] + self.per_bit[1] * passed[1]
        on = max(min(self.began), self.paid_until)
        if on < now:
            joules += self.held * (now - on)
        if self._airtimes is not None:
            for watts, airtime in zip(self._kind.powers.on_air, self._airtimes, strict=True):
                joules += 0.0 if airtime is None else watts * airtime.until(now)
        return joules

    def spend_again(self, up: bool, bits: float) -> float:
        """Meter bits that TCP has retransmitted, at once; return their energy, J.

        No rate has reported them, since lost bits never arrived. A battery that holds less supplies
        what it has.
        """
        joules = self.per_bit[up] * bits
        if self.supply is not None:
            joules = self.supply.spend(Part.RADIO, joules)
        self.joules += joules
        return joules

    @property
    def power(self) -> float:
        """The present power beyond idle power, W."""
        watts = self.held if self.flowing else 0.0
        for up, bit in enumerate(_BITS):
            if self.flowing & bit:
                # Energy per bit is power at the present rate. It includes the time on air of a
                # constant rate (`RadioKind.per_bit`); that of a varying rate is added below.
                watts += self.per_bit[up] * self.rates[up]
                if self._airtimes is not None and (airtime := self._airtimes[up]) is not None:
                    watts += self._kind.powers.on_air[up] * airtime.share
        return watts


# Stateful radios: promotion before the first byte, and the stages after the last one.


class CellularRadio(RadioMeter):
    """A radio that is promoted when idle, and becomes idle again stage by stage.

    Huang et al., MobiSys 2012: an idle radio is promoted, and is then connected. While it is
    connected without bits it draws tail power, and after `tail_time` it is idle. Other radios have
    more stages than one tail; see `fedsim.physics.radios.base`. A message in progress keeps the
    radio in the first stage; a message that waits until the radio can be reached does not. See
    `fedsim.sim.power.transitions`.

    Args:
        kind, supply: see `RadioMeter`.
        node: the number of its client.
        calendar, log, traffic: the calendar, the event log, and the totals of costs.
        awake: radios that may not be idle, to which it adds itself as it is promoted.

    Attributes:
        node, calendar, log, traffic, awake: see above.
        stages: its stages.
        last: the index of the last one.
        stage: the index of its stage.
        since: the start of the time in its stage without bits, s.
        waking: whether it wakes up from its stage.
        ready: the end of waking up, s.
        turn: timers of earlier turns are stale.
        armed: whether the timer of the stage is set.
        round_number: the round of its last message.
    """

    __slots__ = (
        "armed",
        "awake",
        "calendar",
        "last",
        "log",
        "node",
        "ready",
        "round_number",
        "since",
        "stage",
        "stages",
        "traffic",
        "turn",
        "waking",
    )

    def __init__(
        self,
        kind: RadioKind,
        node: int,
        supply: Supply | None,
        calendar: Calendar,
        log: EventLog,
        traffic: Traffic,
        awake: dict["CellularRadio", None],
    ) -> None:
        super().__init__(kind, supply)
        self.node = node
        self.calendar = calendar
        self.log = log
        self.traffic = traffic
        self.awake = awake
        self.stages = kind.law.states.stages
        self.round_number = 0
        self.last = self.stage = len(self.stages) - 1
        # It can be reached as the run begins.
        self.since = -self.stages[self.last].cycle
        self.waking = False
        self.ready = 0.0
        self.turn = 0
        self.armed = False

    wake, promote, expire = transitions.wake, transitions.promote, transitions.expire

    def reception_time(self, now: float) -> float:
        """Return when the radio can be reached by a message that is ready now, s."""
        return now if self.waking else reception_time(self.stages, self.stage, self.since, now)

    @property
    def idle(self) -> bool:
        """Whether it is in its last stage."""
        return self.stage == self.last and not self.waking

    @property
    def open_state(self) -> OpenState:
        """The state in which it is, unless it is idle."""
        since, watts = transitions.state(self)
        if self.waking:
            return self.node, since, watts, self.ready, 0
        if self.flowing:
            # Its messages are charged by themselves. After them it enters the first stage.
            return self.node, inf, 0.0, -inf, 0
        until = self.since + self.stages[self.stage].time
        return self.node, since, watts, until, self.stage + 1

    @property
    def power(self) -> float:
        """Its power beyond idle power now, W."""
        return super().power if self.flowing else transitions.state(self)[1]
