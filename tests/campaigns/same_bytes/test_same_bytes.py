"""What differs between two ways of making the same runs is found."""

from .comparing import compare
from .ways import FIRST, RESULTS


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
