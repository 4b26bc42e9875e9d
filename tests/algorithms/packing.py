"""Runs whose every vector is watched as it is packed, or goes over the wire as bytes."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from fedsim.core.ports import DENSE, Array, ClientId, Message, Packer, Payload, Reply, Structure
from fedsim.results.record.parts import read_table
from fedsim.results.record.recorder import RunRecorder
from fedsim.scenario import load
from fedsim.scenario.building import Builder, Job
from fedsim.sim.client import SimClient
from fedsim.sim.server import SimServer
from fedsim.sim.world import World
from tests.algorithms.harness import as_in_its_paper
from tests.sim.worlds import star

CLIENTS = 4
PROBLEM: dict[str, Any] = {
    "loss": {"kind": "logistic", "scale": "sum", "l2": 20.0, "labels": "plus-minus"},
    "data": {"kind": "sklearn", "name": "breast-cancer", "preprocess": ["standardise"]},
}
COMPRESSORS: dict[str, dict[str, Any]] = {
    "identity": {},
    "rand-k": {"fraction": 0.4},
    "top-k": {"fraction": 0.2},
    "threshold": {"threshold": 0.5},
    "qsgd": {},
    "natural": {},
    "terngrad": {},
    "scaled-sign": {},
    "dithered": {"bits": 4},
    "e3m0": {},
    "low-rank": {"rank": 2},
}
"""A block for every compressor."""

METHODS: dict[str, dict[str, Any]] = {
    "chb": {"censor": 0.1},
    "hb": {},
    "lag": {"censor": 0.1},
    "gd": {},
    "lag-wk": {},
    "lag-ps": {},
    "chb-charge": {"censor": 0.1},
    "dcgd": {},
    "ef21": {},
}
"""A block for every method whose clients send one vector a round, and nothing of their own."""


def link(kind: str, feedback: str = "none") -> dict[str, Any]:
    """Return a block of `wire.up` or `wire.down`."""
    return {"compressor": {"kind": kind} | COMPRESSORS[kind], "error_feedback": feedback}


def scenario(method: str = "dcgd", **blocks: Any) -> dict[str, Any]:
    """Return logistic regression on breast cancer over four clients, with blocks replaced."""
    return {
        "problem": PROBLEM,
        "algorithm": {"kind": method, "step_size": "0.1/L"} | METHODS[method],
        "fleet": [{"count": CLIENTS}],
        "stop": {"rounds": 15},
    } | blocks


class Watched:
    """A packer that notes what it packs and what it takes back."""

    def __init__(self, packer: Packer) -> None:
        self.packer: Any = packer
        self.vectors: list[Array] = []
        self.payloads: list[Payload] = []
        self.taken: list[Payload] = []

    def pack(self, vector: Array, structure: Structure = DENSE) -> Payload:
        payload: Payload = self.packer.pack(vector, structure)
        self.vectors.append(vector.copy())
        self.payloads.append(payload)
        return payload

    def take_back(self, payload: Payload) -> None:
        assert any(payload is one for one in self.payloads)
        self.taken.append(payload)
        self.packer.take_back(payload)

    @property
    def kept(self) -> list[tuple[Array, Payload]]:
        """The vectors and payloads that were not taken back."""
        gone = {id(payload) for payload in self.taken}
        pairs = zip(self.vectors, self.payloads, strict=True)
        return [(vector, payload) for vector, payload in pairs if id(payload) not in gone]


class Listening:
    """A method that notes what clients are told, and what the server is.

    Attributes:
        told: by client, the values of all that it was told, in order.
        replies: what every exchange has returned.
        world: set before it runs.
    """

    def __init__(self, method: Any) -> None:
        self._method = method
        self.told: dict[ClientId, list[Array]] = {}
        self.replies: list[Sequence[Reply]] = []
        self.world: World

    def __getattr__(self, name: str) -> Any:
        return getattr(self._method, name)

    async def handle(self, client: SimClient, message: Message) -> Any:
        heard = self.told.setdefault(client.id, [])
        heard += [payload.values for payload in message.payloads()]
        return await self._method.handle(client, message)

    async def serve(self, server: SimServer) -> None:
        await self._method.serve(_Server(server, self.replies))

    def received(self, client: ClientId) -> list[Payload]:
        """Return the payloads of a client that the server was told."""
        replies = [reply for told in self.replies for reply in told if reply.client == client]
        return [payload for reply in replies for payload in reply.message.payloads()]

    def coming(self, client: ClientId) -> list[Payload]:
        """Return those that are on their way, or wait for the next round to open."""
        lane = self.world.actors.network._up[client]
        envelopes = lane.messages()
        late = [
            reply.message
            for reply in star(self.world).server._protocol.late
            if reply.client == client
        ]
        messages = [*late, *(envelope.message for envelope in envelopes)]
        return [payload for message in messages for payload in message.payloads()]


class _Server:
    """A server whose exchanges are noted."""

    def __init__(self, server: SimServer, replies: list[Sequence[Reply]]) -> None:
        self._server, self._replies = server, replies

    def __getattr__(self, name: str) -> Any:
        return getattr(self._server, name)

    async def exchange(
        self, message: Message, *, to: Sequence[ClientId] | None = None, **more: Any
    ) -> Sequence[Reply]:
        replies = await self._server.exchange(message, to=to, **more)
        self._replies.append(replies)
        return replies


@dataclass
class Seen:
    """What a run has shown.

    Attributes:
        up, down: the packers of the clients and of the server, of the field without a name.
        models: one a round.
        coming: by client, what was on its way as the run ended.
        sha256: of the event log.
    """

    job: Job
    method: Listening
    up: dict[ClientId, Watched]
    down: Watched
    models: list[Array]
    coming: dict[ClientId, list[Payload]] = field(default_factory=dict)
    events: list[dict[str, Any]] = field(default_factory=list)
    rounds: list[dict[str, Any]] = field(default_factory=list)
    sha256: str = ""

    def of(self, event: str) -> list[dict[str, Any]]:
        return [row for row in self.events if row["event"] == event]


def run(blocks: dict[str, Any], folder: Path, *, bytewise: bool = False, seed: int = 1) -> Seen:
    """Run a scenario to its end, and audit it."""
    plan = load(as_in_its_paper(blocks))
    job = Builder(plan, "bytes" if bytewise else "values").build(plan.variants[0], seed)
    setup, up = job.setup, dict[ClientId, Watched]()

    def packer_up(client: ClientId, field: str, number: int) -> Watched:
        made = Watched(setup.packer_up(client, field, number))
        return made if field else up.setdefault(client, made)

    def packer_down(field: str, number: int) -> Watched:
        return Watched(setup.packer_down(field, number)) if field else seen.down

    seen = Seen(job, Listening(setup.algorithm), up, Watched(setup.packer_down("", 0)), [])

    def evaluate(model: Array) -> float:
        seen.models.append(model.copy())
        return job.problem.value(model)

    folder.mkdir(exist_ok=True)
    parts: dict[str, Any] = {"algorithm": seen.method, "evaluate": evaluate}
    made = replace(setup, packer_up=packer_up, packer_down=packer_down, **parts)
    with RunRecorder(folder, len(job.members), seed=seed) as book:
        world = seen.method.world = World(made, book)
        with np.errstate(over="ignore", invalid="ignore"):
            reason = world.run()
        seen.coming = {client: seen.method.coming(client) for client in up}
        world.close(reason)
    seen.events = read_table(folder, "events").to_pylist()
    seen.models = seen.models[1:]  # without the start, as the rounds are
    seen.rounds = read_table(folder, "rounds").to_pylist()[1:]
    seen.sha256 = book.log.sha256
    return seen
