"""What a client has of itself, whether its rounds are played as events or in arrays."""

from collections.abc import Callable
from math import inf
from typing import Any, Protocol

import numpy as np

from fedsim.computing import Evaluator
from fedsim.computing.serial import finite
from fedsim.errors import Diverged, WorkDurationError
from fedsim.physics.devices import DeviceLaw
from fedsim.ports import Array, ClientId, Message, Oracle, Payload, Silence, Work, node_name
from fedsim.protocol.transport import BEACON
from fedsim.wire.packers import Packing
from fedsim.worlds.clock import Clock, Clocked

TakeBack = Callable[[Any, Any], None]
"""`Algorithm.undelivered`, a function of the client and its message."""


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


class Participant(Clocked):
    """What `fedsim.ports.Client` has apart from the passing of time.

    Attributes:
        id: its number.
        oracle: its loss.
        state: the algorithm's own.
    """

    __slots__ = (
        "_device",
        "_evaluator",
        "_make_rng",
        "_protocol",
        "_rng",
        "_slow",
        "_speed",
        "_take_back",
        "id",
        "oracle",
        "state",
    )

    def __init__(
        self, protocol: Endpoint, clock: Clock, device: DeviceLaw, own: Belongings
    ) -> None:
        super().__init__(clock, own.looks)
        self.id = protocol.id
        self.oracle = own.oracle
        self.state = own.state
        self._protocol = protocol
        self._make_rng = own.rng
        self._device = device
        self._speed = None if device.slowdown.drawn else device.constant
        self._take_back = own.take_back
        self._evaluator = own.evaluator
        self._rng: np.random.Generator | None = None  # of what it draws from first
        self._slow: np.random.Generator | None = None

    @property
    def name(self) -> str:
        """Its name in reports."""
        return node_name(self.id)

    @property
    def round(self) -> int:
        """The number of the round that it is in."""
        return self._protocol.round

    @property
    def pack(self) -> Callable[..., Payload]:
        """See `fedsim.ports.Client.pack`."""
        return self._protocol.packing.pack

    @property
    def rng(self) -> np.random.Generator:
        """This client's own random stream; created at its first draw."""
        if self._rng is None:
            self._rng = self._make_rng("client", self.id)
        return self._rng

    @property
    def _slowdowns(self) -> np.random.Generator:
        """The random stream of its slowdowns."""
        if self._slow is None:
            self._slow = self._make_rng("slowdown", self.id)
        return self._slow

    def undelivered(self, _: ClientId, reply: Message | Silence) -> None:
        """Report to the algorithm that a message of this node is known to be lost."""
        if isinstance(reply, Message) and reply is not BEACON:
            self._protocol.take_back(reply)
            self._take_back(self, reply)

    def _submit(self, work: Work) -> object:
        """Hand work to the evaluator; return the ticket for its result.

        Raises:
            ValueError: it has no finite number of operations.
        """
        if not 0.0 <= work.operations < inf:
            raise ValueError(f"work has a finite number of operations, not {work.operations}")
        ticket: object = self._evaluator.submit(work)
        return ticket

    def _collect(self, ticket: object) -> Array:
        """Return the result of work that is done.

        Raises:
            Diverged: a vector that was computed is not finite.
        """
        result = self._evaluator.result(ticket)
        if not finite(result):
            raise Diverged(
                self._protocol.round, f"client {self.id} has computed what is not finite"
            )
        return result

    def _duration(self, work: Work) -> float:
        """Sample the duration of work on this device, s.

        Raises:
            WorkDurationError: it never ends, or ends before it begins.
        """
        device = self._device
        seconds = device.seconds(work.operations, work.samples)
        if device.slowdown.drawn:
            seconds *= device.slowdown.draw(self._slowdowns)
        if not 0.0 <= seconds < inf:
            raise WorkDurationError(
                f"{work.operations:g} operations on {work.samples:g} samples would take"
                f" {seconds:g} s on the device {device.kind} of client {self.id}; its `seconds`"
                f" and the factors of its slowdown {device.slowdown.kind} are finite and at least 0"
            )
        return seconds
