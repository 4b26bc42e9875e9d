"""What messages are made of."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedsim.core.blocks.wording import (
    closest,
    format_path,
    nearest,
    nearest_file,
    printable,
    show,
    unknown,
)
from tests.tiers import every


@given(st.text())
def test_anything_is_one_printable_line(text: str) -> None:
    line = printable(text)
    assert line.isprintable()
    assert len(line) <= 60


@given(st.text(alphabet=st.characters(categories=["L", "N"]), max_size=60))
def test_letters_are_left_alone(text: str) -> None:
    assert printable(text) == text


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
        lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    )
)
def test_any_value_is_shown_on_one_short_line(value: object) -> None:
    assert show(value).isprintable()
    assert len(show(value)) <= 62


@every(
    ("name", "hint"),
    [
        ("censro", "; did you mean 'censor'?"),
        ("CENSOR", "; did you mean 'censor'?"),
        ("Kind", "; did you mean 'kind'?"),
        ("xyzzy", ""),
        (5, ""),
        (None, ""),
    ],
)
def test_the_nearest_name(name: object, hint: str) -> None:
    assert nearest(name, ["censor", "kind", "momentum"]) == hint


def test_an_unknown_name_comes_with_all_that_are_known() -> None:
    assert unknown("gdd", ["chb", "gd"]) == "got \"gdd\"; did you mean 'gd'? One of: chb, gd"
    assert unknown(5, ["chb", "gd"]) == "got 5. One of: chb, gd"


def test_a_path_is_dotted() -> None:
    assert format_path(()) == ""
    assert format_path(("fleet", 0, "radio\n")) == "fleet.0.radio\\n"


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("nofile.yaml", ""),
        ("slow-phone.yaml", "; did you mean 'slow-phones.yaml'?"),
        ("slow-phones.yml", "; did you mean 'slow-phones.yaml'?"),
        ("E.yaml", "; did you mean 'e.yaml'?"),
    ],
)
def test_the_nearest_file_is_alike_without_its_suffix(name: str, hint: str) -> None:
    assert nearest_file(name, ["e.yaml", "slow-phones.yaml"]) == hint


MEASURES = ("gap", "test_accuracy", "test_accuracy_lowest", "test_auc", "test_loss", "test_f1")


@every(
    ("asked", "meant"),
    [
        ("test_acc", ["test_accuracy"]),  # by letters alone, test_auc is nearer
        ("TEST_ACC", ["test_accuracy"]),
        ("test_a", ["test_accuracy", "test_auc"]),
        ("test_l", ["test_loss"]),
        ("tset_loss", ["test_loss"]),
        ("ga", ["gap"]),  # too short for a beginning, near by letters
        ("g", []),
    ],
)
def test_a_name_that_begins_like_the_given_one_goes_first(asked: str, meant: list[str]) -> None:
    assert closest(asked, MEASURES) == meant
