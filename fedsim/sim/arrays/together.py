"""Handlers of clients that are alike, run once for all of them.

A method that declares `handles_rows` computes entry by entry, from the message and the client's
loss alone. So one run of its handler, in which vectors (d,) that differ from client to client are
the rows of an array (n, d), does what n runs do; see `ClientGroup`, which is its client.
"""

from collections.abc import Callable, Coroutine, Generator, Iterable, Iterator, Sequence
from math import inf
from types import coroutine
from typing import Any, NamedTuple, NoReturn

import numpy as np
from numpy.typing import NDArray

from fedsim.computing.serial import GroupEvaluator
from fedsim.ports import DENSE, Array, ClientId, Message, Oracle, Structure, Work
from fedsim.protocol.transport import ClientProtocol, Envelope
from fedsim.sim.arrays.classes import Ids
from fedsim.sim.arrays.order import Numbers, ReactionError
from fedsim.sim.config import WorldConfig
from fedsim.streams import EntityStreams, StreamGroup
from fedsim.wire.packers import Packing, Plain
from fedsim.wire.replies import ReplyColumns

_NUMBERS = 2**22
"""The largest number of coordinates of the models of a group, which bounds its memory."""

_KEPT = 100
"""Groups without a state are kept from one round to the next if there are so few."""


Piece = tuple[Work, bool]
"""Work of each client, with all its pieces; and whether it is evaluated along with others that
begin at the same instant, where its first piece takes no time."""


class NotAlikeError(Exception):
    """Clients have to be handled one by one, after all."""


class ReplyRows(NamedTuple):
    """The replies of the clients of a cohort that were handled together.

    Attributes:
        senders: the places in the cohort of those that send something.
        groups: the places of each group in the cohort, and the message that stands for theirs.
        silent: which clients of the cohort have nothing to say, shape (n,).
        envelopes: of one message of each class, equal to the others' in all but their content.
        kinds: which of these each message has, shape (n,); None where there is one.
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
            groups: the places of each group, and the message of which it would send its rows.
            silent: which send nothing, shape (n,).
            envelopes: of a message, and of a beacon where silence is signalled.
        """
        sent, beacon = envelopes
        senders = np.arange(len(silent), dtype=np.int32)
        if beacon is None:
            senders = senders[~silent]
            return cls(senders, groups, silent, [sent] if sent else [])
        if sent is None or silent.all():
            return cls(senders, groups, silent, [beacon])
        return cls(senders, groups, silent, [sent, beacon], silent.astype(np.int64))

    def columns(self, clients: Ids) -> ReplyColumns:
        """Return the replies without beacons.

        Args:
            clients: the senders, ascending, shape (n,).
        """
        which, rows = np.empty((2, len(self.silent)), np.int32)
        for number, (places, _) in enumerate(self.groups):
            which[places], rows[places] = number, np.arange(len(places))
        said = ~self.silent[self.senders]
        own = self.senders[said]
        messages = [message for _, message in self.groups]
        return ReplyColumns(clients[said], self.envelopes[0].round, messages, which[own], rows[own])


class GroupDraws(StreamGroup):
    """Takes the place of a random stream: only what draws for all of them at once can use it."""

    def __getattr__(self, name: str) -> NoReturn:
        raise NotAlikeError(name)


class ClientGroup:
    """Implements `fedsim.ports.Client` for n clients at once.

    Args:
        clients: their numbers, ascending.
        protocol: the endpoint of the first one.
        oracle: its loss; the others' have equally many samples.
        evaluator: computes their work.
        streams: each client's own.
        looks: the set to which the names of what the method reads are added.
        mains: whether none of them has a battery.
    """

    state: Any  # of those of a method with `handle_rows`

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
        raise NotAlikeError(name)  # id, state, now: each client's own

    @property
    def round(self) -> int:
        """The number of the round that they are in."""
        return self.protocol.round

    @property
    def weight(self) -> float:
        """The weight of each of their losses: they have equally many samples."""
        return self.oracle.weight

    @property
    def battery(self) -> None:
        """None: they are on mains.

        Raises:
            ReactionError: they are not.
        """
        self._looks.add("battery")
        if not self._mains:
            raise ReactionError("a handler reads the state of charge")

    def pack(self, vector: Array, structure: Structure = DENSE, field: str = "") -> Any:  # noqa: ANN401
        """Return one payload for all clients, or a `DenseRows` with one for each."""
        packing: Packing = self.protocol.packing
        packer = packing.packer(field)
        if not (isinstance(packer, Plain) and packer.exact and structure is DENSE):
            raise NotAlikeError("compressors")
        if vector.ndim > 1:
            return packer.pack_rows(vector, self._evaluator.add_rows)
        return packing.pack(vector, field=field)

    async def compute(self, work: Work, begun: Callable[[int], None] | None = None) -> Array:
        """Compute the same work for each client; return the results, shape (n, d).

        Other groups begin theirs, and what it takes is written, while it is computed.

        Raises:
            NotAlikeError: it is not computed for many at once.
            ReactionError: a result is not finite; events tell whose is the first.
        """
        evaluator = self._evaluator
        known = self.protocol.packing.narrow(work)
        alone = begun is not None or not work.operations < inf
        ticket = None if alone else evaluator.submit_rows(known, self.clients)
        if ticket is None:
            raise NotAlikeError("work")
        try:
            await _hand_over((work, evaluator.together))
        finally:  # no thread still computes it once the handler has ended
            results = evaluator.rows(ticket)
        if results is None:
            raise ReactionError("results are not finite, or rows were drawn that do not exist")
        return results


@coroutine
def _hand_over(piece: Piece) -> Generator[Piece, None, None]:
    """Let the driver of the handler have a piece of work; it goes on when that is done."""
    yield piece


class Cohorts:
    """Divides cohorts into groups.

    Args:
        setup: of the world.
        oracle: returns a client's loss.
        protocol: returns its endpoint.
        streams: each client's own.
        looks: the set to which the names of what the method reads are added.
        mains: whether no client has a battery.

    Attributes:
        handle: the method's, of a group of clients.
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
        """Return groups of clients with equally many samples, and their places in the cohort.

        Those of the last cohort are kept for the next one, which often has the same clients.

        Args:
            clients: of the cohort, ascending.

        Raises:
            NotAlikeError: they have to be handled one by one.
            ReactionError: they have a state in common with others, that are not asked.
        """
        if self._last is not None and np.array_equal(clients, self._last):
            return self._kept
        if self._stateful and self._last is not None:
            raise ReactionError("clients that share a state are not asked together")
        groups = list(self._groups(clients))
        if self._stateful:
            for _, group in groups:
                group.state = self._setup.algorithm.memory(self._setup.initial)
        if self._stateful or len(groups) <= _KEPT:
            self._kept, self._last = groups, clients
        return groups

    def keep(self) -> None:
        """Note that clients have been handled together, so that no single one has their state."""
        self._remembers = self._stateful

    @property
    def remembers(self) -> bool:
        """Whether groups have a state that no single client has, or may have drawn at random."""
        return self._remembers or self._streams.drawn

    def _groups(self, clients: Ids) -> Iterator[tuple[Numbers, ClientGroup]]:
        """Yield groups, see `groups`."""
        evaluator = self._setup.evaluator
        if not self._useful or not isinstance(evaluator, GroupEvaluator):
            raise NotAlikeError("the method")
        most = max(1, _NUMBERS // max(len(self._setup.initial), 1))
        alike = evaluator.alike(clients)
        if not alike:
            raise NotAlikeError("the losses")
        for whose in alike:
            for begin in range(0, len(whose), most):
                places = whose[begin : begin + most]
                first = int(clients[places[0]])
                oracle, protocol = self._oracle(first), self._protocol(first)
                own = clients[places], protocol, oracle, evaluator, self._streams, self._looks
                yield places, ClientGroup(*own, mains=self._mains)


def may_be_alike(setup: WorldConfig) -> bool:
    """Return whether handlers may be run for many clients at once in a world."""
    method, evaluator = setup.algorithm, setup.evaluator
    if not (setup.alike and _declares_rows(method) and isinstance(evaluator, GroupEvaluator)):
        return False
    if setup.transport.to_clients(_ignore) is not _ignore:
        return False
    if hasattr(method, "handle_rows") and setup.participation.asked is not None:
        return False
    return is_plain(setup)


def is_plain(setup: WorldConfig) -> bool:
    """Return whether vectors are sent up in full, whatever was sent before."""
    packer = setup.packer_up(0, "", 0)
    return isinstance(packer, Plain) and packer.exact


def _declares_rows(method: object) -> bool:
    """Return whether a method, as written in its very class, may be run for many clients."""
    owner = next((cls for cls in type(method).__mro__ if "handle" in vars(cls)), object)
    own = type(method).__module__.startswith("fedsim.algorithms.")
    declared = vars(owner).get("handles_rows") and getattr(method, "handles_rows", False)
    return bool(declared) and (own or owner is type(method))


def go_on(handler: Coroutine[Piece, None, Any]) -> Any:  # noqa: ANN401 - a piece, or the reply
    """Let a handler go on; return its next piece of work, or the message that it ends with."""
    try:
        return handler.send(None)
    except StopIteration as end:
        return end.value


def _ignore(client: ClientId, envelope: Envelope) -> None:
    """Ignore what has arrived."""
