"""Intervals of positive figures stay positive, and what seeds do not tell apart is a tie."""

from io import StringIO

import numpy as np
import pandas as pd
import pytest
from rich.console import Console

from fedsim.analysis.comparing.pairs import COMPARED, paired, summarised, with_bits
from fedsim.analysis.comparing.standings import standings, tied_with
from fedsim.analysis.comparing.tables import summary_table
from fedsim.analysis.comparing.trade_offs import cost_bars, pareto_scatter

COSTS = ("bits", "t", "joules")


def costs(**figures: np.ndarray) -> pd.DataFrame:
    """Return a table of costs: of each variant the same figures for every cost."""
    own = [name for name in COMPARED if name != "bits"]
    return pd.concat(
        [
            pd.DataFrame({"variant": name, "seed": range(len(values)), "reached": True})
            .assign(**dict.fromkeys(own, values))
            .astype({"seed": int})
            for name, values in figures.items()
        ],
        ignore_index=True,
    )


def test_intervals_of_wide_costs_stay_above_zero_around_their_mean() -> None:
    values = np.array([1.0, 2.0, 3.0, 70.0])
    row = summarised(costs(a=values)).iloc[0]
    assert 0 < row["t_low"] < values.mean() < row["t_high"]
    assert row["t_low"] * row["t_high"] == pytest.approx(values.mean() ** 2)  # even, as logarithms


def test_two_or_three_runs_are_told_by_the_least_and_the_largest() -> None:
    for values in (np.array([4.0, 1.0]), np.array([5.0, 1.0, 2.0])):
        row = summarised(costs(a=values)).iloc[0]
        assert (row["t_low"], row["t_high"]) == (values.min(), values.max())


@pytest.mark.parametrize("runs", [2, 3, 4, 7])
def test_equal_figures_are_their_mean_and_their_interval_and_can_be_drawn(runs: int) -> None:
    values = np.full(runs, 0.1)  # three of them have a mean of 0.10000000000000002
    table = summarised(costs(a=values, b=values + 1 / 3))
    for cost in COSTS:
        assert (table[f"{cost}_low"] == table[cost]).all()
        assert (table[f"{cost}_high"] == table[cost]).all()
    labels = {"a": "a", "b": "b"}
    assert cost_bars(table, labels).axes
    assert pareto_scatter(table, labels).axes
    drawn = Console(width=100, record=True, file=StringIO())
    drawn.print(summary_table(table.assign(pareto=False, tie=False), labels, ""))
    assert "\N{PLUS-MINUS SIGN}0%" in drawn.export_text()


def test_intervals_hold_the_mean_as_often_as_they_say() -> None:
    rng, sigma, held = np.random.default_rng(1), 0.3, 0
    for _ in range(400):
        row = summarised(costs(a=np.exp(sigma * rng.standard_normal(8)))).iloc[0]
        held += row["t_low"] < np.exp(sigma**2 / 2) < row["t_high"]
    assert 0.91 < held / 400 < 0.985


def test_who_differs_by_chance_ties_and_who_is_sure_is_first() -> None:
    rng = np.random.default_rng(3)
    base = 10 + rng.random(6)
    chance = base + rng.permutation([-0.2, 0.21, -0.22, 0.2, 0.3, -0.25])
    table = with_bits(costs(a=base, b=chance, c=base + 5))
    held = standings(table, COSTS, 0.95)
    assert held["pareto"].to_dict() == {"a": False, "b": False, "c": False}
    assert held["tie"].to_dict() == {"a": True, "b": True, "c": False}
    assert tied_with(table, "a", "t", 0.95) == ["b"]
    sure = standings(with_bits(costs(a=base, c=base + 5)), COSTS, 0.95)
    assert sure["pareto"].to_dict() == {"a": True, "c": False}
    assert not sure["tie"].any()


@pytest.mark.parametrize("seeds", [2, 3, 5])
def test_nobody_is_first_whose_paired_difference_includes_zero(seeds: int) -> None:
    rng = np.random.default_rng(seeds)
    for _ in range(20):
        figures = {
            name: 1 + rng.random(seeds) + shift
            for name, shift in zip("abc", (0, 0.3, 1), strict=True)
        }
        table = costs(**figures)
        held = standings(with_bits(table), ["t"], 0.95)
        for name in held.index[held["pareto"]]:
            pairs = paired(table, name)
            assert (pairs.loc[pairs["cost"] == "t", "low"] > 0).all()
        assert held["pareto"].any() or held["tie"].sum() > 1


def test_a_single_seed_tells_what_it_tells_and_twins_share_their_place() -> None:
    one = np.array([2.0])
    held = standings(with_bits(costs(a=one, b=one, c=one + 1)), COSTS, 0.95)
    assert held["pareto"].to_dict() == {"a": True, "b": True, "c": False}
