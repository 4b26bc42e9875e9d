"""Columns of Arrow tables as numbers: what a cell may be, and where it is not that."""

# ruff: noqa: ANN401 - pyarrow has no types

from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedsim.errors import DataError
from fedsim.ports import Array
from fedsim.problems.features import as_read


def whole_column(table: Any, name: str, key: str, where: str) -> Any:
    """Return a column as one array without empty cells.

    Args:
        table: of pyarrow.
        name: of the column.
        key: of the scenario that names it, for errors.
        where: the table is from, for errors.

    Raises:
        DataError: there is none, or a row has nothing in it.
    """
    if name not in table.column_names:
        columns = ", ".join(f"{field.name} ({field.type})" for field in table.schema)
        raise DataError(key, f"{where} has no column {name!r}; it has {columns[:400]}")
    column = table.column(name)
    array = column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()
    if hasattr(array, "storage"):  # an extension, such as the arrays of Hugging Face
        array = array.storage
    if array.null_count:
        row = int(np.flatnonzero(array.is_null().to_numpy(zero_copy_only=False))[0])
        raise DataError(key, f"{where}, row {row + 1}: nothing in the column {name!r}")
    return array


def numbers(array: Any, name: str, key: str, where: str) -> Array:
    """Return cells of numbers, or of lists of as many numbers each, as rows (n, d).

    Raises:
        DataError: they are something else; the first row at fault is named.
    """
    from pyarrow import types  # noqa: PLC0415 - takes 0.1 s, and few commands need it

    rows, kind = len(array), array.type
    while types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind):
        array, kind = _flattened(array, rows, name, key, where), kind.value_type
    if not (types.is_integer(kind) or types.is_floating(kind) or types.is_boolean(kind)):
        text = f"{where}: the column {name!r} is of {kind}"
        raise DataError(key, f"{text}; accepted are numbers, lists of numbers, and images")
    flat: NDArray[np.generic] = array.to_numpy(zero_copy_only=False)
    return as_read(flat.reshape(rows, -1) if rows else np.empty((0, 0)))


def _flattened(array: Any, rows: int, name: str, key: str, where: str) -> Any:
    """Return what is in lists of one length, end to end."""
    from pyarrow import compute  # noqa: PLC0415 - see `numbers`

    lengths = compute.list_value_length(array).to_numpy(zero_copy_only=False)
    other = np.flatnonzero(lengths != lengths[:1])
    if len(other):
        row = int(other[0]) * rows // len(lengths) + 1
        seen = f"{lengths[other[0]]} values in a list, but {lengths[0]} in the first"
        text = f"{where}, row {row}: the column {name!r} has {seen}; all take one number of them"
        raise DataError(key, text)
    flat = array.flatten()
    if flat.null_count:
        empty = int(np.flatnonzero(flat.is_null().to_numpy(zero_copy_only=False))[0])
        row = empty * rows // len(flat) + 1
        raise DataError(key, f"{where}, row {row}: a list of the column {name!r} has a gap")
    return flat


def told_apart(array: Any) -> NDArray[np.int64]:
    """Return a number from 0 for each cell, in the order of what is in them, shape (n,)."""
    found = np.array(array.to_pylist())
    return np.unique(found, return_inverse=True)[1].astype(np.int64)
