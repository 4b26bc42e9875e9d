"""Files of tables as data frames: format, encoding, separator and compression are detected.

Text is read as text, cell by cell, and turned into numbers afterwards (`tables.cells`), since only
a whole column shows whether "1,5" is a number. Every detection is reported as a sentence. All rules
are fixed, so that the same bytes give the same table on every machine.
"""

import csv
import json
import re
import warnings
from collections import Counter
from collections.abc import Iterable, Iterator
from io import BytesIO, StringIO
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple
from zipfile import BadZipFile, ZipFile

from fedsim.core.blocks.wording import numbers_columns
from fedsim.core.errors import DataError
from fedsim.core.extras import missing
from fedsim.core.files import decompress, open_file, read_bytes
from fedsim.core.memory import check_budget
from fedsim.problems.arrow_files import Budget, read_arrow, read_parquet
from fedsim.problems.tables import cells
from fedsim.problems.tables.columns import as_text
from fedsim.problems.tables.workbooks import check_workbook

if TYPE_CHECKING:  # importing pandas takes half a second: only when a table is read
    from _csv import Reader

    import pandas as pd

TIMES = 40
"""Bytes of memory per byte of text: as cells of text, and as numbers."""

_WIDE = 5  # the same for an Arrow table: as it is read, in the frame, as numbers, as features
_NUMBER = 8  # bytes
_SEPARATORS = ",;\t|"
_LINES = 200  # lines in which the separator is looked for
_ROWS = 1000  # rows that the first line is compared with
_BEFORE = 10  # lines of another form before a table, at most
_ALIKE = 0.9  # share of the lines after them with the usual number of cells, at least
_SHOWN = 30  # characters of a line in a message
_REASON = 200  # characters of a library's message, which may quote a whole line
_NUMBERED = ", no line of names: columns are numbered from 1"
_ARRAY = re.compile(r"\s*\[\s*\{")  # of JSON
_INDEX = re.compile(r"__index_level_\d+__")  # as pandas calls an index without a name in a file
_ZIP, _PARQUET, _ARROW, _FEATHER = b"PK\x03\x04", b"PAR1", b"ARROW1", b"FEA1"
_SQLITE, _OLD_EXCEL = b"SQLite format 3\0", b"\xd0\xcf\x11\xe0"
_COMPRESSED = {b"\x1f\x8b": "gzip", b"BZh": "bzip2", b"\xfd7zXZ": "xz"}
_BOMS = {b"\xef\xbb\xbf": "utf-8-sig", b"\xff\xfe": "utf-16", b"\xfe\xff": "utf-16"}
_NAMES = {"utf-8-sig": "UTF-8 with a byte order mark", "utf-8": "UTF-8", "cp1252": "Latin-1"}
SEPARATOR_NAMES = {",": "commas", ";": "semicolons", "\t": "tabs", "|": "bars", " ": "blanks"}


class Reading(NamedTuple):
    """What a user has fixed about reading text; None is detected.

    Attributes:
        separator: between two cells.
        encoding: the encoding of the characters, by Python's name.
        header: whether the first line names the columns.
        sheet: the name of a workbook's sheet; None for the first.
    """

    separator: str | None = None
    encoding: str | None = None
    header: bool | None = None
    sheet: str | None = None


class Found(NamedTuple):
    """A table as it was read.

    Attributes:
        frame: its cells; those of text files are texts, or missing.
        words: what was detected about the file, as a clause.
        separator: the separator of a text file; empty for others.
        typed: whether the format marks missing cells itself, so that "NA" is a text.
    """

    frame: "pd.DataFrame"
    words: str
    separator: str = ""
    typed: bool = False


def read_table(path: Path, wanted: Reading) -> Found:
    """Return the table of a file: CSV, TSV, JSON lines, Excel, Parquet or Feather.

    Any of them may be compressed by gzip, bzip2 or xz, or be the only file of a zip archive.

    Raises:
        DataError: it cannot be read, is too large, or is none of these; the text names the remedy.
    """
    check_suffix(path)
    content = read_bytes(path, times=1)
    packed = next((name for magic, name in _COMPRESSED.items() if content.startswith(magic)), "")
    content = decompress(content, path)
    # A workbook of Excel is a zip archive, too.
    if content.startswith(_ZIP) and not _is_workbook(content):
        content, packed = _unzip(content, path), "zip"
    table = _parse(content, path, wanted)
    if table.frame.shape[1] == 0 or len(table.frame) == 0:
        rows, columns = table.frame.shape
        raise DataError("data.path", f"{path} has {rows} rows and {columns} columns; at least one"
                        " of each is needed")  # fmt: skip
    return table._replace(words=f"{table.words}, compressed by {packed}") if packed else table


def check_suffix(path: Path) -> None:
    """Raise a DataError for a compression that is recognised by name alone."""
    if path.suffix.lower() in {".zst", ".7z", ".rar"}:
        text = f"{path} is compressed in a way that is not read; decompress it, or use gzip, bzip2,"
        raise DataError("data.path", f"{text} xz or zip")


def _parse(content: bytes, path: Path, wanted: Reading) -> Found:
    if content.startswith(_PARQUET):
        return Found(_arrow(content, path, "parquet"), "Parquet", typed=True)
    if content.startswith((_ARROW, _FEATHER)):
        return Found(_arrow(content, path, "feather"), "Feather", typed=True)
    if content.startswith((_ZIP, _OLD_EXCEL)):
        return _excel(content, path, wanted)
    if content.startswith(_SQLITE):
        text = f"{path} is an SQLite database; take `kind: sql`, with `address: {path.name}`"
        raise DataError("data.path", f"{text} and a `query` that selects rows")
    check_budget("data.path", f"{path}: its cells", TIMES * len(content))
    text, encoding = _decode(content, path, wanted.encoding)
    if not text.strip():
        raise DataError("data.path", f"{path} is empty")
    if _ARRAY.match(text):
        raise DataError("data.path", f"{path} is an array of JSON; give an object per line")
    if text.lstrip()[:1] == "{":
        return Found(_json_lines(text, path), "JSON lines")
    separator = wanted.separator or find_separator(text)
    before = lines_before(text, separator)
    frame = _separator(text, path, separator, skip=len(before))
    if not before and _counts_the_table(frame):
        before, frame = text.splitlines()[:1], frame.iloc[1:].reset_index(drop=True)
    frame, numbered = _name_columns(frame, header=wanted.header)
    shown = SEPARATOR_NAMES.get(separator, repr(separator))
    words = f"text separated by {shown}, {_NAMES.get(encoding, encoding)}"
    if before:
        many = "a line" if len(before) == 1 else f"{len(before)} lines"
        words += f", after {many} of another form ({before[0][:_SHOWN]!r})"
    return Found(frame, words + numbered, separator)


def _decode(content: bytes, path: Path, encoding: str | None) -> tuple[str, str]:
    """Return text and the name of its encoding.

    Without a byte order mark, it is UTF-16 if every other byte at the beginning is zero, and UTF-8
    if it is valid as such. Everything else is Windows' Latin-1 (cp1252), in which nearly every byte
    is a character.
    """
    named = encoding or next((name for bom, name in _BOMS.items() if content.startswith(bom)), None)
    if named is None and b"\0" in content[:200]:
        named = "utf-16-le" if content[1:2] == b"\0" else "utf-16-be"
    try:
        if named is not None:
            return content.decode(named), named
        return content.decode("utf-8"), "utf-8"
    except LookupError:
        text = f"got {encoding!r}, which is no encoding; expected a name such as utf-8 or latin-1"
        raise DataError("data.encoding", text) from None
    except UnicodeDecodeError as error:
        if named is None and not _is_binary(content):
            return content.decode("cp1252", errors="replace"), "cp1252"
        text = f"{path} is not text" if named is None else f"{path} is not valid {named}: {error}"
        advice = "read are CSV, TSV, JSON lines, Excel, Parquet and Feather"
        raise DataError("data.path", f"{text[:_REASON]}; {advice}") from None


def _is_binary(content: bytes) -> bool:
    return bool(re.search(rb"[\x00-\x08\x0e-\x1f]", content[:2000]))


def find_separator(text: str) -> str:
    r"""Return the separator that divides most lines into the same number of cells, at least two.

    Of several such separators, it is the one with the most cells. It is a blank, which may be
    repeated, only if no other separator divides any line, and blanks divide nearly all lines alike.

    >>> find_separator("a;b\n1,5;2,25\n3;4,5\n"), find_separator("only\n1\n")
    (';', ',')
    >>> find_separator("12.5  3\n 1.0 40\n")
    ' '
    """
    lines = list(islice((line for line in StringIO(text) if line.strip()), _LINES))

    def score(separator: str) -> tuple[float, int]:
        try:
            counts = [len(row) for row in _rows(lines, separator) if row]
        except csv.Error:
            return 0.0, 0
        most = max(set(counts), key=lambda count: (counts.count(count), count), default=0)
        return (counts.count(most) / len(counts), most) if most > 1 else (0.0, 0)

    best = max(_SEPARATORS, key=score)
    blank = score(best)[1] < 2 and score(" ")[0] >= _ALIKE
    return " " if blank else best


def _rows(lines: Iterable[str], separator: str) -> "Reader":
    if separator == " ":
        return csv.reader((line.strip() for line in lines), delimiter=" ", skipinitialspace=True)
    return csv.reader(lines, delimiter=separator)


def lines_before(text: str, separator: str) -> list[str]:
    r"""Return the lines at the top of a text that have fewer cells than its table.

    These are titles, or counts such as scikit-learn writes before its tables. Up to ten are
    skipped, if at least nine of ten of the lines after them have the same number of cells. A single
    line that lacks one cell is not skipped: it is R's line of names, which has none for the column
    of row names.

    >>> lines_before("Export of 3 May\n\na;b;c\n1;2;3\n4;5;6\n", ";")
    ['Export of 3 May', '']
    """
    reader = _rows(StringIO(text), separator)
    try:
        records = [(len(row), reader.line_num) for row in islice(reader, _LINES)]
    except csv.Error:
        return []
    counts = [count for count, _ in records if count]
    usual = max(set(counts), key=lambda count: (counts.count(count), count), default=0)
    first = next((place for place, (count, _) in enumerate(records) if count >= usual), 0)
    after = [count for count, _ in records[first:] if count]
    if not 0 < first <= _BEFORE or after.count(usual) < _ALIKE * len(after):
        return []
    if first == 1 and records[0][0] == usual - 1:
        return []
    return text.splitlines()[: records[first - 1][1]]


def _counts_the_table(frame: "pd.DataFrame") -> bool:
    """Return whether the first line gives the numbers of rows and features that follow.

    scikit-learn's tables iris, wine and breast cancer begin with such a line.
    """
    rows, width = frame.shape
    return width > 1 and [str(cell) for cell in frame.iloc[0, :2]] == [
        str(rows - 1),
        str(width - 1),
    ]


def _is_row_of_data(frame: "pd.DataFrame") -> bool:
    """Return whether a table's first row holds only numbers, other than the columns' numbers."""
    row = [cells.clean(frame.iloc[:1, place], frozenset()) for place in range(frame.shape[1])]
    if any(cell.isna().any() or cells.numbers(cell, None).wrong.any() for cell in row):
        return False
    first = [as_text(cell.iloc[0]) for cell in row]
    return not numbers_columns(first)


def _goes_on(frame: "pd.DataFrame") -> bool:
    """Return whether a table's first row is like those after it.

    It then has a number wherever they have numbers, and elsewhere texts that they have, too.
    """
    rest, numbers = frame.iloc[1 : 1 + _ROWS], 0
    for place in range(frame.shape[1]):
        first = cells.clean(frame.iloc[:1, place], frozenset())
        column = cells.clean(rest.iloc[:, place], frozenset())
        if first.isna().any() or column.isna().all():
            continue
        if cells.is_number_column(cells.numbers(column, None)):
            if cells.numbers(first, None).wrong.any():
                return False
            numbers += 1
        elif not (column == first.iloc[0]).any():
            return False
    return 0 < numbers < frame.shape[1]


def _separator(text: str, path: Path, separator: str, *, skip: int) -> "pd.DataFrame":
    import pandas as pd

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", pd.errors.ParserWarning)
            frame = pd.read_csv(
                StringIO(text),
                sep=r"\s+" if separator == " " else separator,
                header=None,
                skiprows=skip,
                dtype=str,
                keep_default_na=False,
                na_values=[""],
                skipinitialspace=True,
            )
    except (ValueError, OverflowError, pd.errors.ParserWarning) as error:
        reason = str(error).strip().removeprefix("Error tokenizing data. C error: ")[:_REASON]
        shown = SEPARATOR_NAMES.get(separator, repr(separator))
        advice = "if they are separated otherwise, give `separator`"
        text = f"{path} is no table of cells separated by {shown}: {reason}; {advice}"
        raise DataError("data.path", text) from error
    return frame


def _name_columns(frame: "pd.DataFrame", *, header: bool | None) -> "tuple[pd.DataFrame, str]":
    """Return a table with the names of its columns: its first row, or numbers from 1.

    Also return a clause, which is empty unless the first row was found to hold no names.

    Args:
        frame: without names.
        header: whether the first row holds them; None to find out.
    """
    if header is False or (header is None and (_is_row_of_data(frame) or _goes_on(frame))):
        frame.columns = [str(number + 1) for number in range(frame.shape[1])]
        return frame, "" if header is False else _NUMBERED
    names = [
        "" if missing else as_text(name).strip()
        for name, missing in zip(frame.iloc[0], frame.iloc[0].isna(), strict=True)
    ]
    frame = frame.iloc[1:].reset_index(drop=True)
    frame.columns = [name or f"column {place + 1}" for place, name in enumerate(names)]
    return frame, ""


def check_names(frame: "pd.DataFrame", where: str, key: str = "data.path") -> None:
    """Check that no two columns have the same name.

    Raises:
        DataError: some have; all such names are listed.
    """
    counts = Counter(map(str, frame.columns))
    twice = sorted(name for name, count in counts.items() if count > 1)
    if twice:
        text = f"{where} has several columns called {', '.join(map(repr, twice))[:_REASON]}"
        raise DataError(key, f"{text}; each needs a different name")


def _distinct(pairs: list[tuple[str, object]]) -> dict[str, object]:
    """Return a JSON object whose names are all different.

    Raises:
        ValueError: a name occurs twice.
    """
    row = dict(pairs)
    if len(row) < len(pairs):
        ((twice, _),) = Counter(name for name, _ in pairs).most_common(1)
        raise ValueError(f"the name {twice!r} is there twice")
    return row


def _json_lines(text: str, path: Path) -> "pd.DataFrame":
    import pandas as pd

    def rows() -> Iterator[dict[str, object]]:
        for number, line in enumerate(text.splitlines(), 1):
            if not line.strip():
                continue
            try:
                row = json.loads(line, object_pairs_hook=_distinct)
            except (ValueError, RecursionError) as error:
                text_ = f"{path}, line {number} is no JSON ({error}); each line is an object"
                raise DataError("data.path", text_) from None
            if not isinstance(row, dict):
                seen = type(row).__name__
                raise DataError("data.path", f"{path}, line {number}: got a {seen}; each line is an"
                                ' object, such as {"age": 41}')  # fmt: skip
            nested = [key for key, value in row.items() if isinstance(value, dict | list)]
            if nested:
                raise DataError("data.path", f"{path}, line {number}: {nested[0]!r} holds several"
                                " values; each value is a number, a text or null")  # fmt: skip
            yield row

    read = list(rows())
    # A column that occurs in one line is a column of all lines.
    names = set().union(*read)
    what = f"{path}: its {len(read)} rows of {len(names)} columns"
    check_budget("data.path", what, _WIDE * _NUMBER * len(read) * len(names))
    return pd.DataFrame(read)


def _arrow(content: bytes, path: Path, kind: str) -> "pd.DataFrame":
    import pyarrow as pa  # takes 0.1 s, and few commands need it

    budget = Budget(path, _WIDE)
    try:
        if kind == "parquet":
            table = read_parquet(BytesIO(content), budget)
        else:
            table = read_arrow(content, budget)
        nested = next((field for field in table.schema if pa.types.is_nested(field.type)), None)
        if nested is not None:
            text = f"{path}: the cells of {nested.name!r} hold several values each ({nested.type})"
            raise DataError(
                "data.path", f"{text[:_REASON]}; each value is a number, a text or null"
            )
        frame: pd.DataFrame = table.to_pandas(ignore_metadata=True)
    except (pa.ArrowException, OSError, ValueError) as error:
        reason = " ".join(str(error).split())[:_REASON]
        raise DataError("data.path", f"{path} is damaged {kind.title()}: {reason}") from error
    # pandas writes an index without a name as a column of such a name.
    return frame.loc[:, [not _INDEX.fullmatch(str(name)) for name in frame.columns]]


def _excel(content: bytes, path: Path, wanted: Reading) -> Found:
    import pandas as pd

    if content.startswith(_OLD_EXCEL):
        raise DataError("data.path", f"{path} is a workbook of Excel before 2007; save it as .xlsx")
    check_workbook(content, path)
    try:
        book = pd.ExcelFile(BytesIO(content), engine="openpyxl")
    except ImportError:
        raise DataError("data.path", missing("an Excel file", "openpyxl", "tables")) from None
    except Exception as error:  # openpyxl raises whatever its parts do
        raise DataError("data.path", f"{path} is a damaged workbook: {error}"[:_REASON]) from error
    with book:
        sheet = wanted.sheet if wanted.sheet is not None else book.sheet_names[0]
        if sheet not in book.sheet_names:
            text = f"{path} has no sheet {sheet!r}; it has {', '.join(map(str, book.sheet_names))}"
            raise DataError("data.sheet", text[:_REASON])
        frame = pd.read_excel(
            book,
            sheet_name=sheet,
            header=None,
            keep_default_na=False,
            na_values=[""],
        )
    if not len(frame):
        raise DataError("data.sheet", f"{path}: the sheet {sheet} is empty")
    frame, numbered = _name_columns(frame, header=wanted.header)
    return Found(frame.infer_objects(), f"Excel, sheet {sheet}{numbered}")


def _is_workbook(content: bytes) -> bool:
    try:
        with ZipFile(BytesIO(content)) as archive:
            return "[Content_Types].xml" in archive.namelist()
    except BadZipFile:
        return False


def _unzip(content: bytes, path: Path) -> bytes:
    """Return the only file of a zip archive."""
    try:
        with ZipFile(BytesIO(content)) as archive:
            members = [member for member in archive.infolist() if not member.is_dir()]
            if len(members) != 1:
                text = f"{path} is an archive of {len(members)} files; unpack it, and name one"
                raise DataError("data.path", text)
            check_budget("data.path", f"{path}: what is in it", members[0].file_size)
            return archive.read(members[0])
    except (BadZipFile, OSError, RuntimeError, NotImplementedError) as error:
        raise DataError("data.path", f"{path}: the archive is damaged ({error})") from error


def format_of(path: Path) -> str:
    """Return the actual format of a file that was named as CSV; empty if it may be CSV.

    Args:
        path: a file that exists.
    """
    try:
        with open_file(path) as file:
            head = file.read(16)
    except (OSError, ValueError):
        return ""
    magics = {_PARQUET: "Parquet", _ARROW: "Feather", _FEATHER: "Feather", _ZIP: "Excel or zip",
              _OLD_EXCEL: "Excel", _SQLITE: "an SQLite database"}  # fmt: skip
    return next((name for magic, name in magics.items() if head.startswith(magic)), "")
