"""Units: conversion against exact arithmetic, hostile text, and no work before it is due."""

import decimal
import subprocess
import sys
from fractions import Fraction as Exact
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter, ValidationError

from fedsim.core.blocks.quantities import (
    Bits,
    Joules,
    JoulesPerBit,
    Rate,
    Seconds,
    Speed,
    Watts,
)
from fedsim.core.blocks.units import factor, noun
from tests.core.blocks.kinds import everyone, quantity, read, refusal
from tests.tiers import every, examples

UNITS: list[tuple[Any, str, Exact]] = [
    (Rate, "bit/s", Exact(1)),
    (Rate, "kbit/s", Exact(10**3)),
    (Rate, "Gbit/h", Exact(10**9, 3600)),
    (Rate, "KiB/s", Exact(8 * 2**10)),
    (Seconds, "us", Exact(1, 10**6)),
    (Seconds, "days", Exact(86400)),
    (Joules, "mJ", Exact(1, 10**3)),
    (Joules, "kWh", Exact(3600 * 10**3)),
    (Watts, "uW", Exact(1, 10**6)),
    (JoulesPerBit, "pJ/bit", Exact(1, 10**12)),
    (JoulesPerBit, "mW/(Mbit/s)", Exact(1, 10**9)),
    (JoulesPerBit, "nJ/byte", Exact(1, 8 * 10**9)),
    (Speed, "Tflop/s", Exact(10**12)),
    (Bits, "GiB", Exact(8 * 2**30)),
]


@pytest.mark.parametrize(("kind", "unit", "size"), UNITS, ids=[unit for _, unit, _ in UNITS])
@examples(40)
@given(number=st.decimals(min_value="1e-9", max_value="1e9", allow_nan=False))
def test_conversion_is_exact_arithmetic_rounded_once(
    kind: Any, unit: str, size: Exact, number: decimal.Decimal
) -> None:
    text = f"{number:.15g}"
    assert read(kind, f"{text} {unit}") == float(Exact(text) * size)


HOSTILE = [
    "2**99999999999 s",
    "9**9**9**9 s",
    "s**9999999999",
    "__import__('os').system('true') s",
    "(lambda: s)()",
    "s" * 10_000,
    "(" * 39,
    "((s)",
    "()",
    "/",
    "s/0",
    "s**s",
    "s//s",
    "s if s else s",
    "None",
    "[s]",
    "s\n/s",
    "s\x00",
    "%",
    "% % %",
    "1e5",
    "\N{GREEK SMALL LETTER MU}",
]


@everyone
@pytest.mark.parametrize("unit", HOSTILE)
def test_a_hostile_unit_is_refused_like_any_other(kind: Any, unit: str) -> None:
    if quantity(kind).scales != ("%",) or unit != "%":
        assert "give" in refusal(kind, f"5 {unit}")


@everyone
@examples(40)
@given(text=st.text(max_size=60) | st.from_regex(r"[0-9.e+-]{1,6} ?[A-Za-z/*()%]{0,12}"))
def test_any_text_is_read_or_refused(kind: Any, text: str) -> None:
    try:
        value = read(kind, text)
    except ValidationError:
        value = 0.0
    assert value >= 0 or quantity(kind).signed


def test_the_callers_decimal_context_makes_no_difference() -> None:
    with decimal.localcontext() as context:
        context.prec = 2
        assert read(Rate, "12.345 MiB/s") == 12.345 * 8 * 2**20
        assert TypeAdapter[object](Rate).dump_python(12345678.0, mode="json") == "12.345678 Mbit/s"


@every(
    "unit",
    [
        "s",
        "W",
        "J",
        "bit",
        "bit/s",
        "flop/s",
        "J/bit",
        "%",
        "MB",
        "dB",
        "dBm/Hz",
        "%/month",
        "Hz",
        "m",
        "J/bit/m^2",
    ],
)
def test_a_unit_is_one_of_itself_and_is_named(unit: str) -> None:
    assert factor(unit, unit) == 1
    assert noun(unit).startswith(("a ", "an "))


@pytest.mark.slow
def test_units_are_not_loaded_before_one_is_read() -> None:
    program = "import sys, fedsim.scenario; sys.exit('pint' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0
