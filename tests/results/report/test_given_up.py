"""Rounds that were given up are seen in the report and in the trace."""

from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import fedsim
from fedsim.results.analysis import Log
from fedsim.results.analysis.plots.rounds import Lanes, Window
from fedsim.results.record.read import read_run
from fedsim.results.report import timeline
from fedsim.results.report.page import write
from tests.results.analysis.traces import of, traced
from tests.results.report.pages import Page

CAPTION = "Rounds with too few replies, means over seeds"
LOSSY = {"kind": "wifi", "tries": 1, "loss": {"kind": "independent", "rate": "30 %"}}
SCENARIO: dict[str, Any] = {
    "problem": {
        "loss": {"kind": "squared", "l2": 0.1},
        "data": {"kind": "sparse-linear", "clients": 4, "rows": 8, "features": 6, "ones": 3},
        "split": {"kind": "groups"},
        "optimum": "unknown",
    },
    "algorithm": {"kind": "gd", "step_size": "0.5/L"},
    "fleet": [{"count": 4, "radio": LOSSY}],
    "participation": {"kind": "full", "quorum": "75 %", "give_up": "5 s"},
    "stop": {"rounds": 20},
    "seeds": 2,
    "variants": {"patient": {"participation": {"kind": "full", "quorum": "1 %"}}},
}


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> fedsim.Result:
    return fedsim.run(SCENARIO, out=tmp_path_factory.mktemp("runs"))


@pytest.fixture(scope="module")
def given_up(made: fedsim.Result) -> pd.DataFrame:
    return made.events[made.events["event"] == "abandoned"]


@pytest.mark.slow
def test_the_page_counts_them(made: fedsim.Result, given_up: pd.DataFrame, tmp_path: Path) -> None:
    page = Page(write(made.folder, tmp_path / "report.html"))
    counts = [int((given_up["variant"] == name).sum()) for name in ("base", "patient")]
    assert 40 > counts[0] > counts[1]
    assert page.column(CAPTION, "rounds") == [20, 20]
    assert page.column(CAPTION, "given up") == [count / 2 for count in counts]
    shares = [f"{100 * count / 40:.3g} %" for count in counts]
    assert page.words(CAPTION, "share") == shares
    note = page.figures["timeline"]["0/slowest"].note
    assert "given up, for" in note
    assert "of 4 have reported" in note


@pytest.mark.slow
def test_where_none_was_given_up_nothing_is_said_of_it(tmp_path: Path) -> None:
    fedsim.run(SCENARIO | {"fleet": [{"count": 4, "radio": "wifi"}]}, out=tmp_path)
    page = Page(write(tmp_path))
    assert CAPTION not in page.tables
    assert "given up, for" not in page.source


def test_the_trace_names_them(made: fedsim.Result, given_up: pd.DataFrame, tmp_path: Path) -> None:
    for path in made.runs:
        log = Log(*(read_run(path, name) for name in ("events", "rounds", "clients")))
        rounds = of(traced(tmp_path / "trace.json", log), "X", "round")
        variant, seed = path.parent.name, int(path.name.rpartition("-")[2])
        mine = given_up[(given_up["variant"] == variant) & (given_up["seed"] == seed)]
        why = dict(zip(mine["round"], mine["detail"].astype(str), strict=True))
        for number, each in enumerate(rounds, start=1):
            assert each["name"] == f"round {number}" + ", given up" * (number in why)
            assert each["args"].get("given up") == why.get(number)


@pytest.mark.slow
def test_a_window_says_why() -> None:
    nothing = pd.DataFrame({name: [] for name in ("begin", "end", "node", "state", "t", "event")})
    clients = pd.DataFrame({"client": []})
    why = "1 of 4 have reported, 3 are needed; missing: client-2"
    lanes = Lanes(nothing, nothing)
    note = timeline.figure("one", lanes, Window(3, 1.0, 6.0), clients, given_up=why).note
    assert note.startswith("Round 3: 5 s from 1 s on; 0 clients in the log; given up, for 1 of 4")
