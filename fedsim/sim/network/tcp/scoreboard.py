"""What the sender of a message knows of its segments: RFC 6675's scoreboard."""

from collections import deque

DUPLICATES = 3
"""Segments that must arrive after one before it counts as lost: RFC 6675."""


class Scoreboard:
    """The segments of a message, by number, as their acknowledgements have them.

    Attributes:
        first: all segments before this one are acknowledged.
        next: all segments before this one were sent.
        again: those that were sent again, and are not acknowledged in order.
    """

    __slots__ = ("_arrived", "_edge", "_highest", "_lost", "_pending", "again", "first", "next")

    def __init__(self) -> None:
        self.first = self.next = 0
        self._arrived = set[int]()  # out of order
        self._lost = set[int]()
        self.again = set[int]()
        self._pending = deque[int]()  # the lost ones that were not sent again, in order
        self._highest: list[int] = []  # of those that arrived
        self._edge = 0  # what has not arrived before it is lost

    @property
    def flight(self) -> int:
        """The number of segments in flight."""
        flight = self.next - self.first
        if self._arrived or self._lost or self.again:
            flight += len(self.again) - len(self._arrived) - len(self._lost)
        return flight

    @property
    def clean(self) -> bool:
        """Whether all that was sent is on its way for the first time, for all that is known."""
        return not (self._arrived or self._lost or self.again)

    def take(self, number: int) -> bool:
        """Note a segment that has arrived out of order; return whether that is news."""
        if number < self.first or number in self._arrived:
            return False
        self._arrived.add(number)
        self._lost.discard(number)
        highest = [each for each in self._highest if each >= self.first]
        highest.append(number)
        highest.sort()
        self._highest = highest = highest[-DUPLICATES:]
        if len(highest) == DUPLICATES and highest[0] > self._edge:
            for each in range(max(self._edge, self.first), highest[0]):
                if each not in self._arrived and each not in self._lost:
                    self._lost.add(each)
                    self._pending.append(each)
            self._edge = highest[0]
        return True

    def acknowledge(self, number: int) -> tuple[int, bool]:
        """Note that all segments before one have arrived.

        Returns:
            How many of them were not known to have, and whether some were sent again.
        """
        first, self.first = self.first, number
        delivered = number - first
        if self.clean:
            return delivered, False
        repaired = False
        for each in range(first, number):
            again = each in self.again
            if each in self._arrived:
                self._arrived.remove(each)
                delivered -= 1
            elif again:
                repaired = True
            self._lost.discard(each)
            self.again.discard(each)
        return delivered, repaired

    def advance(self, number: int) -> None:
        """Note that all segments before one have arrived, where nothing else is known."""
        self.first = number

    def is_repaired(self, number: int) -> bool:
        """Return whether a segment was sent again, and has not arrived."""
        return number in self.again and number not in self._arrived

    def outruns_second(self) -> bool:
        """Return whether the first segment behind the first one whose fate is known is lost."""
        for each in range(self.first + 1, self._highest[-1] if self._highest else 0):
            if each in self._lost:
                return True
            if each in self._arrived:
                return False
        return False

    def lose_first(self) -> None:
        """Take the first segment for lost."""
        if self.first not in self._lost:
            self.again.discard(self.first)
            self._lost.add(self.first)
            self._pending.appendleft(self.first)

    def lose_all(self) -> None:
        """Take all that are not known to have arrived for lost."""
        self.again.clear()
        self._lost = set(range(self.first, self.next)) - self._arrived
        self._pending = deque(sorted(self._lost))

    def first_lost(self) -> int | None:
        """Return the first segment that is lost and was not sent again."""
        pending = self._pending
        while pending:
            number = pending[0]
            if number in self._lost and number not in self.again:
                return number
            pending.popleft()
        return None

    def first_unknown(self) -> int | None:
        """Return the first segment that has neither arrived nor was sent again."""
        for number in range(self.first, self.next):
            if number not in self._arrived and number not in self.again:
                return number
        return None

    def send_again(self, number: int) -> None:
        """Note a retransmission."""
        self.again.add(number)
