"""Arrow tables in files: Parquet and Arrow's own formats, read within the memory budget.

Both formats compress, and both store a repeated cell once, so a file of a kilobyte can expand to
terabytes. The size of a table is therefore computed before memory is allocated: for numbers from
the counts of cells in the headers, for texts from their dictionaries and lengths.
"""

from collections.abc import Iterator
from functools import partial
from io import BytesIO
from pathlib import Path
from struct import unpack_from
from typing import Any, NamedTuple

import numpy as np

from fedsim.core.memory import check_budget

_FILE, _FEATHER_1 = b"ARROW1", b"FEA1"
_ALIGNED = 8  # bytes before the messages of an Arrow file: its magic number, padded


class Budget(NamedTuple):
    """The memory budget of a table.

    Attributes:
        path: the path of its file, for errors.
        times: the bytes of memory per byte of the table.
        key: the key of the scenario, for errors.
    """

    path: Path
    times: int
    key: str = "data.path"

    def check(self, size: int) -> None:
        """Raise a DataError unless a table of `size` bytes fits."""
        check_budget(self.key, f"{self.path}: what is in it", self.times * size)


def read_parquet(source: Any, budget: Budget) -> Any:
    """Return the table of a Parquet file.

    Args:
        source: a path or a file.
        budget: the budget for its memory.

    Raises:
        ArrowException: the file is damaged; also raised as OSError or ValueError.
        DataError: it would not fit into memory.
    """
    from pyarrow import parquet  # takes 0.1 s, and few commands need it

    plain = parquet.ParquetFile(source)
    metadata = plain.metadata
    columns = [metadata.schema.column(place) for place in range(metadata.num_columns)]
    texts = [column.path for column in columns if column.physical_type == "BYTE_ARRAY"]
    # Read as dictionaries, texts only take the memory of the file, plus one index per cell.
    file = parquet.ParquetFile(source, read_dictionary=texts)
    widths = [width for field in file.schema_arrow for width in _widths(field.type)]
    groups = [metadata.row_group(place) for place in range(metadata.num_row_groups)]
    cells = sum(
        width * group.column(place).num_values
        for group in groups
        for place, width in enumerate(widths)
    )
    budget.check(max(cells, sum(group.total_byte_size for group in groups)))
    table = _valid(file.read(), budget)
    return table.cast(plain.schema_arrow) if texts else table


def read_arrow(content: Any, budget: Budget) -> Any:
    """Return the table of an Arrow stream, or of a file (Feather of either version).

    Args:
        content: its bytes, which may belong to a memory map.
        budget: the budget for its memory.

    Raises:
        ArrowException: the content is damaged; also raised as OSError or ValueError.
        DataError: it would not fit into memory.
    """
    import pyarrow as pa
    import pyarrow.feather

    content = pa.py_buffer(content)
    magic = content[: len(_FILE)].to_pybytes()
    if magic.startswith(_FEATHER_1):  # a format without compression
        return _valid(pa.feather.read_table(BytesIO(content)), budget)
    # An Arrow file is a stream between this magic number and an index.
    stream = content[_ALIGNED:] if magic == _FILE else content
    messages = pa.ipc.MessageReader.open_stream(stream)
    budget.check(sum(_announced(message) for message in messages))
    return _valid(pa.ipc.open_stream(stream).read_all(), budget)


def _valid(table: Any, budget: Budget) -> Any:
    """Return a table after validating every length, index and text.

    Raises:
        ArrowException: something is invalid that reading does not check; or a ValueError.
        DataError: it would not fit into memory if each cell had its own text.
    """
    table.validate()
    budget.check(_size(table))  # before the full check: many cells may share one long text
    table.validate(full=True)
    # Names are decoded on access: one that is not UTF-8 raises a ValueError.
    for column in table.column_names:
        str(column)
    return table


def _widths(kind: Any) -> Iterator[int]:
    """Yield the bytes per cell of each leaf of a nested type."""
    from pyarrow import types

    kind = getattr(kind, "storage_type", kind)
    if kind.num_fields:
        for place in range(kind.num_fields):
            yield from _widths(kind.field(place).type)
    elif types.is_dictionary(kind):
        yield kind.index_type.bit_width // 8
    else:
        yield 1 if types.is_null(kind) else max(kind.bit_width // 8, 1)


def _size(table: Any) -> int:
    """Return the bytes of a table in which dictionaries are replaced by their values."""
    return sum(_decoded(chunk) for column in table.columns for chunk in column.chunks)


def _decoded(array: Any) -> int:
    """Return the bytes of an array; see `_size`."""
    from pyarrow import compute, types

    array = getattr(array, "storage", array)  # of an extension type, such as Hugging Face's
    kind = array.type
    if types.is_dictionary(kind):
        known = compute.drop_null(array.indices).to_numpy(zero_copy_only=False)
        counts = np.bincount(known, minlength=len(array.dictionary))
        return int(counts @ _lengths(array.dictionary))
    if types.is_struct(kind):
        return sum(_decoded(array.field(place)) for place in range(kind.num_fields))
    if types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind):
        return _decoded(array.values)
    return int(_lengths(array).sum() if kind in _views() else array.nbytes)


def _views() -> tuple[Any, ...]:
    import pyarrow as pa

    return pa.string_view(), pa.binary_view()


def _lengths(array: Any) -> Any:
    """Return the bytes of each cell, shape (n,)."""
    from pyarrow import compute, types

    kind = array.type
    if kind in _views():  # each cell of 16 bytes begins with a length
        content = np.frombuffer(array.buffers()[1], np.int32)[::4]
        return content[array.offset : array.offset + len(array)].astype(np.int64)
    if types.is_string(kind) or types.is_large_string(kind) or types.is_binary(kind):
        lengths = compute.fill_null(compute.binary_length(array), 0)
        return lengths.to_numpy(zero_copy_only=False).astype(np.int64)
    return np.full(len(array), -(-array.nbytes // max(len(array), 1)), np.int64)


# Arrow messages. Their headers are FlatBuffers, in which a table begins with the distance to the
# offsets of its fields.

_DICTIONARY, _BATCH = 2, 3
_KIND, _HEADER, _DATA = 1, 2, 1  # field numbers
_NODES, _BUFFERS, _COMPRESSION = 1, 2, 3
_PLAIN = -1  # the stated length of a buffer that is not compressed


def _announced(message: Any) -> int:
    """Return the bytes of a message after decompression; at least its number of cells.

    Raises:
        ValueError: its header is damaged.
    """
    try:
        return _announced_by(memoryview(message.metadata), message.body)
    except Exception as error:
        text = f"the header of a message is damaged ({error})"
        raise ValueError(text) from error


def _announced_by(header: memoryview, body: Any) -> int:
    field = partial(_field, header)
    root = _follow(header, 0)
    place = field(root, _KIND)
    kind = header[place] if place else 0
    if kind not in {_DICTIONARY, _BATCH}:
        return 0
    batch = _follow(header, field(root, _HEADER))
    if kind == _DICTIONARY:
        batch = _follow(header, field(batch, _DATA))
    pairs = dict[int, list[tuple[int, int]]]()
    for number in (_NODES, _BUFFERS):
        start = field(batch, number)
        start = _follow(header, start) if start else 0
        count = unpack_from("<I", header, start)[0] if start else 0
        pairs[number] = [unpack_from("<qq", header, start + 4 + 16 * i) for i in range(count)]
    cells = sum(max(length, 0) for length, _ in pairs[_NODES])
    if not field(batch, _COMPRESSION):
        return max(cells, sum(length for _, length in pairs[_BUFFERS]))
    content = memoryview(body)
    lengths = [
        (unpack_from("<q", content, offset)[0], length)
        for offset, length in pairs[_BUFFERS]
        if length
    ]
    return max(cells, sum(length if size == _PLAIN else max(size, 0) for size, length in lengths))


def _follow(header: memoryview, place: int) -> int:
    """Return the position of the table or list that a reference at `place` points to."""
    return int(place + unpack_from("<I", header, place)[0])


def _field(header: memoryview, table: int, number: int) -> int:
    """Return the position of a field of a table; 0 if the field is omitted."""
    places = table - unpack_from("<i", header, table)[0]
    if 4 + 2 * number >= unpack_from("<H", header, places)[0]:
        return 0
    distance = unpack_from("<H", header, places + 4 + 2 * number)[0]
    return int(table + distance) if distance else 0
