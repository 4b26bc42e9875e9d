"""Local training: how a client moves the received model by its own gradients in a round.

By default it takes K plain steps, w <- w - eta g. Their number, the minibatches, the step size and
the rule are blocks and keys of every method whose clients send the result of local steps.
"""

from collections.abc import Awaitable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from math import ceil
from typing import Annotated, ClassVar, Literal, NamedTuple, Self, TypeAlias, TypeVar

import numpy as np
from pydantic import Field, PositiveInt, model_validator

from fedsim.algorithms.base import Combines, ProblemInfo
from fedsim.algorithms.concerns import Concern, long_step
from fedsim.algorithms.local_steps import (
    GrowingBatch,
    LocalSteps,
    Minibatches,
    Model,
    WorkOn,
    batch_size,
    draw_count,
    drawn_work,
    draws_nothing,
    mean,
)
from fedsim.core.blocks.spec import as_written
from fedsim.core.errors import DataError, ParameterError
from fedsim.core.memory import format_size
from fedsim.core.ports import Array, Client, Message, Payload, Reply, Server, Work
from fedsim.core.text import quantity
from fedsim.problems.optimizers import (
    COMPILED,
    SGD,
    AnyOptimizer,
    GivenOptimizer,
    Optimizer,
    Training,
    pack_state,
)
from fedsim.problems.parts import ModelPart
from fedsim.problems.samples import Precision
from fedsim.problems.schedules import AnySchedule
from fedsim.wire import frozen


@dataclass(frozen=True, slots=True)
class Update(Message):
    """Client to server: the difference of its model after local steps to the received one."""

    delta: Payload


class KeptOptimizer:
    """The state of a client's optimizer between rounds.

    Attributes:
        state: see `fedsim.problems.optimizers.Training`; None before the first round.
    """

    __slots__ = ("state",)

    def __init__(self) -> None:
        self.state: Array | None = None


Kept: TypeAlias = KeptOptimizer | None
"""A client's memory; None if its optimizer keeps no state."""


class StepPlan(NamedTuple):
    """The minibatches of a round.

    Attributes:
        size: the number of samples of a minibatch; None for all samples.
        draws: the number of minibatches, or of passes over the samples.
        each: the number of steps per draw: 1, or the minibatches of a pass.
        shuffled: whether the draws are passes.
        number: the number of the round, from 1.
        before, after: the numbers of steps of the round before and after those of the plan, if
            the plan is for a part of the round.
    """

    size: int | None
    draws: int
    each: int = 1
    shuffled: bool = False
    number: int = 1
    before: int = 0
    after: int = 0

    @property
    def steps(self) -> int:
        """The number of steps."""
        return self.draws * self.each


Rule = TypeVar("Rule", bound=Optimizer)


def fit_rule(rule: Rule, parts: Sequence[ModelPart], key: str, precision: Precision) -> Rule:
    """Return an optimizer for a model of these parts.

    Args:
        rule: the optimizer.
        parts: the named parts of the model.
        key: the key of the optimizer in the `algorithm` block.
        precision: the number type of the model.

    Raises:
        ParameterError: the optimizer has no step for these parts.
    """
    try:
        return rule.within(precision).fit(parts)
    except DataError as error:
        raise ParameterError(key, str(error)) from None


class LocalUpdates(LocalSteps[Kept]):
    """A method whose clients send the result of their local steps.

    By default the server adds the weighted mean of the updates to its model, as under FedAvg.
    """

    combines: ClassVar[Combines] = "mean"
    asks: ClassVar[Literal["loss", "steps", "program"]] = "steps"

    messages: ClassVar[tuple[type[Message], ...]] = (Model, Update)
    handles_rows: ClassVar[bool] = True

    epochs: PositiveInt | None = Field(
        default=None,
        description="instead of local_steps: the number of passes over the client's samples, "
        "tau_i = epochs ceil(n_i/batch) steps with minibatches drawn anew",
    )
    local_epochs: PositiveInt | None = Field(
        default=None,
        description=(
            "instead of local_steps: passes over the client's samples, reshuffled for each"
            " pass, in minibatches of `batch` samples; the last minibatch of a pass takes"
            " the rest"
        ),
    )
    drop_last: bool = Field(
        default=False, description="with local_epochs: whether a smaller last minibatch is left out"
    )
    optimizer: AnyOptimizer = as_written(
        None, "the rule of the clients' steps; null: plain gradient steps"
    )
    optimizer_state: Literal["reset", "kept"] = Field(
        default="reset",
        description=(
            "state of a client's optimizer at the start of a round: reset, or kept in the"
            " client's memory from its last round"
        ),
    )
    schedule: AnySchedule = as_written(
        None, "schedule of step_size: its factor by round or by local step; null: always 1"
    )
    clip_norm: Annotated[float, Field(gt=0)] | None = Field(
        default=None, description="the largest norm of a local gradient; longer ones are scaled"
    )

    local: tuple[str, ...] = Field(
        default=(),
        description=(
            "name patterns of the parts of the model that stay with each client: trained by"
            " its steps, kept in its memory, and never sent"
        ),
    )
    local_first: PositiveInt | None = Field(
        default=None,
        description=(
            "with local: number of steps on the parts that stay with the client, before"
            " local_steps on the parts that are sent; null: all parts take the same steps"
        ),
    )

    @model_validator(mode="after")
    def _local_parts(self) -> Self:
        if self.local_first is not None and not self.local:
            raise ValueError("local_first is for what stays with clients; give local, too")
        if self.local_first is not None and self.optimizer and self.optimizer.whole:
            text = f"{self._optimizer_name} moves all parameters of a module"
            raise ValueError(f"local_first: got steps on parts, but {text}; take adam, say")
        if self.local and (self.personal or self.computes_after_reply):
            text = f"clients of {self.kind} have personal models of full size"
            raise ValueError(f"local: got {', '.join(self.local)}, but {text}; leave it out")
        return self

    @model_validator(mode="after")
    def _one_length(self) -> Self:
        lengths = {
            "local_steps": self.local_steps != 1,
            "epochs": self.epochs is not None,
            "local_epochs": self.local_epochs is not None,
        }
        chosen = [name for name, is_set in lengths.items() if is_set]
        if chosen == ["local_steps", "epochs"]:
            raise ValueError("give either local_steps or epochs, not both")
        if len(chosen) > 1:
            raise ValueError(f"got {' and '.join(chosen)}; give one of {', '.join(lengths)}")
        if self.drop_last and self.local_epochs is None:
            raise ValueError("drop_last is for passes over the samples; give local_epochs, too")
        return self

    @model_validator(mode="after")
    def _one_rule(self) -> Self:
        moments = self.optimizer.moments if self.optimizer else 0
        if self.optimizer_state == "kept" and not moments:
            rule = f"the optimizer {self.optimizer.kind}" if self.optimizer else "a plain step"
            text = f"{rule} has no state; give one that has, such as adam, or sgd with momentum"
            raise ValueError(f"optimizer_state: got kept, but {text}")
        if (
            self.schedule
            and isinstance(self.optimizer, GivenOptimizer)
            and self.optimizer.scheduled
        ):
            text = f"the optimizer {self.optimizer.name} brings its own; use one of the two"
            raise ValueError(f"schedule: got one, but {text}")
        grows = isinstance(self.batch, GrowingBatch) and (self.epochs or self.local_epochs)
        if grows and self.schedule and self.schedule.by == "step":
            text = "the number of steps of a round changes with a growing batch"
            raise ValueError(f"schedule.by: got step, but {text}; give by: round, or local_steps")
        return self

    def configure(self, info: ProblemInfo) -> Self:
        """Return a copy whose step size is a number; errors as for `Algorithm.configure`."""
        if info.programs is not None:
            for key in ("optimizer", "schedule", "clip_norm", "local_epochs", "local"):
                if getattr(self, key) not in (None, ()):
                    text = "the clients' own programs decide how they train"
                    raise ParameterError(key, f"got one, but {text}; leave it out")
        if self.optimizer is None:
            return super().configure(info)
        if reason := info.refuses(self.optimizer):
            raise ParameterError("optimizer", reason)
        if not self.optimizer.whole:
            return super().configure(info)
        rule = fit_rule(self.optimizer, info.parts, "optimizer", info.precision)
        return super(LocalUpdates, self.model_copy(update={"optimizer": rule})).configure(info)

    @property
    def takes_means(self) -> bool:
        """Whether the server's models are means of clients' models, with weights of at least 0."""
        cls = type(self)
        return cls.serve is LocalUpdates.serve and cls.server_step is LocalUpdates.server_step

    def memory(self, initial: Array) -> Kept:
        """Return the memory of an optimizer whose state is kept; None for other clients."""
        return KeptOptimizer() if self.optimizer_state == "kept" else None

    @property
    def uncompiled(self) -> str:
        """See `Algorithm.uncompiled`: steps on parts, and the steps of some optimizers."""
        if self.local_first is not None:
            return "steps on parts of the model"
        if self.optimizer is not None and type(self.optimizer) not in COMPILED:
            return f"the steps of {self._rule_name}"
        return ""

    def kept_state(self, dimension: int) -> int:
        """Return how many numbers of a kept optimizer's state are of the type of the loss."""
        if self.optimizer is None or self.optimizer_state == "reset":
            return 0
        return self.optimizer.moments * dimension + 1

    def kept_values(self, dimension: int) -> int:
        """Return the size of the optimizer's state: the client keeps nothing else."""
        return self.kept_state(dimension)

    def work_notes(
        self, rows: Sequence[int], dimension: int, sent: int
    ) -> Iterator[tuple[Literal["clients", "server"], str]]:
        """Yield the number of steps in passes, and the cost of an optimizer."""
        if self.local_epochs is not None:
            steps = [self.plan(int(count), 1).steps for count in set(rows)]
            taken = f"{min(steps)}" if len(set(steps)) == 1 else f"{min(steps)} to {max(steps)}"
            drop = ", smaller last minibatches left out" if self.drop_last else ""
            text = f"a round is {self.local_epochs} reshuffled passes: {taken} steps a client"
            yield "clients", f"{text}{drop}"
        training = Training(self.optimizer or SGD(), (), self.clip_norm)
        if training.operations:
            cost = quantity(training.operations * dimension, "flop")
            text = f"a local step costs {cost} beside its gradient, {training.operations:g}"
            yield "clients", f"{text} a value of the model for {self._rule_name}"
        if self.optimizer and self.optimizer.moments:
            count = self.optimizer.moments * dimension
            kept = "kept in its memory" if self.optimizer_state == "kept" else "reset in each round"
            text = (
                f"the state of {self._optimizer_name} is {count} values at a client,"
                f" {format_size(4 * count)} in float32, twice that in float64, {kept}"
                " (optimizer_state)"
            )
            yield "clients", text

    @property
    def _optimizer_name(self) -> str:
        return "sgd" if self.optimizer is None else self.optimizer.title

    @property
    def _rule_name(self) -> str:
        """The setting that makes the steps differ from plain gradient steps."""
        if self.optimizer is not None and not self.optimizer.plain:
            return self._optimizer_name
        return "clip_norm" if self.clip_norm is not None else "schedule.by: step"

    @property
    def plain(self) -> bool:
        """Whether a client's steps are plain gradient steps, all of one step size in a round."""
        ruled = self.optimizer is not None and not self.optimizer.plain
        stepped = self.schedule is not None and self.schedule.by == "step"
        return not ruled and not stepped and self.clip_norm is None

    def plan(self, rows: int, number: int) -> StepPlan:
        """Return the minibatches of a client with `rows` samples in round `number`, from 1."""
        size = batch_size(self.batch, number)
        taken = rows if size is None or size >= rows else size
        if self.local_epochs is None:
            steps = self.epochs * ceil(rows / taken) if self.epochs else self.local_steps
            return StepPlan(size, steps, number=number)
        per_pass = rows // taken if self.drop_last else ceil(rows / taken)
        return StepPlan(size, self.local_epochs, per_pass, shuffled=True, number=number)

    def samples_per_round(self, rows: int) -> float:
        """Return how many samples the local steps read, with those of `local_first`."""
        first = float((self.local_first or 0) * draw_count(self.batch, rows))
        if self.local_epochs is not None:
            left = rows % draw_count(self.batch, rows) if self.drop_last else 0
            return first + self.local_epochs * (rows - left)
        if self.epochs is not None:
            return first + self.epochs * rows
        return first + super().samples_per_round(rows)

    def steps(self, client: Client) -> int:
        """Return tau_i, the client's number of steps in this round."""
        return self.plan(client.oracle.rows, client.round).steps

    @property
    def pull(self) -> float | None:
        """The factor mu of the term mu/2 |. - w|^2 that local steps add to f_i; None for 0.

        w is the received model.
        """
        return None

    def descend(self, client: Client[Kept], start: Array) -> Awaitable[Array]:
        """Compute w_i, the client's model after the local steps of a round.

        Args:
            client: the client that takes the steps.
            start: the received model w, shape (d,).
        """
        return self.follow(client, start, self.plan(client.oracle.rows, client.round))

    def follow(self, client: Client[Kept], start: Array, plan: StepPlan) -> Awaitable[Array]:
        """Compute the model after the steps of a plan, shape (d,)."""
        if self.plain:
            eta = self._step_size(plan.number)
            return self._work(client, plan, partial(self._plain_steps, client, start, eta))
        if self.optimizer_state == "kept" and client.state is not None:
            return self._go_on(client, plan, start, client.state)
        training = self._training(plan)
        return self._work(client, plan, partial(_train, client, start, training))

    async def _go_on(
        self, client: Client[Kept], plan: StepPlan, start: Array, kept: KeptOptimizer
    ) -> Array:
        """Compute w_i from the optimizer's kept state, and keep the new state."""
        training = self._training(plan)._replace(state=kept.state, kept=True)
        result = await self._work(client, plan, partial(_train, client, start, training))
        kept.state = pack_state(result[start.size :])
        return result[: start.size].copy()  # a view would keep the state in memory

    def _training(self, plan: StepPlan) -> Training:
        """Return the optimizer and its step sizes for the steps of a plan."""
        if self.schedule is None:
            rates = (self.eta,) * plan.steps
        else:
            # A schedule by step runs over all steps of the round, so we cut out those of the plan.
            whole = plan.before + plan.steps + plan.after
            rates = self.schedule.rates(self.eta, plan.number, whole)
            rates = rates[plan.before : plan.before + plan.steps]
        training = Training(self.optimizer or SGD(), rates, self.clip_norm, self.pull)
        if isinstance(self.optimizer, GivenOptimizer) and self.optimizer.scheduled:
            return training._replace(rounds=plan.number - 1)
        return training

    def change(self, client: Client[Kept], start: Array) -> Awaitable[Array]:
        """Compute Delta_i = w_i - w from the received model w, as a new array."""
        if not self.plain or type(self).descend is not LocalUpdates.descend:
            return self._difference(client, start)
        plan = self.plan(client.oracle.rows, client.round)
        return self._work(client, plan, partial(self._plain_change, client, start))

    async def _difference(self, client: Client[Kept], start: Array) -> Array:
        return await self.descend(client, start) - start

    def _step_size(self, number: int) -> float:
        """Return the step size of round `number`, from 1; only if all its steps share one."""
        return self.eta * (1 if self.schedule is None else self.schedule.factor(number - 1))

    def _plain_steps(self, client: Client, start: Array, eta: float, drawn: Minibatches) -> Work:
        return client.oracle.sgd_steps(start, eta, drawn, self.pull)

    def _plain_change(self, client: Client, start: Array, drawn: Minibatches) -> Work:
        cls, eta = type(self), self._step_size(client.round)
        work = client.oracle.sgd_steps(start, eta, drawn, self.pull, change=True)
        # A subclass that overrides one of these methods may do more with the change than send it.
        sent = cls.handle is LocalUpdates.handle and cls.change is LocalUpdates.change
        return work.as_sent() if sent and not self.computes_after_reply else work

    def _work(self, client: Client, plan: StepPlan, work: WorkOn) -> Awaitable[Array]:
        """Draw the minibatches of a round, and compute work on them."""
        oracle, size = client.oracle, plan.size
        if draws_nothing(oracle, size):
            return client.compute(work((None,) * plan.steps))
        if plan.shuffled:
            draw = partial(oracle.passes, batch=size, rng=client.rng, drop_last=self.drop_last)
        else:
            if plan.each == 1 and size is not None:
                # Nothing can cancel these steps, so the kernel may draw their minibatches itself.
                later = oracle.later_draws(plan.draws, size, client.rng)
                if later is not None:
                    return client.compute(work(later))
            draw = partial(oracle.draws, batch=size, rng=client.rng)
        return drawn_work(client, draw, plan.draws, plan.each, work)

    async def serve(self, server: Server) -> None:
        """Run the server: send the model, and add `server_step` to it."""
        w = server.initial
        while True:
            w = await self._next_model(server, w)
            server.commit(w)

    async def _next_model(self, server: Server, w: Array) -> Array:
        """Return the model after a round.

        As a function of its own it frees the replies before those of the next round arrive.
        """
        replies = await server.exchange(Model(server.pack(w)))
        if not replies:
            return w
        step = self.server_step(server, replies)
        return np.add(w, step, out=step)

    def server_step(self, server: Server, replies: Sequence[Reply]) -> Array:
        """Return what the server adds to its model, as a new array: the mean of the updates."""
        return mean(server, replies, "delta")

    async def handle(self, client: Client[Kept], message: Model) -> Message:
        """Run a client: take local steps, and return the update."""
        change = await self.change(client, message.w.values)
        return Update(client.pack(frozen(change)))

    def concerns(self, info: ProblemInfo) -> Iterator[Concern]:
        """Yield a concern if a local step is longer than 1/L_max."""
        yield from self.step_concerns(info.largest_smoothness, "L_max")

    def step_concerns(self, curvature: float, called: str) -> Iterator[Concern]:
        """Yield a concern if plain local steps are longer than the theory allows.

        Steps of other optimizers give no concern.

        Args:
            curvature: the largest curvature of the functions that the clients' steps minimise.
            called: the name of that constant, such as "L_max".
        """
        if self.optimizer is None or self.optimizer.plain:
            yield from local_step_concern(self.eta, curvature, called)


def _train(client: Client, start: Array, training: Training, drawn: Minibatches) -> Work:
    return client.oracle.optimizer_steps(start, drawn, training)


def local_step_concern(eta: float, curvature: float, called: str) -> Iterator[Concern]:
    """Yield a concern if local steps are longer than the theory of local methods allows.

    Khaled, Mishchenko, Richtarik, "Tighter Theory for Local SGD", AISTATS 2020, and Karimireddy
    et al. 2020 require a fraction of 1/L_max that depends on the number of steps. Above 1/L_max
    itself, none of their theorems applies.

    Args:
        eta: the clients' step size.
        curvature: the largest curvature of the clients' local objectives.
        called: the name of that constant, such as "L_max".
    """

    def text(bound: float) -> str:
        return (
            f"got {eta:g}, but 1/{called} = {bound:g}: the theory of local steps (Khaled,"
            " Mishchenko, Richtarik 2020; Karimireddy et al. 2020) allows no longer step"
        )

    return long_step(eta, curvature, text, "1/L_max" if called == "L_max" else "")
