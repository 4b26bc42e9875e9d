"""A client whose work takes its time in arrays: its handler is driven by hand."""

from collections.abc import Callable, Generator, Iterator, Sequence
from math import inf
from types import coroutine
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fedsim.physics.devices import DeviceLaw
from fedsim.ports import Array, Work
from fedsim.protocol.transport import ClientProtocol
from fedsim.sim.arrays.order import Numbers, ReactionError
from fedsim.sim.client import Participant
from fedsim.sim.participant import Belongings
from fedsim.worlds.clock import Clock

Piece = tuple[float, float, float, bool, int]
"""A piece of work: its seconds, operations and samples, whether it is evaluated along with others
that begin at the same instant, where it takes no time, and how many equal ones are done in turn."""


class Pieces(NamedTuple):
    """Pieces of work of n clients, equally many of each.

    Attributes:
        seconds: how long each takes, by piece and client, shape (pieces, n); (n,) of one piece.
        operations, samples: of each piece of a client, shape (n,).
        at_once: whether a client's first piece is evaluated along with others; see `Piece`.
    """

    seconds: Array
    operations: Array
    samples: Array
    at_once: NDArray[np.bool_]


def alike(given: Array) -> Iterator[tuple[Numbers, Pieces]]:
    """Yield clients that do equally many pieces, and these; see `Piece`, shape (n, 5)."""
    seconds, operations, samples, at_once, counts = given.T
    for count in np.unique(counts).tolist():
        own = np.flatnonzero(counts == count)
        every = np.broadcast_to(seconds[own], (int(count), len(own)))
        yield own, Pieces(every, operations[own], samples[own], at_once[own] > 0)


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

    def drawn_seconds(self, work: Work, streams: Sequence[np.random.Generator]) -> Array:
        """Return how long work takes clients with this one's device, s, shape (pieces, n).

        Args:
            work: theirs, of several pieces.
            streams: of their slowdowns.

        Raises:
            ReactionError: that of one is refused; events tell which one is the first.
        """
        device, pieces = self._device, range(work.pieces)
        nominal, draw = device.seconds(work.operations, work.samples), device.slowdown.draw
        seconds = np.array([[nominal * draw(rng) for _ in pieces] for rng in streams]).T
        if not ((seconds >= 0.0) & (seconds < inf)).all():
            raise ReactionError("work never ends, or ends before it begins")
        return seconds
