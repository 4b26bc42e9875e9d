"""Means, intervals and paired differences, against scipy and by hand."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from fedsim.analysis import COMPARED, paired, summarised

SEEDS = (1, 2, 3, 4)
BITS = {"chb": [10, 12, 11, 15], "hb": [20, 21, 25, 26], "gd": [40, 40, 40, 40]}


def costs(reached: dict[str, list[bool]] | None = None) -> pd.DataFrame:
    """Return a row a run; the runs that did not get there have no costs."""
    rows = []
    for variant, values in BITS.items():
        there = (reached or {}).get(variant, [True] * len(values))
        for seed, bits, known in zip(SEEDS, values, there, strict=True):
            spent = {
                "round": seed + bits, "t": 0.5 * bits, "transmissions": bits, "beacons": 0,
                "bits_up": 100.0 * bits, "bits_down": 7.0 * seed, "joules": bits / seed,
            }  # fmt: skip
            spent = spent if known else dict.fromkeys(spent, np.nan)
            rows.append({"variant": variant, "seed": seed, "reached": known, **spent})
    return pd.DataFrame(rows)


def of(table: pd.DataFrame, variant: str, cost: str) -> "pd.Series[float]":
    """Return the row of a variant and a cost."""
    (row,) = table[(table["variant"] == variant) & (table["cost"] == cost)].to_dict("records")
    return pd.Series(row)


@pytest.mark.parametrize("confidence", [0.5, 0.95, 0.99])
@pytest.mark.parametrize("cost", ["round", "t", "bits_up", "joules"])
def test_the_interval_of_a_mean_is_student_s_of_its_logarithm(cost: str, confidence: float) -> None:
    table = summarised(costs(), confidence).set_index("variant")
    for variant in ("chb", "hb"):
        sample = costs().query("variant == @variant")[cost]
        around = np.log(sample.mean()), stats.sem(sample) / sample.mean()  # the delta method
        low, high = np.exp(stats.t.interval(confidence, 3, *around))
        row = table.loc[variant]
        assert row[cost] == pytest.approx(sample.mean(), rel=1e-14)
        assert row[f"{cost}_low"] == pytest.approx(low, rel=1e-12)
        assert row[f"{cost}_high"] == pytest.approx(high, rel=1e-12)


def test_an_interval_by_hand() -> None:
    """Transmissions 10, 12, 11, 15: mean 12, variance 14/3; t(0.975, 3) = 3.182446305."""
    row = summarised(costs()).set_index("variant").loc["chb"]
    share = 3.182446305 * np.sqrt(14 / 12) / 12
    assert row["transmissions_high"] == pytest.approx(12 * np.exp(share), rel=1e-9)


def test_bits_are_those_of_both_directions() -> None:
    row = summarised(costs()).set_index("variant").loc["chb"]
    assert row["bits"] == pytest.approx(1200 + 17.5)


def test_variants_keep_their_order_and_are_counted() -> None:
    some = {"hb": [True, False, True, False], "gd": [False] * 4, "chb": [True, False, False, False]}
    table = summarised(costs(some))
    assert table["variant"].tolist() == ["chb", "hb", "gd"]
    assert table["runs"].tolist() == [4, 4, 4]
    assert table["reached"].tolist() == [1, 2, 0]
    rows = table.set_index("variant")
    assert rows.loc["hb", "transmissions"] == 22.5  # seeds 1 and 3 alone
    assert rows.loc["chb", "transmissions"] == 10
    assert rows.loc[["chb", "gd"], [f"{cost}_low" for cost in COMPARED]].isna().all(axis=None)
    assert rows.loc["gd", list(COMPARED)].isna().all()


def test_one_seed_has_a_mean_and_no_interval() -> None:
    table = summarised(costs().query("seed == 1"))
    assert table["bits"].tolist() == [1007, 2007, 4007]
    assert table["bits_low"].isna().all()


def test_categories_without_a_run_are_no_variants() -> None:
    own = costs().astype({"variant": "category"}).query("variant != 'hb'")
    assert summarised(own)["variant"].tolist() == ["chb", "gd"]
    assert paired(own, "gd")["variant"].unique().tolist() == ["chb"]


@pytest.mark.parametrize("confidence", [0.0, 1.0, 95.0, float("nan")])
def test_a_confidence_is_between_0_and_1(confidence: float) -> None:
    for function in (summarised, lambda table, sure: paired(table, "gd", sure)):
        with pytest.raises(ValueError, match="between 0 and 1"):
            function(costs(), confidence)


@pytest.mark.parametrize("cost", ["round", "t", "bits_up", "joules"])
def test_the_paired_test_is_scipy_s(cost: str) -> None:
    wide = costs().pivot_table(index="seed", columns="variant", values=cost)
    expected = stats.ttest_rel(wide["hb"], wide["chb"])
    interval = expected.confidence_interval(0.9)
    row = of(paired(costs(), "chb", 0.9), "hb", cost)
    assert row["pairs"] == 4
    assert row["p_value"] == pytest.approx(expected.pvalue, rel=1e-10)
    assert row["low"] == pytest.approx(interval.low, rel=1e-10)
    assert row["high"] == pytest.approx(interval.high, rel=1e-10)
    assert row["ratio"] == pytest.approx(wide["hb"].mean() / wide["chb"].mean(), rel=1e-13)


def test_a_paired_difference_by_hand() -> None:
    """Differences 10, 9, 14, 11: mean 11, variance 14/3."""
    row = of(paired(costs(), "chb"), "hb", "transmissions")
    margin = 3.182446305 * np.sqrt(14 / 12)
    assert row["difference"] == 11
    assert row["high"] - 11 == pytest.approx(margin, rel=1e-9)
    assert 11 - row["low"] == pytest.approx(margin, rel=1e-9)
    assert row["ratio"] == pytest.approx(92 / 48)


def test_pairs_are_the_seeds_under_which_both_got_there() -> None:
    some = {"hb": [True, True, False, True], "chb": [False, True, True, True]}
    row = of(paired(costs(some), "chb"), "hb", "transmissions")
    assert row["pairs"] == 2
    assert row["difference"] == 10  # 21 - 12 and 26 - 15
    assert row["ratio"] == pytest.approx(47 / 27)  # of the same two seeds


def test_pairs_are_matched_by_seed_and_not_by_place() -> None:
    shuffled = costs().sample(frac=1, random_state=1)
    rows, expected = (paired(table, "chb") for table in (shuffled, costs()))
    keys = ["variant", "cost"]
    rows, expected = (table.sort_values(keys, ignore_index=True) for table in (rows, expected))
    pd.testing.assert_frame_equal(rows, expected, rtol=1e-12)


@pytest.mark.parametrize(("there", "pairs"), [([], 0), ([2], 1)])
def test_too_few_pairs_have_no_interval(there: list[int], pairs: int) -> None:
    some = {"hb": [seed in there for seed in SEEDS]}
    row = of(paired(costs(some), "chb"), "hb", "transmissions")
    assert row["pairs"] == pairs
    assert np.isnan([row["low"], row["high"], row["p_value"]]).all()
    assert np.isnan(row["difference"]) == (pairs == 0)


def test_pairs_that_all_differ_by_the_same_are_no_evidence() -> None:
    same = costs().query("variant == 'gd'")
    other = same.assign(variant="twin", transmissions=41, joules=same["joules"] + 0.1)
    pairs = paired(pd.concat([same, other]), "gd")
    for cost, difference in (("transmissions", 1), ("joules", 0.1), ("t", 0)):
        row = of(pairs, "twin", cost)
        assert row["low"] == row["high"] == row["difference"] == pytest.approx(difference)
        assert np.isnan(row["p_value"])


def test_a_stranger_to_compare_with_is_named() -> None:
    with pytest.raises(ValueError, match=r"no variant 'adam'; there are chb, hb, gd"):
        paired(costs(), "adam")


def test_a_variant_alone_has_no_pairs() -> None:
    assert paired(costs().query("variant == 'gd'"), "gd").empty


AMOUNTS = st.floats(0, 1e9, allow_subnormal=False)


@settings(max_examples=40)
@given(st.lists(st.tuples(AMOUNTS, AMOUNTS), min_size=2, max_size=8))
def test_turning_the_question_round_turns_the_signs(pairs: list[tuple[float, float]]) -> None:
    rows = [
        {"variant": variant, "seed": seed, "reached": True} | dict.fromkeys(COMPARED, amount)
        for variant, number in (("a", 0), ("b", 1))
        for seed, amount in enumerate(pair[number] for pair in pairs)
    ]
    table = pd.DataFrame(rows)
    there, back = (of(paired(table, name), other, "t") for name, other in (("a", "b"), ("b", "a")))
    assert there["difference"] == -back["difference"]
    assert (there["low"], there["high"]) == (-back["high"], -back["low"])
    assert np.array_equal(there["p_value"], back["p_value"], equal_nan=True)
    if not np.isnan(there["p_value"]):
        excluded = there["low"] > 0 or there["high"] < 0
        assert excluded == (there["p_value"] < 0.05) or there["p_value"] == pytest.approx(0.05)
