"""Readers of files by what is odd in a file: each cell is the right value, a note or a refusal.

The tables here are those of the page on files, and every cell of them is tried. "right" is the
value of the same content as documented, without a note; "note" is that value, with a note of the
run; "refused" is one error whose words name what was seen. Empty cells do not apply.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, NamedTuple

import pytest

from fedsim.core.errors import DataError, ScenarioError

NUMBERS = """
| numbers in columns | `csv` | `harvest` | `hourly` | `intervals` | `contacts` | `positions` |
|---|---|---|---|---|---|---|
| header with another unit | note | note | note | note | note | note |
| header with a unit of another kind | refused | refused | refused | refused | refused | refused |
| no header | right | right | right | right | right | right |
| columns in another order | right | right | right | right | right | right |
| a further column | note | note | note | note | note | note |
| the index of a data frame | note | note | note | note | note | note |
| numbers for names of columns | refused | refused | refused | note | note | note |
| a column twice | refused | refused | refused | refused | refused | refused |
| dates with `Z` | note | note | note | note | note | note |
| dates with an offset | note | note | note | note | note | note |
| seconds since 1970 | note | note | note | note | note | note |
| milliseconds since 1970 | note | note | note | note | note | note |
| `NA` for a number | refused | refused | refused | refused | refused | refused |
| an empty cell | refused | refused | refused | refused | refused | refused |
| thousands with commas | refused | refused | refused | refused | refused | refused |
| decimal commas, semicolons | refused | refused | refused | refused | refused | refused |
| separated by blanks | refused | refused | refused | refused | refused | refused |
| byte order mark | right | right | right | right | right | right |
| clients not in the fleet | | | | note | note | note |
| clients from 1 | | | | refused | refused | refused |
| empty file | refused | refused | refused | refused | refused | refused |
| header alone | refused | refused | refused | refused | refused | refused |
"""

TABLES = """
| tables | CSV | JSON lines | Parquet | Feather | Excel | SQL | data frame | `kind: csv` |
|---|---|---|---|---|---|---|---|---|
| columns in another order | right | right | right | right | right | right | right | right |
| no header | note | | | | note | | | refused |
| numbers for names of columns | right | right | right | right | right | right | right | right |
| the index of a data frame | note | right | right | right | note | note | note | refused |
| indices that differ | | | | | | | refused | |
| a column twice | refused | refused | refused | refused | refused | refused | refused | refused |
| dates with `Z` | right | right | right | right | right | right | right | refused |
| dates with offsets | right | right | right | right | right | right | right | refused |
| times with a zone, typed | | | right | right | | | right | |
| `NA` among numbers | note | note | note | note | note | note | note | refused |
| `NA` among texts | note | note | note | note | note | note | note | |
| decimal commas | right | right | right | right | right | right | right | refused |
| thousands, settled by a column | note | note | note | note | note | note | note | refused |
| thousands or decimals, unsettled | note | note | note | note | note | note | note | refused |
| clients from 1 | right | right | right | right | right | right | right | right |
| a single category | note | note | note | note | note | note | note | |
| separated by blanks | note | | | | | | | refused |
| byte order mark | right | right | | | | | | right |
| empty file | refused | refused | refused | refused | refused | refused | | refused |
| no row | refused | | refused | refused | refused | refused | refused | refused |
"""

GRAPHS = """
| graphs | GML | GraphML | list of edges (CSV) |
|---|---|---|---|
| another unit | right | right | right |
| a unit of another kind | refused | refused | refused |
| a rate without a unit | refused | refused | refused |
| `bandwidth` and `delay` | right | right | right |
| `LinkSpeed` and its units | right | right | |
| `LinkSpeed` without units | refused | refused | |
| `LinkSpeed` and another `LinkSpeedRaw` | refused | refused | |
| an unknown attribute | refused | refused | refused |
| columns in another order | | | right |
| no header | | | refused |
| a column twice | | | refused |
| two edges between two nodes | note | note | refused |
| `NA` for a rate | refused | refused | refused |
| thousands with commas | refused | refused | refused |
| decimal commas | refused | refused | refused |
| separated by tabs | | | refused |
| byte order mark | right | right | right |
| clients not in the fleet | note | note | note |
| clients from 1 | refused | refused | refused |
| nodes that are numbers, in any order | right | right | right |
| labels that are no names of nodes | note | | |
| empty file | refused | refused | refused |
"""

WORDS: Mapping[str, str | Mapping[str, str]] = {
    "header with another unit": "is converted from",
    "header with a unit of another kind": "line 1: .* is (a|an) .*; give",
    "a further column": "left out: note",
    "the index of a data frame": {
        "": "a column without a name|'(column 1|index)' is left out",
        "data frame": "the index 'n' is left out",
        "kind: csv": "column 1 .* has no name",
    },
    "numbers for names of columns": "the first line, 1,2,3.* is taken for a row|times begin at 0",
    "a column twice": "may each be|several columns|the name 'a' is there twice",
    "dates with `Z`": "times are dates: the run starts at|'2021-03-01T05:30:00Z' in column 1",
    "dates with an offset": "times are dates: the run starts at",
    "dates with offsets": "in column 1",
    "seconds since 1970": "in s since 1970",
    "milliseconds since 1970": "in ms since 1970",
    "`NA` for a number": "line 3: .* in numbers; got .*NA",
    "an empty cell": "line 3: .* in numbers",
    "decimal commas, semicolons": "line 1: expected cells separated by commas, not by semicolons",
    "separated by blanks": "line 1: expected cells .* not by blanks|separated by blanks|has 1 ",
    "clients not in the fleet": "left out: the fleet is of|not in the fleet, .*client-7",
    "clients from 1": "got clients of 1 to 3; count them from 0|client-0 has no node",
    "empty file": "is empty|no row|is no G(raph)?ML|no such table",
    "header alone": "has no row of numbers; expected",
    "no row": "0 rows|without rows|finds no row|at least one row",
    "no header": "no line of names|has numbers alone|source: missing",
    "indices that differ": "rows are paired by their place",
    "`NA` among numbers": "cells of 'NA' are taken for missing|nothing in column 1",
    "`NA` among texts": "cells of 'NA' are (taken for missing|values, as this table marks)",
    "decimal commas": "'1,5' in column 1|in an unknown unit",
    "thousands with commas": "in numbers; got|in an unknown unit",
    "thousands, settled by a column": "since the column|would be possible|'1,188' in col",
    "thousands or decimals, unsettled": "would be possible, too|'1,188' in column 1",
    "a single category": "'c' is left out: every cell is 'x'",
    "a unit of another kind": "a power; give",
    "a rate without a unit": "a bare number|without a unit",
    "`LinkSpeed` without units": "LinkSpeedUnits: missing",
    "`LinkSpeed` and another `LinkSpeedRaw`": "are different rates",
    "an unknown attribute": "unknown key 'colour'",
    "two edges between two nodes": "parallel edges|connected already",
    "`NA` for a rate": 'rate: got "NA"',
    "separated by tabs": "source: missing",
    "labels that are no names of nodes": "ids for names, not their labels",
}
"""What a note or an error says, by the row; some by the reader."""


class Cell(NamedTuple):
    """A cell of a table: what is odd, who reads it, and what comes of it."""

    oddity: str
    reader: str
    verdict: str

    @property
    def words(self) -> str:
        words = WORDS[self.oddity]
        return words if isinstance(words, str) else words.get(self.reader, words[""])


def cells(table: str) -> Iterator[Cell]:
    """Yield the cells of a table that are not empty."""
    head, _, *lines = [
        [cell.strip() for cell in line.strip().strip("|").split("|")]
        for line in table.strip().splitlines()
    ]
    for oddity, *row in lines:
        for reader, verdict in zip(head[1:], row, strict=True):
            if verdict:
                yield Cell(oddity, reader.strip("`"), verdict)


def summary(table: str) -> str:
    """Return a table by verdict, as the page shows it; readers that differ are in brackets."""
    rows: dict[str, list[str]] = {"right": [], "note": [], "refused": []}
    by_oddity: dict[str, list[Cell]] = {}
    for cell in cells(table):
        by_oddity.setdefault(cell.oddity, []).append(cell)
    for oddity, found in by_oddity.items():
        usual = Counter(cell.verdict for cell in found).most_common(1)[0][0]
        others = [f"{cell.reader}: {cell.verdict}" for cell in found if cell.verdict != usual]
        rows[usual].append(f"{oddity} ({', '.join(others)})" if others else oddity)
    lines = [f"| {verdict} | {'; '.join(each)} |" for verdict, each in rows.items()]
    return "\n".join(["| reading | in the file |", "|---|---|", *lines])


def each_of(table: str) -> pytest.MarkDecorator:
    """Return the parameters of a test of every cell of a table."""
    extra = {"Excel": [pytest.mark.needs("tables")]}
    return pytest.mark.parametrize(
        "cell",
        [
            pytest.param(cell, id=f"{cell.reader}: {cell.oddity}", marks=extra.get(cell.reader, []))
            for cell in cells(table)
        ],
    )


def hold(cell: Cell, read: Callable[[], tuple[Any, Iterable[str]]], answer: Any) -> None:
    """Check that what a reader makes of a file is what a cell says.

    Args:
        cell: that is tried.
        read: returns a value and the notes.
        answer: the right value.
    """
    if cell.verdict == "refused":
        with pytest.raises((DataError, ScenarioError)) as caught:
            read()
        assert re.search(cell.words, str(caught.value)), str(caught.value)
        return
    value, notes = read()
    assert value == answer
    if cell.verdict == "note":
        assert any(re.search(cell.words, note) for note in notes), notes
    else:
        assert cell.verdict == "right"
        assert not notes
