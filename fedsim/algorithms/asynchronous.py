"""Asynchronous servers, which update the model as replies arrive: FedAsync and FedBuff.

Xie, Koyejo, Gupta, "Asynchronous Federated Optimization", 2019 (FedAsync, Algorithm 1); Nguyen,
Malik, Zhan, Yousefpour, Rabbat, Malek, Huba, "Federated Learning with Buffered Asynchronous
Aggregation", AISTATS 2022 (FedBuff, Algorithm 1). Both need

    participation: {kind: asynchronous, buffer: K, concurrency: C},

under which a round consists of K arrivals, and stands for the model after them. As in both papers,
the staleness u of a reply is the number of steps that the server has taken since it sent the model
to this client; an abandoned round is not a step. The column `staleness` of the round table has the
mean staleness of each round, NaN if no reply arrived.

FedAsync mixes models, w <- (1 - a) w + a w_i with a = alpha s(u), one arrival after the other. A
client takes local steps on f_i + rho/2 |. - w|^2, where w is the received model. In the paper K is
1. A lossy compressor would be applied to whole models; use `error_feedback: ef21`, with which a
client sends the change since its last model.

FedBuff adds up updates, w <- w + eta_g/K sum_i M p_i Delta_i/sqrt(1 + u_i). In its paper all
clients have equal weight; the factor M p_i is 1 for equal shares, and otherwise leads to f = sum_i
p_i f_i.
"""

from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from math import nan
from statistics import fmean
from typing import ClassVar, Literal, Self

import numpy as np
from pydantic import Field, model_validator

from fedsim.algorithms.base import Combines, ProblemInfo
from fedsim.algorithms.concerns import Concern
from fedsim.algorithms.local_steps import LocalModel, Model
from fedsim.algorithms.local_training import Kept, LocalUpdates
from fedsim.core.blocks.nature import Nature
from fedsim.core.ports import Client, Meaning, Message, Reply, Server
from fedsim.wire import senders

_SHAPES: dict[str, dict[str, float]] = {
    "constant": {},
    "polynomial": {"a": 0.5},
    "hinge": {"a": 10.0, "b": 4.0},
}
"""The parameters of each s(u), as in the experiments of Xie et al."""


class Staleness:
    """Counts the steps of a server, and those since a given round.

    A model is sent in the round after its step, and again in the next rounds if that round is
    abandoned: all of these are rounds of the same model, so a difference of round numbers would
    count too many steps.
    """

    def __init__(self) -> None:
        self._last: list[int] = []  # the last round in which each model was sent

    def of(self, server: Server, replies: Sequence[Reply]) -> list[int]:
        """Return u for each reply of a closed exchange, and count the server's step."""
        steps = [len(self._last) - bisect_left(self._last, reply.round) for reply in replies]
        if replies:
            self._last.append(server.round)
        return steps


def _mean(staleness: Sequence[int]) -> float:
    return fmean(staleness) if staleness else nan


class FedAsync(LocalUpdates):
    """FedAsync: the server mixes every received model into its own, stale ones with less weight."""

    kind: Literal["fedasync"] = "fedasync"
    messages: ClassVar[tuple[type[Message], ...]] = (Model, LocalModel)
    source: ClassVar[str] = (
        "Xie, Koyejo, Gupta: Asynchronous Federated Optimization, 2019, algorithm 1"
    )
    asynchronous: ClassVar[bool] = True
    combines: ClassVar[Combines] = "own"
    uplink: ClassVar[Mapping[str, Meaning]] = {"": Meaning.STATE}

    alpha: float = Field(default=0.6, gt=0, le=1, description="alpha, the weight of a fresh model")
    rho: float = Field(default=0.0, ge=0, description="the weight of |w - w_t|^2/2 in local steps")
    staleness: Literal["constant", "polynomial", "hinge"] = Field(
        default="polynomial",
        description="s(u): 1; (u + 1)^-a; or 1 while u <= b, then 1/(a (u - b) + 1)",
    )
    a: float | None = Field(
        default=None, gt=0, description="a of s(u); 0.5 for polynomial and 10 for hinge if null"
    )
    b: float | None = Field(default=None, ge=0, description="b of s(u); 4 for hinge if null")

    @model_validator(mode="after")
    def _known_shape(self) -> Self:
        for name in ("a", "b"):
            if getattr(self, name) is not None and name not in _SHAPES[self.staleness]:
                raise ValueError(f"staleness: {self.staleness} has no {name}; leave it out")
        return self

    def freshness(self, u: int) -> float:
        """Return s(u) in (0, 1], the relative weight of a model that is u steps old.

        >>> hinge = FedAsync(step_size=1, staleness="hinge", a=0.5, b=2)
        >>> hinge.freshness(2), hinge.freshness(4)
        (1.0, 0.5)
        """
        if self.staleness == "constant":
            return 1.0
        if self.staleness == "polynomial":
            return float((u + 1.0) ** -self._parameter("a"))
        late = max(u - self._parameter("b"), 0.0)
        return 1.0 / (self._parameter("a") * late + 1.0)

    def _parameter(self, name: Literal["a", "b"]) -> float:
        """Return a parameter of s(u); by default that of the paper's experiments."""
        given: float | None = getattr(self, name)
        return _SHAPES[self.staleness][name] if given is None else given

    @property
    def takes_means(self) -> bool:
        """Whether the server's models are means of clients' models: if alpha is at most 1."""
        return self.alpha <= 1

    @property
    def pull(self) -> float:
        """rho, for local steps on f_i(w) + rho/2 |w - w_t|^2."""
        return self.rho

    def natures(self) -> Iterator[tuple[str, Nature]]:
        """Yield a nature: models are mixed in one by one."""
        yield from super().natures()
        yield "kind", Nature(apart="got fedasync, whose server mixes in models one by one")

    def concerns(self, info: ProblemInfo) -> Iterator[Concern]:
        """Yield a concern if a local step is longer than 1/(L_max + rho)."""
        yield from self.step_concerns(info.largest_smoothness + self.rho, "(L_max + rho)")

    async def serve(self, server: Server) -> None:
        """Run the server: mix received models, one after the other."""
        w, staleness = server.initial, Staleness()
        while True:
            replies = await server.exchange(Model(server.pack(w)))
            steps = staleness.of(server, replies)
            for reply, u in zip(replies, steps, strict=True):
                alpha = self.alpha * self.freshness(u)
                w = (1 - alpha) * w + alpha * reply.message.w.values
            server.commit(w, staleness=_mean(steps))

    async def handle(self, client: Client[Kept], message: Model) -> LocalModel:
        """Run a client: take local steps, and send the model."""
        return LocalModel(client.pack(await self.descend(client, message.w.values)))


class FedBuff(LocalUpdates):
    """FedBuff: the server takes a step for a buffer of updates, with stale ones scaled down.

    The sizes of the buffer and of the clients at work at a time are keys of `participation`, such
    as `participation: {kind: asynchronous, buffer: 10, concurrency: 50}`.
    """

    kind: Literal["fedbuff"] = "fedbuff"
    combines: ClassVar[Combines] = "sum"
    source: ClassVar[str] = (
        "Nguyen et al.: Federated Learning with Buffered Asynchronous Aggregation, AISTATS 2022,"
        " algorithm 1"
    )
    asynchronous: ClassVar[bool] = True

    server_rate: float = Field(default=1.0, gt=0, description="eta_g, the server's step size")

    async def serve(self, server: Server) -> None:
        """Run the server: one step for every full buffer."""
        w, staleness = server.initial, Staleness()
        while True:
            replies = await server.exchange(Model(server.pack(w)))
            steps = staleness.of(server, replies)
            if replies:
                weights = server.weights[senders(replies)] * server.factors(replies)
                fresh = weights / np.sqrt(1.0 + np.array(steps))
                w = w + self.server_rate * server.aggregate(replies, "delta", fresh)
            server.commit(w, staleness=_mean(steps))
