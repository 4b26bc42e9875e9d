"""The receiver of a message's segments: see `Receiver`."""

from math import inf

from fedsim.addons.tcp.compiled import layout as at
from fedsim.addons.tcp.compiled.boards import has, segment
from fedsim.addons.tcp.compiled.compiler import inline, part
from fedsim.addons.tcp.compiled.events import call
from fedsim.addons.tcp.compiled.kinds import Integers, Reals, Train
from fedsim.addons.tcp.receiver import EVERY, GROWS
from fedsim.addons.tcp.transfer import BLOCK, BLOCKS


@inline
def count_arrived(W: Integers, m: int) -> int:
    """Return the number of segments that have arrived."""
    return W[m + at.AWAITED] + W[m + at.EARLIES]


@inline
def acknowledge_now(W: Integers, F: Reals, m: int, early: int, time: float) -> None:
    """Acknowledge at some time, unless the whole message has arrived."""
    W[m + at.UNSAID], F[m + at.DUE], W[m + at.SAID] = 0, inf, W[m + at.AWAITED]
    # The last segment ends the connection, so that nobody waits for its acknowledgement.
    if W[m + at.AWAITED] < W[m + at.TOTAL]:
        _send_acknowledgement(W, F, m, early, time)


@part
def acknowledge_late(W: Integers, F: Reals, m: int, time: float) -> None:
    """Acknowledge a single segment after the delay for a second one."""
    W[m + at.UNSAID], F[m + at.DUE], W[m + at.SAID] = 0, inf, W[m + at.AWAITED]
    _send_acknowledgement(W, F, m, at.IN_ORDER, time)


@inline
def _send_acknowledgement(W: Integers, F: Reals, m: int, early: int, time: float) -> None:
    """Schedule the arrival of an acknowledgement at the sender."""
    p = W[m + at.PATH]
    back = F[p + at.BACK]
    # Blocks out of order are reported in SACK options, which make the packet longer.
    if W[m + at.EARLIES]:
        back += F[p + at.BACK_BIT] * BLOCK * min(W[m + at.PIECES], BLOCKS)
    node = call(W, F, time + back, at.ACKNOWLEDGED, m)
    W[node + at.NUMBER], W[node + at.EARLY] = W[m + at.AWAITED], early
    F[node + at.ECHO] = F[m + at.ECHOED]


@inline
def take_segment(W: Integers, F: Reals, m: int, number: int, sent: float, now: float) -> None:
    """Receive a segment, and acknowledge at once if required: see `Receiver.take`."""
    if number != W[m + at.AWAITED]:
        # A duplicate is acknowledged at once (RFC 5681).
        if number < W[m + at.AWAITED] or has(W, m, number, at.IS_EARLY):
            acknowledge_now(W, F, m, at.IN_ORDER, now)
            return
        # The segment may start a block, extend one, or join the two beside it: +1, 0 or -1 blocks.
        before, behind = _is_early(W, m, number - 1), _is_early(W, m, number + 1)
        W[m + at.PIECES] += 1 - before - behind
        W[segment(m, number)] |= at.IS_EARLY
        W[m + at.EARLIES] += 1
        acknowledge_now(W, F, m, number, now)
        return
    # RFC 7323: the echoed timestamp is that of the first segment since the last acknowledgement.
    if number <= W[m + at.SAID]:
        F[m + at.ECHOED] = sent
    W[m + at.AWAITED] += 1
    # The segment fills a gap: this is acknowledged at once, with all that follows in order.
    if W[m + at.EARLIES]:
        W[m + at.PIECES] -= _is_early(W, m, W[m + at.AWAITED])
        while _is_early(W, m, W[m + at.AWAITED]):
            W[segment(m, W[m + at.AWAITED])] &= ~at.IS_EARLY
            W[m + at.EARLIES] -= 1
            W[m + at.AWAITED] += 1
        acknowledge_now(W, F, m, at.IN_ORDER, now)
        return
    W[m + at.UNSAID] += 1
    grows = GROWS if W[at.LINUX] else 0
    # Delayed acknowledgement: wait for a second segment, except at the start of a connection.
    if W[m + at.UNSAID] < EVERY and W[m + at.AWAITED] > grows:
        F[m + at.DUE] = now + F[at.DELAY]
    else:
        acknowledge_now(W, F, m, at.IN_ORDER, now)


@part
def _is_early(W: Integers, m: int, number: int) -> int:
    if number < 0 or number >= W[m + at.TOTAL]:
        return 0
    return 1 if has(W, m, number, at.IS_EARLY) else 0


@part
def take_train(W: Integers, F: Reals, m: int, train: Train) -> None:
    """Receive several segments in order: see `Receiver.take_train`."""
    number, count, _, sent, pace, first, last = train
    every = 1 if W[at.LINUX] and number + count <= GROWS else EVERY
    # Segments that waited before the train count towards the first acknowledgement.
    skipped = max(every - 1 - W[m + at.UNSAID], 0)
    acknowledged = 1 + (count - 1 - skipped) // every if skipped < count else 0
    if number <= W[m + at.SAID]:
        F[m + at.ECHOED] = sent
    echo = F[m + at.ECHOED]
    W[m + at.AWAITED] = number + count
    if not acknowledged:
        W[m + at.UNSAID] += count
        F[m + at.DUE] = last + F[at.DELAY]
        return
    # Segments after the last acknowledgement wait for the next train, or for the delay.
    behind = count - 1 - skipped - every * (acknowledged - 1)
    W[m + at.UNSAID], W[m + at.SAID] = behind, W[m + at.AWAITED] - behind
    F[m + at.ECHOED] = sent + pace * (count - behind)
    F[m + at.DUE] = last + F[at.DELAY] if behind else inf
    if W[m + at.AWAITED] == W[m + at.TOTAL]:
        return
    between = (last - first) / (count - 1)
    # One event for all acknowledgements: the sender processes them in a loop.
    when = first + skipped * between + F[W[m + at.PATH] + at.BACK]
    node = call(W, F, when, at.ALL_ACKNOWLEDGED, m)
    W[node + at.NUMBER], W[node + at.TIMES] = number + skipped + 1, acknowledged
    F[node + at.BETWEEN], F[node + at.PACE] = every * between, every * pace
    W[node + at.EACH_TIME] = every
    F[node + at.ECHO], F[node + at.ECHO_NEXT] = echo, sent + pace * (skipped + 1)
