"""Headers of files of numbers: which column is which, and in what unit.

A column is recognised by its name, documented or in common use, or by the dimension of its unit.
Units are converted or refused. Where a header is ambiguous, a remark states what was assumed.
"""

import csv
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from itertools import product
from typing import NamedTuple

from fedsim.core.blocks.spellings import spelled
from fedsim.core.blocks.units import factor, noun
from fedsim.core.blocks.wording import listed, printable
from fedsim.core.ports import Array


@dataclass(frozen=True, slots=True)
class Column:
    """A column that a reader needs.

    Attributes:
        name: the documented name, such as "seconds".
        unit: the unit of its numbers if the header states none; empty for numbers without a unit.
        base: the unit of the returned numbers.
        words: headings of the column in common use, in lower case.
        preferred: the word that decides if two columns have such headings.
        implied: the units implied by some headings, if the header states none.
    """

    name: str
    unit: str = ""
    base: str = ""
    words: frozenset[str] = frozenset()
    preferred: str = ""
    implied: Mapping[str, str] = field(default_factory=dict)

    @property
    def is_time(self) -> bool:
        """Whether its numbers are times."""
        return self.base == "s"

    def scale(self, unit: str) -> Callable[[Array], Array]:
        """Return the conversion from a unit to the base unit.

        It divides where the inverse of the factor is a whole number, so that it rounds only once.
        """
        size = factor(unit, self.base) if unit != self.base else Decimal(1)
        assert size is not None, "the dimension was checked"  # noqa: S101
        # Dividing by 1000 rounds once. Multiplying by 0.001, which is no binary fraction, rounds
        # twice.
        inverse = 1 / size
        if inverse > 1 and inverse == int(inverse):
            return lambda values: values / float(inverse)
        return lambda values: values * float(size)


def words(text: str) -> frozenset[str]:
    """Return the words of a text as a set.

    >>> sorted(words("start begin"))
    ['begin', 'start']
    """
    return frozenset(text.split())


CLOCK = words("seconds time times timestamp t ts datetime date clock epoch unix elapsed hours hour")
"""Words for a time."""

CLIENT = words("client clients id node user device phone peer")
"""Words for the number of a client."""

_ASIDE = words(
    "id no nr number index avg average mean time date at utc gmt direct life cycle coordinate coord"
    " position pos up down upload download uplink downlink ul dl total output input value local"
)
"""Words that may follow the name of a column and are no unit."""

_COMMENTS = words("utc gmt direct lifecycle local")
_BRACKETS = re.compile(r"(.*?)\s*[(\[{]([^()\[\]{}]*)[)\]}]\s*(.*)")
_STARTS = re.compile(r"(?:^|[\s_-]+)(?=\S)|(?<=[a-z])(?=[A-Z])")
_CAMEL = re.compile(r"(?<=[a-z])(?=[A-Z])")
_MOST = 4  # columns that a remark on unused columns lists
_WIDEST = 1000  # accepted columns of a file: each title is parsed in several ways
_LETTERS = 6  # in a unit of unclear case: each letter doubles the number of readings


class Heading(NamedTuple):
    """A cell of a header.

    Attributes:
        text: the text of the cell.
        name: the text without the unit, in lower case.
        unit: the unit in the notation of a scenario; empty if there is none.
        unknown: the text in brackets, if it is no unit.
    """

    text: str
    name: str
    unit: str = ""
    unknown: str = ""

    @property
    def shown(self) -> str:
        """The text, or a description of a column without one, such as the index of a data frame."""
        return self.text or "a column without a name"


def parse_heading(text: str) -> Heading:
    """Split a cell of a header into a name and a unit.

    >>> parse_heading("bandwidth_kbps")[1:3], parse_heading("Power (mW)")[1:3]
    (('bandwidth', 'kbit/s'), ('power', 'mW'))
    """
    text = printable(text)
    bare, comment, unknown = text, "", ""
    if match := _BRACKETS.fullmatch(text):
        before, within, after = match.groups()
        if unit := spelled(within):
            return Heading(text, _fold(f"{before} {after}"), unit)
        known = _fold(within).replace(" ", "") in _COMMENTS
        comment, unknown, bare = within, "" if known else within, f"{before} {after}".strip()
    for match in _STARTS.finditer(bare):
        if unit := _suffix(bare, match.end()):
            return Heading(text, _fold(f"{bare[: match.start()]} {comment}"), unit, unknown)
    return Heading(text, _fold(f"{bare} {comment}"), "", unknown)


def _suffix(text: str, start: int) -> str | None:
    """Return the unit at the end of a cell, whose first letter may be a capital of camel case."""
    suffix = text[start:]
    camel = start > 0 and text[start - 1].islower() and suffix[1:].islower()
    return spelled(suffix.lower() if camel else suffix)


def _fold(text: str) -> str:
    return " ".join(re.split(r"[\W_]+", _CAMEL.sub(" ", text).lower())).strip()


class Choice(NamedTuple):
    """A column of a file, chosen for one that a reader needs.

    Attributes:
        place: the position of the column in a row, from 0.
        unit: the unit of its numbers.
        title: the heading, if it names the column; otherwise empty.
        stated: whether the header states the unit.
    """

    place: int
    unit: str
    title: str = ""
    stated: bool = False


class HeaderError(ValueError):
    """A header in which a column is missing, ambiguous, or has a unit that cannot be converted."""


def split_cells(line: str) -> list[str]:
    """Return the cells of a line of CSV, without quotes."""
    try:
        return [cell.strip() for cell in next(csv.reader([line], skipinitialspace=True), [])]
    except csv.Error:  # csv refuses a cell of more than 128 kB
        return line.split(",")


def are_named(titles: Sequence[str], columns: Sequence[Column]) -> bool:
    """Return whether a header names all of the columns."""
    headings = [parse_heading(title) for title in titles[:_WIDEST]]
    return all(any(_has_word(heading, column) for heading in headings) for column in columns)


def choose_columns(
    titles: Sequence[str], columns: Sequence[Column]
) -> tuple[list[Choice], list[str]]:
    """Find the wanted columns in a header.

    Args:
        titles: the cells of the header.
        columns: the wanted columns.

    Returns:
        A choice for each column, and remarks on assumptions.

    Raises:
        HeaderError: a column is missing, ambiguous, or has a unit of another dimension.
    """
    if len(titles) > _WIDEST:
        raise HeaderError(f"{len(titles):,} columns; give {_WIDEST:,} at most")
    headings = _published([parse_heading(title) for title in titles])
    remarks: list[str] = []
    places = _places(headings, columns, remarks)
    guessed = _fill(places, headings, columns)
    pairs = [
        (_implied(headings[place], column, remarks), column)
        for place, column in zip(places, columns, strict=True)
    ]
    for heading, column in pairs:
        _check_unit(heading, column)
    remarks += [_guess(*pairs[n]) for n in guessed]
    remarks += _conversions(pairs)
    if others := [each.shown for n, each in enumerate(headings) if n not in places]:
        remarks.append(f"left out: {listed(others, _MOST)}")
    return [
        Choice(
            places[n],
            heading.unit or column.unit,
            "" if n in guessed else heading.text,
            bool(heading.unit),
        )
        for n, (heading, column) in enumerate(pairs)
    ], remarks


def _published(headings: list[Heading]) -> list[Heading]:
    """Return headings in which the column "value" of WattTime's API has a name."""
    names = [heading.name for heading in headings]
    if "point time" not in names:
        return headings
    return [
        heading._replace(name="moer") if heading.name == "value" else heading
        for heading in headings
    ]


def _implied(heading: Heading, column: Column, remarks: list[str]) -> Heading:
    """Return a heading with the unit that its name implies; without one for a unitless column."""
    if not column.unit:
        return heading._replace(unit="")
    unit = "" if heading.unit else column.implied.get(heading.name, "")
    if unit:
        remarks.append(f"{heading.text} is WattTime's, which is in {unit}")
    return heading._replace(unit=unit) if unit else heading


def _guess(heading: Heading, column: Column) -> str:
    """Return the remark on a column whose heading does not identify it."""
    unit_known = not column.unit or heading.unit or spelled(column.name)
    return (
        f"{heading.shown} is taken for {column.name}{'' if unit_known else f', in {column.unit}'}"
    )


def _places(
    headings: Sequence[Heading], columns: Sequence[Column], remarks: list[str]
) -> list[int]:
    """Return the position of each column that names or units identify; -1 for the others."""
    places = [-1] * len(columns)
    # The most certain sign first: a heading that is the name, one that contains it, a unit.
    for fits in (_is_named, _has_word, _has_dimension):
        for number, column in enumerate(columns):
            if places[number] >= 0:
                continue
            fitting = [
                n for n, heading in enumerate(headings) if n not in places and fits(heading, column)
            ]
            if fits is _has_dimension and _alike(column, columns, places):
                continue  # with a time in s, for example, both the begin and the end are possible
            if len(fitting) > 1:
                fitting = _decide([(n, headings[n]) for n in fitting], column, remarks)
            places[number] = fitting[0] if fitting else -1
    return places


def _is_named(heading: Heading, column: Column) -> bool:
    known = heading.name in column.words or _fold(heading.text) in column.words
    return known or is_documented(heading.text, column)


def _has_word(heading: Heading, column: Column) -> bool:
    return not column.words.isdisjoint(heading.name.split())


def _has_dimension(heading: Heading, column: Column) -> bool:
    return bool(heading.unit and column.unit) and factor(heading.unit, column.unit) is not None


def _alike(column: Column, columns: Sequence[Column], places: Sequence[int]) -> bool:
    """Return whether another column of the same dimension is missing, too."""
    same = [n for n, each in enumerate(columns) if each.base == column.base]
    return sum(places[n] < 0 for n in same) > 1


def _decide(
    fitting: Sequence[tuple[int, Heading]], column: Column, remarks: list[str]
) -> list[int]:
    """Return the position of the column whose heading has the preferred word.

    Raises:
        HeaderError: no heading, or more than one, has it.
    """
    chosen = [
        (n, each) for n, each in fitting if column.preferred and column.preferred in each.name
    ]
    names = [each.text for _, each in fitting]
    if len(chosen) != 1:
        text = f"{' and '.join(names)} may each be {column.name}; keep one of them"
        raise HeaderError(text)
    ((place, heading),) = chosen
    remarks.append(f"{heading.text} is taken for {column.name}")
    return [place]


def _fill(places: list[int], headings: Sequence[Heading], columns: Sequence[Column]) -> list[int]:
    """Assume the documented positions for columns that the header does not identify.

    Returns:
        The numbers of these columns.

    Raises:
        HeaderError: their positions are ambiguous.
    """
    missing = [n for n, place in enumerate(places) if place < 0]
    free = [n for n in range(len(headings)) if n not in places]
    # Safe in two cases: one column is missing and one heading is left, or every column is in its
    # documented position.
    alone = len(missing) == len(free) == 1
    if missing and not (alone or (missing == free and len(headings) == len(columns))):
        names = " and ".join(columns[n].name for n in missing)
        shown = listed([heading.text for heading in headings], _MOST)
        raise HeaderError(f"the header ({shown}) does not say which column is {names}")
    for number, place in zip(missing, free, strict=False):
        places[number] = place
    return missing


def _check_unit(heading: Heading, column: Column) -> None:
    """Check that the unit of a heading has the dimension of its column.

    Raises:
        HeaderError: it has another dimension, or is unknown or ambiguous.
    """
    if not column.unit:
        return
    wanted = f"give {noun(column.unit)} in a unit such as {column.unit}"
    if heading.unit and factor(heading.unit, column.unit) is None:
        raise HeaderError(f"{heading.text} is {noun(heading.unit)}; {wanted}")
    if heading.unit or is_documented(heading.text, column):
        return
    unit = heading.unknown or _tail(heading, column)
    unclear = unit or heading.text
    where = "" if unclear == heading.text else f" in {heading.text}"
    if may := [
        reading for reading in _readings(unclear) if factor(reading, column.unit) is not None
    ]:
        raise HeaderError(f"{unclear}{where} may be {' or '.join(may)}; {wanted}")
    if unit:
        raise HeaderError(f"{unclear}{where} is no unit that is known; {wanted}")


def _tail(heading: Heading, column: Column) -> str:
    """Return the text after the name of a column that may be an unknown unit; otherwise empty."""
    tokens = heading.name.split()
    known = [n for n, token in enumerate(tokens) if token in column.words]
    if not known or all(token in _ASIDE for token in tokens[known[-1] + 1 :]):
        return ""
    word = tokens[known[-1]]
    return heading.text[heading.text.lower().rfind(word) + len(word) :].strip(" _-")


def _readings(text: str) -> list[str]:
    """Return the units that a text could be in other combinations of upper and lower case."""
    letters = [sorted({letter.lower(), letter.upper()}) for letter in text]
    if sum(len(letter) > 1 for letter in letters) > _LETTERS:
        return []
    return sorted({unit for spelling in product(*letters) if (unit := spelled("".join(spelling)))})


def is_documented(title: str, column: Column) -> bool:
    """Return whether a heading is exactly the documented name or unit of a column."""
    return bool(title) and title.lower() in (column.name.lower(), column.unit.lower())


def _conversions(pairs: Sequence[tuple[Heading, Column]]) -> Iterator[str]:
    for heading, column in pairs:
        if heading.unit and column.unit and factor(heading.unit, column.unit) != 1:
            yield f"{heading.text} is converted from {heading.unit} to {column.unit}"
