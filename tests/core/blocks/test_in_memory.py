"""Objects passed in Python: by their keys, the latest of equal ones, while a block has them."""

import gc
import pickle

import pytest

from fedsim.core.blocks import in_memory
from fedsim.core.blocks.in_memory import Holding, check_unchanged, code_in, without_keys
from fedsim.core.blocks.values import digest_of
from fedsim.core.errors import DataError


def holding(digest: str, value: object) -> Holding:
    return Holding.of_values(value, lambda: digest)


def again(block: Holding) -> object:
    """Return the object that a block of the same text finds."""
    found = Holding.model_validate(block.model_dump())
    return None if found.held is None else found.held.value


@pytest.mark.slow
def test_of_equal_objects_the_latest_that_a_block_has_is_found() -> None:
    first, other, second = holding("one", 1), holding("other", 2), holding("one", 3)
    assert (again(first), again(other), again(second)) == (3, 2, 3)
    del second
    gc.collect()
    assert again(first) == 1


@pytest.mark.slow
def test_what_no_block_has_any_more_is_forgotten() -> None:
    block = holding("gone", 1)
    text, sent = block.model_dump(), pickle.dumps(block.held)
    del block
    gc.collect()
    assert Holding.model_validate(text).held is None
    assert "gone" not in in_memory._HELD
    received = pickle.loads(sent)
    assert again(Holding.model_validate(text)) == received.value == 1


def test_code_has_a_key_of_its_own_which_no_file_has() -> None:
    blocks = [Holding.of_code(each, "f" * 64) for each in (print, print)] + [Holding.of_code(int)]
    assert [again(block) for block in blocks] == [print, print, int]
    assert len({block.digest for block in blocks}) == 3
    written = [without_keys(block.model_dump_json()) for block in blocks]
    assert written == [f'{{"digest":"code-{"f" * 64}"}}'] * 2 + ['{"digest":"code"}']
    read = [Holding.model_validate_json(text) for text in written]
    assert [code_in(block) for block in (*blocks, *read)] == [["Holding"]] * 6
    assert code_in(holding("one", 1)) == []
    for block in read:
        with pytest.raises(DataError, match="a file does not have it: run it from Python"):
            block.value("data")


def test_values_that_have_changed_are_found() -> None:
    numbers, block = [1], Holding.of_values([1], lambda: "one")
    made = Holding.of_code(numbers, digest_of(numbers), lambda: digest_of(numbers))
    check_unchanged([block, made])
    numbers.append(2)
    with pytest.raises(DataError, match="has changed since it was handed over"):
        check_unchanged([block, made])
