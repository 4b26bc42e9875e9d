"""The world as an algorithm sees it: interfaces of the server, a client, and a peer."""

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

import numpy as np
from typing_extensions import TypeVar

from fedsim.core.ports.messages import DENSE, Array, ClientId, Message, Payload, Reply, Structure
from fedsim.core.ports.work import Oracle, Work

Memory_co = TypeVar("Memory_co", covariant=True, default=object)
"""The type of a client's state, which the `memory` of its method returns."""


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
        """The smoothness constants w_m L_m of the clients' weighted losses, shape (M,)."""
        ...

    @property
    def weights(self) -> Array:
        """p_m, the clients' weights in the objective over their sum, shape (M,)."""
        ...

    def coefficients(self, replies: Sequence[Reply]) -> Array:
        """Return the weights with which replies x_m estimate the mean sum_m p_m x_m, shape (n,).

        They follow `participation.estimate` and the law by which the clients were drawn, and need
        not add up to 1.

        Args:
            replies: the replies, at least one.
        """
        ...

    def factors(self, replies: Sequence[Reply]) -> Array | float:
        """Return the factors of p_m with which replies estimate a sum over all clients.

        The estimate is unbiased if clients are drawn by a known law: 1/pi_m with the probability
        pi_m of a reply, which is n/M for n replies of a uniform sample of M clients.

        Args:
            replies: the replies, at least one.

        Returns:
            The factors, shape (n,), or the number M/n for all of them.
        """
        ...

    def aggregate(
        self,
        replies: Sequence[Reply],
        field: str,
        weights: Array | None = None,
        *,
        changes: bool = False,
    ) -> Array:
        """Return the weighted sum of a message field over replies, by the scenario's `aggregation`.

        By default it is sum_m c_m x_m, added up in the order of the replies, which are sorted by
        client, so that its rounding is reproducible. A method that only needs sums of replies takes
        them from here, and so works with every kind of aggregation.

        Args:
            replies: at least one.
            field: the name of the message field, x.
            weights: the factors c_m, shape (n,); 1 by default.
            changes: whether the server adds up what this returns in all rounds, because clients
                send changes of a vector that they keep.
        """
        ...

    @property
    def round(self) -> int:
        """The number of the open round, from 1."""
        ...

    def pack(
        self,
        vector: Array,
        structure: Structure = DENSE,
        field: str = "",
        to: ClientId | None = None,
    ) -> Payload:
        """Encode a vector by the scenario's downlink; `.values` are the decoded vector.

        With `error_feedback: ef21` clients may decode different vectors. If messages do not always
        go to all clients, the vector is then encoded only when it is sent, and has no `.values`
        before. A method that reads them declares it (`Algorithm.reads_sent`).

        Args:
            vector: the vector, shape (d,), or a number, shape (), which is not compressed.
            structure: the structure of the vector.
            field: the name of the vector within its message, if there are several: error feedback
                has a state for each.
            to: the receiver, if each client gets a different vector. The compressor then has random
                draws and state for each client.
        """
        ...

    async def exchange(
        self,
        message: Message | Mapping[ClientId, Message],
        *,
        to: Sequence[ClientId] | None = None,
        again: Callable[[], Message | Mapping[ClientId, Message]] | None = None,
    ) -> Sequence[Reply]:
        """Open a round: send `message` to the cohort and collect replies until the round closes.

        A round that is abandoned, or that no client answers, is not a step: it is logged as
        `abandoned`, and the request is repeated in the next round before this call returns.

        Args:
            message: the message to every client of the cohort; or one for each client, which also
                restricts the recipients to clients with a message.
            to: the recipients; by default the whole cohort.
            again: creates the message of the round after an abandoned one; by default, `message` is
                sent again. Messages that change a client's state, such as a step, need it: some
                clients may have received the first one.

        Returns:
            The replies other than beacons, by client and then by round. Silent clients have none.
            Under a deadline there may also be late replies to earlier rounds. Empty after an
            abandoned round if all clients of `to` have left for good, but others have not.
        """
        ...

    def commit(self, model: Array, **measures: float) -> None:
        """Close the round: the observer evaluates `model`, and the stop rules are applied.

        The figures of a round are those of the model that the server would return when the round
        closes: its last iterate, after this round's update, or the average if the method reports
        one. The costs of a round are all costs until then. The initial model is round 0, which the
        observer evaluates by itself.

        If a stop rule applies, the call does not return, and the run ends.

        Args:
            model: the model after this round's update, shape (d,).
            measures: more figures of the round, as columns of the round table.
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
        """The round of the message being handled, from its header."""
        ...

    @property
    def state(self) -> Memory_co:
        """The state of this client between messages, created by `Algorithm.memory`."""
        ...

    @property
    def oracle(self) -> Oracle:
        """This client's own loss."""
        ...

    @property
    def weight(self) -> float:
        """The weight w_m of this client's loss in the objective F = sum_m w_m f_m.

        If the server adds up messages, the clients multiply by it. If the server takes a weighted
        mean, the server multiplies. Among M peers the weight is M w_m: F is then the plain mean of
        the nodes' weighted losses.
        """
        ...

    @property
    def battery(self) -> float | None:
        """The state of charge in [0, 1]; None for a client on mains power."""
        ...

    def pack(self, vector: Array, structure: Structure = DENSE, field: str = "") -> Payload:
        """Encode a vector by the scenario's uplink; arguments as for `Server.pack`."""
        ...

    async def compute(self, work: Work, begun: Callable[[int], None] | None = None) -> Array:
        """Charge the work's time and energy, and return its result at its virtual finish.

        Args:
            work: the description of the computation.
            begun: called with the number of each piece, from 1, when the piece starts.
        """
        ...


Mix = Callable[[Array, Sequence[tuple[ClientId, Array]], Mapping[ClientId, float]], Array]
"""Returns a node's next vector; see `Node.mix`."""


class Node(Client, Protocol):
    """The world as seen by a peer: a client whose neighbours take the server's place."""

    @property
    def neighbours(self) -> Sequence[ClientId]:
        """The neighbours that it sends to, in order, without those that have left for good."""
        ...

    @property
    def senders(self) -> Sequence[ClientId]:
        """The neighbours that it receives from; in an undirected graph the same ones."""
        ...

    @property
    def weights(self) -> Mapping[ClientId, float]:
        """The node's row of the mixing matrix: the weights of its senders.

        If rows add up to 1, its own weight is 1 minus their sum.
        """
        ...

    @property
    def own_weight(self) -> float:
        """The node's own weight, its entry on the diagonal of the mixing matrix."""
        ...

    @property
    def mix(self) -> Mix | None:
        """The scenario's `aggregation`, which mixes vectors; None for weighted means.

        Its arguments are the node's vector, those of senders, and `weights`.
        """
        ...

    @property
    def initial(self) -> Array:
        """The initial model, which is the same at every node, shape (d,)."""
        ...

    async def exchange(self, message: Message | Mapping[ClientId, Message]) -> list[Reply]:
        """Send a message to the neighbours, and wait for theirs in the same exchange.

        The k-th exchange of a node is matched with the k-th exchanges of its neighbours. It ends
        when the messages of all available neighbours have arrived, or at the deadline of the
        scenario; later messages are dropped.

        Args:
            message: one message for all neighbours, or one each; neighbours left out receive none.

        Returns:
            The received messages, by neighbour.
        """
        ...

    def commit(self, model: Array, **measures: float) -> None:
        """Close the node's round.

        When all nodes have committed a round, the observer evaluates the mean of the nodes' models
        and their distance from it, and the stop rules are applied. If one applies, the call does
        not return.

        Args:
            model: the node's model, shape (d,).
            measures: more figures; the round table has their mean over the nodes.
        """
        ...


class PairNode(Client, Protocol):
    """The world as seen by a peer that meets its neighbours one by one, at any time.

    There are no common rounds. A node is busy from `contact` until `commit`; in this time only its
    own coroutine changes its model. A neighbour that is not busy answers an offer at once; see
    `PairwiseAlgorithm.answer`. A busy one holds the offer back until it is free, or refuses it, so
    that no deadlock arises.
    """

    model: Array
    """The node's current model, shape (d,); at first the initial model. It is replaced, never
    changed in place. Offers of other nodes may change it while this node sleeps or computes."""

    @property
    def neighbours(self) -> Sequence[ClientId]:
        """The neighbours that it may contact, in order, without those that have left for good."""
        ...

    @property
    def initial(self) -> Array:
        """The initial model, which is the same at every node, shape (d,)."""
        ...

    async def sleep(self, seconds: float) -> None:
        """Wait for some time; meanwhile the node answers offers."""
        ...

    async def contact(self, neighbour: ClientId, message: Message) -> Reply | None:
        """Send an offer to a neighbour, and wait for its answer.

        Returns:
            The answer; the node is then busy until it commits. None if the neighbour has refused or
            left, or if the deadline of the scenario has passed; the node is then free.
        """
        ...

    def commit(self, model: Array, **measures: float) -> None:
        """Count an exchange and its result, the node's new model; the node is free again.

        A round is over after as many exchanges as there are nodes left. Then the observer evaluates
        the mean of all nodes' models, and the stop rules are applied. If one applies, the call does
        not return.

        Args:
            model: the node's model, shape (d,).
            measures: more figures; the round table has their mean over the exchanges.
        """
        ...
