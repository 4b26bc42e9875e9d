"""Rows of a table as samples: labels and clients numbered, missing ones counted, roles found."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fedsim.core.errors import DataError
from fedsim.core.memory import check_budget
from fedsim.problems.description import Description, Feature
from fedsim.problems.samples import Samples
from fedsim.problems.tables import cells, columns, leakage, names
from fedsim.problems.tables.columns import Role, TableColumn
from fedsim.problems.tables.decimals import find_decimal
from fedsim.problems.tables.formats import check_names

if TYPE_CHECKING:  # importing pandas takes half a second: only when a table is read
    import pandas as pd

_CLASSES = 20
"""Labels with at most this many distinct whole numbers are classes in the search for leakage."""


@dataclass(frozen=True)
class Wanted:
    """What a scenario says about the columns of a table.

    Attributes:
        label: the column of labels, by name or number.
        client: the column of clients, by name or number.
        drop: columns that are left out.
        roles: the roles that the scenario gives to columns, by name.
        decimal: the decimal sign; None to find it.
        marks: further texts that stand for a missing value.
        complete: whether rows with a missing cell are left out.
        distinct: whether repeated rows are left out.
        positive: the text of the label that becomes +1.
        rename: other names for clients, by name.
        classes: the numbers of the label's texts; empty to number them in ascending order.
        thousands: whether commas may separate thousands (`cells.numbers`).
        kept: texts that are values, although such texts usually stand for a missing value.
        typed: whether the table marks missing cells itself, so that each of its texts is a value.
    """

    label: str | int
    client: str | int | None = None
    drop: tuple[str | int, ...] = ()
    roles: Mapping[str, Literal["number", "category", "date"]] = field(default_factory=dict)
    decimal: str | None = None
    marks: tuple[str, ...] = ()
    complete: bool = False
    distinct: bool = False
    positive: str | None = None
    rename: Mapping[str, str] = field(default_factory=dict)
    thousands: bool = False
    kept: tuple[str, ...] = ()
    classes: Mapping[str, float] = field(default_factory=dict)
    typed: bool = False


class Columns(NamedTuple):
    """The columns of a table.

    Attributes:
        frame: the cells, cleaned.
        found: all columns with their roles, including those that cannot be used.
        decimal: the decimal sign; None if each column has its own.
        notes: on cells that could be read otherwise.
    """

    frame: "pd.DataFrame"
    found: list[TableColumn]
    decimal: str | None
    notes: list[str]


def columns_of(frame: "pd.DataFrame", wanted: Wanted, where: str) -> Columns:
    """Return the cleaned frame and all columns with their roles, including unusable ones.

    Raises:
        DataError: two columns have the same name, or a column that the scenario names does not
            exist or is given two roles.
    """
    check_names(frame, where)
    taken: dict[int, Role] = {columns.place_of(frame, wanted.label, "label", where): "label"}
    if wanted.client is not None:
        place = columns.place_of(frame, wanted.client, "client", where)
        if place in taken:
            text = f"{wanted.client!r} is the column of labels; give the column of each row's"
            raise DataError("data.client", f"{text} client, or leave client out")
        taken[place] = "client"
    for each in wanted.drop:
        place = columns.place_of(frame, each, "drop", where)
        if place in taken:
            text = f"{each!r} is the column of the {taken[place]}s, which cannot be left out"
            raise DataError("data.drop", text)
        taken.setdefault(place, "dropped")
    for name in wanted.roles:
        columns.place_of(frame, name, "columns", where)
    clean, notes = _clean(frame, wanted)
    decimal = find_decimal(clean, wanted.decimal, thousands=wanted.thousands)
    taken_columns = [
        _take(clean[name], taken[place], decimal.sign) if place in taken
        else columns.column_of(
            clean[name], decimal=decimal.sign, wanted=wanted.roles.get(name),
            thousands=wanted.thousands
        )
        for place, name in enumerate(clean.columns)
    ]  # fmt: skip
    return Columns(clean, taken_columns, decimal.sign, [*notes, *decimal.notes])


def _take(column: "pd.Series", role: Role, decimal: str | None) -> TableColumn:
    numbers = cells.numbers(column, decimal)
    kind = "number" if column.dtype.kind in "iufb" or cells.is_number_column(numbers) else "text"
    return TableColumn(str(column.name), kind, role, int(column.isna().sum()))


def _clean(frame: "pd.DataFrame", wanted: Wanted) -> "tuple[pd.DataFrame, list[str]]":
    """Return a frame with its missing cells marked, and notes on the words that mark them.

    In a text file, the words that usually stand for a missing value do so, unless `wanted.kept`
    lists them. In columns of numbers and dates they always do. In columns of texts, a table that
    marks missing cells itself has them as values.
    """
    marks, cleaned = frozenset(wanted.marks), {}
    gaps, kept = WordCounts(), WordCounts()
    for place, name in enumerate(map(str, frame.columns)):
        column = frame.iloc[:, place]
        words = cells.words_for_missing(column)
        cleaned_column = cells.clean(column, marks)
        values = frozenset(words if wanted.typed else set(wanted.kept) & words.keys()) - marks
        if values and not _is_of_numbers(cleaned_column, wanted):
            cleaned_column = cells.clean(column, marks, values)
        else:
            values = frozenset()
        cleaned[name] = cleaned_column
        for word in words.keys() - marks:
            if word not in values:
                gaps.setdefault(word, {})[name] = words[word]
            elif word not in wanted.kept:
                kept.setdefault(word, {})[name] = words[word]
    import pandas as pd

    notes = [*words_notes(gaps, kept)]
    notes += _unseen("missing_marks", wanted.marks, frame)
    notes += _unseen("not_missing", wanted.kept, frame)
    return pd.DataFrame(cleaned), notes


def _is_of_numbers(column: "pd.Series", wanted: Wanted) -> bool:
    numbers = cells.numbers(column, wanted.decimal, thousands=wanted.thousands)
    return cells.is_number_column(numbers) or cells.dates(column) is not None


WordCounts = dict[str, dict[str, int]]
"""The number of cells that hold a word, by word and column."""


def words_notes(gaps: WordCounts, kept: WordCounts) -> Iterator[str]:
    """Yield notes on words that could stand for a missing value or be values.

    Args:
        gaps: the words that are taken for missing values.
        kept: the words that are values.
    """
    for word in sorted(gaps):
        text = f"cells of {word!r} are taken for missing values: {_counts(gaps[word])}"
        yield f"{text}; `not_missing: [{_quoted(word)}]` keeps the word in columns of texts"
    for word in sorted(kept):
        why = "as this table marks missing cells itself"
        text = f"cells of {word!r} are values, {why}: {_counts(kept[word])}"
        yield f"{text}; `missing_marks: [{_quoted(word)}]` makes them missing"


def _counts(cells_of: Mapping[str, int]) -> str:
    return ", ".join(f"{name} ({many:,})" for name, many in cells_of.items())


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def _unseen(key: str, given: Sequence[str], frame: "pd.DataFrame") -> Iterator[str]:
    """Yield notes on texts that the scenario gives, but that no cell has."""
    for text in given:
        mark = frozenset({text})
        if not any(cells.has(frame.iloc[:, place], mark) for place in range(frame.shape[1])):
            yield f"{key}: no cell of the table is {text!r}"


def table_samples(
    frame: "pd.DataFrame", wanted: Wanted, where: str, like: Description | None = None
) -> Samples:
    """Return the rows of a table as samples with raw features.

    Features are NaN where missing. A category is the number of its text, and a date the days since
    1970.

    Args:
        frame: the table, as read.
        wanted: what the scenario says about its columns.
        where: the origin of the table, for errors.
        like: the description of other samples whose columns and labels these rows share.

    Raises:
        DataError: a column cannot be used; all of them are named.
    """
    notes: list[str] = []
    read = len(frame)
    cleaned, found, decimal, seen = columns_of(without_empty(frame, notes), wanted, where)
    notes += seen
    # Test rows are read with the decimal sign of the training rows.
    if like is not None and like.decimal:
        decimal = like.decimal
    wanted = replace(wanted, decimal=decimal)
    columns.check_usable(found, where)
    if like is not None:
        return _alike(cleaned, wanted, where, like)
    kept = _kept_rows(cleaned, found, wanted, notes)
    label = columns.place_of(cleaned, wanted.label, "label", where)
    y, texts = _labels(cleaned.iloc[:, label], wanted, kept, where)
    features = [column for column in found if column.role in columns.FEATURES]
    _notes_on_columns(found, notes)
    if not features:
        if read == 1:  # every column is constant
            raise DataError(
                "data", f"{where} has 1 row, and no model can be fitted to it; give more"
            )
        text = f"{where} has no column left of which features can be made"
        raise DataError(
            "data", f"{text}; it has {', '.join(column.name for column in found)[:200]}"
        )
    client, names_of = _clients(cleaned, wanted, kept, notes, where)
    check_budget("data", f"{where}: its features", 8 * len(features) * read)
    _check_finite(features, kept, where)
    X = np.column_stack([_values(column)[kept] for column in features])
    kinds = len(np.unique(y)) if texts or _few_whole(y) else 0
    at_hand = [_at(column, kept) for column in features]
    notes += leakage.leaking_values(at_hand, y, kinds)
    notes += leakage.leaking_gaps(at_hand, y, kinds)
    return Samples(
        np.ascontiguousarray(X), y, client,
        described=Description(
            names_of, texts, str(cleaned.columns[label]),
            "" if wanted.client is None
            else str(cleaned.columns[columns.place_of(cleaned, wanted.client, "client", where)]),
            tuple(Feature(column.name, column.role, column.texts) for column in features),
            tuple(notes),
            tuple((c.name, c.type, c.role, c.missing, c.reason) for c in found),
            decimal or "",
        ),
    )  # fmt: skip


def _values(column: TableColumn) -> NDArray[np.float64]:
    return np.empty(0) if column.numbers is None else column.numbers


def _at(column: TableColumn, kept: NDArray[np.bool_]) -> TableColumn:
    kept_cells = _values(column)[kept]
    return TableColumn(column.name, column.type, column.role, column.missing, numbers=kept_cells)


def _check_finite(features: Sequence[TableColumn], kept: NDArray[np.bool_], where: str) -> None:
    for column in features:
        values = _values(column)
        if (rows := np.flatnonzero(kept & np.isinf(values))).size:
            text = f"{where}: the column {column.name!r} is {values[rows[0]]} in row {rows[0] + 1}"
            mark = 'missing_marks: ["inf", "-inf"]'
            raise DataError("data", f"{text}; expected finite numbers, or `{mark}` for no value")


def _few_whole(y: NDArray[np.float64]) -> bool:
    distinct = np.unique(y)
    return len(distinct) <= _CLASSES and bool(np.array_equal(distinct, np.rint(distinct)))


def without_empty(frame: "pd.DataFrame", notes: list[str]) -> "pd.DataFrame":
    """Return a frame without rows in which no cell has a value."""
    import pandas as pd

    kept = pd.Series(data=False, index=frame.index)
    for place in range(frame.shape[1]):
        if kept.all():
            return frame
        column = frame.iloc[:, place]
        blank = (
            column[~kept]
            .astype(object)
            .map(lambda value: isinstance(value, str) and not value.strip())
        )
        kept |= column.notna() & ~blank.reindex(frame.index, fill_value=False)
    if not kept.all():
        notes.append(_left_out(int((~kept).sum()), ("empty", "")))
    return frame[kept].reset_index(drop=True)


def _kept_rows(
    frame: "pd.DataFrame", found: Sequence[TableColumn], wanted: Wanted, notes: list[str]
) -> NDArray[np.bool_]:
    """Return which rows are used, and note how many are not, and why."""
    kept = np.ones(len(frame), np.bool_)
    for role, word in (("label", "label"), ("client", "client")):
        for column in found:
            if column.role == role and column.missing:
                gone = frame[column.name].isna().to_numpy()
                notes.append(_left_out(int((gone & kept).sum()), ("", f"without a {word}")))
                kept &= ~gone
    if wanted.complete:
        features = [column for column in found if column.role in columns.FEATURES]
        gone = (
            np.any([np.isnan(_values(column)) for column in features], axis=0)
            if features
            else ~kept
        )
        many = int((gone & kept).sum())
        notes.append(_left_out(many, ("", "with a missing value"), "missing: drop-rows"))
        kept &= ~gone
    # Rows that differ only in a running number are repetitions. But a patient's number, though it
    # is no feature, shows that two rows are of different patients.
    numbered = [
        column for column in found if column.role == "identifier" and column.type == "number"
    ]
    left_out = {column.name for column in numbered if np.ptp(_values(column)) < len(frame)}
    shown = frame[[name for name in frame.columns if name not in left_out]]
    again = shown.duplicated().to_numpy() & kept
    if again.any():
        if wanted.distinct:
            kept &= ~again
            notes.append(_left_out(int(again.sum()), ("repeated", ""), "duplicates: drop"))
        else:
            rows = "1 row repeats" if again.sum() == 1 else f"{again.sum():,} rows repeat"
            notes.append(f"{rows} an earlier one, so that test rows may"
                         " equal training rows; `duplicates: drop` leaves them out")  # fmt: skip
    if not kept.any():
        raise DataError("data.missing", "no row is left: " + "; ".join(notes))
    return kept


def _left_out(rows: int, about: tuple[str, str], key: str = "") -> str:
    """Return a sentence on rows that are left out.

    Args:
        rows: how many.
        about: the words before and after "rows".
        key: the key of the scenario under which they are; may be empty.

    >>> _left_out(1, ("", "without a label")), _left_out(2, ("empty", ""))
    ('1 row without a label is left out', '2 empty rows are left out')
    """
    before, after = about
    words = [f"{rows:,}", before, "row" if rows == 1 else "rows", after]
    verb = "is" if rows == 1 else "are"
    return f"{' '.join(filter(None, words))} {verb} left out{f' ({key})' if key else ''}"


def _labels(
    column: "pd.Series", wanted: Wanted, kept: NDArray[np.bool_], where: str
) -> tuple[NDArray[np.float64], dict[float, str]]:
    """Return the labels of the kept rows, and the text of each number if labels are texts.

    Two texts become -1 and +1, more than two 0, 1, ..., in ascending order.
    """
    column = column[kept]
    if wanted.classes:
        return _numbered(column, wanted.classes, where)
    numbers = cells.numbers(column, wanted.decimal, thousands=wanted.thousands)
    if cells.is_number_column(numbers) and wanted.positive is None:
        if numbers.wrong.any():
            rows = np.flatnonzero(numbers.wrong)
            text = f"{where}, column {column.name!r}: {str(column.iloc[rows[0]])!r} in row"
            row = int(np.flatnonzero(kept)[rows[0]]) + 1
            raise DataError("data.label", f"{text} {row} is no number, as other labels are; give it"
                            " in `missing_marks` to leave such rows out")  # fmt: skip
        return numbers.numbers, {}
    codes, texts = columns.number_texts(column)
    if len(texts) > columns.MOST:
        text = f"{where}: the label {column.name!r} has {len(texts)} different texts"
        raise DataError("data.label", f"{text}, such as {texts[0]!r}; expected classes or numbers")
    if wanted.positive is not None:
        if wanted.positive not in texts:
            shown = ", ".join(map(repr, texts[:8]))
            text = f"no row has the label {wanted.positive!r}; the data has {shown}"
            raise DataError("data.positive", text)
        others = [text for text in texts if text != wanted.positive]
        y = np.where(codes == texts.index(wanted.positive), 1.0, -1.0)
        return y, {-1.0: " or ".join(others), 1.0: wanted.positive}
    if len(texts) == 2:
        return 2 * codes - 1, {-1.0: texts[0], 1.0: texts[1]}
    return codes, {float(place): text for place, text in enumerate(texts)}


def _numbered(
    column: "pd.Series", classes: Mapping[str, float], where: str
) -> tuple[NDArray[np.float64], dict[float, str]]:
    """Return labels as the numbers that the scenario gives to texts, and each number's texts.

    Raises:
        DataError: a text has no number, or no row has a text.
    """
    codes, texts = columns.number_texts(column)
    unknown = [text for text in texts if text not in classes]
    unused = [text for text in classes if text not in texts]
    if unknown or unused:
        shown = ", ".join(map(repr, texts[:8]))
        text = f"gives {unknown[0]!r} no number" if unknown else f"has {unused[0]!r}, as no row"
        raise DataError("data.classes", f"{text}; the label {column.name!r} of {where} has {shown}")
    numbers = np.array([classes[text] for text in texts])
    named = {
        float(number): " or ".join(text for text in texts if classes[text] == number)
        for number in numbers
    }
    return numbers[codes.astype(int)], named


def _clients(
    frame: "pd.DataFrame", wanted: Wanted, kept: NDArray[np.bool_], notes: list[str], where: str
) -> tuple[NDArray[np.int64] | None, tuple[str, ...]]:
    if wanted.client is None:
        return None, ()
    column = frame.iloc[:, columns.place_of(frame, wanted.client, "client", where)][kept]
    renamed = column.map(lambda value: wanted.rename.get(str(value), value))
    unknown = sorted(set(wanted.rename) - set(column.astype(str)))
    if unknown:
        text = f"no client is called {unknown[0]!r}; the data has"
        raise DataError("data.rename", f"{text} {', '.join(sorted(set(column.astype(str))))[:200]}")
    codes, texts = columns.number_texts(renamed)
    notes += names.duplicate_notes(texts, str(column.name))
    return codes.astype(np.int64), texts


def _notes_on_columns(found: Sequence[TableColumn], notes: list[str]) -> None:
    """Note which columns are left out, and which cells are missing."""
    for column in found:
        if column.role in {"empty", "constant", "identifier"}:
            notes.append(f"the column {column.name!r} is left out: {column.reason}")
        if column.role == "date" and "possible, too" in column.reason:
            notes.append(f"the column {column.name!r}: {column.reason}")
    gaps = [column for column in found if column.role in columns.FEATURES and column.missing]
    if gaps:
        listed = ", ".join(f"{column.name} {column.missing}" for column in gaps[:10])
        more = f", and {len(gaps) - 10} more columns" if len(gaps) > 10 else ""
        notes.append(f"missing cells: {listed}{more}")


def _alike(frame: "pd.DataFrame", wanted: Wanted, where: str, like: Description) -> Samples:
    """Return rows with the columns, categories, labels and clients of other samples.

    A text of a category that these do not have becomes missing.

    Raises:
        DataError: a column is missing, or a label is unknown.
    """
    lacking = [feature.name for feature in like.features if feature.name not in frame.columns]
    if lacking:
        text = f"{where} lacks the columns {', '.join(map(repr, lacking))[:200]}"
        raise DataError("data", f"{text} of the training table")
    label = columns.place_of(frame, wanted.label, "label", where)
    gaps = frame.iloc[:, label].isna()
    frame = frame[~gaps].reset_index(drop=True)
    parts: list[NDArray[np.float64]] = []
    for feature in like.features:
        column = frame[feature.name]
        if feature.role == "category":
            codes, texts = columns.number_texts(column)
            places = {text: float(place) for place, text in enumerate(feature.texts)}
            known = np.array([places.get(text, np.nan) for text in texts])
            gone = np.isnan(codes)
            parts.append(np.where(gone, np.nan, known[np.where(gone, 0, codes).astype(int)]))
        else:
            role: Literal["date", "number"] = "date" if feature.role == "date" else "number"
            read = columns.column_of(
                column, decimal=wanted.decimal, wanted=role, thousands=wanted.thousands
            )
            parts.append(_values(read))
    y = _labels_alike(frame.iloc[:, label], wanted, where, like)
    client = _clients_alike(frame, wanted, where, like)
    return Samples(np.column_stack(parts), y, client, described=like)


def _labels_alike(
    column: "pd.Series", wanted: Wanted, where: str, like: Description
) -> NDArray[np.float64]:
    if wanted.classes:
        known_texts = set(column.astype(str)) & wanted.classes.keys()
        classes = {text: wanted.classes[text] for text in known_texts}
        return _numbered(column, classes, where)[0]
    if not like.labels:
        return cells.numbers(column, wanted.decimal, thousands=wanted.thousands).numbers
    known = {text: value for value, text in like.labels.items()}
    if wanted.positive is not None:
        return np.where(column.astype(str) == wanted.positive, 1.0, -1.0)
    unseen = sorted(set(column.astype(str)) - set(known))
    if unseen:
        text = f"{where}: the label {unseen[0]!r} is in no training row; known are"
        raise DataError("data.label", f"{text} {', '.join(map(repr, known))[:200]}")
    return np.array([known[text] for text in column.astype(str)], np.float64)


def _clients_alike(
    frame: "pd.DataFrame", wanted: Wanted, where: str, like: Description
) -> NDArray[np.int64] | None:
    """Return the numbers of clients; clients that the training table lacks get further numbers."""
    if wanted.client is None:
        return None
    codes, texts = columns.number_texts(
        frame.iloc[:, columns.place_of(frame, wanted.client, "client", where)]
    )
    numbers = {name: number for number, name in enumerate(like.clients)}
    client_numbers = np.array(
        [numbers.get(text, len(numbers) + place) for place, text in enumerate(texts)]
    )
    return np.asarray(client_numbers[codes.astype(int)], np.int64)
