"""Tables of Arrow in files: Parquet, and Arrow's own formats, read within the memory budget.

Both compress, and both write a repeated cell once, so a file of a kilobyte can hold terabytes. The
size of a table is computed before memory is allocated for it: of numbers from the counts of cells
in the headers, of texts from their dictionaries and lengths.
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
_ALIGNED = 8  # bytes before the messages of an Arrow file: this magic, padded


class Budget(NamedTuple):
    """What a table may take.

    Attributes:
        path: the path of its file, for errors.
        times: the bytes of memory that a byte of the table takes.
        key: the key of the scenario, for errors.
    """

    path: Path
    times: int
    key: str = "data.path"

    def check(self, size: int) -> None:
        """Raise a DataError unless a table of this size fits."""
        check_budget(self.key, f"{self.path}: what is in it", self.times * size)


def read_parquet(source: Any, budget: Budget) -> Any:
    """Return the table of a Parquet file.

    Args:
        source: a path or a file.
        budget: the budget for its memory.

    Raises:
        ArrowException, OSError, ValueError: it is damaged.
        DataError: it would not fit into memory.
    """
    from pyarrow import parquet  # takes 0.1 s, and few commands need it

    plain = parquet.ParquetFile(source)
    metadata = plain.metadata
    columns = [metadata.schema.column(place) for place in range(metadata.num_columns)]
    texts = [column.path for column in columns if column.physical_type == "BYTE_ARRAY"]
    # As dictionaries, texts take no more memory than the file, and their number of cells.
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
    """Return the table of a stream of Arrow, or of a file (Feather of either version).

    Args:
        content: its bytes, which may be a memory map's.
        budget: the budget for its memory.

    Raises:
        ArrowException, OSError, ValueError: it is damaged.
        DataError: it would not fit into memory.
    """
    import pyarrow as pa
    import pyarrow.feather

    content = pa.py_buffer(content)
    magic = content[: len(_FILE)].to_pybytes()
    if magic.startswith(_FEATHER_1):  # which compresses nothing
        return _valid(pa.feather.read_table(BytesIO(content)), budget)
    # A file is a stream between this magic and an index.
    stream = content[_ALIGNED:] if magic == _FILE else content
    messages = pa.ipc.MessageReader.open_stream(stream)
    budget.check(sum(_announced(message) for message in messages))
    return _valid(pa.ipc.open_stream(stream).read_all(), budget)


def _valid(table: Any, budget: Budget) -> Any:
    """Return a table after validating every length, index and text.

    Raises:
        ArrowException, ValueError: one is invalid, which reading does not check.
        DataError: it would not fit into memory where each cell has a text of its own.
    """
    table.validate()
    budget.check(_size(table))  # first: each of many cells may have the same long text
    table.validate(full=True)
    for column in table.column_names:
        str(column)
    return table


def _widths(kind: Any) -> Iterator[int]:
    """Yield the bytes that a cell of each leaf of a type takes."""
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
    """Return the bytes of a table whose dictionaries are replaced by what they stand for."""
    return sum(_decoded(chunk) for column in table.columns for chunk in column.chunks)


def _decoded(array: Any) -> int:
    """Return the bytes of an array; see `_size`."""
    from pyarrow import compute, types

    array = getattr(array, "storage", array)  # of an extension, such as Hugging Face's arrays
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
    """Return the bytes of each cell."""
    from pyarrow import compute, types

    kind = array.type
    if kind in _views():  # which has a length at the start of each cell of 16 bytes
        content = np.frombuffer(array.buffers()[1], np.int32)[::4]
        return content[array.offset : array.offset + len(array)].astype(np.int64)
    if types.is_string(kind) or types.is_large_string(kind) or types.is_binary(kind):
        lengths = compute.fill_null(compute.binary_length(array), 0)
        return lengths.to_numpy(zero_copy_only=False).astype(np.int64)
    return np.full(len(array), -(-array.nbytes // max(len(array), 1)), np.int64)


# Messages of Arrow: headers in the form of FlatBuffers, in which a table begins with the distance
# to the places of its fields.

_DICTIONARY, _BATCH = 2, 3
_KIND, _HEADER, _DATA = 1, 2, 1  # numbers of fields
_NODES, _BUFFERS, _COMPRESSION = 1, 2, 3
_PLAIN = -1  # the length of a buffer that compression would have made longer


def _announced(message: Any) -> int:
    """Return the bytes of a message once it is decompressed, and no less than its cells.

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
    """Return where the table or the list is that is written at a place."""
    return int(place + unpack_from("<I", header, place)[0])


def _field(header: memoryview, table: int, number: int) -> int:
    """Return where a field of a table is; 0 if it is left out."""
    places = table - unpack_from("<i", header, table)[0]
    if 4 + 2 * number >= unpack_from("<H", header, places)[0]:
        return 0
    distance = unpack_from("<H", header, places + 4 + 2 * number)[0]
    return int(table + distance) if distance else 0
