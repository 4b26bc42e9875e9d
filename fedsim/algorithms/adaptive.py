"""Server optimizers: the server takes a step of an optimizer along the mean update.

Reddi, Charles, Zaheer, Garrett, Rush, Konecny, Kumar, McMahan, "Adaptive Federated Optimization",
ICLR 2021 (Algorithms 1 and 2). Clients are those of FedAvg. Delta is the mean of their updates,
weighted with p_i as in `fedsim.algorithms.averaging`. The server takes a step of an optimizer with
the gradient -Delta and the step size eta_g. Optimizers at the server have the same kinds and keys
as those at clients:

    fedopt      any of them; sgd with eta_g = 1 is FedAvg, sgd with nesterov DiLoCo's outer step;
    fedavgm     sgd with momentum:  b <- beta b + Delta,  w <- w + eta_g b;
    fedadagrad  v <- v + Delta^2;
    fedadam     v <- beta2 v + (1 - beta2) Delta^2;
    fedyogi     v <- v - (1 - beta2) Delta^2 sign(v - Delta^2);

In the last three m <- beta1 m + (1 - beta1) Delta and w <- w + eta_g m/(sqrt(v) + tau), coordinate
by coordinate, from m = 0 and v = tau^2, without bias correction; fedadagrad has beta1 = 0. A round
without a reply changes nothing. FedAvgM: Hsu, Qi, Brown, "Measuring the Effects of Non-Identical
Data Distribution for Federated Visual Classification", 2019. DiLoCo: Douillard et al., "DiLoCo:
Distributed Low-Communication Training of Language Models", 2023.
"""

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from typing import ClassVar, Literal, Self

from pydantic import Field, model_validator

from fedsim.algorithms.base import Algorithm, Combines, ProblemInfo
from fedsim.algorithms.local_steps import Model, mean
from fedsim.algorithms.local_training import LocalUpdates, fit_rule
from fedsim.core.blocks.spec import as_written
from fedsim.core.memory import format_size
from fedsim.core.ports import Server
from fedsim.core.text import quantity
from fedsim.problems.optimizers import (
    SGD,
    Adagrad,
    Adam,
    AnyOptimizer,
    GivenOptimizer,
    VectorOptimizer,
    Yogi,
)
from fedsim.problems.schedules import AnySchedule

REDDI = "Reddi et al.: Adaptive Federated Optimization, ICLR 2021, algorithm 2"


class ServerOptimizer(Algorithm):
    """The server's part of a method: a step of an optimizer, with the mean update as -gradient.

    The clients' part is that of `LocalUpdates`.
    """

    combines: ClassVar[Combines] = "mean"
    source: ClassVar[str] = REDDI

    server_rate: float = Field(default=0.1, gt=0, description="eta_g, the server's step size")
    server_schedule: AnySchedule = as_written(
        None, "schedule of server_rate: its factor in each round; null: always 1"
    )

    @property
    @abstractmethod
    def server_rule(self) -> VectorOptimizer:
        """The optimizer of the server."""

    async def serve(self, server: Server) -> None:
        """Run the server of Algorithm 1."""
        rule, w = self.server_rule, server.initial
        state = rule.begin(w)
        while True:
            replies = await server.exchange(Model(server.pack(w)))
            if replies:
                w = w.copy()
                rule.step(w, -mean(server, replies, "delta"), self.rate(server.round), state)
            server.commit(w)

    def work_notes(
        self, rows: Sequence[int], dimension: int, sent: int
    ) -> Iterator[tuple[Literal["clients", "server"], str]]:
        """Yield the cost of the server's step after the clients' notes.

        The step takes the rule's operations and the 2 of w - eta g. In float64 it reads the mean
        update, and reads and writes the model and the state.
        """
        yield from super().work_notes(rows, dimension, sent)
        rule = self.server_rule
        operations = (rule.operations + 2) * sent
        moved = 8 * (3 + 2 * rule.moments) * sent
        text = (
            f"the server's step of {rule.title} takes {quantity(operations, 'flop')} and moves"
            f" {format_size(moved)} per round, including its state of {rule.moments * sent}"
            " values; it is not charged, since a server computes in no time"
        )
        yield "server", text

    def rate(self, number: int) -> float:
        """Return the server's step size in a round, from 1."""
        if self.server_schedule is None:
            return self.server_rate
        return self.server_rate * self.server_schedule.factor(number - 1)


class FedOpt(ServerOptimizer, LocalUpdates):
    """FedOpt: any optimizer at the server."""

    kind: Literal["fedopt"] = "fedopt"
    source: ClassVar[str] = REDDI.replace("algorithm 2", "algorithm 1")

    server_rate: float = Field(default=1.0, gt=0, description="eta_g, the server's step size")
    server_optimizer: AnyOptimizer = as_written(
        {"kind": "sgd"}, "the rule of the server's step, with -Delta as the gradient"
    )

    @property
    def server_rule(self) -> VectorOptimizer:
        """The optimizer of `server_optimizer`; plain SGD by default."""
        rule = self.server_optimizer
        return rule if isinstance(rule, VectorOptimizer) else SGD()

    def configure(self, info: ProblemInfo) -> Self:
        """Return a copy whose rules fit the model; errors as for `Algorithm.configure`."""
        if not self.server_rule.whole:
            return super().configure(info)
        rule = fit_rule(self.server_rule, info.sent, "server_optimizer", info.precision)
        copied = self.model_copy(update={"server_optimizer": rule})
        return super(FedOpt, copied).configure(info)

    @model_validator(mode="after")
    def _takes_vectors(self) -> Self:
        if isinstance(self.server_optimizer, GivenOptimizer):
            text = f"got {self.server_optimizer.name}, but the server moves vectors, not a module"
            raise ValueError(  # noqa: TRY004 - pydantic takes a ValueError
                f"server_optimizer: {text}; give one by its kind, such as adam"
            )
        return self


class FedAvgM(ServerOptimizer, LocalUpdates):
    """FedAvgM: federated averaging with momentum at the server."""

    kind: Literal["fedavgm"] = "fedavgm"
    source: ClassVar[str] = (
        "Hsu, Qi, Brown: Measuring the Effects of Non-Identical Data Distribution for Federated"
        " Visual Classification, 2019"
    )

    server_rate: float = Field(default=1.0, gt=0, description="eta_g, the server's step size")
    momentum: float = Field(
        default=0.9, ge=0, lt=1, description="beta, the momentum of the server's step"
    )
    nesterov: bool = Field(default=False, description="whether momentum is Nesterov's")

    @model_validator(mode="after")
    def _has_momentum(self) -> Self:
        _ = self.server_rule  # SGD refuses nesterov without momentum
        return self

    @property
    def server_rule(self) -> VectorOptimizer:
        """SGD with momentum."""
        return SGD(momentum=self.momentum, nesterov=self.nesterov)


class FedAdagrad(ServerOptimizer, LocalUpdates):
    """FedAdagrad: Adagrad at the server, whose second moment sums the squared updates."""

    kind: Literal["fedadagrad"] = "fedadagrad"

    tau: float = Field(default=1e-3, gt=0, description="tau, which bounds the adaptivity")

    @property
    def server_rule(self) -> VectorOptimizer:
        """Adagrad from v = tau^2."""
        return Adagrad(epsilon=self.tau, initial=self.tau * self.tau)


class FedAdam(ServerOptimizer, LocalUpdates):
    """FedAdam: Adam at the server, whose second moment averages the squared updates."""

    kind: Literal["fedadam"] = "fedadam"

    beta1: float = Field(default=0.9, ge=0, lt=1, description="decay of the mean update")
    beta2: float = Field(default=0.99, ge=0, lt=1, description="decay of the mean squared update")
    tau: float = Field(default=1e-3, gt=0, description="tau, which bounds the adaptivity")

    adapting: ClassVar[type[Adam]] = Adam
    """The class of the server's optimizer, which decides how v changes."""

    @property
    def server_rule(self) -> Adam:
        """Adam or Yogi from v = tau^2, without bias correction."""
        return self.adapting(
            beta1=self.beta1,
            beta2=self.beta2,
            epsilon=self.tau,
            initial=self.tau * self.tau,
            bias_correction=False,
        )


class FedYogi(FedAdam):
    """FedYogi: Adam at the server, with a second moment that changes additively."""

    kind: Literal["fedyogi"] = "fedyogi"  # type: ignore[assignment]  # each has its own name
    adapting: ClassVar[type[Adam]] = Yogi
