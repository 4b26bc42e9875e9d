"""By what objects of Python are known: two different ones never share a digest."""

import json
import os
import subprocess
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import fedsim
from fedsim.blocks.identity import identity_of, walker
from fedsim.blocks.identity.walker import Walk
from fedsim.problems import GivenRows
from tests.blocks.identities import (
    REFUSED,
    TOLD_APART,
    Attributes,
    Grid,
    closed_over,
    module_of,
    nested,
)
from tests.tiers import examples


def digests(number: int) -> dict[str, str]:
    with torch.random.fork_rng():
        return {name: identity_of(make(number)).digest for name, make in TOLD_APART.items()}


@pytest.mark.slow
def test_what_differs_in_a_leaf_differs_and_what_is_built_alike_does_not() -> None:
    first, again, other = digests(1), digests(1), digests(2)
    assert [name for name, each in first.items() if not each] == []
    assert [name for name in first if first[name] != again[name]] == []
    assert [name for name in first if first[name] == other[name]] == []
    assert len(TOLD_APART) + len(REFUSED) > 100


class OtherGrid(np.ndarray[Any, Any]):
    """A subclass of arrays, beside `Grid`."""


def test_arrays_of_the_same_numbers_in_three_classes_have_three_digests() -> None:
    numbers = np.array([1.0, 2.0])
    three = [numbers, numbers.view(Grid), numbers.view(OtherGrid)]
    seen = [identity_of(each).digest for each in three]
    assert all(seen)
    assert len({*seen}) == 3


QUICK = [name for name in TOLD_APART if "array" in name or "class" in name]


@pytest.mark.parametrize("name", QUICK)
def test_arrays_and_classes_that_differ_in_a_leaf_differ_and_those_built_alike_do_not(
    name: str,
) -> None:
    first, again, other = (identity_of(TOLD_APART[name](number)) for number in (1, 1, 2))
    assert first.digest
    assert first == again
    assert other.digest
    assert first != other


def test_what_cannot_be_compared_for_certain_has_no_digest() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of PyTorch's compiler, and of files that are not closed
        wrong = {}
        for name, (make, text) in REFUSED.items():
            found = identity_of([make()])
            if found.digest or text not in found.reason or not found.reason:
                wrong[name] = found
    assert wrong == {}


SCRIPT = """
import json, sys
from tests.blocks.test_identity import digests
json.dump(digests(1), sys.stdout)
"""


@pytest.mark.slow
def test_digests_are_the_same_in_another_process_under_another_hash_seed() -> None:
    root = Path(__file__).parents[2]
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", SCRIPT],
        cwd=root,
        env=os.environ | {"PYTHONHASHSEED": "4711"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert json.loads(done.stdout) == digests(1)


LEAVES: list[Any] = [0, 1, True, 0.0, -0.0, "", "a", b"a", None, (), np.float32(1), np.float64(1)]


def built(shape: Any, leaves: Iterator[Any]) -> Any:  # noqa: PLR0911 - one a container
    """Build an object of a shape, a tree of the names of containers, whose leaves are given."""
    if shape is None:
        return next(leaves)
    sort, parts = shape
    inside = [built(part, leaves) for part in parts]
    match sort:
        case "list":
            return inside
        case "tuple":
            return tuple(inside)
        case "dict":
            return {str(number): each for number, each in enumerate(inside)}
        case "attributes":
            return Attributes(inside)
        case "closure":
            return closed_over(inside)
        case "nested":
            return nested(inside)
        case "module":
            return module_of("def f(): return content", content=inside).f
    return np.array([*inside, None], dtype=object)


SORTS = ["list", "tuple", "dict", "attributes", "closure", "nested", "module", "array"]
SHAPES = st.recursive(
    st.none(),
    lambda inner: st.tuples(st.sampled_from(SORTS), st.lists(inner, min_size=1, max_size=3)),
    max_leaves=8,
)


def count(shape: Any) -> int:
    return 1 if shape is None else sum(count(part) for part in shape[1])


@examples(60)
@given(shape=SHAPES, data=st.data())
def test_random_objects_that_differ_in_one_leaf_never_share_a_digest(
    shape: Any, data: st.DataObject
) -> None:
    size = count(shape)
    leaves = data.draw(st.lists(st.integers(0, len(LEAVES) - 1), min_size=size, max_size=size))
    place, change = data.draw(st.integers(0, size - 1)), data.draw(st.integers(1, len(LEAVES) - 1))
    other = [*leaves]
    other[place] = (other[place] + change) % len(LEAVES)
    one, again, differs = (
        identity_of(built(shape, (LEAVES[each] for each in chosen)))
        for chosen in (leaves, leaves, other)
    )
    assert one.digest
    assert one == again
    assert one != differs


def test_what_user_code_has_put_into_a_package_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    module = torch.nn.Linear(1, 1)
    reading = module_of("import torch\ndef f(x): return torch.relu(x)").f
    before = identity_of(module), identity_of(reading)
    own = module_of("def forward(self, x): return x\ndef relu(x): return x")
    monkeypatch.setattr(torch.nn.Linear, "forward", own.forward)
    monkeypatch.setattr(torch, "relu", own.relu)
    after = identity_of(module), identity_of(reading)
    assert all(each.digest for each in (*before, *after))
    assert before[0] != after[0]
    assert before[1] != after[1]


def test_of_a_module_only_what_code_can_read_counts() -> None:
    def digest(code: str, **content: int) -> str:
        other = module_of("", **content)
        return identity_of(module_of(f"def f(x): return {code}", other=other).f).digest

    for code, edited in (("other.scale * x", False), ("getattr(other, x)", True)):
        first = digest(code, scale=2, spare=1)
        assert first
        assert digest(code, scale=2, spare=1) == first
        assert digest(code, scale=3, spare=1) != first
        assert (digest(code, scale=2, spare=9) != first) == edited


def test_classes_of_c_are_known_by_their_names() -> None:
    known = [identity_of(each).digest for each in (int, str, np.float32, np.int16, type(iter(())))]
    assert all(known)
    assert len({*known}) == len(known)


def test_a_class_that_a_package_makes_as_it_runs_has_the_version_of_the_package(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    made = type("Made", (), {"__module__": "torch.nn"})
    before = identity_of(made)
    monkeypatch.setattr(walker, "versions", lambda tops: [f"{top} 0.0" for top in sorted(tops)])
    assert before.digest != identity_of(made).digest
    assert all((before.digest, identity_of(made).digest))


def test_the_reason_says_where() -> None:
    found = identity_of(Attributes({"file": [iter(())]}))
    assert found.reason == "value.file is a tuple_iterator, which cannot be compared for certain"


def test_every_part_is_written_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ten times the parts, however they share each other, are ten times the tokens."""
    tokens = [0]
    write = Walk._write

    def counted(self: Walk, tag: bytes, content: Any) -> None:
        tokens[0] += 1
        write(self, tag, content)

    def taken(size: int) -> int:
        made: list[Any] = [Attributes(None)]
        for number in range(size):
            made.append({"a": [number], "b": Attributes(made[-1]), "c": made[-1], "all": made})
        tokens[0] = 0
        assert identity_of(made).digest
        return tokens[0]

    monkeypatch.setattr(Walk, "_write", counted)
    few, many = taken(100), taken(1000)
    assert few > 500
    assert many < 10 * few


def test_arrays_of_two_classes_differ_and_so_do_their_attributes() -> None:
    class Own(np.ndarray[Any, Any]):
        unit: str

    class Other(np.ndarray[Any, Any]):
        unit: str

    def view(kind: type[Own | Other], unit: str) -> Any:
        made = np.array([1.0, 2.0]).view(kind)
        made.unit = unit
        return made

    made = [view(Own, "m"), view(Other, "m"), view(Own, "s"), np.array([1.0, 2.0])]
    digests = [identity_of(each).digest for each in made]
    assert all(digests)
    assert len(set(digests)) == 4
    assert identity_of(view(Own, "m")).digest == digests[0]


def test_an_object_is_found_as_long_as_a_block_has_one_equal_to_it() -> None:
    """Also if a later one is gone; of two, the later, as the earlier may have been modified."""
    first, later = (fedsim.arrays([[0.5, 1.0], [2.0, 0.1]], [1, -1]) for _ in range(2))
    written = first.model_dump()
    assert GivenRows.model_validate(written).held is later.held
    del later
    assert GivenRows.model_validate(written).held is first.held
    del first
    assert GivenRows.model_validate(written).held is None
