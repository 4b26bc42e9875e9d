"""A few runs, made in some of the ways in which the same bytes are promised."""

from .comparing import compare, compared
from .ways import FIRST, RESULTS, few


def test_what_is_promised_is_seen() -> None:
    seen = list(compared(few(), ["--few"]))
    assert len(seen) == 3
    assert all(one.runs for one in seen)
    assert not [(one.way.name, one.broken) for one in seen if one.broken]


def test_what_differs_is_found_and_only_what_is_promised_counts() -> None:
    facts = {"numpy": "2", "scipy": "1", "blas": ["one"]}
    hashes = {"log": "a", "numbers": "b", "files": "c"}
    first = {"facts": facts, "runs": {"x": hashes, "y": hashes}}
    other = {"facts": facts, "runs": {"x": hashes | {"files": "d"}, "y": hashes | {"log": "e"}}}
    seen = compare(FIRST, first, other)
    assert seen.same == {"log": 1, "numbers": 2, "files": 1}
    assert seen.broken == ["x", "y"]
    assert compare(FIRST._replace(promise=RESULTS), first, other).broken == ["y"]
    assert not compare(FIRST, first, other | {"facts": facts | {"numpy": "3"}}).broken
