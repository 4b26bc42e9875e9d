"""The sender of Linux: losses are found by the order of sending, and at the tail by a probe.

RFC 8985 (RACK-TLP): a segment is lost once one that was sent after it has arrived, also where it
was sent again, and the newest round trip has passed since; while fewer than three have arrived out
of order, it has a quarter of the least round trip more. Where no acknowledgement comes for two
round trips, or for a timeout where that is less, the sender sends one more segment, whose
acknowledgement shows what is missing before the timer runs out. A timeout that was too early is
undone, which the echo of an earlier timestamp shows (RFC 3522), or the arrival of what was not sent
again (F-RTO, RFC 5682). Losses are repaired at the pace of PRR (RFC 6937).
"""

from collections.abc import Callable, Iterator
from heapq import heappop, heappush
from math import inf

from fedsim.sim.network.tcp.receiver import Acknowledgement
from fedsim.sim.network.tcp.scoreboard import DUPLICATES, Scoreboard
from fedsim.sim.network.tcp.sender import CLOSE, Congestion, Sender
from fedsim.sim.network.tcp.window import TICK, Window

REORDERING = 1 / 4
"""How long a segment may be overtaken, in least round trips."""

PROBE = 2.0
"""When a probe is sent, in round trips; RFC 8985."""

GRAIN = 0.002
"""How much later it is sent, s: Linux's least time of a timer. Where a single segment is in flight,
whose acknowledgement may wait, it is the least timeout."""

AT_ONCE = 1e-9
"""Times that are so close are one, s: they differ by rounding."""

_UNHARMED = (Congestion.OPEN, Congestion.DISORDER)

Order = tuple[int, int]
"""Of sending: the last new segment that was sent by then, and how many had been sent again."""


class RackScoreboard(Scoreboard):
    """What the sender knows of its segments, with when and in which order it sent them.

    Attributes:
        now: the time, s.
        least_trip: the smallest round trip, s: what arrives earlier was sent before.
        sent: when each segment was last sent, s.
        trip: the round trip of the last sent one of those that have arrived, s.
        found: how many were found to be lost so far.
        repeated: segments that were ever sent again.
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
        self._orders: dict[int, Order] = {}  # of those that were sent again
        self._sent_again = 0
        self._to_repair: list[int] = []  # a heap, with some that need no repair any more
        self._delivered: Order = (-1, 0)  # the last sent of those that have arrived
        self.now = self.least_trip = self.trip = 0.0
        self.sent: list[float] = []
        self.found = 0
        self.repeated = set[int]()

    def send_again(self, number: int) -> None:
        """Note a retransmission."""
        super().send_again(number)
        self._sent_again += 1
        self._orders[number] = (self.next - 1, self._sent_again)
        self.repeated.add(number)
        self.sent[number] = self.now

    def take(self, number: int) -> bool:
        """Note a segment that has arrived out of order; return whether that is news."""
        if number < self.first or number in self._arrived:
            return False
        self._deliver(number)
        self._arrived.add(number)
        self._lost.discard(number)
        self.again.discard(number)
        return True

    def acknowledge(self, number: int) -> tuple[int, bool]:
        """Note that all segments before one have arrived; see the base class."""
        if self.again:
            for each in range(self.first, number):
                if each not in self._arrived:
                    self._deliver(each)
        elif number - 1 not in self._arrived:
            self._deliver(number - 1)
        return super().acknowledge(number)

    def advance(self, number: int) -> None:
        """Note that all segments before one have arrived, where nothing else is known."""
        self.first = number

    @property
    def early(self) -> int:
        """The number of segments that have arrived out of order."""
        return len(self._arrived)

    def is_first_news(self, number: int) -> bool:
        """Return whether nothing is known of a segment that was never sent again."""
        return number not in self._arrived and number not in self.repeated

    def lose_none(self) -> None:
        """Take nothing for lost any more."""
        self._lost.clear()
        self._to_repair.clear()
        self._edge = 0
        self.again.clear()
        self._orders.clear()

    def lose_late(self) -> None:
        """Take for lost what had the time to arrive, and the first segment in any case."""
        latest = self.now - self.trip + AT_ONCE
        for number in range(self.first, self.next):
            late = number == self.first or self.sent[number] <= latest
            if late and number not in self._arrived and not self._waits_for_repair(number):
                self._lose(number)

    def first_unknown(self) -> None:
        """Return None: what is not known to be lost waits for a probe, or for the timer."""

    def find_lost(self, patience: float) -> float:
        """Find the segments that were overtaken, and had the time to arrive.

        Args:
            patience: how much more than the newest round trip they have, s.

        Returns:
            When the last one of the others had that time, s; infinite if there are none.
        """
        due, last = self.trip + patience, -inf
        latest = self.now - due + AT_ONCE
        edge = max(self._edge, self._end)
        for number in list(self._overtaken()):
            sent = self.sent[number]
            if sent <= latest:
                self._lose(number)
            else:
                last = max(last, sent + due)
                edge = min(edge, number)
        self._edge = max(self._edge, edge)
        return last if last > 0 else inf

    def _overtaken(self) -> Iterator[int]:
        """Yield the segments on their way that were sent before one that has arrived."""
        newest, again = self._delivered, self.again
        for number in again:
            if self._orders[number] < newest:
                yield number
        for number in range(max(self._edge, self.first), self._end):
            if not (number in self._arrived or number in self._lost or number in again):
                yield number

    @property
    def _end(self) -> int:
        """Before which segment all were sent earlier than the last sent one that has arrived."""
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
        """Return the first segment that is lost and was not sent again."""
        heap = self._to_repair
        while heap:
            if self._waits_for_repair(heap[0]):
                return heap[0]
            heappop(heap)
        return None

    def _deliver(self, number: int) -> None:
        order = self._orders.pop(number, (number, 0))
        trip = self.now - self.sent[number]
        if order > self._delivered and (not order[1] or trip + TICK > self.least_trip):
            self._delivered, self.trip = order, trip


class RackSender(Sender):
    """The sender of one message; see the base class."""

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
        self._late_at = inf  # when the timer of RFC 6298 runs out, s
        self._probe = inf  # when a probe is sent, s
        self._unsure = 0  # segments before this one were taken for lost, and some may be
        self._probed = False  # whether one was, and no acknowledgement has come since
        self._sent_again_at = -inf  # when it began to repair what is being repaired, s
        self._overtaken_by = inf  # when what was overtaken is lost, s
        self._retries = 0  # timeouts since something was acknowledged
        self._doubts = False  # whether the last timeout may have been early, for all it knows
        self._only_new = False  # whether it sends what is new now, to find that out

    @property
    def steady(self) -> bool:
        """Whether it knows of no loss, waits for no repair, and has not forgotten any."""
        board = self.board
        return self._state is Congestion.OPEN and board.clean and board.first >= self._unsure

    # Sending.

    def begin(self, count: int, now: float) -> None:
        """Note new segments that are sent at once."""
        self.board.sent += [now] * count
        super().begin(count, now)

    def send(self, now: float) -> None:
        """Send what the window allows: what is lost, then what is new."""
        board, window = self.board, self._window
        board.now = now
        while window.size - board.flight >= 1 - CLOSE:
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
            self.deadline = inf  # the first segment takes the timer with it
        super()._send_one(number, now)

    def arm(self, now: float) -> None:
        """Start the timer, or put the probe off, which follows what is sent last."""
        board, timeout = self.board, self._window.timeout
        if self.deadline == inf:
            self._late_at = now + timeout
        elif self._probe < inf and self._state is Congestion.OPEN:
            self._late_at = board.sent[board.first] + timeout
        else:
            return
        self._set_timer(now)

    # Acknowledgements.

    def acknowledge(self, said: Acknowledgement, now: float) -> None:
        """Take an acknowledgement."""
        board, window = self.board, self._window
        number, early, echo = said
        first, found = board.first, board.found
        if number < first:
            return
        board.now, board.least_trip = now, window.least_trip
        if number > first:
            timed = max(first, self._timed)
            if timed < number and timed not in board.again:
                window.measure(echo, now)
                window.restore_timeout()
        was_early = self._was_early(said)
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
        self._pace(number - first, delivered, now, more=board.found > found)
        if due < inf:
            self._overtaken_by = self.deadline = min(due + GRAIN, now + window.timeout)
            self._probe = inf
        elif number > first or (news and board.sent[early] < board.sent[number]):
            self._restart_timer(now)

    def _was_early(self, said: Acknowledgement) -> bool:
        """Return whether an acknowledgement shows that nothing was lost when the timer ran out.

        It is one of what was sent before that, or one of what was not sent again since.
        """
        board = self.board
        number, early, echo = said
        if self._state is not Congestion.LOSS:
            return False
        if number > board.first and echo < self._sent_again_at:
            return True
        if not self._doubts:
            return False
        end = min(number, self._timed)
        there = [*range(board.first, end), *([early] if 0 <= early < self._timed else ())]
        return any(board.is_first_news(each) for each in there)

    def _undo(self) -> None:
        """Go on as before the timer ran out."""
        self.board.lose_none()
        self._window.undo_time_out()
        self._state = Congestion.OPEN
        self._timed, self._doubts = 0, False
        self._unsure = self.board.next

    def _change_state(self, *, advanced: bool, news: bool) -> None:
        """Leave what is repaired behind, and notice what arrives out of order."""
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
            elif advanced:  # two new segments tell whether the others are there: RFC 5682
                self._only_new = self._doubts = board.next < self._total

    def _look_for_losses(self) -> float:
        """Find what is lost; return when the rest of what was overtaken is, s."""
        board = self.board
        if board.clean:
            return inf
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
        """Let the window follow what has arrived; `more` is whether more was found to be lost."""
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
        if self._probed or not window.trip or self._state is not Congestion.OPEN:
            return
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
        """Repair what was overtaken, send a probe, or take all for lost: what it is time for."""
        self.board.now = now
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
        """Take for lost what had the time to arrive, and send the first segment."""
        board, window, flight = self.board, self._window, self.board.flight
        harmed, retries = self._state not in _UNHARMED, self._retries
        again = self._state is Congestion.LOSS and not retries
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
