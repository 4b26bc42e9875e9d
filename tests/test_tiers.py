"""A test that goes through cases goes through all of them, and names the one that fails."""

from inspect import signature

import pytest

from tests.tiers import Tier, every


def test_every_case_is_gone_through_with_what_a_test_asks_for_beside_it() -> None:
    seen = []

    @every("a, b", [(1, 2), pytest.param(3, 4, id="three")])
    @every("c", "xy")
    def test(a: int, b: int, c: str, fixture: str) -> None:
        seen.append(f"{a}{b}{c}{fixture}")

    assert list(signature(test).parameters) == ["fixture"]
    test(fixture="!")
    assert seen == ["12x!", "12y!", "34x!", "34y!"]


def test_the_case_that_fails_is_named_and_none_is_no_test() -> None:
    @every("number", [3, 0, 0])
    def test(number: int) -> None:
        assert number

    with pytest.raises(AssertionError) as failed:
        test()
    assert failed.value.__notes__ == ["in the case {'number': 0}"]
    with pytest.raises(ValueError, match="there is no case of number"):
        every("number", [])
    with pytest.raises(ValueError, match="cases with marks are parameters"):
        every("number", [1, pytest.param(2, marks=pytest.mark.slow)])


@pytest.mark.parametrize(("default", "seen", "slow"), [(True, [2], False), (False, [1, 2], True)])
def test_the_default_tier_takes_the_few(
    default: bool, seen: list[int], slow: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Tier, "few", default)
    taken = list[int]()

    @every("number", [1, 2], few=[2])
    def test(number: int) -> None:
        taken.append(number)

    test()
    assert taken == seen
    assert bool(getattr(test, "pytestmark", [])) == slow
