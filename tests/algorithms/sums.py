"""What compressed methods are checked with: compressors by client, and a server's running sum."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fedsim
from fedsim.core.ports import Array, ClientId, Message, Reply
from fedsim.core.streams import stream
from fedsim.results.record.recorder import RunRecorder
from fedsim.scenario import load
from fedsim.scenario.building import Builder
from fedsim.sim.server import SimServer
from fedsim.sim.world import World
from fedsim.wire import RandK, ValueFormat
from tests.algorithms.local_loops import SIZES, Local, Told, number
from tests.sim.worlds import star

Compress = Callable[[Array], Array]
KEPT = 2

FULL: dict[str, Any] = {"values": "float64"}
TOP: dict[str, Any] = FULL | {"up": {"compressor": {"kind": "top-k", "count": KEPT}}}
RANDOM: dict[str, Any] = FULL | {"up": {"compressor": {"kind": "rand-k", "count": KEPT}}}
LOSSY: dict[str, Any] = {
    "fleet": [
        {
            "count": len(SIZES),
            "device": "pi-4",
            "radio": {
                "kind": "wifi",
                "tries": 1,
                "loss": {"kind": "independent", "rate": "30 %"},
            },
        }
    ],
    "participation": {"kind": "full", "deadline": "5 s"},
}


def tardy(**radio: Any) -> dict[str, Any]:
    """Return a fleet whose last two clients answer a round or more late."""
    groups = ((3, "1 ms"), (len(SIZES) - 3, "40 ms"))
    return {
        "fleet": [
            {"count": n, "device": "pi-4", "radio": {"kind": "wifi", "latency": latency} | radio}
            for n, latency in groups
        ],
        "participation": {"kind": "full", "deadline": "60 ms"},
    }


TARDY = tardy()
"""In round 1, radios asleep, all answer late."""

NETWORKS: dict[str, dict[str, Any]] = {
    "lost": LOSSY,
    "lost, or all late": LOSSY | {"participation": {"kind": "full", "deadline": "6 ms"}},
    "lost, or some late": tardy(tries=1, loss={"kind": "independent", "rate": "30 %"}),
    "given up": LOSSY | {"participation": {"kind": "full", "quorum": "60 %", "give_up": "1 s"}},
}
"""What a running sum has to survive."""


def top(v: Array) -> Array:
    """Return the two coordinates of largest magnitude."""
    kept = np.argsort(-np.abs(v), kind="stable")[:KEPT]
    c = np.zeros_like(v)
    c[kept] = v[kept]
    return c


def random(seed: int = 1) -> list[Compress]:
    """Return rand-k for each client, on the stream that the client compresses with."""

    def compress(m: int) -> Compress:
        rng, spec = stream(seed, "compressor", m), RandK(count=KEPT)
        return lambda v: spec.compress(v, rng, ValueFormat.FLOAT64).values

    return [compress(m) for m in range(len(SIZES))]


def gaps(
    problem: Local, algorithm: dict[str, Any], wire: dict[str, Any], rounds: int, **blocks: Any
) -> Array:
    """Return how far from the optimum every round of a run was."""
    scenario = {"problem": problem.block, "algorithm": algorithm, "wire": wire}
    result = fedsim.run(scenario | {"stop": {"rounds": rounds}} | blocks)
    return result.rounds["gap"].to_numpy(dtype=np.float64)


def in_time(seen: Told, message: str) -> list[list[int]]:
    """Return who was heard before the exchange had closed, by round."""
    heard: list[list[int]] = [[] for _ in seen.run.models]
    for row in seen.events:
        if row["message"] != message:
            continue
        if (row["event"], row["node"]) == ("receive", "server"):
            heard[row["round"] - 1].append(number(row["peer"]))
        if row["event"] == "late":
            heard[row["round"] - 1].remove(number(row["node"]))
    return [sorted(each) for each in heard]


@dataclass(frozen=True)
class Exchange:
    """One exchange of a watched server.

    Attributes:
        said: its message.
        before, after: the sum of all that it was told, as the exchange began and ended.
        fresh: what answers to this very message added to the sum.
        answers: how many these were.
        heard: how many replies there were, late ones with them.
    """

    said: Any
    before: Any
    after: Any
    fresh: Any
    answers: int
    heard: int


class Watched:
    """A method whose server's running sum is added up beside it.

    Args:
        method: configured.
        held: what a client's memory amounts to, once it hears the next message.
        told: what a message to the server adds to that.

    Attributes:
        exchanges: what was said and heard, one after the other.
        errors: how far sum_i p_i held_i was from what the server was told and from what was on
            its way, as each exchange began.
        coming: how many messages were.
        short: how many replies were missing.
    """

    def __init__(
        self,
        method: Any,
        held: Callable[[Any, Message], Array],
        told: Callable[[Any], Array | float],
    ) -> None:
        self._method, self._held, self._told = method, held, told
        self._total: Any = 0.0
        self.world: Any = None
        self.exchanges: list[Exchange] = []
        self.errors: list[float] = []
        self.coming: list[int] = []
        self.short = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._method, name)

    async def serve(self, server: SimServer) -> None:
        await self._method.serve(_Server(server, self))

    def look(self, server: SimServer, message: Message) -> None:
        """Compare both ends."""
        clients = star(self.world).clients.in_order()  # the others hold nothing yet
        shares = [(server.weights[client.id], client.state) for client in clients]
        held = sum((p * self._held(each, message) for p, each in shares), start=0.0)
        coming = [(reply.client, reply.message) for reply in server._protocol.late]
        for lane in self.world.actors.network._up.in_order():
            waiting = lane.messages()
            coming += [(lane.client, envelope.message) for envelope in waiting]
        way = sum((server.weights[client] * self._told(said) for client, said in coming), start=0.0)
        self.coming.append(len(coming))
        self.errors.append(float(np.abs(held - way - self._total).max()))

    def take(self, server: SimServer, message: Message, replies: Sequence[Reply]) -> None:
        """Add what was told."""
        self.short += len(server.clients) - len(replies)
        before, fresh, answers = self._total, 0.0, 0
        for client, answered, reply in replies:
            share = server.weights[client] * self._told(reply)
            self._total = self._total + share
            if answered == server.round:
                fresh, answers = fresh + share, answers + 1
        counted = (before, self._total, fresh, answers, len(replies))
        self.exchanges.append(Exchange(message, *counted))

    def check_lateness(self, network: str) -> None:
        """See that the network, one of `NETWORKS`, has done what it is for."""
        late = [exchange.heard - exchange.answers for exchange in self.exchanges]
        mixed = [exchange.heard > exchange.answers > 0 for exchange in self.exchanges]
        assert (sum(late) > 60) == (network != "lost")
        assert (sum(mixed) > 30) == (network == "lost, or some late") or network == "given up"
        if network == "given up":
            assert 10 < len(self.exchanges) < 60  # of 80 rounds; in the others too few were heard
            return
        assert max(self.coming) > (-1 if network == "lost" else 1)
        assert self.short > 60

    def check_steps(self, gamma: float, direction: Callable[[Exchange], Array | float]) -> None:
        """Compare the server's own steps, w <- w - gamma direction."""
        for now, then in pairwise(self.exchanges):
            expected = now.said.w.values - gamma * direction(now)
            assert then.said.w.values == pytest.approx(expected, rel=1e-10, abs=1e-12)


class _Server:
    def __init__(self, server: SimServer, watched: Watched) -> None:
        self._server, self._watched = server, watched

    def __getattr__(self, name: str) -> Any:
        return getattr(self._server, name)

    async def exchange(
        self, message: Message, *, to: Sequence[ClientId] | None = None, **more: Any
    ) -> Sequence[Reply]:
        self._watched.look(self._server, message)
        replies = await self._server.exchange(message, to=to, **more)
        self._watched.take(self._server, message, replies)
        return replies


def watched(
    scenario: dict[str, Any],
    folder: Path,
    held: Callable[[Any, Message], Array],
    told: Callable[[Any], Array | float],
) -> Watched:
    """Run a scenario with its method watched."""
    plan = load({"stop": {"rounds": 80}} | scenario)
    job = Builder(plan).build(plan.variants[0], 1)
    seen = Watched(job.setup.algorithm, held, told)
    with RunRecorder(folder, len(job.members)) as book:
        seen.world = World(replace(job.setup, algorithm=seen), book)
        seen.world.close(seen.world.run())
    return seen
