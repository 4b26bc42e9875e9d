"""Verdicts and fronts of tables with ties, gaps and runs that never ended, computed again."""

from collections.abc import Iterable
from itertools import permutations
from math import exp, inf, isnan, log, nan

import numpy as np
import pandas as pd
import pytest

from fedsim.addons.robustness.design import Design
from fedsim.addons.robustness.verdicts import CostTable, by_weight, deciding, fronts, verdicts
from fedsim.core.ports import Array
from fedsim.results.analysis.compare.pairwise import Pairwise
from fedsim.results.analysis.compare.verdict import judge
from tests.addons.robustness.test_verdicts import constants
from tests.tiers import every

NAMES = ["d", "b", "a", "c"]
WORLDS = 40
DRAWN = slice(5, WORLDS)


def random_table(seed: int) -> CostTable:
    """Return costs of few values, hence ties, with gaps and runs that never reached the target."""
    rng = np.random.default_rng(seed)
    shape = len(NAMES), 2, WORLDS
    gaps = rng.random(shape) < 0.1
    gaps[:, :, 7] = True  # a world of which nothing is known
    costs = {cost: rng.choice([1.0, 2.0, 4.0], shape) for cost in ("t", "joules")}
    for values in costs.values():
        values[gaps] = nan
        values[0, 0] = inf
        values[1, 1] = nan
    return CostTable(NAMES, [1, 2], costs, rng.choice([1.0, 2.0, 4.0], shape[:2]))


def mean(values: Iterable[float]) -> float:
    """Return the geometric mean of values above 0; NaN where one is, or there is none."""
    logs = [log(value) for value in values]
    return round(exp(sum(logs) / len(logs)), 9) if logs else nan


def there(values: Array) -> list[int]:
    """Return which runs reached the target in some world; shape (S, W)."""
    return [seed for seed, run in enumerate(values) if np.isfinite(run).any()]


@every("seed", range(4))
def test_fronts_are_those_of_every_pair_compared_by_itself(seed: int) -> None:
    table = random_table(seed)
    optimal = dict.fromkeys(NAMES, 0)
    cheapest = {cost: dict.fromkeys(NAMES, 0) for cost in table.costs}
    known = 0
    for world in range(WORLDS)[DRAWN]:
        points = dict[str, list[float]]()
        for number, name in enumerate(NAMES):
            own = [values[number] for values in table.costs.values()]
            costs = [mean(run[seed, world] for seed in there(run[:, DRAWN])) for run in own]
            if not any(map(isnan, costs)):
                points[name] = [mean(table.bits[number]), *costs]
        known += bool(points)
        for name, point in points.items():
            optimal[name] += not any(
                other != point and all(x <= y for x, y in zip(other, point, strict=True))
                for other in points.values()
            )
            for place, wins in enumerate(cheapest.values(), 1):
                wins[name] += point[place] == min(each[place] for each in points.values())
    assert 0 < known < WORLDS - 5
    found = fronts(table, DRAWN).set_index("variant")
    for name in NAMES:
        assert found.loc[name, "optimal"] == pytest.approx(optimal[name] / known)
        for cost, wins in cheapest.items():
            assert found.loc[name, cost] == pytest.approx(wins[name] / known)


@every("seed", range(4))
def test_every_verdict_is_that_of_its_pair_alone(seed: int) -> None:
    table = random_table(seed)
    table.costs["t"][2, 0, 9] = nan  # of the other seed this world is known
    written = 2
    found = verdicts(table, DRAWN, written)
    ordered = [pair for pair in permutations(NAMES, 2) for _ in table.costs]
    assert list(zip(found["variant"], found["against"], strict=True)) == ordered
    assert list(found["cost"]) == ["t", "joules"] * len(NAMES) * (len(NAMES) - 1)
    for row in found.to_dict("records"):
        values = table.costs[str(row["cost"])]
        pair = NAMES.index(str(row["variant"])), NAMES.index(str(row["against"]))
        with np.errstate(invalid="ignore"):
            logs = np.log(values[pair[0]]) - np.log(values[pair[1]])
        logs = logs[:, DRAWN]
        assert row["seeds"] == sum(not np.isnan(run).all() for run in logs)
        middles = [_middle(world) for world in logs.T]
        ratios = [exp(each) for each in middles if not isnan(each)]
        assert row["worlds"] == len(ratios)
        if ratios:
            ends = [row["ratio_low"], row["ratio_mid"], row["ratio_high"]]
            assert ends == pytest.approx([quantile(ratios, share) for share in (0.05, 0.5, 0.95)])
        assert row["by_seed"] == judge(Pairwise.of(values[:, :, written]).pair(*pair)).words


def quantile(values: Iterable[float], share: float) -> float:
    """Return a quantile between order statistics, straight between two that are finite."""
    ordered = sorted(values)
    place = share * (len(ordered) - 1)
    low, high = ordered[int(place)], ordered[min(int(place) + 1, len(ordered) - 1)]
    apart = place - int(place)
    return low if low == high or apart < 1e-12 else low + apart * (high - low)


def test_quantiles_of_a_variant_that_never_gets_there_are_infinite() -> None:
    """In every world, or from one of its shares on; the other way round they are 0."""
    costs = np.ones((2, 1, 21))
    costs[0, 0, 11:] = inf  # the median is the last that is finite
    table = CostTable(["a", "b"], [1], {"t": costs}, np.ones((2, 1)))
    ends = ["ratio_low", "ratio_mid", "ratio_high"]
    found = verdicts(table, slice(0, 21), 0)[ends].to_numpy().tolist()
    assert found == [[1.0, 1.0, inf], [0.0, 1.0, 1.0]]
    costs[0] = inf
    found = verdicts(table, slice(0, 21), 0)[ends].to_numpy().tolist()
    assert found == [[inf] * 3, [0.0] * 3]


def _middle(logs: Array) -> float:
    """Return the mean of what is known, or the median where some of that is infinite."""
    known = [float(each) for each in logs if not isnan(each)]
    if not known:
        return nan
    if not np.isinf(known).any():
        return sum(known) / len(known)
    first, last = sorted(known)[(len(known) - 1) // 2], sorted(known)[len(known) // 2]
    return (first + last) / 2  # NaN between the two infinities


def test_what_seeds_decide_is_decided_in_the_world_as_written() -> None:
    """A is cheaper in the world as written, and dearer in all others."""
    costs = np.ones((2, 6, 3))
    costs[0] = [2.0, 0.5, 2.0]
    table = CostTable(["a", "b"], range(6), {"t": costs}, np.ones((2, 6)))
    found = verdicts(table, slice(0, 1), 1)
    assert list(found["ratio"]) == pytest.approx([0.5, 2.0])
    assert list(found["ratio_mid"]) == pytest.approx([2.0, 0.5])
    words = [judge(Pairwise.of(costs[:, :, 1]).pair(*pair)).words for pair in ((0, 1), (1, 0))]
    assert list(found["by_seed"]) == words
    assert words[0] != judge(Pairwise.of(costs[:, :, 0]).pair(0, 1)).words


def test_the_ends_of_a_line_are_at_the_ends_of_the_interval_for_every_pair() -> None:
    """Each variant's log ratio to the third is its own slope times the share of the constant."""
    design = Design.of(constants(2), 30, seed=1)
    shares = np.log(design.values)
    slopes = np.array([[1.0, -2.0], [0.5, 3.0], [0.0, 0.0]])
    costs = np.exp(slopes @ shares)[:, None]
    found = deciding(CostTable(["x", "y", "z"], [1], {"t": costs}, np.ones((3, 1))), design, 2)
    assert list(found["variant"]) == ["x", "x", "y", "y"]
    assert list(found["constant"]) == ["toy.c0", "toy.c1"] * 2
    for number, row in enumerate(found.to_dict("records")):
        own, other = slopes[number // 2, number % 2], slopes[number // 2, 1 - number % 2]
        assert row["at_low"] == pytest.approx(exp(other / 2))
        assert row["at_high"] == pytest.approx(exp(other / 2 + own))


def test_constants_are_ordered_by_their_index_and_where_there_is_none_by_their_reach() -> None:
    """A ratio that falls along the interval goes as far as one that rises."""
    rows = pd.DataFrame(
        {
            "constant": ["a", "b", "c", "d", "e"],
            "total": [0.1, 0.5, nan, nan, nan],
            "at_low": [1.0, 1.0, 1.0, 8.0, 1.0],
            "at_high": [9.0, 1.1, 2.0, 1.0, 4.0],
        }
    )
    ordered = by_weight(rows)
    assert list(ordered["constant"]) == ["b", "a", "d", "e", "c"]
    assert list(ordered.columns) == list(rows.columns)
