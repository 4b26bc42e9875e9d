"""Cells of text as values: the rules of `fedsim.problems.tables.cells` at their limits."""

import numpy as np
import pandas as pd
import pytest

from fedsim.problems.tables import cells

DAY = 86400.0


def column(*values: object) -> pd.Series:
    return pd.Series([*values], dtype=object)


def test_one_cell_in_twenty_may_be_no_number_and_no_more() -> None:
    for wrong, is_one in ((0, True), (1, True), (2, False)):
        found = cells.numbers(column(*["1"] * (20 - wrong), *["x"] * wrong), None)
        assert cells.is_number_column(found) == is_one
    assert not cells.is_number_column(cells.numbers(column(None, None), None))


def test_a_comma_behind_a_leading_zero_divides_no_thousands() -> None:
    for texts, values in (
        (("0,125", "0,250"), (0.125, 0.25)),
        (("1,125", "2,250"), (1125.0, 2250.0)),
        (("1,125", "0,250"), (1.125, 0.25)),
    ):
        assert cells.numbers(column(*texts), None, thousands=True).numbers.tolist() == [*values]


def test_a_text_with_a_point_that_is_no_number_says_nothing_of_commas() -> None:
    assert cells.numbers(column("1,5", "k.A."), None).numbers[0] == 1.5
    assert np.isnan(cells.numbers(column("1,5", "2.5"), None).numbers[0])


def test_the_decimal_sign_is_a_comma_only_where_a_cell_has_one() -> None:
    assert not cells.numbers(column("1", "2"), ",").comma
    assert cells.numbers(column("1", "2,5"), ",").comma


@pytest.mark.parametrize(
    ("texts", "form", "ambiguous"),
    [
        (["03/04/2021", "05/06/2021"], "%d/%m/%Y", True),
        (["03/04/2021", "25/06/2021"], "%d/%m/%Y", False),
        (["12/25/2021"], "%m/%d/%Y", False),
    ],
)
def test_dates_are_ambiguous_where_each_could_begin_with_its_month(
    texts: list[str], form: str, *, ambiguous: bool
) -> None:
    found = cells.dates(column(*texts))
    assert found is not None
    assert found[1] == form
    assert cells.is_ambiguous(column(*texts), form) == ambiguous


def test_every_cell_has_to_have_the_form_of_the_first_thousand() -> None:
    texts = ["03.04.2021"] * 1000
    assert cells.dates(column(*texts)) is not None
    assert cells.dates(column(*texts, "soon")) is None


def test_times_with_an_offset_are_those_of_utc() -> None:
    zone = pd.to_datetime(pd.Series(["2021-01-01T23:00:00"])).dt.tz_localize("America/New_York")
    found = cells.dates(zone)
    assert found is not None
    begin = pd.Timestamp("2021-01-02T04:00:00").timestamp()
    assert found[0].tolist() == [begin / DAY]


def test_a_word_is_counted_as_it_is_written_and_kept_where_that_is_asked_for() -> None:
    texts = column("NA", "n/a", "NA", " NA ", "x", "", None, 3)
    assert cells.words_for_missing(texts) == {"NA": 3, "n/a": 1}
    assert cells.clean(texts, frozenset()).isna().sum() == 6
    kept = cells.clean(texts, frozenset(), frozenset({"NA"}))
    assert kept.tolist() == ["NA", None, "NA", "NA", "x", None, None, 3]


def test_a_mark_that_is_a_number_stands_for_it_however_it_is_written() -> None:
    marks = frozenset({"-999", "k.A."})
    cleaned = cells.clean(column("-999.0", "-9.99e2", "k.A.", "1", True, 7), marks)
    assert cleaned.tolist() == [None, None, None, "1", True, 7]
    assert cells.clean(pd.Series([-999.0, 1.0]), marks).isna().tolist() == [True, False]


@pytest.mark.parametrize("kind", [bool, np.bool_])
def test_a_truth_value_is_no_number_though_python_takes_true_for_one(kind: type) -> None:
    one, truth = frozenset({"1"}), kind(True)
    for values in ([truth, 1, "1"], [1, truth, "1"]):
        read = cells.numbers(cells.clean(column(*values), frozenset()), None)
        assert read.wrong.tolist() == [each is truth for each in values]
        marked = cells.clean(column(*values), one).tolist()
        assert marked == [each if each is truth else None for each in values]
        assert cells.has(column(*values), one)
    for truths in (column(truth, kind(False)), pd.Series([True, False])):
        assert cells.clean(truths, one).tolist() == [True, False]
        assert not cells.has(truths, one)
    flags = cells.clean(pd.Series([True, False]), one)  # a column of flags is one of 1 and 0
    assert cells.numbers(flags, None).numbers.tolist() == [1.0, 0.0]


def test_a_column_has_a_mark_where_some_cell_is_one() -> None:
    marks = frozenset({"-999", "k.A."})
    for values in (pd.Series([1, -999]), column("1", "-999.0"), column("x", " k.A. ")):
        assert cells.has(values, marks)
    for values in (pd.Series([1, 2]), column("1", "-99"), column(None, "kA")):
        assert not cells.has(values, marks)
