"""Base class of algorithms: a frozen block of hyperparameters with two coroutines."""

import re
from abc import abstractmethod
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import ceil, isfinite
from pathlib import Path
from typing import Annotated, Any, ClassVar, Generic, Literal, NamedTuple, Self

import numpy as np
from pydantic import BeforeValidator, WithJsonSchema
from typing_extensions import TypeVar

from fedsim.algorithms.concerns import Concern
from fedsim.algorithms.messages import check
from fedsim.core.blocks.nature import Nature
from fedsim.core.blocks.spec import Spec
from fedsim.core.errors import DataError, ParameterError
from fedsim.core.ports import Array, Client, Meaning, Message, Server, Silence
from fedsim.problems import NoPenalty, Problem, Reference, Regulariser, optimum
from fedsim.problems.optimizers import Optimizer
from fedsim.problems.parts import ModelPart
from fedsim.problems.samples import Features, Precision
from fedsim.wire import Contract

# Step sizes (learning rates): numbers, or multiples of 1/L or 1/L_max of the problem.

_FACTOR = r"(?P<factor>([0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?)"
_RELATIVE = re.compile(rf"^\s*{_FACTOR}\s*/\s*(?P<constant>L|L_max)\s*$")


def _step_size(value: object) -> object:
    """Validate a positive number, or a multiple of 1/L or 1/L_max as text."""
    if isinstance(value, str):
        match = _RELATIVE.match(value)
        if match and 0 < float(match["factor"]) < float("inf"):
            return value.strip()
    elif (
        isinstance(value, int | float) and not isinstance(value, bool) and 0 < value < float("inf")
    ):
        return float(value)
    raise ValueError(
        'a step size is a number above 0, or a multiple of 1/L or 1/L_max as text, such as "1/L" '
        'or "0.5/L_max"'
    )


StepSize = Annotated[
    float | str,
    BeforeValidator(_step_size),
    WithJsonSchema(
        {
            "anyOf": [
                {"type": "number", "exclusiveMinimum": 0},
                {"type": "string", "pattern": _RELATIVE.pattern},
            ]
        }
    ),
]
"""A step size: a positive number, "c/L" with L the smoothness constant of the objective F, or
"c/L_max" with the largest smoothness constant of a client's loss. Where a method averages over the
clients, L is the constant of the average F/W, with the sum W of the weights."""


def resolve(
    step_size: float | str, constants: Mapping[str, Callable[[], float]], key: str = "step_size"
) -> float:
    """Return a step size as a number.

    Args:
        step_size: a value that `StepSize` has validated.
        constants: functions returning L and L_max, by these names; called only if needed.
        key: the key of the step size in the `algorithm` block.

    Raises:
        ParameterError: the constant does not exist, or is zero or so small that the step size
            overflows.
    """
    if not isinstance(step_size, str):
        return step_size
    match = _RELATIVE.match(step_size)
    assert match is not None, "validated by StepSize"  # noqa: S101
    factor, name = float(match["factor"]), match["constant"]
    try:
        constant = constants[name]()
    except DataError as error:
        raise ParameterError(key, f"got {step_size}, but {error}") from None
    if constant and isfinite(factor / constant):
        return factor / constant
    # A tiny constant is not zero, but factor/constant overflows: no usable step, either.
    flat = "features that are zero, and no l2, make a flat loss" if not constant else "too small"
    raise ParameterError(
        key,
        f"got {step_size}, but the smoothness constant {name} is {constant:g} ({flat}); give the "
        "step size as a number",
    )


def _none() -> Array:
    raise DataError("loss", "no property of the problem is known")


@dataclass(frozen=True, slots=True)
class ProblemInfo:
    """The properties of a problem that an algorithm may use before the first round.

    Attributes:
        clients, dimension: M, the number of clients, and d, the length of the model.
        smoothness: returns L of the function that the method descends, F or F/W (see
            `Algorithm.weighs_losses`). Raises `DataError` if the problem has no L.
        client_smoothness: returns the L_m of the clients' losses, shape (M,): those of w_m f_m if
            the method weighs losses, else of f_m. Raises like `smoothness`.
        greatest_smoothness: returns the largest L_m; set if that is cheaper than computing all.
        shape: shape of the model: (d,), or (rows, columns) of a matrix, which is flattened.
        regulariser: the penalty h of the problem over the sum of the w_m, zero if it has none: with
            the weighted mean of the clients' losses it has the minimisers of F.
        constrained: whether the loss comes with a constraint g(w) <= 0.
        features: returns the features of all clients, shape (n, k), dense or sparse.
        rng: returns the stream of one-off draws that all nodes share, by purpose.
        uplink, downlink: the contracts of the compressors; they include error feedback if the
            scenario configures it.
        cohort_size: the number of clients sampled in a round; None if all take part.
        arrivals: the settings of an asynchronous server; None for a server with rounds.
        quadratic: whether every client's loss is a quadratic, which one Newton step minimises.
        hessian: whether every client's loss provides its Hessian.
        loss: the kind of the loss in the scenario.
        convex: whether every client's loss is known to be convex.
        strongly_convex: whether an l2 term makes every client's loss strongly convex.
        has_l1: whether the losses have an l1 term, which no Hessian contains.
        folder: the folder of the scenario file; relative paths start there.
        weights: the clients' weights in the objective over their sum, shape (M,); equal by default.
        coefficients: factors by which the method multiplies the clients' losses, shape (M,); None
            if they are all 1.
        programs: the problem, if clients run their own programs; else None.
        parts: the named parts of the whole model, in order.
        sent: the named parts of the vector that clients send, in order.
        refuses: returns why an optimizer cannot train the clients' losses; empty if it can.
        precision: the number type of models and gradients.
    """

    clients: int
    dimension: int
    smoothness: Callable[[], float]
    client_smoothness: Callable[[], Array] = _none
    greatest_smoothness: Callable[[], float] | None = None
    shape: tuple[int, ...] = ()
    regulariser: Regulariser = Regulariser(NoPenalty(), (-1,))  # noqa: RUF009 - frozen
    constrained: bool = False
    features: Callable[[], Features] = _none
    rng: Callable[[str], np.random.Generator] = lambda _: np.random.default_rng(0)
    uplink: Contract = Contract("exact")  # noqa: RUF009 - frozen
    downlink: Contract = Contract("exact")  # noqa: RUF009 - frozen
    cohort_size: int | None = None
    arrivals: "Arrivals | None" = None
    quadratic: bool = False
    hessian: bool = False
    loss: str = "this loss"
    convex: bool = True
    strongly_convex: bool = False
    has_l1: bool = False
    folder: Path = Path()
    weights: Array | None = None
    coefficients: Array | None = None
    programs: Problem | None = None
    parts: tuple[ModelPart, ...] = ()
    sent: tuple[ModelPart, ...] = ()
    refuses: Callable[[Optimizer], str] = lambda _: ""
    precision: Precision = "float64"

    @property
    def largest_smoothness(self) -> float:
        """L_max, the largest smoothness constant of a client's loss; errors as for `smoothness`."""
        if self.greatest_smoothness is not None:
            return self.greatest_smoothness()
        return float(self.client_smoothness().max())

    @property
    def shares(self) -> Array:
        """The clients' weights p_m in a mean, shape (M,); they add up to 1."""
        return np.full(self.clients, 1 / self.clients) if self.weights is None else self.weights


class Arrivals(NamedTuple):
    """The settings of an asynchronous server.

    Attributes:
        buffer: K, the number of replies in an update.
        at_work: C, the number of clients that work at a time (concurrency).
        clients: M, the number of clients.
    """

    buffer: int
    at_work: int
    clients: int

    @property
    def age(self) -> int:
        """The largest age T of the latest reply of any client, in updates of the server.

        It assumes that clients take turns, which gives the smallest age: C replies arrive between a
        message to a client and its reply, and M between two replies of a client. T is 0 if an
        update takes the replies of all clients, as in a round.

        >>> Arrivals(1, 8, 8).age, Arrivals(8, 8, 8).age, Arrivals(2, 4, 8).age
        (14, 0, 4)
        """
        return max(ceil((self.at_work + self.clients) / self.buffer) - 2, 0)


Combines = Literal["mean", "sum", "changes", "own"]
"""How a server combines the replies of a sample of clients; see `Algorithm.combines`."""


class IncrementVariant(NamedTuple):
    """A variant of the method, in which clients send increments.

    Attributes:
        keys: the setting in the `algorithm` block that selects the variant, such as
            "sends: differences".
        method: the method with that setting.
    """

    keys: str
    method: "Algorithm"


Memory = TypeVar("Memory", default=Any)
"""The type of a client's state between messages; any type for `Algorithm` without argument."""


class Algorithm(Spec, Generic[Memory]):
    """A federated algorithm: its YAML block is its constructor.

    `configure` resolves the settings that depend on the problem. Then the world calls `memory`
    once per client, runs `serve` as the server, and answers each message that reaches a client with
    `handle`. When a client fails, its handler is cancelled at an `await`. So a handler may change
    the client's memory only after its last `await`.
    """

    source: ClassVar[str]
    """The paper that defines it, human-readable."""

    weighs_losses: ClassVar[bool] = False
    """Whether clients multiply their vectors by `Client.weight`, w_m, and the server adds them up.
    The method then minimises F = sum_m w_m f_m. Otherwise the server takes a mean with the weights
    p_m = w_m/W, where W is the sum of the w_m, and the method minimises F/W."""

    measured_by: ClassVar[Literal["L", "L_max"]] = "L"
    """The smoothness constant in which the method's theory states its step size."""

    uplink: ClassVar[Mapping[str, Meaning]] = {"": Meaning.INCREMENT}
    """The meaning of the clients' vectors, by the `field` that `Client.pack` got."""

    downlink: ClassVar[Mapping[str, Meaning]] = {"": Meaning.STATE}
    """The meaning of the server's vectors; others are states."""

    messages: ClassVar[tuple[type[Message], ...]] = ()
    """The classes of messages that the server and the clients send, numbered on the wire in this
    order; if empty, they are taken from the annotations of `handle`."""

    asks_all: ClassVar[bool] = True
    """Whether the server sends every message to every client of the cohort."""

    proximal: ClassVar[bool] = False
    """Whether the method supports a penalty h beside the loss; it also runs without one."""

    unbiased: ClassVar[tuple[Literal["up", "down"], ...]] = ()
    """The links whose compressor must be unbiased by the method's theory. Exact transfers and error
    feedback meet this, too."""

    asks: ClassVar[Literal["loss", "steps", "program"]] = "loss"
    """The evaluations that clients must provide. loss: any evaluation of their loss; steps: only
    gradient steps, which a client's own program may replace by its training; program: evaluations
    that only such a program provides."""

    asynchronous: ClassVar[bool] = False
    """Whether the method needs an asynchronous server, which updates as replies arrive."""

    synchronous: ClassVar[str] = ""
    """Why the method cannot run under an asynchronous server; empty if it can."""

    sampled: ClassVar[bool] = True
    """Whether its theory covers client sampling (partial participation). If False, sampling gives a
    concern; a method whose own `concerns` treat sampling leaves it True."""

    full_participation: ClassVar[str] = ""
    """Why all clients must take part in every round; empty if a sample of them suffices."""

    combines: ClassVar[Combines] = "own"
    """How the server combines the replies of a sample of clients. mean: with `coefficients`, which
    follow `participation.estimate`. sum: with `factors`, an unbiased estimate of a sum over all
    clients. changes: the server keeps a sum over all clients and adds the changes that replies
    bring, so no sampling makes it biased. own: by its own formula, which is biased if clients are
    sampled with unequal probabilities."""

    in_arrays: ClassVar[bool] = False
    """Whether `serve` and `handle`, as this class writes them, await only messages and `compute`,
    so that rounds can be simulated in arrays. The methods of fedsim need not declare it."""

    reads_charge: ClassVar[bool] = False
    """Whether `handle` reads `Client.battery`. If so, rounds with batteries are simulated event by
    event."""

    may_be_silent: ClassVar[bool] = False
    """Whether a client may send nothing, or a beacon, since it has too little to say."""

    handles_rows: ClassVar[bool] = False
    """Whether one call of `handle`, as this class writes it, may compute for many clients.

    Rounds in arrays then stack the vectors that differ between clients to an array (n, d). For
    this, `handle` works entry by entry, reads only the message and the client's loss, and draws
    only the minibatches of local steps. A class with a state, or whose clients may keep silent,
    also has `handle_rows`. It serves clients that are always asked together, with one state for
    all of them; it returns the message and a mask of the silent clients, shape (n,)."""

    kind: str

    def __class_getitem__(cls, memory: object) -> type[Self]:
        """Return the class itself: the type of a client's state is for type checkers only.

        A real generic Pydantic class would create one model per type, and pickle could not find
        those models in a module.
        """
        return cls

    @classmethod
    def __pydantic_init_subclass__(cls, **kwargs: object) -> None:
        """Check that the messages in the class's annotations are those that it declares.

        Raises:
            TypeError: they differ, or the class has an `objective`, which an old version read.
        """
        super().__pydantic_init_subclass__(**kwargs)
        if "objective" in vars(cls):
            raise TypeError(
                f"{cls.__name__}.objective: the objective belongs to the problem (problem.weights);"
                " leave it out, and if clients multiply what they send by `client.weight` and the"
                " server adds up, declare weighs_losses = True"
            )
        check(cls)

    @property
    def up(self) -> Mapping[str, Meaning]:
        """The meaning of clients' vectors under this configuration; others are increments."""
        return self.uplink

    @property
    def reads_sent(self) -> bool:
        """Whether the server computes with the decoded values of its own messages."""
        return False

    def increment_variant(self) -> IncrementVariant | None:
        """Return the variant of the method that sends increments; None if there is none."""
        return None

    def natures(self) -> Iterator[tuple[str, Nature]]:
        """Yield a nature if clients compute after replies, which live clients cannot do yet."""
        if self.computes_after_reply:
            text = f"got {self.kind}, whose clients compute after their replies"
            yield "kind", Nature(reacts=text, simulated=f"{text}, which live ones do not do yet")

    @property
    def computes_after_reply(self) -> bool:
        """Whether clients compute after their replies; see `afterwards`."""
        return type(self).afterwards is not Algorithm.afterwards

    @property
    def personal(self) -> bool:
        """Whether each client has a model of its own, at which its loss is evaluated."""
        return type(self).own_model is not Algorithm.own_model

    @property
    def late_replies_required(self) -> bool:
        """Whether the server's state stays wrong after it drops a late reply."""
        return Meaning.DIFFERENCE in self.up.values()

    def concerns(self, info: ProblemInfo) -> Iterator[Concern]:
        """Yield the assumptions of the method's theory that do not hold; call after `configure`."""
        yield from ()

    def participation_concerns(self, info: ProblemInfo) -> Iterator[Concern]:
        """Yield a concern if the method's theory does not cover the participation of clients."""
        if info.arrivals is not None and info.arrivals.age and not self.asynchronous:
            text = (
                f"the convergence theory of {self.kind} assumes that all replies of a round start"
                " from one model; under this asynchronous server, replies are up to"
                f" {info.arrivals.age} updates old, or older"
            )
            yield Concern("kind", text)
        if info.arrivals is None and info.cohort_size is not None and not self.sampled:
            text = (
                f"the convergence theory of {self.kind} assumes that all clients take part; this"
                f" scenario samples them ({info.cohort_size} of {info.clients})"
            )
            yield Concern("kind", text)

    def configure(self, info: ProblemInfo) -> Self:
        """Return a copy whose step size is a number.

        Raises:
            ParameterError: the value of a parameter is invalid for this problem, or clients are
                sampled, and the method needs `full_participation`.
            DataError: the problem lacks a constant that the step size needs.
        """
        if self.full_participation and info.cohort_size is not None:
            text = f"got a sample of the clients, but {self.full_participation}"
            raise ParameterError("kind", text)
        step_size = getattr(self, "step_size", None)
        if not isinstance(step_size, str):
            return self
        constants = {"L": info.smoothness, "L_max": lambda: info.largest_smoothness}
        return self.model_copy(update={"step_size": resolve(step_size, constants)})

    def reference(self, problem: Problem) -> Reference | None:
        """Return the reference optimum of the method's objective; None if none is known.

        Raises:
            DataError: the problem lacks a property that is needed to compute it.
            InfeasibleError: no model meets the method's constraint.
        """
        return optimum(problem)

    @property
    def constraint_tolerance(self) -> float:
        """The largest value of the constraint g(w) <= 0 that counts as met.

        A method that defines it needs a loss with a constraint; see `constrained`.
        """
        return 0.0

    @property
    def constrained(self) -> bool:
        """Whether the method needs a loss with a constraint."""
        return type(self).constraint_tolerance is not Algorithm.constraint_tolerance

    def memory(self, initial: Array) -> Memory:
        """Return a client's initial state; `initial` is the initial model, shape (d,)."""
        return None  # type: ignore[return-value]  # no state by default

    def own_model(self, state: Memory) -> Array:
        """Return the client's own model, shape (d,), never changed in place; see `personal`."""
        raise TypeError(f"{self.kind} has no models of clients")

    @property
    def uncompiled(self) -> str:
        """The part of the clients' work that no compiled kernel computes; empty for none."""
        return ""

    def kept_values(self, dimension: int) -> int:
        """Return how many numbers a client keeps between rounds: optimizer state and own model."""
        return 0

    def work_notes(
        self, rows: Sequence[int], dimension: int, sent: int
    ) -> Iterator[tuple[Literal["clients", "server"], str]]:
        """Yield lines for `fedsim check`, each with the side whose work it describes.

        They are about the clients' work beside their gradients, and about the server's work, which
        takes no simulated time.

        Args:
            rows: the number of samples of each client.
            dimension: d, the length of the model.
            sent: the length of the part of the model that is sent.
        """
        yield from ()

    def samples_per_round(self, rows: int) -> float:
        """Return the approximate number of samples per round for a client with `rows` samples."""
        return float(rows)

    def undelivered(self, client: Client[Memory], message: Any) -> None:
        """Handle, at the client, the loss of a message that it sent.

        If the server adds up differences, the client takes the lost one back, so that its copy of
        the server's sum stays right. Most methods ignore the loss.
        """

    def afterwards(self, client: Client[Any]) -> Coroutine[Any, Any, None] | None:
        """Continue the client's work after its reply; most methods do not.

        A method that does overrides this with a coroutine function. Its work overlaps with the
        transfer of the reply and of the next message; that message is handled once the work is
        over.
        """
        return None

    @abstractmethod
    async def serve(self, server: Server) -> None:
        """Run the server: rounds of exchange and commit until a stop rule applies."""

    @abstractmethod
    async def handle(self, client: Client[Memory], message: Any) -> Message | Silence:
        """Answer one message of the server at a client, with a message or `SILENCE`."""
