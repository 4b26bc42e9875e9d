"""What every algorithm is: a frozen block of hyperparameters with two coroutines."""

import re
from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import BeforeValidator, WithJsonSchema

from fedsim.ports import Array, Client, Message, Server, Silence
from fedsim.spec import Spec

_RELATIVE = re.compile(r"^\s*(?P<factor>[0-9.]+(?:[eE][+-]?[0-9]+)?)\s*/\s*L\s*$")


def _step_size(value: object) -> object:
    """Accept a positive number, or a multiple of 1/L as text."""
    if isinstance(value, str):
        match = _RELATIVE.match(value)
        if match and float(match["factor"]) > 0:
            return value.strip()
    elif (
        isinstance(value, int | float) and not isinstance(value, bool) and 0 < value < float("inf")
    ):
        return float(value)
    raise ValueError(
        'a step size is a number above 0, or a multiple of 1/L as text, such as "1/L" or "0.5/L"'
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
"""A step size: a positive number, or "c/L" with L the smoothness of the whole objective."""


@dataclass(frozen=True, slots=True)
class Setting:
    """What an algorithm may know of its problem before the first round.

    Attributes:
        clients: M, how many clients there are.
        dimension: d, the length of the model.
        smoothness: returns L of the whole objective; raises `DataError` where it has none.
    """

    clients: int
    dimension: int
    smoothness: Callable[[], float]


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

    late_replies_required: ClassVar[bool] = False
    """Whether the server's state is wrong for ever once a reply is dropped for being late."""

    asks_all: ClassVar[bool] = True
    """Whether the server tells every client of the cohort every time."""

    feeds_back: ClassVar[bool] = False
    """Whether clients send differences to what the server holds of them, errors included."""

    kind: str

    def configured(self, setting: Setting) -> Self:
        """Return a copy whose step size is a number."""
        step_size = getattr(self, "step_size", None)
        if not isinstance(step_size, str):
            return self
        match = _RELATIVE.match(step_size)
        assert match is not None, "validated by StepSize"  # noqa: S101
        return self.model_copy(update={"step_size": float(match["factor"]) / setting.smoothness()})

    def memory(self, initial: Array) -> Any:  # noqa: ANN401, ARG002 - each algorithm types its own
        """Return what a client remembers at the start; `initial` is the model all start from."""
        return None

    def undelivered(self, client: Client, message: Any) -> None:  # noqa: ANN401 - a hook
        """Take note, at the client, that a message it has sent is known to be lost.

        A method whose server adds up what it is sent takes back what the message said, so
        that the two go on from the same state. Most need not know.
        """

    @abstractmethod
    async def serve(self, server: Server) -> None:
        """Run the server: rounds of exchange and commit until a stop rule applies."""

    @abstractmethod
    async def handle(self, client: Client, message: Any) -> Message | Silence:  # noqa: ANN401
        """Answer one message that has reached a client."""
