"""DiLoCo: many local steps of AdamW, then a server step with Nesterov's momentum; and streaming.

Douillard et al., "DiLoCo: Distributed Low-Communication Training of Language Models", 2023
(Algorithm 1); Douillard, Donchev, Rush, Kale, Charles, Garrett, Teston, Lacey, McIlroy, Shen, Rame,
Szlam, Ranzato, Barham, "Streaming DiLoCo with Overlapping Communication: Towards a Distributed Free
Lunch", 2025 (Algorithm 2).

DiLoCo is FedOpt (`fedsim.algorithms.adaptive`) with H = `local_steps` steps of AdamW at the
clients, whose state they keep, and SGD with Nesterov's momentum 0.9 and eta_g = 0.7 at the server.

Streaming DiLoCo cuts the model into P parts, the fragments. A client keeps its model from round to
round. In round t = 1, 2, ... it takes K = `local_steps` local steps, and then sends only fragment
p = (t - 1) mod P. So every fragment is synchronised once in H = P K steps, one after the other:

    Delta_i = w_i[p] - u[p], u[p] the server's fragment that client i received last;
    u[p] takes the server's step with the gradient -sum_i p_i Delta_i.

While its fragment travels up and the server's new one travels down, a client takes the first V =
`overlap` steps of the next round, on all fragments. Then it mixes the server's fragment into its
own, with alpha = `blend`:

    w_i[p] <- alpha w_i[p] + (1 - alpha) u[p].

With V = 0, or if these steps were cancelled, w_i[p] <- u[p]. A client that takes part for the first
time receives the whole model. A client that has missed rounds receives the fragments of these
rounds, which replace its own. A late update counts at the next turn of its fragment.

The paper sends 4 bits per value, as floats (E3M0): `wire: {up: {compressor: e3m0}}`; four bits with
unbiased, uniform levels are `{kind: dithered, bits: 4}`. The paper's workers exchange updates among
themselves; here the server sends the fragments, uncompressed, in `wire.values`. The paper's
fragments are whole layers of a transformer; here they are equal shares of the vector of all
parameters, in their order.
"""

from collections import defaultdict
from collections.abc import Awaitable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar, Literal, Self

import numpy as np
from pydantic import Field, NonNegativeInt, model_validator

from fedsim.algorithms.adaptive import FedOpt
from fedsim.algorithms.base import ProblemInfo
from fedsim.algorithms.local_steps import mean
from fedsim.algorithms.local_training import KeptOptimizer, Update
from fedsim.core.blocks.spec import as_written
from fedsim.core.errors import ParameterError
from fedsim.core.ports import Array, Client, ClientId, Meaning, Message, Payload, Reply, Server
from fedsim.problems.optimizers import AnyOptimizer, GivenOptimizer

_Inner = as_written({"kind": "adamw"}, "the rule of the clients' steps; null: plain gradient steps")
_InnerState: Any = Field(  # Any: a Literal takes no str
    default="kept",
    description=(
        "state of a client's optimizer at the start of a round: reset, or kept in the"
        " client's memory from its last round"
    ),
)
_OuterRate = Field(default=0.7, gt=0, description="eta_g, the server's step size")
_Outer = as_written(
    {"kind": "sgd", "momentum": 0.9, "nesterov": True},
    "the rule of the server's step, with -Delta as the gradient",
)


class DiLoCo(FedOpt):
    """DiLoCo: local steps of AdamW, and Nesterov's momentum at the server."""

    kind: Literal["diloco"] = "diloco"  # type: ignore[assignment]  # each has its own name
    source: ClassVar[str] = (
        "Douillard et al.: DiLoCo: Distributed Low-Communication Training of Language Models, 2023,"
        " algorithm 1"
    )

    optimizer: AnyOptimizer = _Inner
    optimizer_state: Literal["reset", "kept"] = _InnerState
    server_rate: float = _OuterRate
    server_optimizer: AnyOptimizer = _Outer


@dataclass(frozen=True, slots=True)
class Fragments(Message):
    """Server to client: the fragments that the client lacks, in the order of the model."""

    w: Payload


class Replica(KeptOptimizer):
    """A client's memory: its model, which it keeps from round to round.

    Attributes:
        w: the model, shape (d,); None before the client's first round.
        received: the server's model as far as the client knows it, shape (d,).
        ahead: the number of steps of the next round that the client has taken.
        round: the number of the client's last round.
    """

    __slots__ = ("ahead", "received", "round", "w")

    def __init__(self) -> None:
        super().__init__()
        self.w: Array | None = None
        self.received: Array
        self.ahead = self.round = 0


class StreamingDiLoCo(FedOpt):
    """Streaming DiLoCo: fragments of the model are synchronised in turns, while clients train."""

    kind: Literal["streaming-diloco"] = "streaming-diloco"  # type: ignore[assignment]
    asks: ClassVar[Literal["loss", "steps", "program"]] = "loss"
    messages: ClassVar[tuple[type[Message], ...]] = (Fragments, Update)
    downlink: ClassVar[Mapping[str, Meaning]] = {"": Meaning.EXACT}
    handles_rows: ClassVar[bool] = False
    synchronous: ClassVar[str] = "a fragment's step takes the replies of the clients in its turn"
    source: ClassVar[str] = (
        "Douillard et al.: Streaming DiLoCo with Overlapping Communication: Towards a Distributed"
        " Free Lunch, 2025, algorithm 2"
    )

    optimizer: AnyOptimizer = _Inner
    optimizer_state: Literal["reset", "kept"] = _InnerState
    server_rate: float = _OuterRate
    server_optimizer: AnyOptimizer = _Outer
    fragments: int = Field(default=4, ge=1, le=16, description="P, the parts of the model")
    overlap: NonNegativeInt = Field(
        default=1,
        description=(
            "V, local steps (K at most) between sending a fragment and mixing in the"
            " server's; they hide the travel time of both"
        ),
    )
    blend: float = Field(
        default=0.5,
        ge=0,
        le=1,
        description="alpha, the weight of a client's own fragment when the server's is mixed in",
    )

    @model_validator(mode="after")
    def _one_stream(self) -> Self:
        if self.epochs or self.local_epochs:
            key = "epochs" if self.epochs else "local_epochs"
            raise ValueError(f"{key}: got one, but fragments follow in steps; give local_steps")
        if self.overlap > self.local_steps:
            text = f"got {self.overlap}, but the next fragment is sent after local_steps"
            raise ValueError(f"overlap: {text} = {self.local_steps}; give that or less")
        if self.optimizer and self.optimizer.moments and self.optimizer_state == "reset":
            text = "got reset, but a client never begins anew"
            raise ValueError(f"optimizer_state: {text}; give kept")
        if self.server_rule.whole:
            text = f"got {self.server_rule.kind}, which moves whole models, not fragments"
            raise ValueError(f"server_optimizer: {text}; give sgd with nesterov, say")
        if isinstance(self.optimizer, GivenOptimizer) and self.optimizer.scheduled:
            text = f"{self.optimizer.name} has a schedule of its own, which counts whole rounds"
            raise ValueError(f"optimizer: {text}; give `schedule`")
        return self

    def configure(self, info: ProblemInfo) -> Self:
        """Return a copy whose step size is a number; errors as for `Algorithm.configure`."""
        if self.fragments > info.dimension:
            text = f"got {self.fragments}, but the model has {info.dimension} values"
            raise ParameterError("fragments", f"{text}; give that or less")
        if info.downlink.kind != "exact":
            text = f"got {self.kind} with wire.down.compressor, but fragments are sent as they are"
            raise ParameterError("kind", f"{text}; give wire.values")
        return super().configure(info)

    def memory(self, initial: Array) -> Replica:
        """Return the client's state; the first message brings its model."""
        return Replica()

    def kept_values(self, dimension: int) -> int:
        """Return the size of the optimizer's state, the model and the received model."""
        return super().kept_values(dimension) + 2 * dimension

    def work_notes(
        self, rows: Sequence[int], dimension: int, sent: int
    ) -> Iterator[tuple[Literal["clients", "server"], str]]:
        """Yield the period of synchronisation, and the cost of a server step on one fragment."""
        period, most = self.fragments * self.local_steps, -(-sent // self.fragments)
        text = (
            f"each of {self.fragments} fragments, {most} values or one less, is synchronised every"
            f" {period} local steps; {self.overlap} of {self.local_steps} steps overlap with that"
        )
        yield "clients", text
        yield from super().work_notes(rows, dimension, most)

    def part(self, number: int, dimension: int) -> slice:
        """Return the range of the model that is sent in a round, numbered from 1.

        >>> StreamingDiLoCo(step_size=1, fragments=3).part(2, 10)
        slice(3, 6, None)
        """
        p = self.turn(number)
        return slice(p * dimension // self.fragments, (p + 1) * dimension // self.fragments)

    def turn(self, number: int) -> int:
        """Return the number p of the fragment that is sent in a round, from 1."""
        return (number - 1) % self.fragments

    def before(self, number: int, count: int) -> list[int]:
        """Return the last `count` rounds before a round, in the order of their fragments.

        Args:
            number: the number of the round.
            count: P at most.
        """
        return sorted(range(number - count, number), key=self.turn)

    # -- the server --------------------------------------------------------------------

    async def serve(self, server: Server) -> None:
        """Run the server: a step of one fragment a round."""
        w, rule = server.initial, self.server_rule
        states = [rule.begin(w[self.part(p + 1, w.size)]) for p in range(self.fragments)]
        latest: dict[ClientId, int] = {}  # the last round to which a client has replied
        waiting: dict[int, list[Reply]] = defaultdict(list)  # by fragment
        while True:
            news = partial(self._news, server, w, latest)
            for reply in await server.exchange(news(), again=news):
                latest[reply.client] = max(reply.round, latest.get(reply.client, 0))
                waiting[self.turn(reply.round)].append(reply)
            p, part = self.turn(server.round), self.part(server.round, w.size)
            if replies := waiting.pop(p, None):
                w, g = w.copy(), -mean(server, replies, "delta")
                rule.step(w[part], g, self.rate(server.round), states[p])
            server.commit(w)

    def _news(
        self, server: Server, w: Array, latest: dict[ClientId, int]
    ) -> Message | dict[ClientId, Message]:
        """Return the fragments that clients lack: one message if all lack the same."""
        number, most = server.round, self.fragments
        lacks = {m: min(number - latest.get(m, -most), most) for m in server.clients}
        messages: dict[int, Message] = {}
        for count in sorted(set(lacks.values())):
            parts = [w[self.part(earlier, w.size)] for earlier in self.before(number, count)]
            messages[count] = Fragments(server.pack(np.concatenate(parts)))
        if len(messages) == 1:
            return messages.popitem()[1]
        return {m: messages[count] for m, count in lacks.items()}

    # -- a client ----------------------------------------------------------------------

    async def handle(self, client: Client[Replica], message: Fragments) -> Update:  # type: ignore[override]
        """Run a client: mix in the received fragments, finish the round, and send a fragment."""
        replica, number = client.state, client.round
        w, received = self._mix(replica, message.w.values, number)
        if replica.ahead < self.local_steps:
            w = await self._go(client, w, replica.ahead, self.local_steps, number)
        replica.w, replica.received, replica.ahead, replica.round = w, received, 0, number
        part = self.part(number, w.size)
        field = f"fragment-{self.turn(number)}" if self.fragments > 1 else ""
        return Update(client.pack(w[part] - received[part], field=field))

    def _mix(self, replica: Replica, news: Array, number: int) -> tuple[Array, Array]:
        """Return the client's model after a message, and its copy of the server's model."""
        if replica.w is None:
            return news, news
        w, received, count, at = replica.w.copy(), replica.received.copy(), 0, 0
        sizes = [w[self.part(number - back, w.size)].size for back in range(1, self.fragments + 1)]
        # How many fragments the message holds follows from its length.
        while sum(sizes[:count]) < news.size:
            count += 1
        for earlier in self.before(number, count):
            part = self.part(earlier, w.size)
            fragment, at = news[at : at + w[part].size], at + w[part].size
            if earlier >= replica.round:  # the client has already received older ones
                kept = self.blend if replica.ahead and earlier == replica.round else 0.0
                w[part] = kept * w[part] + (1 - kept) * fragment
                received[part] = fragment
        return w, received

    def _go(
        self, client: Client[Replica], w: Array, begin: int, end: int, number: int
    ) -> Awaitable[Array]:
        """Compute the model after steps `begin` to `end` of a round, which are counted from 0."""
        plan = self.plan(client.oracle.rows, number)
        plan = plan._replace(draws=end - begin, before=begin, after=self.local_steps - end)
        return self.follow(client, w, plan)

    async def afterwards(self, client: Client[Replica]) -> None:
        """Begin the next round while the fragment travels up and the new one down."""
        replica = client.state
        if replica.w is not None and replica.ahead < self.overlap:
            replica.w = await self._go(
                client, replica.w, replica.ahead, self.overlap, replica.round + 1
            )
            replica.ahead = self.overlap
