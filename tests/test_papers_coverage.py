"""The table of the papers' figures and tables is held to the scenarios and the commands."""

import re
import sys
from collections.abc import Iterator
from contextlib import redirect_stdout
from functools import cache
from io import StringIO
from itertools import pairwise
from typing import NamedTuple

import pytest

from tests.conftest import ROOT
from tests.scripts import script

SCENARIOS = ROOT / "scenarios/papers"
COMMANDS = ROOT / "analysis/papers"

WITHOUT_RUNS = ("not done yet", "not reproducible here")
STATES = ("reproduced", "in part", "does not reproduce", *WITHOUT_RUNS)
HEADS = ("figure, table", "what it shows", "state", "scenario", "command", "time")


class Row(NamedTuple):
    """A row of the table, as it is written."""

    place: str
    shows: str
    state: str
    scenarios: list[str]
    commands: list[str]
    time: str


def quoted(cell: str) -> list[str]:
    """Return what stands between backticks in a cell; a dash stands for nothing."""
    parts = re.findall(r"`([^`]+)`", cell)
    assert parts or cell == "-", f"neither names nor a dash: {cell!r}"
    return parts


def read() -> Iterator[Row]:
    """Yield the rows of the first table of the page, whose heads are `HEADS`."""
    lines = (COMMANDS / "remaining.md").read_text(encoding="utf-8").splitlines()
    first = next(number for number, line in enumerate(lines) if line.startswith("|"))
    assert [cell.strip() for cell in lines[first].strip("|").split("|")] == list(HEADS)
    for line in lines[first + 2 :]:
        if not line.startswith("|"):
            return
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        assert len(cells) == len(HEADS), f"{len(cells)} cells: {line}"
        place, shows, state, scenarios, commands, time = cells
        yield Row(place, shows, state, quoted(scenarios), quoted(commands), time)


ROWS = list(read())
each_row = pytest.mark.parametrize("row", ROWS, ids=[row.place for row in ROWS])


@cache
def parts(command: str) -> frozenset[str]:
    """Return the parts that a command says it has, when it is asked for its help."""
    main = script(f"papers/{command.removesuffix('.py')}").main
    told = StringIO()
    with pytest.MonkeyPatch.context() as patch, redirect_stdout(told):
        patch.setenv("COLUMNS", "1000")
        patch.setattr(sys, "argv", [command, "--help"])
        with pytest.raises(SystemExit):
            main()
    listed = re.search(r"^ +(?:PART|TASK) +(.+)$", told.getvalue(), re.MULTILINE)
    assert listed, f"{command} does not list its parts"
    return frozenset(listed[1].split(", "))


def test_every_scenario_of_a_row_is_there() -> None:
    assert {name for row in ROWS for name in row.scenarios} <= {
        file.stem for file in SCENARIOS.glob("*.yaml")
    }


def test_the_rows_of_a_paper_stand_together_and_none_stands_twice() -> None:
    papers = [row.place.split(",")[0] for row in ROWS]
    changes = sum(paper != other for paper, other in pairwise(papers))
    assert changes == len(set(papers)) - 1
    assert len({row.place for row in ROWS}) == len(ROWS)


def test_every_command_of_the_folder_is_in_a_row_with_each_of_its_parts() -> None:
    named: dict[str, set[str]] = {}
    for row in ROWS:
        for command in row.commands:
            name, *own = command.split()
            if name == "fedsim":
                assert own == ["run", *row.scenarios], command
            else:
                named.setdefault(name, set()).update(own or parts(name))
    files = {file.name for file in COMMANDS.glob("*.py")} - {"run.py"}
    assert set(named) == files
    for name in files:
        assert named[name] == parts(name), name


@each_row
def test_a_row_says_how_it_stands_and_why_where_something_is_missing(row: Row) -> None:
    state, _, why = row.state.partition(": ")
    assert state in STATES
    assert bool(why) == (state != "reproduced"), "only what is missing has a reason, and it has one"
    assert row.shows


@each_row
def test_a_row_says_what_runs_it_and_how_long(row: Row) -> None:
    """Only what is not done, or cannot be here, has no duration; what is not done has no runs."""
    if row.state.startswith("not done yet"):
        assert (row.scenarios, row.commands, row.time) == ([], [], "-")
    if not row.state.startswith(WITHOUT_RUNS):
        assert row.scenarios
        assert row.commands
        assert re.fullmatch(r"\d+ (s|min|h)|not timed", row.time), row.time
    assert bool(row.commands) == bool(row.scenarios)
    for name in row.scenarios:
        assert (SCENARIOS / f"{name}.yaml").is_file(), name
