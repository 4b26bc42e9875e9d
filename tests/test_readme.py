"""Every code block of the README is run, and its output is real."""

import doctest
import re
import shlex
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from ruamel.yaml import YAML
from typer.testing import CliRunner

from fedsim.algorithms import ALGORITHMS
from fedsim.cli import app
from fedsim.core.blocks.registry import kinds_of
from fedsim.results.accuracy import CLEAN, MANY, SMALL, TRANSFERS, percent
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


class FirstRun(NamedTuple):
    """What the first command of the README has printed, and the folder it ran in."""

    printed: str
    folder: Path


@pytest.fixture(scope="module")
def first_run(tmp_path_factory: pytest.TempPathFactory) -> FirstRun:
    (command,) = blocks("sh run")
    install, run = command.split("&&")
    assert install.split() == ["pip", "install", "."]
    program, *arguments = shlex.split(run)
    assert program == "fedsim"
    folder = tmp_path_factory.mktemp("first")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.setenv("COLUMNS", "100")
        result = CliRunner().invoke(app, arguments)
    assert result.exit_code == 0, result.output
    return FirstRun(result.stdout, folder)


def test_the_run_command_prints_what_the_readme_shows(first_run: FirstRun) -> None:
    (shown,) = blocks("text")
    printed = words(first_run.printed)
    assert printed[: len(words(shown))] == words(shown)
    # No line of costs is left out, and the text has the table that follows.
    assert printed[len(words(shown))] == ["final", "model", "quality"]
    ends = [line for line in printed if line[-4:-1] == ["is", "at", "least"]]
    accuracies = ", ".join(f"{100 * float(line[-5]):.0f} %" for line in ends)
    assert f"({accuracies})" in README


def test_the_commands_that_follow_run_on_what_the_first_one_wrote(
    first_run: FirstRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    (body,) = blocks("sh next")
    monkeypatch.chdir(first_run.folder)
    for command in body.splitlines():
        program, *arguments = shlex.split(command)
        assert program == "fedsim"
        result = CliRunner().invoke(app, arguments)
        assert result.exit_code == 0, result.output
    written = "quickstart-nb-iot/study.json", "quickstart/report.html", "quickstart/explorer.html"
    assert all(Path("runs", name).is_file() for name in written)


def test_the_annotated_scenario_is_the_quickstart() -> None:
    (annotated,) = blocks("yaml")
    yaml = YAML(typ="safe", pure=True)
    assert yaml.load(annotated) == yaml.load(ROOT / "scenarios/quickstart.yaml")


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


@pytest.mark.slow
@pytest.mark.needs("flower")
def test_the_flower_app_costs_what_the_readme_shows(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (code,), (shown,) = blocks("python flower"), blocks("text flower")
    Path("tests").symlink_to(ROOT / "tests")
    monkeypatch.setattr(sys, "path", [*sys.path])
    exec(compile(code, "README.md", "exec"), {"__name__": "readme"})  # noqa: S102
    printed = words(capsys.readouterr().out)
    head = printed.index(words(shown)[0])
    tail = printed.index(["final", "model", "quality"])
    assert printed[head:tail] == words(shown)


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


def test_the_readme_opens_with_the_command_that_runs() -> None:
    shells = [head for head, _ in BLOCKS if head.startswith("sh ")]
    assert shells == ["sh run", "sh next", "sh test"]


def test_no_block_is_left_out() -> None:
    heads = [head for head, _ in BLOCKS]
    rest = ["python flower", "text flower", "yaml", "python", "sh test"]
    assert heads == ["sh run", "text", "sh next", *rest]


def test_it_is_a_front_page() -> None:
    assert len(README.splitlines()) <= 150


def test_it_counts_the_methods() -> None:
    assert f"| {sum(len(kinds_of(model)) for model in ALGORITHMS)}: censored" in README


def test_its_links_lead_to_files() -> None:
    targets = re.findall(r"\]\((?!https://)([^)#]+)", README)
    assert len(targets) > 30
    assert [target for target in targets if not (ROOT / target).exists()] == []


def test_the_pictures_are_there() -> None:
    """Badges lie at the services that they are of."""
    pictures = re.findall(r"!\[.+?\]\((?!https:)(.+?)\)", README)
    assert pictures
    assert all((ROOT / picture).read_bytes().startswith(b"\x89PNG") for picture in pictures)


def test_every_scenario_says_its_question_in_its_first_line() -> None:
    for path in sorted((ROOT / "scenarios").rglob("*.yaml")):
        first = path.read_text(encoding="utf-8").splitlines()[0]
        assert first.startswith("# "), path
        assert first.endswith("?"), path
        assert load(path).variants


def test_the_error_of_the_default_model_is_that_of_fedsim_check() -> None:
    figures = TRANSFERS["fluid"]
    for regime in (SMALL, MANY):  # one short message, and many at once
        kept, new = (
            percent(each.median) for each in (TRANSFERS["fluid, kept"][MANY], figures[regime])
        )
        said = f"a median error of {kept} over kept connections, and of {new} for short messages"
        assert said in README
    for table in ("linux, kept", "ns-3"):
        assert f"{percent(TRANSFERS[table][CLEAN].nine)} " in README
    page = (ROOT / "docs" / "explanation" / "truth.md").read_text(encoding="utf-8")
    for model in ("fluid", "lv08"):
        median = percent(TRANSFERS[model][CLEAN].median)
        assert f"| `{model}` | ns-3's packets of TCP | 99 | {median} |" in page
