"""Cost to target, on a table small enough to add up by hand."""

from io import StringIO

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from matplotlib.ticker import EngFormatter
from rich.console import Console

from fedsim.core.table_columns import COSTS, HIGHER_IS_BETTER, SHOWN, TITLES, UNITS
from fedsim.problems import MEASURES
from fedsim.results.analysis import (
    convergence,
    cost_table,
    cost_to_target,
    cumulative,
    final_cost,
    mean_cost,
    quantity,
)
from fedsim.results.analysis.costs import Direction
from tests.results.analysis.marks import cut_marks
from tests.tiers import every


def rounds() -> pd.DataFrame:
    """Return two variants under two seeds; `slow` never gets there under seed 2."""
    gaps = {
        ("fast", 1): [1.0, 0.1, 0.001],
        ("fast", 2): [1.0, 0.001, 0.0001],
        ("slow", 1): [1.0, 0.5, 0.009],
        ("slow", 2): [1.0, 0.5, 0.25],
    }
    rows = [
        {
            "variant": variant, "seed": seed, "round": number, "t": 2.0 * number, "gap": gap,
            "objective": gap + 5.0, "transmissions": 3, "beacons": 1, "bits_up": 100 * number,
            "bits_down": 10, "joules": 0.5,
        }
        for (variant, seed), values in gaps.items()
        for number, gap in enumerate(values, start=1)
    ]  # fmt: skip
    return pd.DataFrame(rows)


def test_costs_add_up_run_by_run() -> None:
    totals = cumulative(rounds())
    assert list(totals["bits_up"]) == [100, 300, 600] * 4
    assert list(totals["joules"]) == [0.5, 1.0, 1.5] * 4


def test_the_cost_is_that_of_the_first_round_below_the_target() -> None:
    costs = cost_to_target(rounds(), 0.01).set_index(["variant", "seed"])
    assert list(costs.loc[("fast", 1), ["round", "t", "bits_up"]]) == [3, 6.0, 600]
    assert list(costs.loc[("fast", 2), ["round", "t", "bits_up"]]) == [2, 4.0, 300]
    assert costs["reached"].tolist() == [True, True, True, False]
    assert costs.loc[("slow", 2), list(COSTS)].isna().all()


def test_a_gap_equal_to_the_target_is_not_below_it() -> None:
    assert cost_to_target(rounds(), 0.001)["reached"].tolist() == [False, True, False, False]


ACCURACIES = {
    ("fast", 1): [0.2, 0.9, 0.9],
    ("fast", 2): [0.95, 0.1, 0.1],
    ("slow", 1): [0.1, 0.5, 0.8999],
    ("slow", 2): [np.nan, np.nan, np.nan],
}


def measured() -> pd.DataFrame:
    """Return the same runs with an accuracy, which one of them has not evaluated."""
    return rounds().assign(
        test_accuracy=[a for values in ACCURACIES.values() for a in values],
        rank=[3, 2, 1, 2, 1, 1, 3, 3, 2, 3, 3, 3],
    )


def test_an_accuracy_is_reached_from_below_and_counts_when_it_is_first_as_high() -> None:
    costs = cost_to_target(measured(), 0.9, "test_accuracy").set_index(["variant", "seed"])
    assert costs["reached"].tolist() == [True, True, False, False]
    assert list(costs.loc[("fast", 1), ["round", "t", "bits_up"]]) == [2, 4.0, 300]
    assert list(costs.loc[("fast", 2), ["round", "transmissions", "joules"]]) == [1, 3, 0.5]
    assert costs.loc[("slow", 1), ["round", "t", *COSTS]].isna().all()


def test_any_other_figure_is_reached_from_above() -> None:
    costs = cost_to_target(measured(), 2, "rank")
    assert costs["reached"].tolist() == [True, True, True, False]
    assert costs["round"].tolist()[:3] == [2, 1, 3]
    assert cost_to_target(measured(), 5.5, "objective")["round"].tolist() == [2, 2, 2, 2]


def test_the_direction_can_be_said() -> None:
    def reached(direction: Direction | None) -> list[float]:
        return cost_to_target(measured(), 2, "rank", direction)["round"].fillna(0).tolist()

    assert reached("below") == [3, 2, 0, 0]
    assert reached("at-most") == reached(None) == [2, 1, 3, 0]
    assert reached("at-least") == [1, 1, 1, 1]


def test_a_figure_that_nobody_evaluated_is_named() -> None:
    with pytest.raises(ValueError, match=r"a column 'acuracy'; there are .*gap"):
        cost_to_target(rounds(), 0.9, "acuracy")


@pytest.mark.parametrize("target", [None, np.nan])
def test_a_target_that_is_no_number_is_refused(target: float | None) -> None:
    """A run that stops at an accuracy has no target of its gap in its summary."""
    with pytest.raises(ValueError, match=f"got the target {target} of gap; give the value"):
        cost_to_target(rounds(), target)


def test_what_is_better_higher_is_what_measures_call_so() -> None:
    columns = {column for kind in MEASURES for column in kind.columns}
    assert columns >= HIGHER_IS_BETTER
    named = {column for column in columns if "accuracy" in column}
    assert named <= HIGHER_IS_BETTER


def test_means_are_over_the_runs_that_got_there_and_the_others_are_counted() -> None:
    means = mean_cost(cost_to_target(rounds(), 0.01), ["slow", "fast"])
    assert means["variant"].tolist() == ["slow", "fast"]
    assert means["reached"].tolist() == [1, 2]
    assert means["runs"].tolist() == [2, 2]
    assert means["round"].tolist() == [3.0, 2.5]


def test_a_variant_without_a_round_has_a_row_and_a_place_in_the_figure() -> None:
    means = mean_cost(cost_to_target(rounds(), 0.01), ["none", "fast"])
    assert means["variant"].tolist() == ["none", "fast"]
    assert means["reached"].tolist() == [0, 2]
    figure = convergence(rounds(), {"none": "none", "fast": "chb", "slow": "gd"})
    assert len(figure.axes[0].lines) == 4


def test_the_cost_of_a_whole_run_is_that_of_its_last_round() -> None:
    assert final_cost(rounds())["bits_up"].tolist() == [600] * 4


def test_a_run_without_a_round_has_got_nowhere() -> None:
    runs = pd.DataFrame({"variant": ["none", "fast", "slow"], "seed": [1, 1, 2]})
    for costs in (cost_to_target(rounds(), 0.01, runs=runs), final_cost(rounds(), runs=runs)):
        assert costs["variant"].tolist() == ["none", "fast", "slow"]
        assert costs["round"].fillna(0).tolist()[:2] == [0, 3]
        assert costs["reached"].tolist()[:2] == [False, True]


def test_the_table_says_never_reached() -> None:
    means = mean_cost(cost_to_target(rounds(), 1e-9), ["fast", "slow"])
    console = Console(width=120, record=True, file=StringIO())
    console.print(cost_table(means, {"fast": "chb"}, "title"))
    text = console.export_text()
    assert text.count("not reached") == 2
    assert "chb" in text
    assert "0 of 2" in text


def test_every_cost_of_the_table_stands_below_its_title() -> None:
    means = mean_cost(cost_to_target(rounds(), 0.01), ["fast", "slow"])
    table = cost_table(means, {}, "title")
    costs = [name for name in SHOWN if name in means]
    heads = ["variant", "reached", *[TITLES.get(name, name) for name in costs]]
    assert [column.header for column in table.columns] == heads
    (row,) = (each for each in means.to_dict("records") if each["variant"] == "fast")
    shown = [next(iter(column.cells)) for column in table.columns]
    assert shown[2:] == [quantity(row[name], UNITS.get(name, "")) for name in costs]


def test_a_cost_that_nobody_has_spent_is_left_out_and_time_and_energy_come_first() -> None:
    means = mean_cost(cost_to_target(rounds().assign(beacons=0), 0.01), ["fast", "slow"])
    heads = [str(column.header) for column in cost_table(means, {}, "title").columns]
    assert heads[:5] == ["variant", "reached", "rounds", "time", "energy"]
    assert sorted(heads[5:]) == ["bits down", "bits up", "transmissions"]


@every(
    ("value", "unit", "text"),
    [
        (1062, "", "1,062"),
        (2.5, "", "2.5"),
        (-1062, "", "\N{MINUS SIGN}1,062"),
        (-2.5e6, "bit", "\N{MINUS SIGN}2.5 Mbit"),
        (949800, "bit", "950 kbit"),
        (0.0021, "s", "2.1 ms"),
        (179.4, "s", "179 s"),
        (179.6, "s", "2.99 min"),
        (-195.0, "s", "\N{MINUS SIGN}3.25 min"),
        (2800.0, "s", "46.7 min"),
        (3 * 3600.0, "s", "3 h"),
        (1e9, "s", "31.7 years"),
        (0.0, "J", "0 J"),
        (float("nan"), "J", "-"),
    ],
)
def test_quantities_read_with_three_digits_and_a_prefix(value: float, unit: str, text: str) -> None:
    assert quantity(value, unit) == text


@given(st.floats(-1e300, 1e300, allow_subnormal=False))
def test_prefixes_are_those_of_engineers(value: float) -> None:
    figure = EngFormatter("J", places=None)(float(f"{value:.3g}"))
    assert quantity(value, "J") == figure


def test_the_figure_draws_every_run_against_every_cost() -> None:
    figure = convergence(rounds(), {"slow": "gd", "fast": "chb"}, "title")
    assert [axis.get_xlabel() for axis in figure.axes] == [
        "rounds", "bits, up and down (bit)", "simulated time (s)", "energy (J)",
    ]  # fmt: skip
    assert cut_marks(figure) == []
    for axis in figure.axes:
        assert len(axis.lines) == 4
        assert axis.get_yscale() == "log"
    bits = figure.axes[1].lines[0].get_xdata()
    assert np.asarray(bits).tolist() == [110, 320, 630]
    (legend,) = figure.legends
    assert [text.get_text() for text in legend.get_texts()] == ["gd", "chb"]


def test_without_an_optimum_the_figure_shows_the_objective() -> None:
    table = rounds().assign(gap=np.nan)
    figure = convergence(table, {})
    assert figure.axes[0].get_ylabel() == "objective"
    assert figure.axes[0].get_yscale() == "linear"


def test_an_objective_of_several_decades_has_a_logarithmic_axis() -> None:
    table = rounds().assign(gap=np.nan)
    steep = table.assign(objective=table["objective"].to_numpy() ** np.tile([0, 1, 3], 4))
    assert {axis.get_yscale() for axis in convergence(steep, {}).axes} == {"log"}
    below_zero = steep.assign(objective=steep["objective"] - 2.0)
    assert {axis.get_yscale() for axis in convergence(below_zero, {}).axes} == {"linear"}
