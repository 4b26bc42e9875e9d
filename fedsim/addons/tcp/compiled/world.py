"""A world of links in a buffer, simulated by compiled kernels: see `PacketWorld`."""

import sys
from collections.abc import Callable
from math import inf
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from fedsim.addons.tcp.compiled import kernel
from fedsim.addons.tcp.compiled import layout as at
from fedsim.addons.tcp.compiled.interpreted import InterpretedRecord
from fedsim.addons.tcp.path import TcpLane, TcpPath
from fedsim.addons.tcp.queue import NEVER, LinkQueue
from fedsim.physics.tcp import Tcp
from fedsim.sim.engine.calendar import Calendar
from fedsim.sim.network.link_share import remaining_bits

WORDS, EVENTS, NODES = 1024, 16, 24
"""Initial length of a buffer in words, and its initial capacity in events and nodes."""

_TOTAL, _SEGMENTS_SENT, _NEXT, _EACH, _PASSED = [
    at.word("message", name) for name in ("total", "segments_sent", "next", "each", "passed")
]
_LOG_FIRST, _LOG_END, _STREAM_FLOW, _STREAM_LOGGED, _ALL = [
    at.word("message", name)
    for name in ("log_first", "log_end", "stream_flow", "stream_logged", "bits")
]
_RATE = at.word("queue", "rate")

_OF_PATH = (
    "radio",
    "back",
    "back_bit",
    "free_bit",
    "header",
    "segment",
    "payload",
    "narrow",
    "trip",
)

_PLACES = {
    kind: {
        name: (at.word(kind, name), record.fields[name][0] == np.float64) for name in record.fields
    }
    for kind, record in at.RECORDS.items()
}
"""The place of each field in a record, and whether it is a double."""

load = kernel.load


def zeros(words: int) -> NDArray[np.int64]:
    """Return a buffer that is aligned with a cache line."""
    buffer = np.zeros(words + at.LINE, np.int64)
    first = -(buffer.ctypes.data // buffer.itemsize) % at.LINE
    return buffer[first : first + words]


class CompiledMessage:
    """A message in a compiled world: see `TcpTransfer`.

    Attributes:
        over: whether all bits have arrived or the message was stopped.
        passed: see `bits_at`.
        record: the record of the message in the buffer.
        token: the caller's token.
    """

    __slots__ = ("_again", "_bits", "_passed", "_world", "over", "passed", "record", "token")

    def __init__(self, world: "CompiledWorld", record: int, bits: float, token: object) -> None:
        self._world, self.record, self._bits, self.token = world, record, bits, token
        self.over = False
        self._again, self._passed = 0, bits
        self.passed: Callable[[float], float] = self.bits_at

    @property
    def again_bits(self) -> int:
        """The bits that were retransmitted so far."""
        return self._again if self.over else self._world.again_bits(self.record)

    def bits_at(self, now: float) -> float:
        """Return the bits that have arrived by the time `now`."""
        return self._passed if self.over else self._world.bits_at(self.record, now)

    def end(self) -> None:
        """Record that all bits have arrived."""
        self._again = self._world.again_bits(self.record)
        self.over = True

    def stop(self) -> None:
        """Cancel the transfer; its completion callback is not called."""
        if not self.over:
            world = self._world
            # Computed with the same operations as `TcpArrivals.close`, whose rounding it has to
            # match.
            share = world.bits_at(self.record, world.now) / self._bits if self._bits else 1.0
            total = world.total(self.record)
            self._passed = self._bits * min(share * total / total, 1.0)
            self._again = world.again_bits(self.record)
            self.over = True
            world.stop(self.record)


class CompiledWorld:
    """Links and the segments of messages on them, as words of a buffer.

    Args:
        law: TCP's parameters.
    """

    compiled = True

    def __init__(self, law: Tcp) -> None:
        self._law = law
        self._messages: dict[int, CompiledMessage] = {}
        self._paths: dict[TcpPath, int] = {}
        self._queues: dict[LinkQueue, int] = {}
        self._end: Callable[[Any], None] | None = None
        self._take(zeros(WORDS))
        self._set_up()

    def _take(self, words: NDArray[np.int64]) -> None:
        self._W: Any = words
        self._F: Any = words.view(np.float64)
        # The same memory as memoryviews, which read and write single numbers faster than arrays.
        self._words = cast("list[int]", words.data)
        self._reals = cast("list[float]", self._F.data)
        self._buffer = words.ctypes.data
        self._W[at.END] = len(words)

    def _set_up(self) -> None:
        """Write the header, a heap, and a block of nodes."""
        W, F, law = self._W, self._F, self._law
        W[at.CUBIC], W[at.LINUX] = law.variant == "cubic", law.stack == "linux"
        W[at.INITIAL] = law.initial_window
        F[at.LEAST_TIMEOUT], F[at.DELAY] = law.min_rto, law.delayed_ack
        W[at.COMPENSATED] = sys.version_info >= (3, 12)
        W[at.HEAP], W[at.ROOM] = at.HEADER, EVENTS
        block = at.HEADER + EVENTS * at.ENTRY
        W[block + 1] = W[at.NODES] = NODES
        W[at.BLOCK_FIRST] = W[at.BLOCK_LAST] = block
        W[at.TOP] = block + at.LINE + NODES * at.NODE
        kernel.clear(self._buffer)

    def _grow(self, words: int) -> None:
        """Replace the buffer by a longer one, with at least this many words more."""
        size = len(self._W)
        longer = zeros(max(2 * size, int(self._W[at.TOP]) + words))
        # Records are indices, not addresses: they stay valid in the longer buffer.
        longer[:size] = self._W
        self._take(longer)

    def _allocate(self, words: int) -> int:
        record = int(self._W[at.TOP])
        if record + words > len(self._W):
            self._grow(words)
        self._W[at.TOP] = record + words
        return record

    # Links.

    def _queue(self, queue: LinkQueue) -> int:
        """Return the record of a queue."""
        if queue not in self._queues:
            self._queues[queue] = q = self._allocate(at.QUEUE)
            self._write("queue", q, rate=queue.rate, limit=queue.limit, free=NEVER)
        return self._queues[queue]

    def _path(self, path: TcpPath) -> int:
        """Return the record of a path."""
        if path in self._paths:
            return self._paths[path]
        queues = [self._queue(stage.queue) for stage in path.stages]
        self._paths[path] = p = self._allocate(at.WAY + at.STAGE * len(queues))
        fields = {name: getattr(path, name) for name in _OF_PATH}
        own = self._queues[path.own]
        self._write("path", p, hops=len(queues), own=own, **fields)
        stages = zip(path.stages, queues, path.leads, strict=True)
        for number, (stage, q, lead) in enumerate(stages):
            s = p + at.WAY + at.STAGE * number
            self._write("stage", s, queue=q, delay=stage.delay, shared=stage.shared, lead=lead)
        return p

    def _write(self, kind: str, record: int, **fields: float) -> None:
        """Write fields of a record."""
        reals, words, places = self._reals, self._words, _PLACES[kind]
        for name, value in fields.items():
            place, real = places[name]
            if real:
                reals[record + place] = value
            else:
                words[record + place] = int(value)

    # Time.

    @property
    def now(self) -> float:
        """The time since the beginning, s."""
        return self._reals[at.NOW]

    @now.setter
    def now(self, now: float) -> None:
        self._reals[at.NOW] = now

    def first_end(self) -> float:
        """See `PacketWorld.first_end`."""
        return float(kernel.first_end(self._buffer))

    def run_before(self, when: float, other: Calendar | None = None, since: float = 0.0) -> None:
        """Simulate events before a time: see `Calendar.run_before`."""
        run, messages = kernel.run, self._messages
        limit = -inf
        while self._words[at.LENGTH]:
            if other is not None:
                limit = float(other.next_time)
            first = self._reals[self._words[at.HEAP]]
            if first >= when and not first + since < limit:
                return  # this check is cheaper than a call of the kernel
            record = run(self._buffer, when, limit, since)
            if not record:
                return
            # Nothing has changed in the buffer, so the call is repeated with a longer one.
            if record == kernel.FULL:
                self._grow(self._words[at.WANTED])
                continue
            # Popped before the callback: its record may be reused by a message that the callback
            # starts.
            message = messages.pop(record)
            message.end()
            if self._end is not None:
                self._end(message.token)

    def clear(self) -> None:
        """Reset all links to idle at time 0."""
        # Records of messages that were under way are freed in the buffer, and their objects must
        # not be found any more.
        self._messages.clear()
        kernel.clear(self._buffer)

    def empty_at(self) -> float:
        """Return when the last used queue is empty, s."""
        return float(kernel.quiet(self._buffer))

    # Messages.

    def launch(
        self,
        lane: TcpLane,
        rate: float,
        bits: float,
        finished: Callable[[Any], None],
        token: object,
    ) -> CompiledMessage:
        """Start a message now, at a rate of its radio: see `TcpTransfer`."""
        path = lane.path
        # First of all, as it may replace the buffer.
        p = self._path(path)
        self._reals[self._queues[path.own] + _RATE] = rate
        self._end = finished
        segment = path.segment
        total = max(1, int(-(-bits // segment)))
        full = segment if total > 1 else bits or path.header
        last = bits - (total - 1) * segment if total > 1 else full
        record = kernel.FULL
        while record == kernel.FULL:
            record = kernel.begin(self._buffer, p, total, float(full), float(last), float(bits))
            if record == kernel.FULL:
                self._grow(self._words[at.WANTED])
        message = self._messages[record] = CompiledMessage(self, record, bits, token)
        return message

    def stop(self, record: int) -> None:
        """Cancel a message."""
        del self._messages[record]
        while kernel.stop(self._buffer, record) == kernel.FULL:
            self._grow(self._words[at.WANTED])

    def total(self, record: int) -> int:
        """Return the number of segments of a message."""
        return self._words[record + _TOTAL]

    def again_bits(self, record: int) -> int:
        """Return the retransmitted bits of a message: see `TcpTransfer`."""
        words = self._words
        again = words[record + _SEGMENTS_SENT] - words[record + _NEXT]
        return round(max(0, again) * self._reals[record + _EACH])

    def bits_at(self, record: int, now: float) -> float:
        """Return the bits of a message that have arrived: see `TcpArrivals.bits_at`."""
        words, reals = self._words, self._reals
        count = reals[record + _PASSED]
        node, end = words[record + _LOG_FIRST], words[record + _LOG_END]
        while node:
            behind = words[node + at.LINK]
            for item in range(node, node + at.ITEM * (at.ITEMS if behind else end), at.ITEM):
                first, last, arrived = (
                    reals[item + at.FROM],
                    reals[item + at.TO],
                    words[item + at.ARRIVED_THEN],
                )
                if now >= last:
                    count += arrived
                elif now > first:
                    count += arrived * (now - first) / (last - first)
            node = behind
        flow = words[record + _STREAM_FLOW]
        if flow:
            f = InterpretedRecord("flow", words, flow)
            if f.bits:
                # See `SharedTransfer.passed`.
                left = remaining_bits(f.link, f, now) if f.link.place else f.mark
                count += words[record + _STREAM_LOGGED] * (f.bits - left) / f.bits
        return reals[record + _ALL] * min(count / words[record + _TOTAL], 1.0)
