"""What every algorithm is: a frozen block of hyperparameters with two coroutines."""

import re
from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from math import isfinite
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, NamedTuple, Self

import numpy as np
from pydantic import BeforeValidator, WithJsonSchema

from fedsim.blocks.spec import Spec
from fedsim.errors import DataError, ParameterError
from fedsim.ports import Array, Client, Meaning, Message, Server, Silence
from fedsim.problems import NoPenalty, Problem, Reference, Regulariser, optimum
from fedsim.problems.features import Features
from fedsim.wire import Contract

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


def resolved(
    step_size: float | str, constants: Mapping[str, Callable[[], float]], key: str = "step_size"
) -> float:
    """Return a step size as a number.

    Args:
        step_size: as `StepSize` has validated it.
        constants: what returns L and L_max, by these names; called only where it is asked for.
        key: of the step size within the `algorithm` block.

    Raises:
        DataError: there is no such constant.
        ParameterError: it is zero, or so small that the step has no end.
    """
    if not isinstance(step_size, str):
        return step_size
    match = _RELATIVE.match(step_size)
    assert match is not None, "validated by StepSize"  # noqa: S101
    factor, name = float(match["factor"]), match["constant"]
    constant = constants[name]()
    if constant and isfinite(factor / constant):
        return factor / constant
    flat = "features that are zero, and no l2, make a flat loss" if not constant else "too small"
    raise ParameterError(
        key,
        f"seen {step_size}, but the smoothness constant {name} is {constant:g} ({flat}); give the "
        "step size as a number",
    )


def _none() -> Array:
    raise DataError("loss", "nothing is known of the problem")


@dataclass(frozen=True, slots=True)
class Setting:
    """What an algorithm may know of its problem before the first round.

    Attributes:
        clients: M, how many clients there are.
        dimension: d, the length of the model.
        smoothness: returns L of the whole objective; raises `DataError` where it has none.
        client_smoothness: returns the L_m of the clients' losses, shape (M,); raises alike.
        shape: how the flat model is read: (d,), or the rows and columns of a matrix.
        regulariser: the penalty h of the problem, zero where it has none.
        constrained: whether the loss comes with a constraint g(w) <= 0.
        features: returns the features of all clients, shape (n, features), dense or sparse.
        rng: returns the stream of what is drawn once and known to all, by its purpose.
        uplink: what the uplink's compressor promises, with feedback where there is some.
        downlink: what the downlink's promises.
        asked: how many of the clients are asked in a round; None for all of them.
        quadratic: whether every client's loss is a quadratic, which one Newton step minimises.
        hessian: whether every client's loss provides its Hessian.
        strongly_convex: whether an l2 term makes every client's loss so.
        kinked: whether the losses have an l1 term, which no Hessian knows of.
        folder: that of the scenario file, which paths are relative to.
        weights: the clients' shares of all samples, shape (M,); equal ones when not given.
    """

    clients: int
    dimension: int
    smoothness: Callable[[], float]
    client_smoothness: Callable[[], Array] = _none
    shape: tuple[int, ...] = ()
    regulariser: Regulariser = Regulariser(NoPenalty(), (-1,))  # noqa: RUF009 - frozen
    constrained: bool = False
    features: Callable[[], Features] = _none
    rng: Callable[[str], np.random.Generator] = lambda _: np.random.default_rng(0)
    uplink: Contract = Contract("exact")  # noqa: RUF009 - frozen
    downlink: Contract = Contract("exact")  # noqa: RUF009 - frozen
    asked: int | None = None
    quadratic: bool = False
    hessian: bool = False
    strongly_convex: bool = False
    kinked: bool = False
    folder: Path = Path()
    weights: Array | None = None

    @property
    def largest_smoothness(self) -> float:
        """L_max, the largest smoothness constant of a client's loss; raises alike."""
        return float(self.client_smoothness().max())

    @property
    def shares(self) -> Array:
        """The clients' shares p_m of all samples, shape (M,); they add up to 1."""
        return np.full(self.clients, 1 / self.clients) if self.weights is None else self.weights


class Concern(NamedTuple):
    """A condition of a paper's theory that does not hold.

    Attributes:
        key: of the parameter within the `algorithm` block.
        text: names the value and the bound, and whose condition it is.
    """

    key: str
    text: str


class Algorithm(Spec):
    """A federated algorithm: its YAML block is its constructor.

    The life of one: `configured` resolves what depends on the problem; the world calls
    `memory` once per client, runs `serve` as the server, and answers each message that
    reaches a client with `handle`. When a client cannot go on, its handler is cancelled where
    it waits, so a handler changes what it remembers after its last wait.
    """

    objective: ClassVar[Literal["sum", "mean"]]
    """Whether the method minimises the sum of the clients' losses, or their weighted mean."""

    source: ClassVar[str]
    """The paper it is from, for people to read."""

    measured_by: ClassVar[Literal["L", "L_max"]] = "L"
    """The smoothness constant that its theory measures step sizes by."""

    uplink: ClassVar[Mapping[str, Meaning]] = {"": Meaning.INCREMENT}
    """What the vectors mean that clients pack, by the field they are packed for."""

    downlink: ClassVar[Mapping[str, Meaning]] = {"": Meaning.STATE}
    """What those of the server mean."""

    asks_all: ClassVar[bool] = True
    """Whether the server tells every client of the cohort every time."""

    proximal: ClassVar[bool] = False
    """Whether the method handles a penalty h beside the loss; it works without one, too."""

    constrained: ClassVar[bool] = False
    """Whether the method needs a loss with a constraint g(w) <= 0."""

    unbiased: ClassVar[bool] = False
    """Whether what arrives at the server must be right in the mean: what compresses the uplink
    is unbiased or exact then, or increments are made good by feedback."""

    asynchronous: ClassVar[bool] = False
    """Whether the method needs an asynchronous server: one that reacts to arrivals."""

    synchronous: ClassVar[str] = ""
    """Why the method needs rounds, where it cannot run under an asynchronous server."""

    kind: str

    @property
    def up(self) -> Mapping[str, Meaning]:
        """What clients' vectors mean, as the method is configured; others than these add up."""
        return self.uplink

    @property
    def down(self) -> Mapping[str, Meaning]:
        """What the server's vectors mean; others than these are states."""
        return self.downlink

    @property
    def late_replies_required(self) -> bool:
        """Whether the server's state is wrong for ever once a reply is dropped for being late."""
        return Meaning.DIFFERENCE in self.up.values()

    def concerns(self, setting: Setting) -> Iterator[Concern]:  # noqa: ARG002 - for subclasses
        """Yield the conditions of the method's theory that do not hold, once `configured`."""
        yield from ()

    def configured(self, setting: Setting) -> Self:
        """Return a copy whose step size is a number.

        Raises:
            ParameterError: a parameter is outside its meaning for this problem.
            DataError: the problem lacks a constant that is asked for.
        """
        step_size = getattr(self, "step_size", None)
        if not isinstance(step_size, str):
            return self
        constants = {"L": setting.smoothness, "L_max": lambda: setting.largest_smoothness}
        return self.model_copy(update={"step_size": resolved(step_size, constants)})

    def reference(self, problem: Problem) -> Reference | None:
        """Return the least value that the method can reach; None where none is known.

        Raises:
            DataError: the problem lacks what is needed to compute it.
        """
        return optimum(problem, self.objective)

    def memory(self, initial: Array) -> Any:  # noqa: ANN401, ARG002 - each algorithm types its own
        """Return what a client remembers at the start; `initial` is the model all start from."""
        return None

    def undelivered(self, client: Client, message: Any) -> None:  # noqa: ANN401 - a hook
        """Take note, at the client, that a message it has sent is known to be lost.

        A method whose server adds up what it is sent takes back what it said; most need not know.
        """

    @abstractmethod
    async def serve(self, server: Server) -> None:
        """Run the server: rounds of exchange and commit until a stop rule applies."""

    @abstractmethod
    async def handle(self, client: Client, message: Any) -> Message | Silence:  # noqa: ANN401
        """Answer one message that has reached a client."""
