"""The table of models: what goes in comes out, to the bit."""

from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from fedsim.core.errors import DataError
from fedsim.results.record import models
from fedsim.results.record.models import ModelTable, chunks, read_model, read_models, read_rounds
from fedsim.results.record.parts import PartWriter

SHAPES = st.sampled_from([(1,), (6,), (2, 3), (3, 1), (1, 1)])


def unseen(_: str) -> float:
    """Return a figure that no round has."""
    return np.nan


FLOATS = st.floats(width=64) | st.sampled_from([-0.0, 0.0, np.nan, np.inf, 5e-324])


@given(data=st.data(), shape=SHAPES, rounds=st.integers(0, 9), every=st.none() | st.integers(1, 4))
def test_models_come_back_bit_by_bit_in_their_shape_whether_the_run_has_ended_or_not(
    data: st.DataObject, shape: tuple[int, ...], rounds: int, every: int | None
) -> None:
    models = [data.draw(arrays(np.float64, shape, elements=FLOATS)) for _ in range(rounds)]
    wanted = [
        number
        for number in range(1, rounds + 1)
        if number == rounds or (every and number % every == 0)
    ]
    for ended in (True, False):
        with TemporaryDirectory() as name:
            folder = Path(name, "base", "seed-1")
            table, own = (
                ModelTable(PartWriter(folder, "models"), shape, every),
                np.zeros(shape).ravel(),
            )
            for number, model in enumerate(models, 1):
                own[:] = model.ravel()  # a method that works in one array
                table.see(number, own, unseen)
            table.close() if ended else table.abandon()
            if not (ended or wanted):
                assert not folder.exists()
                continue
            frame = read_models([folder])
            assert frame["round"].tolist() == read_rounds(folder) == wanted
            for number, model in zip(frame["round"], frame["model"], strict=True):
                assert model.shape == shape
                assert model.tobytes() == models[number - 1].tobytes()
                assert read_model(folder, number).tobytes() == model.tobytes()


def test_a_sparse_model_takes_little_room(tmp_path: Path) -> None:
    model = np.zeros(100_000)
    model[[3, 99_000]] = 1.5, -2.5
    table = ModelTable(PartWriter(tmp_path, "models"), model.shape)
    table.see(1, model, unseen)
    table.close()
    assert (tmp_path / "models.parquet").stat().st_size < model.nbytes / 10


def test_a_table_that_cannot_be_read_is_damaged_although_its_hash_is_right(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As where it was damaged before its hash was taken: none of its models is read."""
    folder, path = tmp_path / "seed-1", tmp_path / "seed-1" / "models.parquet"
    table = ModelTable(PartWriter(folder, "models"), (3,), 1)
    for number in range(1, 4):
        table.see(number, np.full(3, float(number)), unseen)
    table.close()
    monkeypatch.setattr(models, "check_files", lambda *_: {})
    assert sum(len(part) for part in chunks(folder)) == 3
    path.write_bytes(path.read_bytes()[:-8])
    with pytest.raises(DataError, match=f"{path} is damaged") as caught:
        list(chunks(folder))
    assert caught.value.key == "run"
