"""FedScale's client mapping, with images or an archive beside it, and what is wrong with it."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from fedsim.core.errors import DataError
from fedsim.problems import Groups, Samples
from fedsim.problems.data import FedScale

HEADER = "client_id,sample_path,label_name,label_id\n"
NUMBERED = HEADER + "10,2,cat,1\n9,0,dog,0\n10,0,dog,0\n"
X = np.arange(12, dtype=np.uint8).reshape(3, 2, 2)


def read(folder: Path, text: str, samples: str = "rows.npz", **keys: Any) -> Samples:
    (folder / "train.csv").write_text(text)
    source = FedScale.model_validate({"mapping": "train.csv", "samples": samples, **keys})
    return source.plain(folder, np.random.default_rng(0))


@pytest.fixture
def rows(tmp_path: Path) -> Path:
    np.savez(tmp_path / "rows.npz", X=X)
    return tmp_path


def test_rows_of_an_archive_are_picked_in_the_order_of_the_table(rows: Path) -> None:
    samples = read(rows, NUMBERED)
    assert np.array_equal(samples.X, X.reshape(3, 4)[[2, 0, 0]])
    assert samples.X.dtype == np.uint8
    assert samples.y.tolist() == [1, 0, 0]
    assert samples.client is not None
    assert samples.client.tolist() == [1, 0, 1]  # 9 comes before 10
    parts = Groups().assign(samples, None, np.random.default_rng(0))
    assert [part.tolist() for part in parts] == [[1], [0, 2]]


def test_images_are_read_from_the_folder_and_clients_may_have_names(tmp_path: Path) -> None:
    (tmp_path / "data" / "train").mkdir(parents=True)
    for place, image in enumerate(X):
        Image.fromarray(image).save(tmp_path / "data" / "train" / f"{place}.png")
    text = "label_id,client_id,sample_path\n1,zoe,train/2.png\n0,adam,train/0.png\n"
    samples = read(tmp_path, text, "data")
    assert np.array_equal(samples.X, X.reshape(3, 4)[[2, 0]])
    assert samples.client is not None
    assert samples.client.tolist() == [1, 0]
    assert read(tmp_path, text, "data", size=[4, 4], channels=3).features == 48


@pytest.mark.parametrize(
    ("text", "key", "told"),
    [
        ("", "mapping", ["no column client_id", "first line is 'nothing'"]),
        ("client_id,label_id\n1,2\n", "mapping", ["no column sample_path", "client_id, label_id"]),
        (HEADER, "mapping", ["names no sample"]),
        (HEADER + "1,0,cat\n", "mapping", ["line 2: 3 values, but the first line has 4"]),
        (HEADER + "1,0,cat,0\n1,1,cat,x\n", "mapping", ["line 3", "label_id 'x'"]),
        (HEADER + ",0,cat,0\n", "mapping", ["line 2", "client_id ''"]),
        (HEADER + "1,3,cat,0\n", "mapping", ["line 2: sample_path is '3'", "rows 0 to 2"]),
        (HEADER + "1,a.png,cat,0\n", "mapping", ["line 2: sample_path is 'a.png'"]),
        (HEADER + '1,"0,cat,0\n', "mapping", ["is no table"]),
        (HEADER + f"1,{'x' * 9000},cat,0\n", "mapping", ["line 2", f"'{'x' * 60}', label_id"]),
    ],
)
def test_a_table_of_another_form_is_named(text: str, key: str, told: list[str], rows: Path) -> None:
    with pytest.raises(DataError) as caught:
        read(rows, text)
    assert caught.value.key == f"data.{key}"
    assert all(each in str(caught.value) for each in told), str(caught.value)


def test_samples_that_are_not_there_are_named(rows: Path) -> None:
    with pytest.raises(DataError, match=r"cannot read .*gone\.npz") as caught:
        read(rows, NUMBERED, "gone.npz")
    assert caught.value.key == "data.samples"
    (rows / "images").mkdir()
    with pytest.raises(DataError, match=r"cannot read .*images/2") as caught:
        read(rows, NUMBERED, "images")
    assert caught.value.key == "data.samples"
    np.savez(rows / "other.npz", Y=X)
    with pytest.raises(DataError, match=r"has no array X of numbers.*Y uint8\(3, 2, 2\)"):
        read(rows, NUMBERED, "other.npz")


def test_what_would_not_fit_into_memory_is_refused(
    rows: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FEDSIM_MEMORY", "1 kB")
    with pytest.raises(DataError, match=r"train\.csv: the first .* would take"):
        read(rows, NUMBERED * 20)
