"""What the page says first: the measure that was asked for, and a tie where there is one."""

from pathlib import Path

import numpy as np
import pytest

import fedsim
from fedsim.core import table_columns as columns
from fedsim.results import report
from fedsim.results.analysis import Comparison, quantity
from fedsim.results.analysis.compare.answer import LEADING, answer
from fedsim.results.analysis.compare.verdict import judge
from fedsim.results.report import overview
from fedsim.results.report.study import ReportedStudy
from tests.results.report.conftest import captured
from tests.results.report.pages import Page
from tests.runs import small

LOGISTIC = {
    "loss": {"kind": "logistic", "l2": 0.1, "labels": "plus-minus"},
    "data": {"kind": "sklearn", "name": "breast-cancer", "preprocess": ["standardise"]},
    "split": {"kind": "iid"},
    "test": {"fraction": 0.2},
}


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory, own_cache: Path) -> Path:
    """Return runs that measure how many are classified rightly, two of them alike."""
    folder = tmp_path_factory.mktemp("measured")
    fedsim.run(
        small(
            problem=LOGISTIC,
            measures=["gradient_norm", "train_accuracy"],
            stop={"rounds": 12},
            variants={
                "twin": {"algorithm": {"censor": 0.1}},
                "gd": {"algorithm": {"kind": "gd", "step_size": "1/L"}},
            },
        ),
        out=folder,
    )
    return folder


def sentences(study: ReportedStudy) -> list[str]:
    """Return the sentences at the top of a page."""
    return [each.text for each in overview.answers(study)]


@pytest.mark.slow
def test_the_measure_that_was_asked_for_is_in_front(measured: Path, tmp_path: Path) -> None:
    with captured() as drawn:
        page = Page(report.write(measured, tmp_path / "a.html", ("train_accuracy=0.9",)))
    assert page.options["which-measure"][0] == "train_accuracy"
    assert (
        'aria-label="train accuracy against bits, up and down"'
        in page.figures["overview-bits"][""].drawing
    )
    axis = drawn["curves-0-bits"]
    assert axis.get_yscale() == "linear"
    (level,) = (line for line in axis.get_lines() if line.get_linestyle() == ":")
    assert np.unique(np.asarray(level.get_ydata())).tolist() == [0.9]
    heads = page.tables["Cost to train_accuracy of at least 0.9"][0]
    # Time and energy come first, so that a narrow screen shows them.
    assert heads[:4] == ["variant", "time", "energy", "rounds"]
    assert heads[4:6] == ["reached", "train accuracy at the end"]
    assert "beacons" not in heads  # no variant has sent any


@pytest.mark.slow
def test_without_a_target_it_is_what_the_scenario_measures(measured: Path, tmp_path: Path) -> None:
    page = Page(report.write(measured, tmp_path / "a.html"))
    assert page.options["which-measure"] == ["gradient_norm", "train_accuracy", "gap", "objective"]
    assert "gradient norm at the end" in page.tables["Cost of the whole run"][0]


def test_the_best_end_is_the_highest_where_that_is_better(measured: Path) -> None:
    study = ReportedStudy(Comparison.of([measured], ("train_accuracy=1",)))
    rounds = study.rounds
    ends = rounds[rounds["round"] == 12].groupby("variant", sort=False)["train_accuracy"].mean()
    (said,) = sentences(study)
    best = [study.labels[str(name)] for name in ends.index[ends == ends.max()]]
    assert f"The highest train accuracy at the end is {ends.max():.3g}, that of" in said
    assert all(name in said for name in best)


@pytest.mark.slow
def test_a_single_variant_is_told_and_not_compared(measured: Path, tmp_path: Path) -> None:
    study = ReportedStudy(Comparison.of([measured / "gd"]))
    (row,) = study.comparison.cases[0].table.to_dict("records")
    (said,) = sentences(study)
    assert said.startswith("Cost of the whole run: 12 rounds, ")
    for cost, unit in (("bits", "bit"), ("t", "s"), ("joules", "J")):
        assert quantity(row[cost], unit) in said
    page = Page(report.write(measured / "gd", tmp_path / "gd.html"))
    assert "gradient norm at the end is" in page.text
    assert "breast-cancer, 1 variant, 1 run under seed 1, 5 clients" in page.text
    assert page.words("Cost of the whole run", "variant") == [study.labels["gd"]]


def test_what_costs_the_same_is_said_to_do_so(measured: Path) -> None:
    labels = ReportedStudy(Comparison.of([measured])).labels
    both = f"{labels['base']} and {labels['twin']}"
    said = sentences(ReportedStudy(Comparison.of([measured])))
    assert said[0].startswith("The lowest gradient norm at the end is")
    assert "the whole run" in said[1]  # equally many rounds: costs, and then the quality
    assert " at the end " in said[1]
    labels_ = {name: labels[name] for name in ("base", "twin")}
    (case,) = Comparison.of([measured], ("train_accuracy=0.9",)).cases
    assert f"{both} take the same energy" in answer(case.costs, case.target, labels_)


def test_verdicts_of_the_page_are_those_of_the_comparison(study: ReportedStudy) -> None:
    (case, _) = study.comparison.cases
    table = list(overview.tables(study))[1]
    pairs = case.pairs[case.pairs["cost"].isin(columns.RANKED) & (case.pairs["seeds"] > 0)]
    verdict = table.heads.index("verdict")
    assert [row[verdict].text for row in table.rows] == pairs["verdict"].tolist()
    ratio = table.heads.index("ratio")
    assert [row[ratio].value for row in table.rows] == pairs["ratio"].tolist()


def test_sentences_follow_the_verdicts(study: ReportedStudy) -> None:
    (case, _) = study.comparison.cases
    said = [next(overview.answers(study)).text, *overview.further_answers(study)]
    assert said[0].startswith(study.comparison.answers[0])  # it begins with the name of a variant
    for cost, sentence in zip(("joules", "t", "bits", "round"), said, strict=False):
        first, second, *_ = case.decisions.rank(cost)
        names = study.labels[first], study.labels[second]
        verdict = judge(case.decisions.pair(first, second, cost))
        wanted = verdict.sentence(names, LEADING[cost], case.target.goal)
        assert sentence[1:] == f"{wanted[1:]}."
        begins_with_name = wanted.startswith(tuple(study.labels.values()))
        assert sentence[0] == (wanted[0] if begins_with_name else wanted[0].upper())
