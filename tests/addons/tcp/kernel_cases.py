"""Cases of messages for kernels, and what these make of them: `python -m` writes it as JSON.

Each case has links, parameters of TCP, and rounds of messages, some of which are stopped. Queues of
5 and 40 packets lose segments; messages of 7,000 segments end as streams.
"""

import json
import sys
from hashlib import sha256
from itertools import product
from typing import Any, NamedTuple

import numpy as np
import pytest

from fedsim.addons.tcp import worlds
from tests.addons.tcp.test_tcp_episodes import CLIENTS, TOPOLOGIES, Rounds, Start


class Case(NamedTuple):
    """A case.

    Attributes:
        topology: the name of the links.
        network: parameters of TCP.
        rounds: the messages of each round.
    """

    topology: str
    network: dict[str, Any]
    rounds: list[list[Start]]


def case(number: int, topology: str, stack: str, variant: str) -> Case:
    """Return a case."""
    rng = np.random.default_rng([60, number])
    sizes = [0.0, 1.0, 7.5, 60.0, 300.0, 7000.0 if number % 8 == 0 else 150.0]
    rounds = [
        [
            Start(
                client,
                float(rng.choice([0.0, 0.02, rng.uniform(0.0, 0.5)])),
                float(rng.choice(sizes)),
                str(rng.choice(["waits", "waits", "looks", "stops"])),
                float(rng.uniform(0.0, 0.5)),
            )
            for client in range(CLIENTS)
        ]
        for _ in range(2)
    ]
    queue, window = int(rng.choice([5, 40, 1000])), int(rng.choice([1, 10, 30]))
    network = {"queue": queue, "variant": variant, "stack": stack, "initial_window": window}
    return Case(topology, network, rounds)


CASES = [
    case(number, *kinds)
    for number, kinds in enumerate(
        product(sorted(TOPOLOGIES), ["linux", "ns-3"], ["cubic", "newreno"])
    )
]


def play(played: Case, compiled_from: float) -> tuple[list[Any], list[str]]:
    """Return all that is told of a case, and a hash of the words of each buffer of kernels."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(worlds, "COMPILED_FROM", compiled_from)
        made = Rounds(TOPOLOGIES[played.topology](), **played.network)
        told = [list(each) for each in made.play(played.rounds, 0.35)]
    buffers = {
        id(world): sha256(world._W.tobytes()).hexdigest()
        for world in [bearer._episodes.world for bearer in made.bearers]
        if world.compiled
    }
    return told, list(buffers.values())


if __name__ == "__main__":
    json.dump([play(each, 0.0) for each in CASES], sys.stdout)
