"""Dependencies of a participant, shared by both execution paths: events and arrays."""

from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, Protocol

import numpy as np

from fedsim.core.ports import ClientId, Message, Oracle
from fedsim.problems.evaluators import Evaluator
from fedsim.wire.packers import Packing

TakeBack = Callable[[Any, Any], None]
"""`Algorithm.undelivered`, a function of the client and its message."""

Follows = Callable[[Any], Coroutine[Any, Any, None]] | None
"""`Algorithm.afterwards`, a coroutine function of the client; None for no more work."""


class Waits(Protocol):
    """Waiting, as a worker does it."""

    def until(self, when: float) -> Awaitable[None]:
        """Wait until a time."""
        ...


class Endpoint(Protocol):
    """The part of a protocol endpoint that a participant needs.

    Attributes:
        id: the number of the node.
        round: the number of the round that the node is in.
    """

    id: ClientId
    round: int

    @property
    def packing(self) -> Packing:
        """The packers of the node's messages."""
        ...

    def take_back(self, message: Message) -> None:
        """Forget a message that is known to be lost, as if it had never been packed."""
        ...


class Belongings(Protocol):
    """The dependencies of a participant beside its endpoint and its device."""

    @property
    def evaluator(self) -> Evaluator:
        """The evaluator of numeric work."""
        ...

    @property
    def oracle(self) -> Oracle:
        """The participant's loss."""
        ...

    @property
    def state(self) -> Any:
        """The algorithm's state of this participant."""
        ...

    @property
    def rng(self) -> Callable[..., np.random.Generator]:
        """Return the random stream of a purpose and an entity."""
        ...

    @property
    def take_back(self) -> TakeBack:
        """See `TakeBack`."""
        ...

    @property
    def looks(self) -> set[str]:
        """The set to which the names of what the method reads are added."""
        ...
