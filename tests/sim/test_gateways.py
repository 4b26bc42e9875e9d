"""Tiers of gateways by hand: their models by loops, their bits, times and joules by closed form."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import fedsim
from fedsim.ports import Array
from fedsim.record.parts import read_table
from tests.algorithms.harness import trajectory
from tests.algorithms.local_loops import Local, check_near, local

ETA, STEPS = 0.1, 2
BELOW = ([0, 1], [2, 3, 4])
"""The clients of two gateways, of five clients in order."""

EXACT = {"values": "float64"}


def scenario(problem: Local, *tiers: dict[str, Any], **blocks: Any) -> dict[str, Any]:
    """Return a scenario of FedAvg below some tiers, in full precision."""
    algorithm = {"kind": "fedavg", "step_size": ETA, "local_steps": STEPS}
    if problem.batch is not None:
        algorithm["batch"] = problem.batch
    return {
        "problem": problem.block,
        "algorithm": algorithm,
        "wire": EXACT,
        "tiers": [{"wire": EXACT, **tier} for tier in tiers],
        "stop": {"rounds": 12},
    } | blocks


def models(problem: Local, folder: Path, *tiers: dict[str, Any], **blocks: Any) -> Array:
    """Return the model of each round, shape (rounds, d)."""
    return trajectory(scenario(problem, *tiers, **blocks), folder / "run").models


Step = Callable[[Array, Array], Array]
"""The model of a server after a mean change."""


def average(w: Array, delta: Array) -> Array:
    return w + delta


class Momentum:
    """DiLoCo's outer step: Nesterov's momentum with the mean change."""

    def __init__(self, rate: float, beta: float) -> None:
        self.rate, self.beta, self.b = rate, beta, np.zeros(1)

    def __call__(self, w: Array, delta: Array) -> Array:
        self.b = self.beta * self.b + delta
        return np.asarray(w + self.rate * (self.beta * self.b + delta))


def edge(problem: Local, w: Array, clients: Sequence[int], rounds: int, mu: float = 0.0) -> Array:
    """HierFAVG at a gateway: so many means of models after local steps."""
    own = problem.weights[list(clients)]
    for _ in range(rounds):
        ends = [problem.descend(client, w, ETA, STEPS, mu) for client in clients]
        w = np.tensordot(own / own.sum(), np.array(ends), 1)
    return w


def cloud(problem: Local, rounds: int, step: Step = average, mu: float = 0.0) -> list[Array]:
    """HierFAVG, Algorithm 1: local steps, so many edge rounds, and the mean of the edges."""
    w, made = np.zeros(problem.dimension), list[Array]()
    shares = [problem.weights[clients].sum() for clients in BELOW]
    for _ in range(12):
        ends = [edge(problem, w, clients, rounds, mu) for clients in BELOW]
        w = step(w, np.tensordot(shares, np.array(ends), 1) - w)
        made.append(w)
    return made


# -- models ----------------------------------------------------------------------------


@pytest.mark.parametrize("loss", ["logistic", "softmax"])
@pytest.mark.parametrize("batch", [None, 4])
def test_one_gateway_with_one_round_is_fedavg_to_the_bit(
    loss: str, batch: int | None, tmp_path: Path
) -> None:
    problem = local(tmp_path, loss, batch)
    flat = models(problem, tmp_path / "flat")
    tiered = models(problem, tmp_path / "tiers", {"count": 1})
    deep = models(problem, tmp_path / "deep", {"count": 1}, {"count": 1}, {"count": 1})
    assert flat.tobytes() == tiered.tobytes() == deep.tobytes()


def test_gateways_with_one_round_are_fedavg_but_for_the_order_of_sums(tmp_path: Path) -> None:
    problem = local(tmp_path)
    flat = models(problem, tmp_path / "flat")
    for count in (2, 5):
        check_near(models(problem, tmp_path / str(count), {"count": count}), list(flat))


@pytest.mark.parametrize("rounds", [2, 5])
@pytest.mark.parametrize("batch", [None, 4])
def test_more_rounds_are_hierfavg(rounds: int, batch: int | None, tmp_path: Path) -> None:
    problem = local(tmp_path, batch=batch)
    seen = models(problem, tmp_path, {"count": 2, "rounds": rounds})
    check_near(seen, cloud(problem, rounds))


def test_inner_and_outer_methods_are_those_of_their_papers(tmp_path: Path) -> None:
    problem = local(tmp_path)
    inner = {"kind": "fedprox", "step_size": ETA, "local_steps": STEPS, "mu": 0.5}
    for number, outer in enumerate(
        (
            {
                "kind": "fedopt",
                "server_rate": 0.7,
                "server_optimizer": {"kind": "sgd", "momentum": 0.9, "nesterov": True},
            },
            {"kind": "diloco"},
        )
    ):
        tier = {"count": 2, "rounds": 3, "outer": outer}
        seen = models(problem, tmp_path / str(number), tier, algorithm=inner)
        check_near(seen, cloud(problem, 3, Momentum(0.7, 0.9), 0.5))


def test_tiers_of_tiers_are_loops_in_loops(tmp_path: Path) -> None:
    problem = local(tmp_path)
    low, high = {"count": 4, "rounds": 2}, {"count": 2, "rounds": 3}
    seen = models(problem, tmp_path, low, high)
    w, made = np.zeros(problem.dimension), list[Array]()
    p = problem.weights
    for _ in range(12):
        ends = []
        for block in ([[0], [1]], [[2], [3, 4]]):
            shares = np.array([p[clients].sum() for clients in block])
            own = w
            for _ in range(3):
                means = [edge(problem, own, clients, 2) for clients in block]
                own = np.tensordot(shares / shares.sum(), np.array(means), 1)
            ends.append(own)
        w = p[[0, 1]].sum() * ends[0] + p[[2, 3, 4]].sum() * ends[1]
        made.append(w)
    check_near(seen, made)


def top(v: Array, k: int) -> Array:
    """Return the k entries of largest magnitude, zero elsewhere."""
    kept = np.zeros_like(v)
    places = np.argsort(-np.abs(v), kind="stable")[:k]
    kept[places] = v[places]
    return kept


def test_each_hop_has_its_own_compressor_and_errors(tmp_path: Path) -> None:
    problem = local(tmp_path)
    up = {"compressor": {"kind": "top-k", "count": 2}, "error_feedback": "ef"}
    wire = {**EXACT, "up": {**up, "if_longer": "compressed"}}
    low = {**EXACT, "up": {"compressor": {"kind": "top-k", "count": 3}, "error_feedback": "ef"}}
    low["up"]["if_longer"] = "compressed"
    seen = models(problem, tmp_path, {"count": 2, "rounds": 2, "wire": wire}, wire=low)
    p, w, made = problem.weights, np.zeros(problem.dimension), list[Array]()
    errors = {node: np.zeros_like(w) for node in range(7)}

    def sent(node: int, change: Array, k: int) -> Array:
        kept = top(change + errors[node], k)
        errors[node] = errors[node] + change - kept
        return kept

    for _ in range(12):
        step = np.zeros_like(w)
        for gateway, clients in zip((5, 6), BELOW, strict=True):
            own, shares = w, p[clients] / p[clients].sum()
            for _ in range(2):
                changes = [problem.descend(m, own, ETA, STEPS) - own for m in clients]
                kept = [sent(m, each, 3) for m, each in zip(clients, changes, strict=True)]
                own = own + np.tensordot(shares, np.array(kept), 1)
            step = step + p[clients].sum() * sent(gateway, own - w, 2)
        w = w + step
        made.append(w)
    check_near(seen, made)


# -- bits, seconds and joules ----------------------------------------------------------

HEADER = 112


def timed(problem: Local, folder: Path, **tier: Any) -> fedsim.Result:
    """Run two rounds of three edge rounds, with times that are exact in binary."""
    radio = {"kind": "first-order", "up": "1 kbit/s", "down": "2 kbit/s"}
    blocks = {
        "fleet": [{"count": 5, "radio": {"kind": "plain", **radio}}],
        "stop": {"rounds": 2},
    }
    return fedsim.run(scenario(problem, {"count": 2, "rounds": 3, **tier}, **blocks), out=folder)
