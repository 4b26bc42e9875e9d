"""The commands that are suggested at the end of another one: they can be typed, and they help."""

import shlex
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from rich.console import Console
from ruamel.yaml import YAML
from typer.testing import CliRunner, Result

import fedsim
from fedsim.cli import app
from fedsim.cli.app import suggest
from fedsim.cli.next_steps import TypedRun, after_comparison, after_run
from fedsim.results.analysis import Comparison
from fedsim.results.analysis.compare.cost_tables import reached_by_all
from tests.runs import small
from tests.tiers import examples

GD = {"algorithm": {"kind": "gd", "step_size": "1/L"}}
OTHER = {"variants": {"slow": {"algorithm": {"kind": "gd", "step_size": "0.5/L"}}}}


def typed(line: str) -> Result:
    """Run a command as it is suggested."""
    program, *words = shlex.split(line)
    assert program == "fedsim"
    return CliRunner().invoke(app, words)


def written(folder: Path, **keys: Any) -> Path:
    """Write a scenario into a folder with a blank in its name."""
    place = folder / "my study"
    place.mkdir()
    YAML(typ="safe", pure=True).dump(small(**keys), place / "own.yaml")
    return place / "own.yaml"


def steps(file: Path, *overrides: str) -> tuple[str, ...]:
    """Run a scenario, and return what is suggested."""
    out = file.parent / "runs"
    result = fedsim.run(file, overrides=overrides, out=out)
    return after_run(result, TypedRun(file, overrides, (), out))


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::fedsim.TheoryWarning")
def test_after_divergence_the_step_of_the_theory_is_tried_and_works(tmp_path: Path) -> None:
    file = written(tmp_path, algorithm={"kind": "gd", "step_size": "90/L"}, stop={"rounds": 400})
    (line,) = steps(file, "algorithm.step_size=80/L")
    assert "--set algorithm.step_size=1/L" in line
    assert "80/L" not in line
    assert typed(line).exit_code == 0
    assert fedsim.open(file.parent / "runs").summary["status"].tolist() == ["done"]


@pytest.mark.slow
def test_after_too_few_rounds_there_are_twice_as_many(tmp_path: Path) -> None:
    file = written(tmp_path, **GD, stop={"rounds": 4, "gap": 1e-9})
    line, report = steps(file)
    assert typed(line).exit_code == 0
    assert fedsim.open(file.parent / "runs").summary["rounds"].tolist() == [8]
    assert typed(report).exit_code == 0


@pytest.mark.slow
@pytest.mark.parametrize(
    ("keys", "names"), [({}, ["report", "trace"]), (OTHER, ["compare", "report"])]
)
def test_one_variant_is_looked_at_and_several_are_compared(
    keys: dict[str, Any], names: list[str], tmp_path: Path
) -> None:
    lines = steps(written(tmp_path, **GD, **keys, stop={"rounds": 2}))
    assert [shlex.split(line)[1] for line in lines] == names
    for line in lines:
        assert typed(line).exit_code == 0, line


@pytest.mark.slow
def test_where_not_all_got_there_the_target_that_all_have_reached_is_next(tmp_path: Path) -> None:
    file = written(tmp_path, **GD, **OTHER, stop={"rounds": 6, "gap": 1e-9})
    steps(file)
    place = file.parent / "runs"
    line, report = after_comparison(Comparison.of([place]), place)
    again = Comparison.of([place], [shlex.split(line)[-1]])
    assert again.cases[0].costs["reached"].all()
    assert typed(line).exit_code == 0
    assert after_comparison(again, place) == (report, report.replace("report", "robust"))
    assert after_comparison(again, place, reported=True) == (report.replace("report", "robust"),)


@examples(200)
@given(st.lists(st.floats(1e-9, 1e9), min_size=1, max_size=6), st.booleans())
@example(values=[1.9], higher=False)
def test_the_target_that_all_have_reached_is_the_strictest_of_two_digits(
    values: list[float], higher: bool
) -> None:
    measure = "test_accuracy" if higher else "gap"
    rounds = pd.DataFrame(
        {"variant": [f"v{n}" for n in range(len(values))], "seed": 1, "round": 1, measure: values}
    )
    bound = reached_by_all(rounds, measure, rounds["variant"].tolist())
    assert bound is not None
    assert float(f"{bound:.1e}") == bound
    unit = 10.0 ** np.floor(np.log10(bound)) / 10
    worst = min(values) if higher else max(values)
    assert bound <= worst if higher else bound > worst
    stricter = bound + unit if higher else bound - unit
    assert worst < stricter * (1 + 1e-9) if higher else worst >= stricter * (1 - 0.1)


def test_a_run_that_has_evaluated_nothing_has_reached_nothing() -> None:
    rounds = pd.DataFrame({"variant": ["a", "b"], "seed": 1, "round": 1, "gap": [1.0, np.nan]})
    assert reached_by_all(rounds, "gap", ["a", "b"]) is None
    assert reached_by_all(rounds, "gap", ["a"]) == 1.1


def test_a_target_that_every_start_meets_is_not_proposed() -> None:
    starts = pd.DataFrame({"variant": ["a", "b"], "seed": 1, "round": 0, "gap": 4.0})
    worse = starts.assign(round=1, gap=[5.0, 3.0])
    rounds = pd.concat([starts, worse], ignore_index=True)
    assert reached_by_all(rounds, "gap", ["a", "b"]) is None
    assert reached_by_all(rounds, "gap", ["b"]) == 3.1


@pytest.mark.parametrize(
    ("terminal", "quiet", "shown"),
    [(True, False, True), (True, True, False), (False, False, False)],
)
def test_steps_are_for_terminals_and_not_for_the_quiet(
    terminal: bool, quiet: bool, shown: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    console = Console(force_terminal=terminal, width=60)
    monkeypatch.setitem(suggest.__globals__, "out", console)
    with console.capture() as captured:
        suggest("fedsim compare runs/one", quiet=quiet)
        suggest(quiet=quiet)
    assert ("next: fedsim compare runs/one" in captured.get()) == shown
    assert bool(captured.get()) == shown


@pytest.mark.slow
def test_a_quiet_run_shows_results_alone(tmp_path: Path) -> None:
    file = written(tmp_path, **GD, stop={"rounds": 2})
    out = str(file.parent / "runs")
    loud, quiet = (
        CliRunner().invoke(app, ["run", str(file), "--fresh", "--out", out, *more])
        for more in ([], ["--quiet"])
    )
    assert (loud.exit_code, quiet.exit_code) == (0, 0)
    assert quiet.stdout == loud.stdout
    assert "all runs" in loud.stderr
    assert quiet.stderr == ""
