"""A client in arrays: the driver of its handler, not an event loop, completes its work."""

from collections.abc import Callable, Generator, Iterator, Sequence
from math import inf
from types import coroutine
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fedsim.core.ports import Array, Work
from fedsim.physics.devices import DeviceLaw
from fedsim.protocol.transport import ClientProtocol
from fedsim.sim.arrays.order import Numbers, ReactionError
from fedsim.sim.client import Participant
from fedsim.sim.participant import Belongings
from fedsim.sim.worlds.clock import Clock

Piece = tuple[float, float, float, bool, int]
"""A piece of work: its duration in s, its operations and samples, whether the evaluator batches it
with other work of the same instant (which matters if it takes no time), and its repetitions."""


class Pieces(NamedTuple):
    """Pieces of work of n clients, equally many of each.

    Attributes:
        seconds: the durations by piece and client, s, shape (pieces, n); (n,) for one piece.
        operations, samples: the operations and samples of each piece of a client, shape (n,).
        at_once: whether a client's first piece is batched with other work; see `Piece`.
    """

    seconds: Array
    operations: Array
    samples: Array
    at_once: NDArray[np.bool_]


def alike(pieces: Array) -> Iterator[tuple[Numbers, Pieces]]:
    """Group clients by their number of repetitions; yield indices and pieces of each group.

    Args:
        pieces: a `Piece` per client, shape (n, 5).
    """
    seconds, operations, samples, at_once, counts = pieces.T
    # Durations have shape (pieces, n), so one array needs equal numbers of repetitions.
    for count in np.unique(counts).tolist():
        members = np.flatnonzero(counts == count)
        durations = np.broadcast_to(seconds[members], (int(count), len(members)))
        yield (
            members,
            Pieces(durations, operations[members], samples[members], at_once[members] > 0),
        )


@coroutine
def _hand_over(piece: Piece) -> Generator[Piece, None, None]:
    """Yield a piece of work to the driver; resume when it is complete."""
    yield piece


class ArrayClient(Participant):
    """Implements `fedsim.core.ports.Client` for a client to which nothing reacts within a round.

    Args:
        protocol: the client's endpoint.
        clock: the client's clock.
        device: the client's device.
        parts: the other dependencies of the client.
        mains: whether the client has no battery.

    Attributes:
        protocol: the client's endpoint.
    """

    __slots__ = ("_mains", "protocol")

    def __init__(
        self,
        protocol: ClientProtocol,
        clock: Clock,
        device: DeviceLaw,
        parts: Belongings,
        *,
        mains: bool = True,
    ) -> None:
        super().__init__(protocol, clock, device, parts)
        self.protocol = protocol
        self._mains = mains

    @property
    def battery(self) -> float | None:
        """None on mains.

        Raises:
            ReactionError: the client has one. Its state is known only after the exchange.
        """
        self._looks.add("battery")
        if not self._mains:
            raise ReactionError("a handler reads the state of charge")
        return None

    async def compute(self, work: Work, begun: Callable[[int], None] | None = None) -> Array:
        """See `fedsim.core.ports.Client.compute`.

        Raises:
            Diverged: a vector that was computed is not finite.
        """
        # Submitted before the first yield, so that the evaluator sees the work of all clients at
        # once.
        ticket: Any = self._submit(work)
        together, figures = self._evaluator.together, (work.operations, work.samples)
        if begun is None and not self.draws_times:
            await _hand_over((self.seconds(work), *figures, together, work.pieces))
            return self._collect(ticket)
        # Piece by piece if durations are drawn or a callback runs before each piece. Only the first
        # piece can be batched with other work: the evaluator computes all pieces as one.
        for repetition in range(1, work.pieces + 1):
            if begun is not None:
                begun(repetition)
            await _hand_over((self.seconds(work), *figures, repetition == 1 and together, 1))
        return self._collect(ticket)

    @property
    def draws_times(self) -> bool:
        """Whether the duration of each piece of work is drawn at random."""
        return bool(self._device.slowdown.drawn)

    def seconds(self, work: Work) -> float:
        """Return the duration of a piece of work, s; see `Participant`."""
        # Same operations as in `Worker.compute`, for the same rounding.
        return work.operations / self._speed if self._speed else self._duration(work)

    def drawn_seconds(self, work: Work, streams: Sequence[np.random.Generator]) -> Array:
        """Return durations of work on clients with this client's device, s, shape (pieces, n).

        Args:
            work: the work of each client, in several pieces.
            streams: the random stream of each client's slowdowns.

        Raises:
            ReactionError: a duration is invalid. Only the event-by-event run finds the first one.
        """
        device, pieces = self._device, range(work.pieces)
        nominal, draw = device.seconds(work.operations, work.samples), device.slowdown.draw
        # Piece by piece for each client: the order in which a single client draws.
        seconds = np.array([[nominal * draw(rng) for _ in pieces] for rng in streams]).T
        if not ((seconds >= 0.0) & (seconds < inf)).all():
            raise ReactionError("work never ends, or ends before it begins")
        return seconds
