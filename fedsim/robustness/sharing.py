"""Sharing: when transfers over one link end, in many worlds at once.

One link of a capacity is shared max-min fairly by transfers that each have a cap of their own: the
law of `fedsim.sim.network.fair`, for a column of numbers a world in place of one number.
"""

import numpy as np
from numpy.typing import NDArray

from fedsim.ports import Array

Order = NDArray[np.intp]


def by_cap(caps: Array) -> Order:
    """Return the transfers of each world in the order of their caps, shape (n, W)."""
    return np.argsort(caps, axis=0, kind="stable")


def ends(begins: Array, bits: Array, caps: Array, order: Order, capacity: float | Array) -> Array:
    """Return when each transfer ends, s, shape (n, W).

    All worlds go on from one change to their next one in step: a transfer begins, or one ends. Of
    n transfers there are 2n changes at most.

    Args:
        begins: when the bits begin to flow, s, shape (n, W).
        bits: of each transfer, shape (n, 1) or (n, W).
        caps: what each reaches alone, bit/s, shape (n, W).
        order: as `by_cap` gives it.
        capacity: of the link, bit/s, shape (W,) or one number.
    """
    now = begins.min(axis=0)
    left = np.broadcast_to(np.asarray(bits, np.float64), begins.shape).copy()
    over = np.full(begins.shape, np.nan)
    going = np.ones(begins.shape, dtype=bool)  # not over: it flows, or it has not begun
    while going.any():
        flows = going & (begins <= now)
        rates = fair_rates(flows, caps, order, capacity)
        lasts = np.divide(left, rates, out=np.full_like(left, np.inf), where=flows)
        lasts[flows & (left <= 0.0)] = 0.0
        coming = np.where(going & ~flows, begins - now, np.inf)
        step = np.minimum(lasts.min(axis=0), coming.min(axis=0))
        done = flows & (lasts <= step)
        idle = ~np.isfinite(step)  # nothing goes on in these worlds
        step[idle] = 0.0
        comes = coming <= step
        now = now + step
        now = np.where(comes.any(axis=0), np.where(comes, begins, -np.inf).max(axis=0), now)
        left = np.where(flows, np.maximum(left - np.where(flows, rates, 0.0) * step, 0.0), left)
        over = np.where(done, now, over)
        going &= ~done
    return over


def fair_rates(
    flows: NDArray[np.bool_], caps: Array, order: Order, capacity: float | Array
) -> Array:
    """Return the max-min fair rates, min(cap, share), bit/s, shape (n, W); 0 of what flows not.

    Taken in the order of their caps, the transfers from the first one on whose cap is above what
    is left for each of the rest all run at that share.
    """
    rates = np.where(flows, caps, 0.0)
    tight = rates.sum(axis=0) > capacity
    if tight.any():  # elsewhere each runs at its cap
        bound = np.broadcast_to(np.asarray(capacity, np.float64), tight.shape)[tight]
        rates[:, tight] = _shared(flows[:, tight], caps[:, tight], order[:, tight], bound)
    return rates


def _shared(flows: NDArray[np.bool_], caps: Array, order: Order, capacity: Array) -> Array:
    """Return the rates in worlds whose link holds some transfers back."""
    own = np.take_along_axis(np.where(flows, caps, 0.0), order, axis=0)
    on = np.take_along_axis(flows, order, axis=0)
    rest = on.sum(axis=0) - np.cumsum(on, axis=0) + on  # how many from each one on
    before = np.zeros_like(own)
    np.cumsum(own[:-1], axis=0, out=before[1:])
    share = np.divide(capacity - before, rest, out=np.full_like(own, np.inf), where=on)
    held = on & (own > share)
    first = np.where(held, share, np.inf).max(axis=0, where=held, initial=-np.inf)
    # The shares fall from the first that is held back on, so that one's is the largest.
    level = np.where(held.any(axis=0), first, np.inf)
    return np.where(flows, np.minimum(caps, level), 0.0)
