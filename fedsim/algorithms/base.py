"""Base class of algorithms: a frozen block of hyperparameters with two coroutines."""

import re
from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from math import ceil, isfinite
from pathlib import Path
from typing import Annotated, Any, ClassVar, Generic, Literal, NamedTuple, Never, Self

import numpy as np
from pydantic import BeforeValidator, WithJsonSchema
from typing_extensions import TypeVar

from fedsim.algorithms.concerns import Concern
from fedsim.algorithms.messages import check
from fedsim.blocks.spec import Spec
from fedsim.errors import DataError, ParameterError
from fedsim.ports import Array, Client, Meaning, Message, Node, Server, Silence
from fedsim.problems import NoPenalty, Problem, Reference, Regulariser, optimum
from fedsim.problems.samples import Features
from fedsim.wire import Contract

# Step sizes (learning rates): numbers, or multiples of 1/L or 1/L_max of the problem.

_FACTOR = r"(?P<factor>([0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?)"
_RELATIVE = re.compile(rf"^\s*{_FACTOR}\s*/\s*(?P<constant>L|L_max)\s*$")


def _step_size(value: object) -> object:
    """Accept a positive number, or a multiple of 1/L or 1/L_max as text."""
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
"""A step size: a positive number, "c/L" with L the smoothness constant of the whole objective, or
"c/L_max" with the largest of those of the clients' losses."""


def resolve(
    step_size: float | str, constants: Mapping[str, Callable[[], float]], key: str = "step_size"
) -> float:
    """Return a step size as a number.

    Args:
        step_size: as `StepSize` has validated it.
        constants: functions returning L and L_max, by these names; called only if needed.
        key: of the step size within the `algorithm` block.

    Raises:
        ParameterError: the constant does not exist, it is zero, or so small that the step has no
            end.
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
    raise DataError("loss", "nothing is known of the problem")


@dataclass(frozen=True, slots=True)
class ProblemInfo:
    """The properties of a problem that an algorithm may use before the first round.

    Attributes:
        clients, dimension: M, how many clients there are, and d, the length of the model.
        smoothness: returns L of the whole objective; raises `DataError` where it has none.
        client_smoothness: returns the L_m of the clients' losses, shape (M,); raises alike.
        greatest_smoothness: returns the largest of them, where that takes less than all.
        shape: how the flat model is read: (d,), or the rows and columns of a matrix.
        regulariser: the penalty h of the problem, zero where it has none.
        constrained: whether the loss comes with a constraint g(w) <= 0.
        features: returns the features of all clients, shape (n, features), dense or sparse.
        rng: returns the stream of shared one-off draws, by purpose.
        uplink, downlink: the compressors' properties, with feedback if configured.
        asked: the number of clients sampled in a round; None for all of them.
        arrivals: how an asynchronous server takes replies; None where there are rounds.
        quadratic: whether every client's loss is a quadratic, which one Newton step minimises.
        hessian: whether every client's loss provides its Hessian.
        loss: its kind in the scenario.
        convex: whether every client's loss is known to be.
        strongly_convex: whether an l2 term makes every client's loss so.
        kinked: whether the losses have an l1 term, which no Hessian contains.
        folder: that of the scenario file, which paths are relative to.
        weights: the clients' shares of all samples, shape (M,); equal ones when not given.
        programs: the problem, if clients run their own programs; else None.
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
    programs: Problem | None = None

    @property
    def largest_smoothness(self) -> float:
        """L_max, the largest smoothness constant of a client's loss; raises alike."""
        if self.greatest_smoothness is not None:
            return self.greatest_smoothness()
        return float(self.client_smoothness().max())

    @property
    def shares(self) -> Array:
        """The clients' shares p_m of all samples, shape (M,); they add up to 1."""
        return np.full(self.clients, 1 / self.clients) if self.weights is None else self.weights


class Arrivals(NamedTuple):
    """The settings by which an asynchronous server takes replies.

    Attributes:
        buffer: K, how many make an update.
        at_work: C, how many clients are at work at a time.
        clients: M, how many there are.
    """

    buffer: int
    at_work: int
    clients: int

    @property
    def age(self) -> int:
        """The largest age T of the reply that the server holds of a client, in updates.

        It assumes clients that take turns, the order with the smallest age: C replies
        come between what a client is sent and its reply, M between two of its replies. T is 0
        where an update takes the replies of all, as in a round.

        >>> Arrivals(1, 8, 8).age, Arrivals(8, 8, 8).age, Arrivals(2, 4, 8).age
        (14, 0, 4)
        """
        return max(ceil((self.at_work + self.clients) / self.buffer) - 2, 0)


class AddingUp(NamedTuple):
    """A method whose clients could send increments instead.

    Attributes:
        keys: the setting in the `algorithm` block for that, such as "sends: differences".
        method: the method then.
    """

    keys: str
    method: "Algorithm"


Memory = TypeVar("Memory", default=Any)
"""The type of a client's state between messages. `Algorithm` alone stands for any type."""


class Algorithm(Spec, Generic[Memory]):
    """A federated algorithm: its YAML block is its constructor.

    The life of one: `configure` resolves what depends on the problem; the world calls `memory`
    once per client, runs `serve` as the server, and answers each message that reaches a client with
    `handle`. When a client fails, its handler is cancelled at an `await`, so a handler changes its
    memory after its last `await`.
    """

    objective: ClassVar[Literal["sum", "mean"]]
    """Whether the method minimises the sum of the clients' losses, or their weighted mean."""

    source: ClassVar[str]
    """The paper it is from, human-readable."""

    measured_by: ClassVar[Literal["L", "L_max"]] = "L"
    """The smoothness constant relative to which its theory measures step sizes."""

    uplink: ClassVar[Mapping[str, Meaning]] = {"": Meaning.INCREMENT}
    """The meaning of vectors that clients pack, by the field they are packed for."""

    downlink: ClassVar[Mapping[str, Meaning]] = {"": Meaning.STATE}
    """The meaning of the server's vectors."""

    messages: ClassVar[tuple[type[Message], ...]] = ()
    """The classes of messages that the server and the clients send, which are numbered on the wire
    by their place here; where there are none, what `handle` is annotated with."""

    asks_all: ClassVar[bool] = True
    """Whether the server sends to every client of the cohort every time."""

    proximal: ClassVar[bool] = False
    """Whether the method handles a penalty h beside the loss; it works without one, too."""

    constrained: ClassVar[bool] = False
    """Whether the method needs a loss with a constraint g(w) <= 0."""

    unbiased: ClassVar[bool] = False
    """Whether the uplink must be right in the mean: unbiased, exact, or increments made good."""

    unbiased_down: ClassVar[bool] = False
    """The same condition on the downlink's compressor."""

    asks: ClassVar[Literal["loss", "steps", "program"]] = "loss"
    """The evaluations required of clients: any of their loss; gradient steps alone, which a
  client's own program may replace by its training; or evaluations that only such a program
  provides."""

    asynchronous: ClassVar[bool] = False
    """Whether the method needs an asynchronous server: one that reacts to arrivals."""

    synchronous: ClassVar[str] = ""
    """Why the method needs rounds, where it cannot run under an asynchronous server."""

    sampled: ClassVar[bool] = True
    """Whether the theory in its paper covers rounds in which only a sample of the clients is asked;
    False where the method's own `concerns` do not say it otherwise."""

    kind: str

    def __class_getitem__(cls, memory: object) -> type[Self]:
        """Return the class itself: what a client remembers is no field, and only checked.

        Pydantic would make a model of each, which needs a module that can be imported.
        """
        return cls

    @classmethod
    def __pydantic_init_subclass__(cls, **kwargs: object) -> None:
        """Refuse a class whose messages differ from those that it declares."""
        super().__pydantic_init_subclass__(**kwargs)
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
        """Return how clients that send states could send increments; None where they cannot."""
        return None

    @property
    def late_replies_required(self) -> bool:
        """Whether the server's state stays wrong once a late reply is dropped."""
        return Meaning.DIFFERENCE in self.up.values()

    def concerns(self, info: ProblemInfo) -> Iterator[Concern]:  # noqa: ARG002 - for subclasses
        """Yield the conditions of the method's theory that do not hold, once `configure`."""
        yield from ()

    def participation_concerns(self, info: ProblemInfo) -> Iterator[Concern]:
        """Yield that the method's theory does not cover which clients take part in an update."""
        if info.arrivals is not None and info.arrivals.age and not self.asynchronous:
            text = (
                f"an asynchronous server is beyond the theory of {self.kind}, whose rounds take"
                f" replies to one model: here they are up to {info.arrivals.age} updates old and"
                " more"
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
            ParameterError: a parameter is outside its meaning for this problem.
            DataError: the problem lacks a constant that is asked for.
        """
        step_size = getattr(self, "step_size", None)
        if not isinstance(step_size, str):
            return self
        constants = {"L": info.smoothness, "L_max": lambda: info.largest_smoothness}
        return self.model_copy(update={"step_size": resolve(step_size, constants)})

    def reference(self, problem: Problem) -> Reference | None:
        """Return the least value that the method can reach; None where none is known.

        Raises:
            DataError: the problem lacks what is needed to compute it.
        """
        return optimum(problem, self.objective)

    def memory(self, initial: Array) -> Memory:  # noqa: ARG002 - for subclasses
        """Return a client's initial memory; `initial` is the initial model."""
        return None  # type: ignore[return-value]  # where there is nothing to remember

    def samples_per_round(self, rows: int) -> float:
        """Return the approximate number of samples per round for a client with `rows` samples."""
        return float(rows)

    def undelivered(self, client: Client[Memory], message: Any) -> None:  # noqa: ANN401 - its own
        """Handle, at the client, the loss of a message that it has sent.

        A method whose server accumulates increments takes the lost one back; most methods ignore
        it.
        """

    @abstractmethod
    async def serve(self, server: Server) -> None:
        """Run the server: rounds of exchange and commit until a stop rule applies."""

    @abstractmethod
    async def handle(self, client: Client[Memory], message: Any) -> Message | Silence:  # noqa: ANN401
        """Answer one message that has reached a client, of a class that its server sends."""


# Base class of algorithms among peers: one coroutine that every node runs.


class PeerAlgorithm(Algorithm):
    """An algorithm without a server: every node runs `live`, and exchanges with its neighbours.

    Its world is a network with `peers`. Its nodes' messages are packed by `uplink`; nothing else is
    sent. A node that fails has left for good: its coroutine is cancelled at an `await`, and its
    neighbours go on without it.
    """

    objective: ClassVar[Literal["sum", "mean"]] = "sum"

    @abstractmethod
    async def live(self, node: Node) -> None:
        """Run a node: exchanges with its neighbours and commits, until a stop rule applies."""

    async def serve(self, server: Server) -> Never:  # noqa: ARG002
        """Refuse: there is no server."""
        raise TypeError(f"{self.kind} is a method of peers: it has no server")

    async def handle(self, client: Client, message: object) -> Never:  # noqa: ARG002
        """Refuse: no server asks."""
        raise TypeError(f"{self.kind} is a method of peers: no server asks its nodes")
