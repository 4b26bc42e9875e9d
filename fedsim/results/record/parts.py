"""A table that grows on disk: parts while a run is in progress, one file when it has ended.

`NAME.parts/` holds complete Arrow files, each written under a temporary name and then renamed,
so the folder can be read as a table at any moment, and after a kill. The same rows also go to one
Parquet file, which gets its name `NAME.parquet` when the table is closed: it exists for finished
runs only. It cannot be read before, since its directory is at the end. Parts hold columns as they
are in memory, compressed by LZ4, so that rows are encoded once.

A Parquet file has the same columns throughout. Rows that come before all columns are known, such as
rounds before the first one that is evaluated, are in parts alone; the file is begun with the first
rows that have all columns, and takes these parts from the disk. So none of them waits in memory.

A manifest holds the hashes of finished runs' files; an unfinished run has none. So the name of each
part contains a hash, which is chained: of the run's folder and table, all earlier parts, and its
content. A part that is damaged, missing, out of order or of another run breaks the chain.
"""

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

import pyarrow as pa
import pyarrow.parquet as pq

from fedsim.core import table_columns as columns
from fedsim.core.atomic import Draft, check_links, link_error, unwritable, write_whole
from fedsim.core.errors import OutputError
from fedsim.core.files import open_file, read_file
from fedsim.results.record.manifest import (
    MANIFEST,
    check_files,
    check_round_version,
    damage_error,
)
from fedsim.results.record.schema import ARROW_SCHEMA

if TYPE_CHECKING:
    import pandas as pd

_ALWAYS = {
    "events": frozenset(f.name for f in ARROW_SCHEMA if not f.nullable) - {"state_of_charge"},
    "rounds": columns.always_filled("rounds"),
    "clients": columns.always_filled("clients"),
    "models": frozenset({"round", "model"}),
}
"""The columns of each table in which every row has a value. Columns that may hold NaN are not among
them, since pandas writes NaN as a missing value."""

UNREADABLE = (OSError, ValueError, KeyError, pa.ArrowException)
"""Raised for a file that is not a table: by Arrow, and by Python for undecodable names."""

_ARROW, _SUFFIXES = ".arrow", (".arrow", ".parquet")
"""Of parts; version 0.1 wrote them as Parquet."""

_PACKING = pa.ipc.IpcWriteOptions(compression="lz4", use_threads=False)
_UNPACKING = pa.ipc.IpcReadOptions(use_threads=False)

_REPEATED = ("operations", "samples")
"""Float columns with few distinct values."""

_LONG = 65536
"""Number of values of a column that are encoded at once."""


def _repeats(field: pa.Field) -> bool:
    """Return whether a column is dictionary-encoded."""
    figures = field.name in _REPEATED and pa.types.is_floating(field.type)
    return bool(figures or pa.types.is_dictionary(field.type))


def _options(schema: pa.Schema) -> dict[str, Any]:
    """Return a table's Parquet options: small and fast for columns of times, bits and names."""
    integers = [field.name for field in schema if pa.types.is_integer(field.type)]
    names = [field.name for field in schema if _repeats(field)]
    return {
        "compression": "zstd",
        "compression_level": 2,  # no larger than 1 gives, and sooner
        "write_batch_size": _LONG,
        "use_dictionary": names,
        "column_encoding": dict.fromkeys(integers, "DELTA_BINARY_PACKED"),
        "write_statistics": False,
    }


def write_blocks(blocks: Iterable[pa.Table], path: Path) -> None:
    """Write a table atomically, block by block.

    Raises:
        OutputError: it cannot be written.
    """
    with Draft(path) as draft, ExitStack() as stack:
        writer = None
        for block in blocks:
            if writer is None:
                made = pq.ParquetWriter(draft, block.schema, **_options(block.schema))
                writer = stack.enter_context(made)
            writer.write_table(block)
            draft.check()


class PartWriter:
    """The writer of one growing table: parts are written, then it is closed once, or abandoned."""

    def __init__(self, folder: Path, name: str) -> None:
        self.folder = folder / f"{name}.parts"
        self.target = folder / f"{name}.parquet"
        self._draft: Draft | None = None
        self._whole: pq.ParquetWriter | None = None
        self._early: list[pa.Schema] = []  # of parts that are not in the whole table yet
        self._count = 0
        self._chain = _beginning(self.folder)

    def write(self, table: pa.Table, *, early: bool = False) -> None:
        """Add rows; they are on disk as a complete part when this returns.

        Args:
            table: the rows. Columns without any value may be absent, or have the type null.
            early: whether later rows may have columns that these lack. The rows before the table is
                closed must not be.

        Raises:
            OutputError: they cannot be written, or a symbolic link has replaced the run's folder
                or that of the parts since the run began.
            DataError: early rows are no longer on disk as they were written.
            ValueError: a column has another type than before, or is new.
        """
        check_links(self.folder.parent.parent, self.folder)
        if not early:
            table = self._add(table)
        elif table.schema not in self._early:
            self._early.append(table.schema)
        # The part is made in memory, since its name needs the hash of its bytes.
        content = _pack(table)
        self._chain = _link(self._chain, content)
        write_whole(self.folder / f"{_part(self._count, self._chain)}{_ARROW}", content)
        self._count += 1

    def _add(self, table: pa.Table) -> pa.Table:
        """Add rows to the whole table, after all early ones; return them with all its columns."""
        if self._draft is None or self._whole is None:
            schema = _join_schemas([table.schema, *self._early]) if self._early else table.schema
            self._draft = Draft(self.target)
            self._whole = pq.ParquetWriter(self._draft, schema, **_options(schema))
            if self._early:
                for part in _parts(self.folder):
                    self._whole.write_table(_fit(schema, part))
                table = _fit(schema, table)
        if not table.schema.equals(self._whole.schema):
            table = _fill_in(table, self._whole.schema)
        self._whole.write_table(table)
        self._draft.check()
        return table

    def close(self) -> None:
        """Complete the table's file and remove the parts.

        Raises:
            OutputError: it cannot be written; the parts stay.
        """
        if self._draft is not None and self._whole is not None:
            self._whole.close()
            self._draft.keep()
            with suppress(OutputError):  # readers prefer the whole table to parts
                remove_parts(self.folder)

    def abandon(self) -> None:
        """Keep the parts, and drop the incomplete file."""
        if self._draft is not None and self._whole is not None and not self._draft.closed:
            self._whole.close()
            self._draft.drop()


def _join_schemas(schemas: Iterable[pa.Schema]) -> pa.Schema:
    """Return the schema of all columns of several schemas, in the order of the widest one.

    A column with whole numbers in one schema and fractions in another one has fractions.
    """
    every = sorted(schemas, key=len, reverse=True)
    return pa.unify_schemas(every, promote_options="permissive")


def _fit(schema: pa.Schema, table: pa.Table) -> pa.Table:
    """Return a table with a joined schema, with nulls in columns that the table lacks."""
    return pa.concat_tables([schema.empty_table(), table], promote_options="permissive")


def _fill_in(table: pa.Table, schema: pa.Schema) -> pa.Table:
    """Return a table with all columns of a schema; missing columns are null."""
    columns = {field.name: pa.nulls(len(table), field.type) for field in schema}
    columns |= {
        name: table[name]
        for name in table.column_names
        if name not in columns or not pa.types.is_null(table.schema.field(name).type)
    }
    return pa.table(columns)


def _pack(table: pa.Table) -> pa.Buffer:
    """Return a table as an Arrow file."""
    stream = pa.BufferOutputStream()
    with pa.ipc.new_file(stream, table.schema, options=_PACKING) as file:
        file.write_table(table.unify_dictionaries())  # a file has one dictionary per column
    return stream.getvalue()


def remove_parts(folder: Path) -> None:
    """Remove the parts of a table, the last one first: the remaining ones form a valid chain.

    Raises:
        OutputError: one cannot be removed.
    """
    if folder.is_symlink():
        raise link_error(folder)
    try:
        for part in sorted(folder.glob("part-*"), reverse=True):
            part.unlink(missing_ok=True)
    except OSError as error:
        raise unwritable(folder, error) from None
    with suppress(OSError):  # on NFS, an open file stays under another name
        folder.rmdir()


def read_table(
    folder: Path,
    name: str,
    columns: Sequence[str] | None = None,
    filters: Sequence[tuple[str, str, object]] | None = None,
) -> pa.Table:
    """Read a table of a run folder, whether the run has ended or not.

    Args:
        folder: of the run.
        name: "events", "rounds", "clients" or "models".
        columns: to read; all if None.
        filters: of rows, as `pyarrow.parquet.read_table` takes them.

    Raises:
        FileNotFoundError: the folder holds neither the table nor any part of it.
        DataError: a file is damaged, or does not have the manifest's hash; or the round table is of
            another version.
    """
    whole, parts = folder / f"{name}.parquet", folder / f"{name}.parts"
    if (folder / MANIFEST).exists():  # the run has ended
        manifest = check_files(folder, [whole.name])
        if name == "rounds":
            check_round_version(folder, manifest)
    if whole.exists():
        return _check_filled(_read(whole, columns, filters, whole), whole)
    pieces = list(_parts(parts, columns, filters))
    if not pieces:
        raise FileNotFoundError(f"{folder} holds neither {whole.name} nor parts of it")
    schema = _join_schemas(piece.schema for piece in pieces)
    return pa.concat_tables(
        [schema.empty_table(), *pieces], promote_options="permissive"
    ).unify_dictionaries()


def _parts(
    parts: Path,
    columns: Sequence[str] | None = None,
    filters: Sequence[tuple[str, str, object]] | None = None,
) -> Iterator[pa.Table]:
    """Yield the parts of a table, one after the other; see `read_table`."""
    files = sorted(file for suffix in _SUFFIXES for file in parts.glob(f"part-*{suffix}"))
    for file, source in _sound(parts, files):
        yield _read(file, columns, filters, source)


def _beginning(parts: Path) -> str:
    """Return the start of a table's chain of hashes: variant, seed and table name."""
    return "/".join(parts.resolve().parts[-3:])


def _link(chain: str, content: bytes | pa.Buffer) -> str:
    """Return the hash of a part, which includes the hash of the part before it."""
    digest = hashlib.sha256(f"{chain}\n".encode())
    digest.update(content)  # not joined: it may be a long model, and a copy takes as much again
    return digest.hexdigest()[:16]


def _part(number: int, chain: str) -> str:
    return f"part-{number:06d}-{chain}"


def _sound(parts: Path, files: Sequence[Path]) -> Iterator[tuple[Path, pa.Buffer]]:
    """Yield the parts of a table with their contents, validating the chain.

    Raises:
        DataError: one of them is missing, damaged, or of another run.
    """
    chain = _beginning(parts)
    for number, file in enumerate(files):
        try:
            content = read_file(file)
        except OSError as error:
            raise damage_error(file, str(error)) from None
        chain = _link(chain, content)
        if file.stem != _part(number, chain):
            raise damage_error(file, "this part or an earlier one was changed after it was written")
        yield file, pa.py_buffer(content)


def _check_filled(table: pa.Table, path: Path) -> pa.Table:
    """Validate the table of an ended run, and return it.

    Raises:
        DataError: a column lacks values that every row has.
    """
    for name in _ALWAYS[path.stem]:
        if name in table.column_names and table[name].null_count:
            raise damage_error(path, f"column {name} lacks values")
    return table


def as_frame(table: pa.Table) -> "pd.DataFrame":
    """Return a table for pandas, made on this thread alone; see `_read`."""
    frame: pd.DataFrame = table.to_pandas(use_threads=False)
    return frame


def _read(
    path: Path,
    columns: Sequence[str] | None,
    filters: Sequence[tuple[str, str, object]] | None,
    source: Path | pa.Buffer,
) -> pa.Table:
    """Read one file, from disk or from memory; the path is for errors.

    It reads on this thread alone: if no memory is left for another thread, Arrow waits for ever,
    and no signal interrupts it. Arrow takes a thread for a file, but not for data in memory.
    """
    try:
        if columns is None and isinstance(source, Path):
            source = pa.py_buffer(read_file(source))
        opened = pa.BufferReader if isinstance(source, pa.Buffer) else open_file
        with opened(source) as held:
            return _read_open(held, path.suffix, columns, filters)
    except UNREADABLE as error:
        raise reading_error(path, error) from None


def _read_open(
    held: pa.BufferReader | BinaryIO,
    suffix: str,
    columns: Sequence[str] | None,
    filters: Sequence[tuple[str, str, object]] | None,
) -> pa.Table:
    """Return the requested columns and rows of an open file; see `_read`."""
    if suffix == _ARROW:
        return _choose(pa.ipc.open_file(held, options=_UNPACKING).read_all(), columns, filters)
    if filters is not None:  # which leave whole groups of rows unread
        options = {"columns": columns, "use_threads": False, "pre_buffer": False}
        return pq.read_table(held, filters=filters, **options)
    with pq.ParquetFile(held) as file:
        return file.read(columns=columns, use_threads=False)


def _choose(
    table: pa.Table,
    columns: Sequence[str] | None,
    filters: Sequence[tuple[str, str, object]] | None,
) -> pa.Table:
    """Return the requested columns and rows of a table; see `read_table`."""
    if filters is None:
        names = table.schema.names
        return table if columns is None else table.select([c for c in columns if c in names])
    from pyarrow.dataset import dataset

    return dataset(table).to_table(columns, pq.filters_to_expression(filters), use_threads=False)


def reading_error(path: Path, error: Exception) -> Exception:
    """Return the error for a table that cannot be read: a damaged file, or too little memory."""
    starved = isinstance(error, MemoryError) or "worker thread" in str(error)
    return MemoryError(str(error)) if starved else damage_error(path, str(error))
