"""Every code block of the README is run, and its output is real."""

import doctest
import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML
from typer.testing import CliRunner

import fedsim
from fedsim.algorithms import ALGORITHMS
from fedsim.blocks.registry import kinds_of
from fedsim.cli import app
from fedsim.scenario import load
from tests.conftest import ROOT

README = (ROOT / "README.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```(\S+ ?\S*)\n(.*?)^```$", README, flags=re.DOTALL | re.MULTILINE)


def blocks(info: str) -> list[str]:
    return [body for head, body in BLOCKS if head == info]


@pytest.fixture(autouse=True)
def as_in_a_checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Run in a folder that has the scenarios, so that nothing is written into the checkout."""
    (tmp_path / "scenarios").symlink_to(ROOT / "scenarios")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "100")


def words(text: str) -> list[list[str]]:
    """Return the lines that say something, without the rules between them."""
    lines = [line.split() for line in text.splitlines()]
    return [line for line in lines if line and not set("".join(line)) <= set("─━ ")]


def test_the_run_command_prints_what_the_readme_shows() -> None:
    (command,), (shown,) = blocks("sh run"), blocks("text")
    install, run = command.split("&&")
    assert install.split() == ["pip", "install", "."]
    program, *arguments = shlex.split(run)
    assert program == "fedsim"
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == 0, result.output
    assert words(result.stdout) == words(shown)


def test_the_annotated_scenario_is_the_quickstart() -> None:
    (annotated,) = blocks("yaml")
    yaml = YAML(typ="safe", pure=True)
    assert yaml.load(annotated) == yaml.load(ROOT / "scenarios/quickstart.yaml")


@pytest.mark.filterwarnings("ignore::fedsim.TheoryWarning")  # it samples clients for chb
def test_the_fleet_of_the_readme_runs_in_place_of_the_quickstart_s(tmp_path: Path) -> None:
    yaml = YAML(typ="safe", pure=True)
    (fleet,) = blocks("yaml fleet")
    scenario = yaml.load(ROOT / "scenarios/quickstart.yaml") | yaml.load(fleet) | {"variants": {}}
    result = fedsim.run(scenario, out=tmp_path)
    assert result.summary["status"].tolist() == ["done"]
    assert result.summary["rounds"].tolist() == [20]
    assert set(result.events["event"]) >= {"sampled", "offline", "online", "late", "tail"}


def test_the_wire_of_the_readme_runs_in_place_of_the_quickstart_s(tmp_path: Path) -> None:
    yaml = YAML(typ="safe", pure=True)
    (wire,) = blocks("yaml wire")
    scenario = yaml.load(ROOT / "scenarios/quickstart.yaml") | yaml.load(wire) | {"variants": {}}
    result = fedsim.run(scenario, out=tmp_path)
    assert result.summary["rounds"].tolist() == [50]
    assert result.rounds["gap"].iloc[-1] < result.rounds["gap"].iloc[0] / 10


def test_the_sweep_of_the_readme_is_six_variants_of_the_quickstart() -> None:
    yaml = YAML(typ="safe", pure=True)
    (sweep,) = blocks("yaml sweep")
    quickstart = yaml.load(ROOT / "scenarios/quickstart.yaml") | {"variants": {}}
    plan = load(quickstart | yaml.load(sweep))
    pairs = {
        (each.scenario.algorithm.momentum, each.scenario.algorithm.censor)  # type: ignore[attr-defined]
        for each in plan.variants
    }
    assert pairs == {(momentum, censor) for momentum in (0, 0.4) for censor in (0.01, 0.1, 1)}
    assert all(len(each.seeds) == 3 for each in plan.variants)


def test_the_commands_of_a_study_follow_one_another(tmp_path: Path) -> None:
    (commands,) = blocks("sh study")
    for command in commands.splitlines():
        program, *arguments = shlex.split(command)
        assert program == "fedsim"
        result = CliRunner().invoke(app, arguments)
        assert result.exit_code == 0, result.output
    study = tmp_path / "runs/study"
    page = (study / "report.html").read_text(encoding="utf-8")
    assert page.count('<svg class="area"') > 10
    assert page.rstrip().endswith("</html>")
    assert (study / "chb/seed-1/trace.json").exists()
    assert {path.suffix for path in (study / "comparison").iterdir()} >= {".csv", ".png", ".svg"}


def test_the_problem_of_the_readme_runs_on_the_quickstart_s_fleet(tmp_path: Path) -> None:
    yaml = YAML(typ="safe", pure=True)
    (problem,) = blocks("yaml problem")
    quickstart = yaml.load(ROOT / "scenarios/quickstart.yaml")
    result = fedsim.run(quickstart | yaml.load(problem) | {"variants": {}}, out=tmp_path)
    rounds = result.rounds
    assert rounds["test_accuracy"].iloc[-1] > 0.9
    assert 0 < rounds["nonzeros"].iloc[-1] < rounds["nonzeros"].max()


def test_the_methods_of_the_readme_are_those_there_are() -> None:
    section = README.split("## Methods")[1].split("\n## ")[0]
    table = [line.split("|")[2] for line in section.splitlines() if line.startswith("| ")]
    named = re.findall(r"`([^`]+)`", " ".join(table))
    assert sorted(named) == sorted(kind for model in ALGORITHMS for kind in kinds_of(model))


def test_the_quickstart_fits_a_screen() -> None:
    lines = (ROOT / "scenarios/quickstart.yaml").read_text(encoding="utf-8").splitlines()
    assert len(lines) <= 30


def python_blocks() -> Iterator[str]:
    yield from blocks("python")


def test_the_python_blocks_print_what_the_readme_shows() -> None:
    names: dict[str, Any] = {"__name__": "readme"}
    parser = doctest.DocTestParser()
    runner = doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE)
    for body in python_blocks():
        if ">>>" in body:
            test = parser.get_doctest(body, names, "README", "README.md", 0)
            runner.run(test, clear_globs=False)
            names = test.globs
    assert runner.summarize(verbose=False).failed == 0
    assert runner.tries > 0


def test_the_network_of_the_readme_learns() -> None:
    (program,) = blocks("python network")
    names: dict[str, Any] = {"__name__": "readme"}
    exec(compile(program, "README.md", "exec"), names)  # noqa: S102 - our own README
    assert names["result"].rounds["test_accuracy"].iloc[-1] >= 0.9


def test_the_algorithm_of_the_readme_runs() -> None:
    (program,) = [body for body in python_blocks() if ">>>" not in body]
    exec(compile(program, "README.md", "exec"), {"__name__": "readme"})  # noqa: S102 - our own README


def test_the_algorithm_of_the_readme_runs_from_a_file(tmp_path: Path) -> None:
    (program,) = [body for body in python_blocks() if ">>>" not in body]
    (tmp_path / "coin.py").write_text(program.partition("\nresult = ")[0])
    (command,) = blocks("sh plugin")
    result = CliRunner().invoke(app, shlex.split(command)[1:])
    assert result.exit_code == 0, result.output
    assert "coin-flip" in result.stdout


def test_ci_runs_the_two_commands_as_they_stand() -> None:
    script = (ROOT / ".ci/run").read_text(encoding="utf-8")
    assert "for name in run test; do" in script
    assert 'block "$name" | bash' in script
    assert [
        len(body.splitlines()) for name in ("run", "test") for body in blocks(f"sh {name}")
    ] == [
        1,
        1,
    ]


def test_the_readme_opens_with_the_two_commands() -> None:
    shells = [head for head, _ in BLOCKS if head.startswith("sh ")]
    assert shells[:2] == ["sh run", "sh test"]


def test_no_block_is_left_out() -> None:
    shells, pieces = (
        ("run", "study", "test", "plugin"),
        ("problem", "sweep", "fleet", "wire"),
    )
    known = {f"sh {name}" for name in shells} | {f"yaml {name}" for name in pieces}
    assert {head for head, _ in BLOCKS} == known | {"text", "yaml", "python", "python network"}


def test_the_pictures_are_there() -> None:
    pictures = re.findall(r"!\[.+?\]\((.+?)\)", README)
    assert pictures
    assert all((ROOT / picture).read_bytes().startswith(b"\x89PNG") for picture in pictures)


def test_every_scenario_says_its_question_in_its_first_line() -> None:
    for path in sorted((ROOT / "scenarios").rglob("*.yaml")):
        first = path.read_text(encoding="utf-8").splitlines()[0]
        assert first.startswith("# "), path
        assert first.endswith("?"), path
        assert load(path).variants
