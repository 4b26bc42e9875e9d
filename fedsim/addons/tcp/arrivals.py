"""Arrival of the bits of a message over TCP: their number and rate over time."""

from collections import deque

from fedsim.sim.engine.calendar import Calendar
from fedsim.sim.network.flows import Changed
from fedsim.sim.network.processor_sharing import SharedTransfer


class TcpArrivals:
    """The arrived segments of a message.

    Args:
        calendar: the calendar of the run.
        bits: the bits of the message.
        total: the number of its segments.
        changed: callback for changes of the arrival rate, if any.
        token: the argument of that callback.
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
        self._recent = deque[
            tuple[float, float, int]
        ]()  # trains that are arriving or have just arrived
        self._rate = 0.0
        self._stream: SharedTransfer | None = None
        self._streamed = 0
        self.closed = False

    @property
    def watched(self) -> bool:
        """Whether changes of the rate are reported."""
        return self._changed is not None

    def note(self, first: float, last: float, count: int) -> None:
        """Log a train, from the first bit of its first segment to the last bit of its last one."""
        now, recent = self._calendar.now, self._recent
        while recent and recent[0][1] <= now:
            self._passed += recent.popleft()[2]
        # A train may be noted after its first bit has passed. No event can be scheduled in the
        # past.
        first = max(now, first)
        recent.append((first, last, count))
        # Rates are sums over overlapping trains: each adds its own, and takes it away at its end.
        if self._changed is not None and last > first:
            rate = count * self._bits / self._total / (last - first)
            self._calendar.call(first, self._change, rate)
            self._calendar.call(last, self._change, -rate)

    def follow(self, stream: SharedTransfer, count: int) -> None:
        """Log segments that arrive with a stream, after those of an earlier stream."""
        self._passed += self._streamed
        self._stream, self._streamed = stream, count

    def _change(self, difference: float) -> None:
        if not self.closed and self._changed is not None:
            # Sums and differences of rates do not cancel exactly: a remainder must not become a
            # negative rate.
            self._rate = rate = max(0.0, self._rate + difference)
            self._changed(self._token, rate)

    def bits_at(self, now: float) -> float:
        """Return the bits that have arrived by the time `now`."""
        count = self._passed
        for first, last, arrived in self._recent:
            if now >= last:
                count += arrived
            # The bits of a train arrive at a constant rate between its first and its last segment.
            elif now > first:
                count += arrived * (now - first) / (last - first)
        if self._stream is not None and self._stream.bits:
            count += self._streamed * self._stream.passed(now) / self._stream.bits
        return self._bits * min(count / self._total, 1.0)

    def close(self, whole: int) -> None:
        """Stop the arrivals: the whole message has arrived, or only the bits so far."""
        # Before the log is cleared, as `bits_at` reads it.
        share = 1.0 if whole or not self._bits else self.bits_at(self._calendar.now) / self._bits
        self._passed, self._stream = share * self._total, None
        self._recent.clear()
        self.closed = True
        if self._rate and self._changed is not None:
            self._rate = 0.0
            self._changed(self._token, 0.0)
