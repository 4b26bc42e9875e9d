"""The history of a folder: every call of `run`, however it ended, and no byte of a run's files."""

import json
import signal
import subprocess
import sys
import time
from collections.abc import Hashable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

import fedsim
from fedsim.cli import app
from fedsim.results.analysis import cost_to_target, quantity
from fedsim.results.record.folder import HISTORY
from fedsim.results.record.journal import append_lines, read_lines
from fedsim.results.record.lock import hold
from fedsim.running.history import best_variant, read_history
from fedsim.running.run import RunProgress
from tests.runs import PEERS, files, small


def scenario(rounds: int = 3, **changes: Any) -> dict[str, Any]:
    return small(stop={"rounds": rounds}, **changes)


def invoke(*words: object) -> str:
    done = CliRunner().invoke(app, [*map(str, words)])
    assert done.exit_code == 0, done.stderr
    return done.stdout


def test_each_call_has_its_numbers_and_its_result(tmp_path: Path) -> None:
    out = tmp_path / "out"
    fedsim.run(scenario(), out=out)
    fedsim.run(scenario(), out=out)
    fedsim.run(scenario(4, seeds=2), out=out)
    fedsim.run(scenario(), out=out)
    fedsim.run(scenario(), out=out, fresh=True)
    calls = read_history(out)
    counts = [(each.made, each.kept, each.back, each.failed) for each in calls]
    assert counts == [(1, 0, 0, 0), (0, 1, 0, 0), (2, 0, 0, 0), (0, 0, 1, 0), (1, 0, 0, 0)]
    assert [each.runs for each in calls] == [1, 1, 2, 1, 1]
    assert [each.fresh for each in calls] == [False] * 4 + [True]
    assert {each.ended for each in calls} == {"done"}
    assert [each.digest == calls[0].digest for each in calls] == [True, True, False, True, True]
    gap = fedsim.open(out).summary["gap"][0]
    assert calls[-1].result == f"base: gap {gap:.3g}"
    assert all(each.begun <= each.over for each in calls)


def test_the_history_changes_no_other_file(tmp_path: Path) -> None:
    one, other = (fedsim.run(scenario(), out=tmp_path / name).folder for name in "ab")
    (other / HISTORY).unlink()
    assert files(one) == files(other)


def test_an_interrupt_and_a_failure_are_recorded(tmp_path: Path) -> None:
    def interrupt(_: RunProgress) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fedsim.run(scenario(), out=tmp_path, watch=interrupt)

    def fail(_: RunProgress) -> None:
        raise RuntimeError("the callback\nhas failed")

    with pytest.raises(RuntimeError):
        fedsim.run(scenario(), out=tmp_path, watch=fail)
    stopped, failed = read_history(tmp_path)
    assert (stopped.ended, failed.ended) == ("stopped", "failed")
    assert failed.result.startswith("RuntimeError: test_history.py:70 `raise RuntimeError(")
    assert failed.result.endswith(": the callback")
    assert failed.failed == 1


def test_a_refused_call_leaves_no_line(tmp_path: Path) -> None:
    fedsim.run(scenario(), out=tmp_path)
    with hold(tmp_path), pytest.raises(fedsim.OccupiedError):
        fedsim.run(scenario(), out=tmp_path)
    assert len(read_history(tmp_path)) == 1


def test_a_shard_names_itself(tmp_path: Path) -> None:
    fedsim.run(scenario(seeds=3), out=tmp_path, shard="2/2")
    (call,) = read_history(tmp_path)
    assert (call.shard, call.runs, call.made, call.seeds) == ("2/2", 1, 1, 3)


@pytest.mark.slow
def test_a_killed_call_has_never_ended_and_one_in_progress_is_running(tmp_path: Path) -> None:
    file, out = tmp_path / "long.yaml", tmp_path / "out"
    file.write_text(json.dumps(scenario(10_000_000)))
    words = [sys.executable, "-m", "fedsim", "run", str(file), "--out", str(out), "-q"]
    with subprocess.Popen(words) as process:
        while not list(out.glob("*/*/events.parts/*")):
            assert process.poll() is None
            time.sleep(0.05)
        (call,) = read_history(out)
        assert (call.ended, call.over) == ("running", "")
        process.send_signal(signal.SIGKILL)
        process.wait()
    (call,) = read_history(out)
    assert call.ended == "never ended"
    assert "never ended" in invoke("history", out)


class Killed(BaseException):
    """Stands for a death of the process: what is written after it is removed."""


@pytest.mark.parametrize("killed", [False, True], ids=["stopped", "killed"])
def test_an_unfinished_call_counts_its_runs_of_all_runs_of_the_study(
    tmp_path: Path, *, killed: bool
) -> None:
    fedsim.run(scenario(), out=tmp_path)
    ended = []

    def watch(progress: RunProgress) -> None:
        ended.extend([progress.seed] * progress.ended)
        if len(ended) == 4 and not progress.ended:  # after the kept run and three others
            raise Killed

    with pytest.raises(Killed):
        fedsim.run(scenario(seeds=6), out=tmp_path, watch=watch)
    journal = tmp_path / HISTORY
    if killed:  # the last line is of the end, which a killed process does not write
        journal.write_text("".join(journal.read_text().splitlines(keepends=True)[:-1]))
    call = read_history(tmp_path)[-1]
    made = sum(1 for _ in tmp_path.glob("*/*/summary.json")) - 1
    assert (call.made, call.kept, call.runs) == (made, 1, 6)
    end = "never ended" if killed else "stopped"
    assert f"{made} of 6 {end}" in " ".join(invoke("history", tmp_path).split())


def test_a_folder_without_a_history_says_so(tmp_path: Path) -> None:
    fedsim.run(scenario(), out=tmp_path / "out")
    (tmp_path / "out" / HISTORY).unlink()
    said = " ".join(invoke("history", tmp_path / "out").split())
    assert "has no history" in said
    assert "it holds 1 run, ended from 20" in said
    for place in (tmp_path, tmp_path / "missing"):
        done = CliRunner().invoke(app, ["history", str(place)])
        assert done.exit_code == 2
        assert "there " in done.stderr


def test_the_command_lists_calls_a_line_each_or_all_as_json(tmp_path: Path) -> None:
    fedsim.run(scenario(), out=tmp_path)
    fedsim.run(scenario(), out=tmp_path)
    lines = [line for line in invoke("history", tmp_path).splitlines() if "small" in line]
    assert [" ".join(line.split())[17:] for line in lines] == [
        f"small {read_history(tmp_path)[0].digest[:6]} 1 x 1 {made} done {call.result}"
        for call, made in zip(read_history(tmp_path), ("1 of 1", "0 of 1"), strict=True)
    ]
    listed = json.loads(invoke("history", tmp_path, "--json"))
    assert [each["made"] for each in listed] == [1, 0]


def test_lines_of_many_writers_do_not_mix_and_a_torn_one_is_skipped(tmp_path: Path) -> None:
    path = tmp_path / "journal"
    path.write_bytes(b'{"cut": "of')
    with ThreadPoolExecutor(8) as pool:
        done = pool.map(lambda number: append_lines(path, {"number": number}), range(200))
        assert all(done)
    assert sorted(each["number"] for each in read_lines(path)) == [*range(200)]
    path.write_bytes(b'\xff\xfe\n[1]\n{"a": 1}\n')
    assert read_lines(path) == [{"a": 1}]


@pytest.mark.parametrize("what", ["link", "folder"])
def test_what_cannot_be_written_stops_no_run(what: str, tmp_path: Path) -> None:
    out = tmp_path / "out"
    out.mkdir()
    precious = tmp_path / "precious"
    precious.write_text("mine")
    if what == "link":
        (out / HISTORY).symlink_to(precious)
    else:
        (out / HISTORY).mkdir()
    fedsim.run(scenario(), out=out)
    assert precious.read_text() == "mine"


@pytest.mark.parametrize("entry", [{}, {"call": 3}, {"call": "a", "made": "many", "name": None}])
def test_entries_of_other_versions_are_read_as_far_as_they_go(
    entry: dict[str, Any], tmp_path: Path
) -> None:
    append_lines(tmp_path / HISTORY, entry)
    for call in read_history(tmp_path):
        assert (call.made, call.name, call.ended) == (0, "", "never ended")


def test_the_best_variant_is_cheapest_to_the_target_or_else_the_nearest() -> None:
    nan = float("nan")
    near: dict[Hashable, Any] = {
        "variant": "a",
        "gap": 0.5,
        "objective": 1.5,
        "joules": 9.0,
        "target": 0.1,
    }
    far: dict[Hashable, Any] = {
        "variant": "b",
        "gap": 0.7,
        "objective": 1.7,
        "joules": 1.0,
        "target": 0.1,
    }
    assert best_variant([near, far]) == "a: gap 0.5"
    assert best_variant([near, {**far, "gap": 0.05}]) == "b: 1 J to gap=0.1"
    assert best_variant([{**near, "gap": 0.1}, {**far, "gap": 0.05}]) == "b: 1 J to gap=0.1"
    slept = [{**near, "gap": 0.1, "joules_after": 1.0}, {**far, "gap": 0.05, "joules_after": 12.3}]
    assert best_variant(slept) == "a: 10 J to gap=0.1"
    unknown = [{**each, "gap": None, "target": None} for each in (near, far)]
    assert best_variant(unknown) == "a: objective 1.5"
    assert best_variant([{**near, "gap": nan, "objective": nan}]) == ""


def test_the_best_variant_has_met_the_target_whatever_the_objective(tmp_path: Path) -> None:
    """The first to reach an accuracy may stop far above the objective of a run that never does."""
    phones = {"count": 5, "device": "phone-mid"}
    study = small(
        problem=PEERS["problem"] | {"test": {"fraction": "20 %"}},
        algorithm={"kind": "gd", "step_size": "1/L"},
        measures=["test_accuracy"],
        stop={"rounds": 20, "test_accuracy": 0.9},
        fleet=[phones | {"radio": "nb-iot"}],
        variants={
            "dear": {},
            "short": {
                "algorithm": {"step_size": "1e-9/L"},
                "fleet": [phones | {"radio": "wifi"}],
            },
        },
    )
    result = fedsim.run(study, out=tmp_path / "met")
    cost = cost_to_target(result.rounds, 0.9, measure="test_accuracy").set_index("variant")
    assert cost["reached"].all()
    joules = {str(name): float(spent) for name, spent in cost["joules"].items()}
    cheapest = min(joules, key=lambda name: joules[name])
    ends: Any = result.summary.set_index("variant")["objective"]
    assert ends[cheapest] > ends.min()
    (call,) = read_history(tmp_path / "met")
    least = quantity(joules[cheapest], "J")
    assert call.result == f"{cheapest}: {least} to test_accuracy=0.9"
    study["stop"] = {"rounds": 5, "test_accuracy": 1.0}
    missed = fedsim.run(study, out=tmp_path / "missed").rounds
    best = missed.groupby("variant", sort=False)["test_accuracy"].max()
    (call,) = read_history(tmp_path / "missed")
    assert call.result == f"{best.idxmax()}: test_accuracy {best.max():.3g}"
