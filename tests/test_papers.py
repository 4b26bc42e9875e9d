"""The papers as data: files, rules and the page are held together, and every row runs, reduced.

The rule of states is held by laws: a number that is off makes another state.
"""

import math
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from pydantic import ValidationError

import fedsim
from tests.conftest import ROOT
from tests.scripts import script
from tests.stand_ins import STAND_INS
from tests.tiers import every

sys.path.insert(0, str(ROOT / "analysis/papers"))  # as for the script that is run there
command = script("papers/run")
drawing, functions, measures, model, page, states = (
    sys.modules[f"reproduction.{name}"]
    for name in ("drawing", "functions", "measures", "model", "page", "states")
)
sys.path.remove(str(ROOT / "analysis/papers"))

PAPERS = {name: model.read(model.FOLDER / f"{name}.yaml") for name in model.names()}
KEPT = {name: measures.load(name) for name in PAPERS}
ROWS = [(name, key) for name, paper in PAPERS.items() for key in paper.every]

each_row = every(("paper", "key"), ROWS)


# -- the files -------------------------------------------------------------------------


def test_every_file_is_listed_and_has_a_place_in_the_order_of_the_page() -> None:
    assert {file.stem for file in model.FOLDER.glob("*.yaml")} <= set(model.ORDER)


@each_row
def test_a_row_names_variants_axes_and_scenarios_that_there_are(paper: str, key: str) -> None:
    row = PAPERS[paper].every[key]
    for setting in row.settings():
        assert setting.scenario.is_file()
        if setting.overrides or row.needs:
            continue  # variants may be those of the overrides, and data a file of the user's
        plan = fedsim.load(setting.scenario)
        assert set(setting.labels) <= {variant.name for variant in plan.variants}
    assert len(set(row.names())) == len(row.names())
    assert not row.prepared or row.prepared in functions.PREPARED
    assert not row.reduced.stand_in or row.reduced.stand_in in STAND_INS
    for measure in row.measures.values():
        assert not measure.function or measure.function in functions.MEASURES
    for figure in row.figures.values():
        assert figure.kind in drawing.DRAWN


@each_row
def test_a_row_claims_what_can_be_decided(paper: str, key: str) -> None:
    """Every row has a check; expressions name numbers that there are, and so do published ones."""
    row = PAPERS[paper].every[key]
    numbers = dict.fromkeys(row.names(), math.nan)
    for check in (*row.checks.values(), *row.cross_checks.values()):
        states.evaluate(check.holds, numbers)
    lines = {name.rpartition(model.SEPARATOR)[0] for name in numbers}
    assert {*row.published, *row.checked} <= lines
    for source in model.SOURCES:
        for line in row.lines(source):
            assert set(row.values(line, source)) <= set(row.measures)
    assert set(row.tolerance) <= set(row.measures)
    assert set(row.reduced.holds) <= set(row.checks)
    if key in PAPERS[paper].rows:
        assert row.checks or (row.tolerance and row.published)
        assert row.stated
    else:
        assert not row.concludes
        assert not row.published  # what is beyond a paper it does not print


@each_row
def test_what_is_kept_is_of_the_row_as_it_is(paper: str, key: str) -> None:
    row, found = PAPERS[paper].every[key], KEPT[paper].get(key)
    if found is None:
        return  # not run here, which the page says
    assert set(found.numbers) <= set(row.names())
    assert found.numbers
    assert found.setting


def test_nothing_is_kept_of_rows_that_there_are_no_more() -> None:
    assert {file.stem for file in measures.RESULTS.glob("*.json")} <= set(PAPERS)
    for name, found in KEPT.items():
        assert set(found) <= set(PAPERS[name].every)


def test_every_scenario_of_papers_is_in_a_row() -> None:
    every = [PAPERS[name].every[key] for name, key in ROWS]
    named = {setting.scenario.stem for row in every for setting in row.settings()}
    assert named == {file.stem for file in model.SCENARIOS.glob("*.yaml")}


def test_the_page_is_up_to_date() -> None:
    """Otherwise: python analysis/papers/run.py --page."""
    assert page.PAGE.read_text(encoding="utf-8") == page.page()


def test_links_of_the_page_lead_to_its_headings() -> None:
    text = page.PAGE.read_text(encoding="utf-8")
    heads = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    anchors = [re.sub(r"[^\w-]", "", head.lower().replace(" ", "-")) for head in heads]
    assert len(set(anchors)) == len(anchors)
    assert set(re.findall(r"\]\(#([^)]+)\)", text)) <= set(anchors)


def test_states_by_paper_are_those_of_the_rows_on_the_page() -> None:
    """Each row of the page, counted by what it says of itself."""
    text = page.PAGE.read_text(encoding="utf-8").partition("\nBeyond the papers:\n")[0]
    said = re.findall(
        r"^\| \[([^,]+), [^]]+\]\([^)]*\) \| ([^|:]+?)(?::[^|]*)? \|", text, re.MULTILINE
    )
    assert len(said) == sum(len(paper.rows) for paper in PAPERS.values() if paper.before)
    for paper in filter(lambda paper: paper.before, PAPERS.values()):
        (line,) = re.findall(rf"^\| {paper.name} \| (.+) \|$", text, re.MULTILINE)
        cells = [int(cell) for cell in line.split("|")]
        both, later = cells[: 2 * len(page.STATES)], cells[2 * len(page.STATES) :]
        assert tuple(both[::2]) == paper.before
        assert both[1::2] == [said.count((paper.name, each)) for each in page.STATES]
        assert later == [said.count((paper.name, each)) for each in page.LATER]
        assert sum(both[1::2]) + sum(later) == len(paper.rows)


# -- states ----------------------------------------------------------------------------


def row_of(**changed: Any) -> Any:
    """Return a row of two methods, with a published number and two claims."""
    written = {
        "place": "Table 1",
        "claim": "A needs less than B.",
        "scenario": "chb-synthetic-linear",
        "variants": {"base": "A", "hb": "B"},
        "measures": {"rounds": {"column": "round"}, "bits": {"column": "bits"}},
        "published": {"A": [10, None], "B": {"rounds": 20}},
        "tolerance": {"rounds": 1},
        "checks": {
            "A needs fewer": "[A | rounds] < [B | rounds]",
            "half": {"holds": "[A | rounds] <= 0.6 * [B | rounds]", "seeds": "mean"},
        },
    }
    return model.Row.model_validate(written | changed)


GOOD: Mapping[str, Sequence[float]] = {"A | rounds": [10, 11], "B | rounds": [20, 20]}


def state_of(numbers: Mapping[str, Sequence[float]], **changed: Any) -> str:
    """Return the state of that row."""
    row = row_of(**changed)
    return str(states.state(row, states.verdicts(row, numbers)))


def test_a_row_is_reproduced_if_all_of_it_holds() -> None:
    assert state_of(GOOD) == "reproduced"


@every(
    "off",
    [
        {"A | rounds": [12, 12]},  # published 10, tolerance 1
        {"B | rounds": [22, 22]},
        {"A | rounds": [10, 20], "B | rounds": [20, 20]},  # not fewer under one seed
        {"A | rounds": [math.nan, 10]},  # it does not get there
    ],
)
def test_a_number_that_is_off_makes_it_in_part(off: Mapping[str, Sequence[float]]) -> None:
    assert state_of({**GOOD, **off}) == "in part"


def test_a_row_of_which_nothing_holds_does_not_reproduce() -> None:
    assert state_of({"A | rounds": [50, 50], "B | rounds": [40, 40]}) == "does not reproduce"


def test_without_numbers_a_row_is_not_run() -> None:
    for changed in ({}, {"substitute": "other data"}, {"concludes": False}):
        assert states.state(row_of(**changed), None) == "not run here"


@pytest.mark.parametrize("numbers", [GOOD, {"A | rounds": [50, 50], "B | rounds": [40, 40]}])
def test_only_the_papers_data_and_conclusion_can_be_reproduced(
    numbers: Mapping[str, Sequence[float]],
) -> None:
    """However the checks of a row on other data, or without a conclusion, turn out."""
    assert state_of(numbers, substitute="other data") == "substitute data"
    assert state_of(numbers, concludes=False) == "checked"
    assert state_of(numbers, concludes=False, substitute="other data") == "checked"


CROSSED = {"cross_checks": {"A has 99": "[A | rounds] == 99"}, "checked": {"A": [99]}}


def test_a_computation_of_ours_decides_no_conclusion_of_a_paper() -> None:
    row = row_of(**CROSSED)
    found = states.verdicts(row, GOOD)
    assert [each.text for each in found if each.ours] == ["A: rounds", "A has 99"]
    assert not any(each.holds for each in found if each.ours)
    assert states.summary(row, found) == "reproduced"
    bad = {"A | rounds": [99, 99], "B | rounds": [40, 40]}
    assert states.summary(row, states.verdicts(row, bad)) == "does not reproduce: 0 of 4 checks"
    row = row_of(**CROSSED, concludes=False)
    assert states.summary(row, states.verdicts(row, GOOD)) == "checked: 4 of 6 checks"


def test_a_row_beyond_a_paper_is_checked() -> None:
    written = row_of().model_dump(exclude_unset=True)
    paper = model.Paper(
        name="P", title="P", source="P", rows={"a": written}, further={"b": written}
    )
    assert [row.concludes for row in paper.every.values()] == [True, False]


def test_a_claim_may_be_of_the_mean_or_of_some_seeds() -> None:
    numbers = {"A | rounds": [10, 30, 10], "B | rounds": [20, 20, 20]}
    for seeds, held in ((1, True), (2, True), (3, False), ("each", False), ("mean", True)):
        check = model.Check(holds="[A | rounds] < [B | rounds]", seeds=seeds)
        assert states.decide("fewer", check, numbers).holds is held
    check = model.Check(holds="[A | rounds] < [B | rounds]")
    assert states.decide("fewer", check, numbers).seen == "2 of 3 seeds"


@every(
    ("expression", "value"),
    [
        ("[a | A | x] + 2 * [b | A | x]", 11),
        ("min([* | A | x])", 3),
        ("max([b | * | x])", 5),
        ("count([* | x])", 3),
        ("log([a | A | x]) / log(3)", 1),
        ("abs(-[a | A | x]) ** 2", 9),
        ("2 < [a | A | x] <= 3 and not missing([a | A | x])", True),
        ("missing([b | A | y])", True),
        ("[b | A | y] < 1 or [b | A | y] >= 1", False),
        ("[a | A | x] / 0 > 1e300", True),
    ],
)
def test_expressions_are_arithmetic(expression: str, value: float) -> None:
    numbers = {"a | A | x": 3.0, "b | A | x": 4.0, "b | B | x": 5.0, "b | A | y": math.nan}
    assert states.evaluate(expression, numbers) == pytest.approx(value)


@every(
    ("expression", "told"),
    [
        ("[A | y] < 1", r"got \[A \| y\], expected one of A \| x"),
        ("[A | x] <", "expected a condition"),
        ("open('x')", "expected numbers and signs"),
        ("[A | x].real", "expected numbers and signs"),
        ("__import__", "expected numbers and signs"),
    ],
)
def test_what_is_no_expression_is_refused(expression: str, told: str) -> None:
    with pytest.raises(ValueError, match=told):
        states.evaluate(expression, {"A | x": 1.0})


@pytest.mark.parametrize(
    "changed",
    [
        {"state": "reproduced"},
        {"measures": {"rounds": {"column": "round", "function": "in-order"}}},
        {"measures": {"rounds": {"column": "round", "at": {"column": "gap"}}}},
    ],
)
def test_a_file_of_another_form_is_refused(changed: Mapping[str, Any]) -> None:
    with pytest.raises(ValidationError):
        row_of(**changed)


# -- numbers ---------------------------------------------------------------------------


@pytest.fixture(scope="module")
def linear(tmp_path_factory: pytest.TempPathFactory) -> fedsim.Result:
    """Return synthetic linear regression under two seeds."""
    file, out = model.SCENARIOS / "chb-synthetic-linear.yaml", tmp_path_factory.mktemp("linear")
    with pytest.warns(fedsim.TheoryWarning):
        return fedsim.run(file, out=out, overrides=["seeds=2"])


def taken(result: fedsim.Result, **measure: Any) -> dict[str, list[float]]:
    """Return a measure's values by variant."""
    labels = {name: name for name in result.summary["variant"].unique()}
    row = row_of(variants=labels, measures={"x": measure}, published={}, tolerance={}, checks={})
    (setting,) = row.settings()
    _, numbers, _ = measures.take(row, setting, [result])
    return {name.partition(" | ")[0]: list(values) for name, values in numbers.items()}


@pytest.mark.slow
def test_costs_are_added_up_until_the_target(linear: fedsim.Result) -> None:
    summary, rounds = linear.summary, linear.rounds
    for column in ("transmissions", "bits", "joules"):
        found = taken(linear, column=column, at="target")
        for (variant, seed), own in rounds.groupby(["variant", "seed"], observed=True):
            level = summary["target"].max()
            until = own[: int(np.argmax(own["gap"] < level)) + 1]
            cost = until["bits_up"] + until["bits_down"] if column == "bits" else until[column]
            after = until["joules_after"].iloc[-1] if column == "joules" else 0.0
            assert found[str(variant)][int(str(seed)) - 1] == pytest.approx(cost.sum() + after)


def test_a_value_is_of_the_end_of_a_round_or_of_where_a_level_is_reached(
    linear: fedsim.Result,
) -> None:
    rounds = linear.rounds
    own = rounds[(rounds["variant"] == "gd") & (rounds["seed"] == 1)]
    ends, third = own["objective"].iloc[-1], own["objective"].iloc[3]
    assert taken(linear, column="objective")["gd"][0] == ends
    assert taken(linear, column="objective", at=3)["gd"][0] == third
    squared = taken(linear, column="objective", at=3, power=2, minus=1)["gd"][0]
    assert squared == pytest.approx(third**2 - 1)
    there = taken(linear, column="round", at={"column": "objective", "level": third})
    assert there["gd"][0] == 3
    assert math.isnan(taken(linear, column="objective", at=10**6)["gd"][0])
    total = taken(linear, column="cohort", total=True)["gd"][0]
    assert total == own["cohort"].sum()
    worst = taken(linear, column="round", at={"column": "objective", "end_of": "worst"})
    last = rounds.drop_duplicates(["variant", "seed"], keep="last")["objective"].max()
    assert worst["gd"][0] == int(own["round"][own["objective"] <= last].iloc[0])


@pytest.fixture
def ends(monkeypatch: pytest.MonkeyPatch) -> dict[Path, float | None]:
    """Let the numbers of a run be what is in this table by its folder; None for no round."""
    table: dict[Path, float | None] = {}

    def values(_: Any, result: fedsim.Result, *__: Any) -> dict[str, pd.Series]:
        return {
            run.parent.name: pd.Series([table[run]], index=[1])
            for run in result.runs
            if table[run] is not None
        }

    def summary(result: fedsim.Result) -> pd.DataFrame:
        return pd.DataFrame({"variant": [run.parent.name for run in result.runs], "seed": 1})

    monkeypatch.setattr(measures, "_values", values)
    monkeypatch.setattr(fedsim.Result, "summary", property(summary))
    return table


def tried_results(ends: dict[Path, float | None], *trials: Mapping[str, float | None]) -> list[Any]:
    """Return results whose runs end at these objectives: a mapping a trial."""
    results = []
    for number, own in enumerate(trials):
        runs = {Path(f"{number}/{name}/seed-1"): end for name, end in own.items()}
        ends.update(runs)
        results.append(fedsim.Result(Path(f"{number}"), tuple(runs)))
    return results


def test_logarithmic_costs_begin_where_the_curves_do(linear: fedsim.Result) -> None:
    """A logarithmic axis from 0 on would put all curves at its end."""
    figure = {"title": "T", "column": "objective", "log_costs": True, "against": ["round", "bits"]}
    row = row_of(figures={"f": figure}, published={}, tolerance={}, checks={})
    drawn = drawing.draw(row.figures["f"], row, {"": linear}, measures.Found({}))
    for axis in drawn.axes:
        least, most = axis.get_xlim()
        every = np.concatenate([line.get_xdata() for line in axis.lines])
        assert axis.get_xscale() == "log"
        assert (least, most) == pytest.approx((every[every > 0].min(), every.max()))


def test_several_columns_have_a_panel_each(linear: fedsim.Result) -> None:
    columns = {"gap": "error", "transmissions": "sent", "objective": "value"}
    figure = {"kind": "columns", "columns": columns, "given": {"linear": ["transmissions"]}}
    row = row_of(figures={"f": figure}, published={}, tolerance={}, checks={})
    drawn = drawing.draw(row.figures["f"], row, {"": linear}, measures.Found({}))
    assert [axis.get_yscale() for axis in drawn.axes] == ["log", "linear", "log"]
    rounds = linear.rounds[linear.rounds["variant"] == "base"]
    for axis, column in zip(drawn.axes, ("gap", "transmissions", "objective"), strict=True):
        curve = axis.lines[0].get_ydata()  # of a variant: the start's values, averaged
        first = rounds[rounds["round"] == 0][column]
        middle = first.mean() if column == "transmissions" else np.exp(np.log(first).mean())
        assert curve[0] == pytest.approx(middle)
        assert len(axis.lines) == 2


def test_of_what_is_tried_the_best_is_taken(ends: dict[Path, float | None]) -> None:
    """Of each variant apart; what does not get there is the worst."""
    row = row_of(best="rounds", cases={"": {"tried": ["algorithm.k=1", "algorithm.k=2"]}})
    (setting,) = row.settings()
    results = tried_results(ends, {"base": 5.0, "hb": None}, {"base": 7.0, "hb": 9.0})
    chosen, _, best = measures.take(row, setting, results)
    assert chosen.runs == (Path("0/base/seed-1"), Path("1/hb/seed-1"))
    assert best == {"A": "1", "B": "2"}


def test_of_a_search_and_of_variants_that_share_a_label_the_best_is_taken(
    ends: dict[Path, float | None],
) -> None:
    case = {"search": {"k": [1, 2]}, "variants": {"base": "A", "hb": "B", "gd": "B"}}
    row = row_of(best="rounds", cases={"": case})
    (setting,) = row.settings()
    assert len(row.names()) == len(set(row.names()))
    ended = {"base": 5.0, "base-1": 6.0, "hb-0": 4.0, "hb-1": 3.5, "gd-0": 8.0, "gd-1": 3.0}
    chosen, _, best = measures.take(row, setting, tried_results(ends, ended))
    assert chosen.runs == (Path("0/base/seed-1"), Path("0/gd-1/seed-1"))
    assert chosen.names == {"base": "base", "gd-1": "gd"}
    assert best == {"A": "k 1", "B": "gd, k 2"}


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::fedsim.core.errors.TheoryWarning")
def test_a_search_is_what_the_scenario_does_with_each_value_by_itself(tmp_path: Path) -> None:
    """The best of three steps ends where its own run ends, under the row's name and label."""
    case = {"set": ["seeds=1", "stop.rounds=8"], "search": {"step_size": [0.01, 0.1, 0.001]}}
    measured = {"end": {"function": "value"}, "there": {"column": "round", "at": END_OF_BASE}}
    row = row_of(best="end", cases={"": case}, measures=measured, published={}, tolerance={})
    found, results = command.measure(row, tmp_path / "search")
    for name, label in row.variants.items():
        alone = []
        for step in (0.01, 0.1, 0.001):
            own = [f"algorithm={{kind: {KINDS[name]}, step_size: {step}}}", "variants={}"]
            result = fedsim.run(
                model.SCENARIOS / f"{row.scenario}.yaml",
                out=tmp_path / f"{name}-{step}",
                overrides=["seeds=1", "stop.rounds=8", *own],
            )
            ended = result.rounds["round"].max() == 8
            alone.append(result.rounds["objective"].iloc[-1] if ended else math.inf)
        assert found.numbers[f"{label} | end"] == [pytest.approx(min(alone))]
        assert found.tried[label] == f"step_size {(0.01, 0.1, 0.001)[int(np.argmin(alone))]}"
    assert set(results[""].rounds["variant"]) == {"base", "hb"}
    assert found.numbers["A | there"] == [8]


END_OF_BASE = {"column": "objective", "end_of": "base"}
KINDS = {"base": "chb", "hb": "hb"}


def test_axes_make_a_case_of_each_combination() -> None:
    vary = {"rate": [0.1, 0.2], "kappa": [{"kappa": 64, "l2": 0.1}, {"kappa": 630, "l2": 0.01}]}
    case = {"vary": vary, "set": ["algorithm.step_size=$rate", "problem.loss.l2=$l2"]}
    found = row_of(cases={"$rate, $kappa": case}).settings()
    assert [each.name for each in found] == ["0.1, 64", "0.1, 630", "0.2, 64", "0.2, 630"]
    assert found[1].overrides == ("algorithm.step_size=0.1", "problem.loss.l2=0.01")
    assert found[1].fields == {"rate": 0.1, "kappa": 630, "l2": 0.01}


def test_what_is_kept_is_read_back(tmp_path: Path) -> None:
    numbers = {"A | x": [1.0, math.nan, math.inf], "A | y": [0.123456789]}
    kept = measures.Found(numbers, "a fleet", {"A": "1/L"}, 12.0)
    measures.store("some", {"row": kept}, tmp_path)
    found = measures.load("some", tmp_path)["row"]
    assert found.setting == "a fleet"
    assert (found.tried, found.seconds) == ({"A": "1/L"}, 12)
    assert found.numbers["A | x"][0] == 1
    assert math.isnan(found.numbers["A | x"][1])
    assert found.numbers["A | x"][2] == math.inf
    assert found.numbers["A | y"][0] == pytest.approx(0.123456789, rel=1e-6)


def test_a_table_has_published_beside_measured() -> None:
    heads, cells = page.table(row_of(), measures.Found({**GOOD, "A | bits": [1e6, 2e6]}))
    assert heads == ["", "rounds, published", "measured", "bits"]
    first = ["A", "10", "10.5 (10 to 11)", "1.5e+06 (1e+06 to 2e+06)"]
    assert cells == [first, ["B", "20", "20", ""]]


def test_what_is_not_published_is_in_no_column_of_that_name() -> None:
    row = row_of(checked={"A": {"rounds": 11, "bits": 12}})
    heads, cells = page.table(row, measures.Found({**GOOD, "A | bits": [13]}))
    assert heads == ["", "rounds, published", "checked", "measured", "bits, checked", "measured"]
    assert cells[0] == ["A", "10", "11", "10.5 (10 to 11)", "12", "13"]
    assert cells[1] == ["B", "20", "", "20", "", ""]
    heads, _ = page.table(row_of(published={}, checked={"A": [11]}), measures.Found(GOOD))
    assert heads == ["", "rounds, checked", "measured", "bits"]


# -- the rows --------------------------------------------------------------------------


def reduced() -> Iterator[Any]:
    """Yield the rows; those that take long are slow."""
    for paper, key in ROWS:
        quick = PAPERS[paper].every[key].reduced.quick
        yield pytest.param(paper, key, marks=() if quick else pytest.mark.slow)


def given(row: Any) -> Any:
    """Return a row whose functions and figures are given what its reduced form has instead."""

    def changed(parts: Mapping[str, Any]) -> dict[str, Any]:
        own = row.reduced.given
        return {
            name: part.model_copy(
                update={"given": {key: own.get(key, each) for key, each in part.given.items()}}
            )
            for name, part in parts.items()
        }

    update = {"measures": changed(row.measures), "figures": changed(row.figures)}
    return row.model_copy(update=update)


@pytest.mark.slow
@pytest.mark.parametrize(("paper", "key"), list(reduced()))
def test_every_row_runs_in_a_reduced_form(
    paper: str,
    key: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    request: pytest.FixtureRequest,
) -> None:
    row = given(PAPERS[paper].every[key])
    if row.data and not row.reduced.stand_in:
        request.getfixturevalue("real_data")
    if row.reduced.stand_in:
        STAND_INS[row.reduced.stand_in](tmp_path / "data")
        monkeypatch.setenv("FEDSIM_DATA", str(tmp_path / "data"))
    cases = row.reduced.cases
    own = row.reduced
    found, results = command.measure(row, tmp_path / "runs", own.set, cases, own.search)
    settings = row.settings()[: cases or None]
    assert list(results) == [setting.name for setting in settings]
    expected = {
        model.SEPARATOR.join(filter(None, (setting.name, label, measure)))
        for setting in settings
        for label in setting.labels.values()
        for measure in row.measures
    }
    assert set(found.numbers) == expected
    for text in row.reduced.holds:
        assert states.decide(text, row.checks[text], found.numbers).holds, text
    heads, cells = page.table(row, found)
    assert all(len(line) == len(heads) for line in cells)
    for name, figure in row.figures.items():
        if not figure.case or figure.case in results:
            drawing.draw(figure, row, results, found).savefig(tmp_path / f"{name}.png")


# -- the command -----------------------------------------------------------------------


@pytest.fixture
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Let the command keep what it finds in another folder."""
    stored, written = measures.store, page.write
    monkeypatch.setattr(command, "FIGURES", tmp_path)
    monkeypatch.setattr(measures, "store", lambda paper, found: stored(paper, found, tmp_path))
    monkeypatch.setattr(measures, "load", lambda *_: {})
    monkeypatch.setattr(page, "write", lambda: written(tmp_path / "README.md"))
    return tmp_path


def short(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the paper's one row be of one seed and a large gap."""
    row = PAPERS["chb"].rows["figure-2"]
    case = model.Case(set=("seeds=1", "stop.gap=1"))
    paper = PAPERS["chb"].model_copy(
        update={"rows": {"figure-2": row.model_copy(update={"cases": {"": case}})}, "further": {}}
    )
    monkeypatch.setattr(model, "read", lambda _: paper)


def test_the_command_prints_a_row_and_keeps_it(
    elsewhere: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    short(monkeypatch)
    command.main(["chb", "--out", str(elsewhere / "runs")])
    printed = capsys.readouterr().out
    assert "yes CHB needs fewer iterations than LAG" in printed
    assert (elsewhere / "chb-synthetic-linear.png").read_bytes().startswith(b"\x89PNG")
    assert (elsewhere / "README.md").exists()
    assert '"figure-2"' in (elsewhere / "chb.json").read_text()


def test_with_other_settings_nothing_is_kept(
    elsewhere: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    short(monkeypatch)
    command.main(["chb", "figure-2", "--set", "stop.rounds=2", "--seeds", "2"])
    assert "NO  CHB needs the fewest transmissions (0 of 2 seeds)" in capsys.readouterr().out
    assert list(elsewhere.iterdir()) == []


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["no-such"], "got the paper 'no-such', expected one of chb"),
        ([], "got the paper ''"),
        (["chb", "figure-99"], "got the row 'figure-99', expected one of figure-1"),
    ],
)
def test_a_paper_or_row_that_there_is_not_is_refused(
    arguments: list[str], told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        command.main(arguments)
    assert ended.value.code == 2
    assert told in capsys.readouterr().err


def test_a_row_without_its_data_is_said_in_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FEDSIM_DATA", str(tmp_path))
    monkeypatch.setenv("FEDSIM_CACHE", str(tmp_path))
    with pytest.raises(SystemExit, match="fedsim fetch ijcnn1"):
        command.main(["chb", "table-1-linear"])


def test_a_time_is_not_lost_where_runs_were_there_already(
    elsewhere: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    row = PAPERS["chb"].rows["figure-2"]
    before = replace(KEPT["chb"]["figure-2"], seconds=77.0)
    monkeypatch.setattr(measures, "load", lambda *_: {"figure-2": before})
    again = replace(before, seconds=math.nan)
    command.keep("chb", "figure-2", row.model_copy(update={"figures": {}}), again, {})
    assert '"seconds": 77' in (elsewhere / "chb.json").read_text()


@pytest.mark.filterwarnings("ignore::fedsim.TheoryWarning")
def test_a_row_is_timed_where_its_cases_share_runs_and_not_where_runs_were_there(
    tmp_path: Path,
) -> None:
    case = {"set": ["seeds=1", "stop.rounds=2"]}
    row = row_of(cases={"one": case, "same": case}, published={}, tolerance={}, checks={})
    assert command.measure(row, tmp_path)[0].seconds > 0
    assert math.isnan(command.measure(row, tmp_path)[0].seconds)


# -- the functions ---------------------------------------------------------------------


def test_workers_transmit_as_the_round_table_counts(tmp_path: Path) -> None:
    file = model.SCENARIOS / "chb-synthetic-linear.yaml"
    with pytest.warns(fedsim.TheoryWarning):
        result = fedsim.run(file, out=tmp_path, overrides=["seeds=1"])
    row = PAPERS["chb"].rows["figure-1"]
    assert functions.constants(row) == pytest.approx(1.69 ** np.arange(9))
    for variant in ("base", "hb", "lag"):
        own = result.rounds[result.rounds["variant"] == variant]
        sent = functions.transmitting(result, variant, 1)
        assert sent.sum(axis=1).tolist() == own["transmissions"].tolist()[1:]
    # Lemma 2, from the log: a flat worker never transmits twice in a row.
    (eps1,) = result.summary.set_index("variant").loc[["base"], "parameters.eps1"]
    flat = functions.constants(row) ** 2 <= eps1
    own = functions.transmitting(result, "base", 1)[:, flat]
    assert flat.sum() == 3
    assert not (own[1:] * own[:-1]).any()
    assert functions.flat_workers(result, row)["base"].tolist() == [3]


@pytest.mark.parametrize(
    ("sent", "over"),
    [([1, 0, 1, 0], 0), ([1, 1, 0, 0], 1), ([0, 0, 1, 1], 0), ([1, 1, 1, 1], 2), ([0] * 4, -1)],
)
def test_half_of_the_iterations_is_counted_from_the_first(
    sent: list[int], over: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = np.array([sent], dtype=float).T
    monkeypatch.setattr(functions, "transmitting", lambda *_: table)
    monkeypatch.setattr(functions, "constants", lambda _: np.array([1.0]))
    summary = pd.DataFrame({"variant": ["base"], "seed": [1], "parameters.eps1": [1.0]})
    result: Any = type("Result", (), {"summary": summary})
    assert functions.most_of_half(result, None)["base"].tolist() == [over]


@pytest.mark.slow
def test_few_rows_have_the_loss_of_all(real_data: Path, tmp_path: Path) -> None:
    """At random models, worker by worker, the losses of MNIST and of its triangles agree."""
    if not (real_data / "mnist").is_dir():
        pytest.skip(f"no mnist in {real_data}")
    data, _ = functions.triangles(tmp_path)
    few = np.load(data.rpartition("path: ")[2].removesuffix("}"))
    plan = fedsim.load(model.SCENARIOS / f"{functions.MNIST}.yaml")
    source = plan.variants[0].scenario.problem.data
    assert source is not None
    samples = source.load(real_data, np.random.default_rng())
    models = np.random.default_rng(1).standard_normal((3, 784))
    for worker in (0, 8):
        rows = slice(6666 * worker, 6666 * (worker + 1))
        X, y = (few[name][few["client"] == worker] for name in ("X", "y"))
        assert X.shape == (785, 784)
        for w in models:
            whole = np.sum((samples.X[rows] @ w - samples.y[rows]) ** 2)
            assert np.sum((X @ w - y) ** 2) == pytest.approx(whole, rel=1e-10)
