"""The ports between algorithms and worlds.

An algorithm sees a `Server` or a `Client`, and nothing else of the world it runs in. The
world sees `Message`s with exact sizes and `Work` with a count of operations, and nothing
else of the algorithm. `fedsim.sim` implements these ports in virtual time.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any, ClassVar, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
"""Models, gradients and what arrives of them: always float64 when computed with."""

ClientId = int
"""Clients are numbered 0 .. M-1 in the order of the fleet; `SERVER` is the other node."""

SERVER: ClientId = -1


class Payload(Protocol):
    """What a message carries: exact bits on the wire, and the value that arrives."""

    @property
    def values(self) -> Array:
        """The decoded array, read-only: what the receiver computes with."""
        ...

    @property
    def bits(self) -> int:
        """The length of the encoding in bits, header excluded."""
        ...


class Packer(Protocol):
    """Turns the vectors of one sender into payloads, one after the other."""

    def pack(self, vector: Array) -> Payload:
        """Return what is sent for a vector, shape (d,); its `values` are what arrives."""
        ...

    def take_back(self, payload: Payload) -> None:
        """Forget a payload that is known to be lost, as if it had never been packed."""
        ...


class Message:
    """What one node tells another: a frozen dataclass, every field of it a payload.

    A class of messages is named after what it says. Its `label`, the class name in
    lower case, is the name that the event log knows it by.
    """

    __slots__ = ()
    __dataclass_fields__: ClassVar[dict[str, Any]]
    label: ClassVar[str] = "message"

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        cls.label = cls.__name__.lower()

    def payloads(self) -> tuple[Payload, ...]:
        """Return the payloads in the order of the fields."""
        return tuple([getattr(self, name) for name in self.__dataclass_fields__])

    @property
    def bits(self) -> int:
        """The payload bits of the whole message, header excluded."""
        bits = 0
        for name in self.__dataclass_fields__:
            bits += getattr(self, name).bits
        return bits


@dataclass(frozen=True, slots=True)
class Beacon(Message):
    """An empty message: "I am here and have nothing to send". Only its header is charged."""


class Silence(Enum):
    """The type of `SILENCE`."""

    SILENCE = "silence"


SILENCE = Silence.SILENCE
"""What a handler returns when its client keeps quiet this round."""


class Reply(NamedTuple):
    """What reached the server from a client.

    Attributes:
        client: who sent it.
        round: the round whose broadcast it answers; smaller than the current one when late.
        message: what was said.
    """

    client: ClientId
    round: int
    message: Any


class Work(NamedTuple):
    """A description of numeric work: what to evaluate, and what it costs.

    The kernel is a pure function of its arguments, so a world may evaluate it whenever it
    likes between the virtual start and the virtual finish, and wherever it likes.

    Attributes:
        kernel: the function to evaluate.
        arguments: its positional arguments.
        operations: floating-point operations, which set virtual time and energy.
        samples: how many samples it passes over, which set them on a device that counts
            cycles per sample.
    """

    kernel: Callable[..., Array]
    arguments: tuple[Any, ...]
    operations: float
    samples: float = 0.0


class Oracle(Protocol):
    """A client's own loss, as priced work."""

    def gradient(self, w: Array) -> Work:
        """Describe the evaluation of the full (sub)gradient at `w`, shape (d,)."""
        ...


class Server(Protocol):
    """The world as the server's coroutine sees it."""

    @property
    def clients(self) -> Sequence[ClientId]:
        """All clients of the fleet, in order."""
        ...

    @property
    def now(self) -> float:
        """Simulated seconds since the start."""
        ...

    @property
    def rng(self) -> np.random.Generator:
        """The server's own random stream."""
        ...

    @property
    def initial(self) -> Array:
        """The initial model, shape (d,)."""
        ...

    @property
    def smoothness(self) -> Array:
        """The smoothness constants L_m of the clients' losses, shape (M,)."""
        ...

    def pack(self, vector: Array) -> Payload:
        """Encode a vector as the scenario's downlink does; `.values` is what will arrive."""
        ...

    async def exchange(
        self, message: Message, *, to: Sequence[ClientId] | None = None
    ) -> list[Reply]:
        """Open a round: send `message` to the cohort and gather until the round closes.

        Args:
            message: what every client of the cohort is told.
            to: the clients to ask; the whole cohort when not given.

        Returns:
            The replies that carry something, by client and then by round. Silent clients are
            not in it. Under a deadline it also holds late replies to earlier rounds.
        """
        ...

    def commit(self, model: Array, **measures: float) -> None:
        """Close the round: the observer evaluates `model`, the stop rules are applied.

        Where a stop rule applies the call does not return, and the run is over.

        Args:
            model: the model this round stands for, shape (d,).
            measures: further figures of the round, which become columns of the round table.
        """
        ...


class Client(Protocol):
    """The world as a client's handler sees it."""

    @property
    def id(self) -> ClientId:
        """This client's number."""
        ...

    @property
    def now(self) -> float:
        """Simulated seconds since the start."""
        ...

    @property
    def rng(self) -> np.random.Generator:
        """This client's own random stream."""
        ...

    @property
    def state(self) -> Any:  # noqa: ANN401 - typed by each algorithm's `memory`
        """What this client remembers between messages: what `Algorithm.memory` returned."""
        ...

    @property
    def oracle(self) -> Oracle:
        """This client's own loss."""
        ...

    @property
    def battery(self) -> float | None:
        """The state of charge in [0, 1]; None for a client on mains."""
        ...

    def pack(self, vector: Array) -> Payload:
        """Encode a vector as the scenario's uplink does; `.values` is what will arrive."""
        ...

    async def compute(self, work: Work) -> Array:
        """Charge the work's time and energy, and return its result at its virtual finish."""
        ...
