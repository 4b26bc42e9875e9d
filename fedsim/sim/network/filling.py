"""Weighted max-min fair rates of flows over any set of links, by progressive filling."""

import numpy as np
from numpy.typing import NDArray

from fedsim.ports import Array

Indices = NDArray[np.intp]


def fill(paths: Indices, usage: Array, weights: Array, bounds: Array, capacities: Array) -> Array:
    """Return the weighted max-min fair rates of n flows over L links, bit/s, shape (n,).

    The rates are min(bound, weight * level), each flow's level as high as the links on its
    way allow: none could rise but at the cost of one whose level is lower or equal. With
    equal weights this is max-min fairness; with the weight 1/penalty it is what SimGrid's
    solver computes (Casanova et al., "Versatile, scalable, and accurate simulation of
    distributed applications and platforms", JPDC 2014).

    All levels rise together (Bertsekas and Gallager, "Data Networks", 6.5.2), but the
    network need not be filled in that order: the level that a link could give each of its
    flows only ever grows as others reach their bounds or their bottlenecks. So a flow whose
    bound is below what all of its links could give runs at its bound, and a link that is the
    tightest one for all of its flows is saturated, whatever goes on elsewhere. One sweep
    settles all of those, and there are as many sweeps as bottlenecks depend on one another.

    Args:
        paths: the link of each hop of each flow, shape (K, n); a path that is shorter than
            the longest is filled up with an infinite link, of usage 0.
        usage: how much of a flow's rate each hop takes of the link, shape (K, n).
        weights: above 0, shape (n,).
        bounds: the flows' own limits, bit/s; may be infinite where a link is finite.
        capacities: bit/s, shape (L,).
    """
    rates, spare, links = np.empty(len(bounds)), capacities, len(capacities)
    rest = np.arange(len(bounds))
    while len(rest):
        levels = _levels(paths, usage * weights, spare)
        offered = levels[paths]
        tightest = offered.min(axis=0)
        fair = weights * tightest
        at_bound = bounds <= fair
        # A link waits for every flow that has a tighter one, or is at its bound only now.
        waits = (offered > tightest) | at_bound
        waiting = np.bincount(paths.ravel(), waits.ravel(), links) > 0
        settled = at_bound | ~waiting[paths].all(axis=0)
        rates[rest[settled]] = np.where(at_bound, bounds, fair)[settled]
        if settled.all():
            break
        taken = usage[:, settled] * rates[rest[settled]]
        spare = np.maximum(spare - _sums(paths[:, settled], taken, links), 0.0)
        on = ~settled
        rest, weights, bounds = rest[on], weights[on], bounds[on]
        paths, usage = paths[:, on], usage[:, on]
    return rates


def _sums(paths: Indices, amounts: Array, links: int) -> Array:
    """Add up, by link, amounts of shape (K, n)."""
    sums = np.bincount(paths.ravel(), weights=amounts.ravel(), minlength=links)
    return sums.astype(np.float64, copy=False)


def _levels(paths: Indices, usage: Array, spare: Array) -> Array:
    """Return the level at which each link would be full, shape (L,); inf where it is unused."""
    demand = _sums(paths, usage, len(spare))
    levels = np.full(len(spare), np.inf)
    np.divide(spare, demand, out=levels, where=demand > 0.0)
    return levels
