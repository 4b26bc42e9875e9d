"""What a scenario leaves open of how it is computed is chosen from the scenario alone."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import fedsim
from fedsim.problems import Logistic, MultilayerPerceptron, Problem, Softmax, Squared
from fedsim.results.record.folder import read_json
from fedsim.scenario import Scenario
from fedsim.scenario.building import Builder, load
from fedsim.scenario.building.load import (
    BRIEF,
    LOOKS,
    SHARE,
    ComputingLoad,
    evaluator_for,
    every_for,
)
from tests.problems.examples import samples
from tests.runs import small
from tests.tiers import every, examples

LONG_RUN = ComputingLoad(asked=10.0, update=1e8, traffic=1e8, look=1e9, rounds=1000)


def scenario(**changes: Any) -> Scenario:
    return fedsim.load(small(**changes)).variants[0].scenario


def problem(loss: Any) -> Problem:
    return Problem.of(loss, [samples(rows=6, features=3), samples(rows=6, features=3)])


class Own(Squared):
    """A loss of a user's, which may compute anything."""


def test_long_runs_of_losses_with_kernels_take_them() -> None:
    assert evaluator_for(problem(Squared()), LONG_RUN) == "compiled"
    assert evaluator_for(problem(Softmax()), LONG_RUN) == "compiled"
    assert evaluator_for(problem(MultilayerPerceptron(hidden=2)), LONG_RUN) == "compiled"


@every(
    "less",
    [
        {"asked": 1.0},  # nothing to compute at once
        {"traffic": 9e4},  # calls take as long
        {"rounds": 3},  # over before kernels are loaded
        {"compiled": False},  # of a method whose steps have no kernel
    ],
)
def test_less_is_computed_one_by_one(less: dict[str, Any]) -> None:
    assert evaluator_for(problem(Squared()), LONG_RUN._replace(**less)) == "one-by-one"


@every(
    ("loss", "change", "found"),
    [
        (Squared(), {}, "one-by-one"),
        (Logistic(), {}, "one-by-one"),
        (Softmax(), {}, "compiled"),  # whose kernels are faster on one thread
        (MultilayerPerceptron(hidden=2), {}, "compiled"),
        (Squared(), {"steps": 3.0}, "compiled"),  # minibatches, which NumPy gathers
        (Squared(), {"update": 1e5}, "compiled"),  # likewise
        (Squared(), {"asked": 16.0}, "compiled"),  # played together
    ],
)
def test_full_gradients_that_numpy_computes_as_fast_take_no_kernels(
    loss: Any, change: dict[str, Any], found: str
) -> None:
    some = ComputingLoad(asked=9.0, update=1e6, traffic=1e6, look=1e6, rounds=1000)
    assert evaluator_for(problem(loss), some._replace(**change)) == found


def test_rows_that_do_not_stay_in_the_cache_take_kernels(monkeypatch: pytest.MonkeyPatch) -> None:
    some = ComputingLoad(asked=9.0, update=1e6, traffic=1e6, look=1e6, rounds=1000)
    monkeypatch.setattr(load, "CACHED", 17)  # of 6 rows of 3 features
    assert evaluator_for(problem(Squared()), some) == "compiled"


def test_what_has_no_kernels_or_an_unknown_load_is_computed_one_by_one() -> None:
    assert evaluator_for(problem(Own()), LONG_RUN) == "one-by-one"
    assert evaluator_for(problem(Squared()), None) == "one-by-one"


sizes = st.floats(1e3, 1e12)


@examples(60)
@given(sizes, sizes, st.integers(1, 100_000))
def test_looking_costs_a_twentieth_of_the_computing_or_is_brief_or_as_rare_as_is_useful(
    update: float, look: float, rounds: int
) -> None:
    found = ComputingLoad(asked=2.0, update=update, traffic=update, look=look, rounds=rounds)
    every = every_for(scenario(), found)
    most = max(rounds // LOOKS, LOOKS)
    assert 1 <= every <= most
    if look <= BRIEF:
        assert every == 1
    elif every < most:
        assert look / every <= SHARE * 2 * update * (1 + 1e-6)
        assert every == 1 or look / (every - 1) > SHARE * 2 * update * (1 - 1e-6)


@every("stop", [{"gap": 1e-3}, {"objective": 1.0}, {"patience": {"rounds": 3}}, {"nonzeros": 3}])
def test_stop_rules_that_read_what_is_seen_have_every_round_looked_at(stop: dict[str, Any]) -> None:
    heavy = LONG_RUN._replace(look=1e12)
    assert every_for(scenario(), heavy) == 100
    written = scenario(stop=stop, measures=["sparsity"])
    assert every_for(written, heavy) == 1


def test_what_the_scenario_says_is_done() -> None:
    assert every_for(scenario(observe={"every": 7}, stop={"gap": 1e-3}), LONG_RUN) == 7


def test_the_load_is_that_of_the_clients() -> None:
    # Rows of 10 features: 40 operations a row for a gradient, and half for a value.
    plan = fedsim.load(small(participation={"kind": "uniform", "count": 2}))
    job = Builder(plan).build(plan.variants[0], 1)
    found = load.load_of(job.problem, job.algorithm, job.scenario)
    assert found is not None
    assert found.asked == 2
    assert found.update == pytest.approx(40 * job.problem.rows.mean())
    assert found.look == pytest.approx(20 * job.problem.rows.sum())
    assert found.rounds == 30


def test_passes_count_the_steps_that_clients_take_and_kernels_take_them() -> None:
    """Rows of 10 features; a step costs 8 operations for each value of the model, and its calls."""
    steps = {"kind": "fedavg", "step_size": 0.1, "batch": 7, "local_epochs": 2}
    plan = fedsim.load(small(algorithm=steps))
    job = Builder(plan).build(plan.variants[0], 1)
    assert (job.problem.rows % 7).any()
    found = load.load_of(job.problem, job.algorithm, job.scenario)
    assert found is not None
    assert found.compiled
    assert found.update == pytest.approx(80 * job.problem.rows.mean())
    taken = 2 * np.ceil(job.problem.rows / 7).mean()
    assert found.traffic == pytest.approx(found.update + (8 * 10 + load.CALLS) * taken)


def test_what_was_chosen_stands_in_the_manifest_and_what_was_seen_in_the_table(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("LONG", "LARGE", "BRIEF", "CACHED"):
        monkeypatch.setattr(load, name, 0.0)
    steps = {"kind": "fedavg", "step_size": 1e-4, "local_steps": 2}
    result = fedsim.run(small(stop={"rounds": 12}, algorithm=steps), out=tmp_path)
    computing = read_json(result.runs[0] / "manifest.json")["computing"]
    assert computing["evaluator"] == "compiled"
    every = computing["observe.every"]
    assert every == 5  # half a gradient of each client is seen, two are computed
    seen = result.rounds["round"][np.isfinite(result.rounds["objective"])]
    assert seen.tolist() == [0, 5, 10, 12]


def test_the_censoring_study_waits_for_no_compiler() -> None:
    plan = fedsim.load("censoring")
    job = Builder(plan).build(plan.variants[0], 1)
    assert (job.computing["evaluator"], job.every) == ("one-by-one", 1)
