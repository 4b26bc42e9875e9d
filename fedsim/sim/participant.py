"""What a participant is made of, whether rounds are played as events or in arrays."""

from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, Protocol

import numpy as np

from fedsim.computing import Evaluator
from fedsim.ports import ClientId, Message, Oracle
from fedsim.wire.packers import Packing

TakeBack = Callable[[Any, Any], None]
"""`Algorithm.undelivered`, a function of the client and its message."""

Follows = Callable[[Any], Coroutine[Any, Any, None]] | None
"""`Algorithm.afterwards`, a coroutine function of the client; None for no more work."""


class Waits(Protocol):
    """The waits of a worker."""

    def until(self, when: float) -> Awaitable[None]:
        """Wait until a time."""
        ...


class Endpoint(Protocol):
    """The part of a protocol endpoint that a participant needs.

    Attributes:
        id: the node's number.
        round: the one that it is in.
    """

    id: ClientId
    round: int

    @property
    def packing(self) -> Packing:
        """The packers of its messages."""
        ...

    def take_back(self, message: Message) -> None:
        """Forget a message that is known to be lost, as if it had never been packed."""
        ...


class Belongings(Protocol):
    """What a participant is made of, beside its endpoint and its device."""

    @property
    def evaluator(self) -> Evaluator:
        """Computes the numeric work."""
        ...

    @property
    def oracle(self) -> Oracle:
        """Its loss."""
        ...

    @property
    def state(self) -> Any:  # noqa: ANN401 - the algorithm's own
        """What the algorithm remembers of it."""
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
