"""FedCOM and FedCOMGATE: local steps with compressed updates, and with gradient tracking.

Haddadpour, Kamani, Mokhtari, Mahdavi, "Federated Learning with Compression: Unified Analysis
and Sharp Guarantees", AISTATS 2021 (FedCOM, Algorithm 1; FedCOMGATE, Algorithm 2). Both minimise
f = sum_i p_i f_i (the paper: p_i = 1/m) with an unbiased compressor Q. In a round client i starts
at v_i = w and takes K stochastic gradient steps v_i <- v_i - eta (g_i(v_i) - delta_i). Then

    Delta_i = Q((w - v_i)/eta),    Delta = sum_i p_i Delta_i,    w <- w - gamma eta Delta,
    FedCOM: delta_i = 0;           FedCOMGATE: delta_i <- delta_i + (Delta_i - Delta)/K,

with delta_i = 0 at first. The weighted sum of the delta_i of FedCOMGATE is 0, so it converges to
the optimum of f, while FedCOM with K > 1 converges to a point near it. Delta_i in the last line is
the decoded vector that the server received, compression error included: otherwise the sum of the
delta_i would not stay 0. So a correction changes by the whole compressed difference, and converges
for omega < 1 only.

FedCOM supports any cohort, and treats late updates like others. Updates are added up, so error
feedback can replace an unbiased compressor: under `ef` FedCOM with gamma = 1 is Qsparse-local-SGD
(Basu, Data, Karakus, Diggavi, NeurIPS 2019, Algorithm 1), for any contractive C. FedCOMGATE does
not support error feedback: its Delta_i is K times the difference between the mean gradient and
delta_i, so the next difference already contains the error, and feedback would count it twice.

FedCOMGATE broadcasts Delta together with w: w may be compressed, but Delta is sent exactly. A round
with a missing or late client changes w but no delta_i, since otherwise their sum would not stay
zero. A client that has missed broadcasts has to know whether its last round changed the delta_i: so
the message has a turn, a number that changes whenever Delta does.

Round t stands for the model after aggregation.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from math import hypot
from typing import ClassVar, Literal

import numpy as np
from pydantic import Field

from fedsim.algorithms.base import Combines, Memory, ProblemInfo
from fedsim.algorithms.concerns import EXCESS, Concern, at_most, concern
from fedsim.algorithms.local_steps import LocalSteps, Model, Progress, mean, of_this_round
from fedsim.algorithms.local_training import local_step_concern
from fedsim.core.ports import Array, Client, Meaning, Message, Payload, Server

SOURCE = "Haddadpour et al.: Federated Learning with Compression, AISTATS 2021"


class FedCom(LocalSteps[Memory]):
    """FedCOM: compressed sums of local gradients, with a server step size."""

    kind: Literal["fedcom"] = "fedcom"
    combines: ClassVar[Combines] = "mean"
    messages: ClassVar[tuple[type[Message], ...]] = (Model, Progress)
    source: ClassVar[str] = f"{SOURCE}, algorithm 1"
    unbiased: ClassVar[tuple[Literal["up", "down"], ...]] = ("up",)

    server_rate: float = Field(default=1.0, gt=0, description="gamma, the server's step size")

    def concerns(self, info: ProblemInfo) -> Iterator[Concern]:
        """Yield a concern if the steps are longer than the theorems allow."""
        if info.uplink.kind not in ("exact", "unbiased"):  # Basu et al. give other conditions
            return
        spread = (info.uplink.constant / info.clients + 1) * self.server_rate
        local = self.local_steps * info.largest_smoothness * self.eta
        load = local * (local + spread)
        if load > 1 + EXCESS:
            text = (
                f"got {self.eta:.4g}, with which K^2 L^2 eta^2 + (omega/M + 1) K L eta gamma ="
                f" {load:.3g}; the theorems of Haddadpour et al. 2021 for homogeneous clients"
                " allow at most 1"
            )
            # `local` may be at most the positive root of x^2 + spread x = 1, in a form without
            # cancellation.
            root = 2 / (spread + hypot(spread, 2))
            yield concern("step_size", text, at_most(self.eta * root / local))

    async def serve(self, server: Server) -> None:
        """Run the server of FedCOM."""
        w = server.initial
        while True:
            replies = await server.exchange(Model(server.pack(w)))
            if replies:
                w = w - self.server_rate * self.eta * mean(server, replies, "delta")
            server.commit(w)

    async def handle(self, client: Client, message: Model) -> Progress:
        """Run a client of FedCOM."""
        return await self.progress(client, message.w.values, 0.0)

    async def progress(self, client: Client, w: Array, delta: Array | float) -> Progress:
        """Return the compressed sum of K steps from `w` along gradients minus `delta`."""
        v = w
        for _ in range(self.local_steps):
            v = v - self.eta * (await client.compute(self.gradient(client, v)) - delta)
        return Progress(client.pack((w - v) / self.eta))


@dataclass(frozen=True, slots=True)
class Tracked(Message):
    """Server to client: the model w, the last Delta of all clients, and its turn, 0 or 1."""

    w: Payload
    delta: Payload
    turn: Payload


@dataclass(slots=True)
class Tracker:
    """A client's state between rounds.

    Attributes:
        delta: delta_i, shape (d,).
        own: the Delta_i of its last message, shape (d,).
        turn: the turn of the last received Delta.
    """

    delta: Array
    own: Array
    turn: float = 0.0

    def after(self, message: Tracked, steps: int) -> Array:
        """Return delta_i after a message; it changes if the client's last Delta_i was counted."""
        if float(message.turn.values) == self.turn:
            return self.delta
        return self.delta + (self.own - message.delta.values) / steps


class FedComGate(FedCom[Tracker]):
    """FedCOMGATE: FedCOM whose clients correct their steps by their difference from the mean."""

    kind: Literal["fedcomgate"] = "fedcomgate"  # type: ignore[assignment]  # each has its own name
    messages: ClassVar[tuple[type[Message], ...]] = (Tracked, Progress)
    source: ClassVar[str] = f"{SOURCE}, algorithm 2"
    uplink: ClassVar[Mapping[str, Meaning]] = {"": Meaning.ESTIMATE}
    downlink: ClassVar[Mapping[str, Meaning]] = {"": Meaning.STATE, "delta": Meaning.EXACT}
    synchronous: ClassVar[str] = "a client's difference from the mean belongs to one round"
    full_participation: ClassVar[str] = (
        "the corrections of fedcomgate add up to zero only with full participation; use fedcom, or"
        " scaffold"
    )

    def concerns(self, info: ProblemInfo) -> Iterator[Concern]:
        """Yield a concern if the corrections cannot converge, or a local step exceeds 1/L_max."""
        omega = info.uplink.constant
        if omega > 1:
            text = (
                f"got a compressor of omega = {omega:.3g} on the uplink, but a correction changes"
                " by the whole compressed difference, whose error exceeds it for omega above 1, so"
                " that corrections grow (DIANA uses 1/(1 + omega) of it)"
            )
            yield Concern("kind", text)
        yield from local_step_concern(self.eta, info.largest_smoothness, "L_max")

    def memory(self, initial: Array) -> Tracker:
        """Return a client's initial state: delta_i = 0."""
        return Tracker(np.zeros_like(initial), np.zeros_like(initial))

    async def serve(self, server: Server) -> None:
        """Run the server of FedCOMGATE."""
        w, delta, turn = server.initial, np.zeros_like(server.initial), 0.0
        while True:
            tracking = server.pack(delta, field="delta"), server.pack(np.array(turn))
            replies = await server.exchange(Tracked(server.pack(w), *tracking))
            replies = of_this_round(server, replies)
            if replies:
                step = mean(server, replies, "delta")
                w = w - self.server_rate * self.eta * step
                if len(replies) == len(server.clients):
                    delta, turn = step, 1.0 - turn
            server.commit(w)

    async def handle(  # type: ignore[override]
        self, client: Client[Tracker], message: Tracked
    ) -> Progress:
        """Run a client of FedCOMGATE."""
        tracker = client.state
        delta = tracker.after(message, self.local_steps)
        progress = await self.progress(client, message.w.values, delta)
        tracker.delta, tracker.own = delta, progress.delta.values
        tracker.turn = float(message.turn.values)
        return progress
