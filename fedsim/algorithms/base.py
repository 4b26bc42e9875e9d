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
        step_size: as `StepSize` has validated it.
        constants: functions returning L and L_max, by these names; called only if needed.
        key: of the step size within the `algorithm` block.

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
        smoothness: returns L of what the method's step is on, F or F/W (see
            `Algorithm.weighs_losses`); raises `DataError` if it has none.
        client_smoothness: returns the L_m of the clients' losses, w_m f_m or f_m alike, shape (M,);
            raises alike.
        greatest_smoothness: returns the largest L_m, if that is cheaper than all of them.
        shape: of the model: (d,), or the rows and columns of a matrix, which is flattened.
        regulariser: the penalty h of the problem over the sum of the w_m, zero if it has none: with
            the weighted mean of the clients' losses it has the minimisers of F.
        constrained: whether the loss comes with a constraint g(w) <= 0.
        features: returns the features of all clients, shape (n, features), dense or sparse.
        rng: returns the stream of shared one-off draws, by purpose.
        uplink, downlink: the contracts of the compressors, with feedback if configured.
        asked: the number of clients sampled in a round; None for all of them.
        arrivals: the settings of an asynchronous server; None for a server with rounds.
        quadratic: whether every client's loss is a quadratic, which one Newton step minimises.
        hessian: whether every client's loss provides its Hessian.
        loss: the kind of the loss in the scenario.
        convex: whether every client's loss is known to be convex.
        strongly_convex: whether an l2 term makes every client's loss strongly convex.
        kinked: whether the losses have an l1 term, which no Hessian contains.
        folder: of the scenario file, which paths are relative to.
        weights: the clients' weights in the objective over their sum, shape (M,); equal by default.
        coefficients: by which the method multiplies the clients' losses, shape (M,); None for 1.
        programs: the problem, if clients run their own programs; else None.
        parts, sent: the named parts of the whole model, and of what of it is sent, in order.
        refuses: returns why the clients' losses cannot be trained by an optimizer; empty if they
            can.
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
    asked: int | None = None
    arrivals: "Arrivals | None" = None
    quadratic: bool = False
    hessian: bool = False
    loss: str = "this loss"
    convex: bool = True
    strongly_convex: bool = False
    kinked: bool = False
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


class AddingUp(NamedTuple):
    """The variant of a method whose clients send increments.

    Attributes:
        keys: the setting in the `algorithm` block that selects it, such as "sends: differences".
        method: the variant.
    """

    keys: str
    method: "Algorithm"


Memory = TypeVar("Memory", default=Any)
"""The type of a client's state between messages; any type for `Algorithm` without argument."""


class Algorithm(Spec, Generic[Memory]):
    """A federated algorithm: its YAML block is its constructor.

    The life of one: `configure` resolves what depends on the problem; the world calls `memory`
    once per client, runs `serve` as the server, and answers each message that reaches a client with
    `handle`. When a client fails, its handler is cancelled at an `await`, so a handler changes its
    memory after its last `await`.
    """

    source: ClassVar[str]
    """The paper that defines it, human-readable."""

    weighs_losses: ClassVar[bool] = False
    """Whether clients multiply what they send by `Client.weight`, w_m, and the server adds up: the
    method's step is then on F = sum_m w_m f_m. Otherwise the server takes a mean with the weights
    p_m = w_m/W, W the sum of the w_m, and the step is on the f_m, and so on F/W."""

    measured_by: ClassVar[Literal["L", "L_max"]] = "L"
    """The smoothness constant that its theory relates step sizes to."""

    uplink: ClassVar[Mapping[str, Meaning]] = {"": Meaning.INCREMENT}
    """The meaning of the clients' vectors, by the field of `pack`."""

    downlink: ClassVar[Mapping[str, Meaning]] = {"": Meaning.STATE}
    """The meaning of the server's vectors."""

    messages: ClassVar[tuple[type[Message], ...]] = ()
    """The classes of messages that the server and the clients send, numbered on the wire in this
    order; if empty, they are taken from the annotations of `handle`."""

    asks_all: ClassVar[bool] = True
    """Whether the server sends every message to every client of the cohort."""

    proximal: ClassVar[bool] = False
    """Whether the method supports a penalty h beside the loss; it works without one, too."""

    constrained: ClassVar[bool] = False
    """Whether the method needs a loss with a constraint g(w) <= 0."""

    unbiased: ClassVar[bool] = False
    """Whether the uplink must be right in expectation: unbiased, exact, or with feedback."""

    unbiased_down: ClassVar[bool] = False
    """Whether the downlink must be right in expectation."""

    asks: ClassVar[Literal["loss", "steps", "program"]] = "loss"
    """The evaluations required of clients: any evaluation of their loss; gradient steps alone,
    which a client's own program may replace by its training; or evaluations that only such a
    program provides."""

    asynchronous: ClassVar[bool] = False
    """Whether the method needs an asynchronous server, which updates as replies arrive."""

    synchronous: ClassVar[str] = ""
    """Why the method cannot run under an asynchronous server; empty if it can."""

    sampled: ClassVar[bool] = True
    """Whether its theory covers client sampling (partial participation). If False, sampling gives a
    concern; a method whose own `concerns` treat sampling leaves it True."""

    full_participation: ClassVar[str] = ""
    """Why all clients must be asked in every round; empty if a sample of them may be."""

    combines: ClassVar[Combines] = "own"
    """How the server combines the replies of a sample of clients. mean: by `coefficients`, which
    follow `participation.estimate`; sum: by `factors`, an unbiased estimate of a sum over all
    clients; changes: it keeps a sum over all clients, which replies change, and which no draw makes
    biased; own: in a way of its own, which draws by other than equal chances would make biased."""

    in_arrays: ClassVar[bool] = False
    """Whether `serve` and `handle`, as written in this very class, wait for nothing but messages
    and `compute`, so that rounds may be played in arrays. Of fedsim's own methods it is known."""

    reads_charge: ClassVar[bool] = False
    """Whether `handle` reads `Client.battery`: rounds with batteries are played event by event."""

    handles_rows: ClassVar[bool] = False
    """Whether `handle`, as written in this very class, computes entry by entry, from the message
    and the client's loss alone, and draws nothing but minibatches of local steps. Where rounds are
    played in arrays it may then run once for many clients: vectors that differ from client to
    client are the rows of an array (n, d). A class that has a state, or keeps silent, also has
    `handle_rows`: it does that for clients that are always asked together, with one state for all,
    and returns the message and which are silent, (n,)."""

    kind: str

    def __class_getitem__(cls, memory: object) -> type[Self]:
        """Return the class itself: the type of a client's state is for type checkers only.

        Pydantic would create a model for each type, which could not be found in a module by a
        pickle.
        """
        return cls

    @classmethod
    def __pydantic_init_subclass__(cls, **kwargs: object) -> None:
        """Refuse a class whose annotated messages differ from the declared ones.

        Raises:
            TypeError: they do, or the class has an objective of its own, as methods once had.
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
        """The meaning of clients' vectors under this configuration; vectors not listed add up."""
        return self.uplink

    @property
    def down(self) -> Mapping[str, Meaning]:
        """The meaning of the server's vectors; vectors not listed are states."""
        return self.downlink

    @property
    def reads_sent(self) -> bool:
        """Whether the server computes with the decoded values of its own messages."""
        return False

    def adding_up(self) -> AddingUp | None:
        """Return the variant of the method that sends increments; None if there is none."""
        return None

    def natures(self) -> Iterator[tuple[str, Nature]]:
        """Yield that clients compute after their replies."""
        if self.goes_on:
            text = f"got {self.kind}, whose clients compute after their replies"
            yield "kind", Nature(reacts=text, simulated=f"{text}, which live ones do not do yet")

    @property
    def goes_on(self) -> bool:
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
        """Yield the conditions of the method's theory that do not hold, after `configure`."""
        yield from ()

    def participation_concerns(self, info: ProblemInfo) -> Iterator[Concern]:
        """Yield a concern if the method's theory does not cover the participation of clients."""
        if info.arrivals is not None and info.arrivals.age and not self.asynchronous:
            text = (
                f"an asynchronous server is beyond the theory of {self.kind}, whose rounds have"
                f" replies to one model: here replies are up to {info.arrivals.age} updates old, or"
                " older"
            )
            yield Concern("kind", text)
        if info.arrivals is None and info.asked is not None and not self.sampled:
            text = (
                f"a sample of the clients ({info.asked} of {info.clients}) is beyond the theory of"
                f" {self.kind}, in whose rounds all clients take part"
            )
            yield Concern("kind", text)

    def configure(self, info: ProblemInfo) -> Self:
        """Return a copy whose step size is a number.

        Raises:
            ParameterError: the value of a parameter is invalid for this problem, or clients are
                sampled, and the method needs `full_participation`.
            DataError: the problem lacks a constant that is needed.
        """
        if self.full_participation and info.asked is not None:
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
        """The value of the constraint up to which a model meets it; read if `constrained`."""
        return 0.0

    def memory(self, initial: Array) -> Memory:
        """Return a client's initial state; `initial` is the initial model, shape (d,)."""
        return None  # type: ignore[return-value]  # no state by default

    def own_model(self, state: Memory) -> Array:
        """Return the client's own model, shape (d,), never changed in place; see `personal`."""
        raise TypeError(f"{self.kind} has no models of clients")

    @property
    def uncompiled(self) -> str:
        """What of the clients' work no compiled kernel computes; empty for nothing."""
        return ""

    def kept_values(self, dimension: int) -> int:
        """Return how many numbers a client keeps between rounds: its optimizer's, its own model."""
        return 0

    def work_notes(self, rows: Sequence[int], dimension: int) -> Iterator[str]:
        """Yield what `fedsim check` says of the work of clients beside their gradients.

        Args:
            rows: the number of samples of each client.
            dimension: of the model.
        """
        yield from ()

    def server_notes(self, dimension: int) -> Iterator[str]:
        """Yield what `fedsim check` says of the server's own work on what is sent, not charged."""
        yield from ()

    def samples_per_round(self, rows: int) -> float:
        """Return the approximate number of samples per round for a client with `rows` samples."""
        return float(rows)

    def undelivered(self, client: Client[Memory], message: Any) -> None:
        """Handle, at the client, the loss of a message that it has sent.

        A method whose server accumulates differences takes the lost one back, so that the client's
        copy of the server's sum stays right; most methods ignore it.
        """

    def afterwards(self, client: Client[Any]) -> Coroutine[Any, Any, None] | None:
        """Go on at a client whose reply is on its way; most methods do not.

        A method writes it as a coroutine function. It overlaps with the transfers of the reply and
        of the next message, which is handled once it is over.
        """
        return None

    @abstractmethod
    async def serve(self, server: Server) -> None:
        """Run the server: rounds of exchange and commit until a stop rule applies."""

    @abstractmethod
    async def handle(self, client: Client[Memory], message: Any) -> Message | Silence:
        """Answer one message of the server at a client, with a message or `SILENCE`."""
