"""Test data: which rows are held out, and that they are prepared as the others."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.preprocessing import MinMaxScaler, StandardScaler

from fedsim.core.errors import DataError
from fedsim.core.ports import Array
from fedsim.core.streams import stream
from fedsim.problems import Bundled, HeldOut, NpzArchive, Samples, SparseLinear, load_both
from fedsim.problems.partition import preprocess_samples


def numbered(clients: list[int] | None, rows: int = 0) -> Samples:
    """Return rows whose only feature is their number, of clients of so many rows each."""
    owners = None if clients is None else np.repeat(np.arange(len(clients)), clients)
    n = rows if owners is None else len(owners)
    if owners is not None:
        owners = np.random.default_rng(n).permutation(owners)
    return Samples(np.arange(float(n))[:, None], np.zeros(n), owners)


@given(
    st.lists(st.integers(1, 30), min_size=1, max_size=8) | st.none(),
    st.floats(0.01, 0.99),
    st.integers(0, 99),
)
def test_of_every_client_the_share_is_held_out_and_never_all(
    clients: list[int] | None, fraction: float, seed: int
) -> None:
    samples = numbered(clients, rows=57)
    sizes = np.array(clients or [57])
    wanted = [min(round(fraction * size), size - 1) for size in sizes.tolist()]
    spec = HeldOut(fraction=fraction)
    if not any(wanted):
        with pytest.raises(DataError, match="less than one row"):
            spec.divide(samples, stream(seed, "test"))
        return
    kept, held = spec.divide(samples, stream(seed, "test"))
    assert np.array_equal(np.sort(np.concatenate([kept, held])), np.arange(samples.rows))
    assert (np.diff(held) > 0).all()
    assert (np.diff(kept) > 0).all()
    owners = np.zeros(57, np.int64) if samples.client is None else samples.client
    assert np.bincount(owners[held], minlength=len(sizes)).tolist() == wanted
    again = spec.divide(samples, stream(seed, "test"))
    assert np.array_equal(again[1], held)


def test_every_row_is_held_out_as_often_as_any_other() -> None:
    samples, draws = numbered([10, 30]), 400
    rng = np.random.default_rng(0)
    times = np.zeros(40)
    for _ in range(draws):
        times[HeldOut(fraction=0.3).divide(samples, rng)[1]] += 1
    error = np.sqrt(0.3 * 0.7 / draws)
    assert np.abs(times / draws - 0.3).max() < 4.5 * error


def dense(samples: Samples | None) -> Array:
    """Return features that are known to be an array."""
    assert samples is not None
    assert isinstance(samples.X, np.ndarray)
    return samples.X


def both(
    data: Any, test: Any, folder: Path = Path(), seed: int = 1
) -> tuple[Samples, Samples | None]:
    streams = stream(seed, "data"), stream(seed, "test")
    training, testing = load_both(data, test, folder, *streams)
    treat = data.transform_for(training)
    return preprocess_samples(training, treat), testing and preprocess_samples(testing, treat)


@pytest.mark.parametrize(
    ("step", "scaler"), [("standardise", StandardScaler()), ("unit-range", MinMaxScaler())]
)
def test_preprocessing_is_fitted_on_the_training_rows(step: Any, scaler: Any) -> None:
    raw = both(Bundled(name="wine"), HeldOut(fraction=0.25))
    prepared = both(Bundled(name="wine", preprocess=(step, "intercept")), HeldOut(fraction=0.25))
    scaler.fit(dense(raw[0]))
    for before, after in zip(raw, prepared, strict=True):
        scaled = scaler.transform(dense(before))
        expected = np.hstack([scaled, np.ones((len(scaled), 1))])
        assert np.allclose(dense(after), expected, rtol=1e-12, atol=1e-12)
    assert sum(len(dense(part)) for part in raw) == 178


def test_rows_held_out_keep_the_truth_until_they_are_preprocessed() -> None:
    small: dict[str, Any] = {"clients": 3, "rows": 8, "features": 16, "ones": 4}
    plain = both(SparseLinear(**small), HeldOut(fraction=0.5))
    assert all(part is not None and part.truth is not None for part in plain)
    steps = both(SparseLinear(**small, preprocess=("unit-rows",)), HeldOut(fraction=0.5))
    assert all(part is not None and part.truth is None for part in steps)


def test_a_source_of_its_own_leaves_the_training_rows_as_they_are(tmp_path: Path) -> None:
    rng = np.random.default_rng(2)
    X, y = rng.standard_normal((20, 4)), rng.standard_normal(20)
    np.savez(tmp_path / "train.npz", X=X, y=y)
    np.savez(tmp_path / "test.npz", X=10 * X[:5], y=y[:5])
    np.savez(tmp_path / "narrow.npz", X=X[:, :3], y=y)
    data = NpzArchive(path=Path("train.npz"), preprocess=("standardise",))
    alone, none = both(data, None, tmp_path)
    training, test = both(data, NpzArchive(path=Path("test.npz")), tmp_path)
    assert none is None
    assert np.array_equal(dense(alone), dense(training))
    assert np.allclose(dense(test), (10 * X[:5] - X.mean(axis=0)) / X.std(axis=0))
    with pytest.raises(DataError, match="the test rows have 3 features, but the clients' have 4"):
        both(data, NpzArchive(path=Path("narrow.npz")), tmp_path)
    with pytest.raises(DataError, match=r"missing\.npz") as caught:
        both(data, NpzArchive(path=Path("missing.npz")), tmp_path)
    assert caught.value.key == "test.path"
