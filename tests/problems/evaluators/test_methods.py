"""Every method's work can be sent elsewhere, and what comes back is what would have come here."""

import pickle
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from fedsim.core.ports import Array, Work, alike
from fedsim.problems import LocalLoss
from fedsim.problems.evaluators import SerialEvaluator
from fedsim.results.record.recorder import RunRecorder
from fedsim.scenario import load
from fedsim.scenario.building import Builder
from fedsim.sim.world import World
from tests.methods import METHODS, scenario


class Elsewhere(SerialEvaluator):
    """Sends work and losses away in bytes, and has what comes back checked against its own."""

    def __init__(self, losses: Sequence[LocalLoss]) -> None:
        super().__init__(losses)
        self.other = SerialEvaluator(pickle.loads(pickle.dumps(losses)))
        self.sent = 0

    def submit(self, work: Work) -> Any:
        sent = pickle.loads(pickle.dumps(work))
        assert sent == work
        self.sent += 1
        return work, sent

    def result(self, ticket: Any) -> Array:
        work, sent = ticket
        here = super().result(work)
        assert alike(here, self.other.result(sent))
        return here

    def finite(self, ticket: Any, result: Array) -> bool:
        return super().finite(ticket[0], result)


@pytest.mark.slow
@pytest.mark.parametrize("kind", METHODS)
def test_the_work_of_a_method_can_be_sent_elsewhere(kind: str, tmp_path: Path) -> None:
    plan = load(
        {**scenario(kind), "fleet": [{"count": 3}], "stop": {"rounds": 3}},
        overrides=["problem.optimum=unknown"],
    )
    job = Builder(plan).build(plan.variants[0], plan.variants[0].seeds[0])
    evaluator = Elsewhere(job.problem.losses)
    with RunRecorder(tmp_path, len(job.members)) as book:
        world = World(replace(job.setup, evaluator=evaluator), book)
        world.close(world.run())
    assert evaluator.sent >= 3
