"""Dictionaries: laws of their atoms, and what K-SVD finds."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.sparse import csr_array

from fedsim.algorithms import ProblemInfo
from fedsim.algorithms.dictionaries import (
    Frame,
    Gaussian,
    IdentityDictionary,
    Learnt,
    UnitVectors,
    encode_sparse,
    k_svd,
)
from fedsim.core.errors import ParameterError
from fedsim.core.ports import Array
from fedsim.scenario import load
from fedsim.scenario.building import Builder
from tests.tiers import examples

SEEDS = st.integers(0, 2**32 - 1)
LAYOUTS = "sparse", "dense"


def info(d: int, features: Array | None = None, folder: Path = Path()) -> ProblemInfo:
    return ProblemInfo(
        clients=2,
        dimension=d,
        smoothness=lambda: 1.0,
        features=lambda: np.zeros((0, d)) if features is None else features,
        rng=lambda purpose: np.random.default_rng(len(purpose)),
        folder=folder,
    )


@given(SEEDS, st.integers(1, 9), st.integers(1, 9), st.integers(1, 9))
def test_a_truncation_is_the_projection_on_the_atoms_it_keeps(
    seed: int, n: int, D: int, count: int
) -> None:
    rng = np.random.default_rng(seed)
    A, x = rng.standard_normal((n, D)), rng.standard_normal(D)
    near = Frame(A).truncate(x, count)
    kept = np.flatnonzero(near)
    assert len(kept) <= count
    away = A @ x - A @ near
    assert np.abs(A[:, kept].T @ away).max(initial=0.0) <= 1e-8
    if count >= D:
        assert np.linalg.norm(away) <= 1e-8


@given(SEEDS, st.integers(1, 9), st.integers(1, 12))
def test_the_atoms_of_the_identity_are_a_frame(seed: int, n: int, count: int) -> None:
    """No matrix is formed, and nothing differs."""
    rng = np.random.default_rng(seed)
    x, kept = rng.standard_normal(n), np.flatnonzero(rng.integers(2, size=n))
    plain, frame = UnitVectors(n), Frame(np.eye(n))
    assert plain.count == frame.count
    assert plain.norm == frame.norm
    for one, two in (
        (plain.model(x), frame.model(x)),
        (plain.coefficients(x), frame.coefficients(x)),
        (plain.correlations(x), frame.correlations(x)),
        (plain.truncate(x, count), frame.truncate(x, count)),
        (np.eye(n)[:, plain.basis(kept)], frame.basis(kept)),
    ):
        assert np.allclose(one, two, rtol=1e-12, atol=1e-12)
    assert plain.operations(count) == 0.0


@given(SEEDS, st.integers(1, 9), st.integers(1, 9))
def test_coefficients_are_the_shortest_of_least_squares(seed: int, n: int, D: int) -> None:
    rng = np.random.default_rng(seed)
    A, w = rng.standard_normal((n, D)), rng.standard_normal(n)
    assert np.allclose(Frame(A).coefficients(w), np.linalg.pinv(A) @ w, atol=1e-6)


def test_what_is_not_finite_stays_so() -> None:
    x = np.array([1.0, np.nan, 2.0])
    assert np.isnan(Frame(np.eye(3)).truncate(x, 1)).any()


def test_gaussian_atoms_have_length_one_on_average() -> None:
    atoms = Gaussian(columns=3000).atoms(info(50))
    lengths = np.square(atoms.matrix).sum(axis=0)
    # The variance of a squared length is 2/n.
    assert abs(lengths.mean() - 1) <= 4 * np.sqrt(2 / 50 / 3000)
    again = Gaussian(columns=3000).atoms(info(50))
    assert np.array_equal(atoms.matrix, again.matrix)
    assert isinstance(IdentityDictionary().atoms(info(5)), UnitVectors)


# -- K-SVD -----------------------------------------------------------------------------


def planted(seed: int, n: int = 12, D: int = 10, N: int = 300) -> tuple[Array, Array]:
    """Return a dictionary, and signals that are combinations of two of its atoms."""
    rng = np.random.default_rng(seed)
    A = rng.standard_normal((n, D))
    A /= np.linalg.norm(A, axis=0)
    codes = np.zeros((D, N))
    for signal in codes.T:
        signal[rng.choice(D, 2, replace=False)] = rng.choice([-1, 1], 2) * rng.uniform(1, 2, 2)
    return A, A @ codes


def error(A: Array, signals: Array, sparsity: int) -> float:
    return float(np.linalg.norm(signals - A @ encode_sparse(A, signals, sparsity)))


def test_planted_atoms_are_found() -> None:
    A, signals = planted(3)
    found = k_svd(signals, 10, 2, 20, np.random.default_rng(0))
    assert np.allclose(np.linalg.norm(found, axis=0), 1.0, rtol=1e-12)
    likeness = np.abs(A.T @ found).max(axis=1)
    assert (likeness > 0.99).mean() >= 0.8
    start = k_svd(signals, 10, 2, 0, np.random.default_rng(0))
    assert error(found, signals, 2) < 0.5 * error(start, signals, 2)


@examples(20)
@given(SEEDS)
def test_one_atom_is_the_leading_singular_vector(seed: int) -> None:
    """With D = 1 every pass is a step of the power method on the signals' Gram matrix."""
    rng = np.random.default_rng(seed)
    Q, _ = np.linalg.qr(rng.standard_normal((5, 5)))
    signals = Q * np.array([4.0, 1.0, 0.5, 0.2, 0.1]) @ np.linalg.qr(rng.standard_normal((5, 5)))[0]
    atom = k_svd(signals, 1, 1, 40, rng)[:, 0]
    assert abs(atom @ Q[:, 0]) == pytest.approx(1.0, abs=1e-9)


def test_codes_are_sparse_and_their_residuals_orthogonal() -> None:
    A, signals = planted(5, N=40)
    codes = encode_sparse(A, signals, 3)
    assert (np.count_nonzero(codes, axis=0) <= 3).all()
    for code, residual in zip(codes.T, (signals - A @ codes).T, strict=True):
        assert np.abs(A[:, np.flatnonzero(code)].T @ residual).max() <= 1e-9


def test_more_atoms_than_signals_are_filled_up() -> None:
    atoms = k_svd(np.eye(4)[:, :2], 7, 1, 3, np.random.default_rng(0))
    assert atoms.shape == (4, 7)
    assert np.allclose(np.linalg.norm(atoms, axis=0), 1.0)
    assert np.isfinite(k_svd(np.zeros((4, 3)), 2, 1, 2, np.random.default_rng(0))).all()


def test_atoms_are_learnt_from_features_or_from_a_file(tmp_path: Path) -> None:
    _, signals = planted(4, N=60)
    np.savez(tmp_path / "public.npz", signals=signals.T)
    spec = Learnt(columns=6, sparsity=2, iterations=3, signals=50)
    from_file = spec.model_copy(update={"path": Path("public.npz")})
    one = spec.atoms(info(12, signals.T)).matrix
    two = from_file.atoms(info(12, folder=tmp_path)).matrix
    assert np.array_equal(one, two)
    with pytest.raises(ParameterError, match="12 entries, but the model has 11") as caught:
        from_file.atoms(info(11, folder=tmp_path))
    assert caught.value.key == "dictionary.path"


@pytest.mark.parametrize("count", [50, 1000])
def test_of_sparse_features_only_those_that_are_drawn_are_filled_in(
    count: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two clients' rows as they are read, sparse or dense, make the same atoms."""
    X = np.where(np.random.default_rng(2).random((80, 6)) < 0.4, 1.5, 0.0)
    X[:, -1], y = 1.0, np.arange(80) % 7
    rows = (" ".join(f"{j + 1}:{row[j]}" for j in np.flatnonzero(row)) for row in X)
    text = "".join(f"{label} {row}\n" for label, row in zip(y, rows, strict=True))
    (tmp_path / "rows.libsvm").write_text(text)
    filled: list[tuple[int, ...]] = []
    toarray = csr_array.toarray

    def noted(self: Any, *args: Any, **kwargs: Any) -> Any:
        filled.append(self.shape)
        return toarray(self, *args, **kwargs)

    monkeypatch.setattr(csr_array, "toarray", noted)
    sparse, dense = (learnt(tmp_path / "rows.libsvm", as_read, count) for as_read in LAYOUTS)
    assert np.array_equal(sparse, dense)
    assert filled == [(min(count, 80), 6)]


def learnt(path: Path, layout: str, signals: int) -> Array:
    """Return the atoms that a run over a file of rows learns."""
    dictionary = {"kind": "k-svd", "columns": 4, "sparsity": 2, "signals": signals}
    solver = {"kind": "gradient-descent", "step_size": 0.1}
    problem = {
        "loss": {"kind": "squared"},
        "data": {"kind": "libsvm", "path": str(path), "layout": layout},
        "split": {"kind": "contiguous"},
        "optimum": "unknown",
    }
    algorithm = {"kind": "fedgradmp", "sparsity": 2, "dictionary": dictionary, "solver": solver}
    world = {"fleet": [{"count": 2}], "stop": {"rounds": 1}}
    plan = load({"problem": problem, "algorithm": algorithm} | world)
    method: Any = Builder(plan).build(plan.variants[0], 1).algorithm
    matrix: Array = method._atoms.matrix
    return matrix


@pytest.mark.parametrize("arrays", [{"other": np.eye(2)}, {"signals": np.full((2, 2), np.nan)}])
def test_a_file_without_signals_is_refused(arrays: dict[str, Array], tmp_path: Path) -> None:
    path = tmp_path / "wrong.npz"
    np.savez(path, **arrays)  # type: ignore[arg-type]
    for name in (path.name, "absent.npz"):
        spec = Learnt(columns=2, path=Path(name))
        with pytest.raises(ParameterError, match="signals") as caught:
            spec.atoms(info(2, folder=tmp_path))
        assert caught.value.key == "dictionary.path"
