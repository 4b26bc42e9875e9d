"""Expected steps over all cohorts of two of three clients, for every method with estimates."""

from typing import Any, Literal

import numpy as np
import pytest

import fedsim
from fedsim.algorithms import ALGORITHMS
from fedsim.core.ports import Array
from fedsim.protocol.estimates import DrawnCohort
from fedsim.protocol.participation import WeightedParticipation
from tests.methods import FAMILIES
from tests.tiers import every

pytestmark = pytest.mark.filterwarnings("ignore::fedsim.core.errors.TheoryWarning")

ROWS = np.array([10, 15, 20])
CLIENT = np.repeat(range(3), ROWS)
RNG = np.random.default_rng(5)
FEATURES = RNG.standard_normal((45, 2))
TARGETS = FEATURES @ [1.0, -1.0] + CLIENT + 0.1 * RNG.standard_normal(45)
LOCAL: dict[str, Any] = {"step_size": 0.05, "local_steps": 2}
DUAL: dict[str, Any] = {"mu": 0.1, "gamma": 50, "local_steps": 2}


class Told(WeightedParticipation):
    """A cohort that is given, with the law of a draw by samples or of a uniform one."""

    kind: Literal["told"] = "told"  # type: ignore[assignment]
    cohort: tuple[int, ...]
    equal: bool = False

    def expected_shares(self, sizes: Array) -> Array:
        return np.full(3, 1 / 3) if self.equal else super().expected_shares(sizes)

    def draw(self, sizes: Array, available: float, rng: np.random.Generator) -> DrawnCohort:
        own = np.array(self.cohort)
        return DrawnCohort(own, self.expected_shares(sizes)[own], np.ones(len(own)))


PAIRS = [(0, 1), (0, 2), (1, 2)]
BY_SIZE = {pair: 1 - 2 * ROWS[3 - sum(pair)] / 45 for pair in PAIRS}
"""The probability of each pair: that the third client is not drawn."""
UNIFORM = dict.fromkeys(PAIRS, 1 / 3)

METHODS: dict[str, dict[str, Any]] = {
    "dcgd": {"step_size": 0.02},
    "diana": {"step_size": 0.05},
    "pp-marina": {"step_size": 0.05, "probability": 1e-9},
    "fedavg": LOCAL,
    "fedprox": {"mu": 0.1, **LOCAL},
    "fedexprox": {"mu": 0.1, "extrapolation": 1.5, **LOCAL},
    "fednova": LOCAL,
    "ditto": {"mu": 0.1, "personal_steps": 1, **LOCAL},
    "pfedme": {"mu": 0.1, "personal_steps": 1, **LOCAL},
    "apfl": LOCAL,
    "scaffold": LOCAL,
    "fedopt": LOCAL,
    "fedavgm": LOCAL,
    "diloco": LOCAL,
    "fedcom": LOCAL,
    "fed-ht": {"sparsity": 2, **LOCAL},
    "fediter-ht": {"sparsity": 2, **LOCAL},
    "fedmid": LOCAL,
    "fed-dual-avg": LOCAL,
    "fast-fedda": DUAL,
    "fedgradmp": {"sparsity": 2},
    "distributed-iht": {"step_size": 0.05, "sparsity": 2},
}
OTHERS = {
    "fedadagrad": "its step is no linear function of the mean",
    "fedadam": "the same",
    "fedyogi": "the same",
    "streaming-diloco": "a fragment a round; the mean is that of diloco",
    "c-fedda": "needs a ball; the mean is that of fast-fedda",
    "mc-fedda": "the same",
    "fedsgm": "needs a constraint",
    "fedsgm-stale": "the same",
    "fedbuff": "has no draws",
    "fedcomgate": "takes all clients",
}


def scenario(kind: str, participation: dict[str, Any], rounds: int = 3) -> dict[str, Any]:
    return {
        "name": "draws",
        "problem": {
            "loss": {"kind": "squared"},
            "data": fedsim.arrays(FEATURES, TARGETS, client=CLIENT),
            "split": {"kind": "groups"},
        },
        "algorithm": {"kind": kind, **METHODS.get(kind, {})},
        "wire": {"values": "float64"},
        "fleet": [{"count": 3, "device": "pi-4", "radio": "wifi"}],
        "stop": {"rounds": rounds},
        "models": {"every": 1},
        "participation": participation,
    }


def steps(kind: str, participation: dict[str, Any]) -> list[Array]:
    """Return the different models of a run, from zero on: those after 0, 1, ... steps."""
    result = fedsim.run(scenario(kind, participation), blocks=[Told], check=False)
    models = [np.zeros(2)]
    for model in result.models.sort_values("round")["model"]:
        if not np.array_equal(model, models[-1]):
            models.append(np.asarray(model))
    return models


def test_every_method_that_takes_estimates_is_here() -> None:
    able = set(ALGORITHMS.where(lambda each: each.combines in ("mean", "sum")))
    assert able == METHODS.keys() | OTHERS.keys()


@pytest.mark.slow
@every("kind", METHODS, few=[kind for kind in METHODS if kind in FAMILIES])
@every("draw", ["uniform", "weighted"])
def test_the_expected_step_of_a_sample_is_that_of_all(kind: str, draw: str) -> None:
    number = 2 if kind == "pp-marina" else 1  # its first round is in full
    due = steps(kind, {"kind": "full"})[number]
    chances = UNIFORM if draw == "uniform" else BY_SIZE
    found = np.zeros(2)
    for pair, chance in chances.items():
        told = {"kind": "told", "count": 2, "cohort": pair, "equal": draw == "uniform"}
        found += chance * steps(kind, told)[number]
    assert found == pytest.approx(due, rel=1e-11, abs=1e-12)


def test_power_of_choice_takes_the_plain_mean() -> None:
    """Those with the largest losses at zero are the last two clients, whatever their rows."""
    policy = {"kind": "power-of-choice", "count": 2, "candidates": 3}
    alone = []
    for m in (1, 2):
        told = {"kind": "told", "count": 1, "cohort": (m,), "estimate": "plain"}
        alone.append(steps("fedavg", told)[1])
    assert steps("fedavg", policy)[1] == pytest.approx(np.mean(alone, axis=0), rel=1e-12)


ENDS = [
    ({"kind": "uniform"}, 4 / 9),
    ({"kind": "importance", "by": "samples"}, 1 / 2),
    ({"kind": "uniform", "estimate": "unbiased"}, 1 / 2),
    ({"kind": "weighted"}, 1 / 2),
    ({"kind": "weighted", "estimate": "self-normalised"}, 2 / 3),
]


@pytest.mark.slow
@every(("participation", "due"), ENDS, few=ENDS[:2])
def test_long_runs_go_to_the_optimum_with_an_unbiased_estimate(
    participation: dict[str, Any], due: float
) -> None:
    """Minimisers 0, 0, 1 with 10, 10, 20 rows: the optimum is 1/2, and a step is linear."""
    client = np.repeat([0, 1, 2], [10, 10, 20])
    ends = fedsim.arrays(np.ones((40, 1)), (client == 2).astype(float), client=client)
    made = scenario("fedavg", {"count": 2} | participation, rounds=2000)
    made["problem"]["data"] = ends
    made["algorithm"] = {"kind": "fedavg", "step_size": 0.02}
    result = fedsim.run(made)
    models = [float(np.ravel(each)[0]) for each in result.models.sort_values("round")["model"]]
    assert np.mean(models[300:]) == pytest.approx(due, abs=0.025)
    said = [str(note) for note in result.notes if "biased" in note.text]
    assert bool(said) == (due != 1 / 2), said


@pytest.mark.parametrize("kind", ["scaffold", "diana", "pp-marina", "ef21", "gd"])
@pytest.mark.parametrize("policy", ["uniform", "weighted", "age", "importance"])
def test_methods_whose_noise_vanishes_converge_to_the_optimum(kind: str, policy: str) -> None:
    if policy == "importance" and kind in ("ef21", "gd"):
        pytest.skip("importance sampling is refused")
    made = scenario(kind, {"kind": policy, "count": 2}, rounds=500)
    keys = {"probability": 0.2} if kind == "pp-marina" else {}
    made["algorithm"] = {"kind": kind, "step_size": 0.1, **keys}
    assert fedsim.run(made, check=False).rounds["gap"].iloc[-1] < 1e-10
