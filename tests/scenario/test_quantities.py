"""Quantities: what is read, what is refused and how, and what is written again."""

import math
from typing import Annotated, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import TypeAdapter

from fedsim.scenario import quantities
from fedsim.scenario.quantities import (
    Bits,
    Duration,
    Fraction,
    Joules,
    JoulesPerBit,
    Rate,
    Seconds,
    Speed,
    Watts,
)
from tests.scenario.kinds import TYPES, everyone, quantity, read, refusal


def test_every_quantity_of_the_module_is_tested() -> None:
    annotated = {
        name
        for name, value in vars(quantities).items()
        if getattr(value, "__metadata__", None) and value is not Annotated
    }
    assert annotated == set(TYPES)


@pytest.mark.parametrize(
    ("kind", "text", "value"),
    [
        (Rate, "5 Mbit/s", 5e6),
        (Rate, "5Mbit/s", 5e6),
        (Rate, "  5   Mbit / s ", 5e6),
        (Rate, "1e3 kbit/s", 1e6),
        (Rate, "1E+3 kbit/s", 1e6),
        (Rate, ".5 Gbit/s", 5e8),
        (Rate, "2. MB/s", 1.6e7),
        (Rate, "3 MiB/min", 3 * 2**20 * 8 / 60),
        (Rate, "54 Mbps", 5.4e7),
        (Rate, "10 Mbit per s", 1e7),
        (Rate, "unlimited", math.inf),
        (Rate, " unlimited ", math.inf),
        (Seconds, "0 s", 0.0),
        (Seconds, "30 s", 30.0),
        (Seconds, "12.1 ms", 0.0121),
        (Seconds, "7 µs", 7e-6),
        (Seconds, "7 μs", 7e-6),
        (Seconds, "7 us", 7e-6),
        (Seconds, "2 min", 120.0),
        (Seconds, "1.5 hours", 5400.0),
        (Duration, "1 week", 604800.0),
        (Joules, "5 kJ", 5000.0),
        (Joules, "10 Wh", 36000.0),
        (Joules, "2 mW*h", 7.2),
        (Watts, "350 mW", 0.35),
        (Watts, "0 W", 0.0),
        (Watts, "6 J/min", 0.1),
        (JoulesPerBit, "438.39 mW/(Mbit/s)", 438.39e-9),
        (JoulesPerBit, "50 nJ/bit", 5e-8),
        (JoulesPerBit, "4 uJ/byte", 5e-7),
        (JoulesPerBit, "0 J/bit", 0.0),
        (Speed, "12 Gflop/s", 1.2e10),
        (Speed, "12 GFLOP/s", 1.2e10),
        (Speed, "12 GFLOPS", 1.2e10),
        (Speed, "unlimited", math.inf),
        (Bits, "1 MB", 8e6),
        (Bits, "1 MiB", 8388608.0),
        (Bits, "7 bits", 7.0),
        (Fraction, "40 %", 0.4),
        (Fraction, "40%", 0.4),
        (Fraction, "0 percent", 0.0),
        (Fraction, "100 %", 1.0),
    ],
)
def test_text_becomes_the_nearest_float_in_si_units(kind: Any, text: str, value: float) -> None:
    assert read(kind, text) == value


@everyone
def test_an_example_would_be_accepted(kind: Any) -> None:
    assert read(kind, quantity(kind).example) > 0


@pytest.mark.parametrize(
    ("kind", "value", "words"),
    [
        (Rate, "5", ['seen "5"', "a number without a unit", '"5 Mbit/s"']),
        (Rate, "5 s", ['seen "5 s"', "a duration", "give a rate", '"5 Mbit/s"']),
        (Rate, "5 Hz", ["a frequency", "give a rate"]),
        (Rate, "5 bit", ["an amount of data", "give a rate"]),
        (Rate, "5 Gflop/s", ["a computing speed", "give a rate"]),
        (Rate, "5 parsecs", ["in an unknown unit", '"5 Mbit/s"']),
        (Rate, "5 Mb/s", ["in an unknown unit", '"5 Mbit/s"']),
        (Rate, "5 mbit/s", ["a part of a bit", "m is milli, M is mega"]),
        (Rate, "5 1/s", ["in an unknown unit"]),
        (Rate, "fast", ['seen "fast"', "as a number with its unit", '"unlimited"']),
        (Rate, "five Mbit/s", ["as a number with its unit"]),
        (Rate, "1_000 bit/s", ["seen"]),
        (Rate, "\N{ARABIC-INDIC DIGIT FIVE} bit/s", ["as a number with its unit"]),
        (Rate, "0 bit/s", ["above 0"]),
        (Rate, "-5 Mbit/s", ["above 0"]),
        (Rate, "1e999 bit/s", ["too large a number"]),
        (Rate, "1e-999 bit/s", ["above 0"]),
        (Rate, "inf bit/s", ["as a number with its unit", '"unlimited"']),
        (Rate, "nan bit/s", ["as a number with its unit"]),
        (Rate, math.inf, ["a bare number", '"unlimited"']),
        (Rate, "", ['seen ""']),
        (Rate, None, ["seen nothing"]),
        (Rate, True, ["seen true"]),
        (Rate, {"up": 5}, ["seen a block of keys"]),
        (Rate, ["5 Mbit/s"], ["seen a list"]),
        (Rate, b"5 bit/s", ["give a rate"]),
        (Seconds, "-1 ms", ["of 0 or more", '"30 s"']),
        (Seconds, "5 m", ["a length", "give a duration"]),
        (Seconds, "5 s s", ["of another dimension"]),
        (Seconds, "unlimited", ["as a number with its unit"]),
        (Duration, "0 s", ["above 0"]),
        (Joules, "5 kW", ["a power", "give an energy", '"5 kJ"']),
        (Watts, "5 Wh", ["an energy", "give a power"]),
        (JoulesPerBit, "5 mW", ["a power", "an energy per bit"]),
        (Speed, "5 Gflops", ["a number of operations", '"12 Gflop/s"']),
        (Bits, "5 Mbit/s", ["a rate", "an amount of data"]),
        (Bits, "5 g", ["a mass", "an amount of data"]),
        (Fraction, "140 %", ["of 100 % or less", '"40 %"']),
        (Fraction, "-1 %", ["of 0 or more"]),
        (Fraction, "40 %%", ["of another dimension"]),
        (Fraction, "40 s/s", ["of another dimension"]),
    ],
)
def test_a_refusal_says_what_was_seen_and_what_is_accepted(
    kind: Any, value: object, words: list[str]
) -> None:
    message = refusal(kind, value)
    assert [word for word in words if word not in message] == []
    assert f'such as "{quantity(kind).example}"' in message


@everyone
@settings(max_examples=40)
@given(number=st.integers() | st.floats())
def test_a_bare_number_is_refused_whatever_it_is(kind: Any, number: float) -> None:
    message = refusal(kind, number)
    assert "a bare number" in message
    assert "with its unit" in message


def test_the_refusal_of_a_bare_rate_in_full() -> None:
    assert refusal(Rate, 5) == (
        'seen 5, a bare number; give a rate with its unit, such as "5 Mbit/s"'
    )


@everyone
@settings(max_examples=40)
@given(data=st.data())
def test_what_is_written_reads_back_exactly(kind: Any, data: st.DataObject) -> None:
    most = 1.0 if kind is Fraction else None
    value = data.draw(
        st.floats(min_value=0, max_value=most, allow_infinity=False, exclude_min=True), label="SI"
    )
    adapter = TypeAdapter(kind)
    text = adapter.dump_python(value, mode="json")
    assert isinstance(text, str)
    assert adapter.validate_python(text) == value


@pytest.mark.parametrize(
    ("kind", "value", "text"),
    [
        (Rate, 5e6, "5 Mbit/s"),
        (Rate, math.inf, "unlimited"),
        (Seconds, 0.0, "0 s"),
        (Seconds, 0.0121, "12.1 ms"),
        (Seconds, 30.0, "30 s"),
        (JoulesPerBit, 438.39e-9, "438.39 nJ/bit"),
        (JoulesPerBit, 0.0, "0 J/bit"),
        (Speed, 1.2e10, "12 Gflop/s"),
        (Bits, 8e7, "80 Mbit"),
        (Fraction, 0.4, "40 %"),
        (Fraction, 0.0, "0 %"),
    ],
)
def test_what_is_written_is_fit_for_people(kind: Any, value: float, text: str) -> None:
    assert TypeAdapter(kind).dump_python(value, mode="json") == text
    assert TypeAdapter(kind).dump_python(value) == value  # a float within the program
