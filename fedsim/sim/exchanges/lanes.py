"""The kernel's radios and lanes; see `fedsim.sim.power.radio`, `fedsim.sim.network.transport`."""

from collections.abc import Callable
from typing import Any

from numba.extending import overload

from fedsim.core.laws import Function
from fedsim.results.record.schema import NO_PEER, Event
from fedsim.sim.exchanges.events import find_start, forget_start, schedule, start_at, write
from fedsim.sim.exchanges.layout import ARRIVE, EXPIRE, PROMOTE, KernelTables
from fedsim.sim.kernels import OPTIONS, PART, part, register_laws
from fedsim.sim.power import transitions

_PROMOTION, _TAIL = int(Event.PROMOTION), int(Event.TAIL)

# The kernel has two priorities, so one integer key holds priority and serial number.
_SETTLES = 2**62
"""Added to the serial numbers of events that come last in their instant."""

# What else a transition of a radio changes, in the kernel.


def _in_kernels(function: Callable[..., Any]) -> Callable[[Function], Function]:
    """Return a decorator: kernels execute its function in place of another one."""

    def register(body: Function) -> Function:
        overload(function, jit_options=OPTIONS | PART, strict=False)(lambda *_: body)
        return body

    return register


@_in_kernels(transitions.clock)
def _clock(r: Any, tables: KernelTables) -> float:  # noqa: ARG001
    return float(tables.total[0].now)


@_in_kernels(transitions.set_timer)
def _set_timer(r: Any, when: float, expiry: bool, tables: KernelTables) -> None:
    kind, key = (EXPIRE, _SETTLES) if expiry else (PROMOTE, 0)
    schedule(tables, when, kind, r.number, r.turn, key)


@_in_kernels(transitions.write_state)
def _write_state(r: Any, span: float, joules: float, tables: KernelTables) -> None:
    if span > 0.0:
        total: Any = tables.total[0]
        total.joules += joules
        event = _PROMOTION if r.waking else _TAIL
        write(tables, event, r.number, NO_PEER, r.round_number, span, joules)


@_in_kernels(transitions.set_rate)
def _set_rate(r: Any, up: int, rate: float) -> None:
    """Do nothing: nodes have no batteries."""


@_in_kernels(transitions.book)
@_in_kernels(transitions.update_load)
def _charge(r: Any) -> None:
    """Do nothing: nodes have no batteries."""


@_in_kernels(transitions.add_extras)
def _add_extras(r: Any, joules: float, now: float, up: int) -> float:  # noqa: ARG001
    return joules  # rates are constant, and no node is in a Wi-Fi cell


register_laws()

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
        lane.began = transitions.wake(node, now, sent.round, tables) + lane.latency
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
        transitions.begin(nodes[which], up, 0.0, tables)
        number = lanes[number].follows
