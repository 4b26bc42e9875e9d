"""Switching gradients: steps on the objective while a constraint holds, else on the constraint.

Upadhyay, Moon, Hashemi, "Switching Gradient Methods for Constrained Federated Optimization",
2025 (FedSGM). It minimises f = sum_j p_j f_j subject to g = sum_j p_j g_j <= 0, up to a tolerance
eps (the paper: p_j = 1/n). In round t

    every client sends g_j(w_t), and receives g(w_t), a number each;
    s = 1{g > eps} (hard), or s = min(1, max(0, 1 + beta (g - eps))) (soft), beta = 2/eps;
    v <- v - eta ((1 - s) grad f_j(v) + s grad g_j(v)),  E times from v = w_t;
    every client sends C((w_t - v)/eta), and the server computes w_{t+1} = w_t - eta mean_j.

The numbers are real messages, so a round has two exchanges, and takes the latency of both.

Round t ends with w_{t+1}. The columns `seen_constraint` and `switch` are g(w_t) and s, of the model
that clients received in this round. With `output: average` the model of a round is the mean of the
models w_0, ..., w_t whose constraint is known by then, with the weights 1 - s, which for hard
switching is the mean over the near-feasible rounds. The theorem is about that mean. Until the first
near-feasible round, the last iterate is used in its place.

The paper does not cover a compressed downlink or partial participation. If only some clients reply,
their weights are scaled to add up to one; replies to an earlier round are not counted. The step
size and the tolerance of the paper's theorem are in this module, too (`Theorem`).

The gap of a round is f less the least f with g <= eps. A model that breaks the constraint may have
a smaller f than that. So a round has reached a target only if its model is feasible, too: g exceeds
eps by 1 % of it at most (columns `constraint` and `feasible`). A feasible model with g > eps may
have a gap below 0.

One exchange per round (`StaleFedSGM`): clients switch by the last known value of the constraint.
With w_t they receive the server's present estimate of g, and answer with g_j(w_t) and their steps
together:

    the server estimates g = sum_j p_j g_j by the last g_j received from each client, with the p_j
    of the clients that have sent one scaled to add up to one; s = s(g); client j computes g_j(w_t),
    and E steps v <- v - eta ((1 - s) grad f_j(v) + s grad g_j(v)); the server computes
    w_{t+1} = w_t - eta mean_j C((w_t - v)/eta).

Such a round takes one latency, and replies of different rounds may be combined: late steps count,
and a server may be asynchronous. If there is no estimate yet, in round 1, clients answer with g_j
alone. The estimate is one round old, or as old as the reply of the slowest client: the constraint
is met later, and exceeded by more. The paper's theorem is about the current g; it does not cover
this variant.

`seen_constraint` is the estimate of g after the replies of the round.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import nan, sqrt
from typing import ClassVar, Literal, NamedTuple, Self

import numpy as np
from pydantic import Field, PositiveFloat, model_validator

from fedsim.algorithms.base import Algorithm, Combines, ProblemInfo, StepSize
from fedsim.algorithms.concerns import Concern, at_least, at_most, concern
from fedsim.algorithms.local_steps import Average, Model, Progress, mean, of_this_round
from fedsim.core.blocks.nature import Nature
from fedsim.core.blocks.spec import Spec
from fedsim.core.blocks.wording import join_names
from fedsim.core.errors import ParameterError
from fedsim.core.ports import Array, Client, ClientId, Message, Payload, Reply, Server
from fedsim.problems import Problem, Reference, constrained_optimum
from fedsim.wire import COMPRESSORS

# The step size and the tolerance of FedSGM's theorem, and its limits.
#
# Upadhyay, Moon, Hashemi 2025, theorem 1: with D = |w_1 - w*|, a bound G on all gradients, T rounds
# of E local steps, n clients and an unbiased compressor with E|C(v) - v|^2 <= q |v|^2,
#
#     Gamma = 2 E^2 + E q/(2n),    eta = sqrt(D^2/(2 G^2 E T Gamma)),
#     eps = sqrt(2 D^2 G^2 Gamma/(E T)), twice that for soft switching, with beta = 2/eps.
#
# The mean of the models of the near-feasible rounds then has f - f* <= eps and g <= eps.
#
# Without compression (q = 0) smaller constants suffice, as derived here: Gamma = E/2, so that eps =
# D G/sqrt(T) for any E. Let h_j be f_j in a round with steps on f, and g_j in one with steps on g.
# A client's k-th step starts at v_k with |v_k - w_t| <= eta k G, so h_j(v_k) >= h_j(w_t) - eta k
# G^2, and
#
#     |v_{k+1} - w*|^2 <= |v_k - w*|^2 - 2 eta (h_j(v_k) - h_j(w*)) + eta^2 G^2.
#
# The sum over E steps gives 2 eta E (h_j(w_t) - h_j(w*)) <= |w_t - w*|^2 - |v_E - w*|^2 + eta^2 G^2
# E^2; for the mean over clients |w_{t+1} - w*|^2 <= mean_j |v_E - w*|^2, since the square is
# convex; and the mean over T rounds is at most D^2/(2 eta E T) + eta G^2 E/2, whose minimum over
# eta is eps. With soft switching a round has (1 - s) (f - f*) + s g in place of h, and s > 0 only
# if g > eps/2, so twice the tolerance suffices, as in the theorem.

WHERE = "(Upadhyay, Moon, Hashemi 2025, theorem 1)"

_EXCESS = 1 + 1e-9


class Constants(NamedTuple):
    """The constants of the theorem.

    Attributes:
        step_size: eta.
        tolerance: eps.
    """

    step_size: float
    tolerance: float


class Theorem(Spec):
    """Constants of the problem for the theorem, which only the user can supply."""

    diameter: float = Field(
        gt=0, description="D, the distance of the initial model from the optimum"
    )
    lipschitz: float = Field(gt=0, description="G, a bound on the norm of all gradients")
    rounds: int = Field(ge=1, description="T, the number of rounds of the mean")

    def constants(self, steps: int, q: float, clients: int, *, soft: bool) -> Constants:
        """Return eta and eps; q = 0 means no compression.

        >>> Theorem(diameter=2.0, lipschitz=3.0, rounds=64).constants(1, 0.0, 10, soft=False)
        Constants(step_size=0.08333333333333333, tolerance=0.75)
        """
        gamma = 2 * steps**2 + steps * q / (2 * clients) if q else steps / 2
        eta = self.diameter / (self.lipschitz * sqrt(2 * steps * self.rounds * gamma))
        eps = self.diameter * self.lipschitz * sqrt(2 * gamma / (steps * self.rounds))
        return Constants(eta, 2 * eps if soft else eps)


def concerns(taken: Constants, allowed: Constants) -> Iterator[Concern]:
    """Yield concerns if the step is longer, or the tolerance smaller, than the theorem's."""
    if taken.step_size > allowed.step_size * _EXCESS:
        text = (
            f"got {taken.step_size:.4g}, but the theory's step is {allowed.step_size:.4g} {WHERE}"
        )
        yield concern("step_size", text, at_most(allowed.step_size))
    if taken.tolerance * _EXCESS < allowed.tolerance:
        text = (
            f"got {taken.tolerance:.4g}, but the theory guarantees no less than"
            f" {allowed.tolerance:.4g} in this number of rounds {WHERE}"
        )
        yield concern("tolerance", text, at_least(allowed.tolerance))


def beyond(info: ProblemInfo) -> Iterator[Concern]:
    """Yield concerns for settings that the theorem does not cover."""
    theory = "the convergence theory of fedsgm assumes"
    if info.uplink.kind not in ("exact", "unbiased"):
        text = f"the compressor on the uplink is {info.uplink.kind}, and not unbiased, as"
        yield Concern("kind", f"{text} {theory} {WHERE}")
    if info.downlink.kind != "exact":
        text = f"{theory} an exact downlink; this scenario compresses it"
        yield Concern("kind", f"{text} {WHERE}")
    if info.cohort_size is not None:
        text = f"{theory} that all clients take part; this scenario samples them"
        yield Concern("kind", f"{text} {WHERE}")
    largest, equal = float(info.shares.max()), 1 / info.clients
    if largest > equal * _EXCESS:
        text = f"{theory} equal clients, each with 1/n = {equal:.3g} of the samples"
        yield Concern("kind", f"{text}; one has {largest:.3g} {WHERE}")


@dataclass(frozen=True, slots=True)
class Constraint(Message):
    """Client to server: g_j(w_t)."""

    g: Payload


@dataclass(frozen=True, slots=True)
class MeanConstraint(Message):
    """Server to client: g(w_t)."""

    g: Payload


@dataclass(slots=True)
class SwitchingState:
    """A client's state between the two exchanges of a round.

    Attributes:
        w: w_t, shape (d,).
    """

    w: Array


class FedSGM(Algorithm[SwitchingState]):
    """FedSGM: local steps on the objective, or on the constraint while it is violated."""

    kind: Literal["fedsgm"] = "fedsgm"
    combines: ClassVar[Combines] = "mean"
    messages: ClassVar[tuple[type[Message], ...]] = (Model, MeanConstraint, Constraint, Progress)
    source: ClassVar[str] = (
        "Upadhyay, Moon, Hashemi: Switching Gradient Methods for Constrained Federated"
        " Optimization, 2025"
    )
    synchronous: ClassVar[str] = (
        "all clients of a round switch by one value; fedsgm-stale switches by the last known one"
    )

    step_size: Literal["theory"] | StepSize = Field(
        description='eta: a number, a multiple of 1/L ("1/L"), or "theory"'
    )
    tolerance: Literal["theory"] | PositiveFloat = Field(
        description='eps, the tolerated violation g > 0: a number, or "theory"'
    )
    local_steps: int = Field(default=1, ge=1, description="E, local steps per round")
    switching: Literal["hard", "soft"] = Field(
        default="hard",
        description=(
            "hard: from one gradient to the other at a threshold of g; soft: gradually,"
            " over a range of g"
        ),
    )
    sharpness: PositiveFloat | None = Field(
        default=None, description="beta of soft switching; 2/eps by default"
    )

    def natures(self) -> Iterator[tuple[str, Nature]]:
        """Yield a nature: clients send the value of the constraint."""
        yield from super().natures()
        text = f"got {self.kind}, whose clients send the value of their constraint"
        yield "kind", Nature(unbounded=text)

    output: Literal["last", "average"] = Field(
        default="last", description="the model of a round: w_t, or the mean of the near-feasible"
    )
    theory: Theorem | None = Field(
        default=None, description='the constants for "theory" and the warnings'
    )

    def samples_per_round(self, rows: int) -> float:
        """Return the number of samples of the local steps."""
        return float(self.local_steps * rows)

    @model_validator(mode="after")
    def _complete(self) -> Self:
        if self.theory is None and "theory" in (self.step_size, self.tolerance):
            raise ValueError('"theory" needs theory: {diameter: D, lipschitz: G, rounds: T}')
        if self.switching == "hard" and self.sharpness is not None:
            raise ValueError("sharpness belongs to soft switching; leave it out, or switch softly")
        return self

    def configure(self, info: ProblemInfo) -> Self:
        """Return a copy with the step size, the tolerance and beta as numbers.

        Raises:
            ParameterError: theory is requested, and the uplink's compressor is not unbiased.
        """
        theoretical = {
            key: self._constants(info, key)
            for key in ("step_size", "tolerance")
            if getattr(self, key) == "theory"
        }
        ready = self.model_copy(
            update={key: getattr(constants, key) for key, constants in theoretical.items()}
        )
        if ready.switching == "soft" and ready.sharpness is None:
            ready = ready.model_copy(update={"sharpness": 2 / ready.eps})
        return super(FedSGM, ready).configure(info)

    def _constants(self, info: ProblemInfo, key: str) -> Constants:
        """Return the theorem's constants; `key` is the setting that requires them."""
        assert self.theory is not None, "validated"  # noqa: S101
        if info.uplink.kind not in ("exact", "unbiased"):
            unbiased = join_names(COMPRESSORS.where(lambda compressor: compressor.unbiased()), "or")
            text = (
                'got "theory", but theorem 1 needs an unbiased compressor on the uplink, and this'
                f" one is {info.uplink.kind}; give a number, or use {unbiased}"
            )
            raise ParameterError(key, text)
        q, soft = info.uplink.constant, self.switching == "soft"
        return self.theory.constants(self.local_steps, q, info.clients, soft=soft)

    def reference(self, problem: Problem) -> Reference | None:
        """Return the least f under the constraint, with g within the tolerance."""
        return constrained_optimum(problem, self.eps)

    @property
    def constraint_tolerance(self) -> float:
        """The tolerance, after `configure`."""
        return self.eps

    def concerns(self, info: ProblemInfo) -> Iterator[Concern]:
        """Yield concerns for settings beyond theorem 1, or beyond its constants if known."""
        yield from beyond(info)
        if self.sharpness is not None and abs(self.sharpness * self.eps - 2) > 1e-9:
            text = (
                f"got {self.sharpness:g}, but theorem 1 has 2/tolerance = {2 / self.eps:g} {WHERE}"
            )
            yield concern("sharpness", text, "null")
        if self.theory is not None and info.uplink.kind in ("exact", "unbiased"):
            allowed = self._constants(info, "theory")
            yield from concerns(Constants(self.eta, self.eps), allowed)

    @property
    def eta(self) -> float:
        """The step size as a number, after `configure`."""
        return float(self.step_size)

    @property
    def eps(self) -> float:
        """The tolerance as a number, after `configure`."""
        return float(self.tolerance)

    def switch(self, g: float) -> float:
        """Return s in [0, 1], the weight of the constraint's gradient, for g(w_t)."""
        if self.switching == "hard":
            return float(g > self.eps)
        beta = self.sharpness or 2 / self.eps
        return min(1.0, max(0.0, 1 + beta * (g - self.eps)))

    def memory(self, initial: Array) -> SwitchingState:
        """Return a client's initial state."""
        return SwitchingState(initial)

    async def serve(self, server: Server) -> None:
        """Run the server of FedSGM."""
        w, average = server.initial, Average(server.initial)
        while True:
            answers = _fresh(server, await server.exchange(Model(server.pack(w))), Constraint)
            g, s, moved = nan, nan, list[Reply]()
            if answers:
                constraint = server.pack(mean(server, answers, "g"))
                g = float(constraint.values)
                s = self.switch(g)
                average.add(w, 1 - s)
                clients = [answer.client for answer in answers]
                replies = await server.exchange(MeanConstraint(constraint), to=clients)
                moved = _fresh(server, replies, Progress)
            if moved:
                w = w - self.eta * mean(server, moved, "delta")
            model = average.or_else(w) if self.output == "average" else w
            server.commit(model, seen_constraint=g, switch=s)

    async def handle(
        self, client: Client[SwitchingState], message: Model | MeanConstraint
    ) -> Constraint | Progress:
        """Run a client of FedSGM: evaluate its constraint, then take local steps."""
        memory = client.state
        if isinstance(message, MeanConstraint):
            s = self.switch(float(message.g.values))
            return await self._progress(client, memory.w, s)
        w = message.w.values
        g = await client.compute(client.oracle.constraint(w))
        memory.w = w
        return Constraint(client.pack(g))

    async def _progress(self, client: Client, w: Array, s: float) -> Progress:
        """Return the compressed sum of E steps from w_t."""
        v = w
        for _ in range(self.local_steps):
            v = v - self.eta * await self._direction(client, v, s)
        return Progress(client.pack((w - v) / self.eta))

    async def _direction(self, client: Client, v: Array, s: float) -> Array:
        """Compute (1 - s) grad f_j(v) + s grad g_j(v), without terms of weight 0."""
        direction = np.zeros_like(v)
        if s < 1:
            direction += (1 - s) * await client.compute(client.oracle.gradient(v))
        if s > 0:
            direction += s * await client.compute(client.oracle.constraint_gradient(v))
        return direction


def _fresh(server: Server, replies: Sequence[Reply], kind: type[Message]) -> list[Reply]:
    """Return the replies to this exchange: of this round, and of the expected kind."""
    return [reply for reply in of_this_round(server, replies) if isinstance(reply.message, kind)]


@dataclass(frozen=True, slots=True)
class KnownConstraint(Message):
    """Server to client: w_t, and the estimate of g."""

    w: Payload
    g: Payload


@dataclass(frozen=True, slots=True)
class ConstrainedProgress(Message):
    """Client to server: g_j(w_t), and the sum of its steps' directions, compressed."""

    g: Payload
    delta: Payload


class StaleFedSGM(FedSGM):
    """FedSGM that switches by the last known constraint, with one exchange per round."""

    kind: Literal["fedsgm-stale"] = "fedsgm-stale"  # type: ignore[assignment]
    messages: ClassVar[tuple[type[Message], ...]] = (
        Model,
        KnownConstraint,
        Constraint,
        ConstrainedProgress,
    )
    synchronous: ClassVar[str] = ""

    def natures(self) -> Iterator[tuple[str, Nature]]:
        """Yield a nature: the server keeps the constraint's value at each client."""
        yield from super().natures()
        text = "got fedsgm-stale, whose server keeps the constraint's value of each client"
        yield "kind", Nature(apart=text)

    async def serve(self, server: Server) -> None:
        """Run the server."""
        w, average = server.initial, Average(server.initial)
        known: dict[ClientId, float] = {}
        while True:
            replies = await server.exchange(_client_message(server, w, known))
            known |= {reply.client: float(reply.message.g.values) for reply in replies}
            g = _mean(server, known)
            s = self.switch(g) if known else nan
            if replies:
                average.add(w, 1 - s)
            moved = [reply for reply in replies if isinstance(reply.message, ConstrainedProgress)]
            if moved:
                w = w - self.eta * mean(server, moved, "delta")
            model = average.or_else(w) if self.output == "average" else w
            server.commit(model, seen_constraint=g, switch=s)

    async def handle(  # type: ignore[override]
        self, client: Client, message: Model | KnownConstraint
    ) -> Constraint | ConstrainedProgress:
        """Run a client: evaluate its constraint, and take local steps."""
        w = message.w.values
        g = await client.compute(client.oracle.constraint(w))
        if isinstance(message, Model):
            return Constraint(client.pack(g))
        moved = await self._progress(client, w, self.switch(float(message.g.values)))
        return ConstrainedProgress(client.pack(g), moved.delta)


def _mean(server: Server, known: dict[ClientId, float]) -> float:
    """Return the estimate of g; NaN if there is none."""
    if not known:
        return nan
    weights = server.weights[sorted(known)]
    return float(weights @ [known[client] for client in sorted(known)] / weights.sum())


def _client_message(server: Server, w: Array, known: dict[ClientId, float]) -> Message:
    """Return the message to clients: w_t, with the estimate of g if there is one."""
    if not known:
        return Model(server.pack(w))
    return KnownConstraint(server.pack(w), server.pack(np.array(_mean(server, known))))
