"""The help of every command, at the width of a usual terminal."""

import inspect
import re
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from fedsim.cli import app

COMMANDS: dict[str, Any] = getattr(typer.main.get_command(app), "commands")  # noqa: B009 - untyped
BROKEN = 50
"""A line of a paragraph that is shorter than this, and not its last one, was broken too early."""


def declared(name: str) -> dict[str, str]:
    """Return the help of a command's arguments as its function declares it."""
    annotations = inspect.get_annotations(inspect.unwrap(COMMANDS[name].callback))
    return {key: each.__metadata__[0].help for key, each in annotations.items() if key != "return"}


@pytest.mark.parametrize("name", COMMANDS)
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
