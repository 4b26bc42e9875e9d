"""Local steps as one piece of work: models and logs are those of steps taken one by one."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

from fedsim.algorithms import FedAvg, FedNova, FedProx
from fedsim.algorithms.asynchronous import FedAsync
from fedsim.algorithms.local_steps import stochastic_gradient
from fedsim.algorithms.local_training import LocalUpdates
from fedsim.core.ports import Array, Client
from fedsim.problems import LossOracle, Softmax, Squared
from fedsim.results.record.recorder import RunRecorder
from fedsim.scenario import load
from fedsim.scenario.building import Builder, Job
from fedsim.sim.world import World
from tests.methods import scenario
from tests.problems.examples import local, samples
from tests.works import evaluated

FICKLE: dict[str, Any] = {
    "count": 4,
    "device": {
        "kind": "pi-4",
        "speed": "1 MFLOP/s",
        "slowdown": {"kind": "lognormal", "sigma": 0.5},
    },
    "availability": {"kind": "markov", "on": "30 ms", "off": "10 ms"},
}
STEADY = {"count": 4, "device": "pi-4"}


async def one_by_one(method: LocalUpdates, client: Client, start: Array) -> Array:
    """Take every step for itself, in place of `LocalUpdates.descend`."""
    w = start
    for _ in range(method.steps(client)):
        g = await client.compute(stochastic_gradient(client, w, method.batch))
        w = w - method.eta * (g if method.pull is None else g + method.pull * (w - start))
    return w


class Averaging(FedAvg):
    descend = one_by_one


class Proximal(FedProx):
    descend = one_by_one


class Normalised(FedNova):
    descend = one_by_one


class Arriving(FedAsync):
    descend = one_by_one


def left(job: Job, algorithm: LocalUpdates, folder: Path) -> tuple[str, Array]:
    """Return the hash of the log of a run, and its models."""
    models: list[Array] = []

    def evaluate(model: Array) -> float:
        models.append(model.copy())
        return job.evaluation.value(model)

    with RunRecorder(folder, len(job.members)) as book:
        world = World(replace(job.setup, algorithm=algorithm, evaluate=evaluate), book)
        world.close(world.run())
    return book.log.sha256, np.array(models)


@pytest.mark.slow
@pytest.mark.parametrize("batch", [None, 20])
@pytest.mark.parametrize("group", [STEADY, FICKLE], ids=["steady", "fickle"])
@pytest.mark.parametrize("single", [Averaging, Proximal, Normalised, Arriving])
def test_a_run_is_that_of_steps_one_by_one_also_where_they_are_broken_off(
    single: type[LocalUpdates], group: dict[str, Any], batch: int | None, tmp_path: Path
) -> None:
    kind = single.model_fields["kind"].default
    written = {**scenario(kind), "fleet": [group], "stop": {"rounds": 20, "time": "60 s"}}
    written["algorithm"] |= {"local_steps": 5, "batch": batch}
    plan = load(written, overrides=["problem.optimum=unknown"])

    def ran(name: str, kind: type[LocalUpdates] | None) -> tuple[str, Array]:
        job = Builder(plan).build(plan.variants[0], 1)
        assert isinstance(job.algorithm, LocalUpdates)
        algorithm = kind(**job.algorithm.model_dump()) if kind else job.algorithm
        (tmp_path / name).mkdir()
        return left(job, algorithm, tmp_path / name)

    (one, models), (other, expected) = ran("whole", None), ran("single", single)
    assert len(models) > 3
    assert models.tobytes() == expected.tobytes()
    assert one == other
    events = pq.read_table(tmp_path / "whole" / "events.parquet").to_pandas()
    broken = events[(events.event == "compute") & (events.operations == 0)]
    if group is FICKLE:
        assert len(broken) > 4  # more than are under way when the run ends


@pytest.mark.parametrize("batch", [None, 7])
def test_the_kernel_takes_the_steps_of_its_definition(batch: int | None) -> None:
    f = local(Softmax(l2=0.1), samples(rows=30, features=4))
    oracle, w = LossOracle(f), np.linspace(-1, 1, f.dimension)
    drawn = oracle.draws(3, batch, np.random.default_rng(2))
    rng, v, u = np.random.default_rng(2), w, w
    for rows in drawn:
        step = oracle.minibatch(v, batch, rng)
        assert rows is None or np.array_equal(step.arguments[1], rows)
        v = v - 0.1 * evaluated(step, f)
        g = f.gradient(u) if rows is None else f.minibatch_gradient(u, rows)
        u = u - 0.1 * (g + 0.5 * (u - w))
    assert evaluated(oracle.sgd_steps(w, 0.1, drawn), f).tobytes() == v.tobytes()
    assert evaluated(oracle.sgd_steps(w, 0.1, drawn, 0.5), f).tobytes() == u.tobytes()


def test_a_piece_costs_what_a_stochastic_gradient_costs() -> None:
    oracle, w = LossOracle(local(Squared(), samples(rows=30, features=4))), np.ones(4)
    for batch in (None, 7):
        rng = np.random.default_rng(2)
        work = oracle.sgd_steps(w, 0.1, oracle.draws(3, batch, rng))
        one = oracle.minibatch(w, batch, rng)
        assert (work.pieces, work.operations, work.samples) == (3, one.operations, one.samples)


def test_steps_in_a_basis_pay_for_its_forming_together() -> None:
    f, basis = local(Squared(), samples(rows=30, features=4)), np.ones((4, 2))
    oracle, rng, c = LossOracle(f).restricted(basis), np.random.default_rng(2), np.ones(2)
    work = oracle.sgd_steps(c, 0.1, oracle.draws(4, 7, rng))
    forming = 2 * 30 * 4 * 2
    assert 4 * work.operations == pytest.approx(
        4 * oracle.minibatch(c, 7, rng).operations + forming
    )
