"""Means and their intervals; fronts and ranks by pairs of variants, against plain definitions."""

from io import StringIO
from itertools import combinations

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from matplotlib.container import ErrorbarContainer
from rich.console import Console

from fedsim.results.analysis.compare.comparison import paired_table, summary_table
from fedsim.results.analysis.compare.cost_tables import COMPARED, pair, summarise
from fedsim.results.analysis.compare.dominance import Decisions, pareto
from fedsim.results.analysis.compare.trade_offs import cost_bars, pareto_scatter
from fedsim.results.analysis.compare.verdict import State, judge
from fedsim.results.analysis.costs import with_bits
from tests.tiers import examples

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


def with_states(table: pd.DataFrame, state: str = "cheaper") -> pd.DataFrame:
    """Return a table of means as `Case` has it, with one state for all costs."""
    return table.assign(**{f"{cost}_state": state for cost in COMPARED})


def test_intervals_of_wide_costs_stay_above_zero_around_their_mean() -> None:
    values = np.array([1.0, 2.0, 3.0, 70.0])
    row = summarise(costs(a=values)).iloc[0]
    assert 0 < row["t_low"] < values.mean() < row["t_high"]
    assert row["t_low"] * row["t_high"] == pytest.approx(values.mean() ** 2)  # even, as logarithms


def test_two_or_three_runs_are_told_by_the_least_and_the_largest() -> None:
    for values in (np.array([4.0, 1.0]), np.array([5.0, 1.0, 2.0])):
        row = summarise(costs(a=values)).iloc[0]
        assert (row["t_low"], row["t_high"]) == (values.min(), values.max())


@pytest.mark.slow
@pytest.mark.parametrize("runs", [2, 3, 4, 7])
def test_equal_figures_are_their_mean_and_their_interval_and_can_be_drawn(runs: int) -> None:
    values = np.full(runs, 0.1)  # three of them have a mean of 0.10000000000000002
    table = summarise(costs(a=values, b=values + 1 / 3))
    for cost in COSTS:
        assert (table[f"{cost}_low"] == table[cost]).all()
        assert (table[f"{cost}_high"] == table[cost]).all()
    labels = {"a": "a", "b": "b"}
    assert cost_bars(table, labels).axes
    decisions = Decisions.of(with_bits(costs(a=values, b=values + 1 / 3)), COSTS)
    assert pareto_scatter(table, labels, decisions).axes
    drawn = Console(width=100, record=True, file=StringIO())
    drawn.print(summary_table(with_states(table).assign(pareto=False), labels, ""))
    assert "\N{PLUS-MINUS SIGN}0%" in drawn.export_text()


def test_figures_of_pairs_stand_to_the_right_and_words_to_the_left() -> None:
    drawn = costs(a=np.array([1.0, 2.0]), b=np.array([2.0, 3.0]))
    table = paired_table(pair(with_bits(drawn), "a"), {"a": "a", "b": "b"}, "pairs")
    sides = {str(column.header): column.justify for column in table.columns}
    words = {"variant", "cost", "verdict"}
    assert words < sides.keys()
    assert {head for head, side in sides.items() if side == "left"} == words
    assert {side for head, side in sides.items() if head not in words} == {"right"}


def test_the_rows_of_a_variant_in_the_table_of_pairs_are_one_section() -> None:
    drawn = costs(**{name: number + np.array([1.0, 2.0]) for number, name in enumerate("abc")})
    table = paired_table(pair(with_bits(drawn), "a"), {"a": "a", "b": "b", "c": "c"}, "pairs")
    names = [str(cell) for cell in table.columns[0].cells]
    begins = [bool(name) for name in names[1:]]
    assert [row.end_section for row in table.rows[:-1]] == begins
    assert sum(begins) == len([name for name in names if name]) - 1 >= 1


def test_costs_stand_to_the_right_and_names_with_their_marks_to_the_left() -> None:
    table = summarise(with_bits(costs(a=np.array([1.0, 2.0]))))
    drawn = summary_table(with_states(table).assign(pareto=True), {"a": "a"}, "means")
    variant, mark, *figures = drawn.columns
    assert (variant.header, mark.header) == ("variant", "")
    assert {column.justify for column in (variant, mark)} == {"left"}
    assert len(figures) > 3
    assert {column.justify for column in figures} == {"right"}


def test_bars_of_a_point_reach_from_the_low_to_the_high_end_of_its_interval() -> None:
    drawn = costs(a=np.array([1.0, 2.0, 4.0, 9.0]), b=np.array([2.0, 3.0, 3.0, 4.0]))
    table = summarise(drawn)
    figure = pareto_scatter(table, {"a": "a", "b": "b"}, Decisions.of(with_bits(drawn), COSTS))
    for axis, (across, up) in zip(figure.axes, combinations(COSTS, 2), strict=True):
        points = [each for each in axis.containers if isinstance(each, ErrorbarContainer)]
        for (_, _, (bar, upright)), row in zip(points, table.to_dict("records"), strict=True):
            for line, place, cost in ((bar, 0, across), (upright, 1, up)):
                (ends,) = line.get_segments()
                wanted = [row[f"{cost}_low"], row[f"{cost}_high"]]
                assert ends[:, place] == pytest.approx(wanted, rel=1e-12)


@pytest.mark.slow
def test_intervals_hold_the_mean_as_often_as_they_say() -> None:
    rng, sigma = np.random.default_rng(1), 0.3
    drawn = {f"v{number}": np.exp(sigma * rng.standard_normal(8)) for number in range(400)}
    rows = summarise(costs(**drawn))
    held = (rows["t_low"] < np.exp(sigma**2 / 2)) & (np.exp(sigma**2 / 2) < rows["t_high"])
    assert 0.91 < held.mean() < 0.985


def test_what_differs_by_chance_ties_and_what_is_decided_is_ranked() -> None:
    rng = np.random.default_rng(3)
    base = 10 + rng.random(6)
    chance = base + rng.permutation([-0.2, 0.21, -0.22, 0.2, 0.3, -0.25])
    decisions = Decisions.of(with_bits(costs(c=base + 5, a=base, b=chance)), COSTS)
    front = decisions.front(COSTS)
    assert front["pareto"].to_dict() == {"c": False, "a": False, "b": False}
    assert front["open"].to_dict() == {"c": False, "a": True, "b": True}
    assert decisions.rank("t")[2] == "c"
    assert decisions.not_costlier("a", "t") == ["b"]
    sure = pareto(with_bits(costs(a=base, c=base + 5)), COSTS)
    assert sure["pareto"].to_dict() == {"a": True, "c": False}
    assert not sure["open"].any()


@pytest.mark.slow
@pytest.mark.parametrize("seeds", [1, 2, 3, 5, 8])
def test_fronts_and_ranks_follow_from_the_pairs_alone(seeds: int) -> None:
    rng = np.random.default_rng(seeds)
    for _ in range(10):
        table = with_bits(
            costs(**{name: np.exp(rng.normal(shift, 0.5, seeds)) for name, shift in SHIFTS.items()})
        )
        for cost in COSTS:
            table[cost] *= np.exp(rng.normal(0.0, 0.2, len(table)))
        decisions = Decisions.of(table, COSTS)
        signs = {
            (one, other): {cost: decisions.pair(one, other, cost).order for cost in COSTS}
            for one in SHIFTS
            for other in SHIFTS
            if one != other
        }
        front = decisions.front(COSTS)
        for name in SHIFTS:
            others = [other for other in SHIFTS if other != name]
            above = all(-1 in signs[name, other].values() for other in others)
            rivals = [set(signs[other, name].values()) for other in others]
            beaten = any(-1 in own and 1 not in own for own in rivals)
            assert front["pareto"][name] == above
            assert front["open"][name] == (not above and not beaten)
        for cost in COSTS:
            first = decisions.rank(cost)[0]
            assert all(signs[other, first][cost] >= 0 for other in SHIFTS if other != first)


SHIFTS = {"a": 0.0, "b": 0.1, "c": 0.8, "d": 3.0}
"""What variants cost, as the mean of the logarithm."""


@given(
    st.lists(st.tuples(*[st.sampled_from([0.0, 1.0, 2.0, 3.5])] * 3), min_size=1, max_size=8),
)
@examples(40)
def test_of_one_seed_the_front_is_that_of_the_figures(rows: list[tuple[float, ...]]) -> None:
    names = [f"v{number}" for number in range(len(rows))]
    table = pd.DataFrame(rows, columns=list(COSTS)).assign(variant=names, seed=1, reached=True)
    expected = [
        not any(
            all(a <= b for a, b in zip(rival, row, strict=True)) and rival != row for rival in rows
        )
        for row in rows
    ]
    front = pareto(table, COSTS)
    assert front["pareto"].tolist() == expected
    assert not front["open"].any()


def test_a_method_cheaper_in_every_seed_is_first_though_its_mean_is_no_interval_away() -> None:
    seeds = np.exp(np.random.default_rng(2).normal(0.0, 3.0, 10))
    times = np.array([2.3, 29.5, 13.0, 12.0, 20.0, 9.0, 5.0, 14.0, 18.0, 25.0])
    table = costs(dear=seeds * times, cheap=seeds)
    front = pareto(with_bits(table), COSTS)
    assert front["pareto"].to_dict() == {"dear": False, "cheap": True}
    row = pair(table, "cheap").set_index("cost").loc["t"]
    assert row["ratio"] == pytest.approx(np.exp(np.log(times).mean()))
    assert row["verdict"] == "costlier"
    gaps = seeds * times - seeds  # what raw differences would say
    assert gaps.mean() - 2.262 * gaps.std(ddof=1) / np.sqrt(10) < 0


def test_runs_that_never_got_there_count_as_costlier_everywhere() -> None:
    figures = np.arange(1.0, 11.0)
    table = costs(all=figures, some=figures * 1.1, none=figures)
    missed = ((table["variant"] == "some") & (table["seed"] < 3)) | (table["variant"] == "none")
    table.loc[missed, "reached"] = False
    table.loc[missed, [name for name in COMPARED if name in table]] = np.nan
    decisions = Decisions.of(with_bits(table), COSTS)
    assert decisions.reached == (10, 7, 0)
    assert decisions.front(COSTS)["pareto"].to_dict() == {"all": True, "some": False}
    assert decisions.rank("t") == ["all", "some"]
    columns = ["variant", "seeds", "pairs", "verdict"]
    pairs = pair(table, "all").query("cost == 't'")
    assert pairs[columns].to_numpy().tolist() == [
        ["some", 10, 7, "costlier in 10 of 10 seeds, both reached it in 7"],
        ["none", 10, 0, "reached in none of 10 seeds, the other in all"],
    ]
    np.testing.assert_allclose(pairs["ratio"], [1.1, np.nan])  # of seeds in which both got there
    pairs = pair(table, "none").query("cost == 't' and variant == 'some'")
    assert pairs[columns].to_numpy().tolist() == [
        ["some", 7, 0, "cheaper in 7 of 7 seeds, both reached it in 0"]
    ]


def test_twins_share_their_place_and_a_single_seed_says_what_it_says() -> None:
    one = np.array([2.0])
    decisions = Decisions.of(with_bits(costs(a=one, b=one, c=one + 1)), COSTS)
    assert decisions.front(COSTS)["pareto"].to_dict() == {"a": True, "b": True, "c": False}
    assert judge(decisions.pair("c", "a", "t")).words == "costlier (one seed)"


def test_a_tie_in_one_cost_is_none_beside_a_much_higher_other_cost() -> None:
    """Times differ by chance, joules by 8.7 times: the state is one of each cost."""
    rng = np.random.default_rng(3)
    base = 10 + rng.random(6)
    table = costs(a=base, b=base + rng.permutation([-0.2, 0.21, -0.22, 0.2, 0.3, -0.25]))
    table.loc[table["variant"] == "b", "joules"] *= 8.7
    decisions = Decisions.of(with_bits(table), COSTS)
    assert decisions.states("t") == {"a": State.CHEAPER, "b": State.UNDECIDED}
    assert decisions.states("joules") == {"a": State.CHEAPER, "b": State.COSTLIER}
    assert [*decisions.front(COSTS).loc["b"]] == [False, False]


def on_seeds(**figures: dict[int, float]) -> pd.DataFrame:
    """Return a table of costs in which variants have seeds of their own."""
    parts = [
        costs(**{name: np.array([*own.values()])}).assign(seed=[*own])
        for name, own in figures.items()
    ]
    return with_bits(pd.concat(parts, ignore_index=True))


def test_the_first_is_one_that_no_other_beats_though_its_own_seeds_were_dearer() -> None:
    dear = {seed: 2.0**seed for seed in range(8)}
    better = {seed: 0.6 * cost for seed, cost in dear.items() if seed > 1}
    assert np.log([*dear.values()]).mean() < np.log([*better.values()]).mean()
    decisions = Decisions.of(on_seeds(dear=dear, better=better), COSTS)
    assert decisions.rank("t") == ["better", "dear"]
    assert decisions.states("t") == {"better": State.CHEAPER, "dear": State.COSTLIER}


def test_where_each_is_beaten_by_another_one_the_cheapest_stays_in_front() -> None:
    decisions = Decisions.of(on_seeds(a={1: 1, 3: 2}, b={1: 2, 2: 1}, c={2: 2, 3: 1}), COSTS)
    for one, other in ("ab", "bc", "ca"):
        assert decisions.pair(one, other, "t").order < 0
    assert decisions.rank("t") == ["a", "b", "c"]
    assert decisions.states("t") == {"a": State.CHEAPER, "b": State.COSTLIER, "c": State.CHEAPER}


def test_a_cost_that_is_unknown_is_last() -> None:
    table = with_bits(costs(unknown=np.array([1.0, 2.0]), known=np.array([5.0, 6.0])))
    table.loc[table["variant"] == "unknown", "joules"] = np.nan
    decisions = Decisions.of(table, COSTS)
    assert decisions.rank("joules") == ["known", "unknown"]
    assert decisions.rank("t") == ["unknown", "known"]


def test_signs_in_a_chain_are_between_neighbours() -> None:
    step = 0.6 * 0.01  # two of which are no longer the same
    figures = {name: np.array([100 * (1 + step) ** n]) for n, name in enumerate("abc")}
    decisions = Decisions.of(with_bits(costs(**figures)), COSTS)
    assert decisions.pair("a", "c", "t").order < 0
    assert decisions.chain("t", {name: name.upper() for name in "abc"}) == "A = B = C"
    assert decisions.chain("t", {"a": "A", "c": "C"}) == "A < C"


def test_what_never_got_there_is_never_among_those_that_are_not_costlier() -> None:
    table = costs(there=np.array([1.0]), lost=np.array([2.0]), gone=np.array([3.0]))
    missed = table["variant"] != "there"
    table.loc[missed, "reached"] = False
    decisions = Decisions.of(with_bits(table), COSTS)
    assert decisions.not_costlier("lost", "t") == ["there"]
    assert decisions.not_costlier("there", "t") == []
