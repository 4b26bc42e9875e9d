"""Small worlds of peers, played by the kernel and as events: hundreds in a minute.

Times are on a grid in most of them, so that much happens at one instant. The log's digest, which
covers every row and name, the traffic, what each node has spent and the end have to be the same.
"""

from collections.abc import Sequence
from dataclasses import replace
from math import inf
from typing import Any, ClassVar
from unittest.mock import patch

import networkx as nx
import numpy as np

from fedsim.core.ports import Message, Node
from fedsim.physics.radios.channel import Framing
from fedsim.protocol.stopping import Stop
from fedsim.protocol.transport import ValueTransport
from fedsim.sim.arrays.fits import VARIABLE, why_events
from fedsim.sim.config import WorldConfig
from fedsim.sim.members import ClientConfig
from fedsim.sim.world import World

from .array_worlds import Generator, Outcome, played
from .devices import device_of
from .peers import Live, Living, overlay, peers
from .radios import RadioModel, client_of
from .worlds import NO_LOSS, Question, asked, work


class Waits(Living):
    """What its nodes do waits for messages and work alone."""

    messages: ClassVar[tuple[type[Message], ...]] = (Question,)
    in_arrays: ClassVar[bool] = True

    async def live(self, node: Any) -> None:
        """See `Living.live`."""
        await super().live(node)


def _time(rng: Generator, *grid: float) -> float:
    return float(rng.choice([*grid, rng.uniform(0.01, 3.0)]))


def _radio(rng: Generator) -> RadioModel:
    tail = rng.random() < 0.6
    return RadioModel(
        up=float(rng.choice([8.0, 64.0, 256.0, inf, rng.uniform(5, 500)])),
        down=float(rng.choice([8.0, 64.0, 256.0, rng.uniform(5, 500)])),
        latency=_time(rng, 0.125, 0.25, 0.5),
        tail_time=_time(rng, 0.5, 1.0, 2.0) if tail else 0.0,
        tail_power=1.5,
        promotion_time=_time(rng, 0.25, 0.5) if tail and rng.random() < 0.7 else 0.0,
        promotion_power=0.7,
        energy_up=1e-3,
        energy_down=3e-4,
        base=float(rng.choice([0.0, 0.3])),
        send=float(rng.choice([0.0, 2.0])),
        receive=float(rng.choice([0.0, 1.0])),
        framing=Framing(int(rng.choice([0, 2])), int(rng.choice([3, 10, 1500]))),
    )


def _fleet(rng: Generator, count: int) -> list[ClientConfig]:
    kinds = [
        client_of(device_of(1.0, active=1.0, idle=float(rng.choice([0, 1]))), _radio(rng), NO_LOSS)
        for _ in range(rng.integers(1, 4))
    ]
    return [kinds[each] for each in np.sort(rng.integers(len(kinds), size=count))]


def _graph(rng: Generator, count: int) -> "nx.Graph[int]":
    seed = int(rng.integers(1000))
    shapes: list[nx.Graph[int]] = [
        nx.cycle_graph(count),
        nx.complete_graph(count),
        nx.star_graph(count - 1),
        nx.connected_watts_strogatz_graph(max(count, 4), 3, 0.5, seed=seed),
    ]
    return shapes[int(rng.integers(len(shapes)))]


def _live(rng: Generator, count: int, rounds: int) -> Live:
    """Draw what nodes do: work, one or two exchanges, and a commit in each round."""
    sizes = rng.choice([1, 8, 64, 100], size=(rounds, count, 2)).tolist()
    times = rng.choice([0.0, 0.5, 1.0, 1.25], size=(rounds, count, int(rng.integers(3)))).tolist()
    pieces, exchanges = int(rng.choice([1, 1, 2])), int(rng.choice([1, 1, 2]))

    async def live(node: Node) -> None:
        total = np.array([float(node.id)])
        while True:
            number = (node.round - 1) % rounds
            for seconds in times[number][node.id]:
                await node.compute(work(seconds)._replace(pieces=pieces))
            for bits in sizes[number][node.id][:exchanges]:
                replies = await node.exchange(asked(bits, float(total[0])))
                total = total + sum(reply.message.load.values for reply in replies)
                total = total + node.rng.random()
            node.commit(total, seen=len(replies))

    return live


def world(number: int) -> WorldConfig:
    """Return the world of a number."""
    rng = np.random.default_rng(number)
    graph = _graph(rng, int(rng.integers(2, 9)))
    count, rounds = len(graph), int(rng.integers(1, 6))
    live = _live(rng, count, rounds)
    # By rounds no node has begun the next one; by bits some have, and messages are in transit.
    stop = {"rounds": rounds} if rng.random() < 0.5 else {"rounds": 40, "bits": "2 kbit"}
    made = peers(
        _fleet(rng, count),
        live,
        overlay(graph),
        seed=number,
        transport=ValueTransport(updates=False),
        header_bits=int(rng.choice([0, 8])),
        stop=Stop.model_validate(stop),
    )
    return replace(made, algorithm=Waits(live))


def both(number: int) -> Sequence[Outcome]:
    """Return how a world ends by the kernel, and as events."""
    assert not why_events(world(number))
    ends = []
    for how in ("arrays", "events"):
        again = AssertionError("made again")
        with (
            patch.dict("os.environ", {VARIABLE: how}),
            patch.object(World, "_start_again", side_effect=again),
        ):
            ends.append(played(world(number)))
    return ends
