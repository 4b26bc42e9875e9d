"""Methods of peers against loops in NumPy over matrices, and the laws that are known of them."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import networkx as nx
import numpy as np
import pytest

import fedsim
from fedsim.core.errors import ScenarioError
from fedsim.core.ports import Array
from fedsim.core.streams import stream

NODES, ROWS, DIM, L2, ROUNDS = 6, 12, 5, 0.1, 15
EDGES = [(0, 1), (1, 2), (2, 3), (3, 4), (4, 5), (5, 0), (0, 3), (1, 4)]
ARROWS = [(0, 1), (1, 2), (2, 3), (3, 4), (4, 5), (5, 0), (0, 3), (4, 1)]
TOP, ETA = 2, 0.1
TOP_K = {"up": {"compressor": {"kind": "top-k", "count": TOP}}}


def samples() -> tuple[Array, Array]:
    rng = np.random.default_rng(5)
    X = rng.standard_normal((NODES, ROWS, DIM)) + rng.standard_normal((NODES, 1, DIM))
    return X, np.sign(X @ rng.standard_normal(DIM) + 0.3 * rng.standard_normal((NODES, ROWS)))


X, Y = samples()


def gradients(W: Array) -> Array:
    """Return every node's gradient at its own model, shape (M, d)."""
    margins = Y * np.einsum("mnd,md->mn", X, W)
    slopes = -np.einsum("mnd,mn->md", X, Y / (1 + np.exp(margins))) / ROWS
    return np.asarray(slopes + L2 * W)


def metropolis() -> Array:
    A = nx.to_numpy_array(nx.Graph(EDGES), nodelist=range(NODES))
    degrees = A.sum(axis=1)
    W = A / (1 + np.maximum.outer(degrees, degrees))
    return np.asarray(W + np.diag(1 - W.sum(axis=1)))


def columns() -> Array:
    A = nx.to_numpy_array(nx.DiGraph(ARROWS), nodelist=range(NODES)).T + np.eye(NODES)
    return np.asarray(A / A.sum(axis=0))


def top(V: Array) -> Array:
    """Return the entries of largest magnitude in each row."""
    least = np.sort(np.abs(V), axis=1)[:, -TOP][:, None]
    return np.where(np.abs(V) >= least, V, 0.0)


def run(method: dict[str, Any], folder: Path, **changes: Any) -> fedsim.Result:
    data: dict[str, Any] = {
        "X": X.reshape(-1, DIM),
        "y": Y.ravel(),
        "client": np.repeat(range(NODES), ROWS),
    }
    np.savez(folder / "data.npz", **data)
    directed = method["kind"] in {"sgp", "push-sum"}
    edges = {"kind": "edges", "edges": ARROWS if directed else EDGES, "directed": directed}
    written: dict[str, Any] = {
        "problem": {
            "loss": {"kind": "logistic", "scale": "mean", "l2": L2, "labels": "plus-minus"},
            "data": {"kind": "npz", "path": str(folder / "data.npz")},
            "split": {"kind": "groups"},
        },
        "algorithm": method,
        "wire": {"values": "float64"},
        "fleet": [{"count": NODES}],
        "network": {"peers": edges},
        "stop": {"rounds": ROUNDS},
        "models": {"every": 1},
    }
    return fedsim.run(written | changes)


def drawn(spread: float = 1.0) -> Array:
    rngs = [stream(1, "client", node) for node in range(NODES)]
    return np.array([spread * rng.standard_normal(DIM) for rng in rngs])


ZERO = np.zeros((NODES, DIM))


def gossip(W: Array) -> Iterator[Array]:
    x = drawn()
    while True:
        x = W @ x
        yield x


def dfedavg(W: Array) -> Iterator[Array]:
    x = ZERO
    while True:
        for _ in range(3):
            x = x - ETA * gradients(x)
        x = W @ x
        yield x


def extra(W: Array) -> Iterator[Array]:
    old, x = ZERO, W @ ZERO - ETA * gradients(ZERO)
    half = (np.eye(NODES) + W) / 2
    while True:
        yield x
        new = 2 * half @ x - half @ old - ETA * (gradients(x) - gradients(old))
        old, x = x, new


def nids(W: Array) -> Iterator[Array]:
    old, x = ZERO, -ETA * gradients(ZERO)
    half = (np.eye(NODES) + W) / 2
    while True:
        old, x = x, half @ (2 * x - old - ETA * (gradients(x) - gradients(old)))
        yield x


def diging(W: Array) -> Iterator[Array]:
    x, y = ZERO, gradients(ZERO)
    while True:
        new = W @ x - ETA * y
        y = W @ y + gradients(new) - gradients(x)
        x = new
        yield x


def choco(W: Array, x: Array, step: Callable[[Array], Array], gamma: float) -> Iterator[Array]:
    copies = ZERO
    while True:
        x = step(x)
        copies = copies + top(x - copies)
        x = x + gamma * (W - np.eye(NODES)) @ copies
        yield x


def choco_gossip(W: Array) -> Iterator[Array]:
    return choco(W, drawn(), lambda x: x, 0.4)


def choco_sgd(W: Array) -> Iterator[Array]:
    return choco(W, ZERO, lambda x: x - ETA * gradients(x), 0.4)


def sparq(W: Array) -> Iterator[Array]:
    x, copies, number = ZERO, ZERO, 0
    while True:
        number += 1
        for _ in range(2):
            x = x - ETA * gradients(x)
        least = 2.0 * number**0.5 * ETA**2
        fires = ((x - copies) ** 2).sum(axis=1, keepdims=True) > least
        copies = copies + fires * top(x - copies)
        x = x + 0.4 * (W - np.eye(NODES)) @ copies
        yield x


def cola(W: Array) -> Iterator[Array]:
    L = nx.laplacian_matrix(nx.Graph(EDGES), nodelist=range(NODES)).toarray()
    x, sent, dual, number = ZERO, ZERO, ZERO, 0
    while True:
        number += 1
        scale = (2 * 0.2 * np.diag(L) + 3.0)[:, None]
        x = x - (gradients(x) + 0.2 * L @ sent + dual) / scale
        fires = np.linalg.norm(x - sent, axis=1) > 0.3 * 0.9**number
        sent = np.where(fires[:, None], x, sent)
        dual = dual + 0.2 * L @ sent
        yield x


def near(W: Array, anchors: Array, pulls: Array) -> Array:
    """Return the minimisers of f_i + p_i/2 |. - a_i|^2, shape (M, d), by Newton's method."""
    for _ in range(12):
        margins = Y * np.einsum("mnd,md->mn", X, W)
        bends = 1 / (2 + np.exp(margins) + np.exp(-margins)) / ROWS
        H = np.einsum("mnd,mn,mne->mde", X, bends, X) + (L2 + pulls)[:, None, None] * np.eye(DIM)
        G = gradients(W) + pulls[:, None] * (W - anchors)
        W = W - np.linalg.solve(H, G[..., None])[..., 0]
    return W


def coke(W: Array, threshold: float = 0.3) -> Iterator[Array]:
    A = nx.to_numpy_array(nx.Graph(EDGES), nodelist=range(NODES))
    D = np.diag(A.sum(axis=1))
    x, sent, dual, number = ZERO, ZERO, ZERO, 0
    while True:
        number += 1
        # f_i + c d_i |x|^2 + x.(l_i - c sum_j (s_i + s_j)), with the square completed
        degrees = A.sum(axis=1)
        x = near(x, (0.2 * (D + A) @ sent - dual) / (0.4 * degrees)[:, None], 0.4 * degrees)
        fires = np.linalg.norm(x - sent, axis=1) > threshold * 0.9**number
        sent = np.where(fires[:, None], x, sent)
        dual = dual + 0.2 * (D - A) @ sent
        yield x


def pushed(W: Array, x: Array, step: Callable[[Array, Array], Array]) -> Iterator[Array]:
    mass = np.ones((NODES, 1))
    while True:
        x, mass = W @ step(x, x / mass), W @ mass
        yield x / mass


def push_sum(W: Array) -> Iterator[Array]:
    return pushed(W, drawn(), lambda x, _: x)


def sgp(W: Array) -> Iterator[Array]:
    return pushed(W, ZERO, lambda x, z: x - ETA * gradients(z))


STEP: dict[str, Any] = {"step_size": ETA}
METHODS: dict[str, tuple[Callable[[Array], Iterator[Array]], dict[str, Any], dict[str, Any]]] = {
    "gossip": (gossip, {}, {}),
    "dfedavg": (dfedavg, STEP | {"local_steps": 3}, {}),
    "extra": (extra, STEP, {}),
    "nids": (nids, STEP, {}),
    "diging": (diging, STEP, {}),
    "choco-gossip": (choco_gossip, {"gamma": 0.4}, TOP_K),
    "choco-sgd": (choco_sgd, STEP | {"gamma": 0.4}, TOP_K),
    "sparq-sgd": (
        sparq,
        STEP | {"gamma": 0.4, "threshold": 2.0, "growth": 0.5, "local_steps": 2},
        TOP_K,
    ),
    "cola": (cola, {"penalty": 0.2, "rho": 3.0, "threshold": 0.3, "decay": 0.9}, {}),
    "coke": (
        coke,
        {
            "penalty": 0.2,
            "threshold": 0.3,
            "decay": 0.9,
            "solver": {"kind": "newton", "accuracy": 1e-7},
        },
        {},
    ),
    "push-sum": (push_sum, {}, {}),
    "sgp": (sgp, STEP, {}),
}


def distance_to_loop(result: fedsim.Result, loop: Iterator[Array]) -> float:
    """Return the largest difference of means, and of distances to them, over all rounds."""
    found = []
    rounds = zip(result.models["model"], result.rounds["consensus"][1:], loop, strict=False)
    for mean, consensus, models in rounds:
        expected = models.mean(axis=0)
        apart = np.sqrt(((models - expected) ** 2).sum(axis=1).mean())
        found += [np.abs(mean.ravel() - expected).max(), abs(consensus - apart)]
    assert len(found) == 2 * ROUNDS
    return float(max(found))


@pytest.mark.parametrize("kind", METHODS)
def test_on_an_ideal_network_a_method_is_its_loop(kind: str, tmp_path: Path) -> None:
    loop, keys, wire = METHODS[kind]
    result = run({"kind": kind, **keys}, tmp_path, wire={"values": "float64", **wire})
    W = columns() if kind in {"sgp", "push-sum"} else metropolis()
    assert distance_to_loop(result, loop(W)) < 1e-10
    silent = (result.events["event"] == "silent").any()
    assert silent == (kind in {"sparq-sgd", "cola", "coke"})


def test_consensus_contracts_by_the_second_eigenvalue(tmp_path: Path) -> None:
    far = run({"kind": "gossip"}, tmp_path, stop={"rounds": 60}, models={})
    second = np.sort(np.abs(np.linalg.eigvalsh(metropolis())))[-2]
    apart = far.rounds["consensus"].to_numpy()
    assert apart[60] / apart[59] == pytest.approx(second, rel=0.01)


def test_choco_with_a_step_of_one_and_nothing_compressed_is_gossip(tmp_path: Path) -> None:
    result = run({"kind": "choco-gossip", "gamma": 1.0}, tmp_path)
    assert distance_to_loop(result, gossip(metropolis())) < 1e-10


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "step_size", "rounds", "exact"),
    [
        ("d-psgd", 0.2, 300, False),
        ("extra", 0.2, 150, True),
        ("nids", 0.2, 150, True),
        ("diging", 0.1, 300, True),
    ],
)
def test_with_a_constant_step_all_but_d_psgd_reach_the_optimum(
    kind: str, step_size: float, rounds: int, exact: bool, tmp_path: Path
) -> None:
    method = {"kind": kind, "step_size": step_size}
    last = run(method, tmp_path, stop={"rounds": rounds}, models={}).rounds.iloc[-1]
    assert (last["gap"] < 1e-5) == exact
    assert (last["consensus"] < 1e-5) == exact


def test_admm_on_squares_is_its_linear_loop_exact_and_dearer_than_where_it_is_censored(
    tmp_path: Path,
) -> None:
    """With a threshold of 0 it is consensus ADMM, whose minimisations are linear systems."""
    squares = {"kind": "squared", "scale": "mean", "l2": L2}
    rng = np.random.default_rng(3)
    y = X @ rng.standard_normal(DIM) + 0.1 * rng.standard_normal((NODES, ROWS))
    np.savez(
        tmp_path / "s.npz", X=X.reshape(-1, DIM), y=y.ravel(), client=np.repeat(range(NODES), ROWS)
    )
    changes = {
        "problem": {
            "loss": squares,
            "data": {"kind": "npz", "path": str(tmp_path / "s.npz")},
            "split": {"kind": "groups"},
        },
        "stop": {"rounds": 60},
    }
    method = {"kind": "coke", "penalty": 0.5}
    full = run(method, tmp_path, **changes)
    A = nx.to_numpy_array(nx.Graph(EDGES), nodelist=range(NODES))
    degrees, x, dual = A.sum(axis=1), ZERO, ZERO
    H = np.einsum("mni,mnj->mij", X, X) / ROWS + L2 * np.eye(DIM)
    b = np.einsum("mni,mn->mi", X, y) / ROWS
    for mean in full.models["model"]:
        right = b - dual + 0.5 * (degrees[:, None] * x + A @ x)
        x = np.linalg.solve(H + degrees[:, None, None] * np.eye(DIM), right[..., None])[..., 0]
        dual = dual + 0.5 * (degrees[:, None] * x - A @ x)
        assert np.abs(mean.ravel() - x.mean(axis=0)).max() < 1e-10
    optimum = np.linalg.solve(H.sum(axis=0), b.sum(axis=0))
    assert np.abs(x - optimum).max() < 1e-6
    rare = run(method | {"threshold": 0.5, "decay": 0.8}, tmp_path, **changes)
    assert rare.rounds["bits_up"].sum() < 0.9 * full.rounds["bits_up"].sum()
    sent = rare.rounds[["transmissions", "beacons"]].sum()
    assert sent.sum() == 60 * 2 * len(EDGES)
    assert sent["beacons"] == (rare.events["event"] == "silent").sum() > 0


def test_mass_is_conserved_unless_messages_are_lost(tmp_path: Path) -> None:
    sure = run({"kind": "push-sum"}, tmp_path)
    assert sure.rounds["mass"].to_numpy()[1:] == pytest.approx(1.0, abs=1e-12)
    loss = {"kind": "independent", "rate": "20 %"}
    radio = {"kind": "wifi", "loss": loss, "tries": 1}
    unsure = run(
        {"kind": "push-sum"},
        tmp_path,
        fleet=[{"count": NODES, "radio": radio}],
        participation={"kind": "full", "deadline": "1 s"},
    )
    mass = unsure.rounds["mass"].to_numpy()[1:]
    assert (np.diff(mass) <= 1e-12).all()
    assert mass[-1] < 0.9


@pytest.mark.parametrize(
    ("method", "changes", "key", "words"),
    [
        (
            {"kind": "extra", "step_size": ETA},
            {"network": {"peers": {"kind": "edges", "edges": ARROWS, "directed": True}}},
            "network.peers.kind",
            "extra needs undirected",
        ),
        (
            {"kind": "coke", "penalty": 0.2},
            {},
            "algorithm.solver.kind",
            "exact needs a squared loss",
        ),
        (
            {"kind": "coke", "penalty": 0.2, "solver": {"kind": "newton"}},
            {"network": {"peers": {"kind": "edges", "edges": ARROWS, "directed": True}}},
            "network.peers.kind",
            "coke needs undirected",
        ),
        (
            {"kind": "diging", "step_size": ETA},
            {"network": {"peers": {"kind": "edges", "edges": ARROWS, "directed": True}}},
            "network.peers.kind",
            "not doubly stochastic",
        ),
        (
            {"kind": "sgp", "step_size": ETA},
            {
                "network": {
                    "peers": {"kind": "ring"},
                    "mixing": {"kind": "matrix", "weights": [[0, 1, 0.5], [1, 0, 0.2]]},
                }
            },
            "network.mixing.kind",
            "column 0 adds up to 0.2",
        ),
        (
            {"kind": "choco-gossip", "gamma": 0.5},
            {"participation": {"kind": "full", "deadline": "1 s"}},
            "participation.deadline",
            "missing for ever",
        ),
    ],
)
def test_what_a_method_needs_is_a_rule(
    method: dict[str, Any], changes: dict[str, Any], key: str, words: str, tmp_path: Path
) -> None:
    with pytest.raises(ScenarioError) as caught:
        run(method, tmp_path, **changes)
    (fault,) = caught.value.faults
    assert (fault.key, words in fault.message) == (key, True), fault.message
