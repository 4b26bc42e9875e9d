"""What a sender knows of its segments: see `Scoreboard`, and `RackScoreboard` for Linux.

What is a set there is a mark of each segment here, and a count; and of those that were sent again
there is a list, too.
"""

from fedsim.sim.network.tcp.compiled import layout as at
from fedsim.sim.network.tcp.compiled.compiler import part, piece
from fedsim.sim.network.tcp.compiled.kinds import Integers
from fedsim.sim.network.tcp.scoreboard import DUPLICATES

NOTHING = -1 << 32
"""The order of a segment before the first one. An order of sending is one number here: the last new
segment by then, times 2^32, and how many had been sent again."""


@part
def segment(m: int, number: int) -> int:
    """Return the record of a segment."""
    return m + at.MESSAGE + at.PER_SEGMENT * number


@part
def has(W: Integers, m: int, number: int, mark: int) -> int:
    """Return whether a segment is marked."""
    return W[segment(m, number)] & mark


@part
def flight(W: Integers, m: int) -> int:
    """Return the number of segments in flight."""
    on_way = W[m + at.NEXT] - W[m + at.UNKNOWN]
    return on_way + W[m + at.AGAIN] - W[m + at.ARRIVED] - W[m + at.LOST]


@part
def is_clean(W: Integers, m: int) -> bool:
    """Return whether all that was sent is on its way for the first time, for all that is known."""
    return not (W[m + at.ARRIVED] or W[m + at.LOST] or W[m + at.AGAIN])


@part
def _discard(W: Integers, m: int, number: int, mark: int, count: int) -> None:
    s = segment(m, number)
    if W[s] & mark:
        W[s] &= ~mark
        W[m + count] -= 1


@part
def _discard_again(W: Integers, m: int, number: int) -> None:
    s = segment(m, number)
    if W[s] & at.IS_AGAIN:
        W[s] &= ~at.IS_AGAIN
        last = W[m + at.AGAIN] - 1
        W[m + at.AGAIN] = last
        other, place = _number_at(W, m, last), W[s + at.PLACE] & 0xFFFFFFFF
        _list(W, m, place, other)


@part
def _number_at(W: Integers, m: int, place: int) -> int:
    """Return the segment in a place of the list of those that were sent again."""
    return W[segment(m, place) + at.PLACE] >> 32


@part
def _list(W: Integers, m: int, place: int, number: int) -> None:
    s = segment(m, place) + at.PLACE
    W[s] = (number << 32) | (W[s] & 0xFFFFFFFF)
    s = segment(m, number) + at.PLACE
    W[s] = (W[s] & ~0xFFFFFFFF) | place


@part
def _lose(W: Integers, m: int, number: int) -> None:
    """Take a segment for lost that was not sent again."""
    s = segment(m, number)
    if not W[s] & at.IS_LOST:
        W[s] |= at.IS_LOST
        W[m + at.LOST] += 1
    W[m + at.HINT] = min(W[m + at.HINT], number)


@piece
def send_again(W: Integers, m: int, number: int) -> None:
    """Note a retransmission."""
    s = segment(m, number)
    if not W[s] & at.IS_AGAIN:
        W[s] |= at.IS_AGAIN
        place = W[m + at.AGAIN]
        W[m + at.AGAIN] = place + 1
        _list(W, m, place, number)
    W[m + at.REPEATS] += 1
    W[s + at.ORDER] = ((W[m + at.NEXT] - 1) << 32) + W[m + at.REPEATS]


@part
def _deliver(W: Integers, m: int, number: int) -> None:
    s = segment(m, number) + at.ORDER
    order = W[s] or number << 32
    W[s] = 0
    W[m + at.DELIVERED] = max(W[m + at.DELIVERED], order)


@piece
def take(W: Integers, m: int, number: int) -> bool:
    """Note a segment that has arrived out of order; return whether that is news."""
    if number < W[m + at.UNKNOWN] or has(W, m, number, at.HAS_ARRIVED):
        return False
    W[segment(m, number)] |= at.HAS_ARRIVED
    W[m + at.ARRIVED] += 1
    _discard(W, m, number, at.IS_LOST, at.LOST)
    if W[at.LINUX]:
        _discard_again(W, m, number)
        _deliver(W, m, number)
        find_lost(W, m)
    else:
        _note_highest(W, m, number)
    return True


@piece
def _note_highest(W: Integers, m: int, number: int) -> None:
    """Lose what three segments have arrived after: see `Scoreboard.take`."""
    first, h = W[m + at.UNKNOWN], m + at.HIGHEST
    count = 0
    for k in range(W[m + at.HIGHESTS]):
        if W[h + k] >= first:
            W[h + count] = W[h + k]
            count += 1
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


@piece
def _lose_below_highest(W: Integers, m: int) -> None:
    first, h = W[m + at.UNKNOWN], m + at.HIGHEST
    if W[m + at.HIGHESTS] == DUPLICATES and W[h] > W[m + at.EDGE]:
        for each in range(max(W[m + at.EDGE], first), W[h]):
            if not has(W, m, each, at.HAS_ARRIVED | at.IS_LOST):
                _lose(W, m, each)
        W[m + at.EDGE] = W[h]


@piece
def acknowledge(W: Integers, m: int, number: int) -> tuple[int, int]:
    """Note that all segments before one have arrived: see `Scoreboard.acknowledge`."""
    first = W[m + at.UNKNOWN]
    if W[at.LINUX]:
        if W[m + at.AGAIN]:
            for each in range(first, number):
                if not has(W, m, each, at.HAS_ARRIVED):
                    _deliver(W, m, each)
        else:
            W[m + at.DELIVERED] = max(W[m + at.DELIVERED], (number - 1) << 32)
    W[m + at.UNKNOWN] = number
    delivered, repaired = number - first, 0
    if not is_clean(W, m):
        for each in range(first, number):
            again = has(W, m, each, at.IS_AGAIN)
            if has(W, m, each, at.HAS_ARRIVED):
                _discard(W, m, each, at.HAS_ARRIVED, at.ARRIVED)
                delivered -= 1
            elif again:
                repaired = 1
            _discard(W, m, each, at.IS_LOST, at.LOST)
            _discard_again(W, m, each)
    if W[at.LINUX]:
        find_lost(W, m)
    return delivered, repaired


@piece
def advance(W: Integers, m: int, number: int) -> None:
    """Note that all segments before one have arrived, where nothing else is known."""
    W[m + at.UNKNOWN] = number
    W[m + at.DELIVERED] = max(W[m + at.DELIVERED], (number - 1) << 32)


@piece
def is_repaired(W: Integers, m: int, number: int) -> bool:
    """Return whether a segment was sent again, and has not arrived."""
    return W[segment(m, number)] & (at.IS_AGAIN | at.HAS_ARRIVED) == at.IS_AGAIN


@piece
def outruns_second(W: Integers, m: int) -> bool:
    """Return whether the first segment behind the first one whose fate is known is lost."""
    count = W[m + at.HIGHESTS]
    end = W[m + at.HIGHEST + count - 1] if count else 0
    for each in range(W[m + at.UNKNOWN] + 1, end):
        if has(W, m, each, at.IS_LOST):
            return True
        if has(W, m, each, at.HAS_ARRIVED):
            return False
    return False


@piece
def lose_first(W: Integers, m: int) -> None:
    """Take the first segment for lost."""
    first = W[m + at.UNKNOWN]
    if not has(W, m, first, at.IS_LOST):
        _discard_again(W, m, first)
        _lose(W, m, first)


@piece
def lose_all(W: Integers, m: int) -> None:
    """Take all that are not known to have arrived for lost."""
    first, end = W[m + at.UNKNOWN], W[m + at.NEXT]
    W[m + at.AGAIN] = W[m + at.LOST] = 0
    for each in range(first, end):
        s = segment(m, each)
        W[s] &= ~(at.IS_AGAIN | at.IS_LOST)
        W[s + at.ORDER] = 0
        if not W[s] & at.HAS_ARRIVED:
            W[s] |= at.IS_LOST
            W[m + at.LOST] += 1
    W[m + at.HINT] = first


@piece
def lose_none(W: Integers, m: int) -> None:
    """Take nothing for lost any more."""
    W[m + at.AGAIN] = W[m + at.LOST] = W[m + at.EDGE] = 0
    for each in range(W[m + at.UNKNOWN], W[m + at.NEXT]):
        s = segment(m, each)
        W[s] &= ~(at.IS_AGAIN | at.IS_LOST)
        W[s + at.ORDER] = 0


@part
def find_lost(W: Integers, m: int) -> None:
    """Find the segments that were overtaken, if that is enough to take them for lost."""
    if not W[m + at.STRICT]:
        return
    newest = W[m + at.DELIVERED]
    begin, end = max(W[m + at.EDGE], W[m + at.UNKNOWN]), newest >> 32
    for each in range(begin, end):
        if not has(W, m, each, at.HAS_ARRIVED | at.IS_LOST | at.IS_AGAIN):
            _lose(W, m, each)
    place = 0
    while place < W[m + at.AGAIN]:
        each = _number_at(W, m, place)
        if W[segment(m, each) + at.ORDER] < newest:
            _discard_again(W, m, each)  # another one takes its place
            _lose(W, m, each)
        else:
            place += 1
    W[m + at.EDGE] = max(W[m + at.EDGE], end)


@piece
def is_overtaken(W: Integers, m: int) -> bool:
    """Return whether a segment has arrived that was sent after one that has not."""
    if is_clean(W, m):
        return False
    newest = W[m + at.DELIVERED]
    for place in range(W[m + at.AGAIN]):
        if W[segment(m, _number_at(W, m, place)) + at.ORDER] < newest:
            return True
    for each in range(max(W[m + at.EDGE], W[m + at.UNKNOWN]), newest >> 32):
        if not has(W, m, each, at.HAS_ARRIVED | at.IS_LOST | at.IS_AGAIN):
            return True
    return False


@part
def first_lost(W: Integers, m: int) -> int:
    """Return the first segment that is lost and was not sent again, or -1."""
    if not W[m + at.LOST]:
        return -1
    end = W[m + at.NEXT]
    number = max(W[m + at.HINT], W[m + at.UNKNOWN])
    while number < end and W[segment(m, number)] & (at.IS_LOST | at.IS_AGAIN) != at.IS_LOST:
        number += 1
    W[m + at.HINT] = number
    return number if number < end else -1


@piece
def first_unknown(W: Integers, m: int) -> int:
    """Return the first segment that has neither arrived nor was sent again, or -1, as for Linux."""
    if W[at.LINUX]:
        return -1
    for number in range(W[m + at.UNKNOWN], W[m + at.NEXT]):
        if not has(W, m, number, at.HAS_ARRIVED | at.IS_AGAIN):
            return number
    return -1
