"""Small worlds of peers: a graph of neighbours, and a coroutine told in the test for every node."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import networkx as nx
import numpy as np

from fedsim.core.ports import Array, Message
from fedsim.physics.overlay import Overlay
from fedsim.sim.config import WorldConfig
from fedsim.sim.members import ClientConfig
from fedsim.sim.peers import SimNode

from .worlds import asked, setup

Live = Callable[[SimNode], Awaitable[None]]


class Living:
    """An algorithm that is one function."""

    def __init__(self, live: Live) -> None:
        self._live = live

    async def live(self, node: SimNode) -> None:
        await self._live(node)

    def memory(self, initial: Array) -> SimpleNamespace:
        return SimpleNamespace(taken_back=[])

    def start(self, initial: Array, rng: np.random.Generator) -> Array:
        return initial

    def undelivered(self, node: SimNode, message: Message) -> None:
        node.state.taken_back.append((node.now, message))


async def talk(node: SimNode) -> None:
    """Tell the neighbours something of 8 bits, commit the number of the node, for ever."""
    while True:
        await node.exchange(asked())
        node.commit(np.array([float(node.id)]))


def overlay(graph: "nx.Graph[int]") -> Overlay:
    return Overlay(tuple(tuple(sorted(graph.adj[node])) for node in range(len(graph))))


LINE = overlay(nx.path_graph(3))
RING = overlay(nx.cycle_graph(3))


def peers(
    members: Sequence[ClientConfig], live: Live = talk, neighbours: Overlay = RING, **parts: Any
) -> WorldConfig:
    """Say what a world of peers is made of."""
    made = setup(members=members, overlay=neighbours, **parts)
    return replace(made, algorithm=Living(live))
