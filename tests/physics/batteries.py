"""Batteries that tests draw, and the lives they live through."""

import numpy as np
from hypothesis import strategies as st

from fedsim.physics.batteries import BatteryModel, Crossing
from fedsim.physics.signals import Constant, Signal, Steps
from fedsim.physics.stores import Store

DEPLETED, CHARGED, LOW, READY = Crossing
Told = list[tuple[float, Crossing]]
Draws = list[tuple[float, float]]


def lived(store: Store, draws: Draws, end: float) -> Told:
    """Let a battery live through draws (time, W), sorted by time; return its crossings."""
    told: Told = []
    for t, watts in [*draws, (end, 0.0)]:
        while (event := store.next_event()) <= t:
            crossing = store.settle(event)
            assert store.next_event() > event, "settled, but it would happen again"
            if crossing:
                told.append((event, crossing))
        store.draw(t, watts)
        assert 0 <= store.level <= store.model.capacity
    return told


@st.composite
def models(draw: st.DrawFn) -> BatteryModel:
    # Bounds coincide or are well apart: it takes no more than this to be told one by one.
    shares = st.integers(0, 100).map(lambda percent: percent / 100)
    cutoff = draw(shares.filter(lambda share: share <= 0.9))
    powers = draw(st.lists(st.sampled_from([0.0, 0.1, 1.0, 7.5, 30.0]), min_size=1, max_size=5))
    source: Signal = Constant(powers[0])
    if len(powers) > 1:
        times = np.cumsum([0.0, *draw(st.lists(st.floats(0.5, 60), min_size=5, max_size=5))])
        source = Steps(times[: len(powers)], powers, period=float(times[len(powers)]))
    return BatteryModel(
        capacity=draw(st.floats(50, 1e4)),
        initial=draw(shares),
        charge_efficiency=draw(st.floats(0.5, 1)),
        discharge_efficiency=draw(st.floats(0.5, 1)),
        leak=draw(st.sampled_from([0.0, 1e-3, 0.5])),
        cutoff=cutoff,
        threshold=draw(shares),
        restart=draw(shares.filter(lambda share: share > cutoff + 0.09)),
        source=source,
    )


GAPS = st.lists(
    st.tuples(st.floats(0, 30), st.sampled_from([0.0, 0.3, 2.0, 25.0])), min_size=1, max_size=30
)


def timed(gaps: list[tuple[float, float]]) -> Draws:
    times = np.cumsum([gap for gap, _ in gaps])
    return [(float(t), watts) for t, (_, watts) in zip(times, gaps, strict=True)]
