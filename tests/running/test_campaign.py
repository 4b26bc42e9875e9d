"""Many runs: in turn or at once, cut off and taken up again, always the same bytes."""

import json
import os
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

import fedsim
from fedsim.results.record.folder import SUMMARY
from fedsim.running.run import RunProgress
from tests.interrupting import hearing
from tests.runs import files, small

SWEPT = small(sweep={"algorithm.censor": [0.01, 0.03, 0.1]}, seeds=2)
RUNS = 6


def ages(folder: Path) -> dict[Path, int]:
    """Return when each run was finished."""
    return {path: path.stat().st_mtime_ns for path in folder.glob(f"*/*/{SUMMARY}")}


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A campaign that ran in turn, without a break."""
    return fedsim.run(SWEPT, out=tmp_path_factory.mktemp("whole")).folder


@pytest.mark.slow
def test_processes_write_the_same_bytes(whole: Path, tmp_path: Path) -> None:
    seen: list[RunProgress] = []
    result = fedsim.run(SWEPT, out=tmp_path, jobs=2, watch=seen.append)
    assert files(tmp_path) == files(whole)
    assert [(path.parent.name, path.name) for path in result.runs] == [
        (f"censor-{censor}", f"seed-{seed}")
        for censor in ("0.01", "0.03", "0.1")
        for seed in (1, 2)
    ]
    assert sum(progress.ended for progress in seen) == RUNS


@pytest.mark.slow
def test_any_executor_will_do(whole: Path, tmp_path: Path) -> None:
    with ThreadPoolExecutor(1) as executor:
        fedsim.run(SWEPT, out=tmp_path, executor=executor)
        assert executor.submit(int).result() == 0, "it is not shut down"
    assert files(tmp_path) == files(whole)


def test_what_is_there_is_kept_and_what_is_missing_is_made(whole: Path, tmp_path: Path) -> None:
    fedsim.run(small(sweep={"algorithm.censor": [0.1]}, seeds=1), out=tmp_path)
    before = ages(tmp_path)
    fedsim.run(SWEPT, out=tmp_path)
    after = ages(tmp_path)
    assert len(after) == RUNS
    assert {path: after[path] for path in before} == before
    assert files(tmp_path) == files(whole)


@pytest.mark.slow
@pytest.mark.parametrize("damage", ["no summary", "half a summary", "another run", "other code"])
def test_what_is_not_this_very_run_is_made_again(whole: Path, tmp_path: Path, damage: str) -> None:
    fedsim.run(SWEPT, out=tmp_path)
    run = tmp_path / "censor-0.1/seed-2"
    match damage:
        case "no summary":
            (run / SUMMARY).unlink()
        case "half a summary":
            (run / SUMMARY).write_bytes((run / SUMMARY).read_bytes()[:50])
        case "another run":
            fedsim.run(
                small(sweep={"algorithm.censor": [0.1]}, seed=2, stop={"rounds": 3}), out=tmp_path
            )
        case _:
            manifest = json.loads((run / "manifest.json").read_text())
            (run / "manifest.json").write_text(json.dumps(manifest | {"code": "older"}))
    before = ages(tmp_path)
    fedsim.run(SWEPT, out=tmp_path)
    after = ages(tmp_path)
    changed = {path.parent for path in after if after[path] != before.get(path)}
    assert changed == {run}
    assert files(tmp_path) == files(whole)


@pytest.mark.slow
def test_fresh_makes_all_again(whole: Path, tmp_path: Path) -> None:
    fedsim.run(SWEPT, out=tmp_path)
    before = ages(tmp_path)
    fedsim.run(SWEPT, out=tmp_path, fresh=True)
    assert all(age != before[path] for path, age in ages(tmp_path).items())
    assert files(tmp_path) == files(whole)


def test_other_data_under_the_same_name_is_another_run(tmp_path: Path) -> None:
    table = "f,label\n1,1\n2,-1\n3,1\n4,-1\n"
    scenario: dict[str, Any] = small(
        problem={
            "loss": {"kind": "squared"},
            "data": {"kind": "csv", "path": str(tmp_path / "data.csv"), "label": "label"},
            "split": {"kind": "iid", "clients": 2},
        },
        algorithm={"kind": "gd", "step_size": 0.01},
        fleet=[{"count": 2}],
    )
    (tmp_path / "data.csv").write_text(table)
    first = fedsim.run(scenario, out=tmp_path / "out").summary["objective"][0]
    (tmp_path / "data.csv").write_text(table.replace("4,-1", "4,1"))
    assert fedsim.run(scenario, out=tmp_path / "out").summary["objective"][0] != first


SLOW = SWEPT | {"stop": {"rounds": 400}}
"""Long enough to be cut off in the middle."""


@pytest.fixture(scope="module", name="uncut")
def _uncut(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    """Return the files of the campaign that nothing cuts off."""
    return files(fedsim.run(SLOW, out=tmp_path_factory.mktemp("uncut"), jobs=2).folder)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("way", "jobs"), [(signal.SIGKILL, 1), (signal.SIGKILL, 2), (signal.SIGINT, 2)]
)
def test_a_campaign_that_was_cut_off_is_taken_up_again(
    tmp_path: Path, way: signal.Signals, jobs: int, uncut: dict[str, bytes], interruptible: None
) -> None:
    scenario = tmp_path / "scenario.yaml"
    scenario.write_text(json.dumps(SLOW))  # which is YAML
    out = tmp_path / "out"
    command = [sys.executable, "-m", "fedsim", "run", str(scenario), "--out", str(out)]
    process = subprocess.Popen(
        [*command, "--jobs", str(jobs)],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        preexec_fn=hearing,  # noqa: PLW1509 - no threads here
    )
    while (
        not list(out.glob(f"*/*/{SUMMARY}")) and process.poll() is None
    ):  # parts of runs come and go
        time.sleep(0.01)
    (os.killpg if way == signal.SIGINT else os.kill)(process.pid, way)
    _, said = process.communicate()  # until whoever could still say something is gone, too
    assert "Traceback" not in said
    kept = ages(out)
    fedsim.run(SLOW, out=out, jobs=jobs)
    after = ages(out)
    assert {path: after[path] for path in kept} == kept
    assert len(after) == RUNS
    written = {name: data for name, data in files(out).items() if not name.endswith(".png")}
    assert written == uncut


@pytest.mark.slow
def test_a_run_that_fails_elsewhere_ends_the_campaign_with_its_own_error(tmp_path: Path) -> None:
    scenario = small(sweep={"algorithm.censor": [0.01, 0.1]})
    (tmp_path / "censor-0.1").write_text("where a folder should go")
    with pytest.raises(fedsim.OutputError, match=r"cannot write .*censor-0.1.*: Not a directory"):
        fedsim.run(scenario, out=tmp_path, jobs=2)


def test_fewer_jobs_than_one_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="got 0 jobs; expected at least 1"):
        fedsim.run(small(), out=tmp_path, jobs=0)
