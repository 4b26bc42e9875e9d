"""Queues of links under `model: tcp`, and what waits in them: trains, handshakes, streams."""

from collections import deque
from dataclasses import dataclass, field
from math import inf
from typing import Any

from fedsim.physics.signals import Signal
from fedsim.sim.engine.calendar import Calendar
from fedsim.sim.network.processor_sharing import FairLink

TARGET, INTERVAL = 0.005, 0.1
"""Of CoDel, s: RFC 8289."""

FILLED = 0.85
"""How much of a queue streams fill in the mean, at most: windows are cut where it overflows."""


@dataclass(slots=True, eq=False)
class LinkQueue:
    """One direction of a link, with the queue in front of it.

    Trains pass one after another. Streams, the rests of long messages, share the link fairly; a
    train that comes while there are any waits behind what their windows keep in the queue, and
    takes its bits from the rate that is left to them.

    Attributes:
        rate: bit/s; not used where the link follows a signal.
        limit: how many packets may wait.
        managed: whether it drops by CoDel, and never because it is full.
        signal: what the rate follows, if it varies.
        claimed: packets that flows over this link have in flight: while they are no more than the
            queue has room for, none can be dropped.
        free: when all trains that have come are through, s.
        knocks: when handshakes that wait are through, s.
        above: by flow, when CoDel drops its next segment, how many it has dropped in a row, and
            when its last one leaves the queue.
        streams: the link as these share it; None before any has come.
        windows: of all streams, packets.
        pipe: the product of rate and round trip of a stream, packets.
    """

    rate: float
    limit: float
    managed: bool = False
    signal: Signal | None = None
    claimed: int = 0
    free: float = 0.0
    knocks: deque[float] = field(default_factory=deque)
    above: dict[Any, tuple[float, int, float]] = field(default_factory=dict)
    streams: FairLink | None = None
    windows: float = 0.0
    pipe: float = 0.0

    def lasts(self, bits: float) -> float:
        """Return how long bits take on the link, s; about, where its rate varies."""
        if self.signal is None:
            return bits / self.rate
        return bits / (self.signal.average or self.signal.peak)

    def carry(self, first: float, last: float, count: int, bits: float) -> tuple[int, float, float]:
        """Take a train of packets; return how many pass, and when the first and the last do, s.

        Args:
            first: when its first packet comes, s.
            last: when its last one does, s.
            count: of its packets.
            bits: of each.
        """
        if self.signal is not None:
            return self._carry_by_signal(self.signal, first, last, count, bits)
        slot = bits / self.rate
        waits = self.free - first
        waits = max(waits, 0.0)
        standing = self.standing if self.windows else 0.0
        if not self.managed and slot:
            room = self.limit + 1 - standing - (waits - (last - first)) / slot
            if room < count:
                count = int(room + 1e-9)
                if count <= 0:
                    return 0, first, last
        start = first + waits
        self.free = free = start + count * slot
        end, lag = last + slot, standing * slot
        end = max(end, free)
        if self.windows and self.streams is not None:
            self.streams.add(count * bits, inf, _ignore, None)
        return count, start + slot + lag, end + lag

    def _carry_by_signal(
        self, signal: Signal, first: float, last: float, count: int, bits: float
    ) -> tuple[int, float, float]:
        start = max(self.free, first)
        if not self.managed:
            waiting = signal.integral(first, start) / bits if start < inf else inf
            room = self.limit + 1 - waiting + signal.integral(first, last) / bits
            count = max(0, min(count, int(room + 1e-9)))
            if not count:
                return 0, first, last
        self.free = signal.when(start, count * bits)
        return count, signal.when(start, bits), max(self.free, signal.when(last, bits))

    def knock(self, now: float, bits: float, segment: float) -> float:
        """Take a SYN; return when it is through, or infinity where the queue is full.

        Args:
            now: when it comes, s.
            bits: of it.
            segment: the bits of a data packet, for the number of those that wait.
        """
        knocks = self.knocks
        while knocks and knocks[0] <= now:
            knocks.popleft()
        own = self.lasts(bits)
        waits = max(self.free - now, 0.0)
        data = max(0.0, waits - len(knocks) * own)
        waiting = len(knocks) + (data / self.lasts(segment) if data else 0.0)
        if not self.managed and waiting >= self.limit + 1:
            return inf
        self.free = through = now + waits + own
        knocks.append(through)
        return through

    def drops(self, flow: object, now: float, bits: float) -> bool:
        """Return whether CoDel drops the first segment of a train that comes now."""
        waits = max(self.free - now, 0.0)
        leaves = now + waits
        due, count, until = self.above.get(flow, (inf, 0, -inf))
        # What waits in the link's own queue is beyond CoDel's reach.
        if waits - self.limit * self.lasts(bits) < TARGET:
            self.above.pop(flow, None)
            return False
        if now > until:  # the flow had nothing in the queue any more
            due, count = leaves + INTERVAL, 0
        if leaves < due:
            self.above[flow] = due, count, leaves
            return False
        self.above[flow] = leaves + INTERVAL / (count + 1) ** 0.5, count + 1, leaves
        return True

    # Streams.

    @property
    def standing(self) -> float:
        """The packets that streams keep in the queue."""
        return min(max(self.windows - self.pipe, 0.0), FILLED * self.limit)

    def waiting(self, now: float, bits: float) -> float:
        """Return how many packets of some bits wait now."""
        waits = max(self.free - now, 0.0) * self.rate / bits
        return waits + self.standing if self.windows else waits

    def join(self, calendar: Calendar, window: float, pipe: float) -> FairLink:
        """Add the window of a stream; return the link as streams share it.

        Args:
            calendar: the time.
            window: packets.
            pipe: the product of the link's rate and the stream's round trip, packets.
        """
        if self.streams is None:
            self.streams = FairLink(calendar, self.rate)
        if not self.windows and self.free > calendar.now:  # these trains come first
            self.streams.add((self.free - calendar.now) * self.rate, inf, _ignore, None)
        self.windows += window
        self.pipe = pipe
        return self.streams

    def leave(self, window: float) -> None:
        """Take the window of a stream away."""
        self.windows -= window
        if self.windows < 1e-6:
            self.windows = 0.0


def _ignore(_: object) -> None:
    """Ignore the end of a train among streams."""


@dataclass(slots=True, eq=False)
class SegmentTrain:
    """Segments of one flow that travel together.

    Attributes:
        index: how many segments the flow had sent before it.
        count: of its segments, without those that were lost on the way.
        sent: when its first one was sent, s.
        again: whether they are retransmissions.
        first, last: when its first and last segment come to the next queue, s.
        end: the index behind its last segment, as it was sent.
        hop: the next stage on its path.
    """

    index: int
    count: int
    sent: float
    again: bool
    first: float
    last: float
    end: int
    hop: int = 0


@dataclass(slots=True)
class Hole:
    """Neighbouring segments that were lost.

    Attributes:
        index: how many segments the flow had sent before the first of them.
        count: of them.
        again: whether they were retransmissions, which only a timeout repairs.
        after: how many segments that were sent after them are known to have arrived.
    """

    index: int
    count: int
    again: bool
    after: int = 0
