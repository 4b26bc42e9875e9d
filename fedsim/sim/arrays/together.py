"""Handlers of similar clients, run once for all of them.

A method that declares `handles_rows` computes elementwise, from the message and the client's loss
alone. One run of its handler then replaces n runs: vectors (d,) that differ between clients become
the rows of an array (n, d). `ClientGroup` is the client that such a run sees.
"""

from collections.abc import Callable, Coroutine, Generator, Iterable, Iterator, Sequence
from math import inf
from types import coroutine
from typing import Any, NamedTuple, NoReturn

import numpy as np
from numpy.typing import NDArray

from fedsim.core.ports import DENSE, Array, ClientId, Message, Oracle, Structure, Work
from fedsim.core.streams import EntityStreams, StreamGroup
from fedsim.problems.evaluators.serial import GroupEvaluator
from fedsim.protocol.transport import ClientProtocol, Envelope
from fedsim.protocol.wrapping import Wrapper
from fedsim.sim.arrays.classes import Ids
from fedsim.sim.arrays.order import Numbers, ReactionError
from fedsim.sim.config import WorldConfig
from fedsim.wire.packers import Packing, Plain
from fedsim.wire.replies import ReplyColumns

_NUMBERS = 2**22
"""Largest number of coordinates of all models of a group, which bounds its memory."""

_KEPT = 100
"""Up to this many stateless groups are kept from one round to the next."""


Piece = tuple[Work, bool]
"""Work of each client with all its pieces; and whether the evaluator batches it with other work
that begins at the same instant, if its first piece takes no time."""


class NotAlikeError(Exception):
    """The clients differ in something that the handler uses: they are handled one by one."""


class ReplyRows(NamedTuple):
    """The replies of the clients of a cohort that were handled together.

    Attributes:
        senders: indices of the clients of the cohort that send a message or a beacon.
        groups: the indices of each group in the cohort, and the message with the group's rows.
        silent: which clients of the cohort censor their reply, shape (n,).
        envelopes: a representative envelope per kind: a message, a beacon. Those of other clients
            differ in content only.
        kinds: the kind of each sender's envelope, shape (n,); None if there is one kind.
    """

    senders: Numbers
    groups: Sequence[tuple[Numbers, Message]]
    silent: NDArray[np.bool_]
    envelopes: Sequence[Envelope]
    kinds: Numbers | None = None

    @classmethod
    def of(
        cls,
        groups: Sequence[tuple[Numbers, Message]],
        silent: NDArray[np.bool_],
        *envelopes: Envelope | None,
    ) -> "ReplyRows":
        """Return the replies of a cohort.

        Args:
            groups: the indices of each group, and the message with the group's rows.
            silent: which clients censor their reply, shape (n,).
            envelopes: the envelope of a message, and that of a beacon if silence is signalled.
        """
        sent, beacon = envelopes
        senders = np.arange(len(silent), dtype=np.int32)
        if beacon is None:
            senders = senders[~silent]
            return cls(senders, groups, silent, [sent] if sent else [])
        if sent is None or silent.all():
            # All clients are silent.
            return cls(senders, groups, silent, [beacon])
        return cls(senders, groups, silent, [sent, beacon], silent.astype(np.int64))

    def columns(self, clients: Ids) -> ReplyColumns:
        """Return the replies without beacons.

        Args:
            clients: the senders, ascending, shape (n,).
        """
        # The reply of client k is row `rows[k]` of the message of group `which[k]`.
        which, rows = np.empty((2, len(self.silent)), np.int32)
        for number, (places, _) in enumerate(self.groups):
            which[places], rows[places] = number, np.arange(len(places))
        sending = ~self.silent[self.senders]
        speakers = self.senders[sending]
        messages = [message for _, message in self.groups]
        return ReplyColumns(
            clients[sending], self.envelopes[0].round, messages, which[speakers], rows[speakers]
        )


class GroupDraws(StreamGroup):
    """Placeholder for `rng`: a scalar draw raises NotAlikeError; clients are handled one by one."""

    def __getattr__(self, name: str) -> NoReturn:
        raise NotAlikeError(name)


class ClientGroup:
    """Implements `fedsim.core.ports.Client` for n clients at once.

    Args:
        clients: the numbers of the clients, ascending.
        protocol: the endpoint of the first client.
        oracle: the loss of the first client; those of the others have as many samples.
        evaluator: computes the work.
        streams: the random stream of each client.
        looks: the set to which the names of what the method reads are added.
        mains: whether none of them has a battery.
    """

    state: Any  # the state of all clients together, of a method with `handle_rows`

    def __init__(
        self,
        clients: Ids,
        protocol: ClientProtocol,
        oracle: Oracle,
        evaluator: GroupEvaluator,
        streams: EntityStreams,
        looks: set[str],
        *,
        mains: bool = True,
    ) -> None:
        self.clients = clients
        self._mains = mains
        self.rng = GroupDraws(streams, clients)
        self.protocol = protocol
        self.oracle = oracle
        self._evaluator = evaluator
        self._looks = looks

    def __getattr__(self, name: str) -> NoReturn:
        raise NotAlikeError(name)  # id, state and now differ between clients

    @property
    def round(self) -> int:
        """The number of the round that the clients are in."""
        return self.protocol.round

    @property
    def weight(self) -> float:
        """The weight of each client's loss, equal as all have as many samples."""
        return self.oracle.weight

    @property
    def battery(self) -> None:
        """None, as the clients are on mains.

        Raises:
            ReactionError: the clients have batteries.
        """
        self._looks.add("battery")
        if not self._mains:
            raise ReactionError("a handler reads the state of charge")

    def pack(self, vector: Array, structure: Structure = DENSE, field: str = "") -> Any:
        """Return one payload for all clients, or a `DenseRows` with one row per client."""
        packing: Packing = self.protocol.packing
        packer = packing.packer(field)
        # A compressor has memory or draws per client.
        if not (isinstance(packer, Plain) and packer.exact and structure is DENSE):
            raise NotAlikeError("compressors")
        if vector.ndim > 1:
            return packer.pack_rows(vector, self._evaluator.add_rows)
        return packing.pack(vector, field=field)

    async def compute(self, work: Work, begun: Callable[[int], None] | None = None) -> Array:
        """Compute the same work for each client; return the results, shape (n, d).

        The evaluator computes while other groups start and the work's time is recorded.

        Raises:
            NotAlikeError: the evaluator cannot compute this work for many clients at once.
            ReactionError: a result is not finite. Only the event-by-event run finds the first one.
        """
        evaluator = self._evaluator
        known = self.protocol.packing.narrow(work)
        # A callback per piece, or work that never ends, needs each client by itself.
        alone = begun is not None or not work.operations < inf  # also if NaN
        ticket = None if alone else evaluator.submit_rows(known, self.clients)
        if ticket is None:
            raise NotAlikeError("work")
        try:
            await _hand_over((work, evaluator.together))
        finally:  # also after an error: no thread may compute beyond the end of the handler
            results = evaluator.rows(ticket)
        if results is None:
            raise ReactionError("results are not finite, or rows were drawn that do not exist")
        return results


@coroutine
def _hand_over(piece: Piece) -> Generator[Piece, None, None]:
    """Yield work to the driver; resume when it is complete."""
    yield piece


class Cohorts:
    """Divides cohorts into groups of clients that are handled together.

    Args:
        setup: the configuration of the world.
        oracle: returns a client's loss.
        protocol: returns a client's endpoint.
        streams: the random stream of each client.
        looks: the set to which the names of what the method reads are added.
        mains: whether no client has a battery.

    Attributes:
        handle: the method's handler for a group of clients.
    """

    def __init__(
        self,
        setup: WorldConfig,
        oracle: Callable[[ClientId], Oracle],
        protocol: Callable[[ClientId], ClientProtocol],
        streams: EntityStreams,
        looks: set[str],
        *,
        mains: bool = True,
    ) -> None:
        self._mains = mains
        self._streams = streams
        self._setup = setup
        self._oracle = oracle
        self._protocol = protocol
        self._looks = looks
        self.handle = getattr(setup.algorithm, "handle_rows", None) or setup.algorithm.handle  # type: ignore[union-attr]
        self._stateful = hasattr(setup.algorithm, "handle_rows")
        self._remembers = False
        self._last: Ids | None = None
        self._kept: list[tuple[Numbers, ClientGroup]] = []
        self._useful = may_be_alike(setup)

    def groups(self, clients: Ids) -> Iterable[tuple[Numbers, ClientGroup]]:
        """Return groups of clients with as many samples, and their indices in the cohort.

        Groups are kept for the next cohort, which often has the same clients.

        Args:
            clients: the clients of the cohort, ascending.

        Raises:
            NotAlikeError: the clients have to be handled one by one.
            ReactionError: a group has a state in common, and only some of its clients are asked.
        """
        # Groups of the last cohort hold the states and the protocol's copies, so they are used
        # again if, and only if, the cohort is the same.
        if self._last is not None and np.array_equal(clients, self._last):
            return self._kept
        # The group state belongs to a fixed set of clients.
        if self._stateful and self._last is not None:
            raise ReactionError("clients that share a state are not asked together")
        groups = list(self._groups(clients))
        if self._stateful:
            for _, group in groups:
                group.state = self._setup.algorithm.memory(self._setup.initial)
        # Groups without state are rebuilt if there are many, as they take memory.
        if self._stateful or len(groups) <= _KEPT:
            self._kept, self._last = groups, clients
        return groups

    def keep(self) -> None:
        """Note that a cohort was handled in groups, so that single clients lack their state."""
        self._remembers = self._stateful

    @property
    def remembers(self) -> bool:
        """Whether a return to single clients is impossible: groups hold state, or have drawn."""
        return self._remembers or self._streams.drawn

    def _groups(self, clients: Ids) -> Iterator[tuple[Numbers, ClientGroup]]:
        """Yield new groups; see `groups`."""
        evaluator = self._setup.evaluator
        if not self._useful or not isinstance(evaluator, GroupEvaluator):
            raise NotAlikeError("the method")
        # Large groups are cut, which does not change any result: rows are independent.
        most = max(1, _NUMBERS // max(len(self._setup.initial), 1))
        alike = evaluator.alike(clients)
        if not alike:
            raise NotAlikeError("the losses")
        for indices in alike:
            for begin in range(0, len(indices), most):
                places = indices[begin : begin + most]
                first = int(clients[places[0]])
                oracle, protocol = self._oracle(first), self._protocol(first)
                parts = clients[places], protocol, oracle, evaluator, self._streams, self._looks
                yield places, ClientGroup(*parts, mains=self._mains)


def may_be_alike(setup: WorldConfig) -> bool:
    """Return whether one handler may run for many clients of a world."""
    method, evaluator = setup.algorithm, setup.evaluator
    if not (setup.alike and _declares_rows(method) and isinstance(evaluator, GroupEvaluator)):
        return False
    if setup.transport.to_clients(_ignore) is not _ignore:
        return False
    # A group runs the method's own handler. In some worlds a client's handler does more: it keeps
    # malicious clients silent, or adds reports.
    if setup.handler != method.handle:  # type: ignore[union-attr]
        return False
    # A state for all requires that all are always asked together.
    if hasattr(method, "handle_rows") and setup.participation.asked is not None:
        return False
    return is_plain(setup)


def is_plain(setup: WorldConfig) -> bool:
    """Return whether uplink vectors are sent in full, independent of earlier messages."""
    packer = setup.packer_up(0, "", 0)
    return isinstance(packer, Plain) and packer.exact


def _declares_rows(method: object) -> bool:
    """Return whether the class that defines `handle` declares it to be elementwise."""
    if isinstance(method, Wrapper):
        inner = method.method
        return method.in_rows and not hasattr(inner, "handle_rows") and _declares_rows(inner)
    # A subclass of a user may override what `handle` calls. So the declaration of a foreign class
    # counts only if the class itself defines `handle`.
    owner = next((cls for cls in type(method).__mro__ if "handle" in vars(cls)), object)
    built_in = type(method).__module__.startswith("fedsim.algorithms.")
    declared = vars(owner).get("handles_rows") and getattr(method, "handles_rows", False)
    return bool(declared) and (built_in or owner is type(method))


def resume(handler: Coroutine[Piece, None, Any]) -> Any:
    """Resume a handler; return its next work, or the message that it returns."""
    try:
        return handler.send(None)
    except StopIteration as end:
        return end.value


def _ignore(client: ClientId, envelope: Envelope) -> None:
    """Ignore what has arrived."""
