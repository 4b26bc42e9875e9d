"""Scoreboard of a sender: the state of its segments (RFC 6675)."""

from collections import deque

DUPLICATES = 3
"""Segments that must arrive after a segment before it counts as lost: RFC 6675."""


class Scoreboard:
    """The state of the segments of a message, by number.

    Attributes:
        first: the first unacknowledged segment.
        next: the first segment that was not sent.
        again: the retransmitted segments that are not acknowledged in order.
    """

    __slots__ = ("_arrived", "_edge", "_highest", "_lost", "_pending", "again", "first", "next")

    def __init__(self) -> None:
        self.first = self.next = 0
        self._arrived = set[int]()  # out of order
        self._lost = set[int]()
        self.again = set[int]()
        self._pending = deque[int]()  # lost and not retransmitted, in order; may hold stale ones
        self._highest: list[int] = []  # highest arrived segments, at most DUPLICATES, ascending
        self._edge = 0  # every missing segment below it counts as lost

    @property
    def flight(self) -> int:
        """The number of segments in flight."""
        # RFC 6675's pipe: neither arrived nor lost segments are in flight. A lost one counts again
        # once it was retransmitted.
        flight = self.next - self.first
        if self._arrived or self._lost or self.again:
            flight += len(self.again) - len(self._arrived) - len(self._lost)
        return flight

    @property
    def clean(self) -> bool:
        """Whether all sent segments are under way for the first time, as far as known."""
        return not (self._arrived or self._lost or self.again)

    def take(self, number: int) -> bool:
        """Record a segment that has arrived out of order; return whether that is news."""
        if number < self.first or number in self._arrived:
            return False
        self._arrived.add(number)
        self._lost.discard(number)
        # Three segments above a hole suffice, so three are kept, and no list of all that have
        # arrived has to be searched.
        highest = [index for index in self._highest if index >= self.first]
        highest.append(number)
        highest.sort()
        self._highest = highest = highest[-DUPLICATES:]
        # Every segment below the third highest arrived one counts as lost.
        if len(highest) == DUPLICATES and highest[0] > self._edge:
            for missing in range(max(self._edge, self.first), highest[0]):
                if missing not in self._arrived and missing not in self._lost:
                    self._lost.add(missing)
                    self._pending.append(missing)
            self._edge = highest[0]
        return True

    def acknowledge(self, number: int) -> tuple[int, bool]:
        """Record that all segments before one have arrived.

        Returns:
            The number of newly delivered segments, and whether a retransmission is among them.
        """
        first, self.first = self.first, number
        delivered = number - first
        if self.clean:
            return delivered, False
        repaired = False
        for index in range(first, number):
            again = index in self.again
            if index in self._arrived:
                # It was counted as delivered when it arrived out of order.
                self._arrived.remove(index)
                delivered -= 1
            elif again:
                repaired = True
            self._lost.discard(index)
            self.again.discard(index)
        return delivered, repaired

    def advance(self, number: int) -> None:
        """Record that all segments before one have arrived, if the board is clean."""
        self.first = number

    def is_repaired(self, number: int) -> bool:
        """Return whether a segment was retransmitted and has not arrived."""
        return number in self.again and number not in self._arrived

    def outruns_second(self) -> bool:
        """Return whether the next segment with a known fate after the first one is lost."""
        for index in range(self.first + 1, self._highest[-1] if self._highest else 0):
            # A segment that has neither arrived nor counts as lost says nothing, and is passed
            # over.
            if index in self._lost:
                return True
            if index in self._arrived:
                return False
        return False

    def lose_first(self) -> None:
        """Mark the first segment as lost."""
        if self.first not in self._lost:
            self.again.discard(self.first)
            self._lost.add(self.first)
            # In front, as the queue is ascending. Its earlier entry, if any, is stale.
            self._pending.appendleft(self.first)

    def lose_all(self) -> None:
        """Mark all segments as lost that are not known to have arrived."""
        self.again.clear()
        self._lost = set(range(self.first, self.next)) - self._arrived
        self._pending = deque(sorted(self._lost))

    def first_lost(self) -> int | None:
        """Return the first lost segment that was not retransmitted."""
        pending = self._pending
        # Stale entries are dropped as they come to the front.
        while pending:
            number = pending[0]
            if number in self._lost and number not in self.again:
                return number
            pending.popleft()
        return None

    def first_unknown(self) -> int | None:
        """Return the first segment that has neither arrived nor was retransmitted."""
        for number in range(self.first, self.next):
            if number not in self._arrived and number not in self.again:
                return number
        return None

    def send_again(self, number: int) -> None:
        """Record a retransmission."""
        self.again.add(number)
