"""Ditto, pFedMe and APFL are the loops of their papers; each client is seen at its own model."""

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from ruamel.yaml import YAML

import fedsim
from fedsim.core.ports import Array
from fedsim.core.streams import stream
from fedsim.results.record.parts import read_table
from fedsim.results.record.recorder import RunRecorder
from fedsim.scenario import load
from fedsim.scenario.building import Builder
from fedsim.sim.world import World
from tests.algorithms.local_loops import SIZES, Local, check_near, local, number, shares
from tests.conftest import ROOT

ETA, MU, ROUNDS, BATCH = 0.1, 0.7, 6, 4
TWO: dict[str, Any] = {"participation": {"kind": "uniform", "count": 2}}

pytestmark = pytest.mark.filterwarnings("ignore::fedsim.TheoryWarning")


@dataclass
class Seen:
    """What a run committed.

    Attributes:
        models: the server's, by round, shape (rounds, d).
        own: the clients', by round, shape (rounds, clients, d).
        objectives: of the rounds.
        cohorts: of the rounds.
    """

    models: Array
    own: Array
    objectives: list[float]
    cohorts: list[list[int]]


def run(problem: Local, algorithm: dict[str, Any], folder: Path, **blocks: Any) -> Seen:
    """Run a scenario in full precision, and look at the clients' own models in each round."""
    scenario = {
        "problem": problem.block,
        "algorithm": {**algorithm, "batch": problem.batch},
        "wire": {"values": "float64"},
        "stop": {"rounds": ROUNDS},
    }
    plan = load(scenario | blocks)
    job = Builder(plan).build(plan.variants[0], 1)
    setup, models, own = job.setup, list[Array](), list[Array]()
    method: Any = setup.algorithm

    def evaluate(w: Array) -> float:
        models.append(w.copy())
        own.append(np.array(list(method.models(w))))
        return setup.evaluate(w)

    with RunRecorder(folder / "run", len(job.members)) as book:
        world = World(replace(setup, evaluate=evaluate), book)
        world.close(world.run())
    models, own = models[1:], own[1:]  # without the start, as the rounds are
    cohorts: list[list[int]] = [[] for _ in models]
    for event in read_table(folder / "run", "events").to_pylist():
        if event["event"] == "sampled":
            cohorts[event["round"] - 1].append(number(event["node"]))
    everybody = list(range(len(SIZES)))
    objectives = read_table(folder / "run", "rounds")["objective"].to_pylist()[1:]
    return Seen(np.array(models), np.array(own), objectives, [c or everybody for c in cohorts])


def drawn(problem: Local, m: int) -> Callable[[Array], Array]:
    """Return the gradient of client m on its next minibatch, as a function of the model."""
    X, y = problem.parts[m]
    if problem.batch is not None and problem.batch < len(y):
        rng = problem.draws.setdefault(m, stream(problem.seed, "client", m))
        rows = rng.choice(len(y), problem.batch, replace=False, shuffle=False)
        X, y = X[rows], y[rows]
    return lambda w: problem.row_gradient(X, y, w)


class Loop:
    """The clients' own models, and the server's, round by round.

    Attributes:
        own: of the clients.
        copies: what APFL mixes its own models from.
    """

    def __init__(self, problem: Local) -> None:
        self.problem = problem
        self.own = [np.zeros(problem.dimension) for _ in SIZES]
        self.copies = [np.zeros(problem.dimension) for _ in SIZES]

    def rounds(self, cohorts: list[list[int]], share: float = 1.0) -> tuple[list[Array], Array]:
        """Return the models of the server and of the clients, w <- w + share sum p_i (w_i - w)."""
        w, models, own = np.zeros(self.problem.dimension), [], []
        for cohort in cohorts:
            p = shares(self.problem.weights, cohort)
            changes = [self.client(m, w) - w for m in cohort]
            w = w + share * np.sum([a * b for a, b in zip(p, changes, strict=True)], axis=0)
            models.append(w)
            own.append(np.array(self.own))
        return models, np.array(own)

    def client(self, m: int, w: Array) -> Array:
        """Return w_i of a client after its round."""
        raise NotImplementedError


class DittoLoop(Loop):
    """Li et al., Algorithm 1."""

    def client(self, m: int, w: Array) -> Array:
        """Three steps on w, and two on v_i."""
        sent = self.problem.descend(m, w, ETA, 3)
        for _ in range(2):
            v = self.own[m]
            self.own[m] = v - 0.2 * (drawn(self.problem, m)(v) + MU * (v - w))
        return sent


class PFedMeLoop(Loop):
    """T Dinh et al., Algorithm 1."""

    def client(self, m: int, w: Array) -> Array:
        """Two minibatches, with four steps each."""
        for _ in range(2):
            gradient, theta = drawn(self.problem, m), w
            for _ in range(4):
                theta = theta - ETA * (gradient(theta) + MU * (theta - w))
            self.own[m], w = theta, w - 0.3 * MU * (w - theta)
        return w


class APFLLoop(Loop):
    """Deng et al., Algorithm 1: v_i goes by the gradient of f_i(alpha v + (1 - alpha) w) in v."""

    def client(self, m: int, w: Array) -> Array:
        """Three steps on both."""
        alpha, v = 0.4, self.copies[m]
        for _ in range(3):
            gradient = drawn(self.problem, m)
            v, w = (
                v - ETA * alpha * gradient(alpha * v + (1 - alpha) * w),
                w - ETA * gradient(w),
            )
        self.copies[m], self.own[m] = v, alpha * v + (1 - alpha) * w
        return w


class AdaptiveLoop(Loop):
    """Deng et al., equation 10: alpha_i goes by the gradient of f_i(alpha v + (1 - alpha) w)."""

    def __init__(self, problem: Local) -> None:
        super().__init__(problem)
        self.alphas = [0.4 for _ in SIZES]

    def client(self, m: int, w: Array) -> Array:
        """Three steps on all three, each by the values before it."""
        v, alpha = self.copies[m], self.alphas[m]
        for _ in range(3):
            gradient = drawn(self.problem, m)
            slope = gradient(alpha * v + (1 - alpha) * w)
            v, w, alpha = (
                v - ETA * alpha * slope,
                w - ETA * gradient(w),
                float(np.clip(alpha - 4.0 * np.dot(v - w, slope), 0, 1)),
            )
        self.copies[m], self.alphas[m], self.own[m] = v, alpha, alpha * v + (1 - alpha) * w
        return w

    def rounds(self, cohorts: list[list[int]], share: float = 1.0) -> tuple[list[Array], Array]:
        """Return the models; the shares have moved, apart from each other."""
        found = super().rounds(cohorts, share)
        assert len({0.4, *self.alphas}) > 2
        assert all(0 <= each <= 1 for each in self.alphas)
        return found


METHODS: dict[str, tuple[dict[str, Any], type[Loop], float]] = {
    "ditto": (
        {"local_steps": 3, "personal_steps": 2, "personal_rate": 0.2, "mu": MU},
        DittoLoop,
        1.0,
    ),
    "pfedme": (
        {
            "local_steps": 2,
            "personal_steps": 4,
            "mu": MU,
            "model_rate": 0.3,
            "server_rate": 0.8,
        },
        PFedMeLoop,
        0.8,
    ),
    "apfl": ({"local_steps": 3, "alpha": 0.4}, APFLLoop, 1.0),
    "apfl, adaptive": ({"local_steps": 3, "alpha": 0.4, "alpha_rate": 4.0}, AdaptiveLoop, 1.0),
}


@pytest.mark.parametrize("kind", METHODS)
@pytest.mark.parametrize("cohort", ["all", "two"])
@pytest.mark.parametrize("batch", [None, BATCH])
def test_each_is_its_paper_s_loop(
    kind: str, cohort: str, batch: int | None, tmp_path: Path
) -> None:
    problem, (keys, loop, share) = local(tmp_path, "logistic", batch), METHODS[kind]
    algorithm = {"kind": kind.split(",", maxsplit=1)[0], "step_size": ETA, **keys}
    seen = run(problem, algorithm, tmp_path, **(TWO if cohort == "two" else {}))
    models, own = loop(problem).rounds(seen.cohorts, share)
    check_near(seen.models, models)
    check_near(seen.own.reshape(ROUNDS, -1), list(own.reshape(ROUNDS, -1)))
    for objective, each in zip(seen.objectives, own, strict=True):
        assert objective == pytest.approx(value(problem, each), rel=1e-12)


def value(problem: Local, own: Array) -> float:
    """Return the mean of the clients' logistic losses at their own models."""
    losses = [
        np.mean(np.log1p(np.exp(-y * (X @ w)))) + 0.025 * w @ w
        for (X, y), w in zip(problem.parts, own, strict=True)
    ]
    return float(problem.weights @ losses)


def test_ditto_s_global_model_is_that_of_fedavg(tmp_path: Path) -> None:
    problem, keys = local(tmp_path), {"step_size": ETA, "local_steps": 3}
    ditto = run(problem, {"kind": "ditto", **keys}, tmp_path / "ditto")
    whole = {"problem": problem.block, "wire": {"values": "float64"}, "stop": {"rounds": ROUNDS}}
    sure = fedsim.run(whole | {"algorithm": {"kind": "fedavg", **keys}}, out=tmp_path / "fedavg")
    models = [list(w) for w in ditto.models]
    assert sure.model("base", 1) == pytest.approx(models[-1], rel=1e-12)


@pytest.mark.parametrize(
    ("algorithm", "said"),
    [
        ({"kind": "ditto", "local": ["0"]}, "clients of ditto have personal models of full size"),
        ({"kind": "fedavg", "local": ["0"]}, "got 0, which leaves nothing to send"),
        ({"kind": "fedavg", "local": ["head.*"]}, "'head.*', which is the name of no part"),
        ({"kind": "fedavg", "local_first": 2}, "local_first is for what stays with clients"),
        ({"kind": "apfl", "clip_norm": 1.0}, "takes plain steps on two models together"),
        ({"kind": "pfedme", "epochs": 2}, "local_steps uses one minibatch"),
    ],
)
def test_what_cannot_be_is_refused(algorithm: dict[str, Any], said: str, tmp_path: Path) -> None:
    scenario = {"problem": local(tmp_path).block, "algorithm": {"step_size": ETA, **algorithm}}
    with pytest.raises(fedsim.ScenarioError) as found:
        fedsim.check(scenario)
    assert said in str(found.value)


PAGE = ROOT / "docs/howto/personalisation.md"


def rows_of_the_page() -> list[tuple[str, dict[str, Any], int]]:
    """Return the rows of the table of methods: name, setting, bits."""
    found = re.findall(
        r"^\| ([^|]+) \| `(\{.*\})` \| [^|]+ \| (\d+) \|$", PAGE.read_text(), re.MULTILINE
    )
    return [(name, YAML(typ="safe").load(block), int(bits)) for name, block, bits in found]


@pytest.mark.slow
def test_the_page_says_what_travels(tmp_path: Path) -> None:
    data = {"kind": "sklearn", "name": "digits"}
    problem = {"loss": {"kind": "mlp", "hidden": 32}, "data": data, "split": {"kind": "iid"}}
    rows = rows_of_the_page()
    named = [(name.lower().replace(" ", "-"), block, bits) for name, block, bits in rows]
    variants = {name: {"algorithm": {"step_size": 0.1, **block}} for name, block, _ in named}
    whole = {"problem": problem, "fleet": [{"count": 2}], "stop": {"rounds": 1}}
    (base, *_) = variants.values()
    result = fedsim.run({**whole, **base, "variants": variants}, out=tmp_path)
    seen = result.rounds.groupby("variant", observed=True)["bits_up"].sum()
    assert len(rows) == 9
    assert {name: seen[name] / 2 for name in variants} == {name: bits for name, _, bits in named}


@pytest.mark.slow
def test_the_scenario_shows_what_own_heads_gain(tmp_path: Path) -> None:
    changes = [
        "stop.rounds=4",
        "fleet.0.count=6",
        "variants={fedper: {algorithm: {local: ['output.*']}}}",
    ]
    result = fedsim.run("personal-models", overrides=changes, out=tmp_path)
    last = result.rounds.groupby("variant").last()
    assert last["objective"]["fedper"] < last["objective"]["base"]
    assert last["worst_accuracy"]["fedper"] > last["worst_accuracy"]["base"]
    assert last["bits_up"]["fedper"] < last["bits_up"]["base"]
