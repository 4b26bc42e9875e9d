"""Laws of a TCP connection's congestion window and retransmission timer.

Growth is by NewReno or Cubic; the file also holds recovery and timeouts. Slow start and congestion
avoidance are those of RFC 5681 (NewReno) and RFC 9438 (Cubic, which leaves slow start early by
HyStart), recovery is proportional (RFC 6937), timeouts are those of RFC 6298. Round trips are
measured by timestamps of milliseconds (RFC 7323). Linux counts bytes that are acknowledged where
NewReno's text (and ns-3) counts acknowledgements (RFC 3465), and adds its least timeout to the
round trip instead of bounding their sum with it. ns-3 multiplies the bytes of proportional recovery
in 32 bits, where windows of 45 segments overflow.
"""

from dataclasses import dataclass
from math import ceil, inf
from typing import NamedTuple

from fedsim.core.laws import law, power, step

MOST_TIMEOUT = 60.0
"""Longest timeout, s (RFC 6298)."""

TICK = 1e-3
"""Resolution of timestamps, s; also the least contribution of deviations to a timeout."""

LEAST_TRIP = 1e-6
"""Value of a round trip within one tick, s."""

SCALE = 0.4
"""Cubic's constant C (RFC 9438)."""

CLAMP = 20
"""Most acknowledged segments per unit of growth in Cubic, as long as none was lost."""

LOW_WINDOW, SAMPLES, NEAR = 16, 8, 0.002
"""Constants of HyStart: the smallest window it acts on, segments; the RTT samples per round; and
the largest gap between acknowledgements of one train, s."""


class HyStart(NamedTuple):
    """Criteria by which a stack ends slow start (HyStart: Ha and Rhee, 2011).

    Attributes:
        train: duration of a train of acknowledgements, in minimum round trips.
        late: increase of the round trip, in minimum round trips.
        low, high: bounds of that increase, s.
        smoothed: whether the smoothed round trip is tested, not single samples.
        settled: time after a loss during which round trips are ignored, s.
    """

    train: float
    late: float
    low: float
    high: float
    smoothed: bool
    settled: float


LINUX_HYSTART = HyStart(1 / 2, 1 / 8, 0.004, 0.016, smoothed=False, settled=1.0)
NS3_HYSTART = HyStart(1.0, 1.0, 0.004, 1.0, smoothed=True, settled=0.01)

BELOW, ABOVE = 1 - 1e-14, 1 + 1e-14
"""Bounds for the relative rounding error of a few products."""


@dataclass(slots=True, init=False, eq=False, repr=False)
class WindowState:
    """The congestion window of a connection, in segments.

    Attributes:
        cubic, linux: whether growth is by Cubic, and whether the stack is Linux's.
        payload: the payload of a full segment, bytes.
        least_timeout: Linux: the least contribution of deviations to the timeout; ns-3: the
            least timeout, s.
        initial: the initial window, segments.
        size: the window, segments.
        threshold: the slow-start threshold, segments.
        timeout: the retransmission timeout, s.
        last_sent: the time at which a segment was last sent, s.
        recover_fs, prr_out, prr_delivered: proportional rate reduction (RFC 6937): RecoverFS,
            prr_out, prr_delivered.
        trip: the smoothed round trip, s; 0 before the first sample.
        variation: the mean deviation of round trips, s.
        last_trip, least_trip: the last and the smallest round trip, s.
        shortest: HyStart: the smallest round trip since a loss, s.
        pipe_full: HyStart: whether slow start is to end.
        round_end, round_start, last_near, round_trip, samples: HyStart: state of the present round.
        peak: Cubic's W_max, segments.
        epoch: Cubic: the start of the epoch, s; -1: none.
        origin, inflection: Cubic: the origin of the curve, segments, and K, s.
        credit: acknowledged segments since the last growth.
        size_before, threshold_before, peak_before: state to undo a timeout.
    """

    cubic: int
    linux: int
    payload: int
    least_timeout: float
    initial: int
    size: float
    threshold: float
    timeout: float
    last_sent: float
    recover_fs: int
    prr_out: int
    prr_delivered: int
    trip: float
    variation: float
    last_trip: float
    least_trip: float
    shortest: float
    pipe_full: bool
    round_end: int
    round_start: float
    last_near: float
    round_trip: float
    samples: int
    peak: int
    epoch: float
    origin: int
    inflection: float
    credit: int
    size_before: float
    threshold_before: float
    peak_before: int


@law
def open_window(w: WindowState) -> None:
    """Initialise the window of a new connection, whose parameters are set."""
    w.timeout, w.last_sent = 1.0, 0.0
    w.recover_fs, w.prr_out, w.prr_delivered = 1, 0, 0
    w.trip = w.variation = w.last_trip = 0.0
    w.least_trip = w.shortest = inf
    w.pipe_full = False
    w.round_end, w.round_start, w.last_near = -1, 0.0, -inf
    w.round_trip, w.samples = inf, 0
    w.peak = w.origin = w.credit = w.peak_before = 0
    w.epoch, w.inflection = -1.0, 0.0
    reopen(w)
    w.size_before, w.threshold_before = w.size, inf


@law
def reopen(w: WindowState) -> None:
    """Reset the window as the answer of a handshake is repeated."""
    w.size, w.threshold = float(w.initial), inf


# The timer.


@step
def measure(w: WindowState, sent: float, now: float) -> None:
    """Add the RTT sample of a segment, from its timestamps."""
    # Both timestamps are cut to ticks before they are subtracted, as in RFC 7323.
    update_rtt(w, TICK * (int(now / TICK) - int(sent / TICK)))


@step
def update_rtt(w: WindowState, trip: float) -> None:
    """Update the RTT estimate with a sample, s (RFC 6298)."""
    w.last_trip = trip = trip or LEAST_TRIP
    w.least_trip = min(w.least_trip, trip)
    # RFC 6298: gains of 1/8 and 1/4; the first sample initialises both estimates.
    if w.trip:
        w.variation += (abs(w.trip - trip) - w.variation) / 4
        w.trip += (trip - w.trip) / 8
    else:
        w.trip, w.variation = trip, trip / 2


@step
def restore_timeout(w: WindowState) -> None:
    """Compute the timeout from RTT estimates; this ends any exponential backoff."""
    late, least = 4 * w.variation, w.least_timeout
    if w.linux:
        w.timeout = w.trip + max(least, late)
    else:
        w.timeout = max(least, w.trip + max(TICK, late))


# Growth.


@step
def looks(w: WindowState) -> bool:
    """Return whether single RTT samples may end slow start, as in HyStart of Linux."""
    return w.cubic != 0 and w.linux != 0 and w.size < w.threshold


@step
def note_acknowledgement(
    w: WindowState,
    acknowledged: int,  # noqa: ARG001 - kept windows read it
    sent: int,  # noqa: ARG001
    now: float,
) -> None:
    """Let HyStart see an acknowledgement; only Cubic uses it.

    Args:
        w: the window.
        acknowledged: the number below which all segments are acknowledged.
        sent: the number below which all segments were sent.
        now: the time, s.
    """
    if not w.cubic:
        return
    hystart = LINUX_HYSTART if w.linux else NS3_HYSTART
    # An epoch of -1 means that no loss has started a curve. After a loss, samples settle first.
    if -1.0 < w.epoch > now - hystart.settled:
        return
    trip = w.trip if hystart.smoothed else w.last_trip
    w.shortest = min(w.shortest, trip)
    if not w.pipe_full and LOW_WINDOW <= w.size <= w.threshold:
        _look_for_full_pipe(w, hystart, trip, now)


@law
def _look_for_full_pipe(w: WindowState, hystart: HyStart, trip: float, now: float) -> None:
    """End slow start on a long train of acknowledgements or on increased delay."""
    # Train criterion: acknowledgements in close succession for a large part of the round trip.
    if now - w.last_near <= NEAR:
        w.last_near = now
        w.pipe_full = now - w.round_start > hystart.train * w.shortest
    # The delay criterion: the minimum of the first samples of a round is compared with the
    # smallest round trip.
    if w.samples < SAMPLES:
        w.round_trip = min(w.round_trip, trip)
        w.samples += 1
    else:
        late = min(max(hystart.late * w.shortest, hystart.low), hystart.high)
        w.pipe_full = bool(w.pipe_full) or w.round_trip > w.shortest + late
    if w.pipe_full:
        w.threshold = w.size


@step
def grow(w: WindowState, count: int, acknowledged: int, sent: int, now: float) -> None:
    """Grow the window by the acknowledgement of some segments.

    Args:
        w: the window.
        count: the number of newly acknowledged segments.
        acknowledged: the number below which all segments are acknowledged.
        sent: the number below which all segments were sent.
        now: the time, s.
    """
    if w.cubic:
        if w.size < w.threshold:
            # HyStart works in rounds: one per window of segments.
            if acknowledged > w.round_end:
                begin_round(w, sent, now)
            w.size += count
        elif count:
            _follow_cubic(w, count, now)
        return
    if w.linux:
        # Linux counts segments (RFC 3465): part of them may complete slow start.
        room = w.threshold - w.size
        begun = int(min(count, room)) if room > 0 else 0
        w.size += begun
        w.size += (count - begun) / w.size
        return
    if w.size < w.threshold and count:
        w.size += 1
        count -= 1
    if w.size >= w.threshold and count:  # ns-3 counts whole bytes
        size, payload = round(w.size * w.payload), w.payload
        w.size = (size + max(payload * payload // size, 1)) / payload


@law
def begin_round(w: WindowState, sent: int, now: float) -> None:
    """Begin a round of HyStart."""
    w.round_end, w.round_start, w.last_near = sent, now, now
    w.round_trip, w.samples = inf, 0


@step
def _follow_cubic(w: WindowState, count: int, now: float) -> None:
    """Grow along the cubic curve, by at most one segment per acknowledgement."""
    w.credit += count
    size = int(w.size)
    if w.epoch < 0:
        w.epoch = now
        w.origin = max(w.peak, size)
        w.inflection = power((w.origin - size) / SCALE, 1 / 3)
    # RFC 9438: the target is that of one round trip ahead.
    least = w.shortest if w.shortest < inf else 0.0
    offset = now + least - w.epoch - w.inflection
    # The power of C's library is slow. It can only differ from a product next to a whole number:
    # both bounds truncate to the same one in all but very rare cases.
    about = SCALE * (offset * offset * offset)
    ahead = int(about * BELOW)
    if ahead != int(about * ABOVE):
        ahead = int(SCALE * power(abs(offset), 3.0)) * (1 if offset >= 0 else -1)
    target = w.origin + ahead
    # Linux counts acknowledgements: the window grows by 1 per `per` of them (`bictcp_update`). If
    # the curve lies below the window, it grows by 1 in 100 windows.
    per = size // (target - size) if target > size else 100 * size
    # Without a loss so far, growth is at least 1 per CLAMP segments.
    if not w.peak:
        per = min(per, CLAMP)
    per = max(per, 2)
    if w.credit >= per:
        w.size += 1
        w.credit -= per


@law
def utilisation(w: WindowState, queue: float) -> float:
    """Return the mean share of a link that a window fills if losses cut it.

    Args:
        w: the window.
        queue: the capacity of its queue, in bandwidth-delay products.
    """
    # Sawtooth between `low` and `full`, in bandwidth-delay products; below 1 the link idles.
    full, low = 1 + queue, _beta(w) * (1 + queue)
    if low >= 1:
        return 1.0
    if w.cubic:
        part = power((full - 1) / (full - low), 1 / 3)
        filled = full - (full - low) * (1 - power(part, 4.0)) / (4 * (1 - part))
        return 1 - (1 - part) * (1 - filled)
    square = power(full, 2.0) - 1
    return ((1 - power(low, 2.0)) + square) / (2 * (1 - low) + square)


# Recovery.


@law
def _beta(w: WindowState) -> float:
    """Return the share of the window that a loss leaves."""
    return 0.7 if w.cubic else 0.5


@law
def _reduce(w: WindowState, flight: int) -> None:
    """Reduce the threshold at a loss; Cubic also applies fast convergence."""
    size, beta = int(w.size), _beta(w)
    if not w.cubic:
        w.threshold = float(max(size // 2, 2)) if w.linux else max(2.0, flight / 2)
        return
    # Fast convergence: a window below the last maximum gives up more room to new flows.
    w.peak = int(size * (1 + beta) / 2) if size < w.peak else size
    w.epoch = -1.0
    w.threshold = float(max(int(size * beta), 2))


@law
def enter_recovery(w: WindowState, flight: int, outstanding: int, delivered: int) -> None:
    """Reduce the threshold and start to repair losses.

    Args:
        w: the window.
        flight: the segments in flight.
        outstanding: the segments that are not acknowledged, whether lost or not.
        delivered: the segments that this acknowledgement has delivered.
    """
    w.recover_fs = int(w.size) if w.linux else outstanding
    _reduce(w, flight)
    w.prr_out, w.prr_delivered = 0, 0
    recover(w, delivered, flight, 0)


@law
def recover(w: WindowState, delivered: int, flight: int, repaired: int) -> None:
    """Set the window in proportion to delivered segments (RFC 6937).

    Args:
        w: the window.
        delivered: the segments that this acknowledgement has delivered.
        flight: the segments in flight.
        repaired: 1 if it acknowledges retransmissions, else 0.
    """
    if w.linux and not delivered:
        return
    w.prr_delivered += delivered
    threshold = w.threshold
    # Above the threshold: proportional rate reduction.
    if flight > threshold:
        send = _share_of_threshold(w) - w.prr_out
    elif w.linux:
        send = min(max(w.prr_delivered - w.prr_out, delivered) + repaired, threshold - flight)
    else:
        send = min(_count_owed(w, delivered) if repaired else delivered, threshold - flight)
    # At least one segment at the start of recovery: the fast retransmit.
    w.size = flight + max(send, 0.0 if w.prr_out else 1.0)


@law
def _share_of_threshold(w: WindowState) -> float:
    """Return how many segments may be sent since the loss, in proportion to deliveries."""
    delivered, threshold = w.prr_delivered, w.threshold
    if w.linux:
        return float(ceil(delivered * threshold / w.recover_fs))
    # ns-3 multiplies bytes in 32 bits, which overflows for windows of 45 segments or more.
    payload = w.payload
    product = delivered * payload * int(threshold * payload) % (1 << 32)
    return ceil(product / (w.recover_fs * payload)) / payload


@law
def _count_owed(w: WindowState, delivered: int) -> int:
    """Return how many segments may follow a delivered retransmission (RFC 6937)."""
    ahead = w.prr_delivered - w.prr_out
    if ahead < 0 and not w.linux:  # unsigned in ns-3, so a negative difference is the maximum
        return ahead + 1
    return max(ahead, delivered) + 1


@law
def count_sent(w: WindowState) -> None:
    """Count a segment sent during recovery."""
    w.prr_out += 1


@law
def leave_recovery(w: WindowState) -> None:
    """Set the window to the threshold."""
    w.size = w.threshold


@law
def time_out(
    w: WindowState, flight: int, sent: int, now: float, reduces: int = 1, left: int = 0
) -> None:
    """Restart from one segment and double the timeout.

    Args:
        w: the window.
        flight: the segments that were in flight.
        sent: the number below which all segments were sent.
        now: the time, s.
        reduces: whether the threshold is reduced, which happens once per loss.
        left: the segments that are still in flight.
    """
    w.timeout = min(MOST_TIMEOUT, 2 * w.timeout)
    if reduces:
        # Kept to undo a spurious timeout.
        w.size_before, w.threshold_before, w.peak_before = w.size, w.threshold, w.peak
        _reduce(w, flight)
    if w.cubic:
        w.peak, w.shortest, w.pipe_full = 0, inf, False
        begin_round(w, sent, now)
    w.size = 1.0 + left


@law
def undo_time_out(w: WindowState) -> None:
    """Restore the state before a spurious timeout (RFC 4015)."""
    w.size, w.threshold = max(w.size, w.size_before), max(w.threshold, w.threshold_before)
    w.peak = w.peak_before
