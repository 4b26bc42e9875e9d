"""Nodes of a chunk of the log, and their names."""

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from fedsim.core.ports import SERVER, node_name
from fedsim.results.record.schema import NO_PEER, Chunk, RowColumns

_ALL_NAMED = 20
"""All node names are cached, 16 B each, once a chunk mentions a twentieth of the nodes."""

_WIDE = 16
"""Largest ratio between the length of an array over node numbers and the rows of a chunk. An array
over all nodes per chunk would take quadratic time in their number."""

_FEW = 1000
"""Below this many names, Python makes them; above, Arrow does."""


def number_ids(ids: NDArray[np.integer], most: int) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Return the distinct ids in order, and the index of each id among them.

    Like `numpy.unique` with its inverse, but without sorting, in time linear in `most`.

    Args:
        ids: from 0, in any order, shape (n,).
        most: an exclusive upper bound for the ids.
    """
    is_present = np.zeros(most, np.bool_)
    is_present[ids] = True
    present = np.flatnonzero(is_present)
    place = np.empty(most, np.intp)  # uninitialised: only entries of ids are ever touched
    place[present] = np.arange(len(present))
    return present, place[ids]


def number_nodes(
    rows: Chunk, name: str, clients: int
) -> tuple[NDArray[np.int64], NDArray[np.intp]]:
    """Return the distinct nodes of a column in order, and each row's index among them.

    Args:
        rows: n rows of the log, which cache the result.
        name: "node" or "peer". The peer of a row without one is `NO_PEER`, which comes first.
        clients: the number of clients, and of gateways.
    """
    if not isinstance(rows, RowColumns):
        return _number(rows[name], clients)
    if name not in rows.nodes:
        rows.nodes[name] = _number(rows[name], clients)
    return rows.nodes[name]


def _number(column: NDArray[np.int32], clients: int) -> tuple[NDArray[np.int64], NDArray[np.intp]]:
    most = clients - NO_PEER
    if most <= _WIDE * len(column):
        present, numbers = number_ids(column - NO_PEER, most)
        return present + NO_PEER, numbers
    others = column[column >= 0]  # numbers may be close together apart from the server
    least = int(others.min()) if len(others) else 0
    span = int(others.max()) - least if len(others) else 0
    if span > _WIDE * len(column):
        nodes, numbers = np.unique(column, return_inverse=True)
        return nodes.astype(np.int64), numbers
    near = np.where(column >= 0, column - least, column)
    present, numbers = number_ids(near - NO_PEER, span + 1 - NO_PEER)
    present += NO_PEER
    return np.where(present >= 0, present + least, present), numbers


class NodeNames:
    """Names of nodes as dictionary columns of the log.

    Args:
        clients: the number of clients, and of gateways.
    """

    def __init__(self, clients: int) -> None:
        self._clients = clients
        self._every: pa.Array | None = None  # from the server on

    def columns(self, rows: Chunk, gateways: float) -> list[pa.Array]:
        """Return nodes and peers as dictionaries of the names that occur in each.

        Args:
            rows: rows of the log.
            gateways: the number of the first gateway; infinite if there is none.
        """
        numbered = [number_nodes(rows, name, self._clients) for name in ("node", "peer")]
        most = max(len(nodes) for nodes, _ in numbered)
        if self._every is None and self._clients < _ALL_NAMED * most:
            self._every = _name_all(np.arange(SERVER, self._clients), gateways)
        columns = []
        for nodes, numbers in numbered:
            without_node = int(len(nodes) > 0 and nodes[0] == NO_PEER)
            present = nodes[without_node:]
            all_names = self._every
            names = (
                _name_all(present, gateways)
                if all_names is None
                else all_names.take(pa.array(present - SERVER))
            )
            columns.append(as_category(numbers - without_node, names))
        return columns


def _name_all(nodes: NDArray[np.int64], gateways: float) -> pa.Array:
    """Return the names of nodes in ascending order; gateways begin at a number."""
    if len(nodes) < _FEW:
        return pa.array([node_name(node, gateways) for node in nodes.tolist()], pa.string())
    first, last = np.searchsorted(nodes, [0, gateways]).tolist()
    numbers = pa.array(nodes).cast(pa.string())
    kinds = ("client", numbers[first:last]), ("gateway", numbers[last:])
    named = [pc.binary_join_element_wise(kind, part, "-") for kind, part in kinds]
    return pa.concat_arrays([pa.array([node_name(SERVER)] * first, pa.string()), *named])


def as_category(codes: NDArray[np.integer], names: pa.Array) -> pa.Array:
    """Return the names of the codes; a code below zero is null."""
    known = codes >= 0
    valid = None if known.all() else pa.py_buffer(np.packbits(known, bitorder="little"))
    buffers = [valid, pa.py_buffer(codes.astype(np.int32))]
    indices = pa.Array.from_buffers(pa.int32(), len(codes), buffers)
    return pa.DictionaryArray.from_arrays(indices, names)
