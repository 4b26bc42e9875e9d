"""The command line that the papers' scripts share says what is wrong, in words and with 2."""

from collections.abc import Sequence
from pathlib import Path

import pytest
from rich.table import Table

import fedsim
from fedsim.results.analysis.scripts import run_parts
from tests.runs import small


def parts(part: str, out: Path, overrides: Sequence[str]) -> tuple[list[Table], str]:
    fedsim.run(small(stop={"rounds": 1}), out=out / part, overrides=overrides)
    return [], f"{part} is done"


def asked(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], *arguments: str
) -> tuple[object, str]:
    """Return with what the script ends, and what it says of it."""
    monkeypatch.setattr("sys.argv", ["script.py", *arguments])
    with pytest.raises(SystemExit) as ended:
        run_parts("Runs.", ("one", "two"), parts)
    return ended.value.code, capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("three",), "no part 'three'; there are one, two"),
        (("one", "--set", "stop.rounds=-1"), "stop.rounds"),
        (("one", "--set", "no.such=1"), "no"),
        (("one", "--seeds", "-2"), "seeds"),
    ],
)
def test_what_is_wrong_is_told(
    arguments: Sequence[str],
    said: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    code, told = asked(monkeypatch, capsys, *arguments)
    assert code == 2
    assert said in told
    assert "Traceback" not in told


def test_a_place_that_cannot_be_written_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").write_text("in the way")
    code, told = asked(monkeypatch, capsys, "one", "--out", str(tmp_path / "file"))
    assert code == 2
    assert "file" in told


def test_each_part_is_told_once_it_is_done(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.argv", ["script.py", "--out", str(tmp_path)])
    run_parts("Runs.", ("one", "two"), parts)
    assert capsys.readouterr().out.split("\n")[:2] == ["one is done", "two is done"]
    assert {path.name for path in tmp_path.iterdir()} == {"one", "two"}
