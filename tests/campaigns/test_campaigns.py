"""One command runs every campaign at a share of its cases."""

import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from . import __main__ as command
from .__main__ import CAMPAIGNS

HERE = Path(__file__).parent


def test_every_campaign_is_in_the_list_and_its_commands_are_there() -> None:
    assert {each.parent.name for each in HERE.glob("*/__init__.py")} == set(CAMPAIGNS)
    for part in (part for parts in CAMPAIGNS.values() for part in parts):
        assert find_spec(f"tests.campaigns.{part.module}") is not None
        assert part.command(1)[1:] == [
            *part.words,
            *(["--count", str(part.cases)] * (part.cases > 0)),
        ]


def test_a_share_is_one_of_the_cases_and_never_of_none(capsys: pytest.CaptureFixture[str]) -> None:
    (part,) = CAMPAIGNS["flips"]
    assert part.command(0.01) == ["tests.campaigns.flips", "--count", "100"]
    assert part.command(1e-9) == ["tests.campaigns.flips", "--count", "1"]
    (mutants,) = CAMPAIGNS["mutants"]
    assert mutants.command(0.5) == ["tests.campaigns.mutants", "--listed"]


def test_a_campaign_that_finds_something_fails_the_command(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    seen = list[list[str]]()

    def run(words: list[str]) -> command.Ended:
        seen.append(words)
        return command.Ended(words, int("hostile" in words[0]), "found", 0.0)

    monkeypatch.setattr(command, "run", run)
    monkeypatch.setattr("sys.argv", ["campaigns", "flips", "--share", "0.1"])
    assert command.main() == 0
    assert seen == [["tests.campaigns.flips", "--count", "1000"]]
    monkeypatch.setattr("sys.argv", ["campaigns", "--jobs", "3"])
    assert command.main() == 1
    assert len(seen) == 1 + sum(len(parts) for parts in CAMPAIGNS.values())
    assert "ended with code 1: python -m tests.campaigns.hostile wire" in capsys.readouterr().out


@pytest.mark.parametrize("words", [["flip"], ["--share", "0"], ["--share", "2"]])
def test_what_there_is_not_is_refused(words: list[str]) -> None:
    asked = [sys.executable, "-m", "tests.campaigns", *words]
    assert subprocess.run(asked, capture_output=True, check=False).returncode == 2
