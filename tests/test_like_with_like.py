"""Methods that are equal by theory are equal in every column that their round tables share.

Drawn problems have clients with unequal numbers of rows. A step alpha on the objective F = sum_m
w_m f_m is a step alpha W on the clients' losses for a method that takes a mean, with W the sum of
the w_m.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

import fedsim
from fedsim.core.ports import Array
from fedsim.results.result import Result
from tests.tiers import examples

ROUNDS = 6
BETA = 0.5
GATEWAYS = {"count": 2, "device": "pi-4", "radio": "wifi", "wire": {"values": "float64"}}
COSTS = ["t", "joules", "bits_up", "bits_down", "transmissions", "beacons", "cohort"]
MODEL = ["objective", "gap", "train_accuracy", "gradient_norm"]


@dataclass(frozen=True, eq=False)
class Drawn:
    """A problem of drawn rows.

    Attributes:
        X, y, client: its rows.
        scale: of the loss.
        weights: as given; None where left out.
    """

    X: Array
    y: Array
    client: NDArray[np.int64]
    scale: str
    weights: str | None

    @property
    def rule(self) -> str:
        """The weights that are in force."""
        return self.weights or ("rows" if self.scale == "mean" else "sum")

    @property
    def clients(self) -> int:
        """M."""
        return int(self.client.max()) + 1

    @property
    def coefficients(self) -> Array:
        """The w_m of F."""
        rows, count = np.bincount(self.client), self.clients
        each = {
            "rows": rows / rows.sum(),
            "equal": np.full(count, 1 / count),
            "sum": np.ones(count),
        }
        return np.asarray(each[self.rule])

    @property
    def total(self) -> float:
        """W, the sum of the w_m."""
        return float(self.clients) if self.rule == "sum" else 1.0

    @property
    def block(self) -> dict[str, Any]:
        """The `problem` of a scenario."""
        return {
            "loss": {"kind": "logistic", "labels": "plus-minus", "l2": 0.05, "scale": self.scale},
            "data": fedsim.arrays(self.X, self.y, client=self.client),
            "split": {"kind": "groups"},
            **({} if self.weights is None else {"weights": self.weights}),
        }

    def objective(self, w: Array) -> float:
        """F at a model, by its formula."""
        losses = []
        for m in range(self.clients):
            own = self.client == m
            values = np.logaddexp(0, -self.y[own] * (self.X[own] @ w))
            share = values.sum() / len(self.y)
            total = {"mean": values.mean(), "sum": values.sum(), "share": share}[self.scale]
            losses.append(total + 0.025 * w @ w)
        return float(self.coefficients @ losses)


@st.composite
def problems(draw: st.DrawFn) -> Drawn:
    """Draw the rows of a problem, its loss and its weights."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    rows = draw(st.lists(st.integers(3, 25), min_size=3, max_size=5))
    client = np.repeat(np.arange(len(rows), dtype=np.int64), rows)
    X = rng.normal(size=(len(client), 4)) + 0.3 * client[:, None]
    y = np.where(X @ rng.normal(size=4) + rng.normal(size=len(client)) > 0, 1.0, -1.0)
    scale = draw(st.sampled_from(["mean", "sum", "share"]))
    return Drawn(X, y, client, scale, draw(st.sampled_from(["rows", "equal", "sum", None])))


def study(problem: Drawn, methods: dict[str, Any], **more: Any) -> Result:
    """Run each method on the same fleet."""
    first = next(iter(methods.values()))
    scenario = {
        "name": "like with like",
        "problem": problem.block,
        "algorithm": first,
        "wire": {"values": "float64"},
        "fleet": [
            {"count": 2, "device": "phone-mid", "radio": "lte"},
            {"count": problem.clients - 2, "device": "pi-4", "radio": "wifi"},
        ],
        "measures": ["train_accuracy", "gradient_norm"],
        "stop": {"rounds": ROUNDS},
        "variants": {name: {"algorithm": method} for name, method in methods.items()},
        **more,
    }
    return fedsim.run(scenario)


def check_equal(result: Result, names: list[str], columns: list[str]) -> None:
    """Hold the tables of some variants to that of the first one."""
    tables = dict(list(result.rounds.groupby("variant", observed=True)))
    expected = tables[names[0]][columns].to_numpy(dtype=float)
    for name in names[1:]:
        found = tables[name][columns].to_numpy(dtype=float)
        assert found == pytest.approx(expected, rel=1e-10, abs=1e-12, nan_ok=True), name


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::fedsim.TheoryWarning")
@examples(40, few=4)
@given(problem=problems(), share=st.floats(0.1, 1.0))
def test_of_one_full_step_every_method_is_gradient_descent(problem: Drawn, share: float) -> None:
    step = {"step_size": f"{share}/L"}  # of F for those that add up, of F/W for those of means
    one = {**step, "local_steps": 1}
    same = {
        "gd": {"kind": "gd", **step},
        "dcgd": {"kind": "dcgd", **step},
        "lag": {"kind": "lag", "censor": 0, **step},
        "fedavg": {"kind": "fedavg", **one},
        "fedprox": {"kind": "fedprox", "mu": 0.3, **one},
        "fedopt": {"kind": "fedopt", "server_optimizer": {"kind": "sgd"}, **one},
        "fedcom": {"kind": "fedcom", **one},
        "ef21": {"kind": "ef21", **step},
        "diana": {"kind": "diana", **step},
        "marina": {"kind": "marina", **step},
        "marina-p": {"kind": "marina-p", **step},
        "pp-marina": {"kind": "pp-marina", "probability": 1, **step},
    }
    others = {
        "scaffold": {"kind": "scaffold", **one},
        "fednova": {"kind": "fednova", **one},
    }
    result = study(problem, same | others)
    check_equal(result, [*same], COSTS + MODEL)
    check_equal(result, ["gd", *others], MODEL)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::fedsim.TheoryWarning")
@pytest.mark.parametrize("draw", ["uniform", "weighted"])
@examples(40, few=4)
@given(problem=problems(), share=st.floats(0.1, 1.0))
def test_of_a_sample_unbiased_estimates_are_the_same_step(
    draw: str, problem: Drawn, share: float
) -> None:
    step = {"step_size": f"{share}/L"}
    one = {**step, "local_steps": 1}
    same = {
        "dcgd": {"kind": "dcgd", **step},
        "fedavg": {"kind": "fedavg", **one},
        "fedprox": {"kind": "fedprox", "mu": 0.3, **one},
        "fedopt": {"kind": "fedopt", "server_optimizer": {"kind": "sgd"}, **one},
        "fedcom": {"kind": "fedcom", **one},
    }
    participation = {"kind": draw, "count": 2, "estimate": "unbiased"}
    result = study(problem, same, participation=participation)
    check_equal(result, [*same], COSTS + MODEL)
    moved = {
        "dcgd": {"kind": "dcgd", "momentum": BETA, **step},
        "fedavgm": {"kind": "fedavgm", "momentum": BETA, **one},
    }
    check_equal(study(problem, moved, participation=participation), [*moved], COSTS + MODEL)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::fedsim.TheoryWarning")
@examples(40, few=4)
@given(problem=problems(), share=st.floats(0.1, 1.0))
def test_with_momentum_every_method_is_heavy_ball(problem: Drawn, share: float) -> None:
    step = {"step_size": f"{share}/L"}
    same = {
        "hb": {"kind": "hb", "momentum": BETA, **step},
        "chb": {"kind": "chb", "momentum": BETA, "censor": 0, **step},
        "dcgd": {"kind": "dcgd", "momentum": BETA, **step},
        "diana": {"kind": "diana", "momentum": BETA, **step},
        "fedavgm": {"kind": "fedavgm", "momentum": BETA, "local_steps": 1, **step},
    }
    check_equal(study(problem, same), [*same], COSTS + MODEL)


@pytest.mark.filterwarnings("ignore::fedsim.TheoryWarning")
@examples(20, few=4)
@given(problem=problems(), share=st.floats(0.1, 1.0))
def test_a_step_is_a_number_on_what_the_method_steps_on(problem: Drawn, share: float) -> None:
    """alpha on F is alpha W on the clients' losses."""
    alpha = share / (30 * problem.total)
    same = {
        "gd": {"kind": "gd", "step_size": alpha},
        "fedavg": {
            "kind": "fedavg",
            "step_size": alpha * problem.total,
            "local_steps": 1,
        },
    }
    check_equal(study(problem, same), [*same], COSTS + MODEL)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::fedsim.TheoryWarning")
@examples(20, few=4)
@given(problem=problems())
def test_peers_on_a_complete_graph_and_gateways_of_one_round_are_gradient_descent(
    problem: Drawn,
) -> None:
    """Their messages differ by nature; objective, gap and measures do not."""
    W = problem.total
    alpha = 1 / (30 * W)
    star = study(problem, {"fedavg": {"kind": "fedavg", "step_size": alpha * W, "local_steps": 1}})
    peers = study(
        problem,
        {"dfedavg": {"kind": "dfedavg", "step_size": alpha, "local_steps": 1}},
        network={"peers": {"kind": "complete"}},
    )
    tiers = study(
        problem,
        {"fedavg": {"kind": "fedavg", "step_size": alpha * W, "local_steps": 1}},
        tiers=[{**GATEWAYS, "rounds": 1}],
    )
    expected = star.rounds[MODEL].to_numpy(dtype=float)
    for other in (peers, tiers):
        found = other.rounds[MODEL].to_numpy(dtype=float)
        assert found == pytest.approx(expected, rel=1e-10, abs=1e-12)


@pytest.mark.filterwarnings("ignore::fedsim.TheoryWarning")
@examples(20, few=4)
@given(problem=problems())
def test_the_table_has_the_objective_of_the_problem(problem: Drawn) -> None:
    methods = {
        "gd": {"kind": "gd", "step_size": "1/L"},
        "fedavg": {"kind": "fedavg", "step_size": "0.5/L_max", "local_steps": 3},
    }
    result = study(problem, methods, models={"every": 1})
    objectives = result.rounds.set_index(["variant", "round"])["objective"].to_dict()
    for row in result.models.to_dict("records"):
        expected = problem.objective(np.ravel(np.asarray(row["model"])))
        found = objectives[row["variant"], row["round"]]
        assert found == pytest.approx(expected, rel=1e-10)
    optima = result.summary["reference.value"].astype(float)
    assert optima.iloc[0] == pytest.approx(optima.iloc[1], rel=1e-9)


def test_iterates_are_the_models_of_one_round_before() -> None:
    rng = np.random.default_rng(3)
    X, client = rng.normal(size=(30, 3)), np.repeat([0, 1, 2], [5, 10, 15])
    problem = {
        "loss": {"kind": "squared", "l2": 0.1},
        "data": fedsim.arrays(X, X @ np.ones(3), client=client),
        "split": {"kind": "groups"},
    }
    scenario = {
        "problem": problem,
        "algorithm": {"kind": "gd", "step_size": "0.3/L"},
        "wire": {"values": "float64"},
        "stop": {"rounds": 6},
        "variants": {
            f"{kind}-{count}": {
                "algorithm": {"kind": kind, "step_size": "0.3/L"},
                "counting": count,
            }
            for kind in ("gd", "fedavg")
            for count in ("rounds", "iterates")
        },
    }
    rounds = fedsim.run(scenario).rounds
    for kind in ("gd", "fedavg"):
        held, before = (
            rounds.loc[rounds["variant"] == f"{kind}-{count}", "objective"].to_numpy()
            for count in ("rounds", "iterates")
        )
        assert before[0] == before[1] == held[0]
        assert before[1:].tolist() == held[:-1].tolist()
