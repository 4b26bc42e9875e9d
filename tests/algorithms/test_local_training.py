"""Local training by optimizers, schedules and reshuffled passes: the loops written once more."""

from collections.abc import Callable
from math import ceil, cos, pi
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import fedsim
from fedsim.algorithms import FedAvg, FedNova, FedOpt, FedProx, ProblemInfo
from fedsim.core.ports import Array
from fedsim.core.streams import stream
from tests.algorithms.local_loops import ROUNDS, SIZES, Local, check_near, local, shares, told
from tests.tiers import every, some

ETA, BATCH = 0.05, 4
TWO: dict[str, Any] = {"participation": {"kind": "uniform", "count": 2}}

Rows = NDArray[np.intp] | None
"""A minibatch; None for all rows."""

Move = Callable[[Array, Array, float], Array]
"""A step: the model and its gradient, and the step size."""


def sgd(momentum: float = 0.0, decay: float = 0.0, nesterov: bool = False) -> Move:
    b: list[Any] = [None]

    def move(w: Array, g: Array, eta: float) -> Array:
        d = g + decay * w
        b[0] = d if b[0] is None else momentum * b[0] + d
        return np.asarray(w - eta * (d + momentum * b[0] if nesterov else b[0]))

    return move if momentum else lambda w, g, eta: np.asarray(w - eta * (g + decay * w))


def adam(b1: float, b2: float, eps: float, decay: float = 0.0, decoupled: bool = False) -> Move:
    m, v, t = [0.0], [0.0], [0]

    def move(w: Array, g: Array, eta: float) -> Array:
        t[0] += 1
        d = g if decoupled else g + decay * w
        m[0] = b1 * m[0] + (1 - b1) * d  # type: ignore[call-overload]
        v[0] = b2 * v[0] + (1 - b2) * d**2  # type: ignore[call-overload]
        mean, square = m[0] / (1 - b1 ** t[0]), v[0] / (1 - b2 ** t[0])
        left = w - eta * decay * w if decoupled else w
        return np.asarray(left - eta * mean / (np.sqrt(square) + eps))

    return move


def adagrad(eps: float) -> Move:
    v: list[Any] = [0.0]

    def move(w: Array, g: Array, eta: float) -> Array:
        v[0] = v[0] + g**2
        return np.asarray(w - eta * g / (np.sqrt(v[0]) + eps))

    return move


RULES: dict[str, tuple[dict[str, Any], Callable[[], Move]]] = {
    "momentum": ({"kind": "sgd", "momentum": 0.8}, lambda: sgd(0.8)),
    "nesterov": (
        {"kind": "sgd", "momentum": 0.8, "nesterov": True, "weight_decay": 0.1},
        lambda: sgd(0.8, 0.1, nesterov=True),
    ),
    "decay": ({"kind": "sgd", "weight_decay": 0.3}, lambda: sgd(0, 0.3)),
    "adam": (
        {"kind": "adam", "beta2": 0.9, "epsilon": 1e-4},
        lambda: adam(0.9, 0.9, 1e-4),
    ),
    "adamw": (
        {"kind": "adamw", "weight_decay": 0.2, "epsilon": 1e-4},
        lambda: adam(0.9, 0.999, 1e-4, 0.2, decoupled=True),
    ),
    "adagrad": ({"kind": "adagrad", "epsilon": 1e-3}, lambda: adagrad(1e-3)),
}


class Clients:
    """The clients of a problem, with optimizers of their own.

    Args:
        problem: their rows.
        rule: makes the optimizer of a client.
        kept: whether it lives as long as the client.
    """

    def __init__(self, problem: Local, rule: Callable[[], Move], kept: bool = False) -> None:
        self.problem, self.rule = problem, rule
        self.own = {m: rule() for m in range(len(SIZES))} if kept else {}

    def descend(
        self,
        m: int,
        w: Array,
        batches: list[Rows],
        rates: list[float],
        mu: float = 0.0,
        clip: float | None = None,
    ) -> Array:
        """Return where the steps lead; None stands for all rows."""
        X, y = self.problem.parts[m]
        move, own = self.own.get(m) or self.rule(), w
        for rows, eta in zip(batches, rates, strict=True):
            g = self.problem.row_gradient(X, y, own) if rows is None else self._some(m, rows, own)
            g = g + mu * (own - w)
            if clip is not None:
                g = g * min(1.0, clip / (float(np.linalg.norm(g)) + 1e-6))
            own = move(own, g, eta)
        return own

    def _some(self, m: int, rows: Rows, w: Array) -> Array:
        X, y = self.problem.parts[m]
        return self.problem.row_gradient(X[rows], y[rows], w)


def drawn(problem: Local, m: int, steps: int) -> list[Rows]:
    """Return a client's next minibatches, drawn one by one."""
    n = SIZES[m]
    if problem.batch is None or problem.batch >= n:
        return [None] * steps
    rng = problem.draws.setdefault(m, stream(problem.seed, "client", m))
    return [rng.choice(n, problem.batch, replace=False, shuffle=False) for _ in range(steps)]


def passes(problem: Local, m: int, epochs: int, drop: bool) -> list[Rows]:
    """Return the minibatches of a client's next passes, as a DataLoader cuts them up."""
    n = SIZES[m]
    if problem.batch is None or problem.batch >= n:
        return [None] * epochs
    rng = problem.draws.setdefault(m, stream(problem.seed, "client", m))
    cut: list[Rows] = []
    for _ in range(epochs):
        order = list(rng.permutation(n))
        while len(order) >= (problem.batch if drop else 1):
            cut.append(np.array(order[: problem.batch]))
            del order[: problem.batch]
    return cut


def averaged(problem: Local, cohorts: list[list[int]], ends: Callable[..., Array]) -> list[Array]:
    """FedAvg of what `ends` of a client, its model and the round says."""
    w, models = np.zeros(problem.dimension), []
    for number, cohort in enumerate(cohorts, 1):
        p = shares(problem.weights, cohort)
        own = [ends(m, w, number) for m in cohort]
        w = np.sum([share * each for share, each in zip(p, own, strict=True)], axis=0)
        models.append(w)
    return models


@pytest.mark.parametrize("rule", some(RULES, "nesterov", "adamw"))
@pytest.mark.parametrize("state", ["reset", "kept"])
@pytest.mark.parametrize("cohort", some(["all", "two"], "two"))
def test_each_rule_is_the_loop(rule: str, state: str, cohort: str, tmp_path: Path) -> None:
    block, make = RULES[rule]
    if rule == "decay":
        state = "reset"  # there is nothing to keep
    problem = local(tmp_path, "logistic", BATCH)
    algorithm = {"kind": "fedavg", "step_size": ETA, "local_steps": 4, "optimizer": block}
    algorithm |= {"optimizer_state": state}
    seen = told(problem, algorithm, tmp_path, **(TWO if cohort == "two" else {}))
    clients = Clients(problem, make, kept=state == "kept")
    check_near(
        seen.run.models,
        averaged(
            problem,
            seen.cohorts,
            lambda m, w, _: clients.descend(m, w, drawn(problem, m, 4), [ETA] * 4),
        ),
    )


@pytest.mark.parametrize("batch", some([None, 4, 8], 4))
@pytest.mark.parametrize("drop", [False, True], ids=["all rows", "drop_last"])
@pytest.mark.parametrize("rule", ["plain", "adam"])
def test_local_epochs_are_reshuffled_passes(
    batch: int | None, drop: bool, rule: str, tmp_path: Path
) -> None:
    problem = local(tmp_path, "softmax", batch)
    block, make = RULES.get(rule, (None, sgd))
    algorithm = {"kind": "fedavg", "step_size": ETA, "local_epochs": 2, "drop_last": drop}
    seen = told(problem, algorithm | {"optimizer": block}, tmp_path)
    clients = Clients(problem, make)

    def ends(m: int, w: Array, _: int) -> Array:
        cut = passes(problem, m, 2, drop)
        return clients.descend(m, w, cut, [ETA] * len(cut))

    check_near(seen.run.models, averaged(problem, seen.cohorts, ends))


@pytest.mark.parametrize("by", ["round", "step"])
@pytest.mark.parametrize("rule", ["plain", "momentum"])
def test_a_schedule_is_the_loop(by: str, rule: str, tmp_path: Path) -> None:
    problem = local(tmp_path, "logistic", BATCH)
    block, make = RULES.get(rule, (None, sgd))
    schedule = {"kind": "cosine", "over": 12, "least": 0.1, "warm_up": 3, "by": by}
    algorithm = {"kind": "fedavg", "step_size": ETA, "local_steps": 3, "schedule": schedule}
    seen = told(problem, algorithm | {"optimizer": block}, tmp_path)
    clients = Clients(problem, make)

    def rate(t: int) -> float:
        if t < 3:
            return ETA * (t + 1) / 3
        return ETA * (0.1 + 0.9 * (1 + cos(pi * min(t - 3, 12) / 12)) / 2)

    def ends(m: int, w: Array, number: int) -> Array:
        before = number - 1
        rates = [rate(before if by == "round" else 3 * before + k) for k in range(3)]
        return clients.descend(m, w, drawn(problem, m, 3), rates)

    check_near(seen.run.models, averaged(problem, seen.cohorts, ends))


def test_a_clipped_gradient_is_that_of_what_the_steps_minimise(tmp_path: Path) -> None:
    problem = local(tmp_path, "logistic", BATCH)
    algorithm = {"kind": "fedprox", "step_size": 0.5, "mu": 0.7, "local_steps": 5}
    seen = told(problem, algorithm | {"clip_norm": 0.3}, tmp_path)
    clients = Clients(problem, sgd)
    check_near(
        seen.run.models,
        averaged(
            problem,
            seen.cohorts,
            lambda m, w, _: clients.descend(
                m, w, drawn(problem, m, 5), [0.5] * 5, mu=0.7, clip=0.3
            ),
        ),
    )


# -- the server ----------------------------------------------------------------------------

SERVERS: dict[str, tuple[dict[str, Any], Callable[[], Move], float]] = {
    "fedavgm": ({"kind": "fedavgm", "momentum": 0.7}, lambda: sgd(0.7), 1.0),
    "nesterov": (
        {
            "kind": "fedopt",
            "server_optimizer": {"kind": "sgd", "momentum": 0.9, "nesterov": True},
            "server_rate": 0.7,
            "optimizer": {"kind": "adamw", "epsilon": 1e-4, "weight_decay": 0.2},
        },
        lambda: sgd(0.9, nesterov=True),
        0.7,
    ),
    "adam": (
        {
            "kind": "fedopt",
            "server_optimizer": {"kind": "adam", "epsilon": 0.01},
            "server_rate": 0.05,
        },
        lambda: adam(0.9, 0.999, 0.01),
        0.05,
    ),
}


@pytest.mark.parametrize("name", SERVERS)
@pytest.mark.parametrize("schedule", [False, True], ids=["constant", "schedule"])
def test_a_server_takes_the_same_rules(name: str, schedule: bool, tmp_path: Path) -> None:
    block, make, rate = SERVERS[name]
    problem = local(tmp_path, "logistic", BATCH)
    algorithm = {"step_size": ETA, "local_steps": 4, **block}
    if schedule:
        algorithm["server_schedule"] = {"kind": "step", "every": 4, "to": 0.5}
    seen = told(problem, algorithm, tmp_path, **TWO)
    inner = RULES["adamw"][1] if name == "nesterov" else sgd
    clients, move = Clients(problem, inner), make()
    w, models = np.zeros(problem.dimension), []
    for number, cohort in enumerate(seen.cohorts):
        p, delta = shares(problem.weights, cohort), np.zeros_like(w)
        for share, m in zip(p, cohort, strict=True):
            own = clients.descend(m, w, drawn(problem, m, 4), [ETA] * 4)
            delta += share * (own - w)
        w = move(w, -delta, rate * (0.5 ** (number // 4) if schedule else 1.0))
        models.append(w)
    check_near(seen.run.models, models)


def test_fedadagrad_is_algorithm_2_without_a_mean(tmp_path: Path) -> None:
    problem = local(tmp_path, "logistic", BATCH)
    algorithm = {"kind": "fedadagrad", "step_size": ETA, "local_steps": 4, "tau": 0.01}
    seen = told(problem, algorithm, tmp_path)
    clients, w, models = Clients(problem, sgd), np.zeros(problem.dimension), []
    v = np.full_like(w, 1e-4)
    for _ in range(ROUNDS):
        delta = np.zeros_like(w)
        for m, share in enumerate(problem.weights):
            own = clients.descend(m, w, drawn(problem, m, 4), [ETA] * 4)
            delta += share * (own - w)
        v = v + delta**2
        w = w + 0.1 * delta / (np.sqrt(v) + 0.01)
        models.append(w)
    check_near(seen.run.models, models)


def test_plain_rules_are_the_steps_that_there_were(tmp_path: Path) -> None:
    """The optimizer sgd is none, and fedopt of it fedavg: the same models to the last bit."""
    problem = local(tmp_path, "logistic", BATCH)
    plain = {"kind": "fedavg", "step_size": ETA, "local_steps": 3}
    same = {
        "sgd": plain | {"optimizer": "sgd"},
        "constant": plain | {"schedule": "constant"},
        "fedopt": plain | {"kind": "fedopt"},
    }
    runs = {
        name: told(problem, block, tmp_path / name) for name, block in {"": plain, **same}.items()
    }
    for name in ("sgd", "constant"):
        assert runs[name].run.models.tobytes() == runs[""].run.models.tobytes()
        assert repr(runs[name].events) == repr(runs[""].events)  # NaN is not equal to itself
    check_near(runs["fedopt"].run.models, list(runs[""].run.models))


# -- what is charged -------------------------------------------------------------------


def work_of(seen: Any, client: int) -> list[tuple[float, float]]:
    """Return the operations and the samples of each piece of work of a client in round 1."""
    return [
        (event["operations"], event["samples"])
        for event in seen.events
        if (event["event"], event["node"], event["round"]) == ("compute", f"client-{client}", 1)
    ]


def test_an_optimizer_is_charged_on_each_value_and_step(tmp_path: Path) -> None:
    problem = local(tmp_path, "logistic", BATCH)
    plain = {"kind": "fedavg", "step_size": ETA, "local_steps": 3}
    first = work_of(told(problem, plain, tmp_path / "plain"), 2)
    for name, block, each in (
        ("adam", {"optimizer": "adam"}, 11),
        ("momentum", {"optimizer": {"kind": "sgd", "momentum": 0.9}}, 2),
        ("clip", {"clip_norm": 1.0}, 3),
    ):
        found = work_of(told(problem, plain | block, tmp_path / name), 2)
        assert found == [(operations + each * 6, samples) for operations, samples in first]


@pytest.mark.parametrize("drop", [False, True], ids=["all rows", "drop_last"])
def test_who_has_more_rows_does_more_work(drop: bool, tmp_path: Path) -> None:
    problem = local(tmp_path, "logistic", BATCH)
    algorithm = {"kind": "fedavg", "step_size": ETA, "local_epochs": 3, "drop_last": drop}
    seen = told(problem, algorithm, tmp_path)
    (whole,) = work_of(
        told(problem, {"kind": "fedavg", "step_size": ETA, "batch": None}, tmp_path / "1"), 3
    )
    for m, rows in enumerate(SIZES):
        pieces = work_of(seen, m)
        taken = rows - rows % BATCH if drop else rows
        assert len(pieces) == 3 * (rows // BATCH if drop else ceil(rows / BATCH))
        assert sum(samples for _, samples in pieces) == pytest.approx(3 * taken, rel=1e-12)
        operations = sum(operations for operations, _ in pieces)
        assert operations == pytest.approx(3 * taken * whole[0] / SIZES[3], rel=1e-12)
        method = FedAvg(step_size=ETA, batch=BATCH, local_epochs=3, drop_last=drop)
        assert method.samples_per_round(rows) == 3 * taken


# -- what is refused ---------------------------------------------------------------------


@every(
    ("wrong", "said"),
    [
        ({"local_steps": 2, "local_epochs": 2}, "got local_steps and local_epochs; give one of"),
        ({"epochs": 2, "local_epochs": 2}, "got epochs and local_epochs; give one of"),
        ({"drop_last": True}, "drop_last is for passes over the samples; give local_epochs, too"),
        ({"optimizer_state": "kept"}, "got kept, but a plain step has no state"),
        (
            {"optimizer": {"kind": "sgd"}, "optimizer_state": "kept"},
            "got kept, but the optimizer sgd has no state; give one that has, such as adam",
        ),
        ({"clip_norm": 0}, "greater than 0"),
        ({"optimizer": "rmsprop"}, "One of: sgd, adam, adamw, yogi, adagrad"),
        (
            {
                "local_epochs": 1,
                "batch": {"start": 4, "ratio": 0.5},
                "schedule": {"kind": "cosine", "over": 9, "by": "step"},
            },
            "the number of steps of a round changes with a growing batch",
        ),
    ],
)
def test_what_cannot_be_is_refused(wrong: dict[str, Any], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        FedAvg(step_size=0.1, **wrong)


@pytest.mark.parametrize(
    ("wrong", "key"),
    [
        ({"optimizer": "adam"}, "optimizer"),
        ({"schedule": {"kind": "cosine", "over": 3, "by": "step"}}, "schedule"),
    ],
)
def test_a_mean_step_is_that_of_gradient_steps(wrong: dict[str, Any], key: str) -> None:
    with pytest.raises(ValueError, match=f"{key}: got .*, but a mean step"):
        FedNova(step_size=0.1, **wrong)


def test_fednova_takes_passes_clipped_gradients_and_a_schedule(tmp_path: Path) -> None:
    problem = local(tmp_path, "logistic", BATCH)
    algorithm = {"kind": "fednova", "step_size": ETA, "local_epochs": 2, "clip_norm": 0.3}
    schedule = {"kind": "inverse-square-root", "scale": 3}
    seen = told(problem, algorithm | {"schedule": schedule}, tmp_path)
    clients, w, models = Clients(problem, sgd), np.zeros(problem.dimension), []
    for number in range(ROUNDS):
        eta, step, tau = ETA * (3 / (3 + number)) ** 0.5, np.zeros_like(w), 0.0
        for m, share in enumerate(problem.weights):
            cut = passes(problem, m, 2, drop=False)
            own = clients.descend(m, w, cut, [eta] * len(cut), clip=0.3)
            step, tau = step + share * (own - w) / len(cut), tau + share * len(cut)
        w = w + tau * step
        models.append(w)
    check_near(seen.run.models, models)


def test_theory_says_nothing_of_the_steps_of_other_rules() -> None:
    info = ProblemInfo(3, 5, lambda: 2.0, lambda: np.array([1.0, 4.0, 2.0]))
    for method in (FedAvg, FedProx, FedOpt):
        assert len(list(method(step_size=1).concerns(info))) == 1
        assert len(list(method(step_size=1, optimizer="sgd").concerns(info))) == 1
        assert list(method(step_size=1, optimizer="adam").concerns(info)) == []


def test_a_run_with_an_optimizer_reads_again_as_it_was_written(tmp_path: Path) -> None:
    problem = local(tmp_path)
    scenario = {
        "problem": problem.block,
        "algorithm": {
            "kind": "fedopt",
            "step_size": 0.1,
            "optimizer": {"kind": "adam"},
            "optimizer_state": "kept",
            "schedule": {"kind": "cosine", "over": 3},
            "server_optimizer": {"kind": "adagrad"},
        },
        "stop": {"rounds": 2},
    }
    first = fedsim.run(scenario, out=tmp_path / "a")
    (written,) = (tmp_path / "a").rglob("scenario.yaml")
    again = fedsim.run(written, out=tmp_path / "b")
    assert again.rounds["objective"].tolist() == first.rounds["objective"].tolist()
