"""compare, the report and robust say the same of the same study."""

import json
from pathlib import Path
from shutil import rmtree
from typing import Any

import pytest
from rich.table import Table

import fedsim
from fedsim.core.tables import as_text
from fedsim.results.analysis import Comparison
from fedsim.results.analysis.compare.runs import gather
from fedsim.results.report import overview
from fedsim.results.report.study import ReportedStudy
from tests.runs import small

FLEET = [{"count": 5, "device": "phone-mid", "radio": "lte"}]
GD = {"algorithm": {"kind": "gd", "step_size": "1/L"}}
GAPS = {"target": 5000, "equal": 5e4, "sampled": 5e4}


def study(seeds: int, name: str, tmp_path: Path) -> Path:
    """Run one of the studies, and return its folder."""
    stop = {"rounds": 20} if name == "whole" else {"rounds": 60, "gap": GAPS[name]}
    changes: dict[str, Any] = {"variants": {"gd": GD}}
    if name == "sampled":
        two = {"algorithm": {"kind": "fedavg", "step_size": "0.3/L_max", "local_steps": 2}}
        one = {"kind": "fedavg", "step_size": "0.3/L_max", "local_steps": 1}
        clients = {"kind": "uniform", "count": 2}
        changes = {"algorithm": one, "participation": clients, "variants": {"two": two}}
    fedsim.run(small(fleet=FLEET, seeds=seeds, stop=stop, **changes), out=tmp_path)
    return tmp_path


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "seeds", "words"),
    [
        ("target", 1, "reaches a gap below 5000 with 1.9 % less energy than gd (one seed; less in"),
        ("target", 3, "less energy than gd (the same in all 3 seeds; less in 100 % of 16 worlds)"),
        ("equal", 1, "take the same energy to a gap below 50000 (one seed)"),
        ("sampled", 3, "no winner yet: "),
        ("whole", 1, "take the same energy over the whole run, within 1 % (one seed; ratio"),
    ],
)
def test_all_commands_give_one_verdict(name: str, seeds: int, words: str, tmp_path: Path) -> None:
    """Those of `run`, `compare`, `robust`, report and explorer, before and after worlds."""
    place = study(seeds, name, tmp_path / "runs")
    known = fedsim.robust(place, worlds=16)
    known.write(place / "robustness")
    comparison = Comparison.of([place])
    (answer,) = comparison.answers
    assert words in answer
    assert ("16 worlds" in answer) == (name in {"target", "whole"})
    assert known.answer() == answer
    assert fedsim.open(place).shown.answer() == answer
    page = list(overview.answers(ReportedStudy(comparison)))
    # The first letter is a capital unless it is that of a name.
    (lines,) = (each.causes for each in page if each.text[1:] == f"{answer[1:]}.")
    assert bool(lines) == (name == "target")
    explored = fedsim.explore(place, tmp_path / "explorer.html").read_text(encoding="utf-8")
    assert json.dumps(answer)[1:-1] in explored


@pytest.mark.slow
def test_all_commands_compare_with_the_variant_that_the_caller_names(tmp_path: Path) -> None:
    third = {"algorithm": {"kind": "gd", "step_size": "0.5/L"}}
    variants = {"gd": GD, "slower": third}
    fedsim.run(
        small(fleet=FLEET, stop={"rounds": 90, "gap": 5000}, variants=variants), out=tmp_path
    )
    next_cheapest = Comparison.of([tmp_path]).answers
    for name in ("base", "gd", "slower"):
        known = fedsim.robust(tmp_path, worlds=16, against=name)
        known.write(tmp_path / "robustness")
        (answer,) = Comparison.of([tmp_path], against=name).answers
        assert known.answer() == answer
        assert answer.startswith(f"Against {name} (baseline), energy to a gap below 5000")
    assert answer != next_cheapest[0]


@pytest.mark.slow
def test_all_commands_compare_with_the_baseline_of_the_scenario(tmp_path: Path) -> None:
    """As with `--against`, each of them: run, compare, the report, robust and the explorer."""
    third = {"algorithm": {"kind": "gd", "step_size": "0.5/L"}}
    scenario = small(
        fleet=FLEET, stop={"rounds": 90, "gap": 5000}, variants={"gd": GD, "slower": third}
    )
    plain = fedsim.run(scenario, out=tmp_path / "plain").folder
    for name in ("base", "gd", "slower"):
        named = fedsim.run({**scenario, "baseline": name}, out=tmp_path / name)
        place = named.folder
        wanted, comparison = Comparison.of([plain], against=name), Comparison.of([place])
        (answer,) = wanted.answers
        assert repr(comparison) == repr(wanted)
        assert named.shown.answer() == fedsim.open(place).shown.answer() == answer
        assert [as_text(part) for part in _tables(named.shown.explained_answer())] == [
            as_text(part) for part in _tables(wanted.explained_answers[0])
        ]
        pages = [list(overview.answers(ReportedStudy(each))) for each in (comparison, wanted)]
        assert pages[0] == pages[1]
        explored = fedsim.explore(place, tmp_path / f"{name}.html").read_text(encoding="utf-8")
        assert json.dumps(answer)[1:-1] in explored
        repriced = fedsim.reprice(place, ["name=again"], tmp_path / f"{name}-again")
        assert repriced.shown.answer() == answer
        robust = fedsim.robust(place, worlds=16)
        asked = fedsim.robust(plain, worlds=16, against=name)
        assert (robust.against, robust.answer()) == (name, asked.answer())
        # An option on the command line goes before the key of the scenario.
        assert Comparison.of([place], against="gd").answers == (
            Comparison.of([plain], against="gd").answers
        )


def _tables(parts: list[str | Table]) -> list[Table]:
    return [part for part in parts if isinstance(part, Table)]


def test_a_baseline_counts_where_all_studies_name_it(tmp_path: Path) -> None:
    scenario = small(fleet=FLEET, stop={"rounds": 5}, variants={"gd": GD})
    one, two, none = (tmp_path / name for name in ("one", "two", "none"))
    fedsim.run({**scenario, "baseline": "gd"}, out=one)
    fedsim.run({**scenario, "baseline": "base"}, out=two)
    fedsim.run(scenario, out=none)
    assert gather([one]).baseline == "gd"
    assert gather([one, none]).baseline == "one/gd"
    several = gather([one, two])
    assert several.baseline == ""  # they name different ones
    assert any("the baseline base and gd (studies name several)" in t for t in several.left_out)
    assert not gather([one]).left_out
    assert gather([one / "gd", one / "base"]).baseline == ""  # runs by themselves
    # An edited key takes effect without new runs.
    before = (one / "gd/seed-1/events.parquet").stat().st_mtime_ns
    fedsim.run({**scenario, "baseline": "base"}, out=one)
    assert gather([one]).baseline == "base"
    assert (one / "gd/seed-1/events.parquet").stat().st_mtime_ns == before


@pytest.mark.slow
@pytest.mark.parametrize("seeds", [1, 3, 6])
def test_verdicts_and_ratios_are_the_same_everywhere(seeds: int, tmp_path: Path) -> None:
    fedsim.run(
        small(fleet=FLEET, variants={"gd": GD}, seeds=seeds, stop={"rounds": 20}), out=tmp_path
    )
    known = fedsim.robust(tmp_path, worlds=16)
    known.write(tmp_path / "robustness")
    comparison = Comparison.of([tmp_path])
    (case,) = comparison.cases
    by_worlds = known.verdicts[known.verdicts["against"] == comparison.against]
    pairs = case.pairs.set_index("cost")
    (_, page, *_) = overview.tables(ReportedStudy(comparison))
    cost_column, verdict_column = page.heads.index("cost"), page.heads.index("verdict")
    of_page = {row[cost_column].text: row[verdict_column].text for row in page.rows}
    for cost, head in (("t", "time"), ("joules", "energy")):
        (row,) = by_worlds[by_worlds["cost"] == cost].to_dict("records")
        assert row["verdict"] == pairs["verdict"][cost] == of_page[head]
        assert row["ratio"] == pytest.approx(pairs["ratio"][cost], rel=1e-9)


@pytest.mark.slow
def test_means_over_different_seeds_have_a_note_everywhere(tmp_path: Path) -> None:
    """Where the seeds in which variants reached the target differ, and only there."""
    two = {"algorithm": {"kind": "fedavg", "step_size": "0.3/L_max", "local_steps": 2}}
    one = {"kind": "fedavg", "step_size": "0.3/L_max", "local_steps": 1}
    clients = {"kind": "uniform", "count": 2}
    known = set()
    for rounds in (12, 15, 30):
        changes: dict[str, Any] = {"stop": {"rounds": rounds, "gap": 4e4}, "variants": {"two": two}}
        scenario = small(fleet=FLEET, seeds=4, algorithm=one, participation=clients, **changes)
        result = fedsim.run(scenario, out=tmp_path / str(rounds))
        comparison = Comparison.of([result.folder])
        costs = comparison.cases[0].costs
        reached = costs[costs["reached"]].groupby("variant", observed=True)["seed"].agg(set)
        differ = len(set(map(frozenset, reached))) > 1
        known.add(differ)
        (page, *_) = overview.tables(ReportedStudy(comparison))
        texts = as_text(result.shown.costs()), as_text(comparison.tables()[0]), page.note
        assert ["means are over different seeds" in text for text in texts] == [differ] * 3
    assert known == {True, False}


def test_a_baseline_without_runs_is_named_in_a_note(tmp_path: Path) -> None:
    scenario = small(fleet=FLEET, stop={"rounds": 2}, variants={"gd": GD, "again": GD})
    fedsim.run({**scenario, "baseline": "gd"}, out=tmp_path)
    note = "the baseline gd (none of its runs can be compared)"
    assert not any(note in text for text in Comparison.of([tmp_path]).notes)
    rmtree(tmp_path / "gd")
    left = Comparison.of([tmp_path])
    assert left.runs.baseline == ""
    assert any(note in text for text in left.notes)
