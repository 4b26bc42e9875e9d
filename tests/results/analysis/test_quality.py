"""Differences in model quality: the laws of a paired difference, and Student's closed form."""

import json
import re
from collections.abc import Hashable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy import stats
from typer.testing import CliRunner

import fedsim
from fedsim.cli import app
from fedsim.results.analysis import Comparison, Target, answer
from fedsim.results.analysis.compare.quality import comparable, quality, quality_clause
from tests.results.analysis.test_answer import costs
from tests.runs import small

ACCURATE = [0.91, 0.93, 0.92, 0.95, 0.90, 0.94, 0.92, 0.93]
WORSE = [0.90, 0.925, 0.91, 0.94, 0.885, 0.93, 0.915, 0.92]


def rounds(figures: Mapping[str, Iterable[float]], measure: str = "test_accuracy") -> pd.DataFrame:
    """Return a round table with the last round of each run."""
    rows = [
        {"variant": name, "seed": seed, "round": 5, "objective": np.nan, "gap": np.nan}
        | {measure: each}
        for name, own in figures.items()
        for seed, each in enumerate(own)
    ]
    return pd.DataFrame(rows)


def row(table: pd.DataFrame, variant: str) -> dict[Hashable, Any]:
    (found,) = table[table["variant"] == variant].to_dict("records")
    return found


@pytest.mark.parametrize("measure", ["test_accuracy", "test_loss"])
@pytest.mark.parametrize("seeds", [1, 3, 8])
def test_differences_are_antisymmetric(measure: str, seeds: int) -> None:
    table = rounds({"a": ACCURATE[:seeds], "b": WORSE[:seeds]}, measure)
    one, other = row(quality(table, "a"), "b"), row(quality(table, "b"), "a")
    assert one["difference"] == pytest.approx(-other["difference"], rel=1e-12)
    if seeds > 1:
        assert [one["low"], one["high"]] == pytest.approx([-other["high"], -other["low"]])
        assert one["p_value"] == other["p_value"]
    turned = {"lower": "higher", "higher": "lower"}
    words = [turned.get(word, word) for word in str(one["verdict"]).split()]
    assert " ".join(words) == other["verdict"]


@pytest.mark.parametrize("seeds", [1, 2, 8])
def test_equal_variants_have_no_difference(seeds: int) -> None:
    found = row(quality(rounds({"a": ACCURATE[:seeds], "b": ACCURATE[:seeds]}), "a"), "b")
    assert found["difference"] == 0
    assert found["verdict"].startswith("the same")


def test_the_interval_spans_that_of_student_and_that_of_the_sign_test() -> None:
    draw = np.random.default_rng(5)
    for seeds in (6, 9, 20):
        one, other = draw.normal(0.9, 0.02, seeds), draw.normal(0.89, 0.02, seeds)
        found = row(quality(rounds({"a": other, "b": one}), "a"), "b")
        paired = one - other
        student = stats.ttest_1samp(paired, 0)
        interval = student.confidence_interval(0.95)
        rank = int(stats.binom.ppf(0.025, seeds, 0.5))  # P(B < rank) is at most 2.5 %
        assert 2 * stats.binom.cdf(rank - 1, seeds, 0.5) <= 0.05
        ordered = np.sort(paired)
        ends = min(interval.low, ordered[rank - 1]), max(interval.high, ordered[-rank])
        assert found["difference"] == pytest.approx(paired.mean(), rel=1e-9)
        assert (found["low"], found["high"]) == pytest.approx(ends, rel=1e-9)
        assert found["p_value"] >= student.pvalue * (1 - 1e-9)


def test_few_seeds_have_a_stricter_interval_of_student() -> None:
    found = row(quality(rounds({"a": ACCURATE[:4], "b": WORSE[:4]}), "a"), "b")
    paired = np.subtract(WORSE[:4], ACCURATE[:4])
    interval = stats.ttest_1samp(paired, 0).confidence_interval(0.99)
    ends = min(interval.low, paired.min()), max(interval.high, paired.max())
    assert (found["low"], found["high"]) == pytest.approx(ends, rel=1e-9)


@pytest.mark.parametrize("scale", [1e-14, 1.0, 1e12])
def test_the_verdict_does_not_depend_on_the_unit(scale: float) -> None:
    figures = {"a": ACCURATE, "b": WORSE, "c": ACCURATE[::-1]}
    plain = quality(rounds(figures, "test_loss"), "a")
    other = quality(
        rounds({name: [scale * x for x in own] for name, own in figures.items()}, "test_loss"), "a"
    )
    for end in ("difference", "low", "high"):
        assert other[end].to_numpy() == pytest.approx(scale * plain[end].to_numpy(), nan_ok=True)
    assert other["p_holm"].to_numpy() == pytest.approx(plain["p_holm"].to_numpy(), nan_ok=True)


def test_verdicts_are_plain_words() -> None:
    table = rounds({"a": ACCURATE, "b": WORSE, "c": ACCURATE[::-1]})
    found = quality(table, "a")
    assert row(found, "b")["verdict"] == "lower"
    assert row(found, "c")["verdict"] == "no difference found"
    assert row(found, "a")["verdict"] == ""
    few = rounds({"a": ACCURATE[:2], "b": WORSE[:2]})
    assert row(quality(few, "a"), "b")["verdict"] == "too few seeds to tell"
    # One sample of a hundred less in each of three seeds may be a coincidence.
    alike = rounds({"a": [0.9, 0.91, 0.92], "b": [0.89, 0.90, 0.91]})
    assert row(quality(alike, "a"), "b")["verdict"] == "too few seeds to tell"
    one = rounds({"a": [0.5], "b": [0.75]}, "test_loss")
    assert row(quality(one, "a"), "b")["verdict"] == "higher (one seed)"


def test_clauses_have_the_difference_and_its_interval() -> None:
    def clause(a: Sequence[float], b: Sequence[float], *others: Sequence[float]) -> str:
        further = {f"c{number}": own for number, own in enumerate(others)}
        text = quality_clause(rounds({"a": a, "b": b, **further}), ("b", "a"), "b")
        return text.replace("\N{MINUS SIGN}", "-")

    at_end = "test_accuracy at the end"
    assert clause([0.9], [0.91]) == f"b's {at_end} is 1 point higher (one seed)"
    lower = clause(ACCURATE, WORSE)
    assert lower.startswith(f"b's {at_end} is 0.94 points lower (95 % interval -1.")
    assert lower.endswith(" to -0.5 points)")
    assert clause(ACCURATE, ACCURATE) == f"b's {at_end} is the same in all 8 seeds"
    open_ = clause(ACCURATE, ACCURATE[::-1])
    assert open_.startswith(f"no difference in {at_end} was found (95 % interval -")
    few = clause(ACCURATE[:2], WORSE[:2])
    assert few.startswith(f"it is not known yet whether b's {at_end} differs (99 % interval -")
    low, high = stats.t.interval(
        0.99, 1, *(f(np.subtract(WORSE[:2], ACCURATE[:2])) for f in (np.mean, stats.sem))
    )
    stated = [float(end) for end in re.findall(r"-?[0-9.]+", few.partition("% interval")[2])]
    assert stated == pytest.approx([100 * low, 100 * high], abs=0.5)  # as rounded
    # A difference that is significant before the correction for all pairs, but not after it.
    shift = [-0.001, -0.06, -0.002, -0.05, -0.001, -0.04, -0.002, -0.03]
    moved = [x + d for x, d in zip(ACCURATE, shift, strict=True)]
    noise = np.random.default_rng(1).normal(0.9, 0.02, (5, 8)).tolist()
    assert "after Holm's correction" not in clause(ACCURATE, moved)
    corrected = clause(ACCURATE, moved, *noise)
    assert corrected.startswith("no difference")
    assert corrected.endswith(" after Holm's correction)")


def test_equally_many_rounds_are_compared_in_cost_and_quality() -> None:
    figures = {"a": [2.0 * n for n in range(1, 9)], "b": [1.0 * n for n in range(1, 9)]}
    table, labels = costs(figures), {"a": "a", "b": "b"}
    said = answer(table, Target(), labels, rounds=rounds({"a": ACCURATE, "b": WORSE}))
    begin = "over the whole run, b takes 50 % less energy than a (the same in all 8 seeds); "
    assert said.startswith(f"{begin}b's test_accuracy at the end is 0.94 points lower (95 %")
    unknown = answer(table, Target(), labels, rounds=rounds({"a": [np.nan], "b": [np.nan]}))
    assert unknown == f"{begin}how good the models are was not measured"


def test_runs_that_stopped_at_a_target_are_not_compared_in_quality() -> None:
    def ended(*reasons: str, counts: Sequence[int] = (5, 5)) -> bool:
        return comparable(pd.DataFrame({"reason": reasons, "rounds": counts}))

    assert ended("rounds: 5 of 5", "rounds: 5 of 5")
    assert not ended("rounds: 5 of 5", "rounds: 7 of 7", counts=(5, 7))
    assert ended("energy: 10.1 J of 10 J", "energy: 10.3 J of 10 J", counts=(5, 7))
    assert not ended("rounds: 5 of 5", "gap: 0.1 is below 0.2")
    assert not ended("test_accuracy: 0.9 is at least 0.9", "test_accuracy: 0.9 is at least 0.9")


@pytest.mark.slow
def test_compare_prints_it_with_and_without_a_target(tmp_path: Path) -> None:
    variants = {"gd": {"algorithm": {"kind": "gd", "step_size": "0.5/L"}}}
    result = fedsim.run(small(seeds=2, variants=variants, stop={"rounds": 12}), out=tmp_path / "o")
    for options in ([], ["--target", "objective=1e9"]):
        said = CliRunner().invoke(app, ["compare", str(result.folder), *options])
        assert said.exit_code == 0, said.output
        assert "quality at the end: paired difference from base" in said.stdout
    written = json.loads(CliRunner().invoke(app, ["compare", str(result.folder), "--json"]).stdout)[
        "quality"
    ]
    last = result.summary.pivot_table(index="variant", columns="seed", values="gap")
    (found,) = [each for each in written if each["variant"] == "gd" and each["measure"] == "gap"]
    assert found["difference"] == pytest.approx((last.loc["gd"] - last.loc["base"]).mean())
    assert Comparison.of([result.folder / "gd"]).quality.empty


@pytest.mark.parametrize(
    ("seeds", "head"), [(3, "99 % intervals (as of fewer than 6 seeds)"), (6, "95 % intervals")]
)
def test_the_head_of_a_table_has_the_confidence_of_its_intervals(
    seeds: int, head: str, tmp_path: Path
) -> None:
    variants = {"a": {}, "b": {"wire": {"up": {"compressor": {"kind": "qsgd", "levels": 4}}}}}
    fedsim.run(small(seeds=seeds, variants=variants, stop={"rounds": 3}), out=tmp_path, check=False)
    titles = [str(table.title) for table in Comparison.of([tmp_path], [], None, 0.95).tables()]
    (quality_title,) = [title for title in titles if "quality at the end" in title]
    assert quality_title.endswith(f"; {head}")
