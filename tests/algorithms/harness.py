"""Runs an algorithm over an ideal network and keeps every model that it commits."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from fedsim.core.ports import Array
from fedsim.results.record.recorder import RunRecorder
from fedsim.scenario import load
from fedsim.scenario.building import Builder, Job
from fedsim.sim.world import World

COUNT_ITERATES = {
    *("gd", "hb", "chb", "chb-charge", "lag", "lag-wk", "lag-ps", "dcgd", "diana", "ef21"),
    *("marina", "pp-marina", "marina-p", "signsgd", "fedsgm", "fedsgm-stale"),
}
"""Methods whose papers, and so their loops here, number the model that gradients are taken at."""


def as_in_its_paper(scenario: dict[str, Any]) -> dict[str, Any]:
    """Return a scenario that counts rounds as the loop of its method's paper does."""
    counts = scenario["algorithm"]["kind"] in COUNT_ITERATES
    return {"counting": "iterates", **scenario} if counts else scenario


@dataclass(frozen=True)
class Trajectory:
    """What a run committed.

    Attributes:
        models: one a round, without the start, shape (rounds, d).
        transmissions: in all rounds so far, shape (rounds,).
        job: what was run.
    """

    models: Array
    transmissions: Array
    job: Job


def trajectory(scenario: dict[str, Any], folder: Path) -> Trajectory:
    """Run the scenario as written under its first seed."""
    plan = load(as_in_its_paper(scenario))
    job = Builder(plan).build(plan.variants[0], plan.variants[0].seeds[0])
    models: list[Array] = []
    transmissions: list[float] = []

    def evaluate(model: Array) -> float:
        models.append(model.copy())
        transmissions.append(world.traffic.transmissions)
        return job.problem.value(model)

    with RunRecorder(folder, len(job.members)) as book:
        world = World(replace(job.setup, evaluate=evaluate), book)
        world.close(world.run())
    return Trajectory(np.array(models[1:]), np.array(transmissions[1:]), job)
