"""Which replies do not fit: by their class, their reports, and the sizes of their vectors."""

from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from fedsim.addons.live.misfits import ReplyRule, ReplySizes, overflows
from fedsim.core.ports import Beacon, Message, Reply
from fedsim.protocol.reporting import reply_type
from fedsim.wire import Dense, ValueFormat
from tests.tiers import every


@dataclass(frozen=True)
class Gradient(Message):
    """A reply of a test."""

    g: Any


@dataclass(frozen=True)
class Model(Message):
    """Another one."""

    w: Any


def vector(length: int) -> Dense:
    return Dense.of(np.zeros(length), ValueFormat.FLOAT64)


def gradients(*lengths: int) -> list[Reply]:
    return [Reply(client, 1, Gradient(vector(length))) for client, length in enumerate(lengths)]


def test_half_of_the_replies_are_no_majority() -> None:
    seen = ReplySizes((10,))
    assert seen.misfits(gradients(4, 4, 5, 5)) == {}  # and nothing else is known
    assert seen.misfits(gradients(4, 4, 4, 5, 5)).keys() == {3, 4}
    assert seen.misfits(gradients(5, 5, 4, 4)).keys() == {0, 1}  # as before


def test_the_size_of_a_first_reply_is_that_of_later_ones() -> None:
    seen = ReplySizes((10,))
    assert seen.misfits(gradients(4)) == {}
    assert seen.misfits(gradients(5)).keys() == {0}
    assert seen.misfits(gradients(4)) == {}


def test_every_class_and_field_has_its_own_size() -> None:
    seen = ReplySizes()
    assert seen.misfits(gradients(4, 4)) == {}
    assert seen.misfits([Reply(0, 1, Model(vector(7)))]) == {}


def test_a_class_is_that_of_more_than_half_of_the_newest_round() -> None:
    models = [Reply(client, 2, Model(vector(3))) for client in (0, 1)]
    others = [Reply(client, 2, Gradient(vector(3))) for client in (2, 3)]
    assert ReplySizes().misfits([*models, *others]) == {}
    found = ReplySizes().misfits([*models, others[0]])
    assert found == {2: "client-2 has sent a message of the kind gradient, and most send one of"
                        " model"}  # fmt: skip
    late = [Reply(client, 1, Gradient(vector(3))) for client in (3, 4, 5)]
    assert ReplySizes().misfits([*models, *late]) == {}  # of a round that had another method


def test_a_client_is_told_the_first_of_its_flaws() -> None:
    models = [Reply(client, 1, Model(vector(3))) for client in range(3)]
    gradient = [Reply(client, 0, Gradient(vector(5))) for client in (4, 5)]
    odd = Reply(3, 1, Gradient(vector(6)))
    found = ReplySizes().misfits([*models, *gradient, odd])
    assert found.keys() == {3}
    assert "of the kind gradient" in found[3]


@every(("values", "fits"), [(1.0, True), (np.nan, False), (np.inf, False), ([1.0, 2.0], False)])
def test_a_report_is_one_finite_number(values: Any, *, fits: bool) -> None:
    kind: Any = reply_type(Gradient, ("loss",))
    reply = kind(vector(2), SimpleNamespace(values=np.array(values)))
    flaw = ReplyRule((Gradient,)).flaw(Model(vector(2)), reply)
    assert flaw == ("" if fits else "reports a value that is not a number (report_loss)")


@pytest.mark.parametrize(("value", "field"), [(0.0, ""), (np.nan, "g"), (-np.inf, "g")])
def test_a_number_that_is_not_finite_is_named_by_its_field(value: float, field: str) -> None:
    numbers = np.array([0.0, value])
    assert overflows(Gradient(SimpleNamespace(values=numbers))) == field


def test_only_classes_of_the_method_and_beacons_are_replies() -> None:
    rule, asked = ReplyRule((Gradient,)), Model(vector(1))
    assert rule.flaw(asked, Gradient(vector(1))) == ""
    assert rule.flaw(asked, Beacon()) == ""
    assert rule.flaw(asked, Model(vector(1))).endswith("the kind model with one of model")
    assert ReplyRule().flaw(asked, Model(vector(1))) == ""
