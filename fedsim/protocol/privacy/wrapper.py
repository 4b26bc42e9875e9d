"""A method whose clients clip what they send, and whose sums have noise."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, make_dataclass
from math import ceil, inf, log2
from typing import Any, ClassVar, cast

import numpy as np

from fedsim.core.errors import Failed
from fedsim.core.ports import (
    DENSE,
    Array,
    Client,
    ClientId,
    Message,
    Payload,
    Reply,
    Server,
    Silence,
    Structure,
)
from fedsim.core.streams import Streams
from fedsim.protocol.clip_counts import ClipCounts
from fedsim.protocol.privacy.accounting import Account, Bound
from fedsim.protocol.privacy.blocks import AdaptiveClip, Privacy
from fedsim.protocol.privacy.clipping import clipped, next_clip, norms_of
from fedsim.protocol.privacy.noise import Tree, discrete_gaussian, gaussian, skellam, tau
from fedsim.protocol.stopping import RunStopped
from fedsim.protocol.wrapping import View, Wrapped, Wrapper
from fedsim.wire import Octets, senders

EPSILON = "epsilon"
"""The column of the round table and of the client table."""

CLIP = "clip"
"""The column of the round table with an adaptive clip."""


@dataclass(frozen=True)
class Terms:
    """What a private run is given.

    Attributes:
        spec: the settings.
        bound: which bound on its privacy holds.
        weights: the clients' weights in sums, up to a factor, shape (M,): those of the objective,
            or ones.
        expected: the expected sum of `weights` over the replies of a round.
        fields: the number of vectors in a client's message, by their meanings.
        means: whether the method takes means, by `Server.coefficients`.
        budget: the largest epsilon; infinite for none.
        seed: the seed of the run.
        integers: the integers per unit of a secure aggregation; 0 without one.
        coordinates: the number of coordinates of a reply.
    """

    spec: Privacy
    bound: Bound
    weights: Array
    expected: float
    fields: int = 1
    means: bool = True
    budget: float = inf
    seed: int = 1
    integers: float = 0.0
    coordinates: int = 1

    @property
    def vector_noise(self) -> float:
        """The noise multiplier of the vectors of one reply, together."""
        return self.spec.vector_noise(self.bound.sample)

    @property
    def count_deviation(self) -> float:
        """The standard deviation of the noise on the number of bits."""
        return self.spec.count_deviation(self.bound.sample)

    @property
    def noise_length(self) -> float:
        """The typical L2 norm of a round's noise, over the largest norm of a mean of replies."""
        weights, replies = self.weights, self.bound.sample
        each = float(weights.max())
        if self.spec.where == "clients":
            each = float(replies * (weights**2).mean()) ** 0.5
        return float(self.vector_noise * each / self.expected * self.coordinates**0.5)

    @property
    def squares(self) -> float:
        """The sum of r^2 that a round costs a client that replies in it once."""
        return self.squares_of(self.bound.sample)

    def squares_of(self, replies: float) -> float:
        """Return the same for a round with this many replies.

        With distributed noise each client adds its part, so fewer replies have less. Rounding moves
        a vector of d coordinates by less than sqrt(d) integers. Skellam noise of a standard
        deviation of s integers has, at each order a, at most the divergence of Gaussian noise for
        r^2 (1 + 7/(2 s^2)): by corollary 4.1 of Agarwal, Kairouz, Liu 2021, where an L1 sensitivity
        of integers is at most the square of that in L2, and 2 a + 5 at most 7 a. With parts of a
        discrete Gaussian, the square is the smaller of r^2 + 2 tau d and (r + tau sqrt(d))^2: by
        proposition 14 of Kairouz, Liu, Steinke 2021 (see `tau`), with the divergence a r^2/2.
        """
        noise = self.spec.noise
        if not noise:
            return inf
        if self.spec.where != "distributed":
            return ((2.0 if self.bound.replaces else 1.0) / noise) ** 2
        clip = self.spec.first_clip * self.integers
        noise *= (replies / self.bound.sample) ** 0.5
        ratio = (1 + self.coordinates**0.5 / clip) / noise
        if self.spec.law == "skellam":
            return float(ratio**2 * (1 + 3.5 / (noise * clip) ** 2))
        own = self.spec.noise * clip / self.bound.sample**0.5
        far, d = tau(ceil(replies), own), self.coordinates
        return float(min(ratio**2 + 2 * far * d, (ratio + far * d**0.5) ** 2))


class PrivateMethod(Wrapper):
    """Runs a method whose replies are clipped, and whose sums have noise.

    The L2 norm of a client's reply is at most C: each of its k vectors is clipped to C/sqrt(k)
    (flat clipping by fields; McMahan, Ramage, Talwar, Zhang, "Learning Differentially Private
    Recurrent Language Models", ICLR 2018, section 3.2, for layers). A sum sum_m c_m x_m then
    changes by at most C max_m c_m with one client. Weights of a mean have a fixed denominator,
    c_m = p_m/E, with the expected sum E of p_m over the replies of a round (the same, equation 1).

    Args:
        method: the method that runs.
        terms: the settings of the run.
    """

    in_arrays: ClassVar[bool] = True

    def __init__(self, method: Wrapped, terms: Terms) -> None:
        super().__init__(method)
        self.terms = terms
        self._begin()

    def _begin(self) -> None:
        self.account = Account(self.terms.bound, self.terms.spec.delta)
        streams = Streams(self.terms.seed)
        self._server_rng, self._count_rng = streams("privacy"), streams("privacy", "count")
        self._streams, self._client_rngs = streams, dict[ClientId, np.random.Generator]()
        self._trees = dict[str, tuple[Tree, Tree]]()
        self.clipped = ClipCounts(self.terms.spec.first_clip)

    def run_notes(self) -> Iterator[tuple[str, str]]:
        """Yield whether a fixed clip has shortened more vectors than one at their median does."""
        if not isinstance(self.terms.spec.clip, AdaptiveClip) and self.clipped.share > 0.5:
            text = f"{self.clipped}, which then count less in the model than without privacy"
            usual = "a clip near the median norm is usual; the noise grows in proportion to it"
            yield "privacy.clip", f"{text}; {usual}"
        yield from super().run_notes()

    @property
    def in_rows(self) -> bool:
        """Whether clients only clip, and add noise of their own, row by row."""
        adapts = isinstance(self.terms.spec.clip, AdaptiveClip)
        return not adapts and self.terms.spec.where != "distributed"

    @property
    def headroom(self) -> int:
        """The bits that ten standard deviations of a client's own noise need beside its vector."""
        if self.terms.spec.where != "distributed":
            return 0
        own = self.terms.spec.noise / self.terms.bound.sample**0.5
        return ceil(log2(1 + 10 * own))

    async def serve(self, server: Server) -> None:
        """Run the method's server, with a new account."""
        self._begin()
        await super().serve(server)

    def server(self, server: Server) -> Server:
        """Return the server, whose sums have noise."""
        return cast("Server", _PrivateServer(server, self))

    def client(self, client: Client[Any]) -> Client[Any]:
        """Return a client that clips what it sends, by the clip of the scenario."""
        return cast("Client[Any]", _PrivateClient(client, self, self.terms.spec.first_clip))

    async def handle(self, client: Client[Any], message: Any) -> Message | Silence:
        """Answer a message as the method does, clipped."""
        if not isinstance(self.terms.spec.clip, AdaptiveClip):
            return await super().handle(client, message)
        # Read from the message: a live client shares nothing else with the server.
        payloads = message.payloads()
        private = _PrivateClient(client, self, float(payloads[-1].values))
        reply = await self.method.handle(private, type(message).__mro__[1](*payloads[:-1]))
        if not isinstance(reply, Message):
            return cast("Silence", reply)
        return _with_field(reply, _WITHIN, Octets(bytes([private.within])))

    def client_noise(self, client: ClientId, shape: tuple[int, ...], deviation: float) -> Array:
        """Return noise of a client's own stream."""
        if client not in self._client_rngs:
            self._client_rngs[client] = self._streams("privacy", client)
        return gaussian(self._client_rngs[client], shape, deviation)

    def server_noise(self, field: str, shape: tuple[int, ...], deviation: float) -> Array:
        """Return noise of the server's stream for the next sum of a field of messages."""
        if not self.terms.bound.tree:
            return gaussian(self._server_rng, shape, deviation)
        nodes, _ = self._trees_of(field)
        replaced, own = nodes.begin(), gaussian(self._server_rng, shape, 1.0)
        nodes.end(own)
        # Sums whose clip or weights differ are one running sum in units of the deviation.
        return np.asarray(deviation * (own - replaced))

    def _trees_of(self, field: str) -> tuple[Tree, Tree]:
        """Return the tree of noise of a field's sums, and that of the clients' contributions."""
        most = self.terms.bound.tree
        return self._trees.setdefault(field, (Tree(most), Tree(most)))

    def noised_count(self, bits: Sequence[bool]) -> float:
        """Return the number of bits that are set, with noise."""
        deviation = self.terms.count_deviation
        return sum(bits) + deviation * float(self._count_rng.standard_normal())

    def spend(
        self, senders_of: Sequence[Reply], ratios: Array, most: float, field: str = ""
    ) -> None:
        """Charge a release; one of a field may have its noise from a tree.

        Raises:
            RunStopped: the epsilon of the scenario does not suffice for it.
        """
        tree = self._trees_of(field)[1] if field and self.terms.bound.tree else None
        if not self.account.charge(senders(senders_of), ratios, most, self.terms.budget, tree):
            raise RunStopped(self._spent("this round"))

    def check_reply(self) -> None:
        """Check that any client may reply once more.

        Raises:
            RunStopped: the epsilon of the scenario does not suffice for it.
        """
        if self.account.after(self.terms.squares) > self.terms.budget:
            raise RunStopped(self._spent("one more reply of a client"))

    def end_round(self) -> None:
        """End a round.

        Raises:
            RunStopped: the epsilon of the scenario does not suffice for one more like it.
        """
        self.account.close()
        if self.account.next_epsilon > self.terms.budget:
            raise RunStopped(self._spent("one more round"))

    def _spent(self, what: str) -> str:
        return (
            f"epsilon: {self.account.epsilon:.6g} of {self.terms.budget:g}; {what} would exceed it"
        )


class _PrivateServer(View):
    """The server of a private run."""

    def __init__(self, server: Server, method: PrivateMethod) -> None:
        super().__init__(server)
        self._method, self._terms = method, method.terms
        self._spec = method.terms.spec
        self._clip = self._next = self._spec.first_clip
        self._clips = dict[int, float]()
        self._asked = self._handed = False

    def coefficients(self, replies: Sequence[Reply]) -> Array:
        """Return p_m/E, whatever the other replies are."""
        return np.asarray(self._terms.weights[senders(replies)] / self._terms.expected)

    def factors(self, replies: Sequence[Reply]) -> Array | float:
        """Return the factors of a sum over all clients, for the expected number of replies."""
        factors: Array | float = self._seen.factors(replies)
        return factors * (len(replies) / self._terms.bound.sample)

    def aggregate(
        self,
        replies: Sequence[Reply],
        field: str,
        weights: Array | None = None,
        *,
        changes: bool = False,
    ) -> Array:
        """Return the sum with noise.

        Raises:
            Failed: the field is a number, which is not clipped.
        """
        self._asked = True
        total: Array = self._seen.aggregate(replies, field, weights, changes=changes)
        if not np.ndim(total):
            raise Failed(f"privacy: {field} is a number, and only vectors are clipped")
        if self._spec.where != "server":
            return total
        terms, noise = self._terms, self._terms.vector_noise
        sizes = np.ones(len(replies)) if weights is None else np.abs(weights)
        largest = float(sizes.max())
        if terms.means and weights is not None and not changes:
            largest = max(largest, float(terms.weights.max()) / terms.expected)
        if self._clips:  # a late reply may have had a larger clip
            sizes = sizes * np.array([self._clips.get(each.round, self._clip) for each in replies])
        else:
            sizes = sizes * self._clip
        unit = terms.fields**-0.5 / noise if noise else inf
        ratios = sizes / (largest * self._clip) * unit
        self._method.spend(replies, ratios, max(unit, float(ratios.max())), field)
        deviation = noise * self._clip * largest
        if not deviation:
            return total
        return total + self._method.server_noise(field, total.shape, deviation)

    async def exchange(
        self,
        message: Message | Mapping[ClientId, Message],
        *,
        to: Sequence[ClientId] | None = None,
        again: Callable[[], Message | Mapping[ClientId, Message]] | None = None,
    ) -> Sequence[Reply]:
        """Exchange messages; with an adaptive clip they carry the clip down, and a bit up."""
        if self._spec.where != "server":
            self._method.check_reply()
        if not isinstance(self._spec.clip, AdaptiveClip):
            replies: Sequence[Reply] = await self._seen.exchange(message, to=to, again=again)
        else:
            renewed = None if again is None else (lambda: self._send_clip(again()))
            asked = self._send_clip(message)
            replies = await self._seen.exchange(asked, to=to, again=renewed)
            self._move_clip(self._spec.clip, replies)
        self._handed = self._handed or bool(replies)
        if self._spec.where != "server" and replies:
            # A noised reply costs epsilon as soon as it is sent, whatever the server does with it.
            ratios = np.full(len(replies), self._terms.squares_of(len(replies)) ** 0.5)
            self._method.account.charge(senders(replies), ratios, float(ratios[0]))
        return replies

    def commit(self, model: Array, **measures: float) -> None:
        """Close the round, with epsilon as a column.

        Raises:
            Failed: the method has received replies, and has never asked for a sum of them.
        """
        if self._handed and not self._asked and self._spec.where == "server":
            text = "the method adds up replies by itself, so that sums have no noise"
            raise Failed(f"privacy: {text}; let it ask for `server.aggregate(replies, field)`")
        figures = {EPSILON: self._method.account.epsilon}
        if isinstance(self._spec.clip, AdaptiveClip):
            figures[CLIP] = self._clip
        self._seen.commit(model, **measures, **figures)
        self._method.end_round()

    def _send_clip(
        self, message: Message | Mapping[ClientId, Message]
    ) -> Message | Mapping[ClientId, Message]:
        clip = self._seen.pack(np.array(self._next), DENSE, _CLIP)
        # As the clients decode it.
        self._clip = self._clips[self._seen.round] = float(clip.values)
        if isinstance(message, Message):
            return _with_field(message, _CLIP, clip)
        return {client: _with_field(one, _CLIP, clip) for client, one in message.items()}

    def _move_clip(self, spec: AdaptiveClip, replies: Sequence[Reply]) -> None:
        if not replies:
            return
        deviation = self._terms.count_deviation
        # A bit minus 1/2 changes the count by at most 1/2.
        most = 0.5 / deviation if deviation else inf
        self._method.spend(replies, np.full(len(replies), most), most)
        bits = [bool(getattr(reply.message, _WITHIN).values[0]) for reply in replies]
        share = self._method.noised_count(bits) / self._terms.bound.sample
        self._next = next_clip(spec, self._clip, share)


class _PrivateClient(View):
    """A client that clips what it sends.

    Attributes:
        within: whether all vectors so far were within the clip.
    """

    def __init__(self, client: Client[Any], method: PrivateMethod, clip: float) -> None:
        super().__init__(client)
        self._method = method
        self._bound = clip * method.terms.fields**-0.5
        self._fixed = not isinstance(method.terms.spec.clip, AdaptiveClip)
        self.within = True

    def pack(self, vector: Array, structure: Structure = DENSE, field: str = "") -> Payload:
        """Pack a vector of at most the clip; see `fedsim.core.ports.Client.pack`."""
        terms = self._method.terms
        norms = norms_of(vector)
        sent = clipped(vector, self._bound, norms)
        if self._fixed:
            self._method.clipped.add(norms * terms.fields**0.5)
        self.within = self.within and sent is vector
        deviation = terms.spec.noise * self._bound / terms.fields**-0.5
        if terms.spec.where == "clients" and deviation:
            return cast(
                "Payload", self._seen.pack(sent + self._noise(sent, deviation), DENSE, field)
            )
        if terms.spec.where == "distributed" and deviation:
            own = deviation / terms.bound.sample**0.5

            law = skellam if terms.spec.law == "skellam" else discrete_gaussian

            def draw(rng: np.random.Generator, shape: tuple[int, ...], scale: float) -> Any:
                return law(rng, shape, own * scale)

            return cast("Payload", self._seen.pack(sent, structure, field, noise=draw))
        return cast("Payload", self._seen.pack(sent, structure, field))

    def _noise(self, vector: Array, deviation: float) -> Array:
        """Return the noise of a client, or of each of a group that is handled together."""
        shape, draw = vector.shape[-1:], self._method.client_noise
        group = getattr(self._seen, "clients", None)
        if group is None:
            return draw(self._seen.id, vector.shape, deviation)
        return np.array([draw(client, shape, deviation) for client in group.tolist()])


# With an adaptive clip, messages have one more payload: the clip on the way down, and on the way up
# whether the client's norm was within it.

_CLIP, _WITHIN = "privacy_clip", "privacy_within"


_DERIVED: dict[tuple[type[Message], str], type[Message]] = {}


def _type_with(kind: type[Message], field: str) -> type[Message]:
    """Return the class of messages with one more field; the same arguments give the same class."""
    if (kind, field) not in _DERIVED:
        more = [(field, Payload)]
        derived = make_dataclass(
            kind.__name__, more, bases=(kind,), frozen=True, slots=True, eq=False
        )
        _DERIVED[kind, field] = derived
    return _DERIVED[kind, field]


def _with_field(message: Message, field: str, payload: Payload) -> Message:
    made: Callable[..., Message] = _type_with(type(message), field)
    return made(*message.payloads(), payload)


def private_types(
    types: Sequence[type[Message]], spec: Privacy | None
) -> tuple[type[Message], ...]:
    """Return the classes of a method's messages, and those that an adaptive clip adds."""
    if spec is None or not isinstance(spec.clip, AdaptiveClip):
        return tuple(types)
    return (*types, *(_type_with(kind, field) for field in (_CLIP, _WITHIN) for kind in types))
