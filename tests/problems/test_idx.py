"""The idx format: arrays written by its definition are read back; anything else is named."""

import gzip
import struct
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays
from numpy.typing import NDArray

from fedsim.core.errors import DataError
from fedsim.problems import Samples
from fedsim.problems.data import Idx

CODES = {"u1": 8, "i1": 9, "i2": 11, "i4": 12, "f4": 13, "f8": 14}
IMAGES = np.arange(12, dtype="u1").reshape(3, 2, 2)
LABELS = np.array([7, 0, 255], dtype="u1")


def idx(array: NDArray[np.generic]) -> bytes:
    """Write an array as the format says: zeros, type, dimensions, sizes, numbers."""
    code = CODES[array.dtype.str[1:]]
    header = struct.pack(f">HBB{array.ndim}I", 0, code, array.ndim, *array.shape)
    return header + array.astype(array.dtype.newbyteorder(">")).tobytes()


def load(folder: Path, images: bytes, labels: bytes) -> Samples:
    (folder / "images").write_bytes(images)
    (folder / "labels").write_bytes(labels)
    source = Idx(images=Path("images"), labels=Path("labels"))
    return source.load(folder, np.random.default_rng(0))


@pytest.mark.parametrize("compress", [bytes, gzip.compress])
def test_images_are_flattened_row_by_row(compress: type[bytes], tmp_path: Path) -> None:
    samples = load(tmp_path, compress(idx(IMAGES)), compress(idx(LABELS)))
    assert samples.X.tolist() == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9, 10, 11]]
    assert samples.y.tolist() == [7, 0, 255]
    assert samples.X.dtype == samples.y.dtype == np.float64


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    X=st.sampled_from(sorted(CODES)).flatmap(
        lambda kind: arrays(
            kind,
            array_shapes(min_dims=2, max_dims=4, max_side=4),
            elements=st.integers(0, 100).map(float if kind[0] == "f" else int),
        )
    )
)
def test_numbers_of_any_type_are_read_back(X: NDArray[np.generic], tmp_path: Path) -> None:
    samples = load(tmp_path, idx(X), idx(np.zeros(len(X), dtype="i4")))
    assert np.array_equal(samples.X, X.reshape(len(X), -1))


@pytest.mark.parametrize(
    ("images", "labels", "key", "words"),
    [
        (b"", idx(LABELS), "data.images", ["not in the idx format", "b''"]),
        (b"PK\3\4 and more", idx(LABELS), "data.images", ["not in the idx format", "PK"]),
        (idx(IMAGES)[:7], idx(LABELS), "data.images", ["7 bytes", "cut off"]),
        (idx(IMAGES)[:-1], idx(LABELS), "data.images", ["27 bytes", "(3, 2, 2)", "means 28"]),
        (idx(IMAGES) + b"\0", idx(LABELS), "data.images", ["29 bytes", "means 28"]),
        (idx(LABELS), idx(LABELS), "data.images", ["1 dimensions", "two or more"]),
        (idx(IMAGES), idx(IMAGES), "data.labels", ["3 dimensions", "one"]),
        (idx(IMAGES), idx(LABELS[:2]), "data.labels", ["2 labels", "3 images"]),
        (
            idx(IMAGES),
            gzip.compress(idx(LABELS), mtime=0)[:-5],
            "data.labels",
            ["damaged or cut off"],
        ),
        (idx(IMAGES[:0]), idx(LABELS[:0]), "data", ["at least one row"]),
    ],
)
def test_what_is_not_two_matching_files_is_refused(
    images: bytes, labels: bytes, key: str, words: list[str], tmp_path: Path
) -> None:
    with pytest.raises(DataError) as caught:
        load(tmp_path, images, labels)
    assert caught.value.key == key
    assert all(word in str(caught.value) for word in words)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    (tmp_path / "images").write_bytes(idx(IMAGES))
    source = Idx(images=Path("images"), labels=Path("nowhere"))
    with pytest.raises(DataError, match=r"cannot read .*nowhere: No such file") as caught:
        source.load(tmp_path, np.random.default_rng(0))
    assert caught.value.key == "data.labels"


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(cut=st.integers(0, 30), junk=st.binary(max_size=8))
def test_a_damaged_file_is_read_or_refused(cut: int, junk: bytes, tmp_path: Path) -> None:
    whole = idx(IMAGES)
    with suppress(DataError):
        assert load(tmp_path, whole[:cut] + junk + whole[cut + len(junk) :], idx(LABELS)).rows == 3
