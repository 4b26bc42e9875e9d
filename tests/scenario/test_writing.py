"""YAML is written as the library writes it, to the last character."""

import json
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as some

from fedsim.scenario import load
from fedsim.scenario.writing import _by_library, as_yaml
from tests.tiers import examples

TEXTS = some.one_of(
    some.text(max_size=8),
    some.text("ab1 :#-?,[]{}'\"\n|>&*!%@`~.\\\t\u2028\u00e9", max_size=8),
    some.sampled_from(["null", "yes", "0x1", "1e3", ".inf", "2001-01-01", "=", "<<"]),
)
SCALARS = some.none() | some.booleans() | some.integers() | some.floats() | TEXTS
TREES: Any = some.recursive(
    SCALARS, lambda own: some.lists(own, max_size=3) | some.dictionaries(TEXTS, own, max_size=3)
)


@given(some.dictionaries(TEXTS, TREES, max_size=4))
@example(
    {"a": [1, True, 1.0, "1", 0.0, -0.0], "b": [[], {}, [[1], {"c": [2], "d": 3}]], "long " * 40: 1}
)
@examples(50)
def test_a_tree_is_written_as_by_the_library(tree: dict[str, Any]) -> None:
    escaped = not json.dumps(tree, ensure_ascii=False).isprintable()
    assert as_yaml(tree) == _by_library(tree, escaped=escaped)


def test_what_occurs_twice_is_referred_to() -> None:
    twice = [1, 2]
    assert as_yaml({"a": twice, "b": twice}) == "a: &id001\n- 1\n- 2\nb: *id001\n"


@pytest.mark.parametrize("name", ["quickstart", "walkthrough", "peers", "slow-peer"])
def test_a_scenario_is_written_as_by_the_library(name: str) -> None:
    for variant in load(name).variants:
        tree = variant.scenario.model_dump(mode="json", exclude={"variants", "sweep"})
        assert as_yaml(tree) == _by_library(tree, escaped=False)
