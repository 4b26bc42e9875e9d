"""Which constants a study stands on, and what its runs take, by the functions themselves."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fedsim
from fedsim.addons.repricing.history import Original
from fedsim.addons.robustness import draw_worlds, pricing
from fedsim.addons.robustness.constants import ConstantKey, UncertainConstant
from fedsim.addons.robustness.pricing import FinishedRun, hindrance, price, priced_at
from fedsim.addons.robustness.uncertain_inputs import constants_of
from fedsim.core.errors import DataError
from fedsim.results.analysis.compare.cost_tables import Target
from tests.addons.repricing.prices import small

PHONE = {"count": 3, "device": "phone-mid", "radio": "lte"}
LTE = ConstantKey(("radio", "lte", "tail_time"))
UP = ConstantKey(("radio", "lte", "up"))
DOUBT = "1 s..20 s"


def found(
    *fleets: list[dict[str, Any]], intervals: dict[str, str] | None = None
) -> dict[str, UncertainConstant]:
    """Return the constants of a study of a fleet and of variants with others."""
    variants = {f"v{number}": {"fleet": fleet} for number, fleet in enumerate(fleets[1:])}
    plan = fedsim.load(small("gd", fleet=fleets[0], variants=variants))
    scenarios = [each.scenario for each in plan.variants]
    known = constants_of(scenarios, intervals or {}, priced=False)
    assert all(each.low < each.high for each in known)
    return {str(each.key): each for each in known}


def test_constants_are_those_of_the_fleets_of_all_variants() -> None:
    both = found([PHONE], [{"count": 3, "device": "pi-4", "radio": "wifi"}])
    one, other = found([PHONE]), found([{"count": 3, "device": "pi-4", "radio": "wifi"}])
    assert both.keys() == one.keys() | other.keys()
    assert not one.keys() & other.keys()


@pytest.mark.parametrize(
    ("battery", "stands"), [(None, False), ({}, True), ({"capacity": "10 Wh"}, False)]
)
def test_the_capacity_of_a_preset_matters_where_a_battery_takes_it(
    battery: dict[str, str] | None, stands: bool
) -> None:
    group = PHONE if battery is None else {**PHONE, "battery": battery}
    intervals = {"phone-mid.battery": "5 Wh..20 Wh"}
    if stands:
        assert found([group], intervals=intervals)["phone-mid.battery"].low == 5 * 3600.0
    else:
        with pytest.raises(DataError, match=r"got the constant 'phone-mid\.battery'"):
            found([group], intervals=intervals)


def test_a_group_with_a_value_of_its_own_keeps_it_where_another_has_the_preset(
    tmp_path: Path,
) -> None:
    slow = {**PHONE, "device": {"kind": "phone-mid", "speed": "2 kflop/s"}}
    study = small("gd", fleet=[PHONE, slow])
    for world in draw_worlds(study, 5):
        drawn = {text.partition("=")[0] for text in world}
        assert "fleet.0.device.speed" in drawn
        assert "fleet.1.device.speed" not in drawn
        assert {"fleet.0.radio.tail_time", "fleet.1.radio.tail_time"} <= drawn
    finished = Original.of(fedsim.run(study, out=tmp_path / "run").runs[0], ())
    speed = ConstantKey(("device", "phone-mid", "speed"))
    known = priced_at([5], finished, {speed: np.array([1e9, 2e9])}, 2)
    # The slow group decides when a round ends, and only the other one's energy changes.
    assert known.t[0, 0] == known.t[0, 1] > 1.0
    assert known.joules[0, 0] != known.joules[0, 1]


def test_an_interval_is_of_a_constant_of_one_value() -> None:
    fleet = [PHONE, {**PHONE, "radio": {"kind": "lte", "tail_time": "2 s"}}]
    first = found([PHONE])["lte.tail_time"].value
    with pytest.raises(DataError, match=rf"lte\.tail_time is {first:g} and 2 in this study"):
        found(fleet, intervals={"lte.tail_time": DOUBT})
    assert found([fleet[1]], intervals={"lte.tail_time": DOUBT})["lte.tail_time"].value == 2.0


def test_what_is_no_interval_is_refused_with_an_example_that_is_one() -> None:
    with pytest.raises(DataError, match="expected the lower value first"):
        found([PHONE], intervals={"lte.tail_time": "2 s..2 s"})
    with pytest.raises(DataError) as caught:
        found([PHONE], intervals={"lte.tail_time": "2 s"})
    example = str(caught.value).partition("lte.tail_time=2 s")[2].partition("lte.tail_time=")[2]
    value = found([PHONE])["lte.tail_time"].value
    own = found([PHONE], intervals={"lte.tail_time": example.strip()})["lte.tail_time"]
    assert (own.low, own.high) == pytest.approx((value / 2, value * 2))


@pytest.mark.parametrize(("active", "idle"), [("3 W..9 W", "1 W..4 W"), ("5 W..9 W", "1 W..4 W")])
def test_two_intervals_go_together_where_all_their_ends_do(active: str, idle: str) -> None:
    intervals = {"pi-4.active": active, "pi-4.idle": idle}
    fleet = [{"count": 3, "device": "pi-4", "radio": "wifi"}]
    if active.startswith("3"):
        with pytest.raises(DataError, match=r"3 W and pi-4\.idle 4 W exclude each other"):
            found(fleet, intervals=intervals)
    else:
        assert found(fleet, intervals=intervals)["pi-4.active"].high == 9.0


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Original:
    """A finished run of clients with batteries."""
    fleet = [{**PHONE, "battery": {"capacity": "1 Wh"}}, {"count": 2, "device": "pi-4"}]
    source = small("gd", fleet=fleet)
    run = fedsim.run(source, out=tmp_path_factory.mktemp("finding") / "run")
    return Original.of(run.runs[0], ())


def test_worlds_are_priced_alike_together_and_one_by_one(
    original: Original, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = {LTE: np.array([0.01, 0.05, 1.0, 3.0]), UP: np.array([1e6, 1e5, 2e7, 1e3])}
    whole = priced_at([2, 5], original, world, 4)
    for most, threads in ((1, 1), (1, 3), (10, 2), (15, 4)):
        monkeypatch.setattr(pricing, "_AT_ONCE", most)
        monkeypatch.setenv("FEDSIM_THREADS", str(threads))
        parts = priced_at([2, 5], original, world, 4)
        np.testing.assert_array_equal(parts.t, whole.t)
        np.testing.assert_array_equal(parts.joules, whole.joules)
    assert len(set(whole.t[1])) == 4


def test_a_world_in_which_a_battery_runs_low_has_no_price(original: Original) -> None:
    draw = ConstantKey(("radio", "lte", "promotion_power"))
    known = priced_at([5], original, {draw: np.array([1.0, 1e9])}, 2)
    assert np.isfinite(known.t[0, 0])
    assert np.isfinite(known.joules[0, 0])
    assert np.isnan(known.t[0, 1])
    assert np.isnan(known.joules[0, 1])


def test_a_run_that_never_reached_its_target_costs_more_than_all_in_every_world(
    tmp_path: Path,
) -> None:
    """In grams, too, where its clients have a carbon intensity; else these are not known."""
    for carbon in ("BR", None):
        fleet = [{"count": 2, "device": "pi-4", "radio": "wifi", "carbon": carbon}]
        made = fedsim.run(small("gd", fleet=fleet), out=tmp_path / str(carbon))
        run = FinishedRun(made.runs[0], "a", 1, None, 0.0, Target("objective", 0.0))
        costs = price(run, {}, 3)
        for values in (costs.t, costs.joules, *([costs.grams] if carbon else [])):
            assert values.tolist() == [np.inf] * 3
        assert np.isnan(costs.grams).all() == (carbon is None)


@pytest.mark.parametrize("limit", [{"time": "1 h"}, {"energy": "1 GJ"}])
def test_a_run_that_may_end_by_its_clock_or_its_energy_is_hindered(
    limit: dict[str, str], tmp_path: Path
) -> None:
    run = fedsim.run(small("gd", stop={"rounds": 1, **limit}), out=tmp_path / "run")
    told = hindrance(Original.of(run.runs[0], ()))
    assert told.startswith(f"stop.{next(iter(limit))}: it ends by time or energy")


def test_a_run_of_rounds_alone_is_not(original: Original) -> None:
    assert not hindrance(original)
