"""Scoreboard of a sender: see `Scoreboard`, and `RackScoreboard` for Linux.

Sets of those classes are flags per segment here, with a count. Retransmitted segments are also in a
list.
"""

from math import inf

from fedsim.addons.tcp.compiled import layout as at
from fedsim.addons.tcp.compiled.compiler import inline, part
from fedsim.addons.tcp.compiled.kinds import Integers, Reals
from fedsim.addons.tcp.rack import AT_ONCE
from fedsim.addons.tcp.scoreboard import DUPLICATES
from fedsim.addons.tcp.window import TICK

LOW = 0xFFFFFFFF
NOTHING = -1 << 32
"""Order before the first segment. An order of sending is one number here: the last new segment sent
by then, times 2^32, plus the number of retransmissions by then."""


@inline
def segment(m: int, number: int) -> int:
    """Return the word of flags of a segment."""
    return m + at.MESSAGE + number


@inline
def about(W: Integers, m: int, number: int, what: int) -> int:
    """Return the word of another column of a segment."""
    return segment(m, number) + W[m + at.SPAN] * what


@part
def _order(W: Integers, m: int, number: int) -> int:
    """Return the order of retransmission of a segment; 0 if none is under way."""
    # The flag tells whether the column is valid: it is not cleared with the record.
    return W[about(W, m, number, at.ORDER)] if has(W, m, number, at.IS_ORDERED) else 0


@inline
def has(W: Integers, m: int, number: int, mark: int) -> int:
    """Return the flags of a segment among `mark`."""
    return W[segment(m, number)] & mark


@inline
def flight(W: Integers, m: int) -> int:
    """Return the number of segments in flight."""
    on_way = W[m + at.NEXT] - W[m + at.UNKNOWN]
    return on_way + W[m + at.AGAIN] - W[m + at.ARRIVED] - W[m + at.LOST]


@inline
def is_clean(W: Integers, m: int) -> bool:
    """Return whether all sent segments are under way for the first time, as far as known."""
    return not (W[m + at.ARRIVED] or W[m + at.LOST] or W[m + at.AGAIN])


@part
def _discard(W: Integers, m: int, number: int, mark: int, count: int) -> None:
    s = segment(m, number)
    # The count only changes with the flag, so that it is the size of the set.
    if W[s] & mark:
        W[s] &= ~mark
        W[m + count] -= 1


@part
def _discard_again(W: Integers, m: int, number: int) -> None:
    # Only the count and the flag say whether a segment is in the list: its column is left as it is.
    s = segment(m, number)
    if W[s] & at.IS_AGAIN:
        W[s] &= ~at.IS_AGAIN
        last = W[m + at.AGAIN] - 1
        W[m + at.AGAIN] = last
        # The last entry of the list moves into the freed place.
        other, place = _number_at(W, m, last), W[about(W, m, number, at.PLACE)] & LOW
        _list(W, m, place, other)


@part
def _number_at(W: Integers, m: int, place: int) -> int:
    """Return the segment at a place of the list of retransmitted ones."""
    return W[about(W, m, place, at.PLACE)] >> 32


@part
def _list(W: Integers, m: int, place: int, number: int) -> None:
    # The column holds two values per word. The high half of word k is the segment at place k of the
    # list; the low half of word n is the place of segment n.
    s = about(W, m, place, at.PLACE)
    W[s] = (number << 32) | (W[s] & LOW)
    s = about(W, m, number, at.PLACE)
    W[s] = (W[s] & ~LOW) | place


@part
def _lose(W: Integers, m: int, number: int) -> None:
    """Mark a segment as lost that is not being retransmitted."""
    s = segment(m, number)
    if not W[s] & at.IS_LOST:
        W[s] |= at.IS_LOST
        W[m + at.LOST] += 1
    W[m + at.FOUND_LOST] += 1
    # `first_lost` searches from this hint on: no lost segment precedes it.
    W[m + at.HINT] = min(W[m + at.HINT], number)


@part
def send_again(W: Integers, F: Reals, m: int, number: int, now: float) -> None:
    """Record a retransmission."""
    s = segment(m, number)
    if not W[s] & at.IS_AGAIN:
        W[s] |= at.IS_AGAIN
        place = W[m + at.AGAIN]
        W[m + at.AGAIN] = place + 1
        _list(W, m, place, number)
    W[m + at.REPEATS] += 1
    W[about(W, m, number, at.ORDER)] = ((W[m + at.NEXT] - 1) << 32) + W[m + at.REPEATS]
    W[s] |= at.IS_REPEATED | at.IS_ORDERED
    F[about(W, m, number, at.SENT_AT)] = now


@part
def _deliver(W: Integers, F: Reals, m: int, number: int, now: float) -> None:
    # A segment that was sent once was sent in the order of its number.
    order = _order(W, m, number) or number << 32
    W[segment(m, number)] &= ~at.IS_ORDERED
    trip = now - F[about(W, m, number, at.SENT_AT)]
    if order > W[m + at.DELIVERED] and (not order & LOW or trip + TICK > F[m + at.LEAST_TRIP]):
        W[m + at.DELIVERED], F[m + at.NEWEST_TRIP] = order, trip


@part
def take(W: Integers, F: Reals, m: int, number: int, now: float) -> bool:
    """Record a segment that has arrived out of order; return whether that is news."""
    if number < W[m + at.UNKNOWN] or has(W, m, number, at.HAS_ARRIVED):
        return False
    # Before the flags change, as the order of sending depends on them.
    if W[at.LINUX]:
        _deliver(W, F, m, number, now)
    W[segment(m, number)] |= at.HAS_ARRIVED
    W[m + at.ARRIVED] += 1
    _discard(W, m, number, at.IS_LOST, at.LOST)
    if W[at.LINUX]:
        _discard_again(W, m, number)
    else:
        _note_highest(W, m, number)
    return True


@part
def _note_highest(W: Integers, m: int, number: int) -> None:
    """Update the highest arrived segments, and mark losses: see `Scoreboard.take`."""
    first, h = W[m + at.UNKNOWN], m + at.HIGHEST
    count = 0
    for k in range(W[m + at.HIGHESTS]):
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
    W[m + at.HIGHESTS] = count
    _lose_below_highest(W, m)


@part
def _lose_below_highest(W: Integers, m: int) -> None:
    first, h = W[m + at.UNKNOWN], m + at.HIGHEST
    if W[m + at.HIGHESTS] == DUPLICATES and W[h] > W[m + at.EDGE]:
        for index in range(max(W[m + at.EDGE], first), W[h]):
            if not has(W, m, index, at.HAS_ARRIVED | at.IS_LOST):
                _lose(W, m, index)
        W[m + at.EDGE] = W[h]


@part
def acknowledge(W: Integers, F: Reals, m: int, number: int, now: float) -> tuple[int, int]:
    """Record that all segments before one have arrived: see `Scoreboard.acknowledge`."""
    first = W[m + at.UNKNOWN]
    # Before UNKNOWN moves on, as in `RackScoreboard.acknowledge`.
    if W[at.LINUX]:
        # Without retransmissions the last segment was sent last, so that it alone decides.
        if W[m + at.AGAIN]:
            for index in range(first, number):
                if not has(W, m, index, at.HAS_ARRIVED):
                    _deliver(W, F, m, index, now)
        elif not has(W, m, number - 1, at.HAS_ARRIVED):
            _deliver(W, F, m, number - 1, now)
    W[m + at.UNKNOWN] = number
    delivered, repaired = number - first, 0
    if not is_clean(W, m):
        for index in range(first, number):
            again = has(W, m, index, at.IS_AGAIN)
            if has(W, m, index, at.HAS_ARRIVED):
                _discard(W, m, index, at.HAS_ARRIVED, at.ARRIVED)
                delivered -= 1
            elif again:
                repaired = 1
            _discard(W, m, index, at.IS_LOST, at.LOST)
            _discard_again(W, m, index)
    return delivered, repaired


@part
def is_repaired(W: Integers, m: int, number: int) -> bool:
    """Return whether a segment was retransmitted and has not arrived."""
    return W[segment(m, number)] & (at.IS_AGAIN | at.HAS_ARRIVED) == at.IS_AGAIN


@part
def outruns_second(W: Integers, m: int) -> bool:
    """Return whether the next segment with a known fate after the first one is lost."""
    count = W[m + at.HIGHESTS]
    end = W[m + at.HIGHEST + count - 1] if count else 0
    for index in range(W[m + at.UNKNOWN] + 1, end):
        if has(W, m, index, at.IS_LOST):
            return True
        if has(W, m, index, at.HAS_ARRIVED):
            return False
    return False


@part
def lose_first(W: Integers, m: int) -> None:
    """Mark the first segment as lost."""
    first = W[m + at.UNKNOWN]
    if not has(W, m, first, at.IS_LOST):
        # A retransmission that is lost again counts as lost, not as under way.
        _discard_again(W, m, first)
        _lose(W, m, first)


@part
def lose_all(W: Integers, m: int) -> None:
    """Mark all segments as lost that are not known to have arrived."""
    first, end = W[m + at.UNKNOWN], W[m + at.NEXT]
    W[m + at.AGAIN] = W[m + at.LOST] = 0
    for index in range(first, end):
        s = segment(m, index)
        W[s] &= ~(at.IS_AGAIN | at.IS_LOST | at.IS_ORDERED)
        if not W[s] & at.HAS_ARRIVED:
            W[s] |= at.IS_LOST
            W[m + at.LOST] += 1
    W[m + at.HINT] = first


@part
def lose_none(W: Integers, m: int) -> None:
    """Clear all marks of losses and retransmissions."""
    # HINT stays too high at most: the next `_lose` lowers it.
    W[m + at.AGAIN] = W[m + at.LOST] = W[m + at.EDGE] = 0
    for index in range(W[m + at.UNKNOWN], W[m + at.NEXT]):
        s = segment(m, index)
        W[s] &= ~(at.IS_AGAIN | at.IS_LOST | at.IS_ORDERED)


@part
def lose_late(W: Integers, F: Reals, m: int, now: float) -> None:
    """Mark the first segment, and all that had the time to arrive, as lost."""
    first = W[m + at.UNKNOWN]
    latest = now - F[m + at.NEWEST_TRIP] + AT_ONCE
    for number in range(first, W[m + at.NEXT]):
        s = segment(m, number)
        late = number == first or F[about(W, m, number, at.SENT_AT)] <= latest
        # Lost and not retransmitted: it waits for its repair already.
        waits = W[s] & (at.IS_LOST | at.IS_AGAIN) == at.IS_LOST
        if late and not W[s] & at.HAS_ARRIVED and not waits:
            _discard_again(W, m, number)
            _lose(W, m, number)


@part
def find_lost(W: Integers, F: Reals, m: int, patience: float, now: float) -> float:
    """Mark overtaken segments as lost: see `RackScoreboard.find_lost`."""
    due, last = F[m + at.NEWEST_TRIP] + patience, -inf
    latest, newest = now - due + AT_ONCE, W[m + at.DELIVERED]
    # All segments below `end` were first sent before the newest arrived transmission.
    end = (newest >> 32) + (1 if newest & LOW else 0)
    edge = max(W[m + at.EDGE], end)
    for number in range(max(W[m + at.EDGE], W[m + at.UNKNOWN]), end):
        if has(W, m, number, at.HAS_ARRIVED | at.IS_LOST | at.IS_AGAIN):
            continue
        sent = F[about(W, m, number, at.SENT_AT)]
        if sent <= latest:
            _lose(W, m, number)
        else:
            last, edge = max(last, sent + due), min(edge, number)
    place = at.NOTHING
    while place < W[m + at.AGAIN]:
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
    W[m + at.EDGE] = max(W[m + at.EDGE], edge)
    return last if last > 0 else inf


@part
def is_first_news(W: Integers, m: int, number: int) -> bool:
    """Return whether a segment was never retransmitted and is not known to have arrived."""
    return not has(W, m, number, at.HAS_ARRIVED | at.IS_REPEATED)


@part
def first_lost(W: Integers, m: int) -> int:
    """Return the first lost segment that is not being retransmitted, or -1."""
    if not W[m + at.LOST]:
        return -1
    end = W[m + at.NEXT]
    # Marks only appear above the hint, or move it down, so that the search never misses one.
    number = max(W[m + at.HINT], W[m + at.UNKNOWN])
    while number < end and W[segment(m, number)] & (at.IS_LOST | at.IS_AGAIN) != at.IS_LOST:
        number += 1
    W[m + at.HINT] = number
    return number if number < end else -1


@part
def first_unknown(W: Integers, m: int) -> int:
    """Return the first segment neither arrived nor retransmitted, or -1; on Linux always -1."""
    if W[at.LINUX]:
        return -1
    for number in range(W[m + at.UNKNOWN], W[m + at.NEXT]):
        if not has(W, m, number, at.HAS_ARRIVED | at.IS_AGAIN):
            return number
    return -1
