"""Loads: bits and operations of each exchange of a run, by client."""

from collections.abc import Sequence
from copy import copy
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fedsim.physics.radios.channel import Framing
from fedsim.physics.radios.channel import header_bits as framing_bits
from fedsim.ports import Array
from fedsim.repricing.history import RunHistory

Numbers = NDArray[np.intp]
Whole = NDArray[np.int64]


class Load(NamedTuple):
    """One exchange: an entry for each client of the cohort.

    Attributes:
        clients: their numbers; a slice if it is all of them, so that nothing is copied.
        down, up: bits of the messages, header and framing included, shape (t, 1), or (t, W) if
            the framing differs by world.
        operations, samples: of all pieces of work together.
    """

    clients: Numbers | slice
    down: Array
    up: Array
    operations: Array
    samples: Array


class Loads:
    """All exchanges of a run.

    Args:
        history: of the run.
        framings: of each client's radio.
        header_bits: of every message.
    """

    def __init__(self, history: RunHistory, framings: Sequence[Framing], header_bits: int) -> None:
        tasks = history.tasks
        self._count = len(framings)
        self._first = history.exchanges.first
        self._clients = np.array(tasks.client, np.intp)
        self._packets = np.array([framing.packet for framing in framings])
        own = np.array([framing.overhead for framing in framings])[self._clients]
        self._unframed = tuple(
            np.array(bits, np.int64) + header_bits for bits in (tasks.received_bits, tasks.bits)
        )
        self._down, self._up = (
            bits + framing_bits(bits, own, self._packets[self._clients]) for bits in self._unframed
        )
        self._overheads: Whole | None = None
        self._operations = _by_task(tasks.operations, tasks.begin, tasks.end)
        self._samples = _by_task(tasks.samples, tasks.begin, tasks.end)

    def with_overheads(self, overheads: Whole | None) -> "Loads":
        """Return the same exchanges with another framing in each world.

        Args:
            overheads: of each client's packets, in place of the framing's, bytes, shape (n, W);
                None if it is the same in all worlds.
        """
        if overheads is None:
            return self
        other = copy(self)
        down, up = self._unframed  # `of` adds the framing of each world
        vars(other).update(_overheads=overheads, _down=down, _up=up)
        return other

    def clients(self, number: int) -> Numbers | slice:
        """Return the participants of an exchange, as `Load` represents them."""
        own = self._tasks(number)
        if own.stop - own.start == self._count:  # all, in order
            return slice(None)
        return self._clients[own]

    def key(self, number: int) -> bytes:
        """Return a key that two exchanges share exactly if their loads are equal."""
        own = self._tasks(number)
        parts = self._clients, self._down, self._up, self._operations, self._samples
        return b"".join(part[own].tobytes() for part in parts)

    def _tasks(self, number: int) -> slice:
        return slice(self._first[number], self._first[number + 1])

    def of(self, number: int) -> Load:
        """Return one exchange."""
        own, clients = self._tasks(number), self.clients(number)
        down, up = (self._charge(bits[own], clients) for bits in (self._down, self._up))
        return Load(clients, down, up, self._operations[own], self._samples[own])

    def _charge(self, bits: Whole, clients: Numbers | slice) -> Array:
        """Return bits with framing, shape as in `Load`."""
        column = bits[:, None]
        if self._overheads is not None:
            packets = self._packets[clients, None]
            column = column + framing_bits(column, self._overheads[clients], packets)
        return column.astype(np.float64)


def _by_task(amounts: Sequence[float], begin: Sequence[int], end: Sequence[int]) -> Array:
    """Return the sums of amounts over the pieces of work of each task."""
    pieces = np.array(end, np.intp) - np.array(begin, np.intp)
    tasks = np.repeat(np.arange(len(pieces)), pieces)
    return np.asarray(np.bincount(tasks, np.array(amounts, np.float64), len(pieces)), np.float64)
