"""Acknowledgements on their way to the sender: see `TcpTransfer`."""

from fedsim.addons.tcp import receiver
from fedsim.addons.tcp.compiled import layout as at
from fedsim.addons.tcp.compiled.compiler import inline, part
from fedsim.addons.tcp.compiled.events import call
from fedsim.addons.tcp.compiled.kinds import Integers, Reals, Record, Train
from fedsim.addons.tcp.transfer import BLOCK, BLOCKS


@part
def acknowledge_late(W: Integers, F: Reals, m: Record, time: float) -> None:
    """Acknowledge a single segment after the delay for a second one."""
    _send_acknowledgement(W, F, m, receiver.acknowledge(m, at.IN_ORDER), time)


@inline
def _send_acknowledgement(W: Integers, F: Reals, m: Record, early: int, time: float) -> None:
    """Schedule the arrival of an acknowledgement at the sender."""
    p = m.path
    back = p.back
    # Blocks out of order are reported in SACK options, which make the packet longer.
    if m.earlies:
        back += p.back_bit * BLOCK * min(m.blocks, BLOCKS)
    node = call(W, F, time + back, at.ACKNOWLEDGED, m)
    W[node + at.NUMBER], W[node + at.EARLY] = m.awaited, early
    F[node + at.ECHO] = m.echoed


@inline
def take_segment(W: Integers, F: Reals, m: Record, number: int, sent: float, now: float) -> None:
    """Receive a segment, and acknowledge at once if required."""
    early = receiver.take_segment(m, number, sent, now)
    # The last segment ends the connection, so that nobody waits for its acknowledgement.
    if early != receiver.NOTHING and m.awaited < m.total:
        _send_acknowledgement(W, F, m, early, now)


@part
def take_train(W: Integers, F: Reals, m: Record, train: Train) -> None:
    """Receive several segments in order: see `TcpTransfer._deliver_in_order`."""
    number, count, _, sent, pace, first, last = train
    skipped, times, echo, echo_next = receiver.take_train(m, number, count, sent, pace, last)
    if not times or m.awaited == m.total:
        return
    between, each = (last - first) / (count - 1), receiver.every(m, number + count)
    # One event for all acknowledgements: the sender processes them in a loop.
    when = first + skipped * between + m.path.back
    node = call(W, F, when, at.ALL_ACKNOWLEDGED, m)
    W[node + at.NUMBER], W[node + at.TIMES] = number + skipped + 1, times
    F[node + at.BETWEEN], F[node + at.PACE] = each * between, each * pace
    W[node + at.EACH_TIME] = each
    F[node + at.ECHO], F[node + at.ECHO_NEXT] = echo, echo_next
