"""How far a study is, by its folder, and what a shard's command says."""

import io
import json
import os
import re
import shutil
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console
from rich.progress import Progress
from typer.testing import CliRunner, Result

import fedsim
from fedsim.cli import app
from fedsim.cli.progress import _TimeColumn
from fedsim.results.record.folder import SCENARIO, SUMMARY
from fedsim.results.record.live import LiveCampaign, LiveRun, write_live
from fedsim.running.folder import Status, run_duration, status
from fedsim.running.run import RunProgress
from fedsim.running.watching import Snapshot
from tests.runs import small

SWEPT: dict[str, Any] = small(sweep={"algorithm.censor": [0.01, 0.1]}, seeds=3, stop={"rounds": 3})


def fedsim_said(*words: str | Path) -> Result:
    return CliRunner().invoke(app, [str(word) for word in words])


@pytest.fixture
def scenario(tmp_path: Path) -> Path:
    path = tmp_path / "study.yaml"
    path.write_text(json.dumps(SWEPT))  # which is YAML
    return path


def counts(out: Path) -> list[tuple[int, ...]]:
    return [
        tuple(map(len, (each.done, each.running, each.failed, each.pending)))
        for each in status(out).variants
    ]


def test_while_it_goes_on_it_is_said_what_goes_on(tmp_path: Path) -> None:
    seen: list[Status] = []

    def watch(reached: RunProgress) -> None:
        if reached.seed == 2 and reached.round == 2 and not reached.ended:
            seen.append(status(tmp_path))

    fedsim.run(SWEPT, out=tmp_path, watch=watch)
    assert [(each.done, each.running, each.pending) for each in seen[0].variants] == [
        ((1,), (2,), (3,)),
        ((1,), (), (2, 3)),
    ]
    assert seen[0].held
    assert Snapshot(seen[0]).seconds > 0
    assert [(each.done, each.running, each.pending) for each in seen[1].variants] == [
        ((1, 2), (), (3,)),
        ((1,), (2,), (3,)),
    ]
    assert counts(tmp_path) == [(3, 0, 0, 0)] * 2


def test_status_shows_the_rounds_and_the_time_left_of_runs_in_progress(tmp_path: Path) -> None:
    shown: list[str] = []

    def watch(reached: RunProgress) -> None:
        if reached.seed == 1 and reached.round == 2 and not shown:
            run = LiveRun(reached.variant, 1, "chb", 100_000, 7562, 10.0, 756.2)
            write_live(tmp_path, "of-a-test.json", LiveCampaign("there", 10.0, 6, 0, (run,)))
            shown.append(fedsim_said("status", tmp_path).output)

    fedsim.run(SWEPT, out=tmp_path, watch=watch)
    # 92,438 rounds are 122 s, and five pending runs take as long as all of its rounds, 132 s each.
    assert "censor-0.01, seed 1: round 7,562 of 100,000, at most about 2 minutes left" in shown[0]
    assert shown[0].rstrip().endswith("at most about 13 minutes left")


def test_what_was_cut_off_is_left_and_what_has_failed_says_why(tmp_path: Path) -> None:
    def cut_off(reached: RunProgress) -> None:
        if reached.seed == 2 and reached.round:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fedsim.run(SWEPT, out=tmp_path, watch=cut_off)
    assert counts(tmp_path) == [(1, 0, 0, 2)] * 2

    def failing(reached: RunProgress) -> None:
        if reached.seed == 2 and reached.variant == "censor-0.1" and reached.round:
            raise ZeroDivisionError("of somebody's own")

    with pytest.raises(ZeroDivisionError, match="of somebody's own"):
        fedsim.run(SWEPT, out=tmp_path, watch=failing)
    assert counts(tmp_path) == [(3, 0, 0, 0), (2, 0, 1, 0)]
    said = fedsim_said("status", tmp_path)
    assert said.exit_code == 0
    shown = " ".join(said.output.split())
    assert re.search(r"censor-0\.1, seed 2: test_status\.py:\d+ .*: of somebody's own", shown)
    fedsim.run(SWEPT, out=tmp_path)
    assert counts(tmp_path) == [(3, 0, 0, 0)] * 2


def test_several_that_fail_are_named_together(tmp_path: Path) -> None:
    def failing(reached: RunProgress) -> None:
        if reached.seed == 2 and reached.round:
            raise ZeroDivisionError(f"in {reached.variant}")

    with pytest.raises(fedsim.RunError) as caught:
        fedsim.run(SWEPT, out=tmp_path, watch=failing)
    head, *told = str(caught.value).splitlines()
    assert head.startswith("2 of 6 runs have failed; the others are complete, and the same command")
    for text, name in zip(told, ("censor-0.01", "censor-0.1"), strict=True):
        assert text.startswith(f"{name}, seed 2: test_status.py:")
        assert text.endswith(f": in {name}")
    assert counts(tmp_path) == [(2, 0, 1, 0)] * 2


def test_a_clock_that_jumps_is_not_believed(tmp_path: Path) -> None:
    fedsim.run(SWEPT, out=tmp_path)
    day, year = 86_400, 365 * 86_400
    ends = {1: -80 * year, 2: 60, 3: 90 * year}
    for scenario in tmp_path.glob("censor-0.01/*/scenario.yaml"):
        seed = int(scenario.parent.name[-1])
        os.utime(scenario, (day, day))
        os.utime(scenario.parent / SUMMARY, (day + ends[seed], day + ends[seed]))
        if seed == 3:
            os.utime(scenario, (day, day + ends[seed] - 60))
    shutil.rmtree(tmp_path / "censor-0.1")
    found = status(tmp_path)
    assert found.variants[0].seconds == 60
    assert Snapshot(found).seconds == 3 * 60
    os.utime(tmp_path / "censor-0.01/seed-3/scenario.yaml", (day, day))  # it lasted 90 years
    assert fedsim_said("status", tmp_path).exit_code == 0


@pytest.mark.slow
def test_shards_are_made_one_by_one_and_a_scenario_says_what_is_left(
    scenario: Path, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    assert (
        fedsim_said("status", scenario, "--out", out)
        .output.rstrip()
        .endswith(
            "no process is running: 0 of 6 runs are finished and saved."
            " Repeat the command to start."
        )
    )
    said = fedsim_said("run", scenario, "--out", out, "--shard", "1/4")
    assert said.exit_code == 0, said.output
    assert "shard 1/4: 2 of the runs are in" in said.output
    assert len(list(out.rglob(SUMMARY))) == 2
    said = fedsim_said("status", scenario, "--out", out)
    assert re.search(r"all +2 +0 +0 +4", said.output)
    shown = " ".join(said.output.split())
    assert shown.endswith("2 of 6 runs are finished and saved. Repeat the command to resume.")
    assert fedsim_said("compare", out).exit_code == 0
    for number in (2, 3, 4):
        assert fedsim_said("run", scenario, "--out", out, "--shard", f"{number}/4").exit_code == 0
    assert "all runs have ended" in fedsim_said("status", out).output
    empty = fedsim_said("run", scenario, "--out", out, "--shard", "9/9")
    assert empty.exit_code == 0
    assert "0 of the runs" in empty.output


@pytest.mark.parametrize("words", [("--shard", "5/4"), ("--jobs", "2", "--cluster", "local:2")])
def test_what_cannot_be_is_refused_in_a_line(
    words: tuple[str, ...], scenario: Path, tmp_path: Path
) -> None:
    said = fedsim_said("run", scenario, "--out", tmp_path / "out", *words)
    assert said.exit_code == 2
    assert len(said.stderr.strip().splitlines()) == 1
    assert not (tmp_path / "out").exists()


def test_a_folder_of_no_study_is_refused(tmp_path: Path) -> None:
    said = fedsim_said("status", tmp_path)
    assert said.exit_code == 2
    assert "there are no runs in" in said.stderr
    assert "if `fedsim run` was interrupted before any run began, repeat it to start" in said.stderr


@pytest.mark.slow
def test_a_study_that_is_there_says_how_many_runs_are_kept_and_made(
    scenario: Path, tmp_path: Path
) -> None:
    words = "run", scenario, "--out", tmp_path / "out"
    assert "kept" not in fedsim_said(*words).output
    assert "6 runs kept, 0 made" in fedsim_said(*words).output
    shutil.rmtree(tmp_path / "out/censor-0.1/seed-2")
    assert "5 runs kept, 1 made" in fedsim_said(*words).output
    assert "kept" not in fedsim_said(*words, "--fresh").output


def test_a_bar_names_the_time_taken_and_the_time_left() -> None:
    now = 0.0
    console = Console(file=io.StringIO(), width=80)
    table = Progress(_TimeColumn(), console=console, auto_refresh=False, get_time=lambda: now)
    task = table.add_task("", total=100)
    for now in (0.0, 30.0, 60.0, 90.0):
        table.update(task, completed=now / 3)
    (shown,) = table.tasks
    assert _TimeColumn().render(shown).plain == "1:30 min taken, 3:30 min left"
    table.update(task, completed=100)
    assert _TimeColumn().render(shown).plain == "1:30 min taken"


def test_a_run_took_the_time_from_its_first_file_to_its_last(tmp_path: Path) -> None:
    assert run_duration(tmp_path) is None
    for name, at in ((SCENARIO, 100.0), (SUMMARY, 102.5)):
        (tmp_path / name).touch()
        os.utime(tmp_path / name, (at, at))
    assert run_duration(tmp_path) == 2.5
    os.utime(tmp_path / SCENARIO, (102.5, 102.5))
    assert run_duration(tmp_path) == 0
    os.utime(tmp_path / SCENARIO, (103, 103))
    assert run_duration(tmp_path) is None  # the clock went back
    (tmp_path / SUMMARY).unlink()
    assert run_duration(tmp_path) is None
