"""Laws of a sender's scoreboard: the state of its segments (RFC 6675, and RFC 8985 for Linux).

Each segment has a word of flags. Retransmitted segments are also in a list.
"""

from collections.abc import MutableMapping, MutableSequence
from dataclasses import dataclass
from math import inf

from fedsim.addons.tcp.congestion import TICK
from fedsim.core.laws import law, step

DUPLICATES = 3
"""Segments that must arrive after a segment before it counts as lost: RFC 6675."""

AT_ONCE = 1e-9
"""Times closer than this are equal, s: they differ by rounding."""

HAS_ARRIVED, IS_LOST, IS_AGAIN, IS_REPEATED, IS_ORDERED = 1, 2, 4, 16, 32
"""Flags of a segment; the receiver's is `IS_EARLY`."""

LOW = 0xFFFFFFFF
NOTHING = -1 << 32
"""Order before the first segment. An order of sending is one number here: the last new segment sent
by then, times 2^32, plus the number of retransmissions by then."""


@dataclass(slots=True, init=False, eq=False, repr=False)
class BoardState:
    """The state of the segments of a message, by number.

    Attributes:
        linux: whether losses are detected by the order of sending (RFC 8985).
        first: the first unacknowledged segment.
        next: the first segment that was not sent.
        arrived, lost, again: the numbers of segments that have arrived out of order, are lost, and
            are retransmitted and not acknowledged in order.
        hint: no lost segment that waits for its repair precedes it.
        edge: every missing segment below it was judged.
        highests, highest: how many of the highest arrived segments are known, and these, ascending.
        repeats, found_lost: the retransmissions and the detected losses so far.
        delivered: the order of the last sent segment that has arrived.
        newest_trip: the round trip of that segment, s.
        least_trip: the minimum round trip, s: an acknowledgement that is faster belongs to an
            earlier transmission.
        marks: the flags of each segment.
        sent: the time at which each segment was last sent, s.
        orders, places: the order of retransmissions, and the list of retransmitted segments.
    """

    linux: int
    first: int
    next: int
    arrived: int
    lost: int
    again: int
    hint: int
    edge: int
    highests: int
    highest: MutableSequence[int]
    repeats: int
    found_lost: int
    delivered: int
    newest_trip: float
    least_trip: float
    marks: MutableSequence[int]
    sent: MutableSequence[float]
    orders: MutableMapping[int, int]
    places: MutableMapping[int, int]

    def note_sent(self, count: int, now: float) -> None:
        """Note when the next segments are sent; only Linux reads it."""
        if self.linux:
            self.sent.extend([now] * count)


@law
def _order(b: BoardState, number: int) -> int:
    """Return the order of retransmission of a segment; 0 if none is under way."""
    # The flag tells whether the column is valid: it is not cleared with the record.
    return b.orders[number] if has(b, number, IS_ORDERED) else 0


@step
def has(b: BoardState, number: int, mark: int) -> int:
    """Return the flags of a segment among `mark`."""
    return b.marks[number] & mark


@step
def flight(b: BoardState) -> int:
    """Return the number of segments in flight."""
    # RFC 6675's pipe: neither arrived nor lost segments are in flight. A lost one counts again once
    # it was retransmitted.
    on_way = b.next - b.first
    return on_way + b.again - b.arrived - b.lost


@step
def is_clean(b: BoardState) -> bool:
    """Return whether all sent segments are under way for the first time, as far as known."""
    return not (b.arrived or b.lost or b.again)


@law
def _discard_again(b: BoardState, number: int) -> None:
    # Only the count and the flag say whether a segment is in the list: its column is left as it is.
    if b.marks[number] & IS_AGAIN:
        b.marks[number] &= ~IS_AGAIN
        last = b.again - 1
        b.again = last
        # The last entry of the list moves into the freed place.
        other, place = _number_at(b, last), b.places[number] & LOW
        _list(b, place, other)


@law
def _number_at(b: BoardState, place: int) -> int:
    """Return the segment at a place of the list of retransmitted ones."""
    return b.places[place] >> 32


@law
def _list(b: BoardState, place: int, number: int) -> None:
    # The column holds two values per word. The high half of word k is the segment at place k of the
    # list; the low half of word n is the place of segment n.
    b.places[place] = (number << 32) | (b.places[place] & LOW)
    b.places[number] = (b.places[number] & ~LOW) | place


@law
def _lose(b: BoardState, number: int) -> None:
    """Mark a segment as lost that is not being retransmitted."""
    if not b.marks[number] & IS_LOST:
        b.marks[number] |= IS_LOST
        b.lost += 1
    b.found_lost += 1
    # `first_lost` searches from this hint on: no lost segment precedes it.
    b.hint = min(b.hint, number)


@law
def send_again(b: BoardState, number: int, now: float) -> None:
    """Record a retransmission."""
    if not b.marks[number] & IS_AGAIN:
        b.marks[number] |= IS_AGAIN
        place = b.again
        b.again = place + 1
        _list(b, place, number)
    b.repeats += 1
    if b.linux:
        b.orders[number] = ((b.next - 1) << 32) + b.repeats
        b.marks[number] |= IS_REPEATED | IS_ORDERED
        b.sent[number] = now


@law
def _deliver(b: BoardState, number: int, now: float) -> None:
    # A segment that was sent once was sent in the order of its number.
    order = _order(b, number) or number << 32
    b.marks[number] &= ~IS_ORDERED
    trip = now - b.sent[number]
    # RFC 8985, section 6.2, step 2: an acknowledgement of a retransmission that comes too early may
    # belong to the first transmission. It is ignored.
    if order > b.delivered and (not order & LOW or trip + TICK > b.least_trip):
        b.delivered, b.newest_trip = order, trip


@law
def take(b: BoardState, number: int, now: float) -> bool:
    """Record a segment that has arrived out of order; return whether that is news."""
    if number < b.first or has(b, number, HAS_ARRIVED):
        return False
    # Before the flags change, as the order of sending depends on them.
    if b.linux:
        _deliver(b, number, now)
    if b.marks[number] & IS_LOST:
        b.lost -= 1
    b.marks[number] = b.marks[number] & ~IS_LOST | HAS_ARRIVED
    b.arrived += 1
    if b.linux:
        _discard_again(b, number)
    else:
        _note_highest(b, number)
    return True


@law
def _note_highest(b: BoardState, number: int) -> None:
    """Update the highest arrived segments, and mark losses.

    Three segments above a hole suffice, so three are kept, and no list of all that have arrived has
    to be searched.
    """
    first, highest = b.first, b.highest
    count = 0
    for k in range(b.highests):
        if highest[k] >= first:
            highest[count] = highest[k]
            count += 1
    # Insertion into a sorted array of at most DUPLICATES entries.
    place = count
    while place and highest[place - 1] > number:
        place -= 1
    if count == DUPLICATES:  # the least one goes
        for k in range(place - 1):
            highest[k] = highest[k + 1]
        if place:
            highest[place - 1] = number
    else:
        for k in range(count, place, -1):
            highest[k] = highest[k - 1]
        highest[place] = number
        count += 1
    b.highests = count
    _lose_below_highest(b)


@law
def _lose_below_highest(b: BoardState) -> None:
    first, highest = b.first, b.highest
    if b.highests == DUPLICATES and highest[0] > b.edge:
        for index in range(max(b.edge, first), highest[0]):
            if not b.marks[index] & (HAS_ARRIVED | IS_LOST):
                _lose(b, index)
        b.edge = highest[0]


@law
def _deliver_all(b: BoardState, end: int, now: float) -> None:
    """Note the order and the round trip of newly acknowledged segments."""
    # Without retransmissions the last segment was sent last, so that it alone decides.
    for index in range(b.first if b.again else end - 1, end):
        if not b.marks[index] & HAS_ARRIVED:
            _deliver(b, index, now)


@law
def acknowledge(b: BoardState, number: int, now: float) -> tuple[int, int]:
    """Record that all segments before one have arrived.

    Returns:
        The number of newly delivered segments, and 1 if a retransmission is among them, else 0.
    """
    first = b.first
    if b.linux:
        _deliver_all(b, number, now)
    b.first = number
    delivered, repaired = number - first, 0
    if not is_clean(b):
        for index in range(first, number):
            marks = b.marks[index]
            b.marks[index] = marks & ~(HAS_ARRIVED | IS_LOST)
            if marks & HAS_ARRIVED:
                # It was counted as delivered when it arrived out of order.
                b.arrived -= 1
                delivered -= 1
            elif marks & IS_AGAIN:
                repaired = 1
            if marks & IS_LOST:
                b.lost -= 1
            if marks & IS_AGAIN:
                _discard_again(b, index)
    return delivered, repaired


@law
def is_repaired(b: BoardState, number: int) -> bool:
    """Return whether a segment was retransmitted and has not arrived."""
    return b.marks[number] & (IS_AGAIN | HAS_ARRIVED) == IS_AGAIN


@law
def outruns_second(b: BoardState) -> bool:
    """Return whether the next segment with a known fate after the first one is lost."""
    count = b.highests
    end = b.highest[count - 1] if count else 0
    for index in range(b.first + 1, end):
        if has(b, index, IS_LOST):
            return True
        if has(b, index, HAS_ARRIVED):
            return False
    return False


@law
def lose_first(b: BoardState) -> None:
    """Mark the first segment as lost."""
    first = b.first
    if not has(b, first, IS_LOST):
        # A retransmission that is lost again counts as lost, not as under way.
        _discard_again(b, first)
        _lose(b, first)


@law
def lose_all(b: BoardState) -> None:
    """Mark all segments as lost that are not known to have arrived."""
    first, end = b.first, b.next
    b.again = b.lost = 0
    for index in range(first, end):
        b.marks[index] &= ~(IS_AGAIN | IS_LOST | IS_ORDERED)
        if not b.marks[index] & HAS_ARRIVED:
            b.marks[index] |= IS_LOST
            b.lost += 1
    b.hint = first


@law
def lose_none(b: BoardState) -> None:
    """Clear all marks of losses and retransmissions."""
    # The hint stays too high at most: the next `_lose` lowers it.
    b.again = b.lost = b.edge = 0
    for index in range(b.first, b.next):
        b.marks[index] &= ~(IS_AGAIN | IS_LOST | IS_ORDERED)


@law
def lose_late(b: BoardState, now: float) -> None:
    """Mark the first segment, and all that had the time to arrive, as lost."""
    first = b.first
    latest = now - b.newest_trip + AT_ONCE
    for number in range(first, b.next):
        late = number == first or b.sent[number] <= latest
        # Lost and not retransmitted: it waits for its repair already.
        waits = b.marks[number] & (IS_LOST | IS_AGAIN) == IS_LOST
        if late and not b.marks[number] & HAS_ARRIVED and not waits:
            _discard_again(b, number)
            _lose(b, number)


@law
def find_lost(b: BoardState, patience: float, now: float) -> float:
    """Mark overtaken segments as lost that had the time to arrive.

    Args:
        b: the scoreboard.
        patience: the time granted beyond the latest round trip, s.
        now: the time, s.

    Returns:
        When the last of the other overtaken segments counts as lost, s; inf if there are none.
    """
    due, last = b.newest_trip + patience, -inf
    latest, newest = now - due + AT_ONCE, b.delivered
    # All segments below `end` were first sent before the newest arrived transmission.
    end = (newest >> 32) + (1 if newest & LOW else 0)
    edge = max(b.edge, end)
    for number in range(max(b.edge, b.first), end):
        if b.marks[number] & (HAS_ARRIVED | IS_LOST | IS_AGAIN):
            continue
        sent = b.sent[number]
        if sent <= latest:
            _lose(b, number)
        else:
            last, edge = max(last, sent + due), min(edge, number)
    place = 0
    while place < b.again:
        number = _number_at(b, place)
        sent = b.sent[number]
        overtaken = _order(b, number) < newest
        # No step of `place`: another segment has taken it.
        if overtaken and sent <= latest:
            _discard_again(b, number)  # moves another segment to `place`
            _lose(b, number)
            continue
        if overtaken:
            last, edge = max(last, sent + due), min(edge, number)
        place += 1
    b.edge = max(b.edge, edge)
    return last if last > 0 else inf


@law
def is_first_news(b: BoardState, number: int) -> bool:
    """Return whether a segment was never retransmitted and is not known to have arrived."""
    return not has(b, number, HAS_ARRIVED | IS_REPEATED)


@law
def first_lost(b: BoardState) -> int:
    """Return the first lost segment that is not being retransmitted, or -1."""
    if not b.lost:
        return -1
    end = b.next
    # Marks only appear above the hint, or move it down, so that the search never misses one.
    number = max(b.hint, b.first)
    while number < end and b.marks[number] & (IS_LOST | IS_AGAIN) != IS_LOST:
        number += 1
    b.hint = number
    return number if number < end else -1


@law
def first_unknown(b: BoardState) -> int:
    """Return the first segment neither arrived nor retransmitted, or -1; on Linux always -1."""
    if b.linux:
        return -1
    for number in range(b.first, b.next):
        if not has(b, number, HAS_ARRIVED | IS_AGAIN):
            return number
    return -1
