"""The states of a lane's current message: a literal table in which every event has its new state.

The code that moves messages (`fedsim.sim.network.transport`) fires events, and takes each new state
from the table. An event that is not there is a defect of that code, refused by `Lane.fire` with the
names of lane, state and event.
"""

from enum import IntEnum, auto


class LaneState(IntEnum):
    """Where the current message of a lane is.

    Attributes:
        IDLE: there is none. Its sender may still have to keep silent (`Lane.silent_until`), which
            is no state: nothing happens as that silence ends, so no timer waits for it.
        PAGING: it waits until the receiving radio can be reached, as in a paging cycle.
        STARTING: it waits for its radio and for the latency; no bit flows yet.
        TIMED: latency and bits together are one timer, on a lane of `RouteClass.TIMER`.
        FLOWING: its bits flow on a bearer.
        DOOMED: they flow, but it will not arrive: a packet is lost for good, or a relay is gone.
            Its sender does not know, sends all of it, and pays for that.
        CLOSED: the world has ended.
    """

    # An IntEnum, for these are the keys of `TRANSITIONS`: a plain Enum hashes in Python code.
    IDLE = auto()
    PAGING = auto()
    STARTING = auto()
    TIMED = auto()
    FLOWING = auto()
    DOOMED = auto()
    CLOSED = auto()


class LaneEvent(IntEnum):
    """What happens to the current message of a lane.

    Attributes:
        START: a message gets the lane; its radio and its latency come first.
        START_TIMER: a message gets the lane, and one timer is all that it needs.
        PAGE: its receiver's radio cannot be reached yet.
        REACH: now it can.
        FLOW: its first bit flows.
        DOOM: it will not arrive, though its bits flow to the last.
        LAST_BIT: the last bit has passed.
        ABORT: its client cannot go on.
        CLOSE: the world ends.
    """

    START = auto()
    START_TIMER = auto()
    PAGE = auto()
    REACH = auto()
    FLOW = auto()
    DOOM = auto()
    LAST_BIT = auto()
    ABORT = auto()
    CLOSE = auto()


TRANSITIONS: dict[LaneState, dict[LaneEvent, LaneState]] = {
    LaneState.IDLE: {
        LaneEvent.START: LaneState.STARTING,
        LaneEvent.START_TIMER: LaneState.TIMED,
        LaneEvent.ABORT: LaneState.IDLE,  # a client leaves that sends, or receives, nothing
        LaneEvent.CLOSE: LaneState.CLOSED,
    },
    LaneState.PAGING: {
        LaneEvent.REACH: LaneState.STARTING,
        LaneEvent.ABORT: LaneState.IDLE,
        LaneEvent.CLOSE: LaneState.CLOSED,
    },
    LaneState.STARTING: {
        LaneEvent.PAGE: LaneState.PAGING,
        LaneEvent.FLOW: LaneState.FLOWING,
        LaneEvent.ABORT: LaneState.IDLE,
        LaneEvent.CLOSE: LaneState.CLOSED,
    },
    # No ABORT: nothing could cancel the timer. A client that may leave has lanes with bearers.
    LaneState.TIMED: {
        LaneEvent.LAST_BIT: LaneState.IDLE,
        LaneEvent.CLOSE: LaneState.CLOSED,
    },
    LaneState.FLOWING: {
        LaneEvent.DOOM: LaneState.DOOMED,
        LaneEvent.LAST_BIT: LaneState.IDLE,
        LaneEvent.ABORT: LaneState.IDLE,
        LaneEvent.CLOSE: LaneState.CLOSED,
    },
    LaneState.DOOMED: {
        LaneEvent.DOOM: LaneState.DOOMED,  # lost on its first hop, and a relay is gone as well
        LaneEvent.LAST_BIT: LaneState.IDLE,
        LaneEvent.ABORT: LaneState.IDLE,
        LaneEvent.CLOSE: LaneState.CLOSED,
    },
    LaneState.CLOSED: {},
}
"""The new state, by the present one and the event."""


class RouteClass(IntEnum):
    """How much a lane's messages need on their way, from the least to the most.

    It is a matter of speed alone: every message could be treated as `FULL`, with the same result.
    It depends on the radio, the links and the latency, so `Lane.set_route` chooses it once a route
    and not once a message.

    Attributes:
        INSTANT: nothing: a message takes no time.
        TIMER: one timer for the latency and all bits, which nothing can hold up or break off.
        BEARER: the latency, and then a bearer at a constant rate; the radio on mains has no states,
            and no packet is lost.
        FULL: radio states, batteries, varying rates, lost packets or relays.
    """

    INSTANT = auto()
    TIMER = auto()
    BEARER = auto()
    FULL = auto()
