"""Per-flow queues in front of a full link queue: FQ-CoDel, RFC 8290 and RFC 8289.

A hash maps flows to queues, so that two flows may share one by chance. As in Linux and ns-3, CoDel
counts time in units of 1,024 ns, and approximates the root of the drop count by one Newton step per
drop. So the second drop follows the first by half an interval, not by its 0.7-fold.
"""

from collections import deque
from collections.abc import Callable
from typing import Protocol

import numpy as np

from fedsim.addons.tcp.queue import LinkQueue, SegmentTrain
from fedsim.sim.engine.calendar import Calendar


class Forwarder(Protocol):
    """A lane that moves packets on from a queue.

    Attributes:
        bucket: the queue of its packets, if their hash is known; None if it is drawn.
    """

    bucket: int | None

    def pass_stage(self, train: SegmentTrain) -> bool:
        """Move a packet over the link; return whether it continues."""
        ...

    def forward(self, train: SegmentTrain) -> None:
        """Move a packet further."""
        ...


TARGET, INTERVAL = 0.005, 0.1
"""Target delay and interval of CoDel, s: RFC 8289."""

QUANTUM = 8 * 1500.0
"""Bits that a flow may send per turn: one packet."""

BUCKETS = 1024
"""Number of queues."""

MOST, BATCH = 10_240, 64
"""Capacity in packets of all flows, and the most packets dropped at once beyond it."""


_Packet = tuple[float, SegmentTrain, Forwarder]
"""Arrival time, s, packet, and lane."""


def codel_time(seconds: float) -> int:
    """Return a time in CoDel's units of 1,024 ns."""
    return int(seconds * 1e9) >> 10


_TARGET, _INTERVAL = codel_time(TARGET), codel_time(INTERVAL)

_RECENT = 16 * _INTERVAL
"""CoDel resumes its former drop rate if it was dropping this recently."""

_ONE = (1 << 16) - 1
"""The reciprocal root of 1, in units of 2^-16."""


def newton_step(root: int, count: int) -> int:
    """Return the next approximation of the reciprocal root of `count`, in units of 2^-16.

    The arithmetic is that of unsigned integers of 64 bits, and of 32 bits for the square.
    """
    wide = root << 16
    # x <- x (3 - count x^2) / 2 in fixed point.
    rest = ((3 << 32) - count * (wide * wide >> 32)) % (1 << 64)
    return ((rest >> 2) * wide % (1 << 64) >> 31) >> 16 & _ONE


class _Flow:
    """A queue of packets, and its CoDel state."""

    __slots__ = (
        "above",
        "active",
        "bits",
        "count",
        "deficit",
        "dropping",
        "last_count",
        "next_drop",
        "packets",
        "root",
    )

    def __init__(self) -> None:
        self.active = False  # whether it takes part in the round robin
        self.packets = deque[_Packet]()
        self.bits = 0.0
        self.deficit = 0.0
        self.above: int | None = (
            None  # time at which its delay will have exceeded the target for an interval
        )
        self.dropping, self.next_drop = False, 0
        self.count = self.last_count = 0
        self.root = _ONE

    def pop(self) -> _Packet:
        """Remove and return the first packet."""
        packet = self.packets.popleft()
        self.bits -= packet[1].bits
        return packet


class FairQueue:
    """Per-flow queues that hold packets until the link's own queue has room.

    In Linux packets bypass empty queues, and CoDel spares the last packet of the link. In ns-3
    every packet passes its queue, and CoDel spares the last packet of a flow.

    Args:
        calendar: the calendar.
        queue: the link's queue.
        draws: creates the stream that assigns flows to queues, in the order of their first packets;
            None if no two flows share a queue.
        linux: whether it behaves as in Linux or as in ns-3.

    Attributes:
        bypass: whether packets bypass empty queues.
        waiting: the number of packets in all queues.
    """

    __slots__ = (
        "_bits",
        "_buckets",
        "_calendar",
        "_drawn",
        "_draws",
        "_flows",
        "_fresh",
        "_old",
        "_queue",
        "_rng",
        "bypass",
        "waiting",
    )

    def __init__(
        self,
        calendar: Calendar,
        queue: LinkQueue,
        draws: Callable[[], np.random.Generator] | None = None,
        *,
        linux: bool = True,
    ) -> None:
        self._calendar, self._queue, self._draws = calendar, queue, draws
        self._rng: np.random.Generator | None = None
        self._drawn: list[int] = []  # queue numbers by flow, in the order of their first packets
        self._buckets: dict[Forwarder, int] = {}
        self._flows: dict[int, _Flow] = {}
        self._fresh, self._old = deque[_Flow](), deque[_Flow]()
        self._bits = 0.0
        self.bypass = linux
        self.waiting = 0

    def clear(self) -> None:
        """Empty all queues for another episode."""
        # `_drawn` stays: the flows of another episode get the same queues in turn, so that equal
        # episodes have equal ends.
        self._buckets.clear()
        self._flows.clear()
        self._fresh.clear()
        self._old.clear()
        self._bits = 0.0
        self.waiting = 0

    def put(self, lane: Forwarder, packet: SegmentTrain) -> None:
        """Enqueue a packet of a lane that arrives now; a lane has one connection at a time."""
        now, flow = self._calendar.now, self._flow_of(lane)
        if not flow.active:
            flow.active, flow.deficit = True, QUANTUM
            self._fresh.append(flow)
        flow.packets.append((now, packet, lane))
        flow.bits += packet.bits
        self._bits += packet.bits
        self.waiting += 1
        # The first packet that waits tries the link at once. For later ones a call is scheduled
        # already, see `_wait`.
        if self.waiting == 1:
            self._pass_on(None)
        elif self.waiting > MOST:
            self._drop_fattest()

    def _flow_of(self, lane: Forwarder) -> _Flow:
        """Return the queue of a lane's packets."""
        bucket = self._buckets.get(lane)
        if bucket is None:
            bucket = self._buckets[lane] = self._bucket_of(lane)
        flow = self._flows.get(bucket)
        if flow is None:
            flow = self._flows[bucket] = _Flow()
        return flow

    def _bucket_of(self, lane: Forwarder) -> int:
        number = len(self._buckets)
        if lane.bucket is not None:
            return lane.bucket
        if self._draws is None:
            return number
        if self._rng is None:
            self._rng = self._draws()
        # Drawn in batches, in the order in which flows send their first packet, which the run alone
        # determines.
        if number == len(self._drawn):
            self._drawn += self._rng.integers(BUCKETS, size=BUCKETS).tolist()
        return self._drawn[number]

    def _wait(self) -> None:
        """Wait until the link's queue has room."""
        # Room appears as the first packet of the link's own queue begins to be sent.
        starts = self._queue.waits
        now = self._calendar.now
        self._calendar.call(max(starts[0][0], now) if starts else now, self._pass_on, None)

    def _pass_on(self, _: None) -> None:
        """Move packets into the link's queue, flow by flow."""
        now, queue = self._calendar.now, self._queue
        while self.waiting and queue.room(now) >= 1:
            entry = self._take(now)
            if entry is None:
                break
            packet, lane = entry[1:]
            packet.first = packet.last = now
            if lane.pass_stage(packet):
                lane.forward(packet)
        if self.waiting:
            self._wait()

    def _take(self, now: float) -> _Packet | None:
        """Return the next packet by deficit round robin."""
        while self._fresh or self._old:
            # New flows have priority over old ones (RFC 8290).
            turns = self._fresh or self._old
            flow = turns[0]
            if flow.deficit <= 0:
                flow.deficit += QUANTUM
                self._old.append(turns.popleft())
                continue
            packet = self._take_of(flow, now)
            if packet is not None:
                flow.deficit -= min(packet[1].bits, QUANTUM)
                return packet
            turns.popleft()
            # An emptied new flow becomes old first, so that it cannot regain priority at once.
            if turns is self._fresh:
                self._old.append(flow)
            else:
                flow.active = False
        return None

    # CoDel.

    def _take_of(self, flow: _Flow, now: float) -> _Packet | None:
        """Return the next packet of a flow, after those that CoDel drops."""
        ticks = codel_time(now)
        packet, late = self._next(flow, now, ticks)
        if packet is None:
            flow.dropping = False
            return None
        if flow.dropping:
            if not late:
                flow.dropping = False
            # Drops follow each other at intervals that shrink with the root of their count.
            while flow.dropping and ticks >= flow.next_drop:
                flow.count += 1
                flow.root = newton_step(flow.root, flow.count)
                packet, late = self._next(flow, now, ticks)
                if late:
                    # Added to the scheduled time of the last drop, not to now: a late turn does not
                    # slow down the control law.
                    flow.next_drop += _INTERVAL * flow.root >> 16
                else:
                    flow.dropping = False
        elif late:
            packet, _ = self._next(flow, now, ticks)
            flow.dropping = True
            recently = flow.count - flow.last_count
            # RFC 8289, section 5.5: a new dropping phase starts at the drop rate of a recent one.
            if recently > 1 and ticks - flow.next_drop < _RECENT:
                flow.count, flow.root = recently, newton_step(flow.root, recently)
            else:
                flow.count, flow.root = 1, _ONE
            flow.last_count = flow.count
            flow.next_drop = ticks + (_INTERVAL * flow.root >> 16)
        return packet

    def _next(self, flow: _Flow, now: float, ticks: int) -> tuple[_Packet | None, bool]:
        """Return the next packet, and whether packets have waited too long for an interval."""
        if not flow.packets:
            flow.above = None
            return None, False
        packet = flow.pop()
        self._bits -= packet[1].bits
        self.waiting -= 1
        # CoDel spares the last packet: of the link in Linux, of the flow in ns-3.
        few = self._bits <= QUANTUM if self.bypass else flow.bits < QUANTUM
        # RFC 8289: a queue that holds less than a packet is no standing one, however late its last
        # packet is.
        if few or codel_time(now - packet[0]) < _TARGET:
            flow.above = None
            return packet, False
        if flow.above is None:
            flow.above = ticks + _INTERVAL
            return packet, False
        # The delay has exceeded the target for a whole interval.
        return packet, ticks > flow.above

    def _drop_fattest(self) -> None:
        """Drop half of the longest flow, at most a batch."""
        flow = max([*self._fresh, *self._old], key=lambda candidate: candidate.bits)
        half, dropped = flow.bits / 2, 0
        # From the head of the queue, as in Linux (`fq_codel_drop`), so that the sender learns of it
        # sooner.
        while dropped < BATCH and (not dropped or flow.bits > half):
            packet = flow.pop()
            self._bits -= packet[1].bits
            self.waiting -= 1
            dropped += 1
