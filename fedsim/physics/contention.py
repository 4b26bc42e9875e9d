"""Contention for a channel: how long stations that send at random wait for a turn.

Bianchi, "Performance analysis of the IEEE 802.11 distributed coordination function", IEEE JSAC
18(3), 2000. Each of n stations that always have something to send transmits in a slot with a
probability tau, and collides with a probability p, which depend on each other: tau follows from p
by the backoff, whose window doubles at each collision up to a largest one (equation 7), and p from
tau, since a transmission collides unless no other station transmits (equation 9).

Here n may be any real number of at least 1, the mean of a number that varies. Stations may differ
in how long they transmit, as those of different rates do: all have the same chance of a turn,
whatever it takes, so one slow station slows all (Heusse et al., "Performance anomaly of 802.11b",
INFOCOM 2003). That is not put in; it is what equal chances do.
"""

from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple


class Backoff(NamedTuple):
    """The windows of backoffs.

    Attributes:
        window: W, the number of values that a first backoff can have: from 0 to W - 1 slots.
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
    # tau falls as p rises, and p rises with tau: they meet once, and bisection finds where.
    low, high = 0.0, 1.0
    for _ in range(60):
        middle = 0.5 * (low + high)
        if 1.0 - (1.0 - transmits(middle, backoff)) ** (stations - 1.0) > middle:
            low = middle
        else:
            high = middle
    return Attempt(transmits(low, backoff), low)


class Contender(NamedTuple):
    """Stations that are alike.

    Attributes:
        number: how many; a mean, and any number above 0.
        collision: how long the channel is lost where what they send is the longest of those, s.
    """

    number: float
    collision: float


class BlockRequest(NamedTuple):
    """A short frame that a station sends after a collision, before what collided.

    A block acknowledgement that has not come is asked for, with backoffs of its own; the window is
    the first one again when the request is answered.

    Attributes:
        success: how long it takes with its answer, s.
        collision: how long the channel is lost where nothing longer collides, s.
    """

    success: float
    collision: float


class ContentionCost(NamedTuple):
    """The cost of contention.

    Attributes:
        seconds: the time of the channel for each success, beside the success itself: empty slots,
            collisions and requests.
        attempts: the number of transmissions for each success.
    """

    seconds: float
    attempts: float


def waiting(
    contenders: Sequence[Contender],
    slot: float,
    backoff: Backoff,
    request: BlockRequest | None = None,
) -> ContentionCost:
    """Return what contention costs the channel for each success (Bianchi's equation 13).

    With equal stations and without requests, n stations whose successes take T_s have the
    throughput payload / (T_s + seconds). tau is the same with requests: they are attempts
    like others, and the backoff before the k-th attempt since a success is as long.

    Args:
        contenders: all that always have something to send.
        slot: s.
        backoff: their windows.
        request: sent after a collision; None where what collided is sent again at once.
    """
    number = max(sum([contender.number for contender in contenders]), 1.0)
    tau, collides = fixed_point(number, backoff)
    asked = collides if request else 0.0  # the share of attempts that are requests
    sent = tau * (1.0 - asked)
    alone = (1.0 - tau) ** (number - 1.0)
    successes = number * sent * alone
    lost = (1.0 - tau) ** number * slot
    # The longest of all that collides counts: the others' may be anything that is not longer.
    longer = 0.0
    for each in sorted(contenders, key=lambda each: each.collision, reverse=True):
        longest = (1.0 - sent) ** longer * (1.0 - (1.0 - sent) ** each.number)
        lost += (longest - each.number * sent * alone) * each.collision
        longer += each.number
    if request:
        none = (1.0 - tau) ** number
        only = number * tau * asked * alone
        lost += only * request.success
        lost += ((1.0 - sent) ** number - none - only) * request.collision
    return ContentionCost(lost / successes, 1.0 / alone)
