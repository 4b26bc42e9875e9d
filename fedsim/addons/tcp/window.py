"""Congestion window and retransmission timer of a TCP connection.

Growth is by NewReno or Cubic; the file also holds recovery and timeouts.
"""

from math import ceil, floor, inf
from typing import NamedTuple

from fedsim.physics.tcp import Tcp

MOST_TIMEOUT = 60.0
"""Longest timeout, s (RFC 6298)."""

TICK = 1e-3
"""Resolution of timestamps, s; also the least contribution of deviations to a timeout."""

LEAST_TRIP = 1e-6
"""Value of a round trip within one tick, s."""

PAYLOAD = 1448
"""Default payload of a segment, bytes."""

SCALE = 0.4
"""Cubic's constant C (RFC 9438)."""

CLAMP = 20
"""Most acknowledged segments per unit of growth in Cubic, as long as none was lost."""

SERVER_RTT_SAMPLES = 3
"""RTT samples of a server when a connection opens: the SYN and two messages."""

CLIENT_RTT_SAMPLES = 4
"""RTT samples of a client, which sends one message more; see fedsim/addons/live/handshake.py."""

LOW_WINDOW, SAMPLES, NEAR = 16, 8, 0.002
"""Constants of HyStart: the smallest window it acts on, segments; the RTT samples per round; and
the largest gap between acknowledgements of one train, s."""


class HyStart(NamedTuple):
    """Criteria by which a stack ends slow start (HyStart: Ha and Rhee, 2011).

    Attributes:
        train: duration of a train of acknowledgements, in minimum round trips.
        late: increase of the round trip, in minimum round trips.
        bounds: bounds of that increase, s.
        smoothed: whether the smoothed round trip is tested, not single samples.
        settled: time after a loss during which round trips are ignored, s.
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
    """The congestion window of a connection, in segments.

    Slow start and congestion avoidance are those of RFC 5681 (NewReno) and RFC 9438 (Cubic, which
    leaves slow start early by HyStart), recovery is proportional (RFC 6937), timeouts are those of
    RFC 6298. Round trips are measured by timestamps of milliseconds (RFC 7323). Linux counts bytes
    that are acknowledged where NewReno's text (and ns-3) counts acknowledgements (RFC 3465), and
    adds its least timeout to the round trip instead of bounding their sum with it. ns-3 multiplies
    the bytes of proportional recovery in 32 bits, where windows of 45 segments overflow.

    Args:
        law: the parameters of TCP.
        payload: the payload of a full segment, bytes.

    Attributes:
        size: the window, segments.
        threshold: the slow-start threshold, segments.
        timeout: the retransmission timeout, s.
        trip: the smoothed round trip, s; 0 before the first sample.
        least_trip: the smallest round trip, s.
        least_timeout: Linux: the least contribution of deviations to the timeout; ns-3: the
            least timeout, s.
        last_sent: the time at which a segment was last sent, s.
    """

    __slots__ = (
        "_before",
        "_beta",
        "_credit",
        "_cubic",
        "_delivered",
        "_epoch",
        "_flight",
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
        "_pipe_full",
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
        # Proportional rate reduction (RFC 6937): RecoverFS, prr_out, prr_delivered.
        self._flight, self._out, self._delivered = 1, 0, 0
        self.trip, self._variation, self._last_trip = 0.0, 0.0, 0.0
        self.least_trip = inf
        # HyStart: the smallest round trip since a loss, whether slow start is to end, and the
        # state of the present round.
        self._least_trip = inf
        self._pipe_full = False
        self._round_end, self._round_start, self._last_near = -1, 0.0, -inf
        self._round_trip, self._samples = inf, 0
        # Cubic (RFC 9438): W_max, the start of the epoch (-1: none), the origin of the curve, and
        # K.
        self._peak, self._epoch, self._origin, self._inflection = 0, -1.0, 0, 0.0
        self._before = self.size, self.threshold, self._peak  # state to undo a timeout
        self._credit = 0  # acknowledged segments since the last growth

    def reopen(self) -> None:
        """Reset the window as the answer of a handshake is repeated."""
        self.size, self.threshold = float(self._initial), inf

    def begin_message(self, now: float) -> None:
        """Start counting the segments of another message."""
        self._round_end = -1

    def seed_rtt(self, trip: float, times: int = SERVER_RTT_SAMPLES) -> None:
        """Initialise the RTT estimate from the handshake and the messages after it.

        Args:
            trip: the round trip of each sample, s.
            times: the number of samples.
        """
        for _ in range(times):
            self._add_rtt_sample(trip)
        self.restore_timeout()
        # The handshake counts as long past: the first message finds an idle connection.
        self._least_trip, self.last_sent = self._last_trip, -MOST_TIMEOUT

    def _add_rtt_sample(self, trip: float) -> None:
        """Add one of these RTT samples, s."""
        self.measure(0.0, trip)

    def is_idle(self, now: float) -> bool:
        """Return whether nothing was sent for longer than a timeout."""
        return now - self.last_sent > self.timeout

    def restart(self, initial: int, now: float) -> None:
        """Shrink the window if the connection has been idle for longer than a timeout.

        RFC 5681 returns to the initial window. Linux halves the window per timeout, down to the
        initial one, as RFC 2861 does.
        """
        idle = now - self.last_sent
        if idle <= self.timeout:
            return
        if self.size > initial:
            self.threshold = max(self.threshold, 0.75 * self.size)
            # The threshold keeps 3/4 of the window, so that slow start soon recovers it (RFC 2861).
            shares = 0.5 ** (ceil(idle / self.timeout) - 1) if self._linux else 0.0
            self.size = max(floor(self.size * shares), float(initial))
        self._epoch = -1.0

    # The timer.

    def measure(self, sent: float, now: float) -> None:
        """Add the RTT sample of a segment, from its timestamps."""
        # Both timestamps are cut to ticks before they are subtracted, as in RFC 7323.
        self._update_rtt(TICK * (int(now / TICK) - int(sent / TICK)))

    def _update_rtt(self, trip: float) -> None:
        """Update the RTT estimate with a sample, s (RFC 6298)."""
        self._last_trip = trip = trip or LEAST_TRIP
        self.least_trip = min(self.least_trip, trip)
        # RFC 6298: gains of 1/8 and 1/4; the first sample initialises both estimates.
        if self.trip:
            self._variation += (abs(self.trip - trip) - self._variation) / 4
            self.trip += (trip - self.trip) / 8
        else:
            self.trip, self._variation = trip, trip / 2

    def restore_timeout(self) -> None:
        """Compute the timeout from RTT estimates; this ends any exponential backoff."""
        late, least = 4 * self._variation, self.least_timeout
        if self._linux:
            self.timeout = self.trip + max(least, late)
        else:
            self.timeout = max(least, self.trip + max(TICK, late))

    # Growth.

    @property
    def looks(self) -> bool:
        """Whether single RTT samples may end slow start, as in HyStart of Linux."""
        return self._cubic and self._linux and self.size < self.threshold

    def note_acknowledgement(self, acknowledged: int, sent: int, now: float) -> None:
        """Let HyStart see an acknowledgement; only Cubic uses it.

        Args:
            acknowledged: the number below which all segments are acknowledged.
            sent: the number below which all segments were sent.
            now: the time, s.
        """
        # An epoch of -1 means that no loss has started a curve. After a loss, samples settle first.
        if not self._cubic or -1.0 < self._epoch > now - self._hystart.settled:
            return
        trip = self.trip if self._hystart.smoothed else self._last_trip
        self._least_trip = min(self._least_trip, trip)
        if not self._pipe_full and LOW_WINDOW <= self.size <= self.threshold:
            self._look_for_full_pipe(trip, now)

    def _look_for_full_pipe(self, trip: float, now: float) -> None:
        """End slow start on a long train of acknowledgements or on increased delay."""
        # Train criterion: acknowledgements in close succession for a large part of the round trip.
        if now - self._last_near <= NEAR:
            self._last_near = now
            self._pipe_full = now - self._round_start > self._hystart.train * self._least_trip
        # The delay criterion: the minimum of the first samples of a round is compared with the
        # smallest round trip.
        if self._samples < SAMPLES:
            self._round_trip = min(self._round_trip, trip)
            self._samples += 1
        else:
            low, high = self._hystart.bounds
            late = min(max(self._hystart.late * self._least_trip, low), high)
            self._pipe_full = self._pipe_full or self._round_trip > self._least_trip + late
        if self._pipe_full:
            self.threshold = self.size

    def grow(self, count: int, acknowledged: int, sent: int, now: float) -> None:
        """Grow the window by the acknowledgement of some segments.

        Args:
            count: the number of newly acknowledged segments.
            acknowledged: the number below which all segments are acknowledged.
            sent: the number below which all segments were sent.
            now: the time, s.
        """
        if self._cubic:
            if self.size < self.threshold:
                # HyStart works in rounds: one per window of segments.
                if acknowledged > self._round_end:
                    self._begin_round(sent, now)
                self.size += count
            elif count:
                self._follow_cubic(count, now)
            return
        if self._linux:
            # Linux counts segments (RFC 3465): part of them may complete slow start.
            room = self.threshold - self.size
            begun = int(min(count, room)) if room > 0 else 0
            self.size += begun
            self.size += (count - begun) / self.size
            return
        if self.size < self.threshold and count:
            self.size += 1
            count -= 1
        if self.size >= self.threshold and count:  # ns-3 counts whole bytes
            size, payload = round(self.size * self._payload), self._payload
            self.size = (size + max(payload * payload // size, 1)) / payload

    def _begin_round(self, sent: int, now: float) -> None:
        self._round_end, self._round_start, self._last_near = sent, now, now
        self._round_trip, self._samples = inf, 0

    def _follow_cubic(self, count: int, now: float) -> None:
        """Grow along the cubic curve, by at most one segment per acknowledgement."""
        self._credit += count
        size = int(self.size)
        if self._epoch < 0:
            self._epoch = now
            self._origin = max(self._peak, size)
            self._inflection = ((self._origin - size) / SCALE) ** (1 / 3)
        # RFC 9438: the target is that of one round trip ahead.
        least = self._least_trip if self._least_trip < inf else 0.0
        offset = now + least - self._epoch - self._inflection
        target = self._origin + int(SCALE * abs(offset) ** 3) * (1 if offset >= 0 else -1)
        # Linux counts acknowledgements: the window grows by 1 per `per` of them (`bictcp_update`).
        # If the curve lies below the window, it grows by 1 in 100 windows.
        per = size // (target - size) if target > size else 100 * size
        # Without a loss so far, growth is at least 1 per CLAMP segments.
        if not self._peak:
            per = min(per, CLAMP)
        per = max(per, 2)
        if self._credit >= per:
            self.size += 1
            self._credit -= per

    def utilisation(self, queue: float) -> float:
        """Return the mean share of a link that a window fills if losses cut it.

        Args:
            queue: the capacity of its queue, in bandwidth-delay products.
        """
        # Sawtooth between `low` and `full`, in bandwidth-delay products; below 1 the link idles.
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
        """Reduce the threshold at a loss; Cubic also applies fast convergence."""
        size = int(self.size)
        if not self._cubic:
            self.threshold = float(max(size // 2, 2)) if self._linux else max(2.0, flight / 2)
            return
        # Fast convergence: a window below the last maximum gives up more room to new flows.
        self._peak = int(size * (1 + self._beta) / 2) if size < self._peak else size
        self._epoch = -1.0
        self.threshold = float(max(int(size * self._beta), 2))

    def enter_recovery(self, flight: int, outstanding: int, delivered: int) -> None:
        """Reduce the threshold and start to repair losses.

        Args:
            flight: the segments in flight.
            outstanding: the segments that are not acknowledged, whether lost or not.
            delivered: the segments that this acknowledgement has delivered.
        """
        self._flight = int(self.size) if self._linux else outstanding
        self._reduce(flight)
        self._out, self._delivered = 0, 0
        self.recover(delivered, flight, repaired=False)

    def recover(self, delivered: int, flight: int, *, repaired: bool) -> None:
        """Set the window in proportion to delivered segments (RFC 6937).

        Args:
            delivered: the segments that this acknowledgement has delivered.
            flight: the segments in flight.
            repaired: whether it acknowledges retransmissions.
        """
        if self._linux and not delivered:
            return
        self._delivered += delivered
        threshold = self.threshold
        # Above the threshold: proportional rate reduction.
        if flight > threshold:
            send = self._share_of_threshold() - self._out
        elif self._linux:
            send = min(max(self._delivered - self._out, delivered) + repaired, threshold - flight)
        else:
            owed = self._count_owed(delivered) if repaired else delivered
            send = min(owed, threshold - flight)
        # At least one segment at the start of recovery: the fast retransmit.
        self.size = flight + max(send, 0.0 if self._out else 1.0)

    def _share_of_threshold(self) -> float:
        """Return how many segments may be sent since the loss, in proportion to deliveries."""
        delivered, threshold = self._delivered, self.threshold
        if self._linux:
            return ceil(delivered * threshold / self._flight)
        # ns-3 multiplies bytes in 32 bits, which overflows for windows of 45 segments or more.
        payload = self._payload
        product = delivered * payload * int(threshold * payload) % (1 << 32)
        return ceil(product / (self._flight * payload)) / payload

    def _count_owed(self, delivered: int) -> int:
        """Return how many segments may follow a delivered retransmission (RFC 6937)."""
        ahead = self._delivered - self._out
        if (
            ahead < 0 and not self._linux
        ):  # unsigned in ns-3, so a negative difference is the maximum
            return ahead + 1
        return max(ahead, delivered) + 1

    def count_sent(self) -> None:
        """Count a segment sent during recovery."""
        self._out += 1

    def leave_recovery(self) -> None:
        """Set the window to the threshold."""
        self.size = self.threshold

    def time_out(
        self, flight: int, sent: int, now: float, *, reduces: bool = True, left: int = 0
    ) -> None:
        """Restart from one segment and double the timeout.

        Args:
            flight: the segments that were in flight.
            sent: the number below which all segments were sent.
            now: the time, s.
            reduces: whether the threshold is reduced, which happens once per loss.
            left: the segments that are still in flight.
        """
        self.timeout = min(MOST_TIMEOUT, 2 * self.timeout)
        if reduces:
            # Kept to undo a spurious timeout.
            self._before = self.size, self.threshold, self._peak
            self._reduce(flight)
        if self._cubic:
            self._peak, self._least_trip, self._pipe_full = 0, inf, False
            self._begin_round(sent, now)
        self.size = 1.0 + left

    def undo_time_out(self) -> None:
        """Restore the state before a spurious timeout (RFC 4015)."""
        size, threshold, self._peak = self._before
        self.size, self.threshold = max(self.size, size), max(self.threshold, threshold)
