"""Batteries that tests draw, and the lives they live through."""

from pathlib import Path
from typing import Any, Literal, Self

import numpy as np
from hypothesis import strategies as st
from pydantic import model_validator

from fedsim.physics.batteries import NO_POWER, Battery, Charging, Crossing, PowerReader
from fedsim.physics.signals import Constant, Signal, Steps
from fedsim.physics.state_of_charge import BatteryStore

DEPLETED, CHARGED, LOW, READY = Crossing
Told = list[tuple[float, Crossing]]
Draws = list[tuple[float, float]]


class Offered(Charging):
    """A charger of any power."""

    kind: Literal["test"] = "test"
    power: Any = NO_POWER

    def source(self, read: PowerReader) -> Signal:
        power: Signal = self.power
        return power


class AnyBattery(Battery):
    """A battery of any capacity whose marks stand in any order: a policy may ask for more charge
    than it restarts at."""

    capacity: float

    @model_validator(mode="after")
    def _marks_in_order(self) -> Self:
        return self

    @property
    def source(self) -> Signal:
        return source_of(self)

    @property
    def leaks(self) -> float:
        """By itself, W."""
        return self.leak(self.capacity)


def battery_of(
    capacity: float, leak: float = 0.0, source: Signal = NO_POWER, **shares: float
) -> AnyBattery:
    """Return a battery that holds so much, J, leaks and is charged so fast, W."""
    month = 30 * 24 * 3600.0
    rest = {"restart": 0.2, "self_discharge": leak * month / capacity} | shares
    return AnyBattery.in_si(capacity=capacity, charging=Offered(power=source), **rest)


def _unread(path: Path, read: object = None, **options: object) -> Steps:
    raise AssertionError(f"{path} is read")


def source_of(battery: Battery) -> Signal:
    """Return what a battery that follows no file is charged with."""
    return battery.charging.source(_unread)


def store_of(battery: AnyBattery) -> BatteryStore:
    return BatteryStore(battery, battery.capacity, battery.source)


def lived(store: BatteryStore, draws: Draws, end: float) -> Told:
    """Let a battery live through draws (time, W), sorted by time; return its crossings."""
    told: Told = []
    for t, watts in [*draws, (end, 0.0)]:
        while (event := store.next_event()) <= t:
            crossing = store.settle(event)
            assert store.next_event() > event, "settled, but it would happen again"
            if crossing:
                told.append((event, crossing))
        store.draw(t, watts)
        assert 0 <= store.level <= store.capacity
    return told


@st.composite
def models(draw: st.DrawFn) -> AnyBattery:
    # Bounds coincide or are well apart: it takes no more than this to be told one by one.
    shares = st.integers(0, 100).map(lambda percent: percent / 100)
    cutoff = draw(shares.filter(lambda share: share <= 0.9))
    powers = draw(st.lists(st.sampled_from([0.0, 0.1, 1.0, 7.5, 30.0]), min_size=1, max_size=5))
    source: Signal = Constant(powers[0])
    if len(powers) > 1:
        times = np.cumsum([0.0, *draw(st.lists(st.floats(0.5, 60), min_size=5, max_size=5))])
        source = Steps(times[: len(powers)], powers, period=float(times[len(powers)]))
    return battery_of(
        capacity=draw(st.floats(50, 1e4)),
        charge=draw(shares),
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
