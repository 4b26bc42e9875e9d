"""Two ends of the protocol as the ports of a method, for feeders that are no simulation.

What feeds them is told by what they are given: how messages travel. There is no simulated time.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from fedsim.building import Job
from fedsim.ports import DENSE, Array, ClientId, Message, Oracle, Payload, Reply, Structure, Work
from fedsim.protocol.client import ClientEnd
from fedsim.protocol.envelope import Envelope
from fedsim.protocol.packing import Packing
from fedsim.protocol.selection import Selection
from fedsim.protocol.server import Post, ServerEnd
from fedsim.protocol.stopping import RunStopped
from fedsim.sim.setup import Setup


class Everybody:
    """A roll of those who can always take part."""

    always_complete = True

    def obstacle(self, client: ClientId) -> str:
        return ""

    def turns_up(self, client: ClientId) -> bool:
        return True


def server_end(setup: Setup) -> ServerEnd:
    """Return the server's end of what a world is made of."""
    clients, policy = range(len(setup.fleet)), setup.participation
    selection = Selection(policy, Everybody(), clients, setup.rng("cohort", 0), setup.samples)
    silence, header = setup.silence, setup.header_bits
    return ServerEnd(clients, selection, policy, silence, header, setup.carriage)


@dataclass
class Counts:
    """What a run has left.

    Attributes:
        models: one a round.
        sent: messages with a payload that clients have sent, after each round.
        transmissions, beacons: so far.
    """

    models: list[Array] = field(default_factory=list)
    sent: list[int] = field(default_factory=list)
    transmissions: int = 0
    beacons: int = 0

    def count(self, envelope: Envelope) -> None:
        if envelope.payload_bits:
            self.transmissions += 1
        else:
            self.beacons += 1


class Server(ABC):
    """Implements `fedsim.ports.Server` on a server's end; a feeder says how messages travel."""

    now = 0.0

    def __init__(self, job: Job, rounds: int) -> None:
        setup = job.setup
        self.end = server_end(setup)
        self.counts = Counts()
        self.clients: Sequence[ClientId] = self.end.clients
        self.weights, self.initial = setup.shares, setup.initial
        self.rng = setup.rng("server", 0)
        self.pack = Packing(setup.packer_down).pack
        self._setup, self._rounds = setup, rounds

    @property
    def round(self) -> int:
        return self.end.round

    @property
    def smoothness(self) -> Array:
        return self._setup.smoothness()

    def commit(self, model: Array, **_: float) -> None:
        self.counts.models.append(model.copy())
        self.counts.sent.append(self.counts.transmissions)
        if self.end.round == self._rounds:
            raise RunStopped("rounds")
        self.end.round += 1

    async def exchange(
        self,
        message: Message | Mapping[ClientId, Message],
        *,
        to: Sequence[ClientId] | None = None,
        again: object = None,
    ) -> list[Reply]:
        cohort = self.end.cohort(self.end.addressed(message, to))
        assert cohort is not None
        await self.deliver(self.end.open(message, cohort.clients))
        return self.end.replies()

    @abstractmethod
    async def deliver(self, post: Post) -> None:
        """Send, and wait until the exchange is over."""


class Client:
    """Implements `fedsim.ports.Client` on a client's end."""

    now, battery = 0.0, None

    def __init__(self, job: Job, client: ClientId) -> None:
        setup = job.setup
        packing = Packing(lambda name, number: setup.packer_up(client, name, number))
        self.end = ClientEnd(
            client,
            packing,
            beacons=setup.silence.beacon,
            header_bits=setup.header_bits,
            carriage=setup.carriage,
        )
        self.id = client
        self.oracle: Oracle = setup.fleet[client].oracle
        self.state: Any = setup.algorithm.memory(setup.initial)
        self.rng: np.random.Generator = setup.rng("client", client)
        self._method, self._evaluator = job.algorithm, setup.evaluator

    @property
    def round(self) -> int:
        return self.end.round

    def pack(self, vector: Array, structure: Structure = DENSE, field: str = "") -> Payload:
        return self.end.packing.pack(vector, structure, field)

    async def compute(self, work: Work, begun: Callable[[int], None] | None = None) -> Array:
        for number in range(1, work.pieces + 1):
            if begun is not None:
                begun(number)
        return self._evaluator.result(self._evaluator.submit(work))

    async def answer(self, envelope: Envelope) -> Envelope | None:
        """Return what is sent in answer to an envelope that has arrived."""
        message = self.end.open(envelope)
        return self.end.answer(envelope, await self._method.handle(self, message))
