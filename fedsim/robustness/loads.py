"""Loads: what each exchange of a run sends and computes, as numbers by client."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fedsim.physics.packets import Framing
from fedsim.ports import Array
from fedsim.repricing.tape import Tape

Numbers = NDArray[np.intp]


class Load(NamedTuple):
    """One exchange: an entry for each client of the cohort.

    Attributes:
        clients: their numbers; a slice where it is all of them, so that nothing is copied.
        told, said: bits down and up, header and framing included, shape (t, 1), or (t, W) where
            the framing differs by world.
        operations, samples: of all pieces of work together.
    """

    clients: Numbers | slice
    told: Array
    said: Array
    operations: Array
    samples: Array


class Loads:
    """All exchanges of a run.

    Args:
        tape: of the run.
        framings: of each client's radio.
        header_bits: in front of every message.
        overheads: of each client's packets in each world in place of its framing's, bytes, shape
            (n, W); None where it is the same in all.
    """

    def __init__(
        self,
        tape: Tape,
        framings: Sequence[Framing],
        header_bits: int,
        overheads: Array | None = None,
    ) -> None:
        tasks = tape.tasks
        self._count = len(framings)
        self._first = tape.exchanges.first
        self._clients = np.array(tasks.client, np.intp)
        kinds = list(dict.fromkeys(framings))
        own = np.array([kinds.index(each) for each in framings], np.intp)[self._clients]
        self._told = _framed(tasks.told_bits, own, kinds, header_bits)
        self._said = _framed(tasks.bits, own, kinds, header_bits)
        self._overheads, self._packets = overheads, np.array([each.packet for each in framings])
        if overheads is not None:  # bits without framing, which each exchange adds by world
            self._told = np.array(tasks.told_bits, np.float64) + header_bits
            self._said = np.array(tasks.bits, np.float64) + header_bits
        self._operations = _by_task(tasks.operations, tasks.begin, tasks.end)
        self._samples = _by_task(tasks.samples, tasks.begin, tasks.end)

    def clients(self, number: int) -> Numbers | slice:
        """Return who takes part in an exchange, as `Load` has them."""
        own = self._tasks(number)
        if own.stop - own.start == self._count:  # in their order, as tasks are
            return slice(None)
        return self._clients[own]

    def key(self, number: int) -> bytes:
        """Return what is the same for two exchanges of the same load, and for no others."""
        own = self._tasks(number)
        parts = self._clients, self._told, self._said, self._operations, self._samples
        return b"".join(part[own].tobytes() for part in parts)

    def _tasks(self, number: int) -> slice:
        return slice(self._first[number], self._first[number + 1])

    def of(self, number: int) -> Load:
        """Return one exchange."""
        own, clients = self._tasks(number), self.clients(number)
        told, said = (self._charged(bits[own], clients) for bits in (self._told, self._said))
        return Load(clients, told, said, self._operations[own], self._samples[own])

    def _charged(self, bits: Array, clients: Numbers | slice) -> Array:
        """Return what messages of some clients are charged for, as `Load` has them."""
        column = bits[:, None]
        if self._overheads is None:
            return column
        framing, packet = self._overheads[clients], self._packets[clients, None]
        return np.asarray(column + 8.0 * framing * np.ceil(column / (8.0 * (packet - framing))))


def _framed(bits: Sequence[int], own: Numbers, kinds: Sequence[Framing], header: int) -> Array:
    """Return what messages are charged for: their own bits, the header's and the framing's."""
    whole = np.array(bits, np.int64) + header
    framed = np.zeros_like(whole)
    for number, kind in enumerate(kinds):
        room = 8 * (kind.packet - kind.overhead)
        framed += np.where(own == number, 8 * kind.overhead * -(-whole // room), 0)
    return (whole + framed).astype(np.float64)


def _by_task(amounts: Sequence[float], begin: Sequence[int], end: Sequence[int]) -> Array:
    """Add up what the pieces of work of each task take."""
    pieces = np.array(end, np.intp) - np.array(begin, np.intp)
    tasks = np.repeat(np.arange(len(pieces)), pieces)
    return np.asarray(np.bincount(tasks, np.array(amounts, np.float64), len(pieces)), np.float64)
