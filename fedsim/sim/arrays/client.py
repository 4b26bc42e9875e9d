"""A client whose work takes its time in arrays: its handler is driven by hand."""

from collections.abc import Callable, Generator
from types import coroutine
from typing import Any

from fedsim.physics.devices import DeviceLaw
from fedsim.ports import Array, Work
from fedsim.protocol.transport import ClientProtocol
from fedsim.sim.arrays.order import ReactionError
from fedsim.sim.client import Participant
from fedsim.sim.participant import Belongings
from fedsim.worlds.clock import Clock

Piece = tuple[float, float, float, bool, int]
"""A piece of work: its seconds, operations and samples, whether it is evaluated along with others
that begin at the same instant, where it takes no time, and how many equal ones are done in turn."""


@coroutine
def _hand_over(piece: Piece) -> Generator[Piece, None, None]:
    """Let the driver of the handler have a piece of work; it goes on when that is done."""
    yield piece


class ArrayClient(Participant):
    """Implements `fedsim.ports.Client` where nothing reacts to what it does.

    Args:
        protocol: its endpoint.
        clock: its time.
        device: what it is made of.
        own: what else belongs to it.
        mains: whether it has no battery.

    Attributes:
        protocol: its endpoint.
    """

    __slots__ = ("_mains", "protocol")

    def __init__(
        self,
        protocol: ClientProtocol,
        clock: Clock,
        device: DeviceLaw,
        own: Belongings,
        *,
        mains: bool = True,
    ) -> None:
        super().__init__(protocol, clock, device, own)
        self.protocol = protocol
        self._mains = mains

    @property
    def battery(self) -> float | None:
        """None on mains.

        Raises:
            ReactionError: it has one, whose state is known once the exchange is over.
        """
        self._looks.add("battery")
        if not self._mains:
            raise ReactionError("a handler reads the state of charge")
        return None

    async def compute(self, work: Work, begun: Callable[[int], None] | None = None) -> Array:
        """See `fedsim.ports.Client.compute`.

        Raises:
            Diverged: a vector that was computed is not finite.
        """
        ticket: Any = self._submit(work)
        together, figures = self._evaluator.together, (work.operations, work.samples)
        if begun is None and not self.draws_times:
            await _hand_over((self.seconds(work), *figures, together, work.pieces))
            return self._collect(ticket)
        for number in range(1, work.pieces + 1):
            if begun is not None:
                begun(number)
            await _hand_over((self.seconds(work), *figures, number == 1 and together, 1))
        return self._collect(ticket)

    @property
    def draws_times(self) -> bool:
        """Whether the duration of work is drawn, for each piece."""
        return bool(self._device.slowdown.drawn)

    def seconds(self, work: Work) -> float:
        """Return how long a piece of work takes, s; see `Participant`."""
        return work.operations / self._speed if self._speed else self._duration(work)
