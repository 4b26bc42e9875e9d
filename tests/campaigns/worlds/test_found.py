"""Worlds that failed once end as they may; one that fails is made small, and kept; campaigns
that are cut off go on."""

from collections.abc import Iterator
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from . import __main__ as command
from . import auditor, campaign, found
from .campaign import Played
from .drawing import world
from .evidence import Evidence
from .found import FOUND, as_yaml, replayed
from .playing import Outcome
from .shrinking import shrunk
from .tally import Tally


def test_worlds_that_failed_once_end_as_they_may() -> None:
    ends = {path.name: replayed(path) for path in sorted(FOUND.glob("*.yaml"))}
    assert ends
    assert {name: end.text for name, end in ends.items() if end.end == "finding"} == {}


SMALL: dict[str, Any] = {
    "name": "a small world",
    "seed": 3,
    "problem": {
        "loss": "squared",
        "data": {"kind": "npz", "path": "binary.npz"},
    },
    "algorithm": {"kind": "gd", "step_size": 0.01},
    "fleet": [{"count": 3, "radio": "wifi"}],
    "stop": {"rounds": 5, "time": "1 h"},
    "measures": ["gradient_norm"],
}


@pytest.fixture
def _biased(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the auditor object to every run of more than one round, of small worlds."""
    for place in (campaign, found):
        monkeypatch.setattr(place, "world", lambda _: deepcopy(SMALL))

    def short(run: Evidence) -> Iterator[str]:
        if run.summary["rounds"] > 1:
            yield f"{run.summary['rounds']} rounds"

    monkeypatch.setattr(auditor, "CHECKS", (short,))


@pytest.mark.usefixtures("_biased")
def test_a_campaign_writes_down_what_fails_made_small(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    tally = tmp_path / "tally"
    asked = ["--seed", "3", "--count", "1", "--out", str(tmp_path), "--tally", str(tally)]
    monkeypatch.setattr("sys.argv", ["worlds", *asked])
    assert command.main() == 1
    first = capsys.readouterr().out
    path = min(tmp_path.glob("*.yaml"))
    small = YAML(typ="safe", pure=True).load(path)
    assert set(small) == {"problem", "algorithm", "fleet", "stop"}
    assert small["problem"] == SMALL["problem"]
    assert small["fleet"] == [{}]  # which says that there is one client
    assert small["stop"] == {"rounds": 2}
    assert replayed(path).sign == "short"
    assert command.main() == 1  # all are in the tally, and none is replayed
    assert capsys.readouterr().out == first[first.index("1 worlds") :]


def test_a_tally_leaves_out_a_line_that_was_cut_off(tmp_path: Path) -> None:
    tally = Tally(tmp_path / "tally")
    assert list(tally.read()) == []
    worlds = [Played(number, Outcome("done", 'a "b"\n', "rounds")) for number in (4, 5)]
    for each in worlds:
        tally.add(each)
    assert list(tally.read()) == worlds
    whole = (tmp_path / "tally").read_bytes()
    (tmp_path / "tally").write_bytes(whole[:-2])
    assert list(tally.read()) == worlds[:1]


def test_numbers_are_made_as_small_as_the_failure_allows() -> None:
    assert shrunk({"a": 37, "b": [9, 8], "c": True}, lambda w: w.get("a", 0) > 5) == {"a": 9}


def test_a_world_that_is_written_down_reads_as_it_was(tmp_path: Path) -> None:
    as_yaml(world(5), tmp_path / "world.yaml", "a remark")
    with (tmp_path / "world.yaml").open(encoding="utf-8") as stream:
        assert YAML(typ="safe", pure=True).load(stream) == world(5)
