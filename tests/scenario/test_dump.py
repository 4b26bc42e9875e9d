"""Scenarios are written as the YAML library writes them, to the byte."""

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from fedsim.scenario.plan import _as_yaml, _by_library
from tests.tiers import examples

SPECIAL = ("yes", "null", "~", "1e5", "0x1", "12:30", "- a", "# c", "x: y", "?", "=", "<<", "---")
TEXTS = st.one_of(
    st.sampled_from([*SPECIAL, "a\nb", "\\", "\x7f", "\u2028", "é", "k" * 130]),
    st.text("ab:-#?&*!|>'\"%@`{}[], 01.~\t", max_size=6),
)
SCALARS = st.one_of(TEXTS, st.floats(allow_nan=False), st.integers(), st.none(), st.booleans())
TREES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXTS, inner, max_size=4),
    max_leaves=12,
)


@examples(300)
@given(st.dictionaries(TEXTS, TREES, min_size=1, max_size=4))
def test_it_is_what_the_library_writes(tree: dict[str, Any]) -> None:
    plain = json.dumps(tree, ensure_ascii=False)
    assert _as_yaml(plain) == _by_library(plain)
