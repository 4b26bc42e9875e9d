"""NumPy archives: what numpy.savez writes is read back; anything else is named."""

from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fedsim.core.errors import DataError
from fedsim.problems import NpzArchive, Samples

X = np.arange(6.0).reshape(3, 2)
Y = np.array([1.0, -1.0, 1.0])


def load(path: Path) -> Samples:
    return NpzArchive(path=Path(path.name)).load(path.parent, np.random.default_rng(0))


def saved(folder: Path, **given_arrays: Any) -> Path:
    path = folder / "data.npz"
    np.savez(path, **given_arrays)
    return path


def test_arrays_are_read_back(tmp_path: Path) -> None:
    samples = load(saved(tmp_path, X=X, y=Y))
    assert np.array_equal(samples.X, X)
    assert np.array_equal(samples.y, Y)
    assert samples.client is None


@pytest.mark.parametrize("kind", ["float32", "int8", "uint16", "bool"])
def test_numbers_of_any_real_type_become_float64(kind: str, tmp_path: Path) -> None:
    values = np.array([[0, 1], [1, 0], [1, 1]], dtype=kind)
    samples = load(saved(tmp_path, X=np.asfortranarray(values), y=values[:, 0]))
    assert samples.X.dtype == samples.y.dtype == np.float64
    assert samples.X.tolist() == [[0, 1], [1, 0], [1, 1]]
    assert samples.X.flags.c_contiguous


def test_client_numbers_are_read_where_there_are_some(tmp_path: Path) -> None:
    samples = load(saved(tmp_path, X=X, y=Y, client=np.array([4, 4, 9], dtype=np.uint8)))
    assert samples.client is not None
    assert samples.client.tolist() == [4, 4, 9]


@pytest.mark.parametrize(
    ("arrays", "words"),
    [
        ({"X": X}, ["no array y", "it has X"]),
        ({"y": Y}, ["no array X", "it has y"]),
        ({"features": X}, ["no array X and no array y", "features"]),
        ({"X": X, "y": Y[:2]}, ["3 rows", "2 labels"]),
        ({"X": X[:, 0], "y": Y}, ["(3,)"]),
        ({"X": X.astype(complex), "y": Y}, ["array X", "complex128"]),
        ({"X": X, "y": np.array(["a", "b", "c"])}, ["array y", "<U1"]),
        ({"X": X, "y": Y, "client": np.array([0.0, 1.0, 1.0])}, ["array client", "float64"]),
        ({"X": X, "y": Y, "client": np.array([0, 1])}, ["3 rows", "(2,)"]),
        ({"X": np.array([None, 1], dtype=object), "y": Y}, ["not a NumPy archive of plain"]),
    ],
)
def test_arrays_that_do_not_fit_are_named(
    arrays: dict[str, Any], words: list[str], tmp_path: Path
) -> None:
    with pytest.raises(DataError) as caught:
        load(saved(tmp_path, **arrays))
    assert caught.value.key in {"data", "data.path"}
    assert all(word in str(caught.value) for word in words)


def test_a_single_array_is_not_an_archive(tmp_path: Path) -> None:
    np.save(tmp_path / "data.npy", X)
    with pytest.raises(DataError, match="not a NumPy archive"):
        load(tmp_path / "data.npy")


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"cannot read .*data\.npz: No such file"):
        load(tmp_path / "data.npz")


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(cut=st.integers(0, 600), junk=st.binary(max_size=8))
def test_a_damaged_archive_is_read_or_refused(cut: int, junk: bytes, tmp_path: Path) -> None:
    whole = saved(tmp_path, X=X, y=Y).read_bytes()
    damaged = tmp_path / "damaged.npz"
    damaged.write_bytes(whole[:cut] + junk + whole[cut + len(junk) :])
    with suppress(DataError):
        assert load(damaged).X.shape == (3, 2)
