"""What each tracker has written is read back by its own library, and is what the runs have."""

import os
import struct
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import fedsim
from fedsim.results.result import Result
from tests.runs import small

STUDY = small(
    name="study",
    variants={"chb": {}, "gd": {"algorithm": {"kind": "gd"}}},
    stop={"rounds": 4},
)
FIGURES = "objective", "bits_up", "bits_down", "joules"


@pytest.fixture(autouse=True)
def no_settings_of_the_user(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.startswith(("MLFLOW_", "WANDB_"))]:
        monkeypatch.delenv(name)


def so_far(result: Result, variant: str) -> pd.DataFrame:
    """Return the rounds of a run with running totals, of energy until radios sleep."""
    rounds = result.rounds.query("variant == @variant and seed == 1").set_index("round")
    costs = ["bits_up", "bits_down", "joules"]
    totals = rounds[costs].cumsum()
    totals["joules"] += rounds["joules_after"]
    return rounds[["objective"]].join(totals)


@pytest.mark.slow
@pytest.mark.needs("mlflow")
@pytest.mark.filterwarnings("ignore")  # of the library, about itself
def test_mlflow_reads_its_runs(tmp_path: Path) -> None:
    result = fedsim.run(STUDY, out=tmp_path / "a study", track="mlflow")
    from mlflow.tracking import MlflowClient

    client = MlflowClient(tracking_uri=f"sqlite:///{tmp_path}/a study/mlflow/mlflow.db")
    experiment = client.get_experiment_by_name("study")
    assert experiment is not None
    runs = {run.info.run_name: run for run in client.search_runs([experiment.experiment_id])}
    assert set(runs) == {"gd, seed 1", "chb, seed 1"}
    for name, run in runs.items():
        variant = name.partition(",")[0]
        table = so_far(result, variant)
        assert run.info.status == "FINISHED"
        assert run.data.params["algorithm.kind"] == result.scenario(variant, 1)["algorithm"]["kind"]
        assert run.data.params["seed"] == "1"
        tags = {key: run.data.tags[f"fedsim.{key}"] for key in ("variant", "seed", "version")}
        assert tags == {"variant": variant, "seed": "1", "version": fedsim.__version__}
        for figure in FIGURES:
            history = client.get_metric_history(run.info.run_id, figure)
            assert [point.step for point in history] == list(table.index)
            np.testing.assert_array_equal([point.value for point in history], table[figure])
        (artifact,) = client.list_artifacts(run.info.run_id)
        there = client.download_artifacts(run.info.run_id, artifact.path, str(tmp_path))
        assert Path(there).read_text() == (
            (tmp_path / "a study" / variant / "seed-1/scenario.yaml").read_text()
        )


@pytest.mark.needs("tensorboard")
def test_tensorboard_reads_its_files(tmp_path: Path) -> None:
    result = fedsim.run(STUDY, out=tmp_path, track="tensorboard")
    fedsim.run(STUDY, out=tmp_path, track="tensorboard", fresh=True)  # takes the place of the first
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    for variant in ("gd", "chb"):
        place = tmp_path / "tensorboard" / variant / "seed-1"
        assert len(list(place.iterdir())) == 1
        events = EventAccumulator(str(place))
        events.Reload()
        table = so_far(result, variant)
        for figure in FIGURES:
            points = events.Scalars(figure)
            assert [point.step for point in points] == list(table.index)
            written = np.array([point.value for point in points])
            np.testing.assert_array_equal(written, table[figure].astype(np.float32))
        times = result.rounds.query("variant == @variant")["t"]
        moments = [point.wall_time for point in events.Scalars("joules")]
        np.testing.assert_array_equal(moments, times)
        (text,) = events.Tensors("scenario")
        scenario = tmp_path / variant / "seed-1/scenario.yaml"
        assert scenario.read_text() in text.tensor_proto.string_val[0].decode()


@pytest.mark.slow
@pytest.mark.needs("wandb")
@pytest.mark.filterwarnings("ignore")  # of the library, about itself
def test_wandb_writes_a_file_of_every_run(tmp_path: Path) -> None:
    result = fedsim.run(STUDY, out=tmp_path, track="wandb")
    runs = {}
    for file in tmp_path.glob("wandb/offline-run-*/run-*.wandb"):
        records = list(wandb_records(file.read_bytes()))
        (run,) = (record.run for record in records if record.WhichOneof("record_type") == "run")
        runs[run.run_group] = (
            run,
            [
                {
                    item.nested_key[0] or item.key: float(item.value_json)
                    for item in record.history.item
                }
                for record in records
                if record.WhichOneof("record_type") == "history"
            ],
        )
    assert set(runs) == {"gd", "chb"}
    for variant, (run, history) in runs.items():
        assert run.project == "study"
        assert run.display_name == f"{variant}, seed 1"
        table = so_far(result, variant)
        assert [row["round"] for row in history] == list(table.index)
        for figure in FIGURES:
            np.testing.assert_allclose([row[figure] for row in history], table[figure])


def wandb_records(content: bytes) -> Iterator[Any]:
    """Yield the records of an offline run, whose reader the library has in its Go program alone.

    Seven bytes of a header are followed by the blocks of a log of LevelDB.
    """
    messages: Any = import_module("wandb.proto.wandb_internal_pb2")
    place, parts = 7, b""
    while place + 7 <= len(content):
        left = 32768 - place % 32768
        if left < 7:
            place += left
            continue
        _, length, part = struct.unpack_from("<IHB", content, place)
        parts += content[place + 7 : place + 7 + length]
        place += 7 + length
        if part in {1, 4}:  # a whole record, or the last part of one
            record = messages.Record()
            record.ParseFromString(parts)
            parts = b""
            yield record
