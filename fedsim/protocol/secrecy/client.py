"""A client under secure aggregation: as the method sees it, and what it answers."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple, cast

import numpy as np

from fedsim.core.errors import Failed
from fedsim.core.ports import (
    DENSE,
    SILENCE,
    Array,
    Client,
    ClientId,
    Message,
    Noted,
    Payload,
    Silence,
    Structure,
    Work,
)
from fedsim.protocol.clip_counts import ClipCounts
from fedsim.protocol.secrecy import costs
from fedsim.protocol.secrecy.agreement import Agreement
from fedsim.protocol.secrecy.integers import IntegerCode, Integers, Noise
from fedsim.protocol.secrecy.messages import (
    EncryptedShares,
    InputRequest,
    Layout,
    Masked,
    MaskedInput,
    Notice,
    Part,
    PublicKeys,
    Rounded,
    Secret,
    SignedList,
    Unmasking,
)
from fedsim.protocol.secrecy.pairwise import SigningSecrets
from fedsim.protocol.secrecy.scheme import Ciphertexts, Keys, Scheme, Secrets
from fedsim.protocol.wrapping import View
from fedsim.wire.bitstream import Numbers


@dataclass(slots=True)
class Pending:
    """A message of a client that the server may not have counted.

    Attributes:
        run: the number of the exchange.
        message: what the method has returned.
    """

    run: int
    message: Message


class Answer(NamedTuple):
    """What a client has to send, before it is masked.

    Attributes:
        kind: the class of the method's message; None for a zero in place of silence.
        layout: its fields.
        integers: all its vectors, shape (m,).
    """

    kind: type[Message] | None
    layout: Layout
    integers: Integers


@dataclass(slots=True)
class SecretMemory:
    """A client's memory.

    Attributes:
        inner: the memory of its method.
        scheme: the protocol of the open round.
        secrets: its secrets in the round; None if they are only counted.
        pending: its last message, until it learns whether the server has counted it.
        answer: what it sends as soon as it is asked, after its notice.
        size: the number of coordinates of its last message; 0 before.
        run: the number of the exchange whose message it answers.
        rng: the stream of its secrets, once they are drawn.
    """

    inner: Any
    scheme: Scheme | None = None
    secrets: Secrets | None = None
    pending: Pending | None = None
    answer: Answer | None = None
    size: int = 0
    run: int = 0
    rng: np.random.Generator | None = None


@dataclass(frozen=True, slots=True)
class Start:
    """What the server tells a client with the keys of its neighbours.

    Attributes:
        scheme: the protocol of the round.
        keys: the public keys of all clients; empty if they are only counted.
    """

    scheme: Scheme
    keys: Keys


@dataclass(frozen=True, slots=True)
class Forwarded:
    """What the server tells a client beside the method's message.

    Attributes:
        run: the number of the exchange.
        counted: the last exchange in which it has counted a vector of the client; 0 for none.
        left: how many neighbours have sent shares.
    """

    run: int
    counted: int
    left: int


@dataclass(frozen=True, slots=True)
class Included:
    """What the server tells clients to get a sum unmasked.

    Attributes:
        run: the number of the exchange.
        clients: those whose vectors are in the sum.
        signers: the signatures of this list by the clients that have sent one.
    """

    run: int
    clients: set[ClientId]
    signers: Mapping[ClientId, bytes] = field(default_factory=dict)


class SecretClient(View):
    """A client whose vectors are rounded to integers, of which the server only learns the sum."""

    def __init__(self, client: Client[SecretMemory], known: Agreement, clipped: ClipCounts) -> None:
        super().__init__(client)
        self._clipped = clipped
        self.state = client.state.inner
        self._known, self._scheme, self._run = known, client.state.scheme, client.state.run

    def pack(
        self,
        vector: Array,
        structure: Structure = DENSE,
        field: str = "",
        noise: Noise | None = None,
    ) -> Payload:
        """Return a vector as integers; its `values` are the vector that the server adds up.

        Under rand-k all clients of a round send the same coordinates.

        Args:
            vector: see `fedsim.core.ports.Client.pack`. It is clipped to a norm of `secrecy.clip`;
                a number is not.
            structure: see there.
            field: see there.
            noise: draws integers that are added to those of the vector before they are masked.

        Raises:
            Failed: the vector is not finite, or a number is outside of the range of the integers.
        """
        code, factor = self._code, self._known.factor(self._seen.id)
        packed = self._seen.pack(vector, structure, field).values
        if not packed.ndim and abs(packed) > code.clip:
            name = f"the number {field}".strip()
            text = f"secrecy: {self._known.method} sends {name}, {float(packed):g}, which is not"
            raise Failed(f"{text} within secrecy.clip, {code.clip:g}; give a larger one")
        places, sent = None, packed
        if packed.ndim:
            places = self._known.places(field, packed.size, self._run)
        if places is not None:
            sent = packed[places] * self._known.sampled(field, packed.size)[1]
        if packed.ndim:
            self._clipped.add(float(np.linalg.norm(sent)))
        integers = code.encode(sent, self._seen.rng, factor, noise)
        # Of a number, too, this is an array.
        values = np.asarray(code.decode(integers, factor))
        if places is not None:
            values = scattered(values, places, packed.shape)
        values.flags.writeable = False
        bits = integers.size * code.modulus_bits
        return Rounded(values, integers.ravel(), bits, field)

    @property
    def _code(self) -> IntegerCode:
        if self._scheme is None:
            raise Failed("secrecy: a vector is packed before the clients of the round are known")
        return self._scheme.code

    async def compute(self, work: Work, *args: Any, **keywords: Any) -> Array:
        """See `fedsim.core.ports.Client.compute`; results are not rounded for sending."""
        result: Array = await self._seen.compute(work._replace(sent=False), *args, **keywords)
        return result


def scattered(values: Array, places: Numbers, shape: tuple[int, ...]) -> Array:
    """Return a vector that has values at some places, and is zero elsewhere."""
    whole = np.zeros(shape)
    whole[places] = values
    return whole


def _nothing() -> Array:
    return np.zeros(0)


async def charge(client: Client[Any], operations: float) -> None:
    """Charge work of the protocol at a client."""
    if operations:
        await client.compute(Work(_nothing, None, (), operations))


async def send_keys(client: Client[SecretMemory], known: Agreement) -> Message:
    """Begin a round: draw secrets, and send the public keys."""
    memory, scheme = client.state, known.scheme
    await charge(client, scheme.begin_work)
    memory.scheme = memory.secrets = None
    public = None
    if known.block.values == "exact":
        if memory.rng is None:
            memory.rng = known.rng("secrecy", client.id)
        memory.secrets = scheme.secrets(memory.rng)
        public = memory.secrets.public
    return PublicKeys(Secret(scheme.key_bits, public))


async def send_shares(client: Client[SecretMemory], start: Start, known: Agreement) -> Message:
    """Send encrypted shares to all neighbours."""
    memory, me, scheme = client.state, client.id, start.scheme
    memory.scheme = scheme
    degree = min(scheme.graph.degree, len(scheme.graph.clients) - 1)
    await charge(client, scheme.share_work(degree, known.coordinates))
    bits = scheme.bits(degree, known.coordinates)
    sent: Ciphertexts | None = None
    if memory.secrets is not None:
        keys = {other: start.keys[other] for other in scheme.graph.of(me)}
        sent = memory.secrets.share(me, keys, scheme, known.coordinates)
    return EncryptedShares(Secret(bits.shares_up, sent), Secret(bits.framing_up))


def open_shares(client: Client[SecretMemory], message: Any) -> None:
    """Keep the shares that have come with the method's message."""
    memory = client.state
    memory.run = message.secrecy_framing.data.run
    if memory.secrets is not None:
        memory.secrets.receive(message.secrecy_shares.data)


async def send_input(
    client: Client[SecretMemory], message: Any, reply: Message | Silence, known: Agreement
) -> Message | Silence:
    """Send the vectors of a method's reply, masked; or first a notice, if one is needed."""
    memory, told = client.state, cast("Forwarded", message.secrecy_framing.data)
    scheme = cast("Scheme", memory.scheme)
    opened = scheme.open_work(told.left, known.coordinates)
    if isinstance(reply, Message):
        # Before the next wait: if it is cancelled, the method's memory has changed already.
        memory.pending = Pending(told.run, reply)
        answer = _answer(client, reply, known)
    elif known.block.silence == "reveal":
        await charge(client, opened)
        return SILENCE
    else:
        size = memory.size or known.coordinates
        answer = Answer(None, (), np.zeros(size, np.int64))
    if known.votes or known.unites:
        memory.answer = answer
        return await _notice(client, answer, opened, known)
    return await _masked(client, answer, opened)


def _answer(client: Client[SecretMemory], reply: Message, known: Agreement) -> Answer:
    memory, parts = client.state, _rounded(reply, known)
    layout = tuple(
        Part(name, part.values.shape, part.integers.size, part.packed)
        for name, part in parts.items()
    )
    vectors = [part.integers for part in parts.values()]
    code = cast("Scheme", memory.scheme).code
    integers = np.concatenate([*vectors, *_weight(known, client.id, code)])
    memory.size = len(integers)
    if not known.block.agreed and memory.size > known.coordinates:
        text = f"lightsecagg has masks of {known.coordinates} coordinates, but {known.method}"
        raise Failed(f"{text} sends {memory.size}; use secagg")
    return Answer(type(reply), layout, integers)


async def _notice(
    client: Client[SecretMemory], answer: Answer, opened: float, known: Agreement
) -> Message:
    """Send a vote, and the places of the integers that are not zero."""
    memory, scheme = client.state, cast("Scheme", client.state.scheme)
    support = Secret(0)
    if known.unites:
        places, size = np.flatnonzero(answer.integers), len(answer.integers)
        support = Secret(costs.support(len(places), size), (places, size))
    if not known.votes:
        await charge(client, opened)
        return Notice(Secret(0), support)
    group = [other for other in scheme.group_of[client.id] if other in scheme.shared]
    # The keys of the shares serve for the masks of votes, too.
    await charge(client, opened + (len(group) - 1) * costs.expansion(1, costs.VOTE))
    vote: int = answer.kind is not None
    if memory.secrets is not None:
        vote = memory.secrets.vote(client.id, group, speaks=bool(vote))
    return Notice(Secret(costs.VOTE, vote), support)


async def send_asked(client: Client[SecretMemory], request: InputRequest) -> Message | Silence:
    """Send the vectors that a notice has been about, masked, at the places that are asked for."""
    memory, answer = client.state, client.state.answer
    run, places = cast("Any", request.support).data
    memory.answer = None
    if answer is None or run != memory.run:
        return SILENCE
    if places is not None:
        answer = answer._replace(integers=answer.integers[places])
    return await _masked(client, answer)


async def _masked(client: Client[SecretMemory], answer: Answer, work: float = 0.0) -> Message:
    """Send masked vectors, after some work."""
    memory, scheme = client.state, cast("Scheme", client.state.scheme)
    integers = answer.integers
    await charge(client, work + scheme.mask_work(scheme.left_of(client.id), len(integers)))
    if memory.secrets is not None:
        integers = memory.secrets.mask(integers)
    bits = len(integers) * scheme.code.modulus_bits
    return MaskedInput(Masked(bits, integers, answer.kind, answer.layout))


def _weight(known: Agreement, client: ClientId, code: IntegerCode) -> list[Integers]:
    """Return the further coordinate with the client's factor, if there is one."""
    if known.factors is None:
        return []
    return [np.array([round(known.factor(client) * code.largest)], np.int64)]


def _rounded(reply: Message, known: Agreement) -> dict[str, Rounded]:
    parts = {}
    for name, payload in zip(reply.__dataclass_fields__, reply.payloads(), strict=True):
        part = payload.sent if isinstance(payload, Noted) else payload
        if not isinstance(part, Rounded):
            text = f"secrecy: {known.method} sends `{name}` of its {reply.label} without packing it"
            raise Failed(f"{text}, so that it cannot be added up; use `client.pack`")
        parts[name] = part
    return parts


async def send_signature(client: Client[SecretMemory], asked: Included) -> Message | Silence:
    """Sign the list of the clients whose vectors are in the sum."""
    memory, signature = client.state, None
    if memory.run != asked.run:
        return SILENCE
    await charge(client, costs.SIGN)
    if isinstance(memory.secrets, SigningSecrets):
        signature = memory.secrets.sign(asked.run, asked.clients)
    return SignedList(Secret(costs.SIGNATURE, signature))


async def send_unmasking(
    client: Client[SecretMemory], asked: Included, known: Agreement
) -> Message | Silence:
    """Send what removes the masks of the sum; nothing, if the shares have not arrived."""
    memory, scheme = client.state, cast("Scheme", client.state.scheme)
    included = asked.clients
    if memory.run != asked.run:
        return SILENCE
    left = scheme.left_of(client.id)
    # Of its own signature it needs no check.
    verified = max(len(asked.signers) - 1, 0) * costs.VERIFY
    await charge(client, verified + scheme.reveal_work(len(included), known.coordinates))
    if isinstance(memory.secrets, SigningSecrets):
        memory.secrets.check(asked.run, included, asked.signers)
    bits = scheme.bits(left, known.coordinates).unmasking
    told = None if memory.secrets is None else memory.secrets.reveal(included)
    return Unmasking(Secret(bits, told))
