"""Which column of a table holds its clients: found by its cells, with its name as a hint.

A column of clients has few distinct values, and many rows of each. Among several such columns, the
one counts that is called like a place or a device. Otherwise these signs are weighed:

- texts that are codes, such as H01 and H02;
- texts that name places, such as "Klinikum Nord";
- rows of the same text that lie together, as in tables that were joined;
- proper names.
"""

import re
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from fedsim.problems.tables import cells
from fedsim.problems.tables.names import fold

if TYPE_CHECKING:  # importing pandas takes half a second: only when a table is read
    import pandas as pd

WORDS = (
    "client", "hospital", "klinik", "krankenhaus", "hopital", "clinique", "spital", "ospedale",
    "clinica", "ziekenhuis", "sjukhus", "sykehus", "site", "centre", "center", "zentrum", "centro",
    "standort", "clinic", "institution", "einrichtung", "etablissement", "facility", "practice",
    "praxis", "bank", "branch", "filiale", "user", "writer", "device", "sensor", "station",
    "school", "schule", "ecole", "university", "store", "shop", "company", "firma", "silo",
    "region", "city", "stadt", "ville", "country", "land", "pays",
)  # fmt: skip
"""Words for clients in column names and cells, without accents, the most likely first."""

_LONG = 6  # letters from which a word also counts as the beginning or the end of a longer one

_MOST, _MOST_NAMED = 0.2, 0.5  # clients per row, at most; the second if the name is one of clients

_BLOCKS, _NAMES = 3, 4  # clients, at least, for blocks of rows, and proper names, to be a sign

_LETTERS = 3  # of a proper name, on average

_CODE = re.compile(r"([^\W\d_]{1,12})[ ._-]?\d+")

_LETTERED = re.compile(r"([^\W\d_]{2,12})[ ._-][A-Z]")
"""Such as "plant A". Categories have such texts, too: they say only what is no label in silence."""

_CODED, _PLACED, _TOGETHER, _PROPER = 2, 3, 2, 1  # how much each sign of clients counts


def words_in(name: str) -> list[str]:
    """Return the words of a name, without case and accents.

    >>> words_in("HôpitalName-2"), words_in("UniKlinik_nr")
    (['hopital', 'name', '2'], ['uni', 'klinik', 'nr'])
    """
    parts = re.sub(r"(?<=[a-zà-ÿ])(?=[A-ZÀ-Þ])", " ", name)
    return [word for part in re.split(r"[\W_]+", parts) if (word := fold(part))]


def is_called(name: str, word: str) -> bool:
    """Return whether the first or last word of a name is the given one, or a compound with it.

    >>> is_called("Klinikname", "klinik"), is_called("web site", "site"), is_called("sites", "site")
    (True, True, False)
    """
    parts = words_in(name)
    ends = {parts[0], parts[-1]} if parts else set[str]()
    return word in ends or (len(word) >= _LONG and any(_is_compound(part, word) for part in ends))


def _is_compound(part: str, word: str) -> bool:
    return part.startswith(word) or part.endswith(word)


def by_name(frame: "pd.DataFrame", apart: Sequence[str]) -> str:
    """Return the column that is named like clients and could hold them; empty if there is none.

    Args:
        frame: the table.
        apart: columns that do not count.
    """
    for word in WORDS:
        for name in map(str, frame.columns):
            if name not in apart and is_called(name, word) and _is_shared(frame[name], _MOST_NAMED):
                return name
    return ""


def _is_shared(column: "pd.Series", most: float) -> bool:
    """Return whether a column has a few distinct values, each in several rows."""
    cleaned = cells.clean(column, frozenset())
    return bool(2 <= cleaned.nunique() <= max(2, most * len(cleaned)))


def by_cells(frame: "pd.DataFrame", apart: Sequence[str]) -> tuple[list[str], str]:
    """Return the columns whose texts most resemble clients, and the first sign of it.

    Args:
        frame: the table.
        apart: columns that do not count.
    """
    scores: dict[str, tuple[int, str]] = {}
    for name in map(str, frame.columns):
        if name not in apart and _is_shared(frame[name], _MOST):
            signs = list(_signs(cells.clean(frame[name], frozenset())))
            if signs:
                scores[name] = sum(count for count, _ in signs), signs[0][1]
    most = max((count for count, _ in scores.values()), default=0)
    best = [name for name, (count, _) in scores.items() if count == most]
    return best, scores[best[0]][1] if best else ""


def looks_like_clients(column: "pd.Series") -> tuple[bool, str]:
    """Return whether a column's texts are codes or places, and the first sign of clients, if any.

    Texts that lie together or are proper names may be labels, too.
    """
    if not _is_shared(column, _MOST):
        return False, ""
    cleaned = cells.clean(column, frozenset())
    signs = list(_signs(cleaned))
    lettered = [_LETTERED.fullmatch(str(text)) for text in cleaned.dropna().unique()]
    if all(lettered) and len({fold(match[1]) for match in lettered if match}) == 1:
        signs.append((_CODED, f"codes such as {cleaned.dropna().iloc[0]!r}"))
    coded = any(" such as " in sign and count >= _CODED for count, sign in signs)
    return coded, signs[0][1] if signs else ""


def _signs(column: "pd.Series") -> Iterator[tuple[int, str]]:
    """Yield the signs that a cleaned column holds clients, each with its weight and wording."""
    known = column.dropna()
    texts = known.drop_duplicates().tolist()
    if not all(isinstance(text, str) for text in texts) or known.value_counts().min() < 2:
        return
    if cells.is_number_column(cells.numbers(column, None)) or cells.dates(column) is not None:
        return
    shown = f"such as {texts[0]!r}"
    codes = [_CODE.fullmatch(text) for text in texts]
    if len({fold(code[1]) for code in codes if code}) == 1 and all(codes):
        yield _CODED, f"codes {shown}"
    if 2 * sum(any(is_called(text, word) for word in WORDS) for text in texts) >= len(texts):
        yield _PLACED, f"names {shown}"
    changes = int((known.to_numpy()[1:] != known.to_numpy()[:-1]).sum())
    # With fewer changes than texts, no text comes back after another one.
    if len(texts) >= _BLOCKS and changes == len(texts) - 1:
        yield _TOGETHER, "the rows of each text lie together"
    long = sum(map(len, texts)) >= _LETTERS * len(texts)
    if len(texts) >= _NAMES and long and all(text[:1].isupper() for text in texts):
        yield _PROPER, f"names {shown}"
