"""Objects passed in Python: by their digests, the latest of equal ones, while a block has them."""

import gc
import pickle

from fedsim.blocks import in_memory
from fedsim.blocks.identity import ObjectIdentity
from fedsim.blocks.in_memory import Holding


def holding(digest: str, value: object) -> Holding:
    return Holding.holding(ObjectIdentity(digest), value)


def again(block: Holding) -> object:
    """Return the object that a block of the same text finds."""
    found = Holding.model_validate(block.model_dump())
    return None if found.held is None else found.held.value


def test_of_equal_objects_the_latest_that_a_block_has_is_found() -> None:
    first, other, second = holding("one", 1), holding("other", 2), holding("one", 3)
    assert (again(first), again(other), again(second)) == (3, 2, 3)
    del second
    gc.collect()
    assert again(first) == 1


def test_what_no_block_has_any_more_is_forgotten() -> None:
    block = holding("gone", 1)
    text, sent = block.model_dump(), pickle.dumps(block.held)
    del block
    gc.collect()
    assert Holding.model_validate(text).held is None
    assert "gone" not in in_memory._HELD
    received = pickle.loads(sent)  # noqa: S301 - its own
    assert again(Holding.model_validate(text)) == received.value == 1
