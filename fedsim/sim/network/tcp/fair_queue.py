"""What waits by flow in front of a full queue of a link: FQ-CoDel, RFC 8290 and RFC 8289."""

from collections import deque
from typing import Protocol

from fedsim.sim.engine.calendar import Calendar
from fedsim.sim.network.tcp.queue import LinkQueue, SegmentTrain


class Forwarder(Protocol):
    """What takes packets on from a queue."""

    def pass_stage(self, train: SegmentTrain) -> bool:
        """Take a packet over the link; return whether it goes on."""
        ...

    def forward(self, train: SegmentTrain) -> None:
        """Take it further."""
        ...


TARGET, INTERVAL = 0.005, 0.1
"""Of CoDel, s: RFC 8289."""

QUANTUM = 8 * 1500.0
"""The bits that a flow may send in its turn: a packet's."""

MOST, BATCH = 10_240, 64
"""The packets of all flows together, and the most that are dropped at once where there are more."""

RECENT = 16 * INTERVAL
"""CoDel goes on at the rate of drops that it had if it was dropping this long ago, s."""


_Packet = tuple[float, SegmentTrain, Forwarder]
"""When it came, s, itself, and what takes it on."""


class _Flow:
    """One flow's packets, in order, and what CoDel knows of them."""

    __slots__ = (
        "above",
        "active",
        "count",
        "deficit",
        "dropping",
        "last_count",
        "next_drop",
        "packets",
    )

    def __init__(self) -> None:
        self.active = False  # whether it has turns
        self.packets = deque[_Packet]()
        self.deficit = 0.0
        self.above: float | None = None  # when its packets will have waited too long, s
        self.dropping, self.next_drop = False, 0.0
        self.count = self.last_count = 0

    def take(self, now: float) -> _Packet | None:
        """Take the next packet out; those that CoDel drops on the way are lost."""
        packet, late = self._next(now)
        if packet is None:
            self.dropping = False
            return None
        if self.dropping:
            if not late:
                self.dropping = False
            while self.dropping and now >= self.next_drop:
                self.count += 1
                packet, late = self._next(now)
                if late:
                    self.next_drop += INTERVAL / self.count**0.5
                else:
                    self.dropping = False
        elif late:
            packet, _ = self._next(now)
            self.dropping = True
            recently = self.count - self.last_count
            often = recently > 1 and now - self.next_drop < RECENT
            self.count = self.last_count = recently if often else 1
            self.next_drop = now + INTERVAL / self.count**0.5
        return packet

    def _next(self, now: float) -> tuple[_Packet | None, bool]:
        """Return the next packet, and whether packets have waited too long for an interval."""
        if not self.packets:
            self.above = None
            return None, False
        packet = self.packets.popleft()
        if now - packet[0] < TARGET or not self.packets:
            self.above = None
            return packet, False
        if self.above is None:
            self.above = now + INTERVAL
            return packet, False
        return packet, now > self.above


class FairQueue:
    """Packets that wait by flow until a link's own queue has room for them.

    Args:
        calendar: the time.
        queue: the link's.
    """

    __slots__ = ("_calendar", "_flows", "_fresh", "_old", "_queue", "waiting")

    def __init__(self, calendar: Calendar, queue: LinkQueue) -> None:
        self._calendar, self._queue = calendar, queue
        self._flows: dict[Forwarder, _Flow] = {}
        self._fresh, self._old = deque[_Flow](), deque[_Flow]()
        self.waiting = 0

    def clear(self) -> None:
        """Forget all that has come: another episode begins."""
        self._flows.clear()
        self._fresh.clear()
        self._old.clear()
        self.waiting = 0

    def put(self, lane: Forwarder, packet: SegmentTrain) -> None:
        """Let a packet of a lane wait, that comes now; a lane has one connection at a time."""
        now, flow = self._calendar.now, self._flows.get(lane)
        if flow is None:
            flow = self._flows[lane] = _Flow()
        if not flow.active:
            flow.active, flow.deficit = True, QUANTUM
            self._fresh.append(flow)
        flow.packets.append((now, packet, lane))
        self.waiting += 1
        if self.waiting == 1:
            self._wait()
        elif self.waiting > MOST:
            self._drop_fattest()

    def _wait(self) -> None:
        """Wait until the link's queue has room."""
        starts = self._queue.waits
        now = self._calendar.now
        self._calendar.call(max(starts[0][0], now) if starts else now, self._pass_on, None)

    def _pass_on(self, _: None) -> None:
        """Let a packet into the link's queue, in its flow's turn."""
        now, queue = self._calendar.now, self._queue
        while self.waiting and queue.room(now) >= 1:
            found = self._take(now)
            if found is None:
                break
            packet, lane = found[1:]
            packet.first = packet.last = now
            if lane.pass_stage(packet):
                lane.forward(packet)
        if self.waiting:
            self._wait()

    def _take(self, now: float) -> _Packet | None:
        """Take the next packet, by deficit round robin."""
        while self._fresh or self._old:
            turns = self._fresh or self._old
            flow = turns[0]
            if flow.deficit <= 0:
                flow.deficit += QUANTUM
                self._old.append(turns.popleft())
                continue
            before = len(flow.packets)
            packet = flow.take(now)
            self.waiting -= before - len(flow.packets)
            if packet is not None:
                flow.deficit -= packet[1].bits
                return packet
            turns.popleft()
            if turns is self._fresh:
                self._old.append(flow)
            else:
                flow.active = False
        return None

    def _drop_fattest(self) -> None:
        """Drop half of the longest flow, or a batch of it."""
        flow = max([*self._fresh, *self._old], key=lambda each: len(each.packets))
        for _ in range(min(BATCH, max(1, len(flow.packets) // 2))):
            flow.packets.popleft()
            self.waiting -= 1
