"""Workbooks of Excel, checked before they are read.

A workbook is a zip archive of XML, and a small one may need much memory:

- One cell far from the others makes a table of all cells between them.
- A text is written once, but may stand in many cells.
- A document type definition, which Excel does not write, can make a text of any length from a few
  bytes.
"""

import re
from collections import Counter
from io import BytesIO
from pathlib import Path
from xml.parsers import expat
from zipfile import BadZipFile, ZipFile

from fedsim.core.errors import DataError
from fedsim.core.memory import check_budget

_TIMES = 10
"""Bytes of memory per byte of a part, since each cell becomes an object."""

_CELL = 24
"""Bytes per cell, at least: in its row, in its column, and as a number."""

_TEXT = 2
"""Bytes per character, at least: in the frame, and as a cleaned cell."""

_ROWS, _COLUMNS = 2**20, 2**14  # of a sheet of Excel
_REASON = 200  # characters of a library's message
_XML = (".xml", ".rels")
_PLACE = re.compile(r"([A-Z]{1,3})[0-9]{1,7}")
_NUMBER = re.compile(r"[0-9]{1,9}")


def check_workbook(content: bytes, path: Path) -> None:
    """Check that a workbook has no document type definition, and that its sheets fit into memory.

    Raises:
        DataError: it has one, a sheet is too large, or it is damaged.
    """
    parts = _Parts(path)
    try:
        with ZipFile(BytesIO(content)) as archive:
            members = archive.infolist()
            size = sum(member.file_size for member in members)
            check_budget("data.path", f"{path}: what is in it", _TIMES * size)
            for member in members:
                parts.read(archive.read(member), member.filename)
    except (BadZipFile, OSError, RuntimeError, NotImplementedError, ValueError) as error:
        text = f"{path} is a damaged workbook: {error}"
        raise DataError("data.path", text[:_REASON]) from error
    parts.check_texts()


class _Parts:
    """The parts of a workbook while they are parsed."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._name = ""
        self._row = self._column = 0  # of the current cell, from 1
        self._rows = self._columns = 0  # of the current sheet, those with a value
        self._is_shared = False  # whether the cell's text is one of the workbook's
        self._length = 0  # of the current text of the workbook
        self._lengths: list[int] = []
        self._uses = Counter[str]()  # cells with such a text, by its number, in all sheets
        self._text: list[str] | None = None  # of the current element, where it matters

    def read(self, part: bytes, name: str) -> None:
        """Check a part; a part that is not XML is left to its reader.

        Raises:
            ValueError: its name is that of XML, but it is not XML.
            DataError: see `check_workbook`.
        """
        self._name = name
        self._row = self._column = self._rows = self._columns = 0
        parser = expat.ParserCreate(namespace_separator=" ")
        parser.StartDoctypeDeclHandler = self._refuse
        parser.StartElementHandler = self._start
        parser.EndElementHandler = self._end
        parser.CharacterDataHandler = self._add
        try:
            parser.Parse(part, True)  # noqa: FBT003 - it is the last piece
        except expat.ExpatError as error:
            if name.endswith(_XML):
                raise ValueError(f"{name} is no XML ({error})") from None

    def check_texts(self) -> None:
        """Raise a DataError unless the texts of all cells fit into memory."""
        size = sum(
            count * self._lengths[int(number)]
            for number, count in self._uses.items()
            if _NUMBER.fullmatch(number) and int(number) < len(self._lengths)
        )
        check_budget("data.path", f"{self._path}: the texts of its cells", _TEXT * size)

    def _refuse(self, *_: object) -> None:
        text = f"{self._path}, {self._name} has a document type definition (DTD), by which a few"
        raise DataError("data.path", f"{text} bytes become a text of any length; expected a"
                        " workbook as Excel writes it, which has none")  # fmt: skip

    def _start(self, tag: str, attributes: dict[str, str]) -> None:
        name, self._text = tag.rpartition(" ")[2], None
        if name == "row":
            written = attributes.get("r", str(self._row + 1))
            self._row = int(written) if _NUMBER.fullmatch(written) else 0
            self._column = 0
            if not 0 < self._row <= _ROWS:
                raise ValueError(f"{self._name} has a row {written:.30}; up to {_ROWS} is accepted")
        elif name == "c":
            self._column = self._column_of(attributes.get("r"))
            self._is_shared = attributes.get("t") == "s"
        elif name in {"v", "t"}:
            self._text = []
        if name in {"v", "is"} and self._column:  # cells without a value are left out
            self._rows = max(self._rows, self._row)
            self._columns = max(self._columns, self._column)
            what = f"{self._path}, {self._name}: {self._rows} rows of {self._columns} columns"
            check_budget("data.path", what, _CELL * self._rows * self._columns)

    def _column_of(self, place: str | None) -> int:
        if place is None:
            return self._column + 1
        match = _PLACE.fullmatch(place)
        column = 0
        # Letters are the digits of a number in base 26, in which A is 1.
        for letter in match[1] if match else "":
            column = 26 * column + ord(letter) - ord("A") + 1
        if not 0 < column <= _COLUMNS:
            raise ValueError(f"{self._name} has a cell {place:.30}; up to XFD{_ROWS} is accepted")
        return column

    def _add(self, text: str) -> None:
        if self._text is not None:
            self._text.append(text)

    def _end(self, tag: str) -> None:
        name, text = tag.rpartition(" ")[2], "".join(self._text or ())
        self._text = None
        if name == "v" and self._is_shared:
            self._uses[text.strip()] += 1
        elif name == "t":
            self._length += len(text)
        elif name == "si":
            self._lengths.append(self._length)
        if name in {"si", "is"}:
            self._length = 0
