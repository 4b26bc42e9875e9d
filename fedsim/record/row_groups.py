"""Parquet files of one schema, joined into one without a second encoding.

The pages of a Parquet file come first; its directory, the footer, follows and says at which offsets
they lie. So files are joined by writing their pages one after the other, and one footer whose
offsets count from the beginning of the whole: PyArrow encodes, and this module moves offsets. The
result is what one `pyarrow.parquet.ParquetWriter` writes of the same tables, byte by byte.

A footer is a `FileMetaData` of parquet.thrift (github.com/apache/parquet-format), in Thrift's
compact protocol: fields with numbers, and integers of variable length. Nothing in it depends on
the length of anything else, so that integers can be replaced in place.
"""

import zlib
from collections.abc import Callable, Iterator

MAGIC = b"PAR1"
"""The first and the last bytes of a Parquet file; before the last, 4 bytes say how long the footer
is."""

_Path = tuple[int, ...]
"""The fields that lead to a value, from the outermost; 0 for an element of a list."""

_ROWS, _GROUPS = (3,), (4,)
"""Of the footer: the number of rows, and the list of row groups."""

_OFFSETS = frozenset({(5,), *((1, 0, each) for each in (2, 4, 6))}) | {
    (1, 0, 3, each) for each in (9, 10, 11, 14)
}
"""Of a row group: where it begins, and its columns' pages, indices and filters."""

_ORDINAL = (7,)
"""Of a row group: which it is in its file."""

_BYTE, _INTEGERS, _DOUBLE, _BINARY = 3, (4, 5, 6), 7, 8
_LISTS, _STRUCT = (9, 10), 12
_TRUE_OR_FALSE = (1, 2)
"""The protocol's types."""


class _Walk:
    """A walk through a struct, which finds some of its values."""

    def __init__(self, content: bytes, wanted: Callable[[_Path], bool]) -> None:
        self.content, self.at = content, 0
        self.found: list[tuple[_Path, int, int]] = []  # with their begins and ends
        self._wanted = wanted
        self._struct(())

    def _number(self) -> int:
        number = shift = 0
        while True:
            byte = self.content[self.at]
            self.at += 1
            number |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return number

    def _struct(self, path: _Path) -> None:
        field = 0
        while head := self.content[self.at]:
            self.at += 1
            field = field + (head >> 4) if head >> 4 else _from_zigzag(self._number())
            if head & 15 not in _TRUE_OR_FALSE:  # which have no bytes of their own
                self._value(head & 15, (*path, field))
        self.at += 1

    def _value(self, kind: int, path: _Path) -> None:
        begin = self.at
        if kind in _INTEGERS:
            self._number()
        elif kind == _BINARY:
            size = self._number()
            self.at += size
        elif kind == _STRUCT:
            self._struct(path)
        elif kind in _LISTS:
            self._list(path)
        elif kind in {_BYTE, *_TRUE_OR_FALSE}:
            self.at += 1
        elif kind == _DOUBLE:
            self.at += 8
        else:
            raise ValueError(f"got type {kind} in a Parquet footer")
        if self._wanted(path):
            self.found.append((path, begin, self.at))

    def _list(self, path: _Path) -> None:
        head = self.content[self.at]
        self.at += 1
        size = head >> 4 if head >> 4 < 15 else self._number()
        for _ in range(size):
            self._value(head & 15, (*path, 0))


class JoinedFiles:
    """One Parquet file made of several, which are given one after the other.

    Their pages are what `add` returns, one after the other; what `footer` returns ends the file.
    Until then what it says of the row groups is kept compressed: one is nearly the one before, and
    takes some hundred bytes in place of thousands.
    """

    def __init__(self) -> None:
        self._size = len(MAGIC)
        self._rows = 0
        self._count = 0
        self._packer = zlib.compressobj(1)
        self._groups = bytearray()  # compressed
        self._around = b"", b"", b""  # of the first footer: before rows, before and after groups

    def add(self, content: bytes) -> bytes:
        """Return what follows in the joined file, given a whole file.

        Raises:
            ValueError: it is no Parquet file.
        """
        size = int.from_bytes(content[-8:-4], "little")
        end = len(content) - len(MAGIC) - 4 - size
        if not (content[:4] == content[-4:] == MAGIC and end >= len(MAGIC)):
            raise ValueError("got what is no Parquet file")
        first, moved = self._around == (b"", b"", b""), self._size - len(MAGIC)
        footer = content[end:-8]
        walk = _Walk(footer, lambda path: path in {_ROWS, _GROUPS, (*_GROUPS, 0)})
        for path, begin, over in walk.found:
            if path == _ROWS:
                self._rows += _from_zigzag(_read(footer[begin:over]))
                rows = begin, over
            elif path == _GROUPS:
                groups = begin, over
            else:
                group = footer[begin:over]
                self._groups += self._packer.compress(b"".join(_move(group, moved, self._count)))
                self._count += 1
        if first:
            before, between = footer[: rows[0]], footer[rows[1] : groups[0]]
            self._around = before, between, footer[groups[1] :]
        pages = content[len(MAGIC) : end]
        self._size += len(pages)
        return MAGIC + pages if first else pages

    def footer(self) -> bytes:
        """Return the end of the joined file."""
        before, between, after = self._around
        short = self._count < 15  # then the number fits beside the type
        head = bytes([(self._count if short else 15) << 4 | _STRUCT])
        head += b"" if short else _write(self._count)
        groups = zlib.decompress(self._groups + self._packer.flush())
        footer = b"".join([before, _write(_to_zigzag(self._rows)), between, head, groups, after])
        return footer + len(footer).to_bytes(4, "little") + MAGIC


def _move(group: bytes, by: int, ordinal: int) -> Iterator[bytes]:
    """Yield the pieces of a row group that lies so many bytes further on, and is the n-th."""
    done = 0
    for path, begin, over in _Walk(group, lambda path: path in _OFFSETS or path == _ORDINAL).found:
        value = _from_zigzag(_read(group[begin:over]))
        if path == _ORDINAL:
            value = (ordinal + 2**15) % 2**16 - 2**15  # of 16 bits
        elif value:  # 0 where there is none
            value += by
        yield group[done:begin]
        yield _write(_to_zigzag(value))
        done = over
    yield group[done:]


def _read(content: bytes) -> int:
    """Return the number in a variable number of bytes, 7 bits in each, the lowest first."""
    return sum((byte & 127) << 7 * place for place, byte in enumerate(content))


def _write(number: int) -> bytes:
    """Return a number in that form.

    >>> _write(300).hex(), _read(_write(300))
    ('ac02', 300)
    """
    content = bytearray()
    while number > 127:
        content.append(number & 127 | 128)
        number >>= 7
    return bytes([*content, number])


def _to_zigzag(number: int) -> int:
    """Return a number with its sign in the lowest bit; see `_from_zigzag`."""
    return 2 * number if number >= 0 else -2 * number - 1


def _from_zigzag(number: int) -> int:
    """Return the number of which this is the form with its sign in the lowest bit.

    >>> [_from_zigzag(_to_zigzag(each)) for each in (-3, 0, 7)]
    [-3, 0, 7]
    """
    return number >> 1 if number % 2 == 0 else -(number >> 1) - 1
