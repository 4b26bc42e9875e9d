"""Data made in Python as located data."""

from pathlib import PurePosixPath
from typing import Any

import numpy as np
import pytest

from fedsim.protocol.stopping import Stop
from fedsim.scenario.located import Located, Origin, locate
from tests.tiers import every


@every(
    ("value", "plain"),
    [
        ((1, 2), [1, 2]),
        ({1: "a"}, {"1": "a"}),
        (np.float64(0.5), 0.5),
        (np.int32(3), 3),
        (np.bool_(True), True),
        (np.arange(3), [0, 1, 2]),
        (PurePosixPath("a/b"), "a/b"),
        (Stop.model_validate({"energy": "5 kJ"}), None),
    ],
)
def test_python_values_become_what_a_file_would_have(value: Any, plain: Any) -> None:
    expected = value.model_dump(mode="json") if plain is None else plain
    assert locate(value, Origin()).plain() == expected


@every("value", [{1, 2}, object(), b"bytes", 1j, len, {"a": [iter(())]}])
def test_what_no_file_could_hold_is_refused(value: object) -> None:
    with pytest.raises(TypeError, match="a scenario cannot hold a"):
        locate(value, Origin())


def test_endless_and_oversized_values_are_refused() -> None:
    endless: list[Any] = []
    endless.append(endless)
    for value, words in ((endless, "deep"), (10**5000, "bits"), ("\ud800", "surrogate")):
        with pytest.raises(ValueError, match=words):
            locate(value, Origin())


def test_an_origin_is_said_with_its_line_where_it_has_one() -> None:
    assert str(Origin("f.yaml", 3)) == "f.yaml:3"
    assert str(Origin("--set a=1")) == "--set a=1"
    assert str(Origin()) == ""


def test_an_index_is_a_key_only_in_a_list() -> None:
    tree = locate({"a": [{"b": 1}], "0": "zero"}, Origin())
    inner = tree.nearest(("a", "0", "b"))[0]
    assert inner.content == 1
    assert tree.get(0) == Located(Origin(), "zero")
    assert tree.nearest(("a", -1))[1] == 1
    assert tree.nearest(("a", "first"))[1] == 1
