"""The page of a study in progress: its figures, states and events, and the report of ended runs."""

import json
from dataclasses import replace
from math import nan
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fedsim
from fedsim.browser import pages
from fedsim.browser.pages import StudyPages, figures, progress, read_curve
from fedsim.record.live import CurvePoint, LiveCampaign, LiveEvent, write_live
from fedsim.record.lock import hold
from fedsim.report.convergence import measure_name
from fedsim.running.watching import Watcher
from tests.commands.test_watch import CURVE, OWN, RUN, made
from tests.report.pages import Page
from tests.runs import small

NUMBERS = {"base": 0, "gd": 1}


def parsed(content: str, place: Path) -> Page:
    file = place / "page.html"
    file.write_text(content, encoding="utf-8")
    return Page(file)


def test_the_page_has_every_run_the_curves_workers_and_events(tmp_path: Path) -> None:
    shown = progress(made(OWN), {("gd", 2): CURVE})
    page = parsed(shown, tmp_path)
    assert page.open == []
    for text in (
        "study: 2 of 5 runs done, 1 running, 1 failed",
        *("seed 1: done", "seed 2: failed", "seed 2: 10 %", "seed 3: pending"),
        *("gd, seed 2", "40 of 400", f"gap {2.0**-40:.3g}", "120 J", "about 3 minutes"),
        *("process 8", "vm, process 7", "41 s gd, seed 1 has ended: gap 1e-5"),
    ):
        assert text in " ".join(page.text.split())
    bars = [float(facts["value"] or "") for name, facts in page.tags if name == "progress"]
    assert bars == [(3 + 40 / 400) / 5, 40 / 400]


def test_names_and_reasons_are_shown_and_never_run(tmp_path: Path) -> None:
    name = "<script>alert(1)</script>"
    run = replace(RUN, variant=name, worker="<b>", doing="<i>a & b</i>")
    own = LiveCampaign(name, 1.0, 1, 0, (run,), name, (LiveEvent(1.0, f"{name} has begun"),))
    page = parsed(progress(made(own), {}), tmp_path)
    assert {tag for tag, _ in page.tags}.isdisjoint({"script", "b", "i"} - {"b"})
    assert page.scripts == []
    assert page.text.count(name) == 4
    assert "<i>a & b</i>" in page.text


def test_a_figure_has_a_curve_a_run_and_each_figure_its_axes() -> None:
    lines = {("base", 1): CURVE, ("gd", 2): CURVE[:20]}
    labels = [
        f"{measure_name('gap')} against rounds",
        f"{measure_name('gap')} against energy",
        "energy against rounds",
    ]
    drawn = [str(figure.drawing) for figure in figures(lines, NUMBERS)]
    for drawing, label in zip(drawn, labels, strict=True):
        assert f'aria-label="{label}"' in drawing
        assert drawing.count('data-group="0"') == drawing.count('data-group="1"') == 1


@pytest.mark.parametrize("gap", [nan, 0.0, -1e-14])
def test_without_a_gap_the_objective_is_drawn_and_without_points_nothing(gap: float) -> None:
    points = tuple(point._replace(gap=gap) for point in CURVE)
    drawn = [str(figure.drawing) for figure in figures({("gd", 2): points}, NUMBERS)]
    named = "objective" if np.isnan(gap) else measure_name("gap")
    assert f'aria-label="{named} against rounds"' in drawn[0]
    assert [*figures({}, NUMBERS)] == []
    assert [*figures({("gd", 2): [CurvePoint(0)]}, NUMBERS)] == []


def test_a_recorded_curve_is_that_of_the_round_table(tmp_path: Path) -> None:
    result = fedsim.run(small(stop={"rounds": 300}), out=tmp_path)
    rounds = result.rounds
    curve = read_curve(result.runs[0])
    assert len(curve) == 120
    rows = [point.round for point in curve]
    assert (rows[0], rows[-1]) == (0, 300)
    assert [point.gap for point in curve] == rounds["gap"].iloc[rows].tolist()
    assert [point.joules for point in curve] == pytest.approx(
        rounds["joules"].cumsum().iloc[rows].tolist(), rel=1e-12
    )


def state(own: StudyPages) -> Any:
    answer = own.find("live.json")
    assert answer is not None
    assert answer.kind == "application/json"
    return json.loads(answer.content)


def test_before_the_folder_is_there_the_page_says_what_goes_on(tmp_path: Path) -> None:
    own = StudyPages(tmp_path / "out")
    now = state(own)
    assert (now["ended"], now["title"]) == (0, "out")
    assert "Reading data" in now["html"]
    report = own.find("report.html")
    assert report is not None
    assert "There is no report yet: there are no runs in" in report.content


def test_a_study_half_done_has_its_curves_and_the_report_of_its_ended_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pages, "_PAUSE", 0.0)
    out = tmp_path / "out"
    variants = {"gd": {"algorithm": {"kind": "gd", "step_size": "1/L"}}}
    result = fedsim.run(small(stop={"rounds": 5}, variants=variants), out=out)
    for name in ("summary.json", "scenario.yaml"):
        (result.runs[1] / name).unlink()
    run = replace(RUN, variant="gd", seed=1, rounds=400)
    with hold(out):
        write_live(out, "own.json", replace(OWN, running=(run,)))
        own = StudyPages(out)
        now = state(own)
        assert now["ended"] == 1
        assert now["title"] == "1/2 small"
        assert now["html"].count("data-group=") == 3 * 2
        report = own.find("report.html")
        assert report is not None
        assert report.content.startswith("<!doctype html>")
        assert report.policy == "frame-ancestors 'self'"
        assert "1 run under" in report.content
        assert Watcher(out).look().running.keys() == {("gd", 1)}


def test_a_state_is_looked_at_for_a_small_share_of_the_time(tmp_path: Path) -> None:
    moments = iter([0.0, 0.5])
    own = StudyPages(tmp_path, clock=lambda: next(moments))
    first = own.find("live.json")
    assert own.find("live.json") == first
    with pytest.raises(StopIteration):
        next(moments)


def test_the_page_allows_its_own_scripts_and_requests_alone(tmp_path: Path) -> None:
    home = StudyPages(tmp_path / "a<b").find("")
    assert home is not None
    page = parsed(home.content, tmp_path)
    assert page.open == []
    assert len(page.scripts) == 2
    assert "default-src 'none'" in home.policy
    assert home.policy.count("'sha256-") == 2
    assert "unsafe-inline'; img-src" in home.policy
    assert "connect-src 'self'" in home.policy
    assert "a<b" in page.text
