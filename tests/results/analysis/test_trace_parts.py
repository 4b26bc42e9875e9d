"""Traces of a part of a run, and the tracks that keep apart what would overlap."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from fedsim.results.analysis import Log, link_load
from fedsim.results.analysis.trace import nanoseconds, tracks
from tests.results.analysis.lively import log
from tests.results.analysis.traces import SECOND, kept, of, traced


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Log:
    return kept(tmp_path_factory.mktemp("runs"))


# -- a part of a run -------------------------------------------------------------------


def test_a_window_has_its_rounds_and_what_goes_on_in_them(run: Log, tmp_path: Path) -> None:
    window, events = run.window(10, 12), traced(tmp_path / "whole.json", run)
    part = traced(tmp_path / "part.json", run, 10, 12)
    assert [each["name"] for each in of(part, "X", "round")] == [
        f"round {number}" for number in (10, 11, 12)
    ]
    begin, end = window.begin * SECOND, window.end * SECOND
    expected = [
        (each["name"], each["ts"], each["dur"])
        for each in of(events, "X")
        if each["ts"] + each["dur"] >= begin - 1e-3 and each["ts"] <= end + 1e-3
    ]
    assert [(each["name"], each["ts"], each["dur"]) for each in of(part, "X")] == expected
    for each in part:
        if each["ph"] in "iC":
            assert begin - 1e-3 <= each["ts"] <= end + 1e-3


def test_a_counter_begins_with_the_load_of_the_moment(tmp_path: Path) -> None:
    """A round closes at its deadline, while a slow radio still sends."""
    fleet = [{"count": 5, "radio": {"kind": "wifi", "up": "1 kbit/s"}}]
    run = kept(tmp_path, fleet=fleet, participation={"kind": "full", "deadline": "500 ms"})
    window, load = run.window(3, 4), link_load(run.events)
    before = load[load["t"] < window.begin]["up"].iloc[-1]
    assert before > 0
    part = traced(tmp_path / "part.json", run, 3, 4)
    first = next(each for each in part if each["name"] == "link load up")
    assert first["ts"] == pytest.approx(window.begin * SECOND, abs=1e-3)
    assert first["args"]["bit/s"] == pytest.approx(before, rel=1e-8)


def test_windows_in_a_row_tile_the_run(run: Log) -> None:
    length = run.events["t"].max()
    assert run.window() == (1, 30, 0.0, length)
    parts = [run.window(None, 9), run.window(10, 10), run.window(11)]
    assert [part.begin for part in parts] == [0.0, *(part.end for part in parts[:-1])]
    assert parts[-1].end == length
    for rounds in ((0, 3), (5, 4), (7, 31), (31, None)):
        with pytest.raises(ValueError, match="rounds 1 to 30"):
            run.window(*rounds)


def test_a_run_without_rounds_has_a_trace(tmp_path: Path) -> None:
    events = log(
        {"event": "compute", "t": 2.0, "duration": 1.0},
        {"event": "stop", "node": "server", "t": 3.0},
    )
    rounds = pd.DataFrame(columns=["round", "t", "objective", "gap"], dtype=np.float64)
    facts = {"client": ["client-0"], "group": [0], "device": ["pi-4"], "radio": ["wifi"]}
    found = traced(tmp_path / "trace.json", Log(events, rounds, pd.DataFrame(facts)))
    (slice_,) = [each for each in found if each["ph"] == "X"]
    assert (slice_["name"], slice_["ts"], slice_["dur"]) == ("compute", 1e6, 1e6)


# -- tracks ----------------------------------------------------------------------------


def table(*rows: tuple[str, int, int]) -> pd.DataFrame:
    frame = pd.DataFrame(rows, columns=["lane", "begin", "end"])
    return frame.assign(node="client-0")


def test_lanes_share_a_track_while_they_have_room() -> None:
    rows = table(("radio", 0, 10), ("up", 10, 20), ("down", 20, 30), ("processor", 0, 30))
    own, radio = tracks(rows, ["client-0"], 0)["client-0"]
    assert (own.name, own.rows.tolist()) == ("client-0", [3])
    assert (radio.name, radio.rows.tolist()) == ("client-0 radio", [0, 1, 2])
    rows = table(("radio", 0, 10), ("up", 10, 20), ("down", 19, 30))
    assert [track.name for track in tracks(rows, ["client-0"], 0)["client-0"]] == [
        "client-0", "client-0 radio", "client-0 down",
    ]  # fmt: skip


def test_what_rounding_overlaps_is_pushed_back() -> None:
    rows = table(("radio", 0, 10), ("up", 9, 20), ("up", 20, 20))
    _, radio = tracks(rows, ["client-0"], 1)["client-0"]
    assert radio.begins.tolist() == [0, 10, 20]
    assert radio.ends.tolist() == [10, 20, 20]


def test_long_runs_are_told_to_the_microsecond() -> None:
    times = pd.Series([1.0000000004, 123456.7890123456])
    assert nanoseconds(times, 1e6).tolist() == [1_000_000_000, 123_456_789_012_346]
    assert nanoseconds(times, 1e7).tolist() == [1_000_000_000, 123_456_789_012_000]
