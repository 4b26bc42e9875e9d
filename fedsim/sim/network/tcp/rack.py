"""The sender of Linux: losses are found by the order of sending, and at the tail by a probe.

RFC 8985 (RACK-TLP): a segment is lost once one that was sent after it has arrived, also where it
was sent again; while fewer than three have arrived out of order, it has a quarter of a round trip
more. Where no acknowledgement comes for two round trips, the sender sends one more segment, whose
acknowledgement shows what is missing before the timer runs out. A timeout that was too early is
undone, which the echo of an earlier timestamp shows (RFC 3522).
"""

from collections.abc import Callable, Iterator
from heapq import heappop, heappush
from math import inf

from fedsim.sim.network.tcp.receiver import Acknowledgement
from fedsim.sim.network.tcp.scoreboard import DUPLICATES, Scoreboard
from fedsim.sim.network.tcp.sender import Congestion, Sender
from fedsim.sim.network.tcp.window import Window

REORDERING = 1 / 4
"""How long a segment may be overtaken, in least round trips."""

PROBE = 2.0
"""When a probe is sent, in round trips; RFC 8985."""

GRAIN = 0.002
"""How much later it is sent, s, two ticks of a clock; where a single segment is in flight, whose
acknowledgement may wait, it is the least timeout."""

_UNHARMED = (Congestion.OPEN, Congestion.DISORDER)

Order = tuple[int, int]
"""Of sending: the last new segment that was sent by then, and how many had been sent again."""


class RackScoreboard(Scoreboard):
    """What the sender knows of its segments, with the order in which it sent them.

    Attributes:
        strict: whether a segment that was overtaken is lost at once.
    """

    __slots__ = ("_delivered", "_orders", "_sent_again", "_to_repair", "strict")

    def __init__(self) -> None:
        super().__init__()
        self._orders: dict[int, Order] = {}  # of those that were sent again
        self._sent_again = 0
        self._to_repair: list[int] = []  # a heap, with some that need no repair any more
        self._delivered: Order = (-1, 0)  # the last sent of those that have arrived
        self.strict = False

    def send_again(self, number: int) -> None:
        """Note a retransmission."""
        super().send_again(number)
        self._sent_again += 1
        self._orders[number] = (self.next - 1, self._sent_again)

    def take(self, number: int) -> bool:
        """Note a segment that has arrived out of order; return whether that is news."""
        if number < self.first or number in self._arrived:
            return False
        self._arrived.add(number)
        self._lost.discard(number)
        self.again.discard(number)
        self._deliver(number)
        self.find_lost()
        return True

    def acknowledge(self, number: int) -> tuple[int, bool]:
        """Note that all segments before one have arrived; see the base class."""
        if self.again:
            for each in range(self.first, number):
                if each not in self._arrived:
                    self._deliver(each)
        else:
            self._delivered = max(self._delivered, (number - 1, 0))
        found = super().acknowledge(number)
        self.find_lost()
        return found

    def advance(self, number: int) -> None:
        """Note that all segments before one have arrived, where nothing else is known."""
        self.first, self._delivered = number, max(self._delivered, (number - 1, 0))

    def lose_none(self) -> None:
        """Take nothing for lost any more."""
        self._lost.clear()
        self._to_repair.clear()
        self._edge = 0
        self.again.clear()
        self._orders.clear()

    def lose_all(self) -> None:
        """Take all that are not known to have arrived for lost."""
        super().lose_all()
        self._orders.clear()
        self._to_repair = sorted(self._lost)

    def first_unknown(self) -> None:
        """Return None: what is not known to be lost waits for a probe, or for the timer."""

    def find_lost(self) -> None:
        """Find the segments that were overtaken, if that is enough to take them for lost."""
        if not self.strict:
            return
        found = list(self._overtaken())
        self.again.difference_update(found)
        self._edge = max(self._edge, self._delivered[0])
        self._lost.update(found)
        for number in found:
            heappush(self._to_repair, number)

    def _overtaken(self) -> Iterator[int]:
        """Yield the segments on their way that were sent before one that has arrived."""
        newest, again = self._delivered, self.again
        for number in again:
            if self._orders[number] < newest:
                yield number
        for number in range(max(self._edge, self.first), newest[0]):
            if not (number in self._arrived or number in self._lost or number in again):
                yield number

    def lose_first(self) -> None:
        """Take the first segment for lost."""
        if self.first not in self._lost:
            self.again.discard(self.first)
            self._lost.add(self.first)
            heappush(self._to_repair, self.first)

    def first_lost(self) -> int | None:
        """Return the first segment that is lost and was not sent again."""
        heap = self._to_repair
        while heap:
            if heap[0] in self._lost and heap[0] not in self.again:
                return heap[0]
            heappop(heap)
        return None

    @property
    def overtaken(self) -> bool:
        """Whether a segment has arrived that was sent after one that has not."""
        return not self.clean and any(True for _ in self._overtaken())

    def _deliver(self, number: int) -> None:
        self._delivered = max(self._delivered, self._orders.pop(number, (number, 0)))


class RackSender(Sender):
    """The sender of one message; see the base class."""

    __slots__ = ("_overtaken_by", "_probe", "_probed", "_sent_again_at", "_unsure", "board")

    make_board = RackScoreboard
    board: RackScoreboard

    def __init__(self, window: Window, total: int, launch: Callable[[int, float], None]) -> None:
        super().__init__(window, total, launch)
        self._probe = inf  # when a probe is sent, s
        self._unsure = 0  # segments before this one were taken for lost, and some may be
        self._probed = False  # whether one was, and no acknowledgement has come since
        self._sent_again_at = -inf  # when it began to repair what is being repaired, s
        self._overtaken_by = inf  # when what was overtaken is lost, s

    @property
    def steady(self) -> bool:
        """Whether it knows of no loss, waits for no repair, and has not forgotten any."""
        board = self.board
        return self._state is Congestion.OPEN and board.clean and board.first >= self._unsure

    def arm(self, now: float) -> None:
        """Start the timer, unless it runs."""
        if self.deadline == inf:
            self._set_timer(now)

    def acknowledge(self, said: Acknowledgement, now: float) -> None:
        """Take an acknowledgement; one of what was sent before a timeout shows that it was late."""
        late = said.echo < self._sent_again_at and said.number > self.board.first
        if late and self._state is Congestion.LOSS:
            self.board.lose_none()
            self.board.strict = False
            self._window.undo_time_out()
            self._state = Congestion.OPEN
            self._recovers, self._timed = False, 0
            self._unsure = self.board.next
        super().acknowledge(said, now)
        if self._overtaken_by == inf and self._state in _UNHARMED and self.board.overtaken:
            self._overtaken_by = now + REORDERING * self._window.least_trip
            self.deadline = min(self.deadline, self._overtaken_by)

    def _set_timer(self, now: float) -> None:
        window, board = self._window, self.board
        self.deadline, self._probe = now + window.timeout, inf
        if self._probed or not window.trip or self._state is not Congestion.OPEN:
            return
        later = window.least_timeout if board.flight <= 1 else GRAIN
        self._probe = now + PROBE * window.trip + later
        if self._probe < self.deadline:
            self.deadline = self._probe
        else:
            self._probe = inf

    def _restart_timer(self, now: float) -> None:
        self._window.restore_timeout()
        self._probed, self._overtaken_by = False, inf
        if self.done:
            self.deadline = self._probe = inf
        else:
            self._set_timer(now)

    def _take_duplicate(self, delivered: int, now: float, *, repaired: bool) -> None:
        """Take the news that a segment has arrived out of order."""
        if self._state in {Congestion.LOSS, Congestion.RECOVERY}:
            super()._take_duplicate(delivered, now, repaired=repaired)
            return
        self._duplicates += 1
        self._state = Congestion.DISORDER
        if self._duplicates >= DUPLICATES:
            self._repair_overtaken(delivered, now)

    def _repair_overtaken(self, delivered: int, now: float) -> None:
        self._overtaken_by = self._probe = inf
        self._sent_again_at = now
        self.board.strict = True
        self.board.find_lost()
        self._enter_recovery(delivered, now)
        self._restart_timer(now)

    def _repair(
        self, count: int, delivered: int, now: float, *, repaired: bool, news: bool
    ) -> None:
        """Take the acknowledgement of some segments, which restarts the timer each time."""
        super()._repair(count, delivered, now, repaired=repaired, news=news)
        self._restart_timer(now)

    def _advance(self, count: int, now: float, *, news: bool) -> None:
        """Take the acknowledgement of some segments, with which any repair is at its end."""
        self.board.strict = False
        super()._advance(count, now, news=news)

    def time_out(self, now: float) -> None:
        """Repair what was overtaken, send a probe, or take all for lost: what it is time for."""
        if now >= self._overtaken_by:
            self._repair_overtaken(0, now)
        elif now >= self._probe:
            self._send_probe(now)
        else:
            self._probe = self._overtaken_by = inf
            self._probed = False
            self.board.strict = True
            if self._state in _UNHARMED:
                self._sent_again_at = now
            super().time_out(now)

    def _send_probe(self, now: float) -> None:
        """Send a new segment, or the last one again."""
        board = self.board
        self._probe, self._probed, self.deadline = inf, True, inf
        number = board.next if board.next < self._total else board.next - 1
        self._send_one(number, now)
