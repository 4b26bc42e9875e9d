"""Contention for a channel: how long stations that send at random wait for a turn.

Bianchi, "Performance analysis of the IEEE 802.11 distributed coordination function", IEEE JSAC
18(3), 2000. Each of n stations always has something to send. It transmits in a slot with a
probability tau, and its transmission collides with a probability p. The two depend on each other.
tau follows from p by the backoff, whose window doubles at each collision up to a largest one
(equation 7). p follows from tau, since a transmission collides unless no other station transmits
(equation 9).

Here n may be any real number of at least 1, the mean of a number that varies. Stations may differ
in the length of their transmissions, for example because of their rates. All have the same chance
of a turn, however long it takes, so one slow station slows down all (Heusse et al., "Performance
anomaly of 802.11b", INFOCOM 2003). This effect is not modelled separately: it follows from the
equal chances.
"""

from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple


class Backoff(NamedTuple):
    """The windows of backoffs.

    Attributes:
        window: W, the number of values of a first backoff, which is 0 to W - 1 slots.
        stages: m, how often the window doubles.
    """

    window: int
    stages: int


class Attempt(NamedTuple):
    """The probabilities of a station in a slot.

    Attributes:
        transmits: tau, the probability that it transmits.
        collides: p, the probability that its transmission collides.
    """

    transmits: float
    collides: float


def transmits(collides: float, backoff: Backoff) -> float:
    """Return tau at a probability of collisions (Bianchi's equation 7, without its 0/0 at 1/2)."""
    doublings = sum([(2.0 * collides) ** k for k in range(backoff.stages)])
    return 2.0 / (1.0 + backoff.window * (1.0 + collides * doublings))


@lru_cache(maxsize=4096)
def fixed_point(stations: float, backoff: Backoff) -> Attempt:
    """Return tau and p of stations that always have something to send.

    Args:
        stations: n, a real number of at least 1.
        backoff: their windows.
    """
    # tau falls as p rises, and p rises with tau. So there is one solution, which bisection finds.
    low, high = 0.0, 1.0
    # After 60 halvings, the interval is shorter than the precision of float64.
    for _ in range(60):
        middle = 0.5 * (low + high)
        if 1.0 - (1.0 - transmits(middle, backoff)) ** (stations - 1.0) > middle:
            low = middle
        else:
            high = middle
    return Attempt(transmits(low, backoff), low)


class Contender(NamedTuple):
    """Stations of one kind.

    Attributes:
        number: the number of stations; a mean, so any number above 0.
        collision: the time for which a collision blocks the channel if theirs is its longest
            transmission, s.
    """

    number: float
    collision: float


class BlockRequest(NamedTuple):
    """A short frame that a station sends after a collision, before it repeats the data.

    It requests the block acknowledgement that is missing, with a backoff of its own. When the
    request is answered, the window is the first one again.

    Attributes:
        success: the time of a request with its answer, s.
        collision: the time for which a collision blocks the channel if nothing longer collides, s.
    """

    success: float
    collision: float


class ContentionCost(NamedTuple):
    """The cost of contention.

    Attributes:
        seconds: the channel time per success, besides the success itself: empty slots, collisions
            and requests.
        attempts: the number of transmissions per success.
    """

    seconds: float
    attempts: float


def waiting(
    contenders: Sequence[Contender],
    slot: float,
    backoff: Backoff,
    request: BlockRequest | None = None,
) -> ContentionCost:
    """Return the cost of contention per success (Bianchi's equation 13).

    With equal stations and without requests, n stations whose successes take T_s have the
    throughput payload / (T_s + seconds). Requests do not change tau: they are attempts like others,
    and the backoff before the k-th attempt since a success is the same.

    Args:
        contenders: all stations, which always have something to send.
        slot: the length of a slot, s.
        backoff: the windows of the stations.
        request: the frame sent after a collision; None if the data are repeated at once.
    """
    number = max(sum([contender.number for contender in contenders]), 1.0)
    tau, collides = fixed_point(number, backoff)
    asked = collides if request else 0.0  # the share of attempts that are requests
    sent = tau * (1.0 - asked)
    alone = (1.0 - tau) ** (number - 1.0)
    successes = number * sent * alone
    lost = (1.0 - tau) ** number * slot
    # A collision lasts as long as its longest transmission. So stations are taken longest first:
    # those before, `longer` in number, have to be silent.
    longer = 0.0
    for contender in sorted(contenders, key=lambda kind: kind.collision, reverse=True):
        longest = (1.0 - sent) ** longer * (1.0 - (1.0 - sent) ** contender.number)
        lost += (longest - contender.number * sent * alone) * contender.collision
        longer += contender.number
    if request:
        none = (1.0 - tau) ** number
        only = number * tau * asked * alone
        lost += only * request.success
        lost += ((1.0 - sent) ** number - none - only) * request.collision
    return ContentionCost(lost / successes, 1.0 / alone)
