"""Personal models: each client trains a model of its own beside the server's.

Ditto: Li, Hu, Beirami, Smith, "Ditto: Fair and Robust Federated Learning Through Personalization",
ICML 2021 (Algorithm 1). The server's model w is that of FedAvg. Beside it, client i moves its own
model v_i by steps on f_i + lambda/2 |. - w|^2, where w is the received model:

    v_i <- v_i - eta_p (g_i(v_i) + lambda (v_i - w)).

pFedMe: T Dinh, Tran, Nguyen, "Personalized Federated Learning with Moreau Envelopes", NeurIPS 2020
(Algorithm 1). In each of R local steps client i draws a minibatch. On this minibatch it
approximates the minimiser theta_i of f_i + lambda/2 |. - w_i|^2 by K gradient steps from w_i (the
paper leaves the solver open), and moves its copy w_i of the model towards theta_i. The server moves
its model towards the mean of the w_i by a share beta:

    theta_i <- theta_i - alpha (g_i(theta_i) + lambda (theta_i - w_i)),  K times,
    w_i <- w_i - eta lambda (w_i - theta_i),   w <- (1 - beta) w + beta sum_i p_i w_i.

The client's own model is the last theta_i. The paper weights the clients of a round equally
(`weights: equal`).

APFL: Deng, Kamani, Mahdavi, "Adaptive Personalized Federated Learning", 2020 (Algorithm 1). The
share alpha is fixed, or adapted by each client. Client i has a mixture of two models,
m_i = alpha v_i + (1 - alpha) w_i, and takes steps on both with the same minibatch:

    w_i <- w_i - eta g_i(w_i),   v_i <- v_i - eta alpha g_i(m_i),

where alpha g_i(m_i) is the gradient of f_i(m_i) with respect to v_i. The client's own model is m_i
after the last step; w_i is averaged as under FedAvg. With `alpha_rate`, each step also moves
alpha_i (equation 10) by the gradient of f_i(m_i) with respect to alpha at the models before the
step, and keeps it within 0 and 1:

    alpha_i <- alpha_i - eta_alpha <v_i - w_i, g_i(m_i)>.

The authors' program moves alpha_i only in the first local step of a round, and adds 0.02 alpha to
the gradient; the paper has neither.

In all three methods every model begins at the server's initial model, and only w is sent.
"""

from collections.abc import Awaitable, Iterator, Sequence
from typing import Any, ClassVar, Literal, Self

import numpy as np
from pydantic import Field, PositiveInt, model_validator

from fedsim.algorithms.base import ProblemInfo
from fedsim.algorithms.concerns import Concern
from fedsim.algorithms.local_steps import Minibatches, Model, batch_size, draw_count, mean
from fedsim.algorithms.local_training import KeptOptimizer, LocalUpdates, StepPlan, Update
from fedsim.core.ports import Array, Client, Reply, Server, Work
from fedsim.problems import kernels
from fedsim.problems.optimizers import SGD, GivenOptimizer, Training


class OwnModel(KeptOptimizer):
    """A client's memory.

    Attributes:
        own: its own model, shape (d,).
        v: under APFL, the client's part of the mixture that is its own model, shape (d,).
        share: under APFL, alpha_i, the share of v in the mixture; None before the first round.
        state: see `KeptOptimizer`; of the optimizer whose steps are on the server's model.
    """

    __slots__ = ("own", "share", "v")

    def __init__(self, initial: Array) -> None:
        super().__init__()
        self.own = self.v = initial
        self.share: float | None = None


class PersonalModels(LocalUpdates):
    """A method of averaging whose clients also have a model of their own."""

    handles_rows: ClassVar[bool] = False

    @model_validator(mode="after")
    def _no_passed_optimizer(self) -> Self:
        if isinstance(self.optimizer, GivenOptimizer):
            text = f"{self.optimizer.name} is tied to one module, but each client has two models"
            raise ValueError(  # noqa: TRY004 - pydantic takes a ValueError
                f"optimizer: got one of PyTorch, but {text}; give a `kind`, such as adam"
            )
        return self

    def memory(self, initial: Array) -> OwnModel:
        """Return a client's memory: its own model is the initial one."""
        return OwnModel(initial)

    def own_model(self, state: Any) -> Array:
        """Return the client's own model."""
        own: Array = state.own
        return own

    def kept_values(self, dimension: int) -> int:
        """Return the size of the client's own model and of its optimizer's state."""
        return super().kept_values(dimension) + dimension


# Ditto and pFedMe hold a client's own model near the server's.

_Pull = Field(
    default=1.0, gt=0, description="lambda, of lambda/2 |. - w|^2 for a client's own model"
)
_OwnSteps = Field(default=1, description="K, the steps on a client's own model")


def _proximal_steps(
    method: "Ditto | PFedMe",
    client: Client[OwnModel],
    start: Array,
    drawn: Minibatches,
    eta: float,
    anchor: Array | None = None,
) -> Work:
    """Describe steps on f_i + lambda/2 |. - a|^2; the anchor a is the start by default."""
    rule, rates = method.optimizer or SGD(), (eta,) * len(drawn)
    training = Training(rule, rates, method.clip_norm, method.mu, anchor=anchor)
    return client.oracle.optimizer_steps(start, drawn, training)


class Ditto(PersonalModels):
    """Ditto: FedAvg, and a second model of each client that is pulled to the received one."""

    kind: Literal["ditto"] = "ditto"
    source: ClassVar[str] = (
        "Li, Hu, Beirami, Smith: Ditto: Fair and Robust Federated Learning Through"
        " Personalization, ICML 2021, algorithm 1"
    )

    mu: float = _Pull
    personal_steps: PositiveInt = _OwnSteps
    personal_rate: float | None = Field(
        default=None, gt=0, description="eta_p, the step size of v_i; null: step_size"
    )

    def concerns(self, info: ProblemInfo) -> Iterator[Concern]:
        """Yield a concern if a step is longer than 1/(L_max + lambda)."""
        yield from self.step_concerns(info.largest_smoothness + self.mu, "(L_max + lambda)")

    def samples_per_round(self, rows: int) -> float:
        """Return the number of samples of the steps on both models."""
        own = self.personal_steps * draw_count(self.batch, rows)
        return super().samples_per_round(rows) + own

    async def handle(self, client: Client[OwnModel], message: Model) -> Update:  # type: ignore[override]
        """Run a client: steps on the received model, and then on its own."""
        w = message.w.values
        delta = await self.change(client, w)
        client.state.own = await self._personal(client, w)
        return Update(client.pack(delta))

    def _personal(self, client: Client[OwnModel], w: Array) -> Awaitable[Array]:
        """Compute v_i after the steps of a round."""
        plan = StepPlan(batch_size(self.batch, client.round), self.personal_steps)
        eta = self.eta if self.personal_rate is None else self.personal_rate
        own = client.state.own
        return self._work(
            client, plan, lambda drawn: _proximal_steps(self, client, own, drawn, eta, anchor=w)
        )


class PFedMe(PersonalModels):
    """pFedMe: the server's model follows minimisers near the clients' copies of it."""

    kind: Literal["pfedme"] = "pfedme"
    source: ClassVar[str] = (
        "T Dinh, Tran, Nguyen: Personalized Federated Learning with Moreau Envelopes, NeurIPS 2020,"
        " algorithm 1"
    )

    mu: float = _Pull
    personal_steps: PositiveInt = _OwnSteps
    model_rate: float = Field(
        default=0.05, gt=0, description="eta, of w_i <- w_i - eta lambda (w_i - theta_i)"
    )
    server_rate: float = Field(
        default=1.0,
        gt=0,
        description="beta, the weight of the clients' mean in the server's update",
    )

    @model_validator(mode="after")
    def _by_minibatches(self) -> Self:
        for key in ("epochs", "local_epochs", "schedule"):
            if getattr(self, key) is not None:
                text = "each of pfedme's local_steps uses one minibatch, with one step size"
                raise ValueError(f"{key}: got one, but {text}; leave it out")
        if self.optimizer_state == "kept":
            text = "pfedme restarts its steps for each minibatch"
            raise ValueError(f"optimizer_state: got kept, but {text}; take reset")
        return self

    def concerns(self, info: ProblemInfo) -> Iterator[Concern]:
        """Yield a concern if a step is longer than 1/(L_max + lambda)."""
        yield from self.step_concerns(info.largest_smoothness + self.mu, "(L_max + lambda)")

    def samples_per_round(self, rows: int) -> float:
        """Return the number of samples of all steps."""
        return self.personal_steps * super().samples_per_round(rows)

    @property
    def takes_means(self) -> bool:
        """Whether the server's models are means of clients' models.

        Each update is a weighted mean if its share is at most 1. A client's copy of the model is
        such a mean itself.
        """
        return self.server_rate <= 1 and self.model_rate * self.mu <= 1

    def server_step(self, server: Server, replies: Sequence[Reply]) -> Array:
        """Return beta times the mean of the updates."""
        return self.server_rate * mean(server, replies, "delta")

    async def handle(self, client: Client[OwnModel], message: Model) -> Update:  # type: ignore[override]
        """Run a client: move its copy of the model towards minimisers near it."""
        w = own = message.w.values
        for _ in range(self.local_steps):
            own = await self._minimiser(client, w)
            w = w - self.model_rate * self.mu * (w - own)
        client.state.own = own
        return Update(client.pack(w - message.w.values))

    def _minimiser(self, client: Client[OwnModel], w: Array) -> Awaitable[Array]:
        """Compute theta_i, the result of K steps on one minibatch."""
        plan = StepPlan(batch_size(self.batch, client.round), 1, self.personal_steps)

        def work(drawn: Minibatches) -> Work:
            own_steps = [drawn[0]] * self.personal_steps
            return _proximal_steps(self, client, w, own_steps, self.eta)

        return self._work(client, plan, work)


class APFL(PersonalModels):
    """APFL: a client's own model is a mixture of one that stays and one that is averaged."""

    kind: Literal["apfl"] = "apfl"
    source: ClassVar[str] = (
        "Deng, Kamani, Mahdavi: Adaptive Personalized Federated Learning, 2020, algorithm 1 and"
        " equation 10"
    )

    alpha: float = Field(
        default=0.5,
        gt=0,
        le=1,
        description=(
            "alpha, the share of v_i in a client's own model; with alpha_rate, its initial value"
        ),
    )
    alpha_rate: float | None = Field(
        default=None,
        gt=0,
        description="eta_alpha, the step size of each client's own alpha; null: alpha is fixed",
    )

    @model_validator(mode="after")
    def _plain_steps_only(self) -> Self:
        if not self.plain:
            text = "apfl takes plain steps on two models together"
            raise ValueError(f"got {self._rule_name}, but {text}; leave it out")
        return self

    @property
    def uncompiled(self) -> str:
        """See `Algorithm.uncompiled`: the steps on both models."""
        return f"the steps of {self.kind} on two models at once"

    def kept_values(self, dimension: int) -> int:
        """Return the size of v_i and of the mixture, plus alpha_i if each client adapts it."""
        return 2 * dimension + (self.alpha_rate is not None)

    def samples_per_round(self, rows: int) -> float:
        """Return the number of samples of the steps on both models."""
        return 2 * super().samples_per_round(rows)

    async def handle(self, client: Client[OwnModel], message: Model) -> Update:  # type: ignore[override]
        """Run a client: step on both models with the same minibatches."""
        start, d = message.w.values, len(message.w.values)
        share = self.alpha if client.state.share is None else client.state.share
        result = await self._mixed_steps(client, start, share)
        w, v = result[:d], result[d : 2 * d]
        if self.alpha_rate is not None:
            share = client.state.share = float(result[-1])
        client.state.v, client.state.own = v, share * v + (1 - share) * w
        return Update(client.pack(w - start))

    def _mixed_steps(
        self, client: Client[OwnModel], start: Array, share: float
    ) -> Awaitable[Array]:
        """Compute w_i and v_i after a round's steps, concatenated; alpha_i follows if it moves."""
        plan, v = self.plan(client.oracle.rows, client.round), client.state.v
        eta, rate = self._step_size(client.round), self.alpha_rate

        def work(drawn: Minibatches) -> Work:
            one = client.oracle.sgd_steps(start, eta, drawn)
            both = np.concatenate([start, v])
            mixed = one._replace(
                kernel=kernels.mixed_steps,
                arguments=(both, eta, share, drawn),
                operations=2 * one.operations,
                samples=2 * one.samples,
            )
            if rate is None:
                return mixed
            products = 3.0 * len(start) * len(drawn)  # of v - w and the gradient
            return mixed._replace(
                kernel=kernels.adaptive_mixed_steps,
                arguments=(both, eta, share, rate, drawn),
                operations=mixed.operations + products,
            )

        return self._work(client, plan, work)
