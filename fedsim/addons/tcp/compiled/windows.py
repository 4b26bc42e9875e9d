"""Congestion window and timer of a connection: see `Window`."""

from math import ceil, inf

from fedsim.addons.tcp.compiled import layout as at
from fedsim.addons.tcp.compiled.compiler import inline, part
from fedsim.addons.tcp.compiled.kinds import Integers, Reals
from fedsim.addons.tcp.window import (
    CLAMP,
    LEAST_TRIP,
    LOW_WINDOW,
    MOST_TIMEOUT,
    NEAR,
    SAMPLES,
    SCALE,
    TICK,
)

ROUNDED = 1e-14
"""Bound for the relative rounding error of a few products."""

_THIRD, _THREE, _TWO, _FOUR = range(at.POWERS, at.POWERS + 4)


@part
def reset_window(W: Integers, F: Reals, m: int) -> None:
    """Initialise the window of a new connection."""
    F[m + at.SIZE], F[m + at.THRESHOLD], F[m + at.TIMEOUT] = W[at.INITIAL], inf, 1.0
    # Same initial values as `Window.__init__`, in the same order.
    F[m + at.LAST_SENT] = 0.0
    W[m + at.FLIGHT], W[m + at.OUT], W[m + at.ARRIVALS] = 1, 0, 0
    F[m + at.MEAN_TRIP] = F[m + at.VARIATION] = F[m + at.LAST_TRIP] = 0.0
    F[m + at.LEAST_TRIP] = F[m + at.SHORTEST] = inf
    W[m + at.FOUND] = 0
    W[m + at.ROUND_END] = -1
    F[m + at.ROUND_START], F[m + at.LAST_NEAR] = 0.0, -inf
    F[m + at.ROUND_TRIP], W[m + at.SAMPLES] = inf, 0
    W[m + at.PEAK] = W[m + at.ORIGIN] = W[m + at.CREDIT] = W[m + at.PEAK_BEFORE] = 0
    F[m + at.EPOCH], F[m + at.INFLECTION] = -1.0, 0.0
    F[m + at.SIZE_BEFORE], F[m + at.THRESHOLD_BEFORE] = F[m + at.SIZE], inf


# The timer.


@inline
def measure(F: Reals, m: int, sent: float, now: float) -> None:
    """Add the RTT sample of a segment; see `Window.measure`."""
    # Both timestamps are cut to ticks before they are subtracted, as in RFC 7323.
    trip = TICK * (int(now / TICK) - int(sent / TICK))
    if trip == 0.0:
        trip = LEAST_TRIP
    F[m + at.LAST_TRIP] = trip
    F[m + at.LEAST_TRIP] = min(F[m + at.LEAST_TRIP], trip)
    mean = F[m + at.MEAN_TRIP]
    # RFC 6298: gains of 1/8 and 1/4; the first sample initialises both estimates.
    if mean != 0.0:
        F[m + at.VARIATION] += (abs(mean - trip) - F[m + at.VARIATION]) / 4
        F[m + at.MEAN_TRIP] += (trip - mean) / 8
    else:
        F[m + at.MEAN_TRIP], F[m + at.VARIATION] = trip, trip / 2


@inline
def restore_timeout(W: Integers, F: Reals, m: int) -> None:
    """Compute the timeout from the RTT estimates."""
    late, least = 4 * F[m + at.VARIATION], F[at.LEAST_TIMEOUT]
    if W[at.LINUX]:
        F[m + at.TIMEOUT] = F[m + at.MEAN_TRIP] + max(least, late)
    else:
        F[m + at.TIMEOUT] = max(least, F[m + at.MEAN_TRIP] + max(TICK, late))


# Growth.


@inline
def looks(W: Integers, F: Reals, m: int) -> bool:
    """Return whether single RTT samples may end slow start."""
    return W[at.CUBIC] != 0 and W[at.LINUX] != 0 and F[m + at.SIZE] < F[m + at.THRESHOLD]


@inline
def note_acknowledgement(W: Integers, F: Reals, m: int, now: float) -> None:
    """Let HyStart see an acknowledgement; only Cubic uses it."""
    # An epoch of -1 means that no loss has started a curve. After a loss, samples settle first.
    if not W[at.CUBIC] or -1.0 < F[m + at.EPOCH] > now - F[at.SETTLED]:
        return
    trip = F[m + at.MEAN_TRIP] if W[at.SMOOTHED] else F[m + at.LAST_TRIP]
    F[m + at.SHORTEST] = min(F[m + at.SHORTEST], trip)
    if not W[m + at.FOUND] and LOW_WINDOW <= F[m + at.SIZE] <= F[m + at.THRESHOLD]:
        _look_for_full_pipe(W, F, m, trip, now)


@part
def _look_for_full_pipe(W: Integers, F: Reals, m: int, trip: float, now: float) -> None:
    """End slow start on a long train of acknowledgements or on increased delay."""
    shortest = F[m + at.SHORTEST]
    pipe_full = False
    # Train criterion: acknowledgements in close succession for a large part of the round trip.
    if now - F[m + at.LAST_NEAR] <= NEAR:
        F[m + at.LAST_NEAR] = now
        pipe_full = now - F[m + at.ROUND_START] > F[at.TRAIN] * shortest
    if W[m + at.SAMPLES] < SAMPLES:
        F[m + at.ROUND_TRIP] = min(F[m + at.ROUND_TRIP], trip)
        W[m + at.SAMPLES] += 1
    else:
        late = min(max(F[at.LATE] * shortest, F[at.LOW]), F[at.HIGH])
        pipe_full = pipe_full or F[m + at.ROUND_TRIP] > shortest + late
    if pipe_full:
        W[m + at.FOUND] = 1
        F[m + at.THRESHOLD] = F[m + at.SIZE]


@inline
def grow(
    W: Integers, F: Reals, m: int, count: int, acknowledged: int, sent: int, now: float
) -> None:
    """Grow the window by the acknowledgement of some segments; see `Window.grow`."""
    if W[at.CUBIC]:
        if F[m + at.SIZE] < F[m + at.THRESHOLD]:
            if acknowledged > W[m + at.ROUND_END]:
                _begin_round(W, F, m, sent, now)
            F[m + at.SIZE] += count
        elif count:
            _follow_cubic(W, F, m, count, now)
        return
    if W[at.LINUX]:
        # Linux counts segments (RFC 3465): part of them may complete slow start.
        space = F[m + at.THRESHOLD] - F[m + at.SIZE]
        begun = int(min(float(count), space)) if space > 0 else 0
        F[m + at.SIZE] += begun
        F[m + at.SIZE] += (count - begun) / F[m + at.SIZE]
        return
    # ns-3 counts acknowledgements: one segment each in slow start.
    if F[m + at.SIZE] < F[m + at.THRESHOLD] and count:
        F[m + at.SIZE] += 1
        count -= 1
    if F[m + at.SIZE] >= F[m + at.THRESHOLD] and count:
        payload = W[W[m + at.PATH] + at.PAYLOAD]  # by whole bytes
        # `round` to even, as Python rounds.
        size = round(F[m + at.SIZE] * payload)
        F[m + at.SIZE] = (size + max(payload * payload // size, 1)) / payload


@part
def _begin_round(W: Integers, F: Reals, m: int, sent: int, now: float) -> None:
    W[m + at.ROUND_END], F[m + at.ROUND_START], F[m + at.LAST_NEAR] = sent, now, now
    F[m + at.ROUND_TRIP], W[m + at.SAMPLES] = inf, 0


@inline
def _follow_cubic(W: Integers, F: Reals, m: int, count: int, now: float) -> None:
    """Grow along the cubic curve, by at most one segment per acknowledgement."""
    W[m + at.CREDIT] += count
    size = int(F[m + at.SIZE])
    if F[m + at.EPOCH] < 0:
        F[m + at.EPOCH] = now
        W[m + at.ORIGIN] = max(W[m + at.PEAK], size)
        F[m + at.INFLECTION] = ((W[m + at.ORIGIN] - size) / SCALE) ** F[_THIRD]
    # RFC 9438: the target is that of one round trip ahead.
    least = F[m + at.SHORTEST] if F[m + at.SHORTEST] < inf else 0.0
    offset = now + least - F[m + at.EPOCH] - F[m + at.INFLECTION]
    ahead = _cube(F, abs(offset))
    target = W[m + at.ORIGIN] + (ahead if offset >= 0 else -ahead)
    per = size // (target - size) if target > size else 100 * size
    # Without a loss so far, growth is at least 1 per CLAMP segments.
    if not W[m + at.PEAK]:
        per = min(per, CLAMP)
    per = max(per, 2)
    if W[m + at.CREDIT] >= per:
        F[m + at.SIZE] += 1
        W[m + at.CREDIT] -= per


@inline
def _cube(F: Reals, offset: float) -> int:
    """Return the whole segments of the cubic curve at an offset, s, rounded as Python's power.

    The power of C's library is slow. It can only differ from a product next to a whole number.
    """
    about: float = SCALE * (offset * offset * offset)
    # Both bounds truncate to the same whole number in all but very rare cases.
    least = int(about * (1 - ROUNDED))
    if least == int(about * (1 + ROUNDED)):
        return least
    return int(SCALE * offset ** F[_THREE])


@part
def utilisation(W: Integers, F: Reals, queue: float) -> float:
    """Return the mean share of a link that a window fills; see `Window.utilisation`."""
    full, low = 1 + queue, F[at.BETA] * (1 + queue)
    if low >= 1:
        return 1.0
    if W[at.CUBIC]:
        share: float = ((full - 1) / (full - low)) ** F[_THIRD]
        filled: float = full - (full - low) * (1 - share ** F[_FOUR]) / (4 * (1 - share))
        return 1 - (1 - share) * (1 - filled)
    # The powers come from C, as in Python, so that both round alike.
    square: float = full ** F[_TWO] - 1
    lower: float = 1 - low ** F[_TWO]
    return (lower + square) / (2 * (1 - low) + square)


# Recovery.


@part
def _reduce(W: Integers, F: Reals, m: int, flight: int) -> None:
    """Reduce the threshold at a loss; Cubic also applies fast convergence."""
    size = int(F[m + at.SIZE])
    if not W[at.CUBIC]:
        F[m + at.THRESHOLD] = float(max(size // 2, 2)) if W[at.LINUX] else max(2.0, flight / 2)
        return
    beta = F[at.BETA]
    W[m + at.PEAK] = int(size * (1 + beta) / 2) if size < W[m + at.PEAK] else size
    F[m + at.EPOCH] = -1.0
    F[m + at.THRESHOLD] = float(max(int(size * beta), 2))


@part
def begin_recovery(
    W: Integers, F: Reals, m: int, flight: int, outstanding: int, delivered: int
) -> None:
    """Reduce the threshold and start to repair losses; see `Window.enter_recovery`."""
    W[m + at.FLIGHT] = int(F[m + at.SIZE]) if W[at.LINUX] else outstanding
    _reduce(W, F, m, flight)
    W[m + at.OUT], W[m + at.ARRIVALS] = 0, 0
    recover(W, F, m, delivered, flight, at.NOTHING)


@part
def recover(W: Integers, F: Reals, m: int, delivered: int, flight: int, repaired: int) -> None:
    """Set the window in proportion to delivered segments; see `Window.recover`."""
    if W[at.LINUX] and not delivered:
        return
    W[m + at.ARRIVALS] += delivered
    threshold = F[m + at.THRESHOLD]
    # Above the threshold: proportional rate reduction.
    if flight > threshold:
        send = _share_of_threshold(W, F, m) - W[m + at.OUT]
    elif W[at.LINUX]:
        owed = max(W[m + at.ARRIVALS] - W[m + at.OUT], delivered) + repaired
        send = min(float(owed), threshold - flight)
    else:
        owed = _count_owed(W, m, delivered) if repaired else delivered
        send = min(float(owed), threshold - flight)
    # At least one segment at the start of recovery: the fast retransmit.
    F[m + at.SIZE] = flight + max(send, 0.0 if W[m + at.OUT] else 1.0)


@part
def _share_of_threshold(W: Integers, F: Reals, m: int) -> float:
    """Return how many segments may be sent: see `Window._share_of_threshold`."""
    delivered, threshold = W[m + at.ARRIVALS], F[m + at.THRESHOLD]
    if W[at.LINUX]:
        return float(ceil(delivered * threshold / W[m + at.FLIGHT]))
    payload = W[W[m + at.PATH] + at.PAYLOAD]
    product = delivered * payload * int(threshold * payload) % (1 << 32)
    return ceil(product / (W[m + at.FLIGHT] * payload)) / payload


@part
def _count_owed(W: Integers, m: int, delivered: int) -> int:
    """Return how many segments may follow a delivered retransmission."""
    ahead = W[m + at.ARRIVALS] - W[m + at.OUT]
    if ahead < 0 and not W[at.LINUX]:
        return ahead + 1
    return max(ahead, delivered) + 1


@part
def shrink(
    W: Integers, F: Reals, m: int, flight: int, sent: int, now: float, reduces: int, left: int
) -> None:
    """Restart from one segment and double the timeout; see `Window.time_out`."""
    F[m + at.TIMEOUT] = min(MOST_TIMEOUT, 2 * F[m + at.TIMEOUT])
    if reduces:
        # Kept to undo a spurious timeout.
        F[m + at.SIZE_BEFORE], F[m + at.THRESHOLD_BEFORE] = F[m + at.SIZE], F[m + at.THRESHOLD]
        W[m + at.PEAK_BEFORE] = W[m + at.PEAK]
        _reduce(W, F, m, flight)
    if W[at.CUBIC]:
        W[m + at.PEAK], F[m + at.SHORTEST], W[m + at.FOUND] = 0, inf, 0
        _begin_round(W, F, m, sent, now)
    F[m + at.SIZE] = 1.0 + left


@part
def undo_time_out(W: Integers, F: Reals, m: int) -> None:
    """Restore the state before a spurious timeout."""
    F[m + at.SIZE] = max(F[m + at.SIZE], F[m + at.SIZE_BEFORE])
    F[m + at.THRESHOLD] = max(F[m + at.THRESHOLD], F[m + at.THRESHOLD_BEFORE])
    W[m + at.PEAK] = W[m + at.PEAK_BEFORE]
