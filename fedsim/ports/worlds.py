"""The world as an algorithm sees it: from the server, from a client, and from one of peers."""

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

import numpy as np
from typing_extensions import TypeVar

from fedsim.ports.messages import DENSE, Array, ClientId, Message, Payload, Reply, Structure
from fedsim.ports.work import Oracle, Work

Memory_co = TypeVar("Memory_co", covariant=True, default=object)
"""What a client remembers: the type that the `memory` of its method returns."""


class Server(Protocol):
    """The world as the server's coroutine sees it."""

    @property
    def clients(self) -> Sequence[ClientId]:
        """All clients of the fleet, in order."""
        ...

    @property
    def now(self) -> float:
        """Simulated seconds since the start."""
        ...

    @property
    def rng(self) -> np.random.Generator:
        """The server's own random stream."""
        ...

    @property
    def initial(self) -> Array:
        """The initial model, shape (d,)."""
        ...

    @property
    def smoothness(self) -> Array:
        """The smoothness constants L_m of the clients' losses, shape (M,)."""
        ...

    @property
    def weights(self) -> Array:
        """The clients' shares p_m of all samples, shape (M,); they add up to 1."""
        ...

    @property
    def round(self) -> int:
        """The number of the round that is open, from 1."""
        ...

    def pack(
        self,
        vector: Array,
        structure: Structure = DENSE,
        field: str = "",
        to: ClientId | None = None,
    ) -> Payload:
        """Encode a vector as the scenario's downlink does; `.values` is what will arrive.

        Under `error_feedback: ef21` that may differ from client to client: where not all are sent
        every message, what is returned is encoded as it is sent, and has no `.values` until then.
        A method that reads them says so (`Algorithm.reads_sent`).

        Args:
            vector: shape (d,), or () for a number, which is not compressed.
            structure: what is known of it.
            field: which of a message's vectors it is, where there are several: what error
                feedback remembers, it remembers of each.
            to: the one client that it goes to, where each is told something of its own: then
                draws and memory of what compresses it are that client's.
        """
        ...

    async def exchange(
        self,
        message: Message | Mapping[ClientId, Message],
        *,
        to: Sequence[ClientId] | None = None,
        again: Callable[[], Message | Mapping[ClientId, Message]] | None = None,
    ) -> list[Reply]:
        """Open a round: send `message` to the cohort and gather until the round closes.

        A round that is given up, or that no client answers, is no step: it is logged as
        `abandoned`, and the next round asks anew before this call returns.

        Args:
            message: what every client of the cohort is told; or one for each client, and only
                clients with a message of their own are asked.
            to: the clients to ask; the whole cohort when not given.
            again: makes the message of the round after one that was abandoned; `message` is sent
                again when not given. Some clients may have received the first one, so a message
                that changes what a client holds, such as a step, needs it.

        Returns:
            The replies that carry something, by client and then by round. Silent clients are
            not in it. Under a deadline it also holds late replies to earlier rounds. Empty after an
            abandoned round where all clients of `to` have left for good, and others have not: no
            round will ever be answered by those.
        """
        ...

    def commit(self, model: Array, **measures: float) -> None:
        """Close the round: the observer evaluates `model`, the stop rules are applied.

        Where a stop rule applies the call does not return, and the run is over.

        Args:
            model: the model this round stands for, shape (d,).
            measures: further figures of the round, which become columns of the round table.
        """
        ...


class Client(Protocol[Memory_co]):
    """The world as a client's handler sees it."""

    @property
    def id(self) -> ClientId:
        """This client's number."""
        ...

    @property
    def now(self) -> float:
        """Simulated seconds since the start."""
        ...

    @property
    def rng(self) -> np.random.Generator:
        """This client's own random stream."""
        ...

    @property
    def round(self) -> int:
        """The number of the round whose message is being handled; a header carries it."""
        ...

    @property
    def state(self) -> Memory_co:
        """What this client remembers between messages: what `Algorithm.memory` returned."""
        ...

    @property
    def oracle(self) -> Oracle:
        """This client's own loss."""
        ...

    @property
    def battery(self) -> float | None:
        """The state of charge in [0, 1]; None for a client on mains."""
        ...

    def pack(self, vector: Array, structure: Structure = DENSE, field: str = "") -> Payload:
        """Encode a vector as the scenario's uplink does; arguments as for `Server.pack`."""
        ...

    async def compute(self, work: Work, begun: Callable[[int], None] | None = None) -> Array:
        """Charge the work's time and energy, and return its result at its virtual finish.

        Args:
            work: what to compute.
            begun: told the number of each of its pieces, from 1, as that begins.
        """
        ...


class Node(Client, Protocol):
    """The world as seen by a peer: a client whose neighbours take the server's place."""

    @property
    def neighbours(self) -> Sequence[ClientId]:
        """The neighbours, in order; those that are gone for good are left out."""
        ...

    @property
    def weights(self) -> Mapping[ClientId, float]:
        """Its neighbours' weights in the mixing matrix, which is symmetric; its rows add up to 1.

        Its own weight is what they leave to 1.
        """
        ...

    @property
    def initial(self) -> Array:
        """The initial model, which is the same at every node, shape (d,)."""
        ...

    async def exchange(self, message: Message | Mapping[ClientId, Message]) -> list[Reply]:
        """Tell the neighbours something, and wait for what they say in this exchange.

        The k-th exchange of a node is that of the k-th ones of its neighbours. It is over when all
        that are there have been heard, or at the deadline of the scenario; what comes later is
        dropped.

        Args:
            message: for all neighbours, or one each. Neighbours left out receive none.

        Returns:
            Their messages, by neighbour. Neighbours without a message are left out.
        """
        ...

    def commit(self, model: Array, **measures: float) -> None:
        """Close the node's round.

        Once all have committed a round, the observer evaluates the mean of its models and how far
        they are apart, and the stop rules are applied. Where one applies the call does not return.

        Args:
            model: the node's, shape (d,).
            measures: further figures; the round table has their mean over the nodes.
        """
        ...
