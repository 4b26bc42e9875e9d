"""Data sets of Hugging Face on disk: what the package `datasets` has saved, and what is damaged.

`saved/` was written by `datasets` 5.2 (save_to_disk and to_parquet) of the columns below.
"""

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from numpy.typing import NDArray
from pyarrow import parquet

from fedsim.core.errors import DataError
from fedsim.problems import Groups, Samples
from fedsim.problems.data import HuggingFace

SAVED = Path(__file__).parent / "saved"
LABELS = [0, 1, 2, 1, 0, 2, 1, 0]
WRITERS = ["anna", "ben", "anna", "carl", "ben", "anna", "carl", "anna"]


def images() -> NDArray[np.uint8]:
    """Return the images, which were the first that the stream was asked for."""
    rng = np.random.default_rng(5)
    return np.stack([rng.integers(0, 256, (6, 6), dtype=np.uint8).ravel() for _ in range(8)])


def table() -> dict[str, NDArray[Any]]:
    rng = np.random.default_rng(5)
    for _ in range(8):
        rng.integers(0, 256, (6, 6), dtype=np.uint8)
    x = rng.integers(0, 9, (8, 3)).astype(np.float32)
    tokens = rng.integers(0, 50, (8, 4))
    return {"x": x, "tokens": tokens, "grid": rng.integers(0, 256, (8, 2, 3)).astype(np.uint8)}


def read(path: Path, **keys: Any) -> Samples:
    source = HuggingFace.model_validate({"path": path.name, **keys})
    return source.plain(path.parent, np.random.default_rng(0))


@pytest.mark.parametrize("name", ["images", "images.parquet"])
def test_images_labels_and_writers_are_those_that_were_saved(name: str) -> None:
    samples = read(SAVED / name, client="writer")
    assert samples.X.dtype == np.uint8
    assert np.array_equal(samples.X, images())
    assert samples.y.tolist() == LABELS
    assert samples.client is not None
    assert [sorted(set(WRITERS))[number] for number in samples.client] == WRITERS
    parts = Groups().assign(samples, None, np.random.default_rng(0))
    assert [len(part) for part in parts] == [4, 2, 2]


def test_parts_in_several_files_are_read_in_order_and_columns_stand_beside_each_other() -> None:
    expected = table()
    training = read(SAVED / "table" / "train", features=["x", "age", "tokens"])
    columns = [expected["x"], np.arange(20, 28)[:, None], expected["tokens"]]
    assert np.array_equal(training.X, np.hstack(columns)[:6])
    assert training.y.tolist() == LABELS[:6]
    test = read(SAVED / "table" / "test", features=["grid"])
    assert test.X.dtype == np.uint8
    assert np.array_equal(test.X, expected["grid"].reshape(8, 6)[6:])


def test_without_names_all_columns_but_label_and_client_are_features() -> None:
    assert read(SAVED / "table" / "train").features == 3 + 1 + 4 + 6
    assert read(SAVED / "table" / "train", client="age").features == 3 + 4 + 6


def saved(path: Path, **columns: Any) -> Path:
    parquet.write_table(pa.table(columns), path)
    return path


def test_names_are_labels_in_their_order_and_a_folder_may_hold_files_of_parquet(
    tmp_path: Path,
) -> None:
    folder = tmp_path / "d"
    folder.mkdir()
    saved(folder / "b.parquet", x=[3.0], label=["cat"])
    saved(folder / "a.parquet", x=[1.0, 2.0], label=["dog", "ant"])
    samples = read(folder)
    assert samples.X.tolist() == [[1], [2], [3]]
    assert samples.y.tolist() == [2, 0, 1]


def test_an_image_may_be_bytes_alone_or_lie_in_a_file_beside_the_table(tmp_path: Path) -> None:
    content = parquet.read_table(SAVED / "images.parquet")["image"].to_pylist()
    inside = saved(tmp_path / "a.parquet", image=[each["bytes"] for each in content], label=LABELS)
    assert np.array_equal(read(inside).X, images())
    (tmp_path / "0.png").write_bytes(content[0]["bytes"])
    beside = [{"bytes": None, "path": "0.png"}]
    assert np.array_equal(
        read(saved(tmp_path / "b.parquet", image=beside, label=[0])).X, images()[:1]
    )


@pytest.mark.parametrize(
    ("columns", "keys", "key", "told"),
    [
        ({"x": [1.0], "label": [0]}, {"label": "y"}, "label", ["no column 'y'", "x (double)"]),
        ({"x": [1.0], "label": [0]}, {"features": ["z"]}, "features", ["no column 'z'"]),
        ({"x": [1.0], "label": [0]}, {"client": "c"}, "client", ["no column 'c'"]),
        ({"x": [1.0, None], "label": [0, 1]}, {}, "features", ["row 2: nothing in the column"]),
        ({"x": [1.0, 2.0], "label": [0, None]}, {}, "label", ["row 2: nothing"]),
        ({"x": [[1], [1, 2]], "label": [0, 1]}, {}, "features", ["row 2", "2 values", "1 in the"]),
        ({"x": [[1], [None]], "label": [0, 1]}, {}, "features", ["row 2", "has a gap"]),
        (
            {"x": [[[1, 2]], [[3, 4]], [[5]]], "label": [0, 1, 2]},
            {},
            "features",
            ["row 3", "1 values in a list, but 2"],
        ),
        ({"x": ["a", "b"], "label": [0, 1]}, {}, "features", ["'x' is of string"]),
        ({"x": [b"no image"], "label": [0]}, {}, "features", ["row 1", "is no image", "b'no imag"]),
        (
            {"x": [{"bytes": None, "path": None}], "label": [0]},
            {},
            "features",
            ["row 1: neither the bytes"],
        ),
        (
            {"x": [{"bytes": None, "path": "gone.png"}], "label": [0]},
            {},
            "features",
            ["cannot read", "gone.png"],
        ),
        ({"x": [1.0], "label": [[0, 1]]}, {}, "label", ["has 2 numbers per row"]),
        ({"label": [0]}, {}, "path", ["0 columns of features"]),
        ({"x": pa.array([], pa.float64()), "label": []}, {}, "path", ["has 0 rows"]),
    ],
)
def test_a_column_that_is_something_else_is_named(
    columns: dict[str, Any], keys: dict[str, Any], key: str, told: list[str], tmp_path: Path
) -> None:
    path = saved(tmp_path / "rows.parquet", **columns)
    with pytest.raises(DataError) as caught:
        read(path, **keys)
    assert caught.value.key == f"data.{key}"
    assert all(each in str(caught.value) for each in told), str(caught.value)


def cut(folder: Path) -> None:
    path = folder / "data-00000-of-00001.arrow"
    path.write_bytes(path.read_bytes()[:-900])


def lost(folder: Path) -> None:
    (folder / "data-00000-of-00001.arrow").unlink()


def unnamed(folder: Path) -> None:
    (folder / "state.json").write_text('{"_data_files": [{"name": "a"}]}')


def halved(folder: Path) -> None:
    (folder / "state.json").write_text('{"_data_')


def picked(folder: Path) -> None:
    state = json.loads((folder / "state.json").read_text())
    (folder / "state.json").write_text(json.dumps({**state, "_indices_files": [{"filename": "i"}]}))


def bare(folder: Path) -> None:
    (folder / "state.json").unlink()


@pytest.mark.parametrize(
    ("harm", "told"),
    [
        (cut, ["data-00000-of-00001.arrow is damaged"]),
        (lost, ["cannot read", "No such file"]),
        (unnamed, ["state.json does not name the files", "filename"]),
        (halved, ["state.json does not name the files"]),
        (picked, ["state.json", "flatten_indices()"]),
        (bare, ["neither a state.json", "files of Parquet"]),
    ],
)
def test_a_damaged_folder_is_named(harm: Any, told: list[str], tmp_path: Path) -> None:
    folder = tmp_path / "d"
    shutil.copytree(SAVED / "images", folder)
    harm(folder)
    with pytest.raises(DataError) as caught:
        read(folder)
    assert all(each in str(caught.value) for each in told), str(caught.value)


def test_a_folder_of_several_parts_says_which_there_are() -> None:
    with pytest.raises(DataError, match=r"parts test, train; name one, such as .*table/test"):
        read(SAVED / "table")


def test_a_row_of_classes_without_a_label_is_refused(tmp_path: Path) -> None:
    whole = parquet.read_table(SAVED / "images.parquet")
    place = whole.column_names.index("label")
    path = tmp_path / "d.parquet"
    parquet.write_table(whole.set_column(place, "label", pa.array([0] * 7 + [-1])), path)
    with pytest.raises(DataError, match="row 8: the label is -1, which is no class"):
        read(path, client="writer")


@pytest.mark.parametrize("declared", ["{", "null", "[]", "{}", '{"info": {"features": [1]}}'])
def test_labels_are_numbers_where_a_file_declares_nothing_that_can_be_read(
    declared: str, tmp_path: Path
) -> None:
    content = pa.table({"x": [1.0, 2.0], "label": [-1, 1]})
    whole = content.replace_schema_metadata({"huggingface": declared})
    parquet.write_table(whole, tmp_path / "d.parquet")
    assert read(tmp_path / "d.parquet").y.tolist() == [-1, 1]


def test_text_is_no_parquet_and_what_would_not_fit_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "d.parquet").write_text("x,label\n1,2\n")
    with pytest.raises(DataError, match=r"d\.parquet is damaged, or no table"):
        read(tmp_path / "d.parquet")
    monkeypatch.setenv("FEDSIM_MEMORY", "9 kB")
    with pytest.raises(DataError, match="its files would take"):
        read(SAVED / "images")


def test_lengths_and_texts_of_a_damaged_file_are_looked_at_before_they_are_used(
    tmp_path: Path,
) -> None:
    names = ["no", "yes", "no"]
    whole = pa.table({"f": [0.5, 1.5, 2.5], "label": names})
    with pa.ipc.new_stream(tmp_path / "a", whole.schema) as writer:
        writer.write_table(whole)
    content = (tmp_path / "a").read_bytes()
    offsets = np.array([0, 2, 5, 7], np.int32).tobytes()
    for old, new in (
        (offsets, np.array([0, 2, 2**30, 7], np.int32).tobytes()),
        (b"noyesno", b"no\xffesno"),
        (b"label", b"lab\xffl"),
    ):
        assert content.count(old) == 1
        (tmp_path / "a").write_bytes(content.replace(old, new))
        with pytest.raises(DataError, match="is damaged, or no table"):
            read(tmp_path / "a")
