"""The server under secure aggregation: the method has sums, and no single replies."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, Protocol, TypeVar, cast

import numpy as np

from fedsim.core.errors import Failed
from fedsim.core.ports import Array, ClientId, Message, Reply, Server
from fedsim.protocol.secrecy import costs
from fedsim.protocol.secrecy.agreement import LEAST, Agreement
from fedsim.protocol.secrecy.client import Forwarded, Included, Start, scattered
from fedsim.protocol.secrecy.integers import Integers
from fedsim.protocol.secrecy.messages import (
    EncryptedShares,
    KeyRequest,
    Layout,
    Masked,
    MaskedInput,
    NeighbourKeys,
    PublicKeys,
    Sealed,
    Secret,
    Unmasking,
    UnmaskRequest,
    with_shares,
)
from fedsim.protocol.secrecy.scheme import Keys, Scheme
from fedsim.protocol.wrapping import View

Requests = Message | Mapping[ClientId, Message]

LOST_SHARES, LOST_INPUT, LOST_UNMASKING, ALONE = (
    "no encrypted shares",
    "no masked input",
    "no unmasking",
    "alone in its sum, which is not unmasked",
)
"""Why a round goes on without a client."""


class Door(Server, Protocol):
    """A server that ends rounds that a protocol cannot complete."""

    @property
    def silent(self) -> Sequence[ClientId]:
        """The clients whose beacon has arrived in the last exchange."""
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
        self._operations, self._dropped = 0.0, 0  # since the last commit

    async def exchange(
        self,
        message: Requests,
        *,
        to: Sequence[ClientId] | None = None,
        again: Callable[[], Requests] | None = None,
    ) -> Sequence[Reply]:
        """Exchange a message under secrecy; see `fedsim.core.ports.Server.exchange`."""
        self._sum = None
        while True:
            self._run += 1
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

    def commit(self, model: Array, **measures: float) -> None:
        """Close the round, with the server's operations and the number of drop-outs."""
        more = {
            "secrecy_operations": self._operations,
            "secrecy_dropouts": float(self._dropped),
        }
        self._operations, self._dropped = 0.0, 0
        self._seen.commit(model, **measures, **more)

    # -- the interactions --------------------------------------------------------------

    async def _play(self, message: Requests, to: Sequence[ClientId] | None) -> Sequence[Reply]:
        """Play the interactions of an exchange."""
        if to is None and not isinstance(message, Message):
            to = None if len(message) == len(self._seen.clients) else sorted(message)
        keys = {
            client: cast("Any", sent.keys).data
            for client, sent in (await self._ask(KeyRequest(), to, PublicKeys)).items()
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
        inputs = await self._inputs(scheme, message, sent)
        included, silent = set(inputs), set(self._seen.silent)
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

    def _check(self, scheme: Scheme, left: set[ClientId], what: str) -> None:
        """Raise `_TooFewError` if an unmasking by these clients would fail."""
        count = len(scheme.graph.clients)
        if why := scheme.short(scheme.shared, left):
            raise _TooFewError(f"{len(left)} of {count} clients have sent {what}: {why}")

    async def _ask(
        self, message: Requests, to: Sequence[ClientId] | None, kind: type["_M"], lost: str = ""
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
        if lost and to is not None:
            silent = set(self._seen.silent)
            missing = [client for client in to if client not in received and client not in silent]
            self._dropped += len(missing)
            if missing:
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
    ) -> dict[ClientId, Masked]:
        """Send the method's message with the shares; return the masked inputs."""
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
        lost = LOST_INPUT
        replies = await self._ask(messages, sorted(shared), MaskedInput, lost)
        return {client: cast("Masked", sent.vector) for client, sent in replies.items()}

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
        replies = await self._ask(request, to, Unmasking, LOST_UNMASKING)
        self._check(scheme, set(replies), "unmasking shares")
        coordinates = sizes.pop()
        self._operations += scheme.server_work(included, scheme.shared, coordinates)
        total = np.sum([masked.integers for masked in inputs.values()], axis=0)
        self._operations += float(len(included) * coordinates)
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
