"""The server under secure aggregation: the method has sums, and no single replies."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, Protocol, TypeVar, cast

import numpy as np

from fedsim.core.errors import Failed
from fedsim.core.ports import Array, ClientId, Message, Reply, Server
from fedsim.core.table_columns import SECRECY_OPERATIONS
from fedsim.protocol.aggregation import Tally
from fedsim.protocol.secrecy import costs
from fedsim.protocol.secrecy.agreement import LEAST, Agreement
from fedsim.protocol.secrecy.client import Forwarded, Included, Start, scattered
from fedsim.protocol.secrecy.integers import Integers
from fedsim.protocol.secrecy.messages import (
    ConsistencyRequest,
    EncryptedShares,
    InputRequest,
    KeyRequest,
    Layout,
    Masked,
    MaskedInput,
    NeighbourKeys,
    Notice,
    PublicKeys,
    Sealed,
    Secret,
    SignedList,
    SignedUnmaskRequest,
    Unmasking,
    UnmaskRequest,
    with_shares,
)
from fedsim.protocol.secrecy.scheme import Keys, Scheme
from fedsim.protocol.wrapping import View

Requests = Message | Mapping[ClientId, Message]

LOST_KEYS, LOST_SHARES, LOST_NOTICE, LOST_INPUT, LOST_SIGNATURE, LOST_UNMASKING, ALONE = (
    "no public keys",
    "no encrypted shares",
    "no notice",
    "no masked input",
    "no signature",
    "no unmasking",
    "alone in its sum, which is not unmasked",
)
"""Why a round goes on without a client."""


class Door(Server, Protocol):
    """A server that ends rounds that a protocol cannot complete."""

    @property
    def asked(self) -> Sequence[ClientId]:
        """The clients of the last exchange."""
        ...

    @property
    def silent(self) -> Sequence[ClientId]:
        """The clients whose beacon has arrived in the last exchange."""
        ...

    @property
    def tally(self) -> Tally:
        """Counts that the round table has, also of abandoned rounds."""
        ...

    def count_cohort(self, counts: bool) -> None:  # noqa: FBT001
        """Let the clients of the exchanges to come count as asked, or not."""
        ...

    def leave_out(self, clients: Sequence[ClientId], why: str) -> None:
        """Log that the open round goes on without some clients."""
        ...

    def abandon(self, why: str, message: Requests) -> Requests:
        """Abandon the open round; return the message of the next one."""
        ...

    def repeated(self, message: Requests) -> Requests:
        """Return a message for a second transmission."""
        ...


class _RoundLostError(Exception):
    """The server has abandoned the round, because too few clients have answered in time."""


class _TooFewError(Exception):
    """Too few clients are left for a sum; the text says how many."""


class _Sum(NamedTuple):
    """The sum of a round.

    Attributes:
        clients: the clients whose vectors are in it, ascending.
        scheme: the protocol of the round.
        layout: the fields of their messages.
        total: the sum of their integers.
    """

    clients: list[ClientId]
    scheme: Scheme
    layout: Layout
    total: Integers


class SecretServer(View):
    """A server whose replies are sealed, and whose `aggregate` returns their unmasked sum.

    Args:
        server: the server of the world.
        known: what server and clients know before the first round.
    """

    def __init__(self, server: Server, known: Agreement) -> None:
        super().__init__(server)
        self._seen: Door
        self._known = known
        self._run = 0
        self._counted: dict[ClientId, int] = {}  # the last exchange that counted each client
        self._sum: _Sum | None = None
        self._places: Integers | None = None  # the union of supports in the open exchange
        self._seen.tally.add_columns(SECRECY_OPERATIONS, "secrecy_dropouts")

    async def exchange(
        self,
        message: Requests,
        *,
        to: Sequence[ClientId] | None = None,
        again: Callable[[], Requests] | None = None,
    ) -> Sequence[Reply]:
        """Exchange a message under secrecy; see `fedsim.core.ports.Server.exchange`."""
        while True:
            self._run += 1
            self._sum = self._places = None
            try:
                return await self._play(message, to)
            except _RoundLostError:
                # Some clients may have received the message of the abandoned round.
                message = self._seen.repeated(message) if again is None else again()
            except _TooFewError as few:
                repeated = self._seen.abandon(str(few), message)
                message = repeated if again is None else again()

    def aggregate(
        self,
        replies: Sequence[Reply],
        field: str,
        weights: Array | None = None,
        *,
        changes: bool = False,
    ) -> Array:
        """Return the weighted sum of a field over all replies of the last exchange.

        Raises:
            Failed: it asks for the sum of other replies, or with weights that clients did not know.
        """
        held = self._sum
        if held is None or [reply.client for reply in replies] != held.clients:
            count = 0 if held is None else len(held.clients)
            text = f"{len(replies)} replies, and there is only the sum of all {count}"
            raise self._refusal(f"adds up `{field}` of", text)
        code, found = held.scheme.code, self._vector(held, field)
        factor, whole = self._common_factor(held.clients, weights, field)
        if self._known.factors is not None and not changes and abs(whole - 1.0) < _ROUNDING:
            # Self-normalised: by the sum of the factors that clients have sent.
            return np.asarray(found / code.scale * (code.largest / held.total[-1]))
        return np.asarray(found / code.scale * factor)

    def _vector(self, held: _Sum, field: str) -> Array:
        """Return the sum of a field in integers, of the shape of its vector."""
        begin = 0
        for part in held.layout:
            if part.name == field:
                found = held.total[begin : begin + part.size].astype(np.float64)
                size = int(np.prod(part.shape, dtype=int))
                if part.size == size:
                    return found.reshape(part.shape)
                places = cast("Any", self._known.places(part.packed, size, self._run))
                return scattered(found, places, part.shape)
            begin += part.size
        names = ", ".join(part.name for part in held.layout)
        raise Failed(f"{self._kind}: clients have sent {names}, and no {field}")

    def _common_factor(
        self, clients: list[ClientId], weights: Array | None, field: str
    ) -> tuple[float, float]:
        """Return the ratio of weights to the clients' factors, and the sum of the weights."""
        wanted = np.ones(len(clients)) if weights is None else np.asarray(weights)
        factors = self._known.factors
        ratios = wanted if factors is None else wanted / factors[clients]
        ratio = float(ratios[0])
        if not np.allclose(ratios, ratio, rtol=1e-9, atol=0.0):
            known = "their shares of the objective" if factors is not None else "equal ones"
            text = f"clients have multiplied by {known}, and not by those"
            raise self._refusal(f"weighs `{field}` by weights of its own:", text)
        return ratio, float(wanted.sum())

    # -- the interactions --------------------------------------------------------------

    async def _play(self, message: Requests, to: Sequence[ClientId] | None) -> Sequence[Reply]:
        """Play the interactions of an exchange."""
        if to is None and not isinstance(message, Message):
            to = None if len(message) == len(self._seen.clients) else sorted(message)
        keys = {
            client: cast("Any", sent.keys).data
            for client, sent in (await self._ask(KeyRequest(), to, PublicKeys, LOST_KEYS)).items()
        }
        if not keys:
            return []
        if len(keys) < LEAST:
            raise _TooFewError(f"{len(keys)} client has sent keys, {LEAST} are needed")
        scheme = self._known.scheme_among(sorted(keys), self._run)
        sent = await self._shares(scheme, keys)
        shared = set(sent)
        scheme.shared = shared
        self._check(scheme, shared, "shares")
        inputs, silent = await self._inputs(scheme, message, sent)
        included = set(inputs)
        if self._known.reveals_silence:
            if not included:
                return []
            if len(included) < LEAST:
                self._seen.leave_out(sorted(included), ALONE)
                return []
        else:
            self._check(scheme, included, "masked inputs")
        total = await self._unmask(scheme, keys, inputs, silent)
        self._counted.update(dict.fromkeys(inputs, self._run))
        return self._sealed(scheme, inputs, total)

    def _count(self, operations: float) -> None:
        self._seen.tally.count(SECRECY_OPERATIONS, operations)

    def _check(self, scheme: Scheme, left: set[ClientId], what: str) -> None:
        """Raise `_TooFewError` if an unmasking by these clients would fail."""
        count = len(scheme.graph.clients)
        if why := scheme.short(scheme.shared, left):
            raise _TooFewError(f"{len(left)} of {count} clients have sent {what}: {why}")

    async def _ask(
        self, message: Requests, to: Sequence[ClientId] | None, kind: type["_M"], lost: str
    ) -> dict[ClientId, "_M"]:
        """Return the answers of one interaction, by client; log those that are missing."""
        number = self._seen.round
        self._seen.count_cohort(kind is PublicKeys)  # each client once
        replies = await self._seen.exchange(message, to=to, again=_lost)
        if self._seen.round != number and to is not None and not replies:
            # All have left for good, and the round was abandoned.
            if kind is PublicKeys:
                return {}
            raise _RoundLostError
        received: dict[ClientId, _M] = {
            reply.client: reply.message
            for reply in replies
            if reply.round == self._seen.round and isinstance(reply.message, kind)
        }
        there = received.keys() | set(self._seen.silent)
        missing = [c for c in (self._seen.asked if to is None else to) if c not in there]
        if missing:
            self._seen.tally.count("secrecy_dropouts", len(missing))
            self._seen.leave_out(missing, lost)
        return received

    async def _shares(self, scheme: Scheme, keys: Keys) -> dict[ClientId, Any]:
        """Return the encrypted shares of each client."""
        graph, counted = scheme.graph, self._known.block.values == "counted"
        degree = min(graph.degree, len(graph.clients) - 1)
        size = scheme.bits(degree, self._known.coordinates).keys_down
        names = Secret(costs.NAME * degree)
        start = Start(scheme, {} if counted else keys)
        # One object for all: each reads the keys of its neighbours.
        one = NeighbourKeys(Secret(size, start), names)
        message = one if graph.complete else dict.fromkeys(graph.clients, one)
        replies = await self._ask(message, graph.clients, EncryptedShares, LOST_SHARES)
        return {client: cast("Any", sent.shares).data for client, sent in replies.items()}

    async def _inputs(
        self, scheme: Scheme, message: Requests, sent: Mapping[ClientId, Any]
    ) -> tuple[dict[ClientId, Masked], set[ClientId]]:
        """Send the method's message with the shares; return masked inputs, and who is silent."""
        shared, messages = set(sent), dict[ClientId, Message]()
        counted = self._known.block.values == "counted"
        for client in sorted(shared):
            left = scheme.left_of(client)
            bits = scheme.bits(left, self._known.coordinates)
            one = message if isinstance(message, Message) else message[client]
            near = None
            if not counted:
                near = {v: sent[v][client] for v in scheme.graph.of(client) if v in shared}
            told = Forwarded(self._run, self._counted.get(client, 0), left)
            # With the numbers of this exchange and of the last one that has counted the client.
            framing = Secret(bits.framing_down + 2 * costs.NAME, told)
            payloads = (*one.payloads(), Secret(bits.shares_down, near), framing)
            messages[client] = with_shares(type(one))(*payloads)
        if not (self._known.votes or self._known.unites):
            return await self._vectors(messages, sorted(shared))
        notices = await self._ask(messages, sorted(shared), Notice, LOST_NOTICE)
        silent, speaking = set(self._seen.silent), sorted(notices)
        if self._known.votes:
            speaking = [c for c in speaking if self._speaks(scheme.group_of[c], scheme, notices)]
            silent = set(notices) - set(speaking)
        if not speaking:
            return {}, silent
        places, size = None, 0
        if self._known.unites:
            found, sizes = zip(
                *(cast("Any", notices[client].support).data for client in speaking), strict=True
            )
            places, contributors = np.unique(np.concatenate(found), return_counts=True)
            self._places = places = places[contributors >= self._known.block.contributors]
            self._count(float(sum(map(len, found))))
            size = costs.support(len(places), max(sizes))
        support = Secret(size, (self._run, places))
        request = InputRequest(support, Secret(costs.NAME))
        inputs, _ = await self._vectors(request, speaking)
        return inputs, silent

    async def _vectors(
        self, message: Requests, to: Sequence[ClientId]
    ) -> tuple[dict[ClientId, Masked], set[ClientId]]:
        """Return the masked vectors of clients, and which of the clients are silent."""
        replies = await self._ask(message, to, MaskedInput, LOST_INPUT)
        vectors = {client: cast("Masked", sent.vector) for client, sent in replies.items()}
        return vectors, set(self._seen.silent)

    def _speaks(
        self, group: Sequence[ClientId], scheme: Scheme, notices: Mapping[ClientId, Notice]
    ) -> bool:
        """Return whether a group is not silent; so it is if a vote is missing."""
        there = scheme.shared.intersection(group)
        if not there <= notices.keys():
            return True
        total = sum(int(cast("Any", notices[client].vote).data) for client in there)
        return total % (1 << costs.VOTE) != 0

    async def _unmask(
        self,
        scheme: Scheme,
        keys: Keys,
        inputs: Mapping[ClientId, Masked],
        silent: set[ClientId],
    ) -> Integers:
        """Return the sum of the inputs' integers."""
        included = set(inputs)
        sizes = {len(masked.integers) for masked in inputs.values()}
        if len(sizes) > 1:
            text = f"{self._known.method} sends vectors of {sorted(sizes)} coordinates in one round"
            raise Failed(f"{self._kind}: {text}, which do not add up")
        # Silent clients are asked if the others are too few, and then all that may be silent.
        choices = included, included | silent, scheme.shared
        to = sorted(next((c for c in choices if not scheme.short(scheme.shared, c)), scheme.shared))
        request = UnmaskRequest(
            Secret(len(scheme.shared) + costs.NAME, Included(self._run, included))
        )
        if scheme.signed:
            asked = ConsistencyRequest(request.framing)
            signed = await self._ask(asked, to, SignedList, LOST_SIGNATURE)
            self._check(scheme, set(signed), "signatures")
            to = sorted(signed)
            signers = {v: cast("Any", one.signature).data for v, one in signed.items()}
            # The clients of the list are known by now; of its signers, one bit each.
            framing = Secret(
                len(scheme.shared) + costs.NAME, Included(self._run, included, signers)
            )
            more = Secret(costs.SIGNATURE * (len(to) - 1))
            request = SignedUnmaskRequest(framing, more)
        replies = await self._ask(request, to, Unmasking, LOST_UNMASKING)
        self._check(scheme, set(replies), "unmasking shares")
        coordinates = sizes.pop()
        total = np.sum([masked.integers for masked in inputs.values()], axis=0)
        self._count(scheme.server_work(included, scheme.shared, coordinates))
        self._count(float(len(included) * coordinates))
        if self._known.block.values == "counted":
            return np.asarray(total)
        told = {client: cast("Any", sent.shares).data for client, sent in replies.items()}
        code = scheme.code
        return code.centre(scheme.unmask(code.reduce(total), keys, scheme.shared, included, told))

    def _sealed(
        self, scheme: Scheme, inputs: Mapping[ClientId, Masked], total: Integers
    ) -> list[Reply]:
        """Keep the sum, and return a sealed reply of each client that is in it."""
        real = {client: masked for client, masked in inputs.items() if masked.kind is not None}
        if not real:
            return []
        first = next(iter(real.values()))
        if any(masked.layout != first.layout for masked in real.values()):
            text = f"{self._known.method} sends different vectors in one round"
            raise Failed(f"{self._kind}: {text}, which do not add up")
        clients = sorted(inputs)
        if self._places is not None:
            sizes = [part.size for part in first.layout]
            whole = np.zeros(sum(sizes) + (self._known.factors is not None), np.int64)
            whole[self._places] = total
            total = whole
        self._sum = _Sum(clients, scheme, first.layout, total)
        replies = []
        for client in clients:
            # A silent client's zero cannot be told from a vector.
            kind = cast("type[Any]", inputs[client].kind or first.kind)
            fields = (
                Sealed(
                    part.size * scheme.code.modulus_bits,
                    str(
                        self._refusal(
                            f"reads `{part.name}` of", "single replies, and has their sum"
                        )
                    ),
                )
                for part in first.layout
            )
            replies.append(Reply(client, self._seen.round, kind(*fields)))
        return replies

    @property
    def _kind(self) -> str:
        return f"secrecy: {self._known.block.kind}"

    def _refusal(self, what: str, text: str) -> Failed:
        return Failed(
            f"{self._kind}: the server of {self._known.method} {what} {text}; take another method,"
            " or leave out secrecy"
        )


_M = TypeVar("_M", bound=Message)

_ROUNDING = 1e-12
"""Tolerance for a sum of weights: closer to 1 counts as 1."""


def _lost() -> Requests:
    """End the exchange: an abandoned round begins again with keys."""
    raise _RoundLostError
