"""Every method with every compressor, on a problem so small that all of them can be played."""

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from fedsim.core.errors import ScenarioError
from fedsim.core.ports import Array
from fedsim.protocol.transport import Carry
from fedsim.results.record.recorder import RunRecorder
from fedsim.scenario import load
from fedsim.scenario.building import Builder, Job
from fedsim.sim.config import WorldConfig
from fedsim.sim.world import World
from tests import methods
from tests.algorithms.packing import COMPRESSORS, link

ROUNDS = 3


@dataclass(frozen=True)
class Played:
    """What a run has led to.

    Attributes:
        sha256: of its event log.
        models: of its rounds, shape (rounds, d).
    """

    sha256: str
    models: Array


FEEDBACKS = (("ef21", "ef21"), ("ef21", "none"), ("ef", "ef21"), ("none", "ef21"), ("none", "none"))
"""Up and down, the strongest first."""


def jobs(method: str, kind: str, **more: Any) -> Job | None:
    """Return a job with a compressor in both directions, or in the only one that takes it.

    With the strongest feedback that goes with them; None where neither direction takes it.
    """
    for up, down in ((kind, kind), (kind, "identity"), ("identity", kind)):
        for feedback in FEEDBACKS:
            links = {"up": link(up, feedback[0]), "down": link(down, feedback[1])}
            wire = {"values": "float32", **links}
            with suppress(ScenarioError):
                return built(small(method) | {"wire": wire} | more)
    return None


def small(method: str) -> dict[str, Any]:
    made = methods.scenario(method)
    problem = made["problem"] | {"optimum": "unknown"}
    return made | {"problem": problem, "fleet": [{"count": 3}], "stop": {"rounds": ROUNDS}}


def combinations() -> Iterator[tuple[str, str]]:
    yield from ((method, kind) for method in methods.METHODS for kind in COMPRESSORS)


def built(scenario: dict[str, Any], carry: Carry = "bytes") -> Job:
    plan = load(scenario)
    return Builder(plan, carry).build(plan.variants[0], 1)


def play(setup: WorldConfig, folder: Path) -> Played:
    """Run a world to its end, and audit it."""
    models: list[Array] = []

    def evaluate(model: Array) -> float:
        models.append(model.copy())
        return 1.0

    folder.mkdir(parents=True)
    with RunRecorder(folder, len(setup.fleet)) as book:
        world = World(replace(setup, evaluate=evaluate, measures=()), book)
        with np.errstate(over="ignore", invalid="ignore"):
            reason = world.run()
        world.close(reason)
    return Played(book.log.sha256, np.array(models))
