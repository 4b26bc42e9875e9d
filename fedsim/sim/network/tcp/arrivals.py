"""When the bits of a message over TCP arrive: how many have, and at what rate."""

from collections import deque

from fedsim.sim.engine.calendar import Calendar
from fedsim.sim.network.flows import Changed
from fedsim.sim.network.processor_sharing import SharedTransfer


class TcpArrivals:
    """The segments of a message at its receiver.

    Args:
        calendar: the simulated time.
        bits: of the message.
        total: its segments.
        changed: callback for changes of the rate, if any.
        token: passed to it.
    """

    __slots__ = (
        "_bits",
        "_calendar",
        "_changed",
        "_passed",
        "_rate",
        "_recent",
        "_stream",
        "_streamed",
        "_token",
        "_total",
        "closed",
    )

    def __init__(
        self,
        calendar: Calendar,
        bits: float,
        total: int,
        changed: Changed | None,
        token: object,
    ) -> None:
        self._calendar, self._bits, self._total = calendar, bits, total
        self._changed, self._token = changed, token
        self._passed = 0.0
        self._recent = deque[tuple[float, float, int]]()  # on their way, or just arrived
        self._rate = 0.0
        self._stream: SharedTransfer | None = None
        self._streamed = 0
        self.closed = False

    @property
    def watched(self) -> bool:
        """Whether changes of the rate are reported."""
        return self._changed is not None

    def note(self, first: float, last: float, count: int) -> None:
        """Let a train arrive, from the first bit of its first segment to the last of its last."""
        now, recent = self._calendar.now, self._recent
        while recent and recent[0][1] <= now:
            self._passed += recent.popleft()[2]
        first = max(now, first)
        recent.append((first, last, count))
        if self._changed is not None and last > first:
            rate = count * self._bits / self._total / (last - first)
            self._calendar.call(first, self._change, rate)
            self._calendar.call(last, self._change, -rate)

    def follow(self, stream: SharedTransfer, count: int) -> None:
        """Let some segments arrive as a stream does, after the one before it if there was any."""
        self._passed += self._streamed
        self._stream, self._streamed = stream, count

    def _change(self, difference: float) -> None:
        if not self.closed and self._changed is not None:
            self._rate = rate = max(0.0, self._rate + difference)
            self._changed(self._token, rate)

    def bits_at(self, now: float) -> float:
        """Return the bits that have arrived by the time `now`."""
        count = self._passed
        for first, last, each in self._recent:
            if now >= last:
                count += each
            elif now > first:
                count += each * (now - first) / (last - first)
        if self._stream is not None and self._stream.bits:
            count += self._streamed * self._stream.passed(now) / self._stream.bits
        return self._bits * min(count / self._total, 1.0)

    def close(self, *, whole: bool) -> None:
        """Let nothing arrive any more; the whole message has, or what has until now."""
        share = 1.0 if whole or not self._bits else self.bits_at(self._calendar.now) / self._bits
        self._passed, self._stream = share * self._total, None
        self._recent.clear()
        self.closed = True
        if self._rate and self._changed is not None:
            self._rate = 0.0
            self._changed(self._token, 0.0)
