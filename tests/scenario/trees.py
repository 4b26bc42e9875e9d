"""Trees to merge."""

from typing import Any

from hypothesis import strategies as st

from fedsim.scenario.located import Origin, locate
from fedsim.scenario.merging import merge

BASE, OVER = Origin("base", 1), Origin("over", 2)

# Trees of one shape: a key in capitals holds a block, another one a number. So no block ever
# meets a number, and merging is the union of the leaves.
blocks = st.recursive(
    st.dictionaries(st.sampled_from("abc"), st.integers(), max_size=3),
    lambda inner: st.builds(
        lambda leaves, deeper: leaves | deeper,
        st.dictionaries(st.sampled_from("abc"), st.integers(), max_size=3),
        st.dictionaries(st.sampled_from("ABC"), inner, max_size=3),
    ),
    max_leaves=8,
)


def merged(base: Any, over: Any) -> Any:
    return merge(locate(base, BASE), locate(over, OVER)).plain()
