"""One rule of rounding for all printed numbers: as the decimal reads, halves away from zero."""

import json
import shutil
import subprocess
from importlib import resources

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedsim.core.text import format_number, quantity
from fedsim.results.analysis.latex import result_text
from fedsim.results.report.components import digits, number
from tests.tiers import every

DECIMALS = st.tuples(st.integers(-(10**7), 10**7), st.integers(0, 9))
"""Whole numbers, and how many of their digits stand behind the point."""


def rounded(whole: int, behind: int, decimals: int) -> str:
    """Return a decimal with fewer digits behind its point, by whole numbers alone."""
    if behind > decimals:
        step = 10 ** (behind - decimals)
        size, rest = divmod(abs(whole), step)
        size += 2 * rest >= step
    else:
        size = abs(whole) * 10 ** (decimals - behind)
    text = str(size).rjust(decimals + 1, "0")
    point = f"{text[:-decimals]}.{text[-decimals:]}" if decimals else text
    return f"-{point}" if whole < 0 else point


def written(whole: int, behind: int) -> float:
    """Return the number that a decimal is read as."""
    return float(f"{whole}e-{behind}")


@given(DECIMALS, st.integers(0, 6))
def test_a_decimal_is_rounded_as_it_reads(decimal: tuple[int, int], decimals: int) -> None:
    value = written(*decimal)
    assert format_number(value, f".{decimals}f") == rounded(*decimal, decimals)


@given(DECIMALS, st.integers(1, 6))
def test_significant_digits_are_those_of_the_rounded_decimal(
    decimal: tuple[int, int], most: int
) -> None:
    whole, behind = decimal
    value = written(whole, behind)
    if not whole:
        return
    first = len(str(abs(whole))) - 1  # the power of ten of the first digit, of the whole number
    kept = most - 1 - first  # decimals of the whole number that are kept; below 0 where digits go
    step = 10 ** max(-kept, 0)
    size, rest = divmod(abs(whole), step)
    size = (size + (2 * rest >= step > 1)) * step
    exact = float(f"{size if whole > 0 else -size}e-{behind}")
    assert float(format_number(value, f".{most}g")) == exact
    assert float(format_number(value, f".{most - 1}e")) == exact


@given(st.integers(0, 10**6), st.integers(1, 4))
def test_tables_of_the_terminal_of_pages_and_of_papers_print_a_number_alike(
    whole: int, behind: int
) -> None:
    value = written(whole, behind)
    assert number(value).text == quantity(value)
    assert float(digits(value, 3).text.replace(",", "")) == float(format_number(value, ".3g"))
    assert result_text(value, 1, least=1.0) == rounded(whole, behind, 1)
    if not value.is_integer():
        assert quantity(value).replace(",", "") == rounded(whole, behind, 1)


@every(
    ("value", "shown"),
    [(17.25, "17.3"), (34.75, "34.8"), (-17.25, "\N{MINUS SIGN}17.3"), (2.65, "2.7"), (2.0, "2")],
)
def test_halves_go_away_from_zero(value: float, shown: str) -> None:
    assert quantity(value) == shown


def test_numbers_beyond_all_digits_are_left_as_they_are() -> None:
    assert format_number(1e300, ".3g") == "1e+300"
    assert format_number(float("inf"), ".1f") == "inf"
    assert format_number(float("nan"), ".3g") == "nan"
    assert format_number(0.0, ".2f") == "0.00"
    assert format_number(1e-9, ".1f") == "0.0"


def test_the_explorer_rounds_alike() -> None:
    node = shutil.which("node")
    if node is None:
        pytest.skip("there is no node here; the slow tests run the page in a browser")
    values = [17.25, 34.75, 2.675, 1.005, 0.00012345, 123450, 9.995, 99950, -17.25, 0.15, 3, 8.5e-9]
    script = (resources.files("fedsim.addons.explorer") / "templates" / "values.js").read_text(
        "utf-8"
    )
    script += f"\nconsole.log(JSON.stringify({json.dumps(values)}.map((each) => rounded(each, 3))))"
    made = subprocess.run([node, "-e", script], capture_output=True, text=True, check=True)
    assert json.loads(made.stdout) == [float(format_number(value, ".3g")) for value in values]
