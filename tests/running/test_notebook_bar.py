"""The bar of a notebook counts the shares of runs, and is shown in a notebook alone."""

import sys
from types import SimpleNamespace

import pytest

import fedsim
from fedsim.core.progress import activity
from fedsim.running import api
from fedsim.running.run import RunProgress
from tests.cells import Cell
from tests.runs import small


@pytest.fixture
def cell(monkeypatch: pytest.MonkeyPatch) -> Cell:
    """Let this process take itself for a notebook, and return the cell that it displays in."""
    shown = Cell()
    shell = SimpleNamespace(config={"IPKernelApp": {}})
    monkeypatch.setitem(sys.modules, "IPython", SimpleNamespace(get_ipython=lambda: shell))
    monkeypatch.setitem(sys.modules, "IPython.display", SimpleNamespace(display=shown.display))
    monkeypatch.setattr(api, "_REDRAW", 0.0)
    return shown


def test_a_bar_counts_runs_by_their_rounds_and_is_cleared(cell: Cell) -> None:
    fedsim.run(small(seeds=2, stop={"rounds": 4}))
    assert cell.shares == [0, 0, 12, 25, 38, 50, 50, 50, 62, 75, 88, 100, 100]
    assert cell.lines[3].startswith("small ")
    assert "base, seed 1, round 2, gap " in cell.lines[3]
    assert cell.lines[-1] == ""


def test_a_run_that_stops_early_fills_its_share(cell: Cell) -> None:
    with api.notebook_bar("study", 1) as watch:
        watch(RunProgress("base", 1, "gd", 1000, round=10))
        watch(RunProgress("base", 1, "gd", 1000, round=12, ended=True))
    assert cell.shares == [0, 1, 100]


def test_within_a_long_round_it_says_what_goes_on(
    cell: Cell, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(api, "_LONG", 0.001)
    with activity("building the world"), api.notebook_bar("study", 1) as watch:
        cell.changed.clear()
        assert cell.changed.wait(60)
        assert "building the world" in cell.lines[1]
        watch(RunProgress("base", 1, "gd", 9, round=4, doing="52 of 100 answered"))
        assert any("base, seed 1, round 4, 52 of 100 answered" in line for line in cell.lines)


def test_who_watches_gets_no_bar(cell: Cell, capfd: pytest.CaptureFixture[str]) -> None:
    told = list[RunProgress]()
    fedsim.run(small(stop={"rounds": 2}), watch=told.append)
    assert told
    assert not cell.lines
    assert capfd.readouterr().err == ""


def test_there_is_none_outside_of_a_notebook(capfd: pytest.CaptureFixture[str]) -> None:
    assert not api.in_notebook()
    fedsim.run(small(stop={"rounds": 2}))
    assert capfd.readouterr() == ("", "")


def test_reports_draw_the_bar_no_more_often_than_ten_times_a_second(
    cell: Cell, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(api, "_REDRAW", 1e9)
    monkeypatch.setattr(api, "_LONG", 1e9)
    with api.notebook_bar("study", 1) as watch:
        for number in range(1, 10):
            watch(RunProgress("base", 1, "gd", 9, round=number))
        assert cell.shares == [0]
