"""The window and the timer of a TCP connection: growth, NewReno or Cubic, recovery, timeouts."""

from math import ceil, floor, inf
from typing import NamedTuple

from fedsim.physics.tcp import Tcp

MOST_TIMEOUT = 60.0
"""The longest timeout, s: RFC 6298."""

TICK = 1e-3
"""The clock of timestamps, s, and the least part of a timeout that deviations make up."""

LEAST_TRIP = 1e-6
"""A round trip within one tick, s."""

PAYLOAD = 1448
"""The bytes of a segment's payload, unless others are stated."""

SCALE = 0.4
"""Cubic's C: RFC 9438."""

CLAMP = 20
"""The most segments that Cubic waits for before it grows by one, as long as none was lost."""

GREETINGS = 3
"""The round trips that a server has measured once a connection is open: SYN, and two messages."""

ANSWERS = 4
"""Those that a client has: it says one message more (see fedsim/live/handshake.py)."""

LOW_WINDOW, SAMPLES, NEAR = 16, 8, 0.002
"""Of HyStart: below which window it waits, segments; how many acknowledgements of a round show its
round trip; and the space between the acknowledgements of a train, s."""


class HyStart(NamedTuple):
    """How an implementation finds that the pipe is full (Ha and Rhee, 2011).

    Attributes:
        train: how long a train of acknowledgements is then, in least round trips.
        late: how much longer round trips are then, in least ones.
        bounds: of this delay, s.
        smoothed: whether it looks at their smoothed mean, and not at single ones.
        settled: how long round trips are mistrusted after a loss, s.
    """

    train: float
    late: float
    bounds: tuple[float, float]
    smoothed: bool
    settled: float


HYSTART = {
    "linux": HyStart(1 / 2, 1 / 8, (0.004, 0.016), smoothed=False, settled=1.0),
    "ns-3": HyStart(1.0, 1.0, (0.004, 1.0), smoothed=True, settled=0.01),
}
"""By `network.tcp.stack`."""


class Window:
    """What a connection may have in flight, in segments.

    Slow start and congestion avoidance are those of RFC 5681 (NewReno) and RFC 9438 (Cubic, which
    leaves slow start early by HyStart), recovery is proportional (RFC 6937), timeouts are those of
    RFC 6298. Round trips are measured by timestamps of milliseconds (RFC 7323). Linux counts bytes
    that are acknowledged where NewReno's text (and ns-3) counts acknowledgements (RFC 3465), and
    adds its least timeout to the round trip instead of bounding their sum with it. ns-3 multiplies
    the bytes of proportional recovery in 32 bits, where windows of 45 segments overflow.

    Args:
        law: TCP's parameters.
        payload: the bytes of a full segment.

    Attributes:
        size: of the window now.
        threshold: where slow start ends.
        timeout: to a retransmission, s.
        trip: the mean of the round trips, s; 0 before the first one.
        least_trip: the smallest one, s.
        least_timeout: the least part of a timeout, or the least one, s.
        last_sent: when a segment was last sent, s.
    """

    __slots__ = (
        "_before",
        "_beta",
        "_credit",
        "_cubic",
        "_delivered",
        "_epoch",
        "_flight",
        "_found",
        "_hystart",
        "_inflection",
        "_initial",
        "_last_near",
        "_last_trip",
        "_least_trip",
        "_linux",
        "_origin",
        "_out",
        "_payload",
        "_peak",
        "_round_end",
        "_round_start",
        "_round_trip",
        "_samples",
        "_variation",
        "last_sent",
        "least_timeout",
        "least_trip",
        "size",
        "threshold",
        "timeout",
        "trip",
    )

    def __init__(self, law: Tcp, payload: int = PAYLOAD) -> None:
        self._cubic = law.variant == "cubic"
        self._payload = payload
        self._beta = 0.7 if self._cubic else 0.5
        self._linux, self._hystart = law.stack == "linux", HYSTART[law.stack]
        self.least_timeout = law.min_rto
        self._initial = law.initial_window
        self.size = float(self._initial)
        self.threshold = inf
        self.timeout = 1.0
        self.last_sent = 0.0
        self._flight, self._out, self._delivered = 1, 0, 0  # of proportional recovery
        self.trip, self._variation, self._last_trip = 0.0, 0.0, 0.0
        self.least_trip = inf
        # HyStart: the smallest round trip, and what this round has shown.
        self._least_trip = inf
        self._found = False
        self._round_end, self._round_start, self._last_near = -1, 0.0, -inf
        self._round_trip, self._samples = inf, 0
        # Cubic: the window of the last loss, and the curve since then.
        self._peak, self._epoch, self._origin, self._inflection = 0, -1.0, 0, 0.0
        self._before = self.size, self.threshold, self._peak  # the last timeout
        self._credit = 0  # segments acknowledged that it has not grown by

    def reopen(self) -> None:
        """Begin anew as the answer of a handshake comes again."""
        self.size, self.threshold = float(self._initial), inf

    def begin_message(self, now: float) -> None:  # noqa: ARG002 - Linux's Cubic looks at it
        """Start counting the segments of another message."""
        self._round_end = -1

    def greet(self, trip: float, times: int = GREETINGS) -> None:
        """Know the round trip of a handshake, and of what was said behind it long ago.

        Args:
            trip: of each, s.
            times: how many were measured.
        """
        for _ in range(times):
            self._hear(trip)
        self.restore_timeout()
        self._least_trip, self.last_sent = self._last_trip, -MOST_TIMEOUT

    def _hear(self, trip: float) -> None:
        """Take the round trip of one of these, s."""
        self.measure(0.0, trip)

    def is_idle(self, now: float) -> bool:
        """Return whether nothing has been sent for a timeout."""
        return now - self.last_sent > self.timeout

    def restart(self, initial: int, now: float) -> None:
        """Shrink if the connection has been idle for longer than a timeout.

        By RFC 5681 it begins anew. Linux halves it for each timeout, down to the initial window, as
        RFC 2861 has it.
        """
        idle = now - self.last_sent
        if idle <= self.timeout:
            return
        if self.size > initial:
            self.threshold = max(self.threshold, 0.75 * self.size)
            shares = 0.5 ** (ceil(idle / self.timeout) - 1) if self._linux else 0.0
            self.size = max(floor(self.size * shares), float(initial))
        self._epoch = -1.0

    # The timer.

    def measure(self, sent: float, now: float) -> None:
        """Take the round trip of a segment, from the timestamps of its way there and back."""
        self._take_trip(TICK * (int(now / TICK) - int(sent / TICK)))

    def _take_trip(self, trip: float) -> None:
        """Take a round trip, s."""
        self._last_trip = trip = trip or LEAST_TRIP
        self.least_trip = min(self.least_trip, trip)
        if self.trip:
            self._variation += (abs(self.trip - trip) - self._variation) / 4
            self.trip += (trip - self.trip) / 8
        else:
            self.trip, self._variation = trip, trip / 2

    def restore_timeout(self) -> None:
        """Set the timeout as the round trips have it, however often it ran out before."""
        late, least = 4 * self._variation, self.least_timeout
        if self._linux:
            self.timeout = self.trip + max(least, late)
        else:
            self.timeout = max(least, self.trip + max(TICK, late))

    # Growth.

    @property
    def looks(self) -> bool:
        """Whether single round trips may end its slow start, as HyStart of Linux has it."""
        return self._cubic and self._linux and self.size < self.threshold

    def note_acknowledgement(self, acknowledged: int, sent: int, now: float) -> None:  # noqa: ARG002
        """Look at the round trip when an acknowledgement has come: Cubic does.

        Args:
            acknowledged: all segments before this one are.
            sent: so are all segments before this one.
            now: the time, s.
        """
        if not self._cubic or -1.0 < self._epoch > now - self._hystart.settled:
            return
        trip = self.trip if self._hystart.smoothed else self._last_trip
        self._least_trip = min(self._least_trip, trip)
        if not self._found and LOW_WINDOW <= self.size <= self.threshold:
            self._look_for_full_pipe(trip, now)

    def _look_for_full_pipe(self, trip: float, now: float) -> None:
        """Leave slow start where long trains of acknowledgements or delays show a full pipe."""
        if now - self._last_near <= NEAR:
            self._last_near = now
            self._found = now - self._round_start > self._hystart.train * self._least_trip
        if self._samples < SAMPLES:
            self._round_trip = min(self._round_trip, trip)
            self._samples += 1
        else:
            low, high = self._hystart.bounds
            late = min(max(self._hystart.late * self._least_trip, low), high)
            self._found = self._found or self._round_trip > self._least_trip + late
        if self._found:
            self.threshold = self.size

    def grow(self, count: int, acknowledged: int, sent: int, now: float) -> None:
        """Take the acknowledgement of some segments.

        Args:
            count: of them.
            acknowledged: all segments before this one are.
            sent: so are all segments before this one.
            now: the time, s.
        """
        if self._cubic:
            if self.size < self.threshold:
                if acknowledged > self._round_end:
                    self._begin_round(sent, now)
                self.size += count
            elif count:
                self._follow_cubic(count, now)
            return
        if self._linux:
            room = self.threshold - self.size
            begun = int(min(count, room)) if room > 0 else 0
            self.size += begun
            self.size += (count - begun) / self.size
            return
        if self.size < self.threshold and count:
            self.size += 1
            count -= 1
        if self.size >= self.threshold and count:  # by whole bytes
            size, payload = round(self.size * self._payload), self._payload
            self.size = (size + max(payload * payload // size, 1)) / payload

    def _begin_round(self, sent: int, now: float) -> None:
        self._round_end, self._round_start, self._last_near = sent, now, now
        self._round_trip, self._samples = inf, 0

    def _follow_cubic(self, count: int, now: float) -> None:
        """Grow along the curve, by a segment for an acknowledgement at most."""
        self._credit += count
        size = int(self.size)
        if self._epoch < 0:
            self._epoch = now
            self._origin = max(self._peak, size)
            self._inflection = ((self._origin - size) / SCALE) ** (1 / 3)
        least = self._least_trip if self._least_trip < inf else 0.0
        offset = now + least - self._epoch - self._inflection
        target = self._origin + int(SCALE * abs(offset) ** 3) * (1 if offset >= 0 else -1)
        per = size // (target - size) if target > size else 100 * size
        if not self._peak:
            per = min(per, CLAMP)
        per = max(per, 2)
        if self._credit >= per:
            self.size += 1
            self._credit -= per

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

    def _reduce(self, flight: int) -> None:
        """Set the threshold at a loss, which Cubic notes, with fast convergence."""
        size = int(self.size)
        if not self._cubic:
            self.threshold = float(max(size // 2, 2)) if self._linux else max(2.0, flight / 2)
            return
        self._peak = int(size * (1 + self._beta) / 2) if size < self._peak else size
        self._epoch = -1.0
        self.threshold = float(max(int(size * self._beta), 2))

    def enter_recovery(self, flight: int, outstanding: int, delivered: int) -> None:
        """Reduce the threshold, and begin to repair losses.

        Args:
            flight: the segments in flight.
            outstanding: those that are not acknowledged, lost ones and others.
            delivered: those that have just arrived.
        """
        self._flight = int(self.size) if self._linux else outstanding
        self._reduce(flight)
        self._out, self._delivered = 0, 0
        self.recover(delivered, flight, repaired=False)

    def recover(self, delivered: int, flight: int, *, repaired: bool) -> None:
        """Let segments leave in proportion to what arrives.

        Args:
            delivered: the segments that have just arrived.
            flight: those in flight.
            repaired: whether retransmissions are among those that were acknowledged.
        """
        if self._linux and not delivered:
            return
        self._delivered += delivered
        threshold = self.threshold
        if flight > threshold:
            send = self._share_of_threshold() - self._out
        elif self._linux:
            send = min(max(self._delivered - self._out, delivered) + repaired, threshold - flight)
        else:
            owed = self._count_owed(delivered) if repaired else delivered
            send = min(owed, threshold - flight)
        self.size = flight + max(send, 0.0 if self._out else 1.0)

    def _share_of_threshold(self) -> float:
        """Return how many segments may have left so far, in proportion to what has arrived."""
        delivered, threshold = self._delivered, self.threshold
        if self._linux:
            return ceil(delivered * threshold / self._flight)
        payload = self._payload  # ns-3 multiplies bytes in 32 bits
        product = delivered * payload * int(threshold * payload) % (1 << 32)
        return ceil(product / (self._flight * payload)) / payload

    def _count_owed(self, delivered: int) -> int:
        """Return how many segments may follow where a retransmission has arrived: RFC 6937."""
        ahead = self._delivered - self._out
        if ahead < 0 and not self._linux:  # ns-3's numbers have no sign: this one is the largest
            return ahead + 1
        return max(ahead, delivered) + 1

    def count_sent(self) -> None:
        """Count a segment that is sent while losses are repaired."""
        self._out += 1

    def leave_recovery(self) -> None:
        """Go on at the threshold."""
        self.size = self.threshold

    def time_out(
        self, flight: int, sent: int, now: float, *, reduces: bool = True, left: int = 0
    ) -> None:
        """Begin anew with one segment, and wait twice as long next time.

        Args:
            flight: the segments that were in flight.
            sent: all segments before this one were sent.
            now: the time, s.
            reduces: whether the threshold becomes less, as it does once for a loss.
            left: the segments that still are in flight.
        """
        self.timeout = min(MOST_TIMEOUT, 2 * self.timeout)
        if reduces:
            self._before = self.size, self.threshold, self._peak
            self._reduce(flight)
        if self._cubic:
            self._peak, self._least_trip, self._found = 0, inf, False
            self._begin_round(sent, now)
        self.size = 1.0 + left

    def undo_time_out(self) -> None:
        """Go on as before the timer ran out: nothing was lost (RFC 4015)."""
        size, threshold, self._peak = self._before
        self.size, self.threshold = max(self.size, size), max(self.threshold, threshold)
