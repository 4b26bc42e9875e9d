"""Every run that ends is stored once by a tracker, wherever it is made; none changes a run."""

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import ClassVar, Literal

import numpy as np
import pytest
from typer.testing import CliRunner

import fedsim
from fedsim.cli import app
from fedsim.core.errors import DataError
from fedsim.extend import TrackedRun, Tracker
from tests.runs import files, small

STUDY = small(name="study", sweep={"algorithm.censor": [0.01, 0.1]}, seeds=2, stop={"rounds": 5})
RUNS = 4


class Shelf(Tracker):
    """It keeps what it is handed over."""

    kind: Literal["shelf"] = "shelf"
    runs: ClassVar[list[TrackedRun]] = []

    def open(self, folder: Path, study: str) -> Callable[[TrackedRun], None]:
        assert folder.is_dir()
        return self.runs.append


class Torn(Tracker):
    """It fails at every second run."""

    kind: Literal["torn"] = "torn"
    calls: ClassVar[list[str]] = []

    def open(self, folder: Path, study: str) -> Callable[[TrackedRun], None]:
        def store(run: TrackedRun) -> None:
            self.calls.append(run.name)
            if len(self.calls) == 2:
                raise ConnectionError("the server is gone")

        return store


class Shut(Tracker):
    """It cannot be opened."""

    kind: Literal["shut"] = "shut"

    def open(self, folder: Path, study: str) -> Callable[[TrackedRun], None]:
        raise PermissionError("no entry")


PLUGIN = '''
from pathlib import Path
from typing import Literal
from fedsim.extend import Tracker


class Lines(Tracker):
    """One line per run, in a text file."""

    kind: Literal["lines"] = "lines"

    def open(self, folder, study):
        def store(run):
            print("stored")
            with (folder / "runs.txt").open("a") as file:
                file.write(f"{run.name}: {run.rounds['joules'].iloc[-1]:.3f} J\\n")
        return store
'''


@pytest.fixture(autouse=True)
def empty() -> None:
    Shelf.runs.clear()
    Torn.calls.clear()


@pytest.mark.parametrize("jobs", [1, pytest.param(2, marks=pytest.mark.slow)])
def test_a_tracker_gets_every_round_of_every_run(tmp_path: Path, jobs: int) -> None:
    result = fedsim.run(STUDY, out=tmp_path / "out", track=Shelf(), jobs=jobs)
    assert {(run.variant, run.seed) for run in Shelf.runs} == {
        (path.parent.name, int(path.name.removeprefix("seed-"))) for path in result.runs
    }
    for run in Shelf.runs:
        table = result.rounds.query("variant == @run.variant and seed == @run.seed")
        assert list(run.rounds.index) == list(range(6))
        for name in ("bits_up", "bits_down"):
            np.testing.assert_allclose(run.rounds[name], table[name].cumsum())
        until_asleep = table["joules"].cumsum() + table["joules_after"]
        np.testing.assert_allclose(run.rounds["joules"], until_asleep)
        np.testing.assert_array_equal(run.rounds["objective"], table["objective"])
        np.testing.assert_array_equal(run.rounds["seconds"], table["t"])
        row = result.summary.query("variant == @run.variant and seed == @run.seed").iloc[0]
        assert run.rounds["bits_up"].iloc[-1] == row["bits_up"]
        assert run.params["algorithm.censor"] in {0.01, 0.1}
        assert run.params["seed"] == run.seed
        assert run.tags["version"] == fedsim.__version__
        assert run.complete


def test_a_point_leaves_out_what_was_not_evaluated(tmp_path: Path) -> None:
    fedsim.run(small(stop={"rounds": 4}, observe={"every": 4}), out=tmp_path, track=Shelf())
    (run,) = Shelf.runs
    points = dict(run.points())
    assert "objective" in points[0]
    assert "objective" not in points[3]
    assert points[3]["bits_up"] > 0


def test_a_kept_run_is_stored_once(tmp_path: Path) -> None:
    fedsim.run(STUDY, out=tmp_path)
    for _ in range(2):  # the first call finds the runs of one without a tracker
        fedsim.run(STUDY, out=tmp_path, track=[Shelf(), Shelf()])
        assert len(Shelf.runs) == RUNS
    fedsim.run({**STUDY, "stop": {"rounds": 6}}, out=tmp_path, track=Shelf())
    assert len(Shelf.runs) == 2 * RUNS


def test_a_tracker_that_fails_leaves_the_runs_as_they_are(tmp_path: Path) -> None:
    notes: list[str] = []
    fedsim.run(STUDY, out=tmp_path / "alone")
    track = [Torn(), Shut(), Shelf()]
    fedsim.run(STUDY, out=tmp_path / "out", track=track, tell=lambda note: notes.append(str(note)))
    alone, tracked = files(tmp_path / "alone"), files(tmp_path / "out")
    tables = [name for name in alone if name.endswith(".parquet")]
    assert tables
    assert all(alone[name] == tracked[name] for name in tables)
    assert len(Torn.calls) == 2
    assert len(Shelf.runs) == RUNS
    shut, torn = (text for text in notes if "track" in text)  # one note each
    no_more = "stores no further run"
    assert shut.startswith(f"study: track: shut {no_more} (PermissionError: no entry (test_track")
    assert torn.startswith(f"study: track: torn {no_more} (ConnectionError: the server is gone (te")
    assert torn.endswith("; the runs are not affected")
    fedsim.run(STUDY, out=tmp_path / "out", track=Torn())  # the missing ones are stored by a repeat
    assert len(Torn.calls) == 2 + RUNS - 1


def test_a_tracker_of_a_plugin_is_named_on_the_command_line(tmp_path: Path) -> None:
    plugin = tmp_path / "mine.py"
    plugin.write_text(PLUGIN)
    out = tmp_path / "out"
    arguments = ["run", "censoring", "--set", "stop={rounds: 2}", "--plugin", str(plugin)]
    done = CliRunner().invoke(app, [*arguments, "--track", "lines", "--out", str(out), "--json"])
    assert done.exit_code == 0, done.output
    assert json.loads(done.stdout)["made"] == 3
    lines = (out / "lines/runs.txt").read_text().splitlines()
    assert len(lines) == 3
    assert all(" seed 1: " in line and line.endswith(" J") for line in lines)


def test_a_wrong_tracker_is_an_error_before_anything_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "out"
    with pytest.raises(DataError, match=r"got \"mlflo\"; did you mean 'mlflow'\? One of: mlf"):
        fedsim.run(STUDY, out=out, track="mlflo")
    with pytest.raises(DataError, match="track: got 3"):
        fedsim.run(STUDY, out=out, track=[3])  # type: ignore[list-item]  # on purpose
    with pytest.raises(DataError, match="give out=DIR beside track"):
        fedsim.run(STUDY, track=Shelf())
    monkeypatch.setitem(sys.modules, "tensorboard", None)
    with pytest.raises(DataError, match=r"takes TensorBoard, .*pip install '\.\[tensorboard\]'"):
        fedsim.run(STUDY, out=out, track="tensorboard")
    named = {**small(), "variants": {"Shelf": {}}}
    with pytest.raises(DataError, match="the variant 'shelf' has the name of the tracker's folder"):
        fedsim.run(named, out=out, track=Shelf())
    assert not out.exists()
    done = CliRunner().invoke(app, ["run", "censoring", "--out", str(out), "--track", "x"])
    assert done.exit_code == 2
    assert "One of: mlflow, wandb, tensorboard" in done.stderr
    assert not out.exists()
