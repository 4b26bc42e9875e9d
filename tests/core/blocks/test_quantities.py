"""Quantities: what is read, and what is written again."""

import math
from typing import Annotated, Any

from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter

from fedsim.core.blocks import quantities
from fedsim.core.blocks.quantities import (
    Bits,
    Bytes,
    Decibels,
    Duration,
    Efficiency,
    Fraction,
    GramsPerKilowattHour,
    Hertz,
    Hours,
    Joules,
    JoulesPerBit,
    JoulesPerBitArea,
    Leak,
    Level,
    Metres,
    MetresPerSecond,
    NoiseDensity,
    PathLoss,
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
from tests.core.blocks.kinds import TYPES, everyone, quantity, read
from tests.tiers import every, examples


def test_every_quantity_of_the_module_is_tested() -> None:
    annotated = {
        name
        for name, value in vars(quantities).items()
        if getattr(value, "__metadata__", None) and value is not Annotated
    }
    assert annotated == set(TYPES)


@every(
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
        (Rate, "5 MBps", 4e7),
        (Rate, "5 Mb/s", 5e6),
        (Rate, "5 KB/s", 4e4),
        (Rate, "5 MBytes/sec", 4e7),
        (Seconds, "3 Seconds", 3.0),
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
        (Share, "0.1 %", 0.001),
        (Leak, "2 %/month", 0.02),
        (Leak, "1 %/day", 0.3),
        (Leak, "0 %/month", 0.0),
        (Hours, "18 h", 64800.0),
        (Period, "2 weeks", 1209600.0),
        (TimeOfDay, "24 h", 86400.0),
        (TimeOfDay, "390 min", 23400.0),
        (WattHours, "15 Wh", 54000.0),
        (Stored, "1.1 Wh", 3960.0),
        (Stored, "mains", math.inf),
        (Power, "200 mW", 0.2),
        (JoulesPerBitArea, "100 pJ/bit/m^2", 1e-10),
        (JoulesPerBitArea, "1 pJ/(bit*m^2)", 1e-12),
        (Bytes, "40 B", 40.0),
        (Bytes, "1.5 kB", 1500.0),
        (Bytes, "16 bit", 2.0),
        (Bytes, "0 B", 0.0),
        (GramsPerKilowattHour, "400 g/kWh", 400.0),
        (GramsPerKilowattHour, "0 g / kWh", 0.0),
        (GramsPerKilowattHour, "0.38 kg/kWh", 380.0),
        (Hertz, "2 GHz", 2e9),
        (Hertz, "125 kHz", 1.25e5),
        (Metres, "0.3 km", 300.0),
        (MetresPerSecond, "1.5 m/s", 1.5),
        (Decibels, "8 dB", 8.0),
        (PathLoss, "164 dB", 164.0),
        (Level, "-105 dBm", -105.0),
        (NoiseDensity, "-174 dBm/Hz", -174.0),
        (NoiseDensity, "3 dBm / Hz", 3.0),
        (Efficiency, "4.4 bit/s/Hz", 4.4),
        (Efficiency, "unlimited", math.inf),
    ],
)
def test_text_becomes_the_nearest_float_in_si_units(kind: Any, text: str, value: float) -> None:
    assert read(kind, text) == value


@everyone
def test_an_example_would_be_accepted(kind: Any) -> None:
    assert (read(kind, quantity(kind).example) > 0) is not quantity(kind).signed


@everyone
@examples(40)
@given(data=st.data())
def test_what_is_written_reads_back_exactly(kind: Any, data: st.DataObject) -> None:
    bounds = quantity(kind)
    most = min(bounds.most, 1e24)
    values = st.floats(1e-24, most)
    if bounds.signed:
        values = st.just(0.0) | values | st.floats(bounds.least, -1e-24)
    if bounds.whole:
        values = st.integers(0, 2**53).map(float)
    value = data.draw(values, label="SI")
    adapter = TypeAdapter(kind)
    text = adapter.dump_python(value, mode="json")
    assert isinstance(text, str)
    assert adapter.validate_python(text) == value


@every(
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
        (Stored, 54000.0, "15 Wh"),
        (Stored, 54001.0, "54001 J"),
        (Stored, math.inf, "mains"),
        (TimeOfDay, 79200.0, "22 h"),
        (TimeOfDay, 22800.0, "380 min"),
        (TimeOfDay, 0.0, "0 s"),
        (Leak, 0.02, "2 %/month"),
        (Leak, 0.0, "0 %/month"),
        (Bytes, 1500.0, "1500 B"),
        (NoiseDensity, -174.0, "-174 dBm/Hz"),
        (JoulesPerBitArea, 1e-10, "100 pJ/bit/m^2"),
    ],
)
def test_what_is_written_is_fit_for_people(kind: Any, value: float, text: str) -> None:
    assert TypeAdapter(kind).dump_python(value, mode="json") == text
    assert TypeAdapter(kind).dump_python(value) == value  # a float within the program
