"""FedGradMP is the loop of Jeong, Needell, Qin 2024, with every solver and with dictionaries."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from numpy.typing import NDArray

from fedsim import ScenarioError
from fedsim.algorithms import FedGradMP, ProblemInfo
from fedsim.core.errors import ParameterError
from fedsim.core.ports import Array
from fedsim.core.streams import stream
from tests.algorithms.deadlines import late, slow
from tests.algorithms.harness import trajectory
from tests.algorithms.packing import run
from tests.algorithms.unequal import FULL_PRECISION, Unequal, check_near, cohorts, unequal

ROUNDS = 20
SPARSITY = 2
ATOMS = 30
RADIUS = 1.5

Argmin = Callable[[Unequal, int, Array, Array], Array]
"""Client m's coefficients of columns B, shape (n, k), given those to start from."""


def top_of(x: Array, count: int) -> NDArray[np.intp]:
    """Return where the largest magnitudes stand."""
    return np.argsort(-np.abs(x), kind="stable")[:count]


def least_squares(problem: Unequal, m: int, B: Array, c: Array) -> Array:
    X, y = problem.rows[m]
    return np.asarray(np.linalg.lstsq(X @ B, y)[0])


def newton(problem: Unequal, m: int, B: Array, c: Array) -> Array:
    """Logistic regression, to the end."""
    X, y = problem.rows[m]
    for _ in range(40):
        p = 1 / (1 + np.exp(-y * (X @ B @ c)))
        H = B.T @ (X.T * (p * (1 - p))) @ X @ B / len(y) + 0.1 * B.T @ B
        c = c - np.linalg.solve(H, B.T @ problem.gradient(X, y, B @ c))
    return c


def descent(problem: Unequal, m: int, B: Array, c: Array) -> Array:
    """Fifteen steps of length 0.2."""
    for _ in range(15):
        c = c - 0.2 * B.T @ problem.gradient(*problem.rows[m], B @ c)
    return c


def loop(
    problem: Unequal,
    argmin: Argmin,
    *,
    K: int = 3,
    batch: int | None = 6,
    A: Array | None = None,
    radius: float = np.inf,
    asked: list[list[int]] | None = None,
) -> Array:
    """Algorithm 1 of the paper."""
    n, C = (*problem.shape, 1)[:2]
    # With C classes an atom stands in one of them: its coefficient is entry (j, c), row by row.
    D: Array = np.kron(np.eye(n) if A is None else A, np.eye(C)).astype(np.float64)
    gradient, shares = problem.stochastic(), problem.shares

    def top(x: Array, count: int) -> NDArray[np.intp]:
        """The largest of every class, as numbers of entries."""
        return np.concatenate([top_of(x[c::C], count) * C + c for c in range(C)])

    def best(x: Array) -> Array:
        kept = top(x, SPARSITY)
        near = np.zeros_like(x)
        near[kept] = np.linalg.lstsq(D[:, kept], D @ x)[0]
        length = float(np.linalg.norm(D @ near))
        return near * (radius / length) if length > radius else near

    x, models = np.zeros(D.shape[1]), []
    for t in range(ROUNDS):
        cohort = asked[t] if asked else list(range(len(problem.rows)))
        mean = np.zeros_like(x)
        for m in cohort:
            local = x
            for _ in range(K):
                r = gradient(m, D @ local, batch)
                merged = np.union1d(top(D.T @ r, 2 * SPARSITY), np.flatnonzero(local))
                b = np.zeros_like(x)
                b[merged] = argmin(problem, m, D[:, merged], local[merged])
                local = best(b)
            mean += shares[m] / shares[cohort].sum() * local
        x = best(mean)
        models.append(D @ x)
    return np.array(models)


def block(**parameters: Any) -> dict[str, Any]:
    given = {"kind": "fedgradmp", "sparsity": SPARSITY, "local_steps": 3, "batch": 6}
    return given | parameters


def scenario(problem: Unequal, algorithm: dict[str, Any], **blocks: Any) -> dict[str, Any]:
    base = {"problem": problem.block, "algorithm": algorithm}
    return base | {"wire": FULL_PRECISION, "stop": {"rounds": ROUNDS}} | blocks


NEWTON = {"kind": "newton", "accuracy": 1e-12, "steps": 40}
DESCENT = {"kind": "gradient-descent", "step_size": 0.2, "accuracy": 1e-300, "steps": 15}


@pytest.mark.parametrize(
    ("loss", "solver", "argmin"),
    [
        ("squared", {"kind": "exact"}, least_squares),
        ("squared", NEWTON, least_squares),
        ("logistic", NEWTON, newton),
        ("logistic", DESCENT, descent),
        ("softmax", DESCENT, descent),
    ],
)
def test_it_is_the_paper_s_loop(
    loss: str, solver: dict[str, Any], argmin: Argmin, tmp_path: Path
) -> None:
    problem = unequal(loss, tmp_path)
    seen = trajectory(scenario(problem, block(solver=solver)), tmp_path / "run").models
    check_near(seen, loop(problem, argmin))
    of_a_class = seen.reshape(ROUNDS, problem.shape[0], -1)
    assert (np.count_nonzero(of_a_class, axis=1) == SPARSITY).all()


@pytest.mark.parametrize("radius", [None, RADIUS])
def test_models_of_a_dictionary_are_made_of_few_atoms(radius: float | None, tmp_path: Path) -> None:
    """The atoms are drawn from the stream "shared/dictionary" of the run's seed."""
    problem = unequal("squared", tmp_path)
    A = stream(1, "shared", "dictionary").standard_normal((20, ATOMS)) / np.sqrt(20)
    algorithm = block(dictionary={"kind": "gaussian", "columns": ATOMS}, ball=radius)
    seen = trajectory(scenario(problem, algorithm), tmp_path / "run").models
    check_near(seen, loop(problem, least_squares, A=A, radius=radius or np.inf))
    lengths = np.linalg.norm(seen, axis=1)
    assert (lengths <= RADIUS * (1 + 1e-12)).all() == (radius is not None)


@pytest.mark.slow
def test_a_dictionary_makes_every_class_of_its_own_atoms(tmp_path: Path) -> None:
    """And costs what it does for a vector, for each of them."""
    problem = unequal("softmax", tmp_path)
    n, C = problem.shape
    A = stream(1, "shared", "dictionary").standard_normal((n, ATOMS)) / np.sqrt(n)
    algorithm = block(dictionary={"kind": "gaussian", "columns": ATOMS}, solver=DESCENT)
    seen = trajectory(scenario(problem, algorithm), tmp_path / "run").models
    check_near(seen, loop(problem, descent, A=A))
    method = FedGradMP.model_validate(algorithm)
    costs = [
        method.configure(info(n * C, **parts))._atoms.operations(SPARSITY)
        for parts in ({"shape": (n, C)}, {"shape": ()})
    ]
    assert costs[0] == C * 2 * n * (SPARSITY + ATOMS + SPARSITY**2)


SVRG = {"kind": "svrg", "step_size": 0.1, "batch": 4, "epochs": 2, "inner": 3, "accuracy": 1e-300}


def test_svrg_corrects_every_gradient_by_that_at_the_start_of_its_epoch(tmp_path: Path) -> None:
    """Johnson, Zhang 2013; a step's two gradients are of one draw."""
    problem = unequal("logistic", tmp_path)
    gradient, again = problem.stochastic(), problem.stochastic()
    blocks = scenario(problem, block(solver=SVRG, local_steps=1), stop={"rounds": 1})
    seen = trajectory(blocks, tmp_path / "run").models
    mean = np.zeros(20)
    for m, share in enumerate(problem.shares):
        used = np.sort(top_of(gradient(m, np.zeros(20), 6), 2 * SPARSITY))
        again(m, np.zeros(20), 6)
        B, c = np.eye(20)[:, used], np.zeros(2 * SPARSITY)
        for _ in range(2):
            start, full = c, B.T @ problem.gradient(*problem.rows[m], B @ c)
            for _ in range(3):
                change = gradient(m, B @ c, 4) - again(m, B @ start, 4)
                c = c - 0.1 * (B.T @ change + full)
        x = B @ c
        x[np.setdiff1d(np.arange(20), top_of(x, SPARSITY))] = 0.0
        mean += share * x
    mean[np.setdiff1d(np.arange(20), top_of(mean, SPARSITY))] = 0.0
    check_near(seen, mean[None])


def test_stochastic_steps_draw_after_the_gradient_that_finds_the_support(tmp_path: Path) -> None:
    problem = unequal("logistic", tmp_path)
    gradient = problem.stochastic()
    solver = {"kind": "sgd", "step_size": 0.1, "batch": 4, "steps": 5}
    algorithm = block(solver=solver, batch=6, local_steps=2)
    blocks = scenario(problem, algorithm, stop={"rounds": 1})
    seen = trajectory(blocks, tmp_path / "run").models
    mean = np.zeros(20)
    for m, share in enumerate(problem.shares):
        x = np.zeros(20)
        for _ in range(2):
            used = top_of(gradient(m, x, 6), 2 * SPARSITY)
            B = np.eye(20)[:, np.union1d(used, np.flatnonzero(x))]
            c = B.T @ x
            for _ in range(5):
                c = c - 0.1 * B.T @ gradient(m, B @ c, 4)
            kept = top_of(B @ c, SPARSITY)
            x = np.where(np.isin(np.arange(20), kept), B @ c, 0.0)
        mean += share * x
    kept = top_of(mean, SPARSITY)
    check_near(seen, np.where(np.isin(np.arange(20), kept), mean, 0.0)[None])


def test_of_a_cohort_the_shares_are_scaled_to_add_up_to_one(tmp_path: Path) -> None:
    problem = unequal("squared", tmp_path)
    two = {"kind": "uniform", "count": 2}
    seen = run(scenario(problem, block(), participation=two), tmp_path / "run")
    asked = cohorts(seen.events)
    assert {len(cohort) for cohort in asked} == {2}
    check_near(np.array(seen.models), loop(problem, least_squares, asked=asked))


def test_an_estimate_that_comes_late_is_not_counted(tmp_path: Path) -> None:
    """The last client always misses its round, and is heard in a later one."""
    problem = unequal("squared", tmp_path)
    blocks = slow(4, behind=1, up="40 kbit/s")
    seen = run(scenario(problem, block(batch=None), **blocks), tmp_path / "run")
    assert set(late(seen)) == {"client-3"}
    assert len(late(seen)) >= 5
    asked = [[0, 1, 2]] * ROUNDS
    check_near(np.array(seen.models), loop(problem, least_squares, batch=None, asked=asked))


def test_it_needs_rounds(tmp_path: Path) -> None:
    blocks = scenario(unequal("squared", tmp_path), block())
    with pytest.raises(ScenarioError, match=r"participation.kind: .*fedgradmp needs rounds"):
        run(blocks | {"participation": {"kind": "asynchronous"}}, tmp_path / "run")


def test_a_sparse_model_is_recovered_to_the_last_digits(tmp_path: Path) -> None:
    """Noiseless, from as many rows as atoms looked at or more: the paper's linear convergence."""
    data = {"kind": "shifted-mean", "clients": 6, "rows": 60, "features": 100, "sparsity": 4}
    problem = {"loss": {"kind": "squared"}, "data": data, "split": {"kind": "groups"}}
    algorithm = {"kind": "fedgradmp", "sparsity": 4, "local_steps": 3, "batch": 30}
    blocks = {"wire": FULL_PRECISION, "stop": {"rounds": 8}}
    seen = trajectory({"problem": problem, "algorithm": algorithm} | blocks, tmp_path)
    truth = seen.job.problem.truth
    assert truth is not None
    assert np.linalg.norm(seen.models[-1] - truth) <= 1e-13 * np.linalg.norm(truth)


def test_what_is_sent_are_coefficients(tmp_path: Path) -> None:
    """Sparse: a byte each of kind, D, k and code, 30 bits of where or less, and two values."""
    problem = unequal("squared", tmp_path)
    algorithm = block(dictionary={"kind": "gaussian", "columns": ATOMS})
    seen = run(scenario(problem, algorithm), tmp_path / "run")
    up = [row["payload_bits"] for row in seen.of("send") if row["node"] != "server"]
    assert len(up) == 4 * ROUNDS
    assert all(8 * (4 + 1 + 2 * 8) <= bits <= 8 * (4 + 2 + 2 * 8) for bits in up)


def test_what_a_dictionary_costs_is_charged(tmp_path: Path) -> None:
    """A local step's products with atoms, its projection, and the fit on 2 tau of them.

    Beside the minibatch gradient 2 n (tau + D) for A x and A^T r, and 2 n tau^2 to project. To
    fit k = 2 tau coefficients on n_m rows, 2 n n_m k for X B, once, and one Newton step: 2 n_m
    k^2 for the Hessian, 2 k^3/3 to solve, 4 n_m k for the gradient.
    """
    problem = unequal("squared", tmp_path)
    device = {"kind": "custom", "speed": "1 Mflop/s", "active": "1 W", "idle": "0 W"}
    fleet = [{"count": 4, "device": device}]
    spent = {}
    for kind in ("identity", "gaussian"):
        dictionary = {"kind": kind} | ({"columns": ATOMS} if kind == "gaussian" else {})
        blocks = {"fleet": fleet, "stop": {"rounds": 1}}
        algorithm = block(dictionary=dictionary, local_steps=1)
        seen = run(scenario(problem, algorithm, **blocks), tmp_path / kind)
        rows = seen.of("compute")
        spent[kind] = [
            sum(row["duration"] for row in rows if row["node"] == f"client-{m}") for m in range(4)
        ]
    n, tau, k = 20, SPARSITY, 2 * SPARSITY
    for m, (X, _) in enumerate(problem.rows):
        fit = 2 * len(X) * k**2 + 2 * k**3 / 3 + 4 * len(X) * k
        plain = 4 * 6 * n + fit
        more = 2 * n * (tau + ATOMS) + 2 * n * tau**2 + 2 * n * len(X) * k
        assert spent["identity"][m] == pytest.approx(plain / 1e6, rel=1e-12)
        assert spent["gaussian"][m] == pytest.approx((plain + more) / 1e6, rel=1e-12)


def info(d: int, **parts: Any) -> ProblemInfo:
    return ProblemInfo(clients=2, dimension=d, smoothness=lambda: 4.0, quadratic=True, **parts)


@given(
    arrays.arrays(np.float64, 12, elements=st.floats(-5, 5)),
    st.integers(1, 12),
    st.floats(0.1, 10),
    st.booleans(),
)
def test_the_nearest_of_few_atoms_in_a_ball(
    x: Array, count: int, radius: float, plain: bool
) -> None:
    kind = {"kind": "identity"} if plain else {"kind": "gaussian", "columns": 12}
    written = {"sparsity": count, "ball": radius, "dictionary": kind}
    method = FedGradMP.model_validate(written).configure(info(12 if plain else 8))
    near = method.nearest(x)
    assert np.count_nonzero(near) <= count
    length = np.linalg.norm(method._atoms.model(near))
    assert length <= radius * (1 + 1e-9)


def test_a_relative_step_size_is_that_of_the_coefficients() -> None:
    """L is the largest of the clients', times the square of the dictionary's norm."""
    written = {
        "sparsity": 1,
        "solver": {"kind": "sgd", "step_size": "0.5/L"},
        "dictionary": {"kind": "gaussian", "columns": 7},
    }
    parts = {"client_smoothness": lambda: np.array([2.0, 5.0])}
    ready = FedGradMP.model_validate(written).configure(info(9, **parts))
    A = np.random.default_rng(0).standard_normal((9, 7)) / 3
    L = 5 * np.linalg.eigvalsh(A.T @ A).max()
    assert ready.solver.step_size == pytest.approx(0.5 / L, rel=1e-12)  # type: ignore[union-attr]


def test_exact_takes_a_quadratic(tmp_path: Path) -> None:
    problem = unequal("logistic", tmp_path)
    with pytest.raises(ScenarioError, match=r"algorithm.solver.kind: exact needs a squared loss"):
        trajectory(scenario(problem, block()), tmp_path / "run")
    problem.block["loss"] = {"kind": "squared", "l1": 0.1}
    with pytest.raises(ScenarioError, match=r"without l1"):
        trajectory(scenario(problem, block()), tmp_path / "run")


def test_what_is_refused() -> None:
    with pytest.raises(ParameterError, match="got 9, but there are 8 entries"):
        FedGradMP(sparsity=9).configure(info(8))
    with pytest.raises(ParameterError, match="got 5, but there are 4 entries"):
        FedGradMP(sparsity=5).configure(info(8, shape=(4, 2)))


def test_a_scenario_says_which_solvers_there_are(tmp_path: Path) -> None:
    problem = unequal("squared", tmp_path)
    with pytest.raises(ScenarioError, match=r"algorithm.solver.*newton"):
        trajectory(scenario(problem, block(solver={"kind": "newtn"})), tmp_path / "run")
    with pytest.raises(ScenarioError, match=r"algorithm.solver.*step_size"):
        trajectory(
            scenario(problem, block(solver={"kind": "sgd", "stepsize": 1})), tmp_path / "run"
        )
