"""The quantities of a scenario: floats in SI units, written with a unit."""

from typing import Annotated

from fedsim.blocks.quantity import Quantity

UNLIMITED = "unlimited"
"""The word for an infinite rate or speed, and for tries without end."""

MAINS = "mains"
"""The word for a battery that never ends: there is none."""

_RATES = ("Gbit/s", "Mbit/s", "kbit/s", "bit/s")
_SPEEDS = ("Gflop/s", "Mflop/s", "kflop/s", "flop/s")
_DATA = ("Gbit", "Mbit", "kbit", "bit")
_PER_BIT = ("J/bit", "mJ/bit", "uJ/bit", "nJ/bit")
_PER_AREA = ("J/bit/m^2", "mJ/bit/m^2", "uJ/bit/m^2", "nJ/bit/m^2", "pJ/bit/m^2")
_HERTZ = ("GHz", "MHz", "kHz", "Hz")
_TIMES = ("s", "ms", "us")

Rate = Annotated[
    float, Quantity("a rate", "bit/s", "5 Mbit/s", _RATES, positive=True, word=UNLIMITED)
]
"""Bits per second, above 0; "unlimited" is infinity."""

Seconds = Annotated[float, Quantity("a duration", "s", "30 s", _TIMES)]
"""Seconds, 0 or more."""

Duration = Annotated[float, Quantity("a duration", "s", "30 s", _TIMES, positive=True)]
"""Seconds, above 0."""

_HOURS = ("h", "min", *_TIMES)
Hours = Annotated[float, Quantity("a duration", "s", "24 h", _HOURS)]
"""Seconds, 0 or more, of what takes hours."""

Period = Annotated[float, Quantity("a duration", "s", "24 h", _HOURS, positive=True)]
"""Seconds, above 0, of what takes hours."""

TimeOfDay = Annotated[float, Quantity("a time of day", "s", "22 h", _HOURS, most=86400.0)]
"""Seconds after midnight, a day at most."""

Joules = Annotated[
    float, Quantity("an energy", "J", "5 kJ", ("MJ", "kJ", "J", "mJ"), positive=True)
]
"""Joules, above 0."""

_STORED = ("kWh", "Wh", "J", "mJ")
WattHours = Annotated[float, Quantity("an energy", "J", "15 Wh", _STORED, positive=True)]
"""Joules, above 0, of what holds watt-hours."""

Stored = Annotated[float, Quantity("an energy", "J", "15 Wh", _STORED, positive=True, word=MAINS)]
"""Joules that a battery holds, above 0; "mains" is infinity."""

Watts = Annotated[float, Quantity("a power", "W", "4.5 W", ("W", "mW"))]
"""Watts, 0 or more."""

Power = Annotated[float, Quantity("a power", "W", "200 mW", ("W", "mW"), positive=True)]
"""Watts, above 0."""

JoulesPerBit = Annotated[float, Quantity("an energy per bit", "J/bit", "50 nJ/bit", _PER_BIT)]
"""Joules per bit, 0 or more. A power per rate is one: 1 mW/(Mbit/s) is 1 nJ/bit."""

JoulesPerBitArea = Annotated[
    float, Quantity("an energy per bit and area", "J/bit/m^2", "100 pJ/bit/m^2", _PER_AREA)
]
"""Joules per bit and square metre, 0 or more."""

Speed = Annotated[
    float,
    Quantity("a computing speed", "flop/s", "12 Gflop/s", _SPEEDS, positive=True, word=UNLIMITED),
]
"""Floating-point operations per second, above 0; "unlimited" is infinity."""

Bits = Annotated[float, Quantity("an amount of data", "bit", "10 MB", _DATA, positive=True)]
"""Bits, above 0; 1 MB is 8e6 of them."""

Bytes = Annotated[float, Quantity("an amount of data", "B", "40 B", ("B",), whole=True)]
"""Bytes, a whole number of them, 0 or more."""

Fraction = Annotated[float, Quantity("a share", "whole", "40 %", ("%",), most=1.0)]
"""A share from 0 to 1, written in per cent."""

Share = Annotated[float, Quantity("a share", "whole", "40 %", ("%",), most=1.0, positive=True)]
"""A share above 0 and up to 1, written in per cent."""

Leak = Annotated[float, Quantity("a share per time", "whole/month", "2 %/month", ("%/month",))]
"""A share per month of 30 days, 0 or more."""

Hertz = Annotated[float, Quantity("a frequency", "Hz", "2 GHz", _HERTZ, positive=True)]
"""Hertz, above 0."""

Metres = Annotated[float, Quantity("a length", "m", "100 m", ("km", "m"), positive=True)]
"""Metres, above 0."""

Decibels = Annotated[float, Quantity("a level", "dB", "8 dB", ("dB",), most=100.0)]
"""Decibels, 0 to 100."""

NoiseDensity = Annotated[
    float,
    Quantity(
        "a noise density",
        "dBm/Hz",
        "-174 dBm/Hz",
        ("dBm/Hz",),
        signed=True,
        most=300.0,
        least=-300.0,
    ),
]
"""Decibels over a milliwatt per hertz, -300 to 300."""

Efficiency = Annotated[
    float,
    Quantity(
        "a spectral efficiency",
        "bit/s/Hz",
        "4.4 bit/s/Hz",
        ("bit/s/Hz",),
        positive=True,
        word=UNLIMITED,
    ),
]
"""Bits per second and hertz, above 0; "unlimited" is infinity."""
