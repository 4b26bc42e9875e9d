"""The page of a study in progress: from made folders, and of a run in another process."""

import json
import subprocess
import sys
import threading
from io import StringIO
from math import nan
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console
from typer.testing import CliRunner

import fedsim
from fedsim.cli import app, live_page
from fedsim.results.record.live import CurvePoint, LiveCampaign, LiveEvent, LiveRun, write_live
from fedsim.running.folder import Status, VariantStatus
from fedsim.running.watching import Snapshot, Watcher, headline, time_left
from tests.runs import files, small
from tests.tiers import every

CURVE = tuple(CurvePoint(n, n / 4, 1 + 2.0**-n, 2.0**-n, 3.0 * n) for n in range(1, 41))
RUN = LiveRun("gd", 2, "gd", 400, 40, 20.0, 2.0, "process 8", "", CURVE)
OWN = LiveCampaign(
    "vm, process 7", 60.0, 5, 2, (RUN,), "", (LiveEvent(41.0, "gd, seed 1 has ended: gap 1e-5"),)
)


def variant(name: str, seconds: float = nan, **seeds: tuple[int, ...]) -> VariantStatus:
    parts = {"done": (), "running": (), "failed": (), "pending": (), **seeds}
    return VariantStatus(name, **parts, seconds=seconds, reasons={})


def made(*campaigns: LiveCampaign, held: bool = True) -> Snapshot:
    states = (
        variant("base", 100.0, done=(1,), failed=(2,)),
        variant("gd", done=(1,), running=(2,), pending=(3,)),
    )
    return Snapshot(Status("study", Path("out"), held, states), campaigns)


def drawn(now: Snapshot, width: int) -> list[str]:
    console = Console(file=StringIO(), width=width, record=True)
    console.print(live_page.page(now, width))
    return console.export_text().splitlines()


@pytest.mark.parametrize("width", [40, 80, 160])
def test_the_page_has_every_run_the_curves_workers_and_events(width: int) -> None:
    lines = drawn(made(OWN), width)
    assert max(map(len, lines)) <= width
    text = " ".join(" ".join(lines).split())
    assert "2 of 5 runs done, 1 running, 1 failed" in text
    assert "1:done 2:failed" in text
    assert "1:done 2:10 % 3:pending" in text
    assert "gd, seed 2" in text
    assert "process 8: gd, seed 2, 2 rounds/s" in text
    assert "41 s gd, seed 1 has ended" in text
    assert any(line.split()[0] == "joules" and line.endswith("120 J") for line in lines if line)
    gap = next(line for line in lines if line.startswith("  gap"))
    assert gap.endswith(f"{2.0**-40:.3g}")
    assert "█" in gap
    assert "▁" in gap


def test_the_time_left_follows_from_rates_and_ended_runs() -> None:
    now = made(OWN)
    assert time_left(RUN) == 360 / 2.0
    # Seed 3 of gd has no ended run of its variant: the median of 100 s and of 400 rounds at 2/s.
    assert now.seconds == 180 + (100 + 200) / 2
    known = Status("study", Path("out"), held=True, variants=(variant("gd", 60.0, pending=(3,)),))
    assert Snapshot(known).seconds == 60.0


def test_a_study_is_over_where_no_process_works_or_all_has_ended() -> None:
    assert not made(OWN).over
    assert made(held=False).over
    assert "no process is running" in headline(made(held=False))
    ended = Status("study", Path("out"), held=True, variants=(variant("gd", done=(1,)),))
    assert Snapshot(ended).over


@every(
    ("values", "log", "line"),
    [
        ([], False, ""),
        ([nan, nan], False, "  "),
        ([5.0], False, "▁"),
        ([0.0, 1.0], True, " ▁"),
        ([1e-8, 1.0], True, "▁█"),
    ],
)
def test_a_sparkline_of_few_or_unknown_values(values: list[float], log: bool, line: str) -> None:
    assert live_page.sparkline(values, 10, log=log) == line


def test_outside_of_a_terminal_there_are_lines_and_ended_studies_end_at_once(
    tmp_path: Path,
) -> None:
    fedsim.run(small(stop={"rounds": 2}), out=tmp_path)
    said = CliRunner().invoke(app, ["watch", str(tmp_path)])
    assert said.exit_code == 0, said.output
    assert said.output.splitlines() == ["small: 1 of 1 runs done, 0 running, no process is running"]
    write_live(tmp_path, "killed.json", OWN)  # of a killed process: the folder is not held
    assert Watcher(tmp_path).look().campaigns == ()


def test_a_folder_of_no_study_and_quiet_are_refused(tmp_path: Path) -> None:
    said = CliRunner().invoke(app, ["watch", str(tmp_path)])
    assert said.exit_code == 2
    assert "there are no runs in" in said.stderr
    scenario = tmp_path / "study.yaml"
    scenario.write_text(json.dumps(small()))
    said = CliRunner().invoke(app, ["run", str(scenario), "--watch", "--quiet"])
    assert said.exit_code == 2
    assert said.stderr.strip() == "got --watch and --quiet; expected at most one of them"


def test_a_page_leaves_every_byte_of_a_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live_page, "_PAUSE", 1e-3)
    monkeypatch.setattr(live_page, "_SHARE", 1.0)
    without, watched = tmp_path / "without" / "out", tmp_path / "watched" / "out"
    scenario = small(stop={"rounds": 4})
    fedsim.run(scenario, out=without)
    shown, threads = StringIO(), threading.enumerate()
    console = Console(file=shown, width=80, force_terminal=True)
    with live_page.live_page(console, watched):
        fedsim.run(scenario, out=watched)
    assert files(watched) == files(without)
    assert threading.enumerate() == threads
    assert shown.getvalue().rfind("\x1b[?25h") > shown.getvalue().rfind("\x1b[?25l")  # the cursor


@pytest.mark.slow
def test_a_run_in_another_process_is_seen(tmp_path: Path) -> None:
    scenario: dict[str, Any] = small(stop={"rounds": 100_000})
    file, out = tmp_path / "study.yaml", tmp_path / "out"
    file.write_text(json.dumps(scenario))
    words = [sys.executable, "-m", "fedsim", "run", str(file), "--out", str(out), "--quiet"]
    with subprocess.Popen(words) as process:
        try:
            seen = None
            while seen is None and process.poll() is None:
                if (out / "study.json").exists():
                    running = Watcher(out).look().running.values()
                    seen = next((run for run in running if run.curve), None)
        finally:
            process.terminate()
    assert seen is not None
    assert (seen.variant, seen.seed, seen.rounds) == ("base", 1, 100_000)
    assert 0 < seen.curve[-1].round <= seen.round
    assert not Watcher(out).look().status.held
