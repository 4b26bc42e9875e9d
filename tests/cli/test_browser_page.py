"""The report of a study in progress: what it shows, who draws it, and what it leaves at the end."""

import json
import os
import signal
import subprocess
import sys
import threading
import time
import webbrowser
from dataclasses import replace
from math import inf, nan
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

import fedsim
from fedsim.cli import app, browser_page
from fedsim.cli.browser_page import Drawing, FollowedPage, draw_page, open_browser, progress_of
from fedsim.results.record.live import LIVE, CurvePoint, LiveCampaign, LiveEvent, write_live
from fedsim.results.record.lock import hold
from fedsim.results.report.page import page_of
from fedsim.results.report.progress import recorded_curves
from tests.cli.test_watch import CURVE, OWN, RUN, made
from tests.interrupting import LONG, hearing, interrupted
from tests.results.report.conftest import captured
from tests.results.report.pages import Page
from tests.runs import files, small

RELOADS = ("data-reload", 'http-equiv="refresh"')


def parsed(content: str, folder: Path) -> Page:
    file = folder / "page.html"
    file.write_text(content, encoding="utf-8")
    return Page(file)


def test_the_page_has_every_run_the_curves_workers_and_events(tmp_path: Path) -> None:
    shown = page_of({}, progress_of(made(OWN), {("gd", 2): CURVE}))
    page = parsed(shown, tmp_path)
    assert page.open == []
    text = " ".join(page.text.split())
    for words in (
        "study: 2 of 5 runs done, 1 running, 1 failed",
        *("seed 1: done", "seed 2: failed", "seed 2: 10 %", "seed 3: pending"),
        *("gd, seed 2", "40 of 400", f"gap {2.0**-40:.3g}", "120 J", "about 3 minutes"),
        *("process 8", "vm, process 7", "gd, seed 1 has ended: gap 1e-5"),
    ):
        assert words in text
    (bar,) = [float(facts["value"] or "") for name, facts in page.tags if name == "progress"]
    assert bar == (3 + 40 / 400) / 5
    assert shown.count('role="img"') == 3
    assert all(each in shown for each in RELOADS)


def test_the_figures_of_the_page_have_the_rounds_costs_and_gaps_of_its_curves() -> None:
    with captured() as found:
        page_of({}, progress_of(made(OWN), {("gd", 2): CURVE}))
    for number, (x, y) in enumerate((("round", "gap"), ("joules", "gap"), ("round", "joules"))):
        (line,) = found[f"progress-{number}"].get_lines()
        assert np.asarray(line.get_xdata()).tolist() == [getattr(point, x) for point in CURVE]
        assert np.asarray(line.get_ydata()).tolist() == [getattr(point, y) for point in CURVE]


def test_without_an_optimum_the_curves_are_of_the_objective() -> None:
    with captured() as found:
        page_of({}, progress_of(made(OWN), {("gd", 2): [each._replace(gap=nan) for each in CURVE]}))
    (line,) = found["progress-0"].get_lines()
    assert np.asarray(line.get_ydata()).tolist() == [point.objective for point in CURVE]


@pytest.mark.parametrize("value", [nan, inf, 1e308, 0.0])
def test_a_curve_without_a_figure_that_can_be_drawn_leaves_the_page_whole(
    value: float, tmp_path: Path
) -> None:
    lines = {("gd", 2): [CurvePoint(0), CurvePoint(1, 1.0, value, value, value)], ("gd", 3): []}
    assert parsed(page_of({}, progress_of(made(OWN), lines)), tmp_path).open == []


def test_names_and_reasons_are_shown_and_never_run(tmp_path: Path) -> None:
    name = "<script>alert(1)</script>"
    run = replace(RUN, variant=name, worker="<b>", doing="<i>a & b</i>")
    own = LiveCampaign(name, 1.0, 1, 0, (run,), name, (LiveEvent(1.0, f"{name} has begun"),))
    page = parsed(page_of({}, progress_of(made(own), {})), tmp_path)
    assert "i" not in {tag for tag, _ in page.tags}
    assert len(page.scripts) == 1
    assert page.text.count(name) == 5
    assert "<i>a & b</i>" in page.text


def test_a_recorded_curve_is_that_of_the_round_table(tmp_path: Path) -> None:
    rounds = fedsim.run(small(stop={"rounds": 300}), out=tmp_path).rounds
    (curve,) = recorded_curves(rounds).values()
    assert len(curve) == 120
    rows = [point.round for point in curve]
    assert (rows[0], rows[-1]) == (0, 300)
    assert [point.gap for point in curve] == rounds["gap"].iloc[rows].tolist()
    assert [point.joules for point in curve] == pytest.approx(
        rounds["joules"].cumsum().iloc[rows].tolist(), rel=1e-12
    )


def test_a_study_half_done_has_its_curves_and_the_report_of_its_ended_runs(tmp_path: Path) -> None:
    out = tmp_path / "out"
    variants = {"gd": {"algorithm": {"kind": "gd", "step_size": "1/L"}}}
    result = fedsim.run(small(stop={"rounds": 5}, variants=variants), out=out)
    for name in ("summary.json", "scenario.yaml"):
        (result.runs[1] / name).unlink()
    with hold(out):
        write_live(out, "own.json", replace(OWN, running=(replace(RUN, seed=1),)))
        with captured() as found:
            content = Drawing(out).page(7.0)
    page = parsed(content, tmp_path)
    assert page.open == []
    tabs = [facts["id"] for name, facts in page.tags if facts.get("role") == "tab"]
    assert tabs[:2] == ["tab-progress", "tab-overview"]
    assert "1 run under seed 1" in page.text
    assert "1 of 2 runs done, 1 running" in page.text
    assert 'data-reload="7.0"' in content
    assert [len(axis.get_lines()) for name, axis in found.items() if "progress" in name] == [2] * 3


def test_a_page_that_nothing_was_recorded_for_goes_and_one_that_was_stops(tmp_path: Path) -> None:
    out = tmp_path / "new" / "out"
    with draw_page(out) as page:
        assert page.file.parent == out / LIVE
        assert RELOADS[1] in page.file.read_text(encoding="utf-8")
    assert not out.exists()
    fedsim.run(small(stop={"rounds": 2}), out=out)
    with draw_page(out) as page:
        pass
    content = page.file.read_text(encoding="utf-8")
    assert "The runs were stopped" in content
    assert not any(each in content for each in RELOADS)
    with draw_page(out) as page:
        page.lead(out / "report-2.html")
    assert 'content="0; url=../report-2.html"' in page.file.read_text(encoding="utf-8")
    assert [path.name for path in page.file.parent.iterdir()] == [page.file.name]


def test_where_no_process_may_start_one_error_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Refusing:
        pid = None

        def __init__(self, **_: object) -> None:
            pass

        def start(self) -> None:
            raise BlockingIOError(11, "Resource temporarily unavailable")

    monkeypatch.setattr(browser_page, "get_context", lambda _: Any)
    monkeypatch.setattr(Any, "Process", Refusing, raising=False)
    wanted = "--browser: cannot start the drawing process: Resource temporarily unavailable"
    with pytest.raises(fedsim.DataError, match=wanted), draw_page(tmp_path / "out"):
        pass
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("display", "kind", "opened"),
    [
        ("", webbrowser.BackgroundBrowser, 0),
        (":0", webbrowser.GenericBrowser, 0),  # one that draws in the terminal
        (":0", webbrowser.BackgroundBrowser, 1),
    ],
)
def test_a_browser_opens_only_where_there_are_windows(
    monkeypatch: pytest.MonkeyPatch,
    display: str,
    kind: type[webbrowser.GenericBrowser],
    opened: int,
) -> None:
    seen, done = list[str](), threading.Event()

    def show(address: str) -> None:
        seen.append(address)
        done.set()

    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.setenv("DISPLAY", display)
    monkeypatch.delenv("WAYLAND_DISPLAY", raising=False)
    monkeypatch.setattr(webbrowser, "get", lambda: kind("any"))
    monkeypatch.setattr(webbrowser, "open", show)
    open_browser(Path("/out/page.html"))
    if opened:
        done.wait()
    assert seen == ["file:///out/page.html"] * opened


def test_quiet_is_refused(tmp_path: Path) -> None:
    scenario = tmp_path / "study.yaml"
    scenario.write_text(json.dumps(small()))
    said = CliRunner().invoke(app, ["run", str(scenario), "--browser", "--quiet"])
    assert said.exit_code == 2
    assert said.stderr.strip() == "got --browser and --quiet; expected at most one of them"


@pytest.mark.slow
def test_a_page_leaves_every_byte_of_a_run_and_leads_to_a_report_that_stands(
    tmp_path: Path,
) -> None:
    scenario, out = tmp_path / "study.yaml", tmp_path / "drawn"
    scenario.write_text(json.dumps(small(stop={"rounds": 20}, seeds=2)), encoding="utf-8")
    fedsim.run(scenario, out=tmp_path / "plain")
    said = CliRunner().invoke(app, ["run", str(scenario), "--browser", "--out", str(out)])
    assert said.exit_code == 0, said.output
    page = FollowedPage(out)
    assert f"follow the runs at {page.file.as_uri()}" in said.stderr
    assert "url=../report.html" in page.file.read_text(encoding="utf-8")
    report = (out / "report.html").read_text(encoding="utf-8")
    assert not any(each in report for each in RELOADS)
    assert "tab-progress" not in report
    more = {"convergence.png", "report.html", f"{LIVE}/{page.file.name}"}
    written = {name: data for name, data in files(out).items() if name not in more}
    assert written == files(tmp_path / "plain")


def begin(tmp_path: Path) -> "tuple[subprocess.Popen[str], Path]":
    """Start a run of hours; return its process and its page, once that shows the run."""
    scenario, out = tmp_path / "long.yaml", tmp_path / "out"
    scenario.write_text(json.dumps(LONG), encoding="utf-8")
    process = subprocess.Popen(
        [sys.executable, "-m", "fedsim", "run", str(scenario), "--out", str(out), "--browser"],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        preexec_fn=hearing,  # noqa: PLW1509 - no threads here
    )
    page = FollowedPage(out).file
    while "tab-progress" not in read(page):
        assert process.poll() is None
        time.sleep(0.05)
    return process, page


def read(page: Path) -> str:
    return page.read_text(encoding="utf-8") if page.exists() else ""


@pytest.mark.slow
def test_the_page_of_a_command_that_is_killed_says_so(tmp_path: Path) -> None:
    process, page = begin(tmp_path)
    with process:
        process.kill()
        process.wait()
        while "The runs were stopped" not in read(page):
            time.sleep(0.05)


@pytest.mark.slow
@pytest.mark.parametrize(("way", "group"), [(signal.SIGINT, True), (signal.SIGTERM, False)])
def test_the_page_of_a_command_that_is_interrupted_says_so(
    tmp_path: Path, way: signal.Signals, group: bool
) -> None:
    process, page = begin(tmp_path)
    with process:
        (os.killpg if group else os.kill)(process.pid, way)
        _, said = process.communicate()
    assert process.returncode == 128 + way
    assert "Traceback" not in said
    assert "The runs were stopped" in read(page)


@pytest.mark.slow
@pytest.mark.parametrize("after", [0.0, 1.0])
def test_an_interrupt_while_the_page_s_process_starts_leaves_none(
    tmp_path: Path, after: float
) -> None:
    scenario, aside = tmp_path / "long.yaml", tmp_path / "aside"
    scenario.write_text(json.dumps(LONG), encoding="utf-8")
    aside.mkdir()
    words = ["run", str(scenario), "--out", str(tmp_path / "out"), "--browser"]
    ended = interrupted(words, signal.SIGINT, after, aside, group=True)
    assert ended.faults(signal.SIGINT) == []
