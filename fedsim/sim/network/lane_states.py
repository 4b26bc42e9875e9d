"""The states of a lane's current message: a literal table of the new state after each event.

The code that moves messages (`fedsim.sim.network.transport`) fires events, and takes each new state
from the table. An event that is missing in the table is a defect of that code: `Lane.fire` raises
an error with the names of lane, state and event.
"""

from enum import IntEnum, auto


class LaneState(IntEnum):
    """The state of the current message of a lane.

    Attributes:
        IDLE: no message. The sender may still have to keep silent (`Lane.silent_until`). This is
            no state of its own: nothing happens as the silence ends, so it needs no timer.
        PAGING: the message waits until the receiving radio can be reached (paging cycle).
        STARTING: the message waits for its radio and for the latency; no bit flows yet.
        TIMED: one timer covers latency and bits, on a lane of `RouteClass.TIMER`.
        FLOWING: bits flow on a bearer.
        DOOMED: bits flow, but the message will not arrive: a packet is lost for good, or a relay
            is gone. The sender does not notice: it sends all bits, and pays for them.
        CLOSED: the world has ended.
    """

    # An IntEnum, since members are the keys of `TRANSITIONS`: a plain Enum hashes in Python code.
    IDLE = auto()
    PAGING = auto()
    STARTING = auto()
    TIMED = auto()
    FLOWING = auto()
    DOOMED = auto()
    CLOSED = auto()


class LaneEvent(IntEnum):
    """An event of the current message of a lane.

    Attributes:
        START: a message gets the lane; its radio and its latency come first.
        START_TIMER: a message gets the lane, and needs a single timer.
        PAGE: the receiver's radio cannot be reached yet.
        REACH: the receiver's radio can be reached from now on.
        FLOW: the first bit flows.
        DOOM: the message will not arrive, but its bits flow to the last one.
        LAST_BIT: the last bit has passed.
        ABORT: the client cannot go on.
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
        LaneEvent.ABORT: LaneState.IDLE,  # a client leaves that neither sends nor receives
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
        LaneEvent.DOOM: LaneState.DOOMED,  # lost on the first hop, and a relay is gone as well
        LaneEvent.LAST_BIT: LaneState.IDLE,
        LaneEvent.ABORT: LaneState.IDLE,
        LaneEvent.CLOSE: LaneState.CLOSED,
    },
    LaneState.CLOSED: {},
}
"""The new state, by the present one and the event."""


class RouteClass(IntEnum):
    """The steps that the messages of a lane need, from the fewest to the most.

    The class affects speed only: every message could be treated as `FULL`, with the same result.
    It depends on the radio, the links and the latency, so `Lane.set_route` chooses it once per
    route and not once per message.

    Attributes:
        INSTANT: no step: a message takes no time.
        TIMER: one timer for the latency and all bits, which nothing can delay or abort.
        BEARER: the latency, and then a bearer at a constant rate. The radio is on mains and has no
            states, and no packet is lost.
        FULL: radio states, batteries, varying rates, lost packets or relays.
    """

    INSTANT = auto()
    TIMER = auto()
    BEARER = auto()
    FULL = auto()
