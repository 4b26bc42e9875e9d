"""What the pages show does what they say: fleets, wires, sweeps, problems, a study's commands."""

import re
import shlex
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML
from typer.testing import CliRunner

import fedsim
from fedsim.cli import app
from fedsim.scenario import load
from tests.conftest import ROOT

pytestmark = pytest.mark.slow

STUDY = """\
fedsim run scenarios/censoring.yaml --set seeds=3 --jobs 2 --out runs/study
fedsim compare runs/study --target gap=1e-5 --against gd
fedsim report runs/study
fedsim trace runs/study/chb/seed-1 --rounds 10:20
"""


@pytest.fixture(autouse=True)
def as_in_a_checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Run in a folder that has the scenarios, so that nothing is written into the checkout."""
    (tmp_path / "scenarios").symlink_to(ROOT / "scenarios")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "100")


def block(page: str) -> Any:
    """Return the first block of YAML on a page."""
    text = (ROOT / "docs" / page).read_text(encoding="utf-8")
    found = re.search(r"^```yaml\n(.*?)^```$", text, flags=re.DOTALL | re.MULTILINE)
    assert found, page
    return YAML(typ="safe", pure=True).load(found[1])


def censoring() -> Any:
    return YAML(typ="safe", pure=True).load(ROOT / "scenarios/censoring.yaml") | {"variants": {}}


@pytest.mark.filterwarnings("ignore::fedsim.TheoryWarning")  # it samples clients for chb
def test_the_fleet_runs_in_place_of_the_censoring_study_s(tmp_path: Path) -> None:
    result = fedsim.run(censoring() | block("scenario/fleet.md"), out=tmp_path)
    assert result.summary["status"].tolist() == ["done"]
    assert result.summary["rounds"].tolist() == [20]
    assert set(result.events["event"]) >= {"sampled", "offline", "online", "late", "tail"}


def test_the_wire_runs_in_place_of_the_censoring_study_s(tmp_path: Path) -> None:
    result = fedsim.run(censoring() | block("scenario/wire.md"), out=tmp_path)
    assert result.summary["rounds"].tolist() == [50]
    assert result.rounds["gap"].iloc[-1] < result.rounds["gap"].iloc[0] / 10


def test_the_sweep_is_nine_variants_of_the_censoring_study() -> None:
    plan = load(censoring() | block("howto/sweeps.md"))
    pairs = {
        (each.scenario.algorithm.momentum, each.scenario.algorithm.censor)  # type: ignore[attr-defined]
        for each in plan.variants
    }
    assert pairs == {(momentum, censor) for momentum in (0, 0.4, 0.8) for censor in (0.01, 0.1, 1)}
    assert all(len(each.seeds) == 6 for each in plan.variants)


def test_the_problem_runs_on_the_censoring_study_s_fleet(tmp_path: Path) -> None:
    rounds = fedsim.run(censoring() | block("scenario/problem.md"), out=tmp_path).rounds
    assert rounds["test_accuracy"].iloc[-1] > 0.9
    assert 0 < rounds["nonzeros"].iloc[-1] < rounds["nonzeros"].max()


def test_the_commands_of_a_study_follow_one_another(tmp_path: Path) -> None:
    for command in STUDY.splitlines():
        program, *arguments = shlex.split(command)
        assert program == "fedsim"
        result = CliRunner().invoke(app, arguments)
        assert result.exit_code == 0, result.output
    study = tmp_path / "runs/study"
    page = (study / "report.html").read_text(encoding="utf-8")
    assert page.count('role="img"') > 10
    assert page.rstrip().endswith("</html>")
    assert (study / "chb/seed-1/trace.json").exists()
    assert {path.suffix for path in (study / "comparison").iterdir()} >= {".csv", ".png", ".svg"}
