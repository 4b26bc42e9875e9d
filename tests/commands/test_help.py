"""The help of every command, at the width of a usual terminal."""

import re
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from fedsim.cli import app

COMMANDS: dict[str, Any] = getattr(typer.main.get_command(app), "commands")  # noqa: B009 - untyped
BROKEN = 50
"""A line of a paragraph that is shorter than this, and not its last one, was broken too early."""


@pytest.mark.parametrize("name", COMMANDS)
def test_the_help_of_every_argument_is_there_and_whole_at_80_columns(name: str) -> None:
    done = CliRunner().invoke(app, [name, "--help"], env={"COLUMNS": "80"})
    assert done.exit_code == 0
    lines = done.stdout.splitlines()
    assert max(map(len, lines)) <= 80
    assert "…" not in done.stdout
    text = " ".join(re.sub("[│╭╮╰╯─]", " ", done.stdout).split())
    for argument in COMMANDS[name].params:
        assert " ".join((argument.help or "").split()) in text, argument.name
    about = done.stdout.partition("╭")[0].split("\n", 2)[2]
    for paragraph in re.split(r"\n\s*\n", about):
        assert all(len(line.strip()) > BROKEN for line in paragraph.strip().split("\n")[:-1])
