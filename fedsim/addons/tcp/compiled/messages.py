"""What a message has beyond its fields: events, a timer, a log of arrivals, and a flow."""

from math import inf
from typing import Any

from fedsim.addons.tcp import congestion, transfers
from fedsim.addons.tcp.compiled import layout as at
from fedsim.addons.tcp.compiled.compiler import part
from fedsim.addons.tcp.compiled.events import call, forget, free_node, take_node
from fedsim.addons.tcp.compiled.kinds import Record
from fedsim.addons.tcp.compiled.records import flow, method, place_of, write
from fedsim.addons.tcp.ways import Segment, Train
from fedsim.sim.network.link_share import remove

for _law in (
    congestion.reopen,
    congestion.measure,
    congestion.restore_timeout,
    congestion.note_acknowledgement,
    congestion.grow,
    congestion.enter_recovery,
    congestion.recover,
    congestion.count_sent,
    congestion.leave_recovery,
    congestion.time_out,
    congestion.undo_time_out,
    transfers.launch,
):
    method("message", _law.__name__)(_law)


@method("message", "note_sent")
def _note_sent(m: Record, count: int, now: float) -> None:
    for number in range(m.next, m.next + count):
        m.sent[number] = now


# Events, and the timer.


@method("message", "call")
def _call(m: Record, when: float, event: int, arguments: tuple[Any, ...] | None) -> None:
    node = call(m.words, m.reals, when, event, m)
    write(m.words, node + at.NUMBER, arguments)


@method("message", "move_timer", inlined=False)
def _move_timer(m: Record, when: float) -> None:
    W, F = m.words, m.reals
    m.cancel_timer()
    # A deadline may have passed while the sender was busy.
    m.timer_when = when = max(when, m.now)
    m.timer = W[call(W, F, when, at.TIMES_OUT, m) + at.EVENT_KEY]


@method("message", "cancel_timer", inlined=False)
def _cancel_timer(m: Record) -> None:
    m.timer_when = inf
    if m.timer:
        m.timer = 0
        forget(m.words, m.reals)


@method("message", "forget_timer")
def _forget_timer(m: Record) -> None:
    m.timer, m.timer_when = 0, inf


# The flow of a stream.


@method("message", "add_flow", inlined=False)
def _add_flow(m: Record, bits: float, cap: float, count: int) -> None:
    # Follows an earlier one, which has ended, so that no list holds it: see `TcpArrivals.follow`.
    m.passed += m.stream_logged
    if m.stream_flow:
        free_node(m.words, m.stream_flow)
    m.stream_flow = m.path.stages[m.stream_at].queue.add_flow(bits, cap, place_of(m))
    m.stream_logged = count


@method("message", "end_flow", inlined=False)
def _end_flow(m: Record, whole: int) -> None:
    f = flow(m.words, m.stream_flow)
    # A flow that has ended is in no list, even if its message is stopped before its last segment
    # has arrived.
    if not whole and place_of(f.link):
        remove(f.link, f)
    free_node(m.words, m.stream_flow)
    m.stream_flow = 0


# The log of arrivals: see `TcpArrivals`.


@method("message", "note")
def _note(m: Record, first: float, last: float, count: int) -> None:
    # A node of the log holds ITEMS entries.
    if not m.log_first or m.log_end == at.ITEMS:
        _add_page(m)
    W, F, item = m.words, m.reals, m.log_last + at.ITEM * m.log_end
    F[item + at.FROM], F[item + at.TO] = max(m.now, first), last
    W[item + at.ARRIVED_THEN] = count
    m.log_end += 1


@part
def _add_page(m: Record) -> None:
    """Append a node to the log of arrivals, and drop nodes whose arrivals are past."""
    W, F = m.words, m.reals
    new = take_node(W)
    W[new + at.LINK], m.log_end = 0, 0
    if m.log_first:
        W[m.log_last + at.LINK] = new
    else:
        m.log_first = new
    m.log_last = new
    while m.log_first != new:
        page, latest, count = m.log_first, 0.0, 0
        for k in range(at.ITEMS):
            latest = max(latest, F[page + at.ITEM * k + at.TO])
            count += W[page + at.ITEM * k + at.ARRIVED_THEN]
        # Later nodes may only be summed up after all earlier ones.
        if latest > m.now:
            break
        m.passed += count
        m.log_first = W[page + at.LINK]
        free_node(W, page)


@method("message", "close", inlined=False)
def _close(m: Record, whole: int) -> None:  # noqa: ARG001 - the caller knows what has arrived
    W, node = m.words, m.log_first
    while node:
        behind = W[node + at.LINK]
        free_node(W, node)
        node = behind
    m.log_first = 0


# What kernels do not implement, and no world of theirs has: kept connections, per-flow queues, and
# packet loss.


@method("message", "note_use")
def _note_use(m: Record, flight: int, out: int, numbers: tuple[int, int], now: float) -> None:
    pass


@method("message", "sends")
def _sends(m: Record, start: float, pace: float, count: int) -> tuple[float, float]:  # noqa: ARG001
    return start, pace


@method("stage", "holds")
def _holds(s: Record) -> bool:  # noqa: ARG001
    return False


@method("message", "loses")
def _loses(m: Record, train: Train) -> bool:  # noqa: ARG001
    return False


@method("message", "pass_alone")
def _pass_alone(m: Record, segment: Segment) -> float:  # noqa: ARG001
    return -1.0
