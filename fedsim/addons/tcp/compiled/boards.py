"""Scoreboard of a sender: see `Scoreboard`, and `RackScoreboard` for Linux.

Sets of those classes are flags per segment here, with a count. Retransmitted segments are also in a
list.
"""

from math import inf

from fedsim.addons.tcp.compiled import layout as at
from fedsim.addons.tcp.compiled.compiler import inline, part, place_of
from fedsim.addons.tcp.compiled.kinds import Integers, Reals, Record
from fedsim.addons.tcp.congestion import TICK
from fedsim.addons.tcp.rack import AT_ONCE
from fedsim.addons.tcp.scoreboard import DUPLICATES

LOW = 0xFFFFFFFF
NOTHING = -1 << 32
"""Order before the first segment. An order of sending is one number here: the last new segment sent
by then, times 2^32, plus the number of retransmissions by then."""


@inline
def segment(W: Integers, m: Record, number: int) -> int:
    """Return the word of flags of a segment."""
    return place_of(W, m) + at.WORDS + number


@inline
def about(W: Integers, m: Record, number: int, what: int) -> int:
    """Return the word of another column of a segment."""
    return segment(W, m, number) + (what << m.capacity)


@part
def _order(W: Integers, m: Record, number: int) -> int:
    """Return the order of retransmission of a segment; 0 if none is under way."""
    # The flag tells whether the column is valid: it is not cleared with the record.
    return W[about(W, m, number, at.ORDER)] if has(W, m, number, at.IS_ORDERED) else 0


@inline
def has(W: Integers, m: Record, number: int, mark: int) -> int:
    """Return the flags of a segment among `mark`."""
    return W[segment(W, m, number)] & mark


@inline
def flight(m: Record) -> int:
    """Return the number of segments in flight."""
    on_way = m.next - m.first
    return on_way + m.again - m.arrived - m.lost


@inline
def is_clean(m: Record) -> bool:
    """Return whether all sent segments are under way for the first time, as far as known."""
    return not (m.arrived or m.lost or m.again)


@part
def _discard(W: Integers, m: Record, number: int, mark: int) -> int:
    """Clear a flag of a segment; return whether it was set, as the count changes with it."""
    s = segment(W, m, number)
    found = 1 if W[s] & mark else 0
    W[s] &= ~mark
    return found


@part
def _discard_again(W: Integers, m: Record, number: int) -> None:
    # Only the count and the flag say whether a segment is in the list: its column is left as it is.
    s = segment(W, m, number)
    if W[s] & at.IS_AGAIN:
        W[s] &= ~at.IS_AGAIN
        last = m.again - 1
        m.again = last
        # The last entry of the list moves into the freed place.
        other, place = _number_at(W, m, last), W[about(W, m, number, at.PLACE)] & LOW
        _list(W, m, place, other)


@part
def _number_at(W: Integers, m: Record, place: int) -> int:
    """Return the segment at a place of the list of retransmitted ones."""
    return W[about(W, m, place, at.PLACE)] >> 32


@part
def _list(W: Integers, m: Record, place: int, number: int) -> None:
    # The column holds two values per word. The high half of word k is the segment at place k of the
    # list; the low half of word n is the place of segment n.
    s = about(W, m, place, at.PLACE)
    W[s] = (number << 32) | (W[s] & LOW)
    s = about(W, m, number, at.PLACE)
    W[s] = (W[s] & ~LOW) | place


@part
def _lose(W: Integers, m: Record, number: int) -> None:
    """Mark a segment as lost that is not being retransmitted."""
    s = segment(W, m, number)
    if not W[s] & at.IS_LOST:
        W[s] |= at.IS_LOST
        m.lost += 1
    m.found_lost += 1
    # `first_lost` searches from this hint on: no lost segment precedes it.
    m.hint = min(m.hint, number)


@part
def send_again(W: Integers, F: Reals, m: Record, number: int, now: float) -> None:
    """Record a retransmission."""
    s = segment(W, m, number)
    if not W[s] & at.IS_AGAIN:
        W[s] |= at.IS_AGAIN
        place = m.again
        m.again = place + 1
        _list(W, m, place, number)
    m.repeats += 1
    W[about(W, m, number, at.ORDER)] = ((m.next - 1) << 32) + m.repeats
    W[s] |= at.IS_REPEATED | at.IS_ORDERED
    F[about(W, m, number, at.SENT_AT)] = now


@part
def _deliver(W: Integers, F: Reals, m: Record, number: int, now: float) -> None:
    # A segment that was sent once was sent in the order of its number.
    order = _order(W, m, number) or number << 32
    W[segment(W, m, number)] &= ~at.IS_ORDERED
    trip = now - F[about(W, m, number, at.SENT_AT)]
    if order > m.delivered and (not order & LOW or trip + TICK > m.least_trip):
        m.delivered, m.newest_trip = order, trip


@part
def take(W: Integers, F: Reals, m: Record, number: int, now: float) -> bool:
    """Record a segment that has arrived out of order; return whether that is news."""
    if number < m.first or has(W, m, number, at.HAS_ARRIVED):
        return False
    # Before the flags change, as the order of sending depends on them.
    if m.linux:
        _deliver(W, F, m, number, now)
    W[segment(W, m, number)] |= at.HAS_ARRIVED
    m.arrived += 1
    m.lost -= _discard(W, m, number, at.IS_LOST)
    if m.linux:
        _discard_again(W, m, number)
    else:
        _note_highest(W, m, number)
    return True


@part
def _note_highest(W: Integers, m: Record, number: int) -> None:
    """Update the highest arrived segments, and mark losses: see `Scoreboard.take`."""
    first, h = m.first, place_of(W, m) + at.HIGHEST
    count = 0
    for k in range(m.highests):
        if W[h + k] >= first:
            W[h + count] = W[h + k]
            count += 1
    # Insertion into a sorted array of at most DUPLICATES entries.
    place = count
    while place and W[h + place - 1] > number:
        place -= 1
    if count == DUPLICATES:  # the least one goes
        for k in range(place - 1):
            W[h + k] = W[h + k + 1]
        if place:
            W[h + place - 1] = number
    else:
        for k in range(count, place, -1):
            W[h + k] = W[h + k - 1]
        W[h + place] = number
        count += 1
    m.highests = count
    _lose_below_highest(W, m)


@part
def _lose_below_highest(W: Integers, m: Record) -> None:
    first, h = m.first, place_of(W, m) + at.HIGHEST
    if m.highests == DUPLICATES and W[h] > m.edge:
        for index in range(max(m.edge, first), W[h]):
            if not has(W, m, index, at.HAS_ARRIVED | at.IS_LOST):
                _lose(W, m, index)
        m.edge = W[h]


@part
def acknowledge(W: Integers, F: Reals, m: Record, number: int, now: float) -> tuple[int, int]:
    """Record that all segments before one have arrived: see `Scoreboard.acknowledge`."""
    first = m.first
    # Before UNKNOWN moves on, as in `RackScoreboard.acknowledge`.
    if m.linux:
        # Without retransmissions the last segment was sent last, so that it alone decides.
        if m.again:
            for index in range(first, number):
                if not has(W, m, index, at.HAS_ARRIVED):
                    _deliver(W, F, m, index, now)
        elif not has(W, m, number - 1, at.HAS_ARRIVED):
            _deliver(W, F, m, number - 1, now)
    m.first = number
    delivered, repaired = number - first, 0
    if not is_clean(m):
        for index in range(first, number):
            again = has(W, m, index, at.IS_AGAIN)
            if has(W, m, index, at.HAS_ARRIVED):
                m.arrived -= _discard(W, m, index, at.HAS_ARRIVED)
                delivered -= 1
            elif again:
                repaired = 1
            m.lost -= _discard(W, m, index, at.IS_LOST)
            _discard_again(W, m, index)
    return delivered, repaired


@part
def is_repaired(W: Integers, m: Record, number: int) -> bool:
    """Return whether a segment was retransmitted and has not arrived."""
    return W[segment(W, m, number)] & (at.IS_AGAIN | at.HAS_ARRIVED) == at.IS_AGAIN


@part
def outruns_second(W: Integers, m: Record) -> bool:
    """Return whether the next segment with a known fate after the first one is lost."""
    count = m.highests
    end = W[place_of(W, m) + at.HIGHEST + count - 1] if count else 0
    for index in range(m.first + 1, end):
        if has(W, m, index, at.IS_LOST):
            return True
        if has(W, m, index, at.HAS_ARRIVED):
            return False
    return False


@part
def lose_first(W: Integers, m: Record) -> None:
    """Mark the first segment as lost."""
    first = m.first
    if not has(W, m, first, at.IS_LOST):
        # A retransmission that is lost again counts as lost, not as under way.
        _discard_again(W, m, first)
        _lose(W, m, first)


@part
def lose_all(W: Integers, m: Record) -> None:
    """Mark all segments as lost that are not known to have arrived."""
    first, end = m.first, m.next
    m.again = m.lost = 0
    for index in range(first, end):
        s = segment(W, m, index)
        W[s] &= ~(at.IS_AGAIN | at.IS_LOST | at.IS_ORDERED)
        if not W[s] & at.HAS_ARRIVED:
            W[s] |= at.IS_LOST
            m.lost += 1
    m.hint = first


@part
def lose_none(W: Integers, m: Record) -> None:
    """Clear all marks of losses and retransmissions."""
    # HINT stays too high at most: the next `_lose` lowers it.
    m.again = m.lost = m.edge = 0
    for index in range(m.first, m.next):
        s = segment(W, m, index)
        W[s] &= ~(at.IS_AGAIN | at.IS_LOST | at.IS_ORDERED)


@part
def lose_late(W: Integers, F: Reals, m: Record, now: float) -> None:
    """Mark the first segment, and all that had the time to arrive, as lost."""
    first = m.first
    latest = now - m.newest_trip + AT_ONCE
    for number in range(first, m.next):
        s = segment(W, m, number)
        late = number == first or F[about(W, m, number, at.SENT_AT)] <= latest
        # Lost and not retransmitted: it waits for its repair already.
        waits = W[s] & (at.IS_LOST | at.IS_AGAIN) == at.IS_LOST
        if late and not W[s] & at.HAS_ARRIVED and not waits:
            _discard_again(W, m, number)
            _lose(W, m, number)


@part
def find_lost(W: Integers, F: Reals, m: Record, patience: float, now: float) -> float:
    """Mark overtaken segments as lost: see `RackScoreboard.find_lost`."""
    due, last = m.newest_trip + patience, -inf
    latest, newest = now - due + AT_ONCE, m.delivered
    # All segments below `end` were first sent before the newest arrived transmission.
    end = (newest >> 32) + (1 if newest & LOW else 0)
    edge = max(m.edge, end)
    for number in range(max(m.edge, m.first), end):
        if has(W, m, number, at.HAS_ARRIVED | at.IS_LOST | at.IS_AGAIN):
            continue
        sent = F[about(W, m, number, at.SENT_AT)]
        if sent <= latest:
            _lose(W, m, number)
        else:
            last, edge = max(last, sent + due), min(edge, number)
    place = at.NOTHING
    while place < m.again:
        number = _number_at(W, m, place)
        sent = F[about(W, m, number, at.SENT_AT)]
        overtaken = _order(W, m, number) < newest
        # No step of `place`: another segment has taken it.
        if overtaken and sent <= latest:
            _discard_again(W, m, number)  # moves another segment to `place`
            _lose(W, m, number)
            continue
        if overtaken:
            last, edge = max(last, sent + due), min(edge, number)
        place += 1
    m.edge = max(m.edge, edge)
    return last if last > 0 else inf


@part
def is_first_news(W: Integers, m: Record, number: int) -> bool:
    """Return whether a segment was never retransmitted and is not known to have arrived."""
    return not has(W, m, number, at.HAS_ARRIVED | at.IS_REPEATED)


@part
def first_lost(W: Integers, m: Record) -> int:
    """Return the first lost segment that is not being retransmitted, or -1."""
    if not m.lost:
        return -1
    end = m.next
    # Marks only appear above the hint, or move it down, so that the search never misses one.
    number = max(m.hint, m.first)
    while number < end and W[segment(W, m, number)] & (at.IS_LOST | at.IS_AGAIN) != at.IS_LOST:
        number += 1
    m.hint = number
    return number if number < end else -1


@part
def first_unknown(W: Integers, m: Record) -> int:
    """Return the first segment neither arrived nor retransmitted, or -1; on Linux always -1."""
    if m.linux:
        return -1
    for number in range(m.first, m.next):
        if not has(W, m, number, at.HAS_ARRIVED | at.IS_AGAIN):
            return number
    return -1
