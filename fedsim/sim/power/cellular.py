"""Cellular radios: promotion before the first byte, and the stages after the last one."""

from math import inf, nan

from fedsim.record.log import EventLog
from fedsim.record.rounds import Traffic
from fedsim.record.schema import NO_PEER, Event
from fedsim.sim.engine.calendar import SETTLE, Calendar
from fedsim.sim.power.radio import RadioKind, RadioMeter
from fedsim.sim.power.supply import Supply


class CellularRadio(RadioMeter):
    """A radio that is promoted when it was at rest, and goes back to it stage by stage.

    Huang et al., MobiSys 2012: it is idle, is promoted, and is connected; while it is connected
    and no bits flow it draws tail power, and after `tail_time` of that it is idle. There may be
    more stages than that tail, see `fedsim.physics.radios.base`. A message under way holds the
    first one; one that waits until the radio hears of it does not.
    """

    __slots__ = (
        "_armed",
        "_calendar",
        "_log",
        "_node",
        "_ready",
        "_rest",
        "_round",
        "_since",
        "_stage",
        "_states",
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
    ) -> None:
        super().__init__(kind, supply)
        self._states = kind.law.states
        self._node = node
        self._calendar = calendar
        self._log = log
        self._traffic = traffic
        self._round = 0  # of the last message
        self._rest = self._stage = len(self._states.stages) - 1
        # Since when it is in its stage and no bits flow. It can be heard as the run begins.
        self._since = -self._states.stages[self._rest].cycle
        self._waking = False  # out of its stage
        self._ready = 0.0  # waking: until when
        self._turn = 0  # what was scheduled in an earlier turn is stale
        self._armed = False

    def reception_time(self, now: float) -> float:
        """Return when it hears of a message that is there for it now."""
        return now if self._waking else self._states.reception_time(self._stage, self._since, now)

    def wake(self, now: float, round_number: int) -> float:
        """Return when it is ready: promoted, where it was at rest."""
        self._round = round_number
        if self._waking:
            return self._ready
        if not self._stage:
            return now
        resting = self._stage == self._rest
        wake_time = self._states.stages[self._stage].wake_time
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
        self.feed()
        return self._ready

    def _promote(self, turn: int) -> None:
        if turn == self._turn:
            self._log_promotion()
            self._book()
            self._waking = False
            self._connect()

    def _connect(self) -> None:
        """Wait, connected, for bits."""
        self._stage = 0
        self._since = self._calendar.now
        if not self._armed:
            self._await_expiry(self._since)
        self.feed()

    def _await_expiry(self, since: float) -> None:
        # Last in its instant: a message at the very end of the tail still finds it connected.
        self._armed = True
        due = max(since + self._states.stages[self._stage].time, self._calendar.now)
        self._calendar.call(due, self._expire, self._turn, SETTLE)

    def _expire(self, turn: int) -> None:
        """Go on, unless there was traffic meanwhile: then look again when that has expired."""
        if turn != self._turn:
            return
        self._armed = False
        if min(self.began) < inf:
            return  # the end of that will arm it again
        if self._calendar.now < self._since + self._states.stages[self._stage].time:
            self._await_expiry(self._since)
        elif self._stage + 1 == self._rest:
            self.off()
        else:
            self._log_stage()
            self._book()
            self._stage += 1
            self._since = self._calendar.now
            self._await_expiry(self._since)
            self.feed()

    def begin(self, up: bool, rate: float) -> None:  # noqa: FBT001
        """Let bits flow in one direction from now on; the wait for them is over."""
        if not self._flowing and not self._waking:  # a promotion may end in this instant, later
            self._log_stage()
            if self._stage != self._rest:
                self._book()
        super().begin(up, rate)

    def rest(self, up: bool) -> None:  # noqa: FBT001
        """Take note that one direction has nothing under way: perhaps the tail begins."""
        flowed = self._flowing
        super().rest(up)
        if not self._waking and self._stage != self._rest and not self._flowing:
            if flowed:
                self._connect()
            elif not self._armed:  # it waited for bits that will not come: the tail goes on
                self._await_expiry(self._since)

    def off(self) -> None:
        """Go to rest now."""
        if self._waking:
            self._log_promotion()
        elif self._stage != self._rest and not self._flowing:
            self._log_stage()
        if self._waking or self._stage != self._rest:
            self._since = self._calendar.now
        self._waking = False
        self._stage = self._rest
        self._armed = False
        self._turn += 1
        super().off()

    def _log_promotion(self) -> None:
        wake_time = self._states.stages[self._stage].wake_time
        self._log_state(Event.PROMOTION, self._ready - wake_time)

    def _log_stage(self) -> None:
        """Write down the stage in which it waits, up to now; its rest is not."""
        if self._stage != self._rest:
            name = self._states.stages[self._stage].name
            self._log_state(Event.TAIL, self._since, self._log.word(name) if name else -1)

    def _log_state(self, event: Event, since: float, detail: int = -1) -> None:
        """Meter and write down the time in a state, up to now."""
        now = self._calendar.now
        watts = self._state_power
        if now > since:
            joules = watts * (now - since)
            self.joules += joules
            self._traffic.joules += joules
            charge = nan if self.supply is None else self.supply.share
            self._log.append(
                now,
                now - since,
                event,
                self._node,
                NO_PEER,
                self._round,
                joules=joules,
                state_of_charge=charge,
                detail=detail,
            )

    @property
    def _state_power(self) -> float:
        stage = self._states.stages[self._stage]
        return stage.wake_power if self._waking else stage.power

    @property
    def power(self) -> float:
        """What it draws now beyond what it draws at rest, W."""
        return super().power if self._flowing else self._state_power
