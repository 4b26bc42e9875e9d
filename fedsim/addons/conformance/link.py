"""A server and its clients joined by a link that delivers at once.

There is no clock, no radio, no energy and no event loop, only the method, its messages and the
protocol. So a test of an algorithm can focus on its iterates. They equal the iterates of a
simulated run in which every client replies to every message.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from fedsim.algorithms import PeerAlgorithm
from fedsim.core.blocks.spec import Spec
from fedsim.core.ports import (
    DENSE,
    SERVER,
    Array,
    ClientId,
    Message,
    Oracle,
    Payload,
    Reply,
    Structure,
    Work,
)
from fedsim.protocol.server import Post
from fedsim.protocol.stopping import RunStopped
from fedsim.protocol.transport import ClientProtocol, Envelope, Unpacking
from fedsim.scenario import load
from fedsim.scenario.building import Builder, Job
from fedsim.wire.packers import Packing

if TYPE_CHECKING:
    from fedsim.sim.config import Method

CLIENTS = 3
"""Number of clients of a scenario without a fleet."""


class EveryClientPresent:
    """A roll of clients that can always take part."""

    always_complete = True

    def obstacle(self, client: ClientId) -> str:
        """Return "": every client can take part."""
        return ""

    def sample_available(self, client: ClientId) -> bool:
        """Return True: every client is available."""
        return True


@dataclass
class LinkRecord:
    """The models and messages of a method over a link.

    Attributes:
        models: the model that the server committed in each round.
        sent: messages with a payload that clients had sent after each round.
        transmissions: messages with a payload that clients have sent.
        beacons: messages without one.
    """

    models: list[Array] = field(default_factory=list)
    sent: list[int] = field(default_factory=list)
    transmissions: int = 0
    beacons: int = 0

    def count(self, envelope: Envelope) -> None:
        """Count a message that a client has sent."""
        if envelope.payload_bits:
            self.transmissions += 1
        else:
            self.beacons += 1


class ProtocolServer(ABC):
    """Implements `fedsim.core.ports.Server` on the protocol; a subclass delivers the messages.

    Attributes:
        end: the protocol of the server.
        record: of the run.
    """

    now = 0.0

    def __init__(self, job: Job, rounds: int) -> None:
        setup = job.setup
        self.end = setup.server_protocol(EveryClientPresent(), setup.transport)
        self.clients = self.end.clients
        self.record = LinkRecord()
        self.weights, self.initial = setup.shares, setup.initial
        self.rng = setup.rng("server", 0)
        self.pack = Packing(setup.packer_down).pack
        self.aggregate = self.end.aggregator.sum
        self._setup, self._rounds = setup, rounds

    @property
    def round(self) -> int:
        """See `fedsim.core.ports.Server.round`."""
        return self.end.round

    @property
    def smoothness(self) -> Array:
        """See `fedsim.core.ports.Server.smoothness`."""
        return self._setup.smoothness()

    def coefficients(self, replies: Sequence[Reply]) -> Array:
        """See `fedsim.core.ports.Server.coefficients`."""
        return self.end.estimator.coefficients(replies, self.weights)

    def factors(self, replies: Sequence[Reply]) -> Array | float:
        """See `fedsim.core.ports.Server.factors`."""
        return self.end.estimator.factors(replies)

    def commit(self, model: Array, **_: float) -> None:
        """Record the model of a round; the last one ends the run."""
        self.record.models.append(model.copy())
        self.record.sent.append(self.record.transmissions)
        if self.end.round == self._rounds:
            raise RunStopped("rounds")
        self.end.round += 1

    async def exchange(
        self,
        message: Message | Mapping[ClientId, Message],
        *,
        to: Sequence[ClientId] | None = None,
        again: object = None,
    ) -> Sequence[Reply]:
        """See `fedsim.core.ports.Server.exchange`."""
        cohort = self.end.cohort(self.end.recipients(message, to))
        if cohort is None:
            raise AssertionError(f"round {self.round}: no client can take part")
        await self.deliver(self.end.open(message, cohort.clients))
        return self.end.replies()

    @abstractmethod
    async def deliver(self, post: Post) -> None:
        """Send messages to clients, and return when the exchange is over."""


class ProtocolClient:
    """Implements `fedsim.core.ports.Client` on the protocol; work is evaluated at once."""

    now, battery = 0.0, None

    def __init__(self, job: Job, client: ClientId) -> None:
        setup = job.setup
        packing = Packing(lambda name, number: setup.packer_up(client, name, number))
        self.end = ClientProtocol(
            client,
            packing,
            beacons=setup.silence.beacon,
            header_bits=setup.header_bits,
            transport=setup.transport,
        )
        self.id = client
        self.oracle: Oracle = setup.fleet[client].oracle
        self.state: Any = setup.algorithm.memory(setup.initial)
        self.rng: np.random.Generator = setup.rng("client", client)
        self._method: Any = setup.algorithm  # of rounds with a server: see `run_linked`
        self._evaluator = setup.evaluator

    @property
    def round(self) -> int:
        """See `fedsim.core.ports.Client.round`."""
        return self.end.round

    @property
    def weight(self) -> float:
        """See `fedsim.core.ports.Client.weight`."""
        return self.oracle.weight

    def pack(self, vector: Array, structure: Structure = DENSE, field: str = "") -> Payload:
        """See `fedsim.core.ports.Client.pack`."""
        return self.end.packing.pack(vector, structure, field)

    async def compute(self, work: Work, begun: Callable[[int], None] | None = None) -> Array:
        """See `fedsim.core.ports.Client.compute`."""
        for number in range(1, work.pieces + 1):
            if begun is not None:
                begun(number)
        return self._evaluator.result(self._evaluator.submit(work))

    async def answer(self, envelope: Envelope) -> Envelope | None:
        """Return the reply to a message that has arrived; None for silence without a beacon."""
        message = self.end.open(envelope)
        answer = self.end.answer(envelope, await self._method.handle(self, message))
        if (more := self._method.afterwards(self)) is not None:
            await more
        return answer


class DirectServer(ProtocolServer):
    """A server whose clients reply at once, in the order of their numbers."""

    def __init__(self, job: Job, rounds: int) -> None:
        super().__init__(job, rounds)
        self._ends = [ProtocolClient(job, number) for number in self.clients]
        self._read = Unpacking()
        self._read_by = [Unpacking() for _ in self.clients]

    async def deliver(self, post: Post) -> None:
        """Let each client handle its message, and receive its reply."""
        for envelope, cohort in post:
            for number in cohort:
                message = self._read_by[number].read(SERVER, envelope.message)
                reply = await self._ends[number].answer(envelope.with_message(message))
                if reply is None:
                    self.end.client_left(number)
                    continue
                self.record.count(reply)
                message = self._read.read(number, reply.message)
                self.end.receive_reply(number, reply.with_message(message))


def run_linked(
    scenario: Mapping[str, Any],
    rounds: int = 10,
    *,
    blocks: Sequence[type[Spec]] = (),
    seed: int = 1,
) -> LinkRecord:
    """Run a method for some rounds over a link that delivers at once.

    Args:
        scenario: a problem and an algorithm, as in YAML; `wire`, `participation` and `silence` are
            used as well. Without a fleet there are three clients.
        rounds: the number of rounds that the server commits.
        blocks: user-defined classes that the scenario names.
        seed: the seed of all random numbers.

    Returns:
        The models and the messages.

    Raises:
        ScenarioError: the scenario is invalid.
        ValueError: the method has no server, or an asynchronous one.
        AssertionError: the server's coroutine ends before the last round, or waits for anything
            but its exchanges.

    Example:
        >>> run_linked(scenario, rounds=4).transmissions
        12
    """
    whole = {"fleet": [{"count": CLIENTS}], **scenario, "stop": {"rounds": rounds}}
    plan = load(whole, blocks=blocks)
    job = Builder(plan).build(plan.variants[0], seed)
    method = job.algorithm
    if isinstance(method, PeerAlgorithm) or method.asynchronous:
        raise ValueError(f"a link takes a method of rounds with a server; got {method.kind!r}")
    server = DirectServer(job, rounds)
    serving = cast("Method", job.setup.algorithm).serve(server)
    try:
        serving.send(None)
    except RunStopped:
        return server.record
    except StopIteration:
        done = len(server.record.models)
        raise AssertionError(f"serve returned after {done} of {rounds} rounds") from None
    finally:
        serving.close()
    raise AssertionError("serve awaits something else than an exchange of its server")
