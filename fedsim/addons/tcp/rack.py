"""Sender of Linux: losses are detected by the order of sending, and at the tail by a probe.

RFC 8985 (RACK-TLP): a segment is lost if a segment sent after it has arrived, and the latest round
trip has passed since it was sent. This covers retransmissions, too. As long as fewer than three
segments are out of order, a quarter of the minimum round trip is added. If no acknowledgement
arrives for two round trips, or for a timeout if that is less, the sender sends one more segment as
a probe. Its acknowledgement reveals losses before the timer expires.

A spurious timeout is undone. The echo of an earlier timestamp shows it (RFC 3522), or the arrival
of segments that were not retransmitted (F-RTO, RFC 5682). Losses are repaired at the pace of PRR
(RFC 6937).
"""

from collections.abc import Callable, Iterator
from heapq import heappop, heappush
from math import inf

from fedsim.addons.tcp.congestion import TICK
from fedsim.addons.tcp.receiver import Acknowledgement
from fedsim.addons.tcp.scoreboard import DUPLICATES, Scoreboard
from fedsim.addons.tcp.sender import CLOSE, Congestion, Sender
from fedsim.addons.tcp.window import Window

REORDERING = 1 / 4
"""Reordering window, in minimum round trips: RFC 8985."""

PROBE = 2.0
"""Time to a probe, in round trips: RFC 8985."""

GRAIN = 0.002
"""Added to the time of a probe, s: Linux's shortest timer. If a single segment is in flight, whose
acknowledgement may be delayed, the least timeout is added instead."""

AT_ONCE = 1e-9
"""Times closer than this are equal, s: they differ by rounding."""

_UNHARMED = (Congestion.OPEN, Congestion.DISORDER)

Order = tuple[int, int]
"""Order of sending: the last new segment sent by then, and the number of retransmissions by
then."""


class RackScoreboard(Scoreboard):
    """Scoreboard with the time and order in which segments were sent.

    Attributes:
        now: the present time, s.
        least_trip: the minimum round trip, s: an acknowledgement that is faster belongs to an
            earlier transmission.
        sent: the time at which each segment was last sent, s.
        trip: the round trip of the arrived segment that was sent last, s.
        found: the number of losses detected so far.
        repeated: segments that were ever retransmitted.
    """

    __slots__ = (
        "_delivered",
        "_orders",
        "_sent_again",
        "_to_repair",
        "found",
        "least_trip",
        "now",
        "repeated",
        "sent",
        "trip",
    )

    def __init__(self) -> None:
        super().__init__()
        self._orders: dict[int, Order] = {}  # of retransmissions under way
        self._sent_again = 0
        self._to_repair: list[int] = []  # a heap; may hold stale entries
        self._delivered: Order = (-1, 0)  # order of the last sent segment that has arrived
        self.now = self.least_trip = self.trip = 0.0
        self.sent: list[float] = []
        self.found = 0
        self.repeated = set[int]()

    def send_again(self, number: int) -> None:
        """Record a retransmission."""
        super().send_again(number)
        self._sent_again += 1
        self._orders[number] = (self.next - 1, self._sent_again)
        self.repeated.add(number)
        self.sent[number] = self.now

    def take(self, number: int) -> bool:
        """Record a segment that has arrived out of order; return whether that is news."""
        if number < self.first or number in self._arrived:
            return False
        self._deliver(number)
        self._arrived.add(number)
        self._lost.discard(number)
        self.again.discard(number)
        return True

    def acknowledge(self, number: int) -> tuple[int, bool]:
        """Record that all segments before one have arrived; see the base class."""
        # Without retransmissions the last segment was sent last, so that it alone decides.
        if self.again:
            for index in range(self.first, number):
                if index not in self._arrived:
                    self._deliver(index)
        elif number - 1 not in self._arrived:
            self._deliver(number - 1)
        return super().acknowledge(number)

    def advance(self, number: int) -> None:
        """Record that all segments before one have arrived, if the board is clean."""
        self.first = number

    @property
    def early(self) -> int:
        """The number of segments that have arrived out of order."""
        return len(self._arrived)

    def is_first_news(self, number: int) -> bool:
        """Return whether a segment was never retransmitted and is not known to have arrived."""
        return number not in self._arrived and number not in self.repeated

    def lose_none(self) -> None:
        """Clear all marks of losses and retransmissions."""
        self._lost.clear()
        self._to_repair.clear()
        self._edge = 0
        self.again.clear()
        self._orders.clear()

    def lose_late(self) -> None:
        """Mark the first segment, and all that had the time to arrive, as lost."""
        latest = self.now - self.trip + AT_ONCE
        for number in range(self.first, self.next):
            late = number == self.first or self.sent[number] <= latest
            if late and number not in self._arrived and not self._waits_for_repair(number):
                self._lose(number)

    def first_unknown(self) -> None:
        """Return None: segments not known to be lost are left to the probe or the timer."""

    def find_lost(self, patience: float) -> float:
        """Mark overtaken segments as lost that had the time to arrive.

        Args:
            patience: the time granted beyond the latest round trip, s.

        Returns:
                When the last of the other overtaken segments counts as lost, s; inf if there are
                none.
        """
        due, last = self.trip + patience, -inf
        latest = self.now - due + AT_ONCE
        edge = max(self._edge, self._end)
        # A list, since losses change the sets that the generator iterates over.
        for number in list(self._overtaken()):
            sent = self.sent[number]
            if sent <= latest:
                self._lose(number)
            else:
                last = max(last, sent + due)
                # Segments below `edge` were all judged; an undecided one keeps the edge down.
                edge = min(edge, number)
        self._edge = max(self._edge, edge)
        return last if last > 0 else inf

    def _overtaken(self) -> Iterator[int]:
        """Yield segments under way that were sent before one that has arrived."""
        newest, again = self._delivered, self.again
        # Retransmissions are compared by order of sending, first transmissions by number.
        for number in again:
            if self._orders[number] < newest:
                yield number
        for number in range(max(self._edge, self.first), self._end):
            if not (number in self._arrived or number in self._lost or number in again):
                yield number

    @property
    def _end(self) -> int:
        """The number below which segments were first sent before the last sent arrived one."""
        number, again = self._delivered
        return number + (again > 0)

    def _waits_for_repair(self, number: int) -> bool:
        return number in self._lost and number not in self.again

    def _lose(self, number: int) -> None:
        self.again.discard(number)
        self._lost.add(number)
        heappush(self._to_repair, number)
        self.found += 1

    def first_lost(self) -> int | None:
        """Return the first lost segment that was not retransmitted."""
        heap = self._to_repair
        while heap:
            if self._waits_for_repair(heap[0]):
                return heap[0]
            heappop(heap)
        return None

    def _deliver(self, number: int) -> None:
        order = self._orders.pop(number, (number, 0))
        trip = self.now - self.sent[number]
        # RFC 8985, section 6.2, step 2: an acknowledgement of a retransmission that comes too early
        # may belong to the first transmission. It is ignored.
        if order > self._delivered and (not order[1] or trip + TICK > self.least_trip):
            self._delivered, self.trip = order, trip


class RackSender(Sender):
    """The Linux sender of one message; see the base class."""

    __slots__ = (
        "_doubts",
        "_late_at",
        "_only_new",
        "_overtaken_by",
        "_probe",
        "_probed",
        "_retries",
        "_sent_again_at",
        "_unsure",
        "board",
    )

    make_board = RackScoreboard
    board: RackScoreboard

    def __init__(self, window: Window, total: int, launch: Callable[[int, float], None]) -> None:
        super().__init__(window, total, launch)
        self._late_at = inf  # expiry of the timer of RFC 6298, s
        self._probe = inf  # time of the next probe, s
        self._unsure = 0  # a timeout was undone: segments below may be lost after all
        self._probed = False  # whether a probe was sent since the last acknowledgement
        self._sent_again_at = -inf  # start of the present repair, s
        self._overtaken_by = inf  # time at which overtaken segments count as lost, s
        self._retries = 0  # timeouts since the last new acknowledgement
        self._doubts = False  # whether the last timeout may have been spurious (F-RTO)
        self._only_new = False  # whether only new segments are sent now, to find out

    @property
    def steady(self) -> bool:
        """Whether no loss is known, no repair is pending, and no loss was dismissed."""
        board = self.board
        return self._state is Congestion.OPEN and board.clean and board.first >= self._unsure

    # Sending.

    def begin(self, count: int, now: float) -> None:
        """Record new segments that are sent at once."""
        self.board.sent += [now] * count
        super().begin(count, now)

    def send(self, now: float) -> None:
        """Send what the window allows: lost segments first, then new ones."""
        board, window = self.board, self._window
        board.now = now
        while window.size - board.flight >= 1 - CLOSE:
            # F-RTO sends two new segments before it retransmits more.
            number = None if self._only_new else board.first_lost()
            if number is None:
                if board.next >= self._total:
                    break
                number = board.next
            self._send_one(number, now)
        self._only_new = False

    def _send_one(self, number: int, now: float) -> None:
        board = self.board
        board.now = now
        if number == board.next:
            board.sent.append(now)
        elif number == board.first and self._state is not Congestion.OPEN:
            self.deadline = inf  # a retransmission of the first segment restarts the timer
        super()._send_one(number, now)

    def arm(self, now: float) -> None:
        """Start the timer, or postpone the probe, which follows the last sent segment."""
        board, timeout = self.board, self._window.timeout
        if self.deadline == inf:
            self._late_at = now + timeout
        elif self._probe < inf and self._state is Congestion.OPEN:
            self._late_at = board.sent[board.first] + timeout
        else:
            return
        self._set_timer(now)

    # Acknowledgements.

    def acknowledge(self, acknowledgement: Acknowledgement, now: float) -> None:
        """Process an acknowledgement."""
        board, window = self.board, self._window
        number, early, echo = acknowledgement
        first, losses_before = board.first, board.found
        if number < first:
            return
        board.now, board.least_trip = now, window.least_trip
        if number > first:
            timed = max(first, self._timed)
            if timed < number and timed not in board.again:
                window.measure(echo, now)
                window.restore_timeout()
        was_early = self._was_early(acknowledgement)
        news = early >= 0 and board.take(early)
        delivered = int(news)
        if number > first:
            delivered += board.acknowledge(number)[0]
            self._retries = 0
        if was_early:
            self._undo()
        self._change_state(advanced=number > first, news=news)
        due = self._look_for_losses()
        if self._state in _UNHARMED and board.first_lost() is not None:
            self._begin_repair(delivered, now)
            return
        self._pace(number - first, delivered, now, more=board.found > losses_before)
        if due < inf:
            self._overtaken_by = self.deadline = min(due + GRAIN, now + window.timeout)
            self._probe = inf
        elif number > first or (news and board.sent[early] < board.sent[number]):
            self._restart_timer(now)

    def _was_early(self, acknowledgement: Acknowledgement) -> bool:
        """Return whether an acknowledgement shows that the last timeout was spurious.

        It acknowledges what was sent before the timeout, or what was not retransmitted since.
        """
        board = self.board
        number, early, echo = acknowledgement
        if self._state is not Congestion.LOSS:
            return False
        # RFC 3522: the echoed timestamp is older than the retransmission.
        if number > board.first and echo < self._sent_again_at:
            return True
        if not self._doubts:
            return False
        end = min(number, self._timed)
        arrived = [*range(board.first, end), *([early] if 0 <= early < self._timed else ())]
        return any(board.is_first_news(index) for index in arrived)

    def _undo(self) -> None:
        """Restore the state before a spurious timeout."""
        self.board.lose_none()
        self._window.undo_time_out()
        self._state = Congestion.OPEN
        self._timed, self._doubts = 0, False
        # Losses among earlier segments are forgotten here, so the simple path has to wait until all
        # are acknowledged.
        self._unsure = self.board.next

    def _change_state(self, *, advanced: bool, news: bool) -> None:
        """Leave a finished recovery, and detect reordering."""
        board = self.board
        if self._state not in _UNHARMED and board.first >= self._recover:
            if self._state is Congestion.RECOVERY:
                self._window.leave_recovery()
            self._state = Congestion.OPEN
        if self._state in _UNHARMED:
            self._state = Congestion.DISORDER if board.early else Congestion.OPEN
        elif self._state is Congestion.LOSS and self._doubts:
            if board.next > self._recover:
                self._doubts = not news
            elif advanced:  # two new segments reveal whether the others have arrived: RFC 5682
                self._only_new = self._doubts = board.next < self._total

    def _look_for_losses(self) -> float:
        """Mark losses; return when further overtaken segments count as lost, s."""
        board = self.board
        if board.clean:
            return inf
        # RFC 8985: no reordering window in recovery, or after three segments out of order.
        sure = self._state not in _UNHARMED or board.early >= DUPLICATES
        return board.find_lost(0.0 if sure else REORDERING * self._window.least_trip)

    def _begin_repair(self, delivered: int, now: float) -> None:
        board = self.board
        self._overtaken_by = self._probe = inf
        self._sent_again_at = now
        self._recover = board.next
        self._state = Congestion.RECOVERY
        self._window.enter_recovery(board.flight, board.next - board.first, delivered)
        self._retransmit(now)
        self._restart_timer(now)

    def _pace(self, count: int, delivered: int, now: float, *, more: bool) -> None:
        """Adapt the window; `more` is whether the acknowledgement has revealed losses."""
        board, window = self.board, self._window
        if count:
            window.note_acknowledgement(board.first, board.next, now)
        if self._state is Congestion.RECOVERY:
            window.recover(delivered, board.flight, repaired=count > 0 and not more)
        elif count:
            window.grow(delivered, board.first, board.next, now)

    # The timer.

    def _set_timer(self, now: float) -> None:
        window, board = self._window, self.board
        self.deadline, self._probe = self._late_at, inf
        # No probe after a probe, before the first RTT sample, or during a repair.
        if self._probed or not window.trip or self._state is not Congestion.OPEN:
            return
        # The acknowledgement of a single segment may be delayed by its receiver.
        later = window.least_timeout if board.next - board.first <= 1 else GRAIN
        probe = now + PROBE * window.trip + later
        self._probe = self.deadline = min(probe, self._late_at) if self._late_at > now else probe

    def _restart_timer(self, now: float) -> None:
        self._window.restore_timeout()
        self._probed, self._overtaken_by = False, inf
        if self.done:
            self.deadline = self._probe = inf
        else:
            self._late_at = now + self._window.timeout
            self._set_timer(now)

    def time_out(self, now: float) -> None:
        """Repair overtaken segments, send a probe, or retransmit after a timeout."""
        self.board.now = now
        # One timer serves three purposes: reordering, tail probe, retransmission.
        if now >= self._overtaken_by:
            self._overtaken_by = inf
            self._look_for_losses()
            if self.board.first_lost() is not None and self._state in _UNHARMED:
                self._begin_repair(1, now)
            else:
                self._restart_timer(now)
        elif now >= self._probe:
            self._send_probe(now)
        else:
            self._begin_anew(now)

    def _send_probe(self, now: float) -> None:
        """Send a new segment, or the last one again."""
        board = self.board
        self._probe, self._probed, self.deadline = inf, True, inf
        number = board.next if board.next < self._total else board.next - 1
        self._send_one(number, now)

    def _begin_anew(self, now: float) -> None:
        """Mark segments as lost that had the time to arrive, and send the first one."""
        board, window, flight = self.board, self._window, self.board.flight
        harmed, retries = self._state not in _UNHARMED, self._retries
        again = self._state is Congestion.LOSS and not retries
        # The threshold is reduced once per episode of losses.
        reduces = not harmed or board.first >= self._recover or again
        if not harmed:
            self._sent_again_at = now
        self._probe = self._overtaken_by = self.deadline = inf
        self._doubts, self._only_new = not harmed or retries > 0, False
        self._retries, self._probed = retries + 1, False
        board.lose_late()
        self._recover = self._timed = board.next
        window.time_out(flight, board.next, now, reduces=reduces, left=board.flight)
        self._state = Congestion.LOSS
        self.send(now)
