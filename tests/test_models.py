"""The models that a run keeps: which they are, what is left of them when things go wrong."""

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

import fedsim
from fedsim.core.errors import DataError
from fedsim.core.ports import Array
from fedsim.results.analysis import Comparison
from fedsim.results.record.manifest import FILES, MANIFEST, SEAL, as_json, seal
from fedsim.running.run import RunProgress
from fedsim.scenario.building import Builder, Job
from tests.campaigns.faults.operations import met
from tests.disks import Disk
from tests.methods import scenario
from tests.runs import files, small
from tests.tiers import every

GD = small(algorithm={"kind": "gd", "step_size": "1/L"}, stop={"rounds": 25})
TENTH = {"models": {"every": 10}}
SOFTMAX = small(
    problem={
        "loss": {"kind": "softmax", "l2": 0.1},
        "data": {"kind": "sklearn", "name": "iris", "preprocess": ["standardise"]},
        "optimum": "unknown",
    },
    algorithm={"kind": "fedavg", "step_size": 0.1, "local_steps": 2},
    stop={"rounds": 3},
)


def job_of(source: dict[str, Any]) -> Job:
    """Return the first run of a scenario, to compute with its problem."""
    return Builder(fedsim.load(source)).check()[0]


@pytest.fixture(scope="module")
def tenth(tmp_path_factory: pytest.TempPathFactory) -> fedsim.Result:
    """Gradient descent, of which every tenth model is kept."""
    return fedsim.run(GD | TENTH, out=tmp_path_factory.mktemp("tenth") / "out")


def descent(source: dict[str, Any], rounds: int) -> list[Array]:
    """Return the models of gradient descent by a plain loop over all rows at once, w_0 first.

    The loss of a client is the sum of (x.w - y)^2/2 over its rows, plus |w|^2/2.
    """
    samples = job_of(source).problem.samples
    X = np.vstack([np.asarray(part.X) for part in samples])
    y = np.concatenate([part.y for part in samples])
    H = X.T @ X + len(samples) * np.eye(X.shape[1])
    step = 1 / np.linalg.eigvalsh(H)[-1]
    models = [np.zeros(X.shape[1])]
    for _ in range(rounds):
        models.append(models[-1] - step * (H @ models[-1] - X.T @ y))
    return models


def test_the_kept_models_are_those_of_a_plain_loop(tenth: fedsim.Result) -> None:
    table = tenth.models
    assert table["round"].tolist() == [10, 20, 25]
    wanted = descent(GD, 25)
    for number, model in zip(table["round"], table["model"], strict=True):
        assert np.allclose(model, wanted[number], rtol=1e-10, atol=0)


def objective(w: Array) -> float:
    """Return the sum of the squared losses by hand."""
    samples = job_of(GD).problem.samples
    squares = sum(0.5 * ((np.asarray(part.X) @ w - part.y) ** 2).sum() for part in samples)
    return float(squares + 0.5 * len(samples) * w @ w)


def test_the_objective_at_a_kept_model_is_that_of_its_round(tenth: fedsim.Result) -> None:
    reported = tenth.rounds.set_index("round")["objective"]
    for number in (10, 20, 25):
        assert objective(tenth.model(round=number)) == pytest.approx(reported[number], rel=1e-12)
    assert objective(tenth.model()) == pytest.approx(tenth.summary["objective"][0], rel=1e-12)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::fedsim.TheoryWarning")  # of a constant batch
@pytest.mark.parametrize("kind", ["chb", "fedavg", "scaffold", "fedbuff", "fed-ht", "fedsgm"])
def test_the_last_model_is_what_the_summary_tells_of(kind: str) -> None:
    source = {**scenario(kind), "fleet": [{"count": 3}], "stop": {"rounds": 4}}
    result, job = fedsim.run(source), job_of(source)
    model = result.model()
    assert job.problem.shape == model.shape
    value = job.problem.value(model.ravel())
    assert value == result.summary["objective"][0]
    assert result.models["round"].tolist() == [4]


def test_a_matrix_comes_back_as_a_matrix() -> None:
    result = fedsim.run(SOFTMAX)
    model, job = result.model(), job_of(SOFTMAX)
    assert model.shape == (4, 3)
    X = np.vstack([np.asarray(part.X) for part in job.problem.samples])
    labels = np.concatenate([part.y for part in job.problem.samples]).astype(int)
    scores = X @ model
    value = np.mean(np.log(np.exp(scores).sum(1)) - scores[np.arange(len(X)), labels])
    value += 0.05 * (model**2).sum()
    assert value == pytest.approx(result.summary["objective"][0], rel=1e-12)
    (only,) = result.models["model"]
    assert np.array_equal(only, model)


@pytest.mark.filterwarnings("ignore::fedsim.TheoryWarning")
def test_a_run_that_diverges_keeps_the_last_finite_model() -> None:
    result = fedsim.run(small(algorithm={"kind": "gd", "step_size": 1e50}, stop={"rounds": 50}))
    last = int(result.summary["rounds"][0])
    assert last > 0
    assert result.summary["status"][0] == "diverged"
    assert result.models["round"].tolist() == [last]
    assert np.isfinite(result.model()).all()
    assert objective(result.model()) == pytest.approx(result.summary["objective"][0], rel=1e-9)


@pytest.mark.parametrize("models", [{}, {"every": 1}, {"best": "gap"}])
def test_a_run_that_ends_before_its_first_round_ends_with_its_start_model(
    models: dict[str, object],
) -> None:
    result = fedsim.run(GD | {"models": models, "stop": {"time": "1 us"}})
    assert result.models["round"].tolist() == [0]
    assert np.array_equal(result.model(), np.zeros(10))


def test_a_run_whose_start_is_its_goal_ends_with_its_start_model() -> None:
    result = fedsim.run(GD | {"stop": {"gap": 1e9, "rounds": 5}})
    assert result.summary["rounds"].tolist() == [0]
    assert np.array_equal(result.model(), np.zeros(10))


def test_what_is_not_there_is_named() -> None:
    result = fedsim.run(GD | {"seeds": 2, "variants": {"tenth": TENTH}})
    assert result.models["round"].tolist() == [25, 25, 10, 20, 25, 10, 20, 25]
    assert result.models["variant"].astype(str).tolist() == ["base"] * 2 + ["tenth"] * 6
    assert np.array_equal(result.model("tenth", 2), result.models["model"].iloc[-1])
    for asked, told in (
        (("x", 1, None), "'x'; expected one of base, tenth"),
        (("base", None, None), "seeds 1, 2; give one"),
        (("base", 3, None), "seed 3; base was run under 1, 2"),
        (("tenth", 1, 7), "no model is stored for round 7, only for 10, 20, 25"),
    ):
        with pytest.raises(ValueError, match=told):
            result.model(*asked)


@every("value", [0, -1, 2.5, "often", True])
def test_every_takes_a_whole_number_from_1(value: object) -> None:
    with pytest.raises(fedsim.ScenarioError) as raised:
        fedsim.load(small(models={"every": value}))
    (fault,) = raised.value.faults
    assert fault.key == "models.every"


def test_what_is_kept_changes_no_other_table(tenth: fedsim.Result) -> None:
    plain = fedsim.run(GD)
    (kept,), (other,) = tenth.runs, plain.runs
    for name in ("events", "rounds", "clients"):
        path = f"{name}.parquet"
        assert (kept / path).read_bytes() == (other / path).read_bytes()
    assert np.array_equal(plain.model(), tenth.model())


@pytest.mark.slow
def test_processes_write_the_same_bytes(tmp_path: Path) -> None:
    source = GD | TENTH | {"seeds": 2, "stop": {"rounds": 12}}
    one = fedsim.run(source, out=tmp_path / "one")
    two = fedsim.run(source, out=tmp_path / "two", jobs=2)
    assert files(one.folder) == files(two.folder)


def test_an_interrupted_run_keeps_what_it_had_and_is_taken_up(
    tenth: fedsim.Result, tmp_path: Path
) -> None:
    def interrupt(progress: RunProgress) -> None:
        if progress.round == 14:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fedsim.run(GD | TENTH, out=tmp_path, watch=interrupt)
    left = fedsim.Result(tmp_path, (tmp_path / "base/seed-1",))
    assert left.models["round"].tolist() == [10, 14]
    assert np.array_equal(left.model(round=10), tenth.model(round=10))
    assert np.array_equal(left.model(), descent_of(tenth, 14))
    fedsim.run(GD | TENTH, out=tmp_path)
    assert files(tmp_path) == files(tenth.folder)


def descent_of(result: fedsim.Result, rounds: int) -> Array:
    """Return the model that the same scenario has when it ends after so many rounds."""
    assert result.summary["rounds"][0] > rounds
    return fedsim.run(GD | {"stop": {"rounds": rounds}}).model()


def test_models_are_on_disk_while_the_run_goes_on_so_that_memory_does_not_grow(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fedsim.results.record.models._CHUNK", 800)  # ten models of ten numbers
    run, seen = tmp_path / "base/seed-1", list[list[int]]()

    def look(progress: RunProgress) -> None:
        if progress.round in {5, 10, 20} and not progress.ended:
            there = (run / "models.parts").exists()
            own = fedsim.Result(tmp_path, (run,))
            seen.append(own.models["round"].tolist() if there else [])

    result = fedsim.run(GD | {"models": {"every": 1}}, out=tmp_path, watch=look)
    assert seen == [[], list(range(1, 11)), list(range(1, 21))]
    assert result.models["round"].tolist() == list(range(1, 26))
    assert pq.ParquetFile(run / "models.parquet").num_row_groups == 3
    for number, model in enumerate(result.models["model"], 1):
        assert np.array_equal(result.model(round=number), model)


@pytest.mark.slow
@pytest.mark.parametrize("moment", ["open", "write", "close", "rename"])
def test_a_disk_that_is_full_at_the_models_is_one_error_and_a_rerun_completes(
    moment: str, tenth: fedsim.Result, tmp_path: Path
) -> None:
    disk = Disk()
    with met(tmp_path, disk):
        fedsim.run(GD | TENTH, out=tmp_path / "count")
    own = [number for number, name in enumerate(disk.names) if "/models.par" in name]
    assert own
    for number in own:
        out, disk = tmp_path / str(number), Disk(number, moment)
        with met(out, disk), pytest.raises(fedsim.OutputError, match=r"models\.par"):
            fedsim.run(GD | TENTH, out=out)
        assert not (out / "base/seed-1/summary.json").exists()
        assert not (out / "base/seed-1/models.parquet").exists()
        fedsim.run(GD | TENTH, out=out)
        assert files(out) == files(tenth.folder)


def test_comparing_reads_no_models_and_reading_damaged_ones_says_so(
    tenth: fedsim.Result, tmp_path: Path
) -> None:
    out = Path(shutil.copytree(tenth.folder, tmp_path / "out"))
    path = out / "base/seed-1/models.parquet"
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)
    Comparison.of([out])
    damaged = fedsim.Result(out, (path.parent,))
    with pytest.raises(DataError, match=r"models\.parquet is damaged"):
        _ = damaged.models
    with pytest.raises(DataError, match=r"models\.parquet is damaged"):
        damaged.model()
    with pytest.raises(DataError, match=r"models\.parquet is damaged"):
        fedsim.reprice(out, ["stop.rounds=20"], tmp_path / "priced")
    fedsim.run(GD | TENTH, out=out)
    assert files(out) == files(tenth.folder)


def test_a_run_that_is_priced_again_has_the_models_that_are_known(
    tenth: fedsim.Result, tmp_path: Path
) -> None:
    whole = fedsim.reprice(tenth.folder, ["fleet.0.radio=wifi"], tmp_path / "whole")
    name = "base/seed-1/models.parquet"
    assert (whole.folder / name).read_bytes() == (tenth.folder / name).read_bytes()
    fewer = fedsim.reprice(tenth.folder, ["stop.rounds=20"], tmp_path / "fewer")
    assert fewer.models["round"].tolist() == [10, 20]
    between = fedsim.reprice(tenth.folder, ["stop.rounds=17"], tmp_path / "between")
    assert between.models["round"].tolist() == [10]
    with pytest.raises(ValueError, match="no model is stored for round 17, only for 10"):
        between.model()
    none = fedsim.reprice(tenth.folder, ["stop.rounds=3"], tmp_path / "none")
    assert len(none.models) == 0
    with pytest.raises(fedsim.RepricingError, match=r"models\.every"):
        fedsim.reprice(tenth.folder, ["models.every=5"], tmp_path / "other")


def test_a_run_without_models_of_before_they_were_kept_is_priced_again(
    tenth: fedsim.Result, tmp_path: Path
) -> None:
    out = Path(shutil.copytree(tenth.folder, tmp_path / "out"))
    run = out / "base/seed-1"
    (run / "models.parquet").unlink()
    made = json.loads((run / MANIFEST).read_text())
    del made[FILES]["models.parquet"], made[SEAL]
    (run / MANIFEST).write_text(as_json(seal(made)))
    priced = fedsim.reprice(out, ["fleet.0.radio=wifi"], tmp_path / "priced")
    assert len(priced.models) == 0
    with pytest.raises(DataError, match=r"there is no .*models\.parquet; repeat the run"):
        fedsim.Result(out, (run,)).model()
