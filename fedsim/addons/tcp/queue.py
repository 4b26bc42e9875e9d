"""Queues of links under `model: tcp`, for segments, trains of segments and streams."""

from collections import deque
from dataclasses import dataclass, field
from math import inf
from typing import Any

from fedsim.core.laws import law, step
from fedsim.physics.signals import Signal
from fedsim.sim.engine.calendar import Calendar
from fedsim.sim.network.processor_sharing import FairLink

TOGETHER = 1e-9
"""Events within this time, s, coincide: equal times differ by rounding."""

NEVER = -1.0
"""Value of `LinkQueue.free` before the first packet, s. With 0, a packet at time 0 would find a
departure at that instant and wait behind it."""

FILLED = 0.85
"""Largest mean share of a queue that streams fill: overflows cut their windows."""


@dataclass(slots=True, eq=False)
class QueueState:
    """The state of one direction of a link, with its first-in, first-out queue.

    Attributes:
        rate: the rate, bit/s; unused if the link follows a signal.
        limit: the capacity in packets.
        managed: whether FQ-CoDel holds packets that find no room; otherwise they are dropped.
        signal: the signal of the rate, if it varies.
        flows: the number of messages that pass the link now.
        claimed: the segments that these messages still have to send. None can be dropped while they
            all fit into the queue.
        crowded: whether segments may be dropped.
        free: the time at which all packets so far are through, s.
        slot: the transmission time of the last of them, s.
        waits: waiting trains, in order: the time at which the first segment leaves the queue, s,
            the time between segments, s, and their number.
        waiting: the number of waiting segments.
        streams: the sharing of the link by streams; None before the first one.
        windows: the sum of the windows of streams, packets.
        pipe: the bandwidth-delay product of a stream, packets.
    """

    rate: float
    limit: float
    managed: bool = False
    signal: Signal | None = None
    flows: int = 0
    claimed: int = 0
    crowded: bool = False
    free: float = NEVER
    slot: float = 0.0
    waits: deque[tuple[float, float, int]] = field(default_factory=deque)
    waiting: int = 0
    streams: FairLink | None = None
    windows: float = 0.0
    pipe: float = 0.0

    def cross(self, bits: float) -> None:
        """Let bits of packets take their share from the streams."""
        if self.streams is not None:
            self.streams.add(bits, inf, _ignore, None)

    def lasts(self, bits: float) -> float:
        """Return the transmission time of bits, s; approximate if the rate varies."""
        if self.signal is None:
            return bits / self.rate
        return bits / (self.signal.average or self.signal.peak)

    def open_streams(self, calendar: Calendar) -> None:
        """Let streams share the link, if there was none before."""
        if self.streams is None:
            self.streams = FairLink(calendar, self.rate)

    def when(self, start: float, bits: float) -> float:
        """Return when bits are through whose transmission starts at a time, s."""
        return start + bits / self.rate if self.signal is None else self.signal.when(start, bits)


@law
def claim(q: QueueState, segments: int, flows: int = 0) -> None:
    """Change the claims of messages by some segments."""
    q.flows += flows
    q.claimed += segments
    # One more than the queue holds, as the packet in transmission does not wait.
    q.crowded = q.claimed > q.limit + 1


@law
def claim_path(path: Any, segments: int, flows: int) -> None:
    """Change the claims of a message on all queues of its path."""
    stages = path.stages
    for k in range(len(stages)):
        claim(stages[k].queue, segments, flows)


@step
def is_crowded(path: Any) -> bool:
    """Return whether queues may drop segments of a message because of others."""
    stages = path.stages
    for k in range(len(stages)):  # noqa: SIM110 - `any` takes longer
        if stages[k].queue.crowded:
            return True
    return False


@law
def standing(q: QueueState) -> float:
    """Return the packets that streams keep in the queue."""
    if not q.windows:
        return 0.0
    # Windows beyond the bandwidth-delay product stand in the queue, up to a mean filling.
    return min(max(q.windows - q.pipe, 0.0), FILLED * q.limit)


@step
def room(q: QueueState, now: float, lead: float = 0.0) -> float:
    """Return how many packets may arrive at `now`.

    Args:
        q: the queue.
        now: the time, s.
        lead: the travel time from the queue before, s. If a departure and an arrival coincide, the
            one that started earlier comes first, as in ns-3: the departing packet started one slot
            ago.
    """
    while q.waiting:
        start, slot, count = q.waits[0]
        gone_by = now - TOGETHER if lead > slot else now + TOGETHER
        # The last segment of this train still waits; some before it may have left.
        if start + slot * (count - 1) > gone_by:
            # Part of the first train has left. At least one segment remains: the condition above
            # says that the last one has not left.
            gone = min(int((gone_by - start) / slot), count - 2) + 1 if start <= gone_by else 0
            if gone:
                q.waits[0] = (start + gone * slot, slot, count - gone)
                q.waiting -= gone
            break
        q.waiting -= count
        q.waits.popleft()
    free_by = now - TOGETHER if lead > q.slot else now + TOGETHER
    # The packet in transmission has left the queue: an idle link takes one more.
    left = q.limit - q.waiting + (1.0 if q.free <= free_by else 0.0)
    return left - standing(q) if q.windows and not q.managed else left


@law
def carry(q: QueueState, first: float, last: float, count: int, bits: float) -> tuple[float, float]:
    """Transmit packets that find room; return when the first and the last one are through, s.

    Args:
        q: the queue.
        first: the arrival of the first packet, s.
        last: the arrival of the last packet, s.
        count: the number of packets.
        bits: the bits of each packet.
    """
    start = max(first, q.free)
    if q.signal is None:
        slot = bits / q.rate
        free = start + count * slot
        # The last packet is through one slot after its arrival, but not before the packets in front
        # of it.
        end = max(last + slot, free)
        begun = start + slot
    else:
        free = q.when(start, count * bits)
        slot = (free - start) / count
        begun = q.when(start, bits)
        end = max(free, q.when(last, bits))
    q.slot, q.free = slot, free
    if start > first or count > 1:
        q.waits.append((start, slot, count))
        q.waiting += count
    if q.windows:
        lag = standing(q) * slot
        # The packets take their share from the streams on this link.
        q.cross(count * bits)
        return begun + lag, end + lag
    return begun, end


@step
def carry_one(q: QueueState, first: float, bits: float, lead: float = 0.0) -> float:
    """Transmit a packet; return when it is through, s, or -1 if it is dropped.

    Args:
        q: the queue.
        first: the arrival of the packet, s.
        bits: the bits of the packet.
        lead: see `room`.
    """
    free = q.free
    if q.signal is not None or q.windows:
        return carry(q, first, first, 1, bits)[0] if room(q, first, lead) >= 1 else -1.0
    slot, before = bits / q.rate, q.slot
    if free <= (first - TOGETHER if lead > before else first + TOGETHER):  # nothing waits
        if q.waiting:
            q.waits.clear()
            q.waiting = 0
        q.free = free = first + slot
        q.slot = slot
        return free
    # The list of waiting packets is brought up to date only if the queue may be full.
    if q.waiting >= q.limit and room(q, first, lead) < 1:
        return -1.0
    q.waits.append((free, before, 1))
    q.waiting += 1
    q.free = free = max(free, first) + slot
    q.slot = slot
    return free


@law
def join(q: QueueState, calendar: Any, window: float, pipe: float) -> None:
    """Add the window of a stream.

    Args:
        q: the queue.
        calendar: the calendar.
        window: the window, packets.
        pipe: the bandwidth-delay product, packets.
    """
    q.open_streams(calendar)
    now = calendar.now
    if not q.windows and q.free > now:  # packets before the stream
        q.cross((q.free - now) * q.rate)
    q.windows += window
    q.pipe = pipe


@law
def leave(q: QueueState, window: float) -> None:
    """Remove the window of a stream."""
    q.windows -= window
    # Sums of windows do not cancel exactly.
    if q.windows < 1e-6:
        q.windows = 0.0


@law
def make_empty(q: QueueState) -> None:
    """Empty the queue for another episode."""
    q.free, q.slot, q.waiting = NEVER, 0.0, 0
    q.flows = q.claimed = 0
    q.crowded = False
    q.waits.clear()
    q.windows = q.pipe = 0.0


class LinkQueue(QueueState):
    """One direction of a link, with its first-in, first-out queue.

    Streams share the link fairly. A segment that arrives meanwhile waits behind the streams'
    packets in the queue, and its bits reduce the streams' rate.
    """

    __slots__ = ()

    claim = claim
    room = room
    carry = carry
    carry_one = carry_one
    leave = leave
    standing = property(standing)

    def clear(self) -> None:
        """Empty the queue for another episode."""
        make_empty(self)
        self.streams = None


def _ignore(_: object) -> None:
    """Ignore the end of a train that shares the link with streams."""


@dataclass(slots=True, eq=False)
class SegmentTrain:
    """Segments of one flow that travel together.

    Attributes:
        owner: the sender of the flow, or its handshake.
        number: the number of the first segment.
        count: the number of segments.
        bits: the bits of each.
        sent: the time at which the first one was sent, s.
        pace: the time between segments as they were sent, s.
        first, last: the arrivals of the first and the last one at the next queue, s.
        hop: the index of the next stage of the path.
    """

    owner: Any
    number: int
    count: int
    bits: float
    sent: float
    pace: float
    first: float
    last: float
    hop: int = 0
