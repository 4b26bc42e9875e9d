"""Which claims survive: verdicts in closed form, and every claim asked in a reduced form."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest

import fedsim
from fedsim.results.analysis.compare.pairwise import Pairwise
from tests.conftest import ROOT
from tests.scripts import script
from tests.tiers import every

pytestmark = pytest.mark.filterwarnings("ignore::fedsim.TheoryWarning")

sys.path.insert(0, str(ROOT / "analysis"))  # as for a script that is run there
command = script("claims")
papers, page, figure, explanations, probabilities, verdicts, worlds, costs, settings = (
    sys.modules[f"claim_checks.{name}"]
    for name in (
        "papers",
        "page",
        "figure",
        "explanations",
        "probabilities",
        "verdicts",
        "worlds",
        "costs",
        "settings",
    )
)
measures, model = sys.modules["reproduction.measures"], sys.modules["reproduction.model"]
stages = script("claim_stages")
sys.path.remove(str(ROOT / "analysis"))

PAPERS = {name: model.read(model.FOLDER / f"{name}.yaml") for name in model.names()}
CLAIMS = [
    pytest.param(experiment, claim, id=f"{key}-{number}")
    for key, experiment in papers.EXPERIMENTS.items()
    for number, claim in enumerate(experiment.claims)
]


@every(
    ("ratios", "verdict"),
    [
        ([3.0], "survives"),
        ([1.01], "tie"),
        ([0.5, 0.5], "reversed"),  # alike in all seeds
        ([0.5, 0.6], "undecided"),  # two seeds that differ are too few to tell
        ([0.5, 0.51, 0.49, 0.52, 0.5, 0.48], "reversed"),
        ([0.9, 4.0, 4.0], "undecided"),
        ([2.0, float("nan")], "not reached"),  # the better one never gets there
        ([float("inf")], "survives"),  # the other one does not
        ([2.0, float("inf")], "undecided"),  # once is too few seeds to tell
        ([], "not reached"),
    ],
)
def test_what_ratios_of_seeds_come_to(ratios: list[float], verdict: str) -> None:
    assert verdicts.Cell.of(ratios).verdict == verdict


def test_ratios_are_judged_as_compare_judges_costs() -> None:
    logs = np.array([0.1, 0.4, 0.3, 0.7, 0.2, 0.5, 0.3])
    cell = verdicts.Cell.of(np.exp(logs).tolist())
    pair = Pairwise.of(np.exp([logs, np.zeros(7)])).pair(0, 1)
    assert (cell.ratio, cell.low, cell.high) == (pair.ratio, pair.low, pair.high)
    assert cell.ratio == pytest.approx(np.exp(logs.mean()))
    assert (cell.verdict, pair.order) == ("survives", 1)


def row_of(experiment: Any) -> Any:
    """Return the row of an experiment."""
    return PAPERS[experiment.paper].every[experiment.row]


def case_of(experiment: Any) -> Any:
    """Return the case of its row that an experiment runs."""
    (case,) = [each for each in row_of(experiment).settings() if each.name == experiment.case]
    return case


# -- what is claimed -------------------------------------------------------------------


@every(("experiment", "claim"), CLAIMS)
def test_a_claim_is_of_methods_and_a_measure_of_its_row(experiment: Any, claim: Any) -> None:
    row, case = row_of(experiment), case_of(experiment)
    assert experiment.row in PAPERS[experiment.paper].rows  # of the paper, not beyond it
    assert set(claim.labels) <= set(case.labels.values())
    assert claim.better not in claim.worse
    assert set(claim.counted) <= set(papers.COSTS)
    low, high = claim.factor
    assert 1 <= low < high
    measure = row.measures[claim.measure]
    assert measure.column in claim.counted or measure.total


@pytest.mark.parametrize("key", ["chb-figure-2", "fedsgm-figure-1", "fed-ht-figure-3-grid"])
def test_what_runs_has_the_settings_of_the_row(key: str, tmp_path: Path) -> None:
    """Methods as the scenario has them; where a row tries several, at the best that it found."""
    experiment = papers.EXPERIMENTS[key]
    setting = settings.read(experiment, tmp_path)
    case, kept = case_of(experiment), measures.load(experiment.paper)[experiment.row]
    wanted = {
        each.name: each.scenario
        for each in fedsim.load(case.scenario, overrides=case.overrides).variants
    }
    for each in fedsim.load(dict(setting.scenario)).variants:
        own, of_row = each.scenario.model_dump(), wanted[each.name].model_dump()
        for block in (own, of_row):
            block["variants"], block["sweep"] = {}, {}
        if case.search and each.name in setting.labels:
            best = kept.tried[f"{case.name} | {setting.labels[each.name]}"]
            assert best.endswith(f"step_size {own['algorithm']['step_size']:g}")
            own["algorithm"]["step_size"] = of_row["algorithm"]["step_size"]
        assert own == of_row
    assert set(setting.labels.values()) == set(experiment.labels)


# -- costs -----------------------------------------------------------------------------


def setting_of(measure: str, **labels: str) -> Any:
    """Return what costs are read by: a row with one measure, and what its variants are called."""
    rows = {
        "broken": {"column": "violated", "total": True},
        "there": {"column": "round", "at": {"column": "error", "level": 1}},
    }
    row = SimpleNamespace(measures={measure: model.Measure.model_validate(rows[measure])})
    return SimpleNamespace(row=row, case=SimpleNamespace(fields={}), labels=labels)


def result_of(runs: dict[str, dict[str, list[float]]]) -> Any:
    """Return what costs are read from: columns by variant, under one seed."""
    parts = [
        pd.DataFrame({"variant": name, "seed": 1, "bits_down": 1.0, "beacons": 0, **own})
        for name, own in runs.items()
    ]
    summary = pd.DataFrame({"variant": list(runs), "seed": 1})
    return SimpleNamespace(rounds=pd.concat(parts, ignore_index=True), summary=summary)


def test_rounds_that_break_the_constraint_are_what_is_counted() -> None:
    ones: dict[str, list[float]] = {
        "transmissions": [10.0] * 3,
        "bits_up": [100.0] * 3,
        "round": [1, 2, 3],
    }
    result = result_of(
        {
            "base": {
                **ones,
                "violated": [1, 0, 1],
                "t": [2.0, 3.0, 7.0],
                "joules": [1.0, 2.0, 4.0],
            },
            "soft": {
                **ones,
                "violated": [1, 0, 0],
                "t": [1.0, 9.0, 9.5],
                "joules": [8.0, 16.0, 1.0],
            },
        }
    )
    claim = papers.Claim("", "soft", ("hard",), ("round",), "broken")
    setting = setting_of("broken", base="hard", soft="soft")
    table = costs.costs(claim, setting, result)
    assert table.loc[("hard", 1)].tolist() == [2, 20, 202, 6, 5]
    assert table.loc[("soft", 1)].tolist() == [1, 10, 101, 1, 8]
    assert costs.spans(claim, setting, result) == {("hard", 1): [0, 1, 2, 3], ("soft", 1): [0, 1]}


def test_of_several_others_the_cheapest_counts_in_each_cost_apart() -> None:
    def run(error: list[float], t: float, joules: float) -> dict[str, list[float]]:
        return {
            "round": [1, 2],
            "error": error,
            "t": [t, 2 * t],
            "joules": [joules] * 2,
            "transmissions": [9.0] * 2,
            "bits_up": [1.0] * 2,
        }

    result = result_of(
        {
            "base": run([1.0, 0.5], 1.0, 4.0),
            "b": run([2.0, 1.0], 3.0, 2.0),
            "c": run([2.0, 1.0], 2.0, 6.0),
            "d": run([9.0, 9.0], 0.1, 0.1),  # never gets there
        }
    )
    setting = setting_of("there", base="A", b="B", c="C", d="D")
    claim = papers.Claim("", "A", ("B", "C", "D"), ("round",), "there")
    found = verdicts.cells(claim, setting, result)
    assert [found[cost].ratio for cost in ("round", "t", "joules")] == [2, 4, 1]
    alone = verdicts.cells(papers.Claim("", "A", ("D",), ("round",), "there"), setting, result)
    assert alone["round"].ratio == np.inf
    reverse = papers.Claim("", "D", ("A",), ("round",), "there")
    never = verdicts.cells(reverse, setting, result)
    assert never["round"].verdict == "not reached"
    assert verdicts.outcome(reverse, never) == "does not hold"
    assert verdicts.outcome(claim, found) == "holds"
    for factor, outcome in (((1.5, 3), "holds"), ((3, 9), "holds, but not by as much")):
        stated = papers.Claim("", "A", ("B", "C"), ("round",), "there", "thrice", factor)
        assert verdicts.outcome(stated, found) == outcome
    unsure = found | {"round": verdicts.Cell.of([1.5, 4.0])}
    assert verdicts.outcome(claim, unsure) == "too few seeds to tell"
    dearer = papers.Claim("", "B", ("A",), ("round",), "there")
    assert verdicts.outcome(dearer, verdicts.cells(dearer, setting, result)) == "does not hold"


# -- a reduced form --------------------------------------------------------------------


@contextmanager
def only(*radios: str) -> Iterator[None]:
    """Ask on some radios alone."""
    every = dict(papers.RADIOS)
    for radio in every.keys() - {*radios}:
        del papers.RADIOS[radio]
    try:
        yield
    finally:
        papers.RADIOS.clear()
        papers.RADIOS.update(every)


TUMOURS = "problem.data={kind: sklearn, name: breast-cancer, preprocess: [standardise]}"
REDUCED = {
    "chb-figure-2": ["seeds=1"],
    "chb-table-1-linear": [TUMOURS, "stop.rounds=4"],
    "fedsgm-figure-1": ["seeds=1", "stop.rounds=4"],
    "fedgradmp-figure-10": ["seeds=1", "stop.rounds=4"],
    "fed-ht-figure-3-rate": [],
    "fast-fedda-figure-1": [],
}
"""Experiments that tests run, and what of them is changed; else as their rows are reduced."""


def reduced(key: str) -> list[str]:
    """Return how an experiment is run by tests."""
    return REDUCED[key] or list(row_of(papers.EXPERIMENTS[key]).reduced.set)


@pytest.fixture(scope="module")
def asked(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Return the findings on two radios, after a few rounds, where all claims are priced."""
    found = {}
    with only("lte", "nb-iot"), pytest.MonkeyPatch.context() as patch:
        patch.setattr(explanations, "outcome", lambda *_: "holds")
        for key in REDUCED:
            out = tmp_path_factory.mktemp(key)
            found[key] = explanations.examine(papers.EXPERIMENTS[key], out, reduced(key))
    return found


def answers_of(asked: dict[str, Any]) -> list[Any]:
    """Return all answers of all claims."""
    return [each for own in asked.values() for finding in own for each in finding.answers]


@pytest.mark.slow
def test_every_claim_is_asked_in_every_world(asked: dict[str, Any]) -> None:
    for key, findings in asked.items():
        experiment = papers.EXPERIMENTS[key]
        silences = ("beacon", "deadline") if experiment.late else ("beacon",)
        wanted = [(radio, silence) for radio in ("lte", "nb-iot") for silence in silences]
        assert [each.claim for each in findings] == list(experiment.claims)
        for finding in findings:
            assert [tuple(each.world) for each in finding.answers] == wanted


@pytest.mark.slow
def test_what_does_not_hold_in_its_own_count_is_not_priced(tmp_path: Path) -> None:
    """Under a seed, CHB's claims of Figure 2 hold in transmissions; turned round, they do not."""
    experiment = papers.EXPERIMENTS["chb-figure-2"]
    (fewest, _) = experiment.claims
    wrong = replace(fewest, better="HB", worse=("CHB",))
    with only("lte"):
        reverse = replace(experiment, claims=(fewest, wrong), late=False)
        findings = explanations.examine(reverse, tmp_path, ["seeds=1"])
    assert [each.outcome for each in findings] == ["holds", "does not hold"]
    assert [len(each.answers) for each in findings] == [1, 0]
    assert "not priced" in page.summary(findings[1])


@pytest.mark.slow
def test_a_claim_is_asked_in_many_worlds_where_those_take_no_training(
    asked: dict[str, Any],
) -> None:
    for each in answers_of(asked):
        there = each.world.silence == "beacon" and np.isfinite(each.cells["t"].ratio)
        assert set(each.sure) == ({"t", "joules"} if there else set())
        for sure in each.sure.values():
            assert 0 <= sure.share <= 1
            assert sure.low <= sure.high
            if sure.low > 1:
                assert sure.share >= 0.95


@pytest.mark.slow
def test_the_world_as_written_is_the_one_that_was_run(tmp_path: Path) -> None:
    """Rounds priced one by one add up to what the tables of the run say, for both kinds."""
    for key, radios in {
        "fedsgm-figure-1": ("lte", "nb-iot"),
        "fed-ht-figure-3-rate": ("wifi",),
        "chb-figure-2": ("lte", "lora-sf7"),
    }.items():
        experiment = replace(papers.EXPERIMENTS[key], late=False)
        setting = settings.read(experiment, tmp_path, reduced(key))
        trained = worlds.train(setting, tmp_path / key)
        with only(*radios):
            priced = list(worlds.price(experiment, setting, trained, tmp_path / key))
        for world, result in priced:
            for claim in experiment.claims:
                found = probabilities.log_ratios(claim, setting, result, {}, 1)
                cells = verdicts.cells(claim, setting, result)
                for cost, ratios in found.items():
                    if len(claim.worse) == 1:  # of several, the least of a mean is another one
                        assert np.exp(ratios[0]) == pytest.approx(cells[cost].ratio, rel=1e-9)
                assert found or world.radio == "lora-sf7"  # LoRa has a law of its own


@pytest.mark.slow
def test_a_radio_changes_no_count(asked: dict[str, Any]) -> None:
    for findings in asked.values():
        for finding in findings:
            beacons = [each for each in finding.answers if each.world.silence == "beacon"]
            for cost in ("round", "transmissions"):
                of = {str(each.cells[cost]) for each in beacons}
                assert of == {str(finding.found[cost])}


@pytest.mark.slow
def test_shares_of_energy_add_up_and_a_client_is_not_busier_than_always(
    asked: dict[str, Any],
) -> None:
    for each in answers_of(asked):
        assert each.energy.sum() == pytest.approx(1)
        assert 0 < each.busy.sum() <= 1


@pytest.mark.slow
def test_the_page_has_a_section_and_a_sentence_for_every_claim(
    asked: dict[str, Any], tmp_path: Path
) -> None:
    text = page.page(asked)
    for key, findings in asked.items():
        assert f"## {settings.place(papers.EXPERIMENTS[key])}\n" in text
        for finding in findings:
            assert f"### {finding.claim.says}\n" in text
            assert explanations.why(finding.claim, finding.answers).endswith(".")
            assert page.table(finding).row_count == 1 + len(finding.answers)
    assert "nan" not in text
    figure.draw(asked).savefig(tmp_path / "claims.png")


# -- the page that is kept -------------------------------------------------------------


def test_the_page_that_is_kept_is_of_these_claims() -> None:
    kept = [line for line in command.PAGE.read_text("utf-8").splitlines() if line[:2] == "##"]
    assert kept == page.headings()


@every(("experiment", "claim"), CLAIMS)
def test_the_page_has_the_counts_that_are_kept_of_the_row(experiment: Any, claim: Any) -> None:
    """Claims and rows are run apart: where both have the same seeds, they count the same."""
    found = measures.load(experiment.paper).get(experiment.row)
    (cost,) = [each for each in claim.counted if each != "t"][:1]
    name = papers.COSTS[cost]
    start = f"| {settings.place(experiment)} | {claim.says} |"
    lines = command.PAGE.read_text("utf-8").splitlines()
    (line,) = [each for each in lines if each.startswith(start)]
    parts = (experiment.case, claim.better, claim.measure)
    key = model.SEPARATOR.join(filter(None, parts))
    if found is None or key not in found.numbers:
        return  # the row is not run here
    seeds = [int(text[6:]) for text in experiment.overrides if text.startswith("seeds=")]
    if seeds and seeds[0] > len(found.numbers[key]):
        return  # or under fewer seeds
    if row_of(experiment).measures[claim.measure].column not in (cost, "violated"):
        return  # the row shows another cost
    others = [
        found.numbers[model.SEPARATOR.join(filter(None, (experiment.case, label, claim.measure)))]
        for label in claim.worse
    ]
    worse = np.nanmin(np.nan_to_num(others, nan=np.inf), axis=0)
    ratios = (worse / np.array(found.numbers[key])).tolist()
    cell = verdicts.Cell.of(ratios[: seeds[0]] if seeds else ratios)
    assert f"{name}: {cell}" in line


# -- radios with stages ----------------------------------------------------------------


@pytest.mark.slow
def test_claims_are_priced_with_a_tail_and_with_stages(tmp_path: Path) -> None:
    """As the claims of the page; what a better method needs falls with the tail's power."""
    experiment = papers.EXPERIMENTS["chb-figure-2"]
    rows = stages.examine(experiment, tmp_path, ["seeds=1"])
    assert [row.claim for row in rows] == [*experiment.claims, *experiment.claims]
    assert [row.pace for row in rows] == ["fast", "fast", "slow", "slow"]
    setting = settings.read(experiment, tmp_path, ["seeds=1"])
    trained = worlds.train(setting, tmp_path)
    for row in rows:
        for radio, priced in row.priced.items():
            if row.pace == "fast":
                flat = stages.PAIRS[radio]
                result = worlds.price_on(flat, setting, trained, tmp_path / "fast")
                assert priced.before == verdicts.cells(row.claim, setting, result)
            else:
                assert (priced.joules < 0.95) == (radio != "lte-drx")
    slow = fedsim.open(tmp_path / "slow" / "lte").events
    work = slow[slow["event"] == "compute"]
    assert work["duration"].mean() == pytest.approx(stages.SLOW, rel=0.05)
    text = stages.page({"chb-figure-2": rows})
    assert text.count("CHB, Figure 2 | ") == len(rows)
    for title in stages.TITLES.values():
        assert text.count(f" | {title} | {len(rows) // 2} | ") == 2


def test_a_claim_moves_where_its_verdict_does() -> None:
    won, lost, level = (verdicts.Cell.of(ratios) for ratios in ([2.0], [0.5], [1.01]))
    claim = papers.EXPERIMENTS["chb-figure-2"].claims[0]
    priced = stages.Priced({"t": won, "joules": won}, {"t": won, "joules": level}, 0.2)
    assert (priced.moved("t"), priced.moved("joules")) == (False, True)
    other = stages.Priced({"t": lost, "joules": won}, {"t": lost, "joules": won}, 0.4)
    by_radio = dict.fromkeys(stages.PAIRS, other) | {"lte-drx": priced}
    row = stages.Row("fast", "here", claim, by_radio)
    lines = stages.page({"part": [row]}).splitlines()
    (line,) = [line for line in lines if "| here" in line]
    same = " | 0.50 | 2.00" * (len(stages.PAIRS) - 1)
    assert line == f"| here | {claim.says} | 2.00 | **2.00 → 1.01 (tie)**{same} |"
    (moved,) = [line for line in lines if line.startswith("- here")]
    assert moved.endswith("LTE 2012, devices of the rows, energy: 2.00 (survives) → 1.01 (tie).")


def test_the_page_with_stages_that_is_kept_has_each_priced_claim_at_each_pace() -> None:
    kept, priced = (each.PAGE.read_text("utf-8").splitlines() for each in (stages, command))
    for key, experiment in papers.EXPERIMENTS.items():
        for claim in experiment.claims:
            start = f"| {settings.place(experiment)} | {claim.says} |"
            (line,) = [each for each in priced if each.startswith(start)]
            asked = key in stages.PARTS and "not priced" not in line
            found = sum(each.startswith(start) for each in kept)
            assert found == len(stages.PACES) * asked
