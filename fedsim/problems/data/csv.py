"""Comma-separated values: one row per sample, one column of labels, features in all others."""

import warnings
from collections.abc import Sequence
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from fedsim.core.blocks.spec import AnyPath
from fedsim.core.blocks.wording import numbers_columns
from fedsim.core.errors import DataError
from fedsim.core.files import decompress, read_bytes
from fedsim.problems.data.base import Source
from fedsim.problems.samples import Samples
from fedsim.problems.tables.formats import SEPARATOR_NAMES, find_separator, format_of

if TYPE_CHECKING:  # importing pandas takes half a second: only when such a file is read
    import pandas as pd

Column = str | int

_SHOWN = 60
"""The largest number of characters shown of a malformed cell or a column name."""

_REASON = 200  # characters of pandas' message, at most: it may quote a whole line

_BEGINNING = 1 << 16  # bytes that are searched for a likelier separator

_TIMES = 20
"""Bytes of memory per byte of a table: "1," becomes a number of 8 bytes, several times."""


_HINT = "`kind: table` reads texts, gaps, dates and other separators, and leaves columns out"
_LISTED = 10  # columns with faults that are listed, at most


def _join(faults: Sequence[str], path: Path) -> str:
    """Return the faults of all columns as one text, with a remedy."""
    if len(faults) == 1:
        return f"{faults[0]}; {_HINT}"
    lines = [
        f"  {fault.removeprefix(f'{path}, ').partition('; ')[0]}" for fault in faults[:_LISTED]
    ]
    more = [f"  and {len(faults) - _LISTED} more"] if len(faults) > _LISTED else []
    head = f"{len(faults)} columns of {path} hold cells that are no numbers:"
    return "\n".join([head, *lines, *more, _HINT])


class Csv(Source):
    """A file of comma-separated values, plain or compressed, with a column of labels.

    Columns are identified by their name in the header, or by their number, from 1.
    """

    source: ClassVar[str] = "RFC 4180, read by pandas"
    numbers_clients: ClassVar[bool | str] = "with client: a column"

    kind: Literal["csv"] = "csv"
    path: AnyPath = Field(description="the file, relative to the scenario file's folder")
    label: Column = Field(description="the column of labels: its name, or its number from 1")
    client: Column | None = Field(
        default=None,
        description=(
            "the column that names the client, by its name or number; not a feature; for"
            " the split `groups`"
        ),
    )
    header: bool = Field(default=True, description="whether the first line names the columns")
    separator: str = Field(
        default=",", min_length=1, max_length=1, description="the separator between two values"
    )

    def read(self, folder: Path, rng: np.random.Generator) -> Samples:
        """Read the file."""
        path = folder / self.path
        if other := format_of(path):
            text = f"{path} is {other}, no CSV; take `kind: table`, which reads both"
            raise DataError("data.path", text)
        content = decompress(read_bytes(path, times=_TIMES), path, times=_TIMES)
        frame = self._frame(content, path)
        label = self._position(frame, self.label, "label", path)
        taken, client = [label], None
        if self.client is not None:
            taken.append(self._position(frame, self.client, "client", path))
            if taken[1] == label:
                raise DataError(
                    "data.client",
                    f"{self.client!r} is the column of labels; give the column of each row's "
                    "client, or leave client out",
                )
            client = self._owners(frame, taken[1], path)
        features = [place for place in range(frame.shape[1]) if place not in taken]
        X = np.empty((len(frame), len(features)))
        faults: list[str] = []
        for column, place in enumerate((*features, label)):
            try:
                numbers = self._numbers(frame, place, path)
            except DataError as error:
                faults.append(str(error))
                continue
            if place == label:
                y = numbers
            else:
                X[:, column] = numbers
        if faults:
            raise DataError("data.path", _join(faults, path))
        return Samples(X, y, client)

    def _frame(self, content: bytes, path: Path) -> "pd.DataFrame":
        import pandas as pd

        if not content.strip():
            raise DataError("data.path", f"{path} is empty")
        try:
            self._check_names(content, path)
            with warnings.catch_warnings():
                # pandas would drop surplus values of a row with a mere warning.
                warnings.simplefilter("error", pd.errors.ParserWarning)
                return pd.read_csv(
                    BytesIO(content),
                    sep=self.separator,
                    header=0 if self.header else None,
                    index_col=False,
                    skipinitialspace=True,
                )
        except UnicodeDecodeError as error:
            raise DataError("data.path", f"{path} is not a table in UTF-8; {_HINT}") from error
        except (ValueError, OverflowError, pd.errors.ParserWarning) as error:
            reason = str(error).strip().removeprefix("Error tokenizing data. C error: ")[:_REASON]
            if isinstance(error, pd.errors.ParserWarning):
                reason = "some rows have more values than the first line"
            own = SEPARATOR_NAMES.get(self.separator, repr(self.separator))
            text = f"{path} is not a table of values separated by {own}: {reason}"
            other = self._separator_clause(content)
            raise DataError("data.path", f"{text}{other}; {_HINT}") from error

    def _separator_clause(self, content: bytes) -> str:
        """Return a clause on the separator that the file seems to have, if it differs."""
        separator = find_separator(content[:_BEGINNING].decode("utf-8", errors="replace"))
        return (
            "" if separator == self.separator else f"; {SEPARATOR_NAMES[separator]} separate them"
        )

    def _check_names(self, content: bytes, path: Path) -> None:
        """Check that column names are distinct.

        Pandas would rename duplicates by appending a number.

        Raises:
            DataError: a name occurs twice or is missing, or the first line seems to be no header.
        """
        if not self.header:
            return
        import pandas as pd

        first = pd.read_csv(
            BytesIO(content),
            sep=self.separator,
            header=None,
            index_col=False,
            skipinitialspace=True,
            nrows=1,
            dtype=str,
        )
        names = first.iloc[0].dropna()
        if "header" not in self.model_fields_set and _are_numbers(first.iloc[0]):
            shown = self.separator.join(names)[:_SHOWN]
            text = f"the first line of {path}, {shown!r}, has numbers alone; give header: false"
            raise DataError("data.header", f"{text} if it is a row, header: true if it has names")
        twice = names[names.duplicated()]
        if len(twice):
            text = f"{path} has several columns {twice.iloc[0][:_SHOWN]!r}; give each a name of its"
            raise DataError("data.path", f"{text} own, or header: false and numbers")
        if len(names) < first.shape[1]:
            place = int(np.argmax(first.iloc[0].isna().to_numpy())) + 1
            text = f"column {place} of {path} has no name, as the index of a data frame has none"
            raise DataError("data.path", f"{text}; give it one, or leave it out")

    def _position(self, frame: "pd.DataFrame", column: Column, key: str, path: Path) -> int:
        """Return the index, from 0, of a column given by name or number.

        Raises:
            DataError: there is no such column.
        """
        names = [str(name) for name in frame.columns] if self.header else []
        if isinstance(column, int) and 1 <= column <= frame.shape[1]:
            return column - 1
        if isinstance(column, str) and names.count(column) == 1:
            return names.index(column)
        shown = ", ".join(name[:_SHOWN] for name in names[:8]) + (", ..." if len(names) > 8 else "")
        named = f" ({shown})" if names else ", and no header that names them"
        raise DataError(
            f"data.{key}",
            f"{path} has no column {column!r}; it has {frame.shape[1]}{named}"
            + (f"; {_HINT}" if frame.shape[1] == 1 else ""),
        )

    def _owners(self, frame: "pd.DataFrame", place: int, path: Path) -> NDArray[np.int64]:
        """Return the client of each row as a number from 0, in the order of numbers or names.

        Raises:
            DataError: a row has no client.
        """
        column = frame.iloc[:, place]
        if column.isna().any():
            row = int(np.flatnonzero(column.isna())[0]) + 1
            raise DataError("data.client", f"{path}, row {row} of the data has no client")
        whose = column if column.dtype.kind in "iufb" else column.astype(str)
        return np.unique(whose.to_numpy(), return_inverse=True)[1].astype(np.int64)

    def _numbers(self, frame: "pd.DataFrame", place: int, path: Path) -> NDArray[np.float64]:
        """Return a column as numbers.

        Raises:
            DataError: a cell is no number; the message names its row and content.
        """
        import pandas as pd

        column = frame.iloc[:, place]
        if column.dtype.kind == "O":  # integers of any length, which a float may not represent
            column = column.where(column.isna(), column.map(str))
        numbers = pd.to_numeric(column, errors="coerce").to_numpy(np.float64)
        wrong = np.flatnonzero(np.isnan(numbers))
        if len(wrong):
            value = column.iloc[wrong[0]]
            seen = "nothing" if pd.isna(value) else repr(value)[:_SHOWN]
            name = f" ({str(frame.columns[place])[:_SHOWN]})" if self.header else ""
            raise DataError(
                "data.path",
                f"{path}, row {wrong[0] + 1} of the data: {seen} in column {place + 1}{name}; "
                "every value must be a number",
            )
        return numbers


def _are_numbers(names: "pd.Series") -> bool:
    """Return whether a first line consists of numbers that are not simply column numbers."""
    import pandas as pd

    numbers = pd.to_numeric(names, errors="coerce")
    return not numbers.isna().any() and not numbers_columns(names.tolist())
