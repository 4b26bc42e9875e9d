"""Signals that tests draw: traces of all kinds, and what an independent sum makes of them."""

from math import inf

import numpy as np
from hypothesis import strategies as st

from fedsim.physics.signals import Constant, Signal, Steps

VALUES = st.one_of(st.just(0.0), st.floats(1e-3, 1e9))


@st.composite
def steps(draw: st.DrawFn, *, repeating: bool | None = None) -> Steps:
    gaps = draw(st.lists(st.floats(1e-3, 1e3), min_size=1, max_size=8))
    values = draw(st.lists(VALUES, min_size=len(gaps), max_size=len(gaps)))
    edges = np.cumsum([0.0, *gaps])
    if repeating is None:
        repeating = draw(st.booleans())
    if not repeating:
        return Steps(edges[:-1], values)
    offset = draw(st.floats(0, 2 * float(edges[-1])))
    return Steps(edges[:-1], values, period=float(edges[-1])).shift(offset)


SIGNALS = st.one_of(st.builds(Constant, VALUES), steps())
TIMES = st.floats(0, 1e6)


def added_up(signal: Signal, begin: float, end: float) -> float:
    """Return the integral, piece by piece, by nothing but `at` and `next_change`."""
    total, t = 0.0, begin
    while t < end:
        after = min(signal.next_change(t), end)
        total += signal.at(t) * (after - t)
        t = after
    return total


def slack(signal: Signal, *times: float) -> float:
    """Return what rounding of `times` and of sums over a period is worth, in integral's unit."""
    period = getattr(signal, "period", inf)
    longest = max(times) + (period if period < inf else 0.0)
    offset = getattr(signal, "offset", 0.0)
    spread = getattr(signal, "times", np.zeros(1))[-1]
    return 64 * np.finfo(float).eps * signal.peak * (longest + offset + float(spread) + 1)
