"""Radios: metered energy of both directions, and of the states between messages."""

from collections.abc import Sequence
from math import inf, nan

from fedsim.physics.radios.stages import reception_time
from fedsim.physics.signals import Signal
from fedsim.results.record.log import EventLog
from fedsim.results.record.rounds import Traffic
from fedsim.results.record.schema import NO_PEER, Event
from fedsim.sim.engine.calendar import SETTLE, Calendar
from fedsim.sim.power.airtime import Airtime
from fedsim.sim.power.radio_kind import Pair, RadioKind
from fedsim.sim.power.supply import Part, Supply
from fedsim.sim.power.unsettled import OpenLoads

_BITS = 1, 2
_NOTHING: Pair = (0.0, 0.0)


def _with(pair: Pair, up: bool, value: float) -> Pair:
    """Return a pair with a value in one place; the same pair if it has that value already."""
    if pair[up] == value:
        return pair
    return (pair[0], value) if up else (value, pair[1])


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
    """

    __slots__ = (
        "_airtimes",
        "_flowing",
        "_held",
        "_in_vain",
        "_kind",
        "_paid_until",
        "_per_bit",
        "_rates",
        "began",
        "detached",
        "joules",
        "law",
        "supply",
    )

    def __init__(self, kind: RadioKind, supply: Supply | None = None) -> None:
        self.law = kind.law
        self.supply = supply
        self.detached = supply is None and kind.detached
        self.began = [inf, inf]
        self.joules = 0.0
        self._kind = kind
        self._held = kind.powers.held
        self._per_bit = kind.per_bit
        self._rates = _NOTHING
        self._airtimes: list[Airtime | None] | None = None  # of messages whose rate is a signal
        self._flowing = 0  # bit mask: 1 for bits down, 2 for bits up
        self._paid_until = 0.0
        self._in_vain = 0.0  # collisions of a message that ends at this instant, J

    def begin_as(self, began: list[float], joules: float, paid_until: float, flowing: int) -> None:
        """Take over the state of another meter; see the attributes."""
        self.began, self.joules = began, joules
        self._paid_until, self._flowing = paid_until, flowing

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
            self._per_bit = _with(self._per_bit, up, joules)

    def spend_on_air(self, up: bool, seconds: float) -> None:
        """Meter the time on the air of collisions of a message that ends now, s."""
        if joules := self._kind.powers.on_air[up] * seconds:
            if self.supply is not None:
                joules = self.supply.spend(Part.RADIO, joules)
            self._in_vain += joules

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

    def begin(self, up: bool, rate: float) -> None:
        """Start bits in one direction.

        Args:
            up: the direction.
            rate: their rate, bit/s; 0 if `change` reports it at the end of the instant.
        """
        self._flowing |= _BITS[up]
        if self.supply is not None:  # without a battery nothing needs the present power
            # An instantaneous message draws no power.
            self._rates = _with(self._rates, up, rate if rate < inf else 0.0)
            self.update_load()

    def change(self, up: bool, rate: float, now: float) -> None:
        """Apply a change of the rate of bits, or of the rate that the radio alone would allow."""
        if self._airtimes is not None and (airtime := self._airtimes[up]) is not None:
            airtime.change(now, rate)
            self._rates = _with(self._rates, up, rate)
            self.update_load()
        elif self.supply is not None and self._rates[up] != rate:
            self._rates = _with(self._rates, up, rate)
            self.update_load()

    def end(self, now: float, bits: float, up: bool) -> float:
        """Meter a message whose last bit has passed; return its energy, J."""
        # The radio is connected over the union of the spans of all messages. The unpaid part of it
        # up to now is one interval: it starts where the earlier of the two messages in progress
        # began, or at the end of the last payment, whichever is later. It has no gaps: while
        # nothing is in progress both `began` are infinite, and the next message sets its own. So
        # one `_paid_until` serves both directions, and the message that ends first pays for time
        # that two messages share.
        #
        # Comparisons instead of min and max: this runs twice per client and round.
        on, other = began = self.began  # bits of both directions flow until now
        if other < on:  # noqa: PLR1730
            on = other
        if on < self._paid_until:  # noqa: PLR1730
            on = self._paid_until
        joules = self._per_bit[up] * bits
        if on < now:
            joules += self._held * (now - on)
        if self._airtimes is not None:
            joules += self._joules_on_air(up, now)
        if self._in_vain:
            joules += self._in_vain
            self._in_vain = 0.0
        self._paid_until = now
        began[up] = inf
        self.joules += joules
        return joules

    def unsettled(self, now: float, passed: Sequence[float]) -> float:
        """Return what `end` would charge now for messages in progress, J.

        Args:
            now: the time, s.
            passed: the bits that have passed, down and up.
        """
        joules = self._per_bit[0] * passed[0] + self._per_bit[1] * passed[1]
        on = max(min(self.began), self._paid_until)
        if on < now:
            joules += self._held * (now - on)
        if self._airtimes is not None:
            for watts, airtime in zip(self._kind.powers.on_air, self._airtimes, strict=True):
                joules += 0.0 if airtime is None else watts * airtime.until(now)
        return joules

    def spend_again(self, up: bool, bits: float) -> float:
        """Meter bits that TCP has retransmitted, at once; return their energy, J.

        No rate has reported them, since lost bits never arrived. A battery that holds less supplies
        what it has.
        """
        joules = self._per_bit[up] * bits
        if self.supply is not None:
            joules = self.supply.spend(Part.RADIO, joules)
        self.joules += joules
        return joules

    def _joules_on_air(self, up: bool, now: float) -> float:
        """Return the energy on the air of a completed message whose rate was a signal, J."""
        if self._airtimes is None or (airtime := self._airtimes[up]) is None:
            return 0.0
        self._airtimes[up] = None
        return self._kind.powers.on_air[up] * airtime.until(now)

    def mark_idle(self, up: bool) -> None:
        """Mark one direction as idle."""
        flowed = self._flowing
        self.began[up] = inf
        self._flowing &= ~_BITS[up]
        self.update_load()
        # Not while the other direction is active: the meter counts a message at its end.
        if flowed and not self._flowing:
            self._book()

    def switch_off(self) -> None:
        """Leave all states: the radio has lost its network, or its power."""
        self.update_load()
        self._book()

    @property
    def power(self) -> float:
        """The present power beyond idle power, W."""
        watts = self._held if self._flowing else 0.0
        for up, bit in enumerate(_BITS):
            if self._flowing & bit:
                # Energy per bit is power at the present rate. It includes the time on air of a
                # constant rate (`RadioKind.per_bit`); that of a varying rate is added below.
                watts += self._per_bit[up] * self._rates[up]
                if self._airtimes is not None and (airtime := self._airtimes[up]) is not None:
                    watts += self._kind.powers.on_air[up] * airtime.share
        return watts

    def _book(self) -> None:
        """Settle with the battery, at an instant at which the meter is complete."""
        if self.supply is not None:
            self.supply.book(Part.RADIO, self.joules)

    def update_load(self) -> None:
        """Update the load of the battery to the present power."""
        if self.supply is not None:
            self.supply.set(Part.RADIO, self.power)


# Stateful radios: promotion before the first byte, and the stages after the last one.


class CellularRadio(RadioMeter):
    """A radio that is promoted when idle, and becomes idle again stage by stage.

    Huang et al., MobiSys 2012: an idle radio is promoted, and is then connected. While it is
    connected without bits it draws tail power, and after `tail_time` it is idle. Other radios have
    more stages than one tail; see `fedsim.physics.radios.base`. A message in progress keeps the
    radio in the first stage; a message that waits until the radio can be reached does not.
    """

    # The radio is in a stage, or waking up from one, or transfers bits. Three rules keep the
    # account correct:
    #
    # - Each span in a stage is metered and logged once, at its end: as bits begin to flow, as the
    #   radio wakes up, or as the stage expires. `_since` is the start of the span, which `_connect`
    #   sets.
    # - The end of a stage is scheduled once. When its timer expires, it checks for traffic since
    #   then, and is postponed to the end of the time that began with the last bit. One timer per
    #   message would mean millions of timers, nearly all of them cancelled.
    # - Every timer carries the turn in which it was scheduled. A turn ends when the radio is woken
    #   or switched off; timers of older turns do nothing.

    __slots__ = (
        "_armed",
        "_calendar",
        "_last_stage",
        "_loads",
        "_log",
        "_node",
        "_open",
        "_ready",
        "_round",
        "_since",
        "_stage",
        "_stages",
        "_traffic",
        "_turn",
        "_waking",
    )

    def __init__(
        self,
        kind: RadioKind,
        node: int,
        supply: Supply | None,
        calendar: Calendar,
        log: EventLog,
        traffic: Traffic,
        loads: OpenLoads,
    ) -> None:
        super().__init__(kind, supply)
        self._stages = kind.law.states.stages
        self._node = node
        self._calendar = calendar
        self._log = log
        self._traffic = traffic
        self._loads, self._open = loads, -1  # the number of its open load; -1 without one
        self._round = 0  # of the last message
        self._last_stage = self._stage = len(self._stages) - 1
        # Start of the time in its stage without bits. It can be reached as the run begins.
        self._since = -self._stages[self._last_stage].cycle
        self._waking = False  # from its stage
        self._ready = 0.0  # the end of waking up, s
        self._turn = 0  # timers of earlier turns are stale
        self._armed = False  # whether the timer of the stage is set

    def begin_in(self, *, resting: bool, since: float, ready: float, round_number: int) -> None:
        """Start in the last stage or in the first one; wake up until `ready` if that is finite."""
        self._stage = self._last_stage if resting else 0
        self._since, self._round = since, round_number
        self._waking, self._ready = ready < inf, ready

    def reception_time(self, now: float) -> float:
        """Return when the radio can be reached by a message that is ready now, s."""
        return now if self._waking else reception_time(self._stages, self._stage, self._since, now)

    def wake(self, now: float, round_number: int) -> float:
        """Return when the radio is ready, s: after a promotion, if it is idle."""
        self._round = round_number
        if self._waking:
            return self._ready
        if not self._stage:
            return now
        resting = self._stage == self._last_stage
        wake_time = self._stages[self._stage].wake_time
        if not resting:
            self._log_stage()
            self._book()
        self._turn += 1
        self._armed = False
        if not (resting or wake_time):
            self._connect()
            return now
        self._waking = True
        self._ready = now + wake_time
        self._calendar.call(self._ready, self._promote, self._turn)
        self.update_load()
        return self._ready

    def _promote(self, turn: int) -> None:
        if turn == self._turn:
            self._log_promotion()
            self._book()
            self._waking = False
            self._connect()

    def _connect(self) -> None:
        """Enter the first stage, without bits."""
        self._stage = 0
        self._since = self._calendar.now
        if not self._armed:
            self._await_expiry(self._since)
        self.update_load()

    def _await_expiry(self, since: float) -> None:
        # Last in its instant: a message at the very end of the tail still finds it connected.
        self._armed = True
        due = max(since + self._stages[self._stage].time, self._calendar.now)
        self._calendar.call(due, self._expire, self._turn, SETTLE)

    def _expire(self, turn: int) -> None:
        """End a stage; if there was traffic meanwhile, wait for the end of the new span instead."""
        if turn != self._turn:
            return
        self._armed = False
        if min(self.began) < inf:
            return  # the end of the message sets the timer again
        if self._calendar.now < self._since + self._stages[self._stage].time:
            self._await_expiry(self._since)
        elif self._stage + 1 == self._last_stage:
            self.switch_off()
        else:
            self._log_stage()
            self._book()
            self._stage += 1
            self._since = self._calendar.now
            self._await_expiry(self._since)
            self.update_load()

    def begin(self, up: bool, rate: float) -> None:
        """Start bits in one direction; the span without bits ends."""
        # While waking, the promotion of this same instant is still to come, and logs the span.
        if not self._flowing and not self._waking:
            self._log_stage()
            if self._stage != self._last_stage:
                self._book()
        super().begin(up, rate)
        self.update_load()

    def mark_idle(self, up: bool) -> None:
        """Mark one direction as idle; the tail may begin."""
        flowed = self._flowing
        super().mark_idle(up)
        if not self._waking and self._stage != self._last_stage and not self._flowing:
            if flowed:
                self._connect()
            elif not self._armed:  # its message was aborted before its bits: the tail continues
                self._await_expiry(self._since)

    def switch_off(self) -> None:
        """Become idle now."""
        if self._waking:
            self._log_promotion()
        elif self._stage != self._last_stage and not self._flowing:
            self._log_stage()
        if self._waking or self._stage != self._last_stage:
            self._since = self._calendar.now
        self._waking = False
        self._stage = self._last_stage
        self._armed = False
        self._turn += 1
        super().switch_off()

    def update_load(self) -> None:
        """Update the load of the battery, and the open load of the state in which it waits."""
        super().update_load()
        if self._open >= 0:
            self._loads.end(self._open)
            self._open = -1
        stage, begin = self._stages[self._stage], self._loads.begin
        if self._waking:
            since = self._ready - stage.wake_time
            self._open = begin(self._node, since, stage.wake_power, self._ready, 0)
        elif self._flowing:
            # Its messages are charged by themselves. After them it enters the first stage.
            self._open = begin(self._node, inf, 0.0, -inf, 0)
        elif self._stage != self._last_stage:
            ends = self._since + stage.time
            self._open = begin(self._node, self._since, stage.power, ends, self._stage + 1)

    def _log_promotion(self) -> None:
        wake_time = self._stages[self._stage].wake_time
        self._log_state(Event.PROMOTION, self._ready - wake_time)

    def _log_stage(self) -> None:
        """Record the stage in which it waits, up to now; being idle has no rows."""
        if self._stage != self._last_stage:
            name = self._stages[self._stage].name
            self._log_state(Event.TAIL, self._since, self._log.word(name) if name else -1)

    def _log_state(self, event: Event, since: float, detail: int = -1) -> None:
        """Meter and record the time in a state, up to now."""
        now = self._calendar.now
        watts = self._state_power
        if now > since:
            joules = watts * (now - since)
            self.joules += joules
            self._traffic.joules += joules
            self._log.append(
                now,
                now - since,
                event,
                self._node,
                NO_PEER,
                self._round,
                joules=joules,
                state_of_charge=nan if self.supply is None else self.supply.share,
                detail=detail,
            )

    @property
    def _state_power(self) -> float:
        stage = self._stages[self._stage]
        return stage.wake_power if self._waking else stage.power

    @property
    def power(self) -> float:
        """Its power beyond idle power now, W."""
        return super().power if self._flowing else self._state_power
