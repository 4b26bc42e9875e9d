"""The kernel's radios and lanes; see `fedsim.sim.power.radio`, `fedsim.sim.network.transport`."""

from math import inf
from typing import Any

from fedsim.results.record.schema import NO_PEER, Event
from fedsim.sim.exchanges.events import find_start, forget_start, schedule, start_at, write
from fedsim.sim.exchanges.layout import ARRIVE, EXPIRE, PROMOTE, KernelTables
from fedsim.sim.kernels import part

_PROMOTION, _TAIL = int(Event.PROMOTION), int(Event.TAIL)

# The kernel has two priorities, so one integer key holds priority and serial number.
_SETTLES = 2**62
"""Added to the serial numbers of events that come last in their instant."""

# Radios with a tail, or with a promotion.


@part
def log_state(tables: KernelTables, which: int, event: int, since: float, watts: float) -> None:
    """See `CellularRadio._log_state`."""
    node: Any = tables.nodes[which]
    total: Any = tables.total[0]
    now = total.now
    if now > since:
        joules = watts * (now - since)
        node.radio_joules += joules
        total.joules += joules
        write(tables, event, which, NO_PEER, node.radio_round, now - since, joules)


@part
def wake(tables: KernelTables, which: int, number: int) -> float:
    """See `CellularRadio.wake`."""
    node: Any = tables.nodes[which]
    now: float = tables.total[0].now
    node.radio_round = number
    if node.waking:
        return float(node.ready)
    if not node.idle:
        return now
    # Timers of earlier turns are stale: see `promote` and `expire`.
    node.turn += 1
    node.armed = 0
    node.waking = 1
    node.ready = now + node.wake_time
    schedule(tables, node.ready, PROMOTE, which, node.turn, 0)
    return float(node.ready)


@part
def await_expiry(tables: KernelTables, which: int) -> None:
    """See `CellularRadio._await_expiry`."""
    node: Any = tables.nodes[which]
    node.armed = 1
    # The end may have passed while bits flowed.
    due = max(node.since + node.tail_time, tables.total[0].now)
    # Last in its instant: a message at the very end of the tail still finds the radio connected.
    schedule(tables, due, EXPIRE, which, node.turn, _SETTLES)


@part
def connect(tables: KernelTables, which: int) -> None:
    """See `CellularRadio._connect`."""
    node: Any = tables.nodes[which]
    node.idle = 0
    node.since = tables.total[0].now
    if not node.armed:
        await_expiry(tables, which)


@part
def promote(tables: KernelTables, which: int, turn: int) -> None:
    """See `CellularRadio._promote`."""
    node: Any = tables.nodes[which]
    # Events cannot be cancelled. A promotion or a timer of an earlier turn finds another number,
    # and does nothing.
    if turn == node.turn:
        log_state(tables, which, _PROMOTION, node.ready - node.wake_time, node.wake_power)
        node.waking = 0
        connect(tables, which)


@part
def expire(tables: KernelTables, which: int, turn: int) -> None:
    """See `CellularRadio._expire`."""
    node: Any = tables.nodes[which]
    if turn != node.turn:
        return
    node.armed = 0
    # A message is under way: its end sets the timer again.
    if node.began[0] < inf or node.began[1] < inf:
        return
    now = tables.total[0].now
    # Bits have flowed since the timer was set, so the tail ends later.
    if now < node.since + node.tail_time:
        await_expiry(tables, which)
        return
    log_state(tables, which, _TAIL, node.since, node.tail_power)
    node.since = now
    node.idle = 1
    node.turn += 1


@part
def end(tables: KernelTables, which: int, up: int, bits: int) -> float:
    """See `RadioMeter.end`."""
    node: Any = tables.nodes[which]
    now = tables.total[0].now
    on = min(node.began[0], node.began[1])
    # Connected power is paid once for the time that both directions share.
    on = max(on, node.paid_until)
    joules = node.per_bit[up] * bits
    if on < now:
        joules += node.held * (now - on)
    node.paid_until = now
    node.began[up] = inf
    node.radio_joules += joules
    return float(joules)


@part
def mark_idle(tables: KernelTables, which: int, up: int) -> None:
    """See `CellularRadio.mark_idle`."""
    node: Any = tables.nodes[which]
    flowed = node.flowing
    node.began[up] = inf
    node.flowing &= ~(1 << up)
    if not node.waking and not node.idle and not node.flowing:
        if flowed:
            connect(tables, which)
        # The message was cut off before its bits flowed: the tail goes on.
        elif not node.armed:
            await_expiry(tables, which)


# Lanes.


@part
def framing_of(lane: Any, bits: int) -> int:
    """See `Framing.bits`."""
    return int(lane.overhead * -(-bits // lane.room))  # packets: bits / room, rounded up


@part
def begin(tables: KernelTables, number: int, message: int) -> None:
    """See `ServerLanes._queue`: start a message of a lane that is free."""
    lane: Any = tables.lanes[number]
    sent: Any = tables.messages[message]
    which, up = number >> 1, number & 1
    node: Any = tables.nodes[which]
    now = tables.total[0].now
    bits = sent.payload + sent.header
    lane.current = message
    lane.framing = framing_of(lane, bits)
    if node.stateful:
        lane.began = wake(tables, which, sent.round) + lane.latency
        node.began[up] = lane.began
        # A stateful radio has an event as bits begin to flow, which ends its wait.
        start_at(tables, lane.began, number)
    else:
        lane.began = now + lane.latency
        node.began[up] = lane.began
        # One event for latency and bits, as on a lane with `Lane.direct`: the sum rounds in this
        # order.
        schedule(tables, lane.began + (bits + lane.framing) / lane.cap, ARRIVE, number, 0, 0)


@part
def enqueue(tables: KernelTables, number: int, message: int) -> None:
    """See `ServerLanes._queue`."""
    lane: Any = tables.lanes[number]
    messages: Any = tables.messages
    if lane.current < 0:
        begin(tables, number, message)
        return
    messages[message].follows = -1
    if lane.head < 0:
        lane.head = message
    else:
        messages[lane.tail].follows = message
    lane.tail = message


@part
def flow(tables: KernelTables, first: int) -> None:
    """See `ServerLanes._flow` and `Lane.start`."""
    lanes: Any = tables.lanes
    nodes: Any = tables.nodes
    messages: Any = tables.messages
    now = tables.total[0].now
    # The list is taken out first: lanes may start again at this time.
    forget_start(tables, find_start(tables, now))
    number = first
    while number >= 0:
        which, up = number >> 1, number & 1
        sent = messages[lanes[number].current]
        bits = sent.payload + sent.header + lanes[number].framing
        schedule(tables, now + bits / lanes[number].cap if bits else now, ARRIVE, number, 0, 0)
        if not nodes[which].flowing and not nodes[which].waking and not nodes[which].idle:
            log_state(tables, which, _TAIL, nodes[which].since, nodes[which].tail_power)
        nodes[which].flowing |= 1 << up
        number = lanes[number].follows
