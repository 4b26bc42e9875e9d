"""Data sets of Hugging Face on disk: folders of `save_to_disk`, and Parquet files.

Their tables are in Arrow's format, so pyarrow reads them; the package `datasets` is not needed.
"""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from fedsim.core.blocks.spec import AnyPath, Given, as_written
from fedsim.core.errors import DataError
from fedsim.core.files import check_is_file, read_bytes
from fedsim.core.memory import check_budget
from fedsim.core.ports import Array
from fedsim.problems.arrow_files import Budget, read_arrow, read_parquet
from fedsim.problems.data.images import PictureSource
from fedsim.problems.samples import Samples, as_read

# Columns of Arrow tables as arrays of numbers, with errors for cells of other types.


def whole_column(table: Any, name: str, key: str, where: str) -> Any:
    """Return a column as one array without empty cells.

    Args:
        table: the table of pyarrow.
        name: the column's name.
        key: the scenario key that names the column, for errors.
        where: the origin of the table, for errors.

    Raises:
        DataError: the table has no such column, or a cell of it is empty.
    """
    if name not in table.column_names:
        columns = ", ".join(f"{field.name} ({field.type})" for field in table.schema)
        raise DataError(key, f"{where} has no column {name!r}; it has {columns[:400]}")
    column = table.column(name)
    array = column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()
    if hasattr(array, "storage"):  # an extension type, such as Hugging Face's arrays
        array = array.storage
    if array.null_count:
        row = int(np.flatnonzero(array.is_null().to_numpy(zero_copy_only=False))[0])
        raise DataError(key, f"{where}, row {row + 1}: nothing in the column {name!r}")
    return array


def numbers(array: Any, name: str, key: str, where: str) -> Array:
    """Return cells of numbers, or of equally long lists of numbers, as rows (n, d).

    Raises:
        DataError: a cell contains something else; the message names the first such row.
    """
    from pyarrow import types  # takes 0.1 s, and few commands need it

    rows, kind = len(array), array.type
    while types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind):
        array, kind = _flatten(array, rows, name, key, where), kind.value_type
    if not (types.is_integer(kind) or types.is_floating(kind) or types.is_boolean(kind)):
        text = f"{where}: the column {name!r} is of {kind}"
        raise DataError(key, f"{text}; accepted are numbers, lists of numbers, and images")
    flat: NDArray[np.generic] = array.to_numpy(zero_copy_only=False)
    return as_read(flat.reshape(rows, -1) if rows else np.empty((0, 0)))


def _flatten(array: Any, rows: int, name: str, key: str, where: str) -> Any:
    """Return the contents of equally long lists, concatenated.

    Raises:
        DataError: lists differ in length, or contain empty values.
    """
    from pyarrow import compute

    lengths = compute.list_value_length(array).to_numpy(zero_copy_only=False)
    other = np.flatnonzero(lengths != lengths[:1])
    if len(other):
        # So far every row has the same number of lists, which are counted over all rows.
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


def number_values(array: Any) -> NDArray[np.int64]:
    """Return an integer from 0 for each cell, in the order of the distinct values, shape (n,)."""
    values = np.array(array.to_pylist())
    return np.unique(values, return_inverse=True)[1].astype(np.int64)


_KEY = "data.path"

_TIMES = 5
"""Bytes of memory per byte of a table: one copy as it is, and one in float32."""


class HuggingFace(PictureSource):
    """A data set saved by Hugging Face's `datasets`: a folder, or Parquet files.

    Columns of features contain numbers, equally long lists of numbers, or images.
    """

    source: ClassVar[str] = "Lhoest et al., Datasets, EMNLP 2021: save_to_disk and to_parquet"
    numbers_clients: ClassVar[bool | str] = "with client: a column"

    kind: Literal["hugging-face"] = "hugging-face"
    path: AnyPath = Field(
        description=(
            "a folder written by `save_to_disk`, a Parquet file, or a folder of these,"
            " relative to the scenario file's folder"
        )
    )
    features: Given[tuple[str, ...], Sequence[str]] = as_written(
        (), "the columns of features, concatenated; if empty, all but label and client"
    )
    label: str = Field(default="label", description="the column of labels: numbers or names")
    client: str | None = Field(
        default=None,
        description="the column that names or numbers the client; for the split `groups`",
    )

    def read(self, folder: Path, rng: np.random.Generator) -> Samples:
        """Read the tables."""
        path = folder / self.path
        return self.samples(_table(path), path)

    def samples(self, table: Any, path: Path) -> Samples:
        """Return the rows of a table of pyarrow, whose origin is a path that errors name."""
        named = {self.label, self.client}
        columns = self.features or tuple(name for name in table.column_names if name not in named)
        if not columns or not table.num_rows:
            text = f"{path} has {table.num_rows} rows, and {len(columns)} columns of features"
            raise DataError(_KEY, f"{text}; at least one of each is needed")
        y = self._labels(table, str(path))
        client = None
        if self.client is not None:
            client = number_values(whole_column(table, self.client, "data.client", str(path)))
        parts = [self._features(table, name, path) for name in columns]
        return Samples(parts[0] if len(parts) == 1 else np.hstack(parts), y, client)

    def _labels(self, table: Any, where: str) -> Array:
        key = "data.label"
        column = whole_column(table, self.label, key, where)
        if str(column.type) in ("string", "large_string"):
            return number_values(column).astype(np.float64)
        y = numbers(column, self.label, key, where).astype(np.float64)
        if y.shape[1] != 1:
            text = f"{where}: the column {self.label!r} has {y.shape[1]} numbers per row"
            raise DataError(key, f"{text}; a label is one")
        # `datasets` gives a row without a label the class -1.
        unknown = np.flatnonzero(y[:, 0] < 0)
        if len(unknown) and _is_class(table.schema, self.label):
            text = f"{where}, row {unknown[0] + 1}: the label is {y[unknown[0], 0]:g}"
            raise DataError(key, f"{text}, which is no class: it is a row without a label")
        return y[:, 0]

    def _features(self, table: Any, name: str, path: Path) -> Array:
        from pyarrow import types  # takes 0.1 s, and few commands need it

        key, where = "data.features", str(path)
        column = whole_column(table, name, key, where)
        kind = column.type
        named = {field.name for field in kind} if types.is_struct(kind) else set[str]()
        if {"bytes", "path"} <= named:
            contents, files = column.field("bytes"), column.field("path")
        elif types.is_binary(kind) or types.is_large_binary(kind):
            contents, files = column, None
        else:
            return numbers(column, name, key, where)
        folder = path if path.is_dir() else path.parent
        return self._images(contents, files, folder, f"{where}, column {name!r}")

    def _images(self, contents: Any, files: Any, folder: Path, where: str) -> NDArray[Any]:
        """Return images whose content is in the table, or in files that the table names.

        Raises:
            DataError: a cell has neither content nor a path.
        """
        rows = self.rows_of(len(contents), "data.features")
        for place in range(len(contents)):
            content = contents[place].as_py()
            name = files[place].as_py() if files is not None else None
            if content is not None:
                rows.add(content, f"{where}, row {place + 1}")
            elif name:
                rows.read(folder / name)
            else:
                text = f"{where}, row {place + 1}: neither the bytes of an image nor its path"
                raise DataError("data.features", text)
        return rows.X


def _is_class(schema: Any, name: str) -> bool:
    """Return whether a column is declared as classes, whose labels start from 0."""
    try:
        metadata = json.loads((schema.metadata or {})[b"huggingface"])
        return bool(metadata["info"]["features"][name]["_type"] == "ClassLabel")
    except (KeyError, TypeError, ValueError):
        return False


def _table(path: Path) -> Any:
    """Return all rows of a data set.

    Raises:
        DataError: it is no such data set, or damaged; the message names the file.
    """
    import pyarrow as pa  # takes 0.1 s, and few commands need it

    files = _files(path)
    try:
        sizes = [file.stat().st_size for file in files]
        check_budget(_KEY, f"{path}: its files", _TIMES * sum(sizes))
        tables = []
        for file in files:
            tables.append(_open(file))
            size = sum(table.nbytes for table in tables)
            check_budget(_KEY, f"{path}: what is in its files", _TIMES * size)
        return pa.concat_tables(tables)
    except OSError as error:
        raise DataError(_KEY, f"cannot read {path}: {error.strerror or error}") from error
    except pa.ArrowException as error:
        text = f"the files of {path} do not go together: {' '.join(str(error).split())[:200]}"
        raise DataError(_KEY, text) from error


def _open(file: Path) -> Any:
    """Return the rows of a file; Arrow files stay memory-mapped until their rows are read.

    Raises:
        DataError: the file is damaged, or in another format.
    """
    import pyarrow as pa

    check_is_file(file)
    budget = Budget(file, _TIMES)
    try:
        if file.suffix == ".parquet":
            return read_parquet(file, budget)
        with pa.memory_map(str(file)) as source:
            return read_arrow(source.read_buffer(), budget)
    except (pa.ArrowException, OSError, ValueError) as error:
        reason = " ".join(str(error).split())[:200]
        text = f"{file} is damaged, or no table of Arrow or Parquet: {reason}"
        raise DataError(_KEY, text) from error


def _files(path: Path) -> list[Path]:
    """Return the files of a data set.

    Raises:
        DataError: there are none.
    """
    if not path.is_dir():
        return [path]
    if (path / "state.json").is_file():
        return _list_saved(path)
    files = sorted(file for file in path.iterdir() if file.suffix == ".parquet")
    if files:
        return files
    parts = sorted(file.parent.name for file in path.glob("*/state.json"))
    if parts:
        text = f"{path} has the parts {', '.join(parts)}; name one, such as {path / parts[0]}"
        raise DataError(_KEY, text)
    text = f"{path} has neither a state.json, as `save_to_disk` writes, nor files of Parquet"
    raise DataError(_KEY, text)


def _list_saved(path: Path) -> list[Path]:
    """Return the files that the state file of a saved data set lists.

    Raises:
        DataError: the state file is malformed, or selects rows by indices.
    """
    state = path / "state.json"
    try:
        metadata = json.loads(read_bytes(state, _KEY))
        names = [str(file["filename"]) for file in metadata["_data_files"]]
        indices = metadata.get("_indices_files") or metadata.get("_indices_data_files")
    except (KeyError, TypeError, ValueError, AttributeError, RecursionError) as error:
        text = f"{state} does not name the files of the rows ({error}); save the data again"
        raise DataError(_KEY, text) from error
    if indices:
        text = f"{state} names rows to pick, as old versions of `datasets` wrote; call"
        raise DataError(_KEY, f"{text} `flatten_indices()`, and save the data again")
    return [path / name for name in names]
