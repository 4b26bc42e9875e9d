"""Compact run histories for the browser: the inputs of a run's costs as typed arrays in one block.

Three kinds of repetition make a log large without adding information:

- clients of one group that do the same in every exchange have the same costs, so they become one
  *class* with a count;
- exchanges in which every class does the same become one *load*, and a run is the sequence of its
  loads: one number per exchange;
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

from fedsim.addons.repricing.history import RunHistory
from fedsim.core.ports import Array

Whole = NDArray[np.unsignedinteger[Any]]


class CompactHistory(NamedTuple):
    """A run until one of its rounds, with n classes, L loads, K kinds and E exchanges.

    Attributes:
        group: the group of each class, shape (n,).
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
        history: the history of the run.
        look: the round; 0 is the start, before any exchange.
        groups: the group of each client.
        header_bits: the header bits of every message.
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
    # Only the first client of a class is kept: the others have equal entries in all exchanges.
    is_representative = np.zeros(len(groups), bool)
    _, firsts, count = np.unique(classes, return_index=True, return_counts=True)
    is_representative[firsts] = True
    selected = is_representative[clients]
    entries = np.stack([classes[clients], kind.ravel()], axis=1)[selected]
    borders = np.concatenate([[0], np.cumsum(selected)])[first]
    order = np.lexsort((entries[:, 0], exchange[selected]))
    loads, sequence = _loads(entries[order], borders)
    length = np.concatenate([[0], np.cumsum([len(each) for each in loads])])
    all_loads = np.concatenate(loads) if loads else np.zeros((0, 2), np.intp)
    return CompactHistory(
        _small(np.array(groups)[firsts]),
        _small(count),
        _small(length),
        _small(all_loads[:, 0]),
        _small(all_loads[:, 1]),
        kinds,
        _small(sequence),
    )


def _sizes(history: RunHistory) -> tuple[Sequence[int], Sequence[int]]:
    return history.tasks.received_bits, history.tasks.bits


def _sums(amounts: Sequence[float], begin: Sequence[int], end: Sequence[int]) -> Array:
    """Return the sums of amounts over the pieces of work of each task."""
    pieces = np.array(end, np.intp) - np.array(begin, np.intp)
    tasks = np.repeat(np.arange(len(pieces)), pieces)
    values = np.array(amounts[: len(tasks)], np.float64)
    return np.asarray(np.bincount(tasks, values, len(pieces)), np.float64)


def _classes(
    groups: NDArray[np.intp],
    clients: NDArray[np.intp],
    exchange: NDArray[np.intp],
    kind: NDArray[np.intp],
) -> NDArray[np.intp]:
    """Return the class of each client; classes are numbered by their first clients."""
    order = np.argsort(clients, kind="stable")
    borders = np.searchsorted(clients[order], np.arange(len(groups) + 1))
    tasks = np.stack([exchange[order], kind[order]], axis=1)
    numbers = dict[tuple[int, bytes], int]()
    classes = np.zeros(len(groups), np.intp)
    for client, group in enumerate(groups.tolist()):
        key = group, tasks[borders[client] : borders[client + 1]].tobytes()
        classes[client] = numbers.setdefault(key, len(numbers))
    return classes


def _loads(
    entries: NDArray[np.intp], borders: NDArray[np.intp]
) -> tuple[list[NDArray[np.intp]], NDArray[np.intp]]:
    """Return the distinct exchanges, and the index of each exchange among them."""
    numbers = dict[bytes, int]()
    loads = list[NDArray[np.intp]]()
    sequence = np.zeros(len(borders) - 1, np.intp)
    for number in range(len(sequence)):
        load = entries[borders[number] : borders[number + 1]]
        place = numbers.setdefault(load.tobytes(), len(numbers))
        if place == len(loads):
            loads.append(load)
        sequence[number] = place
    return loads, sequence


def _small(values: NDArray[Any]) -> Whole:
    """Return integers in the smallest of 1, 2 or 4 bytes that holds all of them."""
    most = int(values.max(initial=0))
    kind = next(dtype for dtype in (np.uint8, np.uint16, np.uint32) if most <= np.iinfo(dtype).max)
    return values.astype(kind)


# One block of all arrays, and the place of each array in it.

_TYPES = {"u1": "Uint8Array", "u2": "Uint16Array", "u4": "Uint32Array", "f8": "Float64Array"}
_ALIGNED = 8  # a typed array has to begin at a multiple of its item size


@dataclass(frozen=True)
class PackedHistories:
    """Histories in one compressed block.

    Attributes:
        text: the block in base64.
        places: one dictionary per history: by name, the type of an array, its first byte, its
            length.
    """

    text: str
    places: tuple[dict[str, tuple[str, int, int]], ...]


def pack(histories: Sequence[CompactHistory]) -> PackedHistories:
    """Return histories as one block."""
    parts, places, size = list[bytes](), list[dict[str, tuple[str, int, int]]](), 0
    for history in histories:
        arrays = dict[str, tuple[str, int, int]]()
        for name, values in history._asdict().items():
            content = np.ascontiguousarray(values, values.dtype.newbyteorder("<")).tobytes()
            arrays[name] = _TYPES[values.dtype.str[1:]], size, values.size
            parts.append(content + bytes(-len(content) % _ALIGNED))
            size += len(parts[-1])
        places.append(arrays)
    block = zlib.compress(b"".join(parts), 9)
    return PackedHistories(base64.b64encode(block).decode(), tuple(places))
