"""Histories in little room: what the costs of a run depend on, as typed arrays in one block.

Three repetitions make a log large, and none of them says anything new:

- clients of one group that do the same in every exchange have the same costs, so they become one
  *class* with a count;
- exchanges in which every class does the same become one *load*, and a run is the sequence of its
  loads: one number an exchange;
- messages and work of one size become one *kind*: bits down, bits up, operations, samples.

What is left is compressed by zlib (`DecompressionStream("deflate")` in a browser), and written in
base64, since a page that opens from a disk may not fetch a second file.
"""

import base64
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fedsim.ports import Array
from fedsim.repricing.history import RunHistory

Whole = NDArray[np.unsignedinteger[Any]]


class CompactHistory(NamedTuple):
    """A run until one of its rounds; n classes, L loads, K kinds, E exchanges.

    Attributes:
        group: of each class, shape (n,).
        counts: the number of clients of each class, shape (n,).
        first: the first entry of each load in the next two, and their length, shape (L + 1,).
        task_class: the class of each entry, in the order of classes.
        task_kind: the kind of each entry.
        kinds: bits down and up, header included and framing not; operations, samples; (K, 4).
        sequence: the load of each exchange, shape (E,).
    """

    group: Whole
    counts: Whole
    first: Whole
    task_class: Whole
    task_kind: Whole
    kinds: Array
    sequence: Whole


def compact(
    history: RunHistory, look: int, groups: Sequence[int], header_bits: int
) -> CompactHistory:
    """Return the history of a run until a round.

    Args:
        history: of the run.
        look: the round; 0 is the start, before which there is no exchange.
        groups: the group of each client.
        header_bits: of every message.
    """
    exchanges = history.exchanges_until(look)
    first = np.array(history.exchanges.first[: exchanges + 1], np.intp)
    tasks, clients = history.tasks, np.array(history.tasks.client[: first[-1]], np.intp)
    last = first[-1]
    work = [
        _sums(amounts, tasks.begin[:last], tasks.end[:last])
        for amounts in (tasks.operations, tasks.samples)
    ]
    bits = [np.array(each[:last], np.float64) + header_bits for each in _sizes(history)]
    kinds, kind = np.unique(np.stack([*bits, *work], axis=1), axis=0, return_inverse=True)
    exchange = np.repeat(np.arange(exchanges), np.diff(first))
    classes = _classes(np.array(groups, np.intp), clients, exchange, kind.ravel())
    # One client stands for its class: all others have equal entries in the same exchanges.
    speaks = np.zeros(len(groups), bool)
    _, firsts, count = np.unique(classes, return_index=True, return_counts=True)
    speaks[firsts] = True
    kept = speaks[clients]
    entries = np.stack([classes[clients], kind.ravel()], axis=1)[kept]
    borders = np.concatenate([[0], np.cumsum(kept)])[first]
    order = np.lexsort((entries[:, 0], exchange[kept]))
    loads, sequence = _loads(entries[order], borders)
    length = np.concatenate([[0], np.cumsum([len(each) for each in loads])])
    every = np.concatenate(loads) if loads else np.zeros((0, 2), np.intp)
    return CompactHistory(
        _small(np.array(groups)[firsts]),
        _small(count),
        _small(length),
        _small(every[:, 0]),
        _small(every[:, 1]),
        kinds,
        _small(sequence),
    )


def _sizes(history: RunHistory) -> tuple[Sequence[int], Sequence[int]]:
    return history.tasks.received_bits, history.tasks.bits


def _sums(amounts: Sequence[float], begin: Sequence[int], end: Sequence[int]) -> Array:
    """Return the sums of amounts over the pieces of work of each task."""
    pieces = np.array(end, np.intp) - np.array(begin, np.intp)
    tasks = np.repeat(np.arange(len(pieces)), pieces)
    own = np.array(amounts[: len(tasks)], np.float64)
    return np.asarray(np.bincount(tasks, own, len(pieces)), np.float64)


def _classes(
    groups: NDArray[np.intp],
    clients: NDArray[np.intp],
    exchange: NDArray[np.intp],
    kind: NDArray[np.intp],
) -> NDArray[np.intp]:
    """Return the class of each client, numbered by the first client of each."""
    order = np.argsort(clients, kind="stable")
    borders = np.searchsorted(clients[order], np.arange(len(groups) + 1))
    did = np.stack([exchange[order], kind[order]], axis=1)
    seen = dict[tuple[int, bytes], int]()
    found = np.zeros(len(groups), np.intp)
    for client, group in enumerate(groups.tolist()):
        key = group, did[borders[client] : borders[client + 1]].tobytes()
        found[client] = seen.setdefault(key, len(seen))
    return found


def _loads(
    entries: NDArray[np.intp], borders: NDArray[np.intp]
) -> tuple[list[NDArray[np.intp]], NDArray[np.intp]]:
    """Return the different exchanges, and which of them each exchange is."""
    seen = dict[bytes, int]()
    loads = list[NDArray[np.intp]]()
    sequence = np.zeros(len(borders) - 1, np.intp)
    for number in range(len(sequence)):
        own = entries[borders[number] : borders[number + 1]]
        place = seen.setdefault(own.tobytes(), len(seen))
        if place == len(loads):
            loads.append(own)
        sequence[number] = place
    return loads, sequence


def _small(values: NDArray[Any]) -> Whole:
    """Return whole numbers in the least of 1, 2 or 4 bytes that holds all of them."""
    most = int(values.max(initial=0))
    kind = next(each for each in (np.uint8, np.uint16, np.uint32) if most <= np.iinfo(each).max)
    return values.astype(kind)


# One block of all arrays, and the places of each in it.

_TYPES = {"u1": "Uint8Array", "u2": "Uint16Array", "u4": "Uint32Array", "f8": "Float64Array"}
_ALIGNED = 8  # a typed array begins at a multiple of the size of its numbers


@dataclass(frozen=True)
class PackedHistories:
    """Histories in one compressed block.

    Attributes:
        text: the block in base64.
        places: a history a run: by name, the type of an array, its first byte, its length.
    """

    text: str
    places: tuple[dict[str, tuple[str, int, int]], ...]


def pack(histories: Sequence[CompactHistory]) -> PackedHistories:
    """Return some histories as one block."""
    parts, places, size = list[bytes](), list[dict[str, tuple[str, int, int]]](), 0
    for history in histories:
        own = dict[str, tuple[str, int, int]]()
        for name, values in history._asdict().items():
            content = np.ascontiguousarray(values, values.dtype.newbyteorder("<")).tobytes()
            own[name] = _TYPES[values.dtype.str[1:]], size, values.size
            parts.append(content + bytes(-len(content) % _ALIGNED))
            size += len(parts[-1])
        places.append(own)
    block = zlib.compress(b"".join(parts), 9)
    return PackedHistories(base64.b64encode(block).decode(), tuple(places))
