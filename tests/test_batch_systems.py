"""Runs in jobs of a batch system: a stand-in for Slurm's two commands makes them as processes."""

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import dask_jobqueue  # noqa: F401  # its defaults are to be there before others are set
import pytest
from dask import config

import fedsim
from fedsim.errors import DataError
from fedsim.running.batch_systems import CLASSES
from fedsim.running.cluster import open_cluster
from tests.runs import files, small

SBATCH = """#!/bin/sh
grep '^#SBATCH' "$1" >> "$JOBS/asked"
cp "$1" "$JOBS/$$.sh"
setsid sh "$JOBS/$$.sh" > "$JOBS/$$.log" 2>&1 < /dev/null &
echo $! > "$JOBS/$$.pid"
echo "Submitted batch job $$"
"""

SCANCEL = """#!/bin/sh
echo "$1" >> "$JOBS/cancelled"
kill -9 -"$(cat "$JOBS/$1.pid")"
"""

REFUSING = "#!/bin/sh\necho 'sbatch: error: Invalid account' >&2\nexit 1\n"


def install(folder: Path, monkeypatch: pytest.MonkeyPatch, sbatch: str) -> Path:
    """Put the two commands first on the path; return the folder in which they keep jobs."""
    jobs = folder / "jobs"
    jobs.mkdir()
    for name, text in (("sbatch", sbatch), ("scancel", SCANCEL)):
        (folder / name).write_text(text, encoding="utf-8")
        (folder / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("JOBS", str(jobs))
    return jobs


@pytest.fixture
def configured() -> Iterator[None]:
    """Configure a job's memory, as a user's file does."""
    with config.set({"jobqueue.slurm.memory": "1GB", "jobqueue.slurm.python": sys.executable}):
        yield


@pytest.mark.usefixtures("configured")
def test_jobs_make_the_runs_of_one_process_and_are_cancelled(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    jobs = install(tmp_path, monkeypatch, SBATCH)
    study = small(seeds=3)
    fedsim.run(study, out=tmp_path / "here")
    fedsim.run(study, out=tmp_path / "there", cluster="slurm:2")
    assert files(tmp_path / "there") == files(tmp_path / "here")
    asked = (jobs / "asked").read_text(encoding="utf-8")
    assert asked.count("#SBATCH --cpus-per-task=1\n") == 2
    assert asked.count("#SBATCH --mem=954M\n") == 2
    names = {file.stem for file in jobs.glob("*.pid")}
    assert set((jobs / "cancelled").read_text(encoding="utf-8").split()) == names
    assert len(names) == 2


@pytest.mark.usefixtures("configured")
def test_what_the_batch_system_says_to_a_job_that_it_refuses_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(tmp_path, monkeypatch, REFUSING)
    with pytest.raises(DataError, match=r"slurm:2 took no job: .*Invalid account"):
        fedsim.run(small(), out=tmp_path / "runs", cluster="slurm:2")
    assert not list((tmp_path / "runs").rglob("*.parquet"))


def test_a_job_without_a_memory_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install(tmp_path, monkeypatch, SBATCH)
    words = "memory of a job of slurm is not configured; expected DASK_JOBQUEUE__SLURM__MEMORY=4GB"
    with pytest.raises(DataError, match=words), open_cluster("slurm:1"):
        pass


@pytest.mark.parametrize("where", ["slurm", "slurm:", "slurm:0", "slurm:many"])
def test_a_number_of_jobs_is_needed(where: str) -> None:
    with pytest.raises(DataError, match=f"got '{where}'; expected slurm:N"), open_cluster(where):
        pass


@pytest.mark.parametrize("kind", CLASSES)
def test_every_batch_system_names_its_command_where_it_is_missing(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", "")
    words = f"{kind}:1 submits jobs by .*not found here"
    with pytest.raises(DataError, match=words), open_cluster(f"{kind}:1"):
        pass
