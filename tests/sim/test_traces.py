"""A run is a function of its input: not of the hash seed, of addresses, or of earlier runs."""

import os
import subprocess
import sys
from functools import partial
from pathlib import Path

import numpy as np

from fedsim.core.ports import SILENCE, Message, Silence
from fedsim.protocol.stopping import Stop
from fedsim.sim.client import SimClient
from tests.sim.devices import device_of
from tests.sim.radios import RadioModel

from .links import ServerLink
from .program import trace
from .worlds import Run, answered, deadline, fleet, play, rounds, setup, work

ROOT = Path(__file__).parents[2]


def start(seed: str) -> "subprocess.Popen[str]":
    """Start the program in a process of its own, under a hash seed."""
    return subprocess.Popen(
        [sys.executable, "-m", "tests.sim.program"],
        cwd=ROOT,
        env={**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def test_the_trace_is_the_same_under_three_hash_seeds() -> None:
    started = [start(seed) for seed in "012"]
    ended = [(process, process.communicate()) for process in started]
    for process, (_, errors) in ended:
        assert process.returncode == 0, errors
    traces = {output for _, (output, _) in ended}
    assert len(traces) == 1
    assert len(traces.pop().splitlines()) > 80


def test_the_trace_is_the_same_however_often_it_runs_in_one_process() -> None:
    traces = [trace() for _ in range(12)]
    assert all(one == traces[0] for one in traces)


async def moody(client: SimClient, message: Message) -> Message | Silence:
    await client.compute(work(client.rng.exponential()))
    return SILENCE if client.rng.random() < 0.3 else answered(int(client.rng.integers(8, 800)))


def random_world(seed: int, clients: int = 4) -> Run:
    radio = partial(RadioModel, 100.0, 300.0, energy_up=1e-3, base=0.1)
    members = fleet(
        *[(device_of(1.0 + n, 3.0, 1.0), radio(latency=0.01 * n)) for n in range(clients)]
    )
    link, stop = ServerLink(400.0, 500.0, 0.02), Stop(rounds=20)
    made = setup(rounds, moody, members, seed=seed, server=link, silence=deadline(4.0), stop=stop)
    return play(made)


def test_a_world_run_again_logs_the_same_bytes() -> None:
    first, again, other = random_world(7), random_world(7), random_world(8)
    assert [chunk.tobytes() for chunk in first.raw] == [chunk.tobytes() for chunk in again.raw]
    assert first.rounds == again.rounds
    assert first.rows != other.rows


def test_another_client_leaves_the_work_of_the_others_as_it_was() -> None:
    def worked(run: Run, client: int) -> list[float]:
        return [row["duration"] for row in run.of("compute", node=f"client-{client}")]

    few, more = random_world(7, clients=3), random_world(7, clients=4)
    for client in range(3):
        common = min(len(worked(few, client)), len(worked(more, client))) - 1
        assert common > 5
        np.testing.assert_allclose(worked(few, client)[:common], worked(more, client)[:common])
