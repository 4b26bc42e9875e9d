"""The window and the timer of a TCP connection: growth, NewReno or Cubic, recovery, timeouts."""

from math import ceil, inf

from fedsim.physics.tcp import Tcp

MOST_TIMEOUT = 60.0
"""The longest timeout, s: RFC 6298."""

SCALE = 0.4
"""Cubic's C: RFC 9438."""

LOW_WINDOW, SAMPLES, LEAST_LATE, MOST_LATE, NEAR = 16, 8, 0.004, 1.0, 0.002
"""Of HyStart: below which window it waits, segments; how many acknowledgements of a round show its
round trip; bounds of the delay that it tolerates, s; and the space between the acknowledgements of
a train, s."""


class Window:
    """What a connection may have in flight, in segments.

    Slow start and congestion avoidance are those of RFC 5681 (NewReno) and RFC 9438 (Cubic, which
    leaves slow start early by HyStart), recovery is proportional (RFC 6937), timeouts are those of
    RFC 6298.

    Attributes:
        size: of the window now.
        threshold: where slow start ends.
        recovering: whether losses are being repaired.
        until: the segments that were sent, of all, as recovery began.
        timeout: to a retransmission, s.
    """

    __slots__ = (
        "_beta",
        "_cubic",
        "_epoch",
        "_flight",
        "_got",
        "_inflection",
        "_least_timeout",
        "_least_trip",
        "_origin",
        "_out",
        "_peak",
        "_round_start",
        "_round_trip",
        "_round_until",
        "_samples",
        "_trip",
        "_variation",
        "recovering",
        "size",
        "threshold",
        "timeout",
        "until",
    )

    def __init__(self, law: Tcp) -> None:
        self._cubic = law.variant == "cubic"
        self._beta = 0.7 if self._cubic else 0.5
        self._least_timeout = law.min_rto
        self.size = float(law.initial_window)
        self.threshold = inf
        self.recovering, self.until = False, 0
        self.timeout = 1.0
        self._flight, self._out, self._got = 1, 0, 0  # of proportional recovery
        self._trip, self._variation = 0.0, 0.0
        self._least_trip = inf
        self._round_until, self._round_start = 0, 0.0
        self._round_trip, self._samples = inf, 0
        self._peak, self._epoch, self._origin, self._inflection = 0.0, -1.0, 0.0, 0.0

    def begin_message(self) -> None:
        """Start counting the segments of another message."""
        self.recovering, self.until = False, 0
        self._round_until, self._round_start = 0, 0.0
        self._round_trip, self._samples = inf, 0

    def restart(self, initial: int) -> None:
        """Shrink after the connection has been idle for a timeout: RFC 2861, RFC 5681."""
        if self.size > initial:
            self.threshold = max(self.threshold, 0.75 * self.size)
            self.size = float(initial)
        self._epoch = -1.0

    def measure(self, trip: float) -> None:
        """Take a round trip, s."""
        self._least_trip = min(self._least_trip, trip)
        if self._trip:
            self._variation += (abs(self._trip - trip) - self._variation) / 4
            self._trip += (trip - self._trip) / 8
        else:
            self._trip, self._variation = trip, trip / 2
        timeout = self._trip + 4 * self._variation
        least = self._least_timeout
        self.timeout = max(least, timeout)

    # Growth.

    def grow(self, count: int, now: float) -> None:
        """Take the acknowledgement of some segments."""
        if self.size < self.threshold:
            self.size += count if self._cubic else (count + 1) // 2
        elif self._cubic:
            self._follow_cubic(count, now)
        else:
            self.size += count / 2 / self.size

    @property
    def watches(self) -> bool:
        """Whether it may leave slow start before a loss."""
        return self._cubic and self.size < self.threshold

    def leave_early(self, train: tuple[int, int, float, float], sent: int, now: float) -> None:
        """Leave slow start where delays or long trains show a full pipe (HyStart).

        Args:
            train: its index and number of segments, its round trip, and the span of its
                acknowledgements, s.
            sent: all segments that were sent so far.
            now: when the first of the acknowledgements has come, s.
        """
        index, count, trip, span = train
        if index >= self._round_until:
            self._round_until, self._round_start = sent, now
            self._round_trip, self._samples = inf, 0
        if self.size < LOW_WINDOW:
            return
        if self._samples < SAMPLES:
            self._round_trip = min(self._round_trip, trip)
            self._samples += max(1, count // 2)
        if self._samples >= SAMPLES:
            late = min(max(self._least_trip, LEAST_LATE), MOST_LATE)
            if self._round_trip > self._least_trip + late:
                self.threshold = self.size
                return
        near = 2 * span <= NEAR * max(count - 1, 1)
        if near and now + span - self._round_start > self._least_trip:
            self.threshold = self.size

    def _follow_cubic(self, count: int, now: float) -> None:
        size = self.size
        if self._epoch < 0:
            self._epoch = now
            self._origin = max(self._peak, size)
            self._inflection = ((self._origin - size) / SCALE) ** (1 / 3)
        t = now + self._least_trip - self._epoch
        target = self._origin + SCALE * (t - self._inflection) ** 3
        per = size / (target - size) if target > size else 100 * size
        if not self._peak:
            per = min(per, 20.0)
        self.size = size + count / max(per, 2.0)

    def utilisation(self, queue: float) -> float:
        """Return the mean share of a link's rate that a window fills, which is cut when it is lost.

        Args:
            queue: of the link, in products of its rate and the round trip.
        """
        full, low = 1 + queue, self._beta * (1 + queue)
        if low >= 1:
            return 1.0
        if self._cubic:
            part: float = ((full - 1) / (full - low)) ** (1 / 3)
            filled = full - (full - low) * (1 - part**4) / (4 * (1 - part))
            return 1 - (1 - part) * (1 - filled)
        return ((1 - low**2) + (full**2 - 1)) / (2 * (1 - low) + (full**2 - 1))

    # Recovery.

    def enter_recovery(self, pipe: int, resend: int, sent: int) -> None:
        """Reduce the threshold, and begin to repair losses.

        Args:
            pipe: the segments in flight.
            resend: those that are known to be lost.
            sent: all that were sent so far.
        """
        self.recovering, self.until = True, sent
        self._flight, self._out, self._got = max(1, pipe + resend), 0, 0
        lost_at = self._reduce(self.size) if self._cubic else float(self._flight)
        self.threshold = max(2.0, self._beta * lost_at)

    def _reduce(self, size: float) -> float:
        """Note a loss for Cubic, with fast convergence; return the window that it happened at."""
        self._peak = size * (1 + self._beta) / 2 if size < self._peak else size
        self._epoch = -1.0
        return size

    def count_sent(self, count: int) -> None:
        """Count segments that are sent, for proportional recovery."""
        self._out += count

    def count_acknowledged(self, count: int) -> None:
        """Count segments that have arrived, for proportional recovery."""
        self._got += count

    def leave_recovery(self) -> None:
        """Go on at the threshold."""
        self.recovering = False
        self.size = max(self.threshold, 1.0)

    def recover(self, count: int, pipe: int) -> None:
        """Let retransmissions leave in proportion to what arrives.

        Args:
            count: the segments that were acknowledged.
            pipe: those in flight.
        """
        if pipe > self.threshold:
            send = ceil(self._got * self.threshold / self._flight) - self._out
        else:
            send = int(min(max(self._got - self._out, count) + 1, self.threshold - pipe))
        self.size = pipe + max(send, 0 if self._out else 1)

    def time_out(self, pipe: int, lost: int) -> None:
        """Begin anew with one segment, and wait twice as long next time.

        Args:
            pipe: the segments in flight, the lost ones among them.
            lost: how many were lost.
        """
        self._flight = max(pipe, 1)
        lost_at = self._reduce(self.size) if self._cubic else float(pipe)
        self.threshold = max(2.0, self._beta * lost_at)
        if self._cubic:
            self._peak, self._least_trip = 0.0, inf
        self.recovering = False
        self.size = max(0, pipe - lost) + 1.0
        self.timeout = min(MOST_TIMEOUT, 2 * self.timeout)
