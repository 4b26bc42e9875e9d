"""The bar of a notebook counts the shares of runs, and is shown in a notebook alone."""

import sys
import threading
from types import SimpleNamespace

import pytest
from tqdm import tqdm

import fedsim
from fedsim.core.progress import activity
from fedsim.running import api
from fedsim.running.run import RunProgress
from tests.runs import small


@pytest.fixture
def drawn(monkeypatch: pytest.MonkeyPatch) -> list[tuple[float, str]]:
    """Return what a bar shows each time that it moves, in what takes itself for a notebook."""
    seen = list[tuple[float, str]]()

    class Bar(tqdm):  # type: ignore[misc]  # it has no types
        def update(self, n: float = 1) -> None:
            super().update(n)
            seen.append((self.n, self.postfix))

    shell = SimpleNamespace(config={"IPKernelApp": {}})
    monkeypatch.setitem(sys.modules, "IPython", SimpleNamespace(get_ipython=lambda: shell))
    monkeypatch.setattr(api, "_bar", lambda: Bar)
    monkeypatch.setattr(api, "_REDRAW", 0.0)
    return seen


def test_a_bar_counts_runs_by_their_rounds(
    drawn: list[tuple[float, str]], capfd: pytest.CaptureFixture[str]
) -> None:
    fedsim.run(small(seeds=2, stop={"rounds": 4}))
    places = [place for place, _ in drawn]
    assert places == pytest.approx([0, 0.25, 0.5, 0.75, 1, 1, 1, 1.25, 1.5, 1.75, 2, 2])
    assert drawn[2][1].startswith("base, seed 1, round 2, gap ")
    assert "small" in capfd.readouterr().err


def test_a_run_that_stops_early_fills_its_share(drawn: list[tuple[float, str]]) -> None:
    with api.notebook_bar("study", 1) as watch:
        watch(RunProgress("base", 1, "gd", 1000, round=10))
        watch(RunProgress("base", 1, "gd", 1000, round=12, ended=True))
    assert [place for place, _ in drawn] == pytest.approx([0.01, 1.0])


def test_within_a_long_round_it_says_what_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    shown, seen = list[str](), threading.Event()

    class Bar(tqdm):  # type: ignore[misc]  # it has no types
        def set_postfix_str(self, s: str = "", refresh: bool = True) -> None:
            shown.append(s)
            seen.set()

    monkeypatch.setattr(api, "in_notebook", lambda: True)
    monkeypatch.setattr(api, "_bar", lambda: Bar)
    monkeypatch.setattr(api, "_LONG", 0.001)
    with api.notebook_bar("study", 1) as watch, activity("building the world"):
        assert seen.wait(60)
        assert shown[0] == "building the world"
        watch(RunProgress("base", 1, "gd", 9, round=4, doing="52 of 100 answered"))
        assert "base, seed 1, round 4, 52 of 100 answered" in shown


def test_who_watches_gets_no_bar(
    drawn: list[tuple[float, str]], capfd: pytest.CaptureFixture[str]
) -> None:
    told = list[RunProgress]()
    fedsim.run(small(stop={"rounds": 2}), watch=told.append)
    assert told
    assert not drawn
    assert capfd.readouterr().err == ""


def test_there_is_none_outside_of_a_notebook(capfd: pytest.CaptureFixture[str]) -> None:
    assert not api.in_notebook()
    fedsim.run(small(stop={"rounds": 2}))
    assert capfd.readouterr() == ("", "")


def test_reports_draw_the_bar_no_more_often_than_it_draws_itself(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    drawn = list[float]()

    class Bar(tqdm):  # type: ignore[misc]  # it has no types
        def __init__(self, **options: object) -> None:
            super().__init__(mininterval=1e9, **options)
            drawn.clear()  # but for the empty one

        def refresh(self, *given: object, **options: object) -> None:
            drawn.append(self.n)
            super().refresh(*given, **options)

    monkeypatch.setattr(api, "in_notebook", lambda: True)
    monkeypatch.setattr(api, "_bar", lambda: Bar)
    monkeypatch.setattr(api, "_REDRAW", 0.0)
    with api.notebook_bar("study", 1) as watch:
        for number in range(1, 10):
            watch(RunProgress("base", 1, "gd", 9, round=number))
        assert drawn == []
