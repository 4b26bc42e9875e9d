"""Whole methods over two ends that a link joins: it delivers at once, and nothing else runs."""

from typing import Any

import numpy as np
import pytest

import fedsim
from fedsim.building import Builder, Job
from fedsim.ports import SERVER
from fedsim.protocol.packing import Unpacking
from fedsim.protocol.server import Post
from fedsim.protocol.stopping import RunStopped
from fedsim.scenario import load
from tests import methods

from .ends import Client, Counts, Server

ROUNDS = 6


class LinkedServer(Server):
    """A server whose clients answer at once, one after the other."""

    def __init__(self, job: Job) -> None:
        super().__init__(job, ROUNDS)
        self.ends = [Client(job, number) for number in self.clients]
        self.read = Unpacking()
        self.read_by = [Unpacking() for _ in self.clients]

    async def deliver(self, post: Post) -> None:
        for envelope, cohort in post:
            for number in cohort:
                message = self.read_by[number].read(SERVER, envelope.message)
                answer = await self.ends[number].answer(envelope.saying(message))
                if answer is None:
                    self.end.gone(number)
                    continue
                self.counts.count(answer)
                message = self.read.read(number, answer.message)
                self.end.heard(number, answer.saying(message))
        assert self.end.over


def linked(scenario: dict[str, Any]) -> Counts:
    """Run a scenario's method over the link; there is no event loop anywhere."""
    plan = load(scenario)
    job = Builder(plan).build(plan.variants[0], 1)
    server = LinkedServer(job)
    with pytest.raises(RunStopped):
        job.algorithm.serve(server).send(None)
    return server.counts


SYNCHRONOUS = sorted(kind for kind in methods.METHODS if not methods.the_class(kind).asynchronous)
"""Those whose rounds close when all have answered, so that the order of arrival means nothing."""


@pytest.mark.filterwarnings("ignore::fedsim.TheoryWarning")
@pytest.mark.parametrize("kind", SYNCHRONOUS)
def test_a_method_over_the_link_is_the_simulated_one(kind: str) -> None:
    blocks = {"fleet": [{"count": 4}], "stop": {"rounds": ROUNDS}, "models": {"every": 1}}
    scenario = methods.scenario(kind) | blocks
    counts = linked(scenario)
    simulated = fedsim.run(scenario)
    models = [model.ravel() for model in simulated.models["model"]]
    assert np.array_equal(models, counts.models)
    assert simulated.rounds["transmissions"].cumsum().tolist() == counts.sent
