"""Costs to where another method ends, and what is said of them."""

import pandas as pd
import pytest

from fedsim.results.analysis import cost_to_end, ranking

FIGURES = {
    ("base", 1): [9.0, 5.0, 4.0],
    ("base", 2): [8.0, 7.0, 6.0],
    ("quick", 1): [4.5, 4.0, 1.0],
    ("quick", 2): [5.0, 3.0, 2.0],
    ("short", 1): [3.0],
    ("short", 2): [9.0],
}


def rounds(figures: dict[tuple[str, int], list[float]]) -> pd.DataFrame:
    """Return a round table whose every round costs 1 s, 10 bits up, 5 down and 2 J."""
    rows = [
        {"variant": variant, "seed": seed, "round": number, "t": float(number), "objective": value}
        for (variant, seed), values in figures.items()
        for number, value in enumerate(values, start=1)
    ]
    return pd.DataFrame(rows).assign(
        transmissions=1, beacons=0, bits_up=10, bits_down=5, joules=2.0
    )


def test_the_target_is_where_a_variant_ends_under_the_same_seed() -> None:
    costs = cost_to_end(rounds(FIGURES), "base").set_index(["variant", "seed"])
    assert costs.loc[("base", 1), "round"] == 3
    assert costs.loc[("quick", 1), "round"] == 2
    assert costs.loc[("quick", 2), "round"] == 1
    assert costs.loc[("quick", 1), "bits_up"] == 20
    assert costs.loc[("quick", 1), "joules"] == 4.0
    assert costs.loc[("short", 1), "round"] == 1
    assert not costs.loc[("short", 2), "reached"]


def test_seeds_under_which_it_broke_off_are_left_out() -> None:
    broken = FIGURES | {("base", 2): [8.0, 7.0]}
    assert set(cost_to_end(rounds(broken), "base")["seed"]) == {1}
    with pytest.raises(ValueError, match="no run of 'short' came to round 3"):
        cost_to_end(rounds(FIGURES), "short")


LABELS = {"a": "A", "b": "B", "c": "C"}


def table(**columns: list[list[float]]) -> pd.DataFrame:
    """Return costs of three variants, a list of seeds each; NaN where one did not get there."""
    rows = [
        {"variant": name, "seed": seed, "bits_down": 0.0}
        | {cost.replace("bits", "bits_up"): values[place][seed] for cost, values in columns.items()}
        for place, name in enumerate(LABELS)
        for seed in range(len(columns["round"][place]))
    ]
    return pd.DataFrame(rows).assign(reached=lambda own: own["round"].notna())


def test_an_order_that_costs_leave_is_said_once() -> None:
    one = table(
        round=[[1], [2], [3]], bits=[[1], [2], [3]], t=[[4], [5], [6]], joules=[[7], [8], [9]]
    )
    said = "The order by rounds is A < B < C; by bits, seconds and joules it is the same."
    assert ranking(one, LABELS) == said


def test_equal_costs_and_undecided_ones_are_said_to_be_so() -> None:
    one = table(
        round=[[2, 4, 8], [1, 2, 4], [2, 4, 8]],
        bits=[[3, 4, 5], [1, 2, 3], [2, 9, 2]],
        t=[[3, 4, 5], [1, 2, 3], [2, 9, 2]],
        joules=[[2, 2, 2]] * 3,
    )
    said = "by bits and seconds it is B ~ C ~ A; by joules it is A = B = C"
    unsure = "(~: not decided by the seeds)"
    assert ranking(one, LABELS) == f"The order by rounds is B < A = C; {said} {unsure}."


def test_a_seed_of_a_large_scale_does_not_decide_the_order() -> None:
    """A is cheaper in nine seeds of ten by a third, and dearer in the one that costs the most."""
    own = [1.0] * 9 + [1e6]
    figures = [[0.7 * value for value in own[:9]] + [1.01e6], own, [9 * value for value in own]]
    one = table(round=figures, bits=figures, t=figures, joules=figures)
    assert ranking(one, LABELS).startswith("The order by rounds is A < B < C;")


def test_what_changes_and_what_is_not_there() -> None:
    nan = float("nan")
    one = table(
        round=[[1], [2], [nan]], bits=[[2], [1], [0]], t=[[9], [8], [0]], joules=[[7], [6], [0]]
    )
    said = "The order by rounds is A < B; by bits, seconds and joules it is B < A."
    assert ranking(one, LABELS) == said
    assert ranking(one[one["variant"] != "a"], LABELS) == "Only B gets there."
    assert ranking(one[one["variant"] == "c"], LABELS) == "None gets there."
    assert ranking(one, {"b": "B"}) == "Only B gets there."
