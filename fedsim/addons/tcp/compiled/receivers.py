"""The receiver of a message's segments: see `Receiver`."""

from math import inf

from fedsim.addons.tcp.compiled import layout as at
from fedsim.addons.tcp.compiled.boards import has, segment
from fedsim.addons.tcp.compiled.compiler import inline, part
from fedsim.addons.tcp.compiled.events import call
from fedsim.addons.tcp.compiled.kinds import Integers, Reals, Record, Train
from fedsim.addons.tcp.receiver import EVERY, GROWS
from fedsim.addons.tcp.transfer import BLOCK, BLOCKS


@inline
def count_arrived(m: Record) -> int:
    """Return the number of segments that have arrived."""
    return m.awaited + m.earlies


@inline
def acknowledge_now(W: Integers, F: Reals, m: Record, early: int, time: float) -> None:
    """Acknowledge at some time, unless the whole message has arrived."""
    m.unsaid, m.due, m.said = 0, inf, m.awaited
    # The last segment ends the connection, so that nobody waits for its acknowledgement.
    if m.awaited < m.total:
        _send_acknowledgement(W, F, m, early, time)


@part
def acknowledge_late(W: Integers, F: Reals, m: Record, time: float) -> None:
    """Acknowledge a single segment after the delay for a second one."""
    m.unsaid, m.due, m.said = 0, inf, m.awaited
    _send_acknowledgement(W, F, m, at.IN_ORDER, time)


@inline
def _send_acknowledgement(W: Integers, F: Reals, m: Record, early: int, time: float) -> None:
    """Schedule the arrival of an acknowledgement at the sender."""
    p = m.path
    back = F[p + at.BACK]
    # Blocks out of order are reported in SACK options, which make the packet longer.
    if m.earlies:
        back += F[p + at.BACK_BIT] * BLOCK * min(m.pieces, BLOCKS)
    node = call(W, F, time + back, at.ACKNOWLEDGED, m)
    W[node + at.NUMBER], W[node + at.EARLY] = m.awaited, early
    F[node + at.ECHO] = m.echoed


@inline
def take_segment(W: Integers, F: Reals, m: Record, number: int, sent: float, now: float) -> None:
    """Receive a segment, and acknowledge at once if required: see `Receiver.take`."""
    if number != m.awaited:
        # A duplicate is acknowledged at once (RFC 5681).
        if number < m.awaited or has(W, m, number, at.IS_EARLY):
            acknowledge_now(W, F, m, at.IN_ORDER, now)
            return
        # The segment may start a block, extend one, or join the two beside it: +1, 0 or -1 blocks.
        before, behind = _is_early(W, m, number - 1), _is_early(W, m, number + 1)
        m.pieces += 1 - before - behind
        W[segment(W, m, number)] |= at.IS_EARLY
        m.earlies += 1
        acknowledge_now(W, F, m, number, now)
        return
    # RFC 7323: the echoed timestamp is that of the first segment since the last acknowledgement.
    if number <= m.said:
        m.echoed = sent
    m.awaited += 1
    # The segment fills a gap: this is acknowledged at once, with all that follows in order.
    if m.earlies:
        m.pieces -= _is_early(W, m, m.awaited)
        while _is_early(W, m, m.awaited):
            W[segment(W, m, m.awaited)] &= ~at.IS_EARLY
            m.earlies -= 1
            m.awaited += 1
        acknowledge_now(W, F, m, at.IN_ORDER, now)
        return
    m.unsaid += 1
    grows = GROWS if m.linux else 0
    # Delayed acknowledgement: wait for a second segment, except at the start of a connection.
    if m.unsaid < EVERY and m.awaited > grows:
        m.due = now + F[at.DELAY]
    else:
        acknowledge_now(W, F, m, at.IN_ORDER, now)


@part
def _is_early(W: Integers, m: Record, number: int) -> int:
    if number < 0 or number >= m.total:
        return 0
    return 1 if has(W, m, number, at.IS_EARLY) else 0


@part
def take_train(W: Integers, F: Reals, m: Record, train: Train) -> None:
    """Receive several segments in order: see `Receiver.take_train`."""
    number, count, _, sent, pace, first, last = train
    every = 1 if m.linux and number + count <= GROWS else EVERY
    # Segments that waited before the train count towards the first acknowledgement.
    skipped = max(every - 1 - m.unsaid, 0)
    acknowledged = 1 + (count - 1 - skipped) // every if skipped < count else 0
    if number <= m.said:
        m.echoed = sent
    echo = m.echoed
    m.awaited = number + count
    if not acknowledged:
        m.unsaid += count
        m.due = last + F[at.DELAY]
        return
    # Segments after the last acknowledgement wait for the next train, or for the delay.
    behind = count - 1 - skipped - every * (acknowledged - 1)
    m.unsaid, m.said = behind, m.awaited - behind
    m.echoed = sent + pace * (count - behind)
    m.due = last + F[at.DELAY] if behind else inf
    if m.awaited == m.total:
        return
    between = (last - first) / (count - 1)
    # One event for all acknowledgements: the sender processes them in a loop.
    when = first + skipped * between + F[m.path + at.BACK]
    node = call(W, F, when, at.ALL_ACKNOWLEDGED, m)
    W[node + at.NUMBER], W[node + at.TIMES] = number + skipped + 1, acknowledged
    F[node + at.BETWEEN], F[node + at.PACE] = every * between, every * pace
    W[node + at.EACH_TIME] = every
    F[node + at.ECHO], F[node + at.ECHO_NEXT] = echo, sent + pace * (skipped + 1)
