"""Loads: bits and operations of each exchange of a run, by client."""

from collections.abc import Sequence
from copy import copy
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fedsim.addons.repricing.history import RunHistory
from fedsim.core.ports import Array
from fedsim.physics.radios.channel import Framing
from fedsim.physics.radios.channel import header_bits as framing_bits

Numbers = NDArray[np.intp]
Whole = NDArray[np.int64]


class Load(NamedTuple):
    """One exchange: an entry per client of the cohort.

    Attributes:
        clients: the numbers of the clients; a slice for all of them, which avoids copies.
        down, up: the bits of messages, with header and framing, shape (t, 1), or (t, W) if the
            framing differs between worlds.
        operations, samples: the sums over all pieces of work.
    """

    clients: Numbers | slice
    down: Array
    up: Array
    operations: Array
    samples: Array


class Loads:
    """All exchanges of a run.

    Args:
        history: the history of the run.
        framings: the framing of each client's radio.
        header_bits: the header bits of every message.
    """

    def __init__(self, history: RunHistory, framings: Sequence[Framing], header_bits: int) -> None:
        tasks = history.tasks
        self._count = len(framings)
        self._first = history.exchanges.first
        self._clients = np.array(tasks.client, np.intp)
        self._packets = np.array([framing.packet for framing in framings])
        overheads = np.array([framing.overhead for framing in framings])[self._clients]
        # Framing depends on the bits with the header of fedsim's own protocol, so the header comes
        # first.
        self._unframed = tuple(
            np.array(bits, np.int64) + header_bits for bits in (tasks.received_bits, tasks.bits)
        )
        self._down, self._up = (
            bits + framing_bits(bits, overheads, self._packets[self._clients])
            for bits in self._unframed
        )
        self._overheads: Whole | None = None
        # A task is one client's part of an exchange; it may have several pieces of work.
        self._operations = _by_task(tasks.operations, tasks.begin, tasks.end)
        self._samples = _by_task(tasks.samples, tasks.begin, tasks.end)

    def with_overheads(self, overheads: Whole | None) -> "Loads":
        """Return the same exchanges with a separate framing per world.

        Args:
            overheads: the packet overhead of each client, bytes, shape (n, W), in place of the
                framing's; None if all worlds have the same.
        """
        if overheads is None:
            return self
        other = copy(self)
        down, up = self._unframed  # `of` adds the framing of each world
        vars(other).update(_overheads=overheads, _down=down, _up=up)
        return other

    def clients(self, number: int) -> Numbers | slice:
        """Return the cohort of an exchange, as `Load` represents it."""
        tasks = self._tasks(number)
        if tasks.stop - tasks.start == self._count:  # all, in order
            return slice(None)
        return self._clients[tasks]

    def key(self, number: int) -> bytes:
        """Return a key that is equal for two exchanges exactly if their loads are equal."""
        tasks = self._tasks(number)
        parts = self._clients, self._down, self._up, self._operations, self._samples
        # The bytes of floats: equal keys mean equal bits, so no tolerance decides here.
        return b"".join(part[tasks].tobytes() for part in parts)

    def _tasks(self, number: int) -> slice:
        return slice(self._first[number], self._first[number + 1])

    def of(self, number: int) -> Load:
        """Return one exchange."""
        tasks, clients = self._tasks(number), self.clients(number)
        down, up = (self._charge(bits[tasks], clients) for bits in (self._down, self._up))
        return Load(clients, down, up, self._operations[tasks], self._samples[tasks])

    def _charge(self, bits: Whole, clients: Numbers | slice) -> Array:
        """Return bits with framing, shape as in `Load`."""
        # A column broadcasts over worlds if the framing is common.
        column = bits[:, None]
        # Otherwise the constructor has added the common framing.
        if self._overheads is not None:
            packets = self._packets[clients, None]
            column = column + framing_bits(column, self._overheads[clients], packets)
        return column.astype(np.float64)


def _by_task(amounts: Sequence[float], begin: Sequence[int], end: Sequence[int]) -> Array:
    """Return the sums of amounts over the pieces of work of each task."""
    pieces = np.array(end, np.intp) - np.array(begin, np.intp)
    tasks = np.repeat(np.arange(len(pieces)), pieces)
    return np.asarray(np.bincount(tasks, np.array(amounts, np.float64), len(pieces)), np.float64)
