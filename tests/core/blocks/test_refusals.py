"""Quantities that are refused, and what is said of them."""

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedsim.core.blocks.quantities import (
    Bits,
    Bytes,
    Decibels,
    Duration,
    Efficiency,
    Fraction,
    Hertz,
    Joules,
    JoulesPerBit,
    JoulesPerBitArea,
    Leak,
    Level,
    Metres,
    NoiseDensity,
    Period,
    Power,
    Rate,
    Seconds,
    Share,
    Speed,
    Stored,
    TimeOfDay,
    WattHours,
    Watts,
)
from fedsim.core.blocks.spellings import similar
from fedsim.core.blocks.units import factor
from tests.core.blocks.kinds import TYPES, everyone, quantity, refusal
from tests.tiers import every, examples


@every(
    ("kind", "value", "words"),
    [
        (Rate, "5", ['got "5"', "a number without a unit", '"5 Mbit/s"']),
        (Rate, "5 s", ['got "5 s"', "a duration", "give a rate", '"5 Mbit/s"']),
        (Rate, "5 Hz", ["a frequency", "give a rate"]),
        (Rate, "5 bit", ["an amount of data", "give a rate"]),
        (Rate, "5 Gflop/s", ["a computing speed", "give a rate"]),
        (Rate, "5 parsecs", ["in an unknown unit", '"5 Mbit/s"']),
        (Rate, "5 mb/s", ["in an unknown unit", '"5 MB/s" or "5 Mbit/s"?']),
        (Rate, "5 MB", ["an amount of data", '"5 MB/s"?']),
        (Rate, "5 K", ["in an unknown unit", '"5 kbit/s"?']),
        (Bits, "5 MB/s", ["a rate", '"5 MB"?']),
        (Watts, "5 mw", ["in an unknown unit", '(did you mean "5 mW"?)']),
        (Watts, "5 kWh", ["an energy", '"5 kW"?']),
        (Stored, "15 W", ["a power", '"15 Wh"?']),
        (Stored, "3000 mAh", ["by the voltage of its battery", "3.7 V: 11.1 Wh"]),
        (Hertz, "2 ghz", ['"2 GHz"?']),
        (Level, "-90 dB", ["a level", '"-90 dBm"?']),
        (Fraction, 40, ['(did you mean "40 %"?)', "of 100 % or less"]),
        (Rate, "5 mbit/s", ["a part of a bit", "m is milli, M is mega"]),
        (Rate, "5 1/s", ["in an unknown unit"]),
        (Rate, "fast", ['got "fast"', "as a number with its unit", '"unlimited"']),
        (Rate, "five Mbit/s", ["as a number with its unit"]),
        (Rate, "1_000 bit/s", ["got"]),
        (Rate, "\N{ARABIC-INDIC DIGIT FIVE} bit/s", ["as a number with its unit"]),
        (Rate, "0 bit/s", ["above 0"]),
        (Rate, "-5 Mbit/s", ["above 0"]),
        (Rate, "1e999 bit/s", ["too large a number"]),
        (Rate, "1e-999 bit/s", ["above 0"]),
        (Rate, "inf bit/s", ["as a number with its unit", '"unlimited"']),
        (Rate, "nan bit/s", ["as a number with its unit"]),
        (Rate, math.inf, ["a bare number", '"unlimited"']),
        (Rate, "", ['got ""']),
        (Rate, None, ["got nothing"]),
        (Rate, True, ["got true"]),
        (Rate, {"up": 5}, ["got a block of keys"]),
        (Rate, ["5 Mbit/s"], ["got a list"]),
        (Rate, b"5 bit/s", ["give a rate"]),
        (Seconds, "-1 ms", ["of 0 or more", '"30 s"']),
        (Seconds, "5 m", ["a length", '(did you mean "5 min" or "5 ms"?)', "give a duration"]),
        (Seconds, "5 H", ["in an unknown unit", '(did you mean "5 h"?)']),
        (Seconds, "5 s s", ["of another dimension"]),
        (Seconds, "unlimited", ["as a number with its unit"]),
        (Duration, "0 s", ["above 0"]),
        (Joules, "5 kW", ["a power", "give an energy", '"5 kJ"']),
        (Watts, "5 Wh", ["an energy", "give a power"]),
        (JoulesPerBit, "5 mW", ["a power", "an energy per bit"]),
        (JoulesPerBit, "5 pJ/bit/m^2", ["an energy per bit and area; give an energy per bit"]),
        (Share, "2 %/month", ["a share per time", "; give a share"]),
        (Seconds, "400 g/kWh", ["a carbon intensity; give a duration"]),
        (Seconds, "2 GHz", ["a frequency; give a duration"]),
        (Speed, "5 Gflops", ["a number of operations", '"12 Gflop/s"']),
        (Bits, "5 Mbit/s", ["a rate", "an amount of data"]),
        (Bits, "5 g", ["a mass", "an amount of data"]),
        (Fraction, "140 %", ["of 100 % or less", '"40 %"']),
        (Fraction, "-1 %", ["of 0 or more"]),
        (Fraction, "40 %%", ["of another dimension"]),
        (Fraction, "40 s/s", ["of another dimension"]),
        (Share, "0 %", ["above 0"]),
        (Leak, "2 %", ['a share (did you mean "2 %/month"?); give a share per time']),
        (TimeOfDay, "25 h", ["of 24 h or less"]),
        (Period, "0 h", ["above 0"]),
        (Watts, "-1 W", ["of 0 or more"]),
        (Power, "0 W", ["above 0"]),
        (Power, "-1 mW", ["above 0"]),
        (Stored, "unlimited", ["as a number with its unit", 'or "mains"']),
        (WattHours, "mains", ["as a number with its unit"]),
        (Bytes, "1.5 B", ["as a whole number of B", '"40 B"']),
        (Bytes, "4 bit", ["as a whole number of B"]),
        (Bytes, "-1 B", ["of 0 or more"]),
        (Hertz, "2 s", ["a duration", "give a frequency"]),
        (Metres, "0 m", ["above 0"]),
        (Joules, "0 J", ["above 0"]),
        (WattHours, "0 Wh", ["above 0"]),
        (Stored, "0 Wh", ["above 0"]),
        (Speed, "0 flop/s", ["above 0"]),
        (Bits, "0 bit", ["above 0"]),
        (Hertz, "0 Hz", ["above 0"]),
        (Efficiency, "0 bit/s/Hz", ["above 0"]),
        (Metres, "5 m^2", ["of another dimension"]),
        (Metres, "5 km^2", ["in an unknown unit"]),
        (Decibels, "-8 dB", ["of 0 or more"]),
        (Decibels, "8 dBm/Hz", ["a noise density", "give a level"]),
        (NoiseDensity, "-174 dBm/kHz", ["in an unknown unit", '"-174 dBm/Hz"']),
        (NoiseDensity, "-174 dB", ["a level", "give a noise density"]),
        (NoiseDensity, "-1e999 dBm/Hz", ["a noise density of -300 dBm/Hz or more"]),
        (NoiseDensity, "301 dBm/Hz", ["a noise density of 300 dBm/Hz or less"]),
        (Decibels, "101 dB", ["a level of 100 dB or less"]),
        (Watts, "1e28 mW", ["too large a number", "of 1e+24 W or less"]),
        (Metres, "1e-28 km", ["too small a number", "of 1e-24 m or more"]),
        (JoulesPerBitArea, "50 nJ/bit", ["an energy per bit", "give an energy per bit and area"]),
        (JoulesPerBit, "100 pJ/bit/m^2", ["an energy per bit and area"]),
        (Efficiency, "4.4 bit/s", ["a rate", "give a spectral efficiency"]),
    ],
)
def test_a_refusal_says_what_was_seen_and_what_is_accepted(
    kind: Any, value: object, words: list[str]
) -> None:
    message = refusal(kind, value)
    assert [word for word in words if word not in message] == []
    assert f'such as "{quantity(kind).example}"' in message


@pytest.mark.parametrize("kind", [kind for kind in TYPES.values() if not quantity(kind).bare])
@examples(40)
@given(number=st.integers() | st.floats())
def test_a_bare_number_is_refused_whatever_it_is(kind: Any, number: float) -> None:
    message = refusal(kind, number)
    assert "a bare number" in message
    assert "with its unit" in message


@everyone
@examples(40)
@given(unit=st.text("mMkKGgWwhHbBiItTsSjJzd/%", min_size=1, max_size=5))
def test_a_suggested_unit_is_accepted(kind: Any, unit: str) -> None:
    asked = quantity(kind)
    for suggested in similar(unit, asked.base, asked.scales):
        assert suggested == asked.base or factor(suggested, asked.base) is not None


def test_the_refusal_of_a_bare_rate_in_full() -> None:
    assert refusal(Rate, 5) == (
        'got 5, a bare number; give a rate with its unit, such as "5 Mbit/s"'
    )
