"""Cellular radios: promotion before the first byte, and a tail after the last one."""

from enum import IntEnum
from math import inf, nan

from fedsim.physics.radios import RadioLaw
from fedsim.record.log import EventLog
from fedsim.record.rounds import Traffic
from fedsim.record.schema import NO_PEER, Event
from fedsim.sim.engine.calendar import SETTLE, Calendar
from fedsim.sim.power.radio import Radio
from fedsim.sim.power.supply import Supply


class State(IntEnum):
    """Where a radio is between two messages."""

    IDLE = 0
    PROMOTING = 1
    CONNECTED = 2


class CellularRadio(Radio):
    """A radio that is promoted when it was idle, and stays connected for a while.

    Huang et al., MobiSys 2012. The states are idle, promoting and connected; while it is
    connected and no bits flow it draws tail power, and after `tail_time` of that it is idle.
    A message under way holds the connection.
    """

    __slots__ = (
        "_armed",
        "_at",
        "_calendar",
        "_log",
        "_node",
        "_round",
        "_state",
        "_states",
        "_traffic",
        "_turn",
    )

    def __init__(
        self,
        law: RadioLaw,
        node: int,
        supply: Supply | None,
        calendar: Calendar,
        log: EventLog,
        traffic: Traffic,
        *,
        continuous: bool = True,
    ) -> None:
        super().__init__(law, supply, continuous=continuous)
        self._states = law.connection
        self._node = node
        self._calendar = calendar
        self._log = log
        self._traffic = traffic
        self._round = 0  # of the last message
        self._state = State.IDLE
        self._at = 0.0  # since when it is in its state and no bits flow; promoting: until when
        self._turn = 0  # what was scheduled in an earlier turn is stale
        self._armed = False

    def wake(self, now: float, round_number: int) -> float:
        """Return when it is ready: promoted, where it was idle."""
        self._round = round_number
        if self._state is State.CONNECTED:
            return now
        if self._state is State.IDLE:
            self._state = State.PROMOTING
            self._at = now + self._states.promotion_time
            self._turn += 1
            self._calendar.call(self._at, self._promoted, self._turn)
            self.feed()
        return self._at

    def _promoted(self, turn: int) -> None:
        if turn == self._turn:
            self._log_state(Event.PROMOTION, self._at - self._states.promotion_time)
            self._book()
            self._state = State.CONNECTED
            self._connect()

    def _connect(self) -> None:
        """Wait, connected, for bits."""
        self._at = self._calendar.now
        if not self._armed:
            self._armed = True
            self._await_expiry(self._at + self._states.tail_time)
        self.feed()

    def _await_expiry(self, due: float) -> None:
        # Last in its instant: a message at the very end of the tail still finds it connected.
        self._calendar.call(due, self._expire, self._turn, SETTLE)

    def _expire(self, turn: int) -> None:
        """Go idle, unless there was traffic meanwhile: then look again when that has expired."""
        if turn != self._turn:
            return
        self._armed = False
        if min(self.began) < inf:
            return  # the end of that will arm it again
        due = self._at + self._states.tail_time
        if self._calendar.now < due:
            self._armed = True
            self._await_expiry(due)
        else:
            self.off()

    def begin(self, up: bool, rate: float, share: float = 1.0) -> None:  # noqa: FBT001
        """Let bits flow in one direction from now on; the wait for them is over."""
        if not self._flowing:
            self._log_state(Event.TAIL, self._at)
            if self._state is State.CONNECTED:  # a promotion that ends just now is not metered yet
                self._book()
        super().begin(up, rate, share)

    def rest(self, up: bool) -> None:  # noqa: FBT001
        """Take note that one direction has nothing under way: perhaps the tail begins."""
        flowed = self._flowing
        super().rest(up)
        if self._state is State.CONNECTED and not self._flowing:
            if flowed:
                self._connect()
            elif not self._armed:  # it waited for bits that will not come: the tail goes on
                self._armed = True
                due = max(self._at + self._states.tail_time, self._calendar.now)
                self._await_expiry(due)

    def off(self) -> None:
        """Go idle now."""
        if self._state is State.PROMOTING:
            self._log_state(Event.PROMOTION, self._at - self._states.promotion_time)
        elif self._state is State.CONNECTED and not self._flowing:
            self._log_state(Event.TAIL, self._at)
        self._state = State.IDLE
        self._armed = False
        self._turn += 1
        super().off()

    def _log_state(self, event: Event, since: float) -> None:
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
            )

    @property
    def _state_power(self) -> float:
        if self._state is State.PROMOTING:
            return self._states.promotion_power
        return self._states.tail_power if self._state is State.CONNECTED else 0.0

    @property
    def power(self) -> float:
        """What it draws now beyond idle power, W."""
        return super().power if self._flowing else self._state_power
