"""Names of clients in a table: trimmed, renamed on request, and compared for near-duplicates."""

import re
import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence
from difflib import SequenceMatcher
from itertools import pairwise

_NEAR = 0.88  # ratio of equal characters from which two names are near
_SHORT = 5  # characters below which names are compared for equality alone
_LISTED = 10


def fold(name: str) -> str:
    """Return a name without case, accents, punctuation and blanks.

    >>> fold("Charité - Berlin") == fold("charite berlin")
    True
    """
    bare = unicodedata.normalize("NFKD", name).casefold()
    return "".join(character for character in bare if character.isalnum())


def near_duplicates(names: Iterable[str]) -> list[tuple[str, str]]:
    """Return pairs of distinct names that may mean the same client.

    The names of a pair are equal except for case, accents and punctuation, or differ in a few
    letters. Names that differ in their digits, or in a last word of one letter ("ward A"), are
    different. Only neighbours in the order of folded names, and of folded names read backwards, are
    compared, so that the effort grows as n log n.
    """
    folded = {name: fold(name) for name in names}
    pairs: dict[frozenset[str], tuple[str, str]] = {}
    for key in (lambda name: (folded[name], name), lambda name: (folded[name][::-1], name)):
        for one, other in pairwise(sorted(folded, key=key)):
            if _is_near(one, other, folded):
                pairs[frozenset((one, other))] = (min(one, other), max(one, other))
    return sorted(pairs.values())


def _is_near(one: str, other: str, folded: Mapping[str, str]) -> bool:
    a, b = folded[one], folded[other]
    if a == b:
        return True
    if min(len(a), len(b)) < _SHORT or re.findall(r"\d+", a) != re.findall(r"\d+", b):
        return False
    last = [name.split()[-1] for name in (one, other)]
    if any(len(word) == 1 for word in last) and last[0] != last[1]:
        return False
    return SequenceMatcher(None, a, b, autojunk=False).ratio() >= _NEAR


def duplicate_notes(names: Sequence[str], column: str) -> Iterator[str]:
    """Yield a note on names that may mean the same client; it lists up to ten pairs."""
    pairs = near_duplicates(names)
    if not pairs:
        return
    listed = ", ".join(f"{one!r} and {other!r}" for one, other in pairs[:_LISTED])
    more = f", and {len(pairs) - _LISTED} more pairs" if len(pairs) > _LISTED else ""
    one, other = pairs[0]
    yield (
        f"near-duplicate names in {column!r}: {listed}{more}; they are different clients. To join"
        f" two, write `rename: {{{_quote(one)}: {_quote(other)}}}`"
    )


def _quote(name: str) -> str:
    return "'" + name.replace("'", "''") + "'"
