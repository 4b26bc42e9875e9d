"""Means, intervals and paired differences, against scipy and by hand."""

from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from fedsim.results.analysis import COMPARED, pair, summarise
from tests.tiers import every, examples

SEEDS = (1, 2, 3, 4)
BITS = {"chb": [10, 12, 11, 15], "hb": [20, 21, 25, 26], "gd": [40, 40, 40, 40]}


def costs(reached: dict[str, list[bool]] | None = None) -> pd.DataFrame:
    """Return one row per run; the runs that did not get there have no costs."""
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


def of(table: pd.DataFrame, variant: str, cost: str) -> dict[Any, Any]:
    """Return the row of a variant and a cost."""
    (row,) = table[(table["variant"] == variant) & (table["cost"] == cost)].to_dict("records")
    return dict(row)


@every("confidence", [0.5, 0.95, 0.99])
@every("cost", ["round", "t", "bits_up", "joules"])
def test_the_interval_of_a_mean_is_student_s_of_its_logarithm(cost: str, confidence: float) -> None:
    table = summarise(costs(), confidence).set_index("variant")
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
    row = summarise(costs()).set_index("variant").loc["chb"]
    share = 3.182446305 * np.sqrt(14 / 12) / 12
    assert row["transmissions_high"] == pytest.approx(12 * np.exp(share), rel=1e-9)


def test_bits_are_those_of_both_directions() -> None:
    row = summarise(costs()).set_index("variant").loc["chb"]
    assert row["bits"] == pytest.approx(1200 + 17.5)


def test_variants_keep_their_order_and_are_counted() -> None:
    some = {"hb": [True, False, True, False], "gd": [False] * 4, "chb": [True, False, False, False]}
    table = summarise(costs(some))
    assert table["variant"].tolist() == ["chb", "hb", "gd"]
    assert table["runs"].tolist() == [4, 4, 4]
    assert table["reached"].tolist() == [1, 2, 0]
    rows = table.set_index("variant")
    assert rows.loc["hb", "transmissions"] == 22.5  # seeds 1 and 3 alone
    assert rows.loc["chb", "transmissions"] == 10
    assert rows.loc[["chb", "gd"], [f"{cost}_low" for cost in COMPARED]].isna().all(axis=None)
    assert rows.loc["gd", list(COMPARED)].isna().all()


def test_one_seed_has_a_mean_and_no_interval() -> None:
    table = summarise(costs().query("seed == 1"))
    assert table["bits"].tolist() == [1007, 2007, 4007]
    assert table["bits_low"].isna().all()


def test_categories_without_a_run_are_no_variants() -> None:
    own = costs().astype({"variant": "category"}).query("variant != 'hb'")
    assert summarise(own)["variant"].tolist() == ["chb", "gd"]
    assert pair(own, "gd")["variant"].unique().tolist() == ["chb"]


@every("confidence", [0.0, 1.0, 95.0, float("nan")])
def test_a_confidence_is_between_0_and_1(confidence: float) -> None:
    for function in (summarise, lambda table, sure: pair(table, "gd", sure)):
        with pytest.raises(ValueError, match="between 0 and 1"):
            function(costs(), confidence)


def more_seeds() -> pd.DataFrame:
    """Return the costs of eight seeds, the later four being hundred times as large."""
    later = costs().assign(seed=lambda table: table["seed"] + 4)
    numbers = [str(name) for name in later if name not in {"variant", "seed", "reached"}]
    later[numbers] *= 100 * np.linspace(0.9, 1.1, len(later))[:, None]
    return pd.concat([costs(), later], ignore_index=True)


@every("cost", ["round", "t", "bits_up", "joules"])
def test_the_paired_test_is_scipy_s_of_the_logarithms(cost: str) -> None:
    wide = np.log(more_seeds().pivot_table(index="seed", columns="variant", values=cost))
    expected = stats.ttest_rel(wide["hb"], wide["chb"])
    interval = expected.confidence_interval(0.9)
    row = of(pair(more_seeds(), "chb", 0.9), "hb", cost)
    assert (row["seeds"], row["pairs"]) == (8, 8)
    assert row["p_value"] == pytest.approx(expected.pvalue, rel=1e-10)
    ratios = np.exp(np.sort(wide["hb"] - wide["chb"]))
    # Of eight seeds the second least and the second largest hold the median with 93 %.
    assert row["low"] == pytest.approx(min(np.exp(interval.low), ratios[1]), rel=1e-10)
    assert row["high"] == pytest.approx(max(np.exp(interval.high), ratios[-2]), rel=1e-10)
    assert row["ratio"] == pytest.approx(np.exp((wide["hb"] - wide["chb"]).mean()), rel=1e-13)


def test_a_pair_by_hand() -> None:
    """Of 10, 12, 11, 15 and 20, 21, 25, 26: four of four, by 11 in the mean."""
    row = of(pair(costs(), "chb"), "hb", "transmissions")
    assert row["difference"] == 11
    assert row["ratio"] == pytest.approx((2 * 21 / 12 * 25 / 11 * 26 / 15) ** (1 / 4))
    logs = np.log([2, 21 / 12, 25 / 11, 26 / 15])
    assert row["p_value"] == pytest.approx(5 * stats.ttest_1samp(logs, 0.0).pvalue)  # four seeds
    ends = np.exp(stats.t.interval(0.99, 3, logs.mean(), stats.sem(logs)))
    assert [row["low"], row["high"]] == pytest.approx(list(ends))
    assert row["verdict"] == "costlier"


def test_corrected_values_are_of_all_pairs_of_variants() -> None:
    rows = [of(pair(more_seeds(), "chb"), name, "t") for name in ("hb", "gd")]
    rows.append(of(pair(more_seeds(), "hb"), "gd", "t"))
    values = sorted(row["p_value"] for row in rows)
    steps = np.maximum.accumulate(np.minimum(np.array(values) * [3, 2, 1], 1.0))
    assert sorted(row["p_holm"] for row in rows) == pytest.approx(steps.tolist())


def test_the_difference_is_of_the_seeds_under_which_both_got_there() -> None:
    some = {"hb": [True, True, False, True], "chb": [False, True, True, True]}
    row = of(pair(costs(some), "chb"), "hb", "transmissions")
    assert row["pairs"] == 2
    assert row["difference"] == 10  # 21 - 12 and 26 - 15
    # One seed each that the other alone reached; they cost 1.75 and 1.73 times as much in two.
    assert (row["seeds"], row["cheaper"], row["costlier"]) == (4, 1, 3)
    assert row["verdict"] == "too few seeds to tell"


def test_pairs_are_matched_by_seed_and_not_by_place() -> None:
    shuffled = costs().sample(frac=1, random_state=1)
    rows, expected = (pair(table, "chb") for table in (shuffled, costs()))
    keys = ["variant", "cost"]
    rows, expected = (table.sort_values(keys, ignore_index=True) for table in (rows, expected))
    pd.testing.assert_frame_equal(rows, expected, rtol=1e-12)


def test_pairs_of_one_ratio_are_no_evidence() -> None:
    same = costs().query("variant == 'gd'")
    other = same.assign(variant="twin", transmissions=41, t=2 * same["t"])
    pairs = pair(pd.concat([same, other]), "gd")
    said = {"transmissions": "costlier, all seeds alike", "t": "costlier, all seeds alike"}
    for cost, verdict in (said | {"joules": "the same in all 4 seeds"}).items():
        row = of(pairs, "twin", cost)
        assert row["verdict"] == verdict
        assert np.isnan([row["low"], row["high"], row["p_value"]]).all()


def test_a_stranger_to_compare_with_is_named() -> None:
    with pytest.raises(ValueError, match=r"no variant 'adam'; there are chb, hb, gd"):
        pair(costs(), "adam")


def test_a_variant_alone_has_no_pairs() -> None:
    assert pair(costs().query("variant == 'gd'"), "gd").empty


AMOUNTS = st.one_of(st.just(0.0), st.floats(1e-6, 1e9))


@examples(40)
@given(st.lists(st.tuples(AMOUNTS, AMOUNTS), min_size=2, max_size=8))
def test_turning_the_question_round_turns_the_signs(pairs: list[tuple[float, float]]) -> None:
    rows = [
        {"variant": variant, "seed": seed, "reached": True} | dict.fromkeys(COMPARED, amount)
        for variant, number in (("a", 0), ("b", 1))
        for seed, amount in enumerate(pair[number] for pair in pairs)
    ]
    table = pd.DataFrame(rows)
    there, back = (of(pair(table, name), other, "t") for name, other in (("a", "b"), ("b", "a")))
    assert there["difference"] == -back["difference"]
    assert there["p_value"] == pytest.approx(back["p_value"], nan_ok=True)
    with np.errstate(divide="ignore"):
        inverse = np.array([1 / np.float64(back[key]) for key in ("ratio", "high", "low")])
    found = np.array([there[key] for key in ("ratio", "low", "high")])
    stated = np.isfinite(found) & np.isfinite(inverse)  # there is no ratio to a cost of 0
    assert found[stated] == pytest.approx(inverse[stated])
    words = {"cheaper": "costlier", "costlier": "cheaper"}
    first, _, rest = back["verdict"].partition(" ")
    comma = "," if first.endswith(",") else ""
    assert (
        there["verdict"] == f"{words.get(first.strip(','), first.strip(','))}{comma} {rest}".strip()
    )
