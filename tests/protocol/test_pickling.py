"""Whatever a run keeps can be pickled in the middle of it, and goes on as if it had not been."""

import pickle
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fedsim.algorithms import Algorithm
from fedsim.core.ports import DENSE, Array, ClientId, Message, Packer, Payload, Structure
from fedsim.scenario.building import Job
from fedsim.sim.client import SimClient
from fedsim.sim.config import WorldConfig
from tests import methods
from tests.algorithms.packing import COMPRESSORS, link
from tests.protocol.bytewise import built, jobs, play, small
from tests.sim.test_packing import WIFI, fleet
from tests.tiers import some

FLICKERING = {"kind": "markov", "on": "1 s", "off": "0.3 s"}
GOING = {"fleet": fleet(WIFI | {"up": "5 kbit/s"}, availability=FLICKERING), "stop": {"rounds": 10}}
TAKE_BACK = {
    name
    for name in methods.METHODS
    if methods.the_class(name).undelivered is not Algorithm.undelivered
}


def again(thing: Any) -> Any:
    """Return what comes back from a pickle."""
    return pickle.loads(pickle.dumps(thing))


class Repacked:
    """A packer that goes through a pickle before everything it does."""

    def __init__(self, packer: Packer) -> None:
        self._packer = packer

    def pack(self, vector: Array, structure: Structure = DENSE) -> Payload:
        self._packer = again(self._packer)
        return self._packer.pack(vector, structure)

    def take_back(self, payload: Payload) -> None:
        self._packer = again(self._packer)
        self._packer.take_back(again(payload))


class Pickled:
    """A method that goes through a pickle before every message, as all clients' memories do.

    Attributes:
        lost: the messages that were taken back.
    """

    def __init__(self, method: Any) -> None:
        self._method = method
        self.lost = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._method, name)

    async def handle(self, client: SimClient, message: Message) -> Any:
        self._method, client.state = again(self._method), again(client.state)
        return await self._method.handle(client, again(message))

    def undelivered(self, client: SimClient, message: Message) -> None:
        """Take back a message; a handler may be at work on the memory, so that stays."""
        self.lost += 1
        self._method.undelivered(client, again(message))


def pickling(setup: WorldConfig) -> WorldConfig:
    """Return the same world, of which all is pickled all the time."""

    def up(client: ClientId, field: str, number: int) -> Repacked:
        return Repacked(setup.packer_up(client, field, number))

    def down(field: str, number: int) -> Repacked:
        return Repacked(setup.packer_down(field, number))

    method: Any = Pickled(setup.algorithm)
    return replace(setup, algorithm=method, packer_up=up, packer_down=down)


def check(job: Job, folder: Path) -> int:
    """Check that pickling changes nothing; return how many messages were taken back."""
    due = play(job.setup, folder / "plain")
    setup = pickling(replace(job.setup))
    came = play(setup, folder / "pickled")
    assert came.sha256 == due.sha256
    assert np.array_equal(came.models, due.models)
    method: Any = setup.algorithm
    return int(method.lost)


@pytest.mark.filterwarnings("ignore::fedsim.TheoryWarning")
@pytest.mark.parametrize("method", some(methods.METHODS, *methods.FAMILIES))
def test_methods_and_memories_can_be_pickled_in_mid_run(method: str, tmp_path: Path) -> None:
    lost = check(built(small(method) | GOING), tmp_path)
    assert lost > 0 or method not in TAKE_BACK


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::fedsim.TheoryWarning")
@pytest.mark.parametrize("kind", COMPRESSORS)
@pytest.mark.parametrize("method", ["dcgd", "marina", "fedavg"])
def test_packers_can_be_pickled_in_mid_run(method: str, kind: str, tmp_path: Path) -> None:
    """Where clients come and go, so that updates, errors and differences are taken back."""
    job = jobs(method, kind, **GOING)
    if job is None:
        pytest.skip(f"{method} takes no {kind}")
    check(job, tmp_path)


def test_an_error_that_was_kept_is_taken_back_through_a_pickle(tmp_path: Path) -> None:
    wire = {"up": link("rand-k", "ef"), "down": link("identity")}
    assert check(built(small("dcgd") | GOING | {"wire": wire}), tmp_path) > 0
