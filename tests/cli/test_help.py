"""The help of every command, at the width of a usual terminal."""

import inspect
import re
from types import ModuleType
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

import fedsim
import fedsim.results.analysis
from fedsim.cli import app
from fedsim.core.extras import VERSION
from tests.tiers import every

COMMANDS: dict[str, Any] = getattr(typer.main.get_command(app), "commands")  # noqa: B009 - untyped
BROKEN = 50
"""A line of a paragraph that is shorter than this, and not its last one, was broken too early."""


def declared(name: str) -> dict[str, str]:
    """Return the help of a command's arguments as its function declares it."""
    annotations = inspect.get_annotations(inspect.unwrap(COMMANDS[name].callback))
    return {key: each.__metadata__[0].help for key, each in annotations.items() if key != "return"}


@every("name", COMMANDS)
def test_the_help_of_every_argument_is_there_and_whole_at_80_columns(name: str) -> None:
    done = CliRunner().invoke(app, [name, "--help"], env={"COLUMNS": "80"})
    assert done.exit_code == 0
    lines = done.stdout.splitlines()
    assert max(map(len, lines)) <= 80
    assert "…" not in done.stdout
    assert "[[" not in done.stdout
    text = " ".join(re.sub("[│╭╮╰╯─]", " ", done.stdout).split())
    said = declared(name)
    assert {argument.name for argument in COMMANDS[name].params} - {"help"} == said.keys()
    for argument, words in said.items():
        assert words, argument
        assert " ".join(words.split()) in text, argument
    about = done.stdout.partition("╭")[0].split("\n", 2)[2]
    for paragraph in re.split(r"\n\s*\n", about):
        assert all(len(line.strip()) > BROKEN for line in paragraph.strip().split("\n")[:-1])


@every("name", COMMANDS)
def test_every_option_with_a_value_names_it(name: str) -> None:
    for each in COMMANDS[name].params:
        if each.name != "help" and not getattr(each, "is_flag", False):
            assert each.metavar, each.name
            assert not each.metavar.startswith("["), each.name


@pytest.mark.slow
def test_short_options() -> None:
    for words in (["-h"], *([name, "-h"] for name in COMMANDS)):
        short, long = (CliRunner().invoke(app, [*words[:-1], flag]) for flag in ("-h", "--help"))
        assert (short.exit_code, short.stdout) == (0, long.stdout)
    assert CliRunner().invoke(app, ["-v"]).stdout == f"fedsim {VERSION}\n"


@pytest.mark.parametrize(("typed", "meant"), [("rnu", "run"), ("comapre", "compare")])
def test_an_unknown_command_is_answered_with_one_suggestion(typed: str, meant: str) -> None:
    done = CliRunner().invoke(app, [typed, "-h"], env={"COLUMNS": "100"})
    assert done.exit_code == 2
    assert done.stderr.casefold().count("did you mean") == 1
    assert f"unknown command '{typed}'; did you mean '{meant}'?" in done.stderr


def test_the_shell_completes_commands() -> None:
    words = {"_FEDSIM_COMPLETE": "complete_bash", "COMP_WORDS": "fedsim re", "COMP_CWORD": "1"}
    done = CliRunner().invoke(app, [], prog_name="fedsim", env=words)
    assert sorted(done.stdout.split()) == ["report", "reprice"]


def test_the_help_of_reprice_shows_a_key_that_it_can_change() -> None:
    assert "algorithm." not in CliRunner().invoke(app, ["reprice", "--help"]).stdout


@pytest.mark.parametrize("module", [fedsim, fedsim.results.analysis])
def test_modules_list_public_names_alone(module: ModuleType) -> None:
    shown = [name for name in dir(module) if not name.startswith("__")]
    assert shown == sorted(module.__all__)
    assert not {"TYPE_CHECKING", "entitle", "run_parts"} & set(shown)
