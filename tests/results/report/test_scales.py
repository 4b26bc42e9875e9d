"""Axes of the report: what is written at them can be read, and is where it says."""

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from fedsim.results.report.svg import Scale, linear, logarithmic, path
from tests.results.report.drawings import points

MINUS, RAISED = "\N{MINUS SIGN}", str.maketrans("⁻⁰¹²³⁴⁵⁶⁷⁸⁹", "-0123456789")

ends = st.floats(-1e12, 1e12, allow_nan=False)
positive = st.floats(1e-200, 1e200)


def read(text: str) -> float:
    """Return the figure that a reader takes a tick's label for."""
    digits, _, power = (
        text.replace(MINUS, "-").replace(",", "").partition("10")
        if ("⁻" in text or any(each in text for each in "⁰¹²³⁴⁵⁶⁷⁸⁹"))
        else (text.replace(MINUS, "-").replace(",", ""), "", "")
    )
    factor = float(digits.rstrip("·") or 1)
    return factor * 10.0 ** int(power.translate(RAISED) or 0)


def check(scale: Scale) -> None:
    """Assert that the ticks are in order, on the axis, different, and where they say."""
    values = [value for value, _ in scale.ticks]
    assert values == sorted(values)
    assert len({text for _, text in scale.ticks}) == len(values) >= 2
    shares = [share for share, _ in scale.marks]
    assert all(-1e-6 <= share <= 1 + 1e-6 for share in shares)
    for value, text in scale.ticks:
        place = scale.share(read(text) * scale.factor)
        assert place == pytest.approx(scale.share(value), abs=5e-3), (value, text)


@given(ends, ends, st.sampled_from(["", "bit", "s"]))
def test_ticks_of_a_linear_axis_are_where_they_say(one: float, other: float, unit: str) -> None:
    low, high = sorted((one, other))
    assume(high - low > 1e-6 * max(abs(low), abs(high)))
    assume(high - low > 1e-9)
    check(linear(low, high, unit))


@given(positive, positive)
def test_ticks_of_a_logarithmic_axis_are_where_they_say(one: float, other: float) -> None:
    low, high = sorted((one, other))
    assume(high / low > 1.001)
    check(logarithmic(low, high))


@pytest.mark.parametrize("value", [0.0, 3.0, -2.5])
def test_an_axis_of_one_figure_has_it_inside(value: float) -> None:
    scale = linear(value, value)
    assert scale.low < scale.high
    assert 0 <= scale.share(value) <= 1
    check(scale)


def test_a_logarithmic_axis_of_less_than_two_decades_has_figures_and_not_exponents() -> None:
    assert [text for _, text in logarithmic(0.02, 0.4).ticks] == ["0.02", "0.05", "0.10", "0.20"]


@given(st.lists(st.tuples(st.floats(0, 1), st.floats(0, 1)), min_size=1, max_size=30))
def test_a_line_goes_through_its_points(places: list[tuple[float, float]]) -> None:
    x, y = np.array(places).T
    found = np.column_stack(points(path(x, y))) / 10_000
    whole = np.rint(np.array(places) * 10_000) / 10_000
    steps = np.concatenate([[True], (np.diff(whole, axis=0) != 0).any(axis=1)])
    assert np.allclose(found, whole[steps], rtol=0, atol=1e-9)


def test_a_line_breaks_at_what_is_missing() -> None:
    x, y = [0, 0.1, 0.2, 0.3, 0.4], [0.5, 0.5, np.nan, 0.25, 0.75]
    assert path(x, y) == "M0 5000l1000 0M3000 2500l1000 5000"
    assert path([np.nan], [1.0]) == ""
