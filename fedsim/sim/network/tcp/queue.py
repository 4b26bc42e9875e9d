"""Queues of links under `model: tcp`, and what waits in them: segments, trains of them, streams."""

from collections import deque
from dataclasses import dataclass, field
from math import inf
from typing import Any

from fedsim.physics.signals import Signal
from fedsim.sim.engine.calendar import Calendar
from fedsim.sim.network.processor_sharing import FairLink

TOGETHER = 1e-9
"""What happens within this time, s, happens at once: equal times differ by rounding."""

NEVER = -1.0
"""When the last packet of a link is through that has had none, s: before the first one comes. At 0,
what comes at time 0 would wait behind nothing, in a place of the queue."""

FILLED = 0.85
"""How much of a queue streams fill in the mean, at most: windows are cut where it overflows."""


@dataclass(slots=True, eq=False)
class LinkQueue:
    """One direction of a link, with the queue in front of it, first in, first out.

    Streams, the rests of long messages, share the link fairly; a segment that comes while there
    are any waits behind what their windows keep in the queue, and takes its bits from the rate that
    is left to them.

    Attributes:
        rate: bit/s; not used where the link follows a signal.
        limit: how many packets may wait.
        managed: whether what finds no room waits by flow, under FQ-CoDel; else it is dropped.
        signal: what the rate follows, if it varies.
        flows: the messages that pass it now.
        claimed: the segments that they have left: while they are no more than the queue has room
            for, none can be dropped.
        crowded: whether segments of the messages that pass it may be dropped.
        free: when all that has come is through, s.
        slot: how long the last packet of it takes, s.
        waits: by train, in order: when its first segment leaves the queue, s, the time from
            one segment to the next, s, and their number.
        waiting: the segments of these.
        streams: the link as these share it; None before any has come.
        windows: of all streams, packets.
        pipe: the product of rate and round trip of a stream, packets.
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

    def claim(self, segments: int, flows: int = 0) -> None:
        """Let messages claim room for some more segments, or fewer."""
        self.flows += flows
        self.claimed += segments
        self.crowded = self.claimed > self.limit + 1

    def lasts(self, bits: float) -> float:
        """Return how long bits take on the link, s; about, where its rate varies."""
        if self.signal is None:
            return bits / self.rate
        return bits / (self.signal.average or self.signal.peak)

    def room(self, now: float, lead: float = 0.0) -> float:
        """Return how many packets may come at the time `now`.

        Args:
            now: the time, s.
            lead: for how long they have been on their way from the queue before, s. Of a departure
                and an arrival at once, the one that began earlier comes first, as in ns-3: a packet
                that leaves the queue follows one that has been sent for a slot.
        """
        waits = self.waits
        while waits:
            start, slot, count = waits[0]
            gone_by = now - TOGETHER if lead > slot else now + TOGETHER
            if start + slot * (count - 1) > gone_by:
                gone = min(int((gone_by - start) / slot), count - 2) + 1 if start <= gone_by else 0
                if gone:
                    waits[0] = start + gone * slot, slot, count - gone
                    self.waiting -= gone
                break
            self.waiting -= count
            waits.popleft()
        free_by = now - TOGETHER if lead > self.slot else now + TOGETHER
        room = self.limit - self.waiting + (self.free <= free_by)
        return room - self.standing if self.windows and not self.managed else room

    def carry(self, first: float, last: float, count: int, bits: float) -> tuple[float, float]:
        """Take packets for which there is room; return when the first and the last are through, s.

        Args:
            first: when the first one comes, s.
            last: when the last one does, s.
            count: of them.
            bits: of each.
        """
        start = max(first, self.free)
        if self.signal is None:
            self.slot = slot = bits / self.rate
            self.free = free = start + count * slot
            end = last + slot
            end = max(end, free)
            begun = start + slot
        else:
            self.free = free = self.signal.when(start, count * bits)
            self.slot = slot = (free - start) / count
            begun = self.signal.when(start, bits)
            end = max(free, self.signal.when(last, bits))
        if start > first or count > 1:
            self.waits.append((start, slot, count))
            self.waiting += count
        if self.windows and self.streams is not None:
            lag = self.standing * slot
            self.streams.add(count * bits, inf, _ignore, None)
            return begun + lag, end + lag
        return begun, end

    def carry_one(self, first: float, bits: float, lead: float = 0.0) -> float:
        """Take a packet, if there is room for it; return when it is through, s, or else -1.

        Args:
            first: when it comes, s.
            bits: in it.
            lead: see `room`.
        """
        free = self.free
        if self.signal is not None or self.windows:
            return self.carry(first, first, 1, bits)[0] if self.room(first, lead) >= 1 else -1.0
        slot, before = bits / self.rate, self.slot
        if free <= (first - TOGETHER if lead > before else first + TOGETHER):  # nothing waits
            if self.waiting:
                self.waits.clear()
                self.waiting = 0
            self.free = free = first + slot
            self.slot = slot
            return free
        if self.waiting >= self.limit and self.room(first, lead) < 1:
            return -1.0
        self.waits.append((free, before, 1))
        self.waiting += 1
        self.free = free = max(free, first) + slot
        self.slot = slot
        return free

    def clear(self) -> None:
        """Forget all that has come: another episode begins."""
        self.free, self.slot, self.waiting = NEVER, 0.0, 0
        self.flows = self.claimed = 0
        self.crowded = False
        self.waits.clear()
        self.streams, self.windows, self.pipe = None, 0.0, 0.0

    # Streams.

    @property
    def standing(self) -> float:
        """The packets that streams keep in the queue."""
        if not self.windows:
            return 0.0
        return min(max(self.windows - self.pipe, 0.0), FILLED * self.limit)

    def join(self, calendar: Calendar, window: float, pipe: float) -> FairLink:
        """Add the window of a stream; return the link as streams share it.

        Args:
            calendar: the time.
            window: packets.
            pipe: the product of the link's rate and the stream's round trip, packets.
        """
        if self.streams is None:
            self.streams = FairLink(calendar, self.rate)
        if not self.windows and self.free > calendar.now:  # what came before them goes first
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
        owner: the flow's sender, or its handshake.
        number: of the first of them in their message.
        count: of them.
        bits: of each.
        sent: when the first one was sent, s.
        pace: the time from one to the next as they were sent, s.
        first, last: when the first and the last one come to the next queue, s.
        hop: the next stage on its path.
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
