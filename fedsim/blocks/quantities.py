"""The quantities of a scenario: floats in SI units, written with a unit."""

from typing import Annotated

from fedsim.blocks.given import Given
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

Rate = Given[
    Annotated[
        float, Quantity("a rate", "bit/s", "5 Mbit/s", _RATES, positive=True, word=UNLIMITED)
    ],
    str,
]
"""Bits per second, above 0; "unlimited" is infinity."""

Seconds = Given[Annotated[float, Quantity("a duration", "s", "30 s", _TIMES)], str]
"""Seconds, 0 or more."""

_DURATION = Quantity("a duration", "s", "30 s", _TIMES, positive=True)
Duration = Given[Annotated[float, _DURATION], str]
"""Seconds, above 0."""

DurationOrNone = Given[Annotated[float, _DURATION] | None, str | None]
"""The same, or nothing."""

_HOURS = ("h", "min", *_TIMES)
Hours = Given[Annotated[float, Quantity("a duration", "s", "24 h", _HOURS)], str]
"""Seconds, 0 or more, of what takes hours."""

Period = Given[Annotated[float, Quantity("a duration", "s", "24 h", _HOURS, positive=True)], str]
"""Seconds, above 0, of what takes hours."""

TimeOfDay = Given[
    Annotated[float, Quantity("a time of day", "s", "22 h", _HOURS, most=86400.0)], str
]
"""Seconds after midnight, a day at most."""

_JOULES = Quantity("an energy", "J", "5 kJ", ("MJ", "kJ", "J", "mJ"), positive=True)
Joules = Given[Annotated[float, _JOULES], str]
"""Joules, above 0."""

JoulesOrNone = Given[Annotated[float, _JOULES] | None, str | None]
"""The same, or nothing."""

_STORED = ("kWh", "Wh", "J", "mJ")
_WATT_HOURS = Quantity("an energy", "J", "15 Wh", _STORED, positive=True)
WattHours = Given[Annotated[float, _WATT_HOURS], str]
"""Joules, above 0, of what holds watt-hours."""

WattHoursOrNone = Given[Annotated[float, _WATT_HOURS] | None, str | None]
"""The same, or nothing."""

Stored = Given[
    Annotated[float, Quantity("an energy", "J", "15 Wh", _STORED, positive=True, word=MAINS)], str
]
"""Joules that a battery holds, above 0; "mains" is infinity."""

_WATTS = Quantity("a power", "W", "4.5 W", ("W", "mW"))
Watts = Given[Annotated[float, _WATTS], str]
"""Watts, 0 or more."""

WattsOrNone = Given[Annotated[float, _WATTS] | None, str | None]
"""The same, or nothing."""

Power = Given[Annotated[float, Quantity("a power", "W", "200 mW", ("W", "mW"), positive=True)], str]
"""Watts, above 0."""

JoulesPerBit = Given[
    Annotated[float, Quantity("an energy per bit", "J/bit", "50 nJ/bit", _PER_BIT)], str
]
"""Joules per bit, 0 or more. A power per rate is one: 1 mW/(Mbit/s) is 1 nJ/bit."""

JoulesPerBitArea = Given[
    Annotated[
        float, Quantity("an energy per bit and area", "J/bit/m^2", "100 pJ/bit/m^2", _PER_AREA)
    ],
    str,
]
"""Joules per bit and square metre, 0 or more."""

_SPEED = Quantity(
    "a computing speed", "flop/s", "12 Gflop/s", _SPEEDS, positive=True, word=UNLIMITED
)
Speed = Given[Annotated[float, _SPEED], str]
"""Floating-point operations per second, above 0; "unlimited" is infinity."""

SpeedOrNone = Given[Annotated[float, _SPEED] | None, str | None]
"""The same, or nothing."""

_BITS = Quantity("an amount of data", "bit", "10 MB", _DATA, positive=True)
Bits = Given[Annotated[float, _BITS], str]
"""Bits, above 0; 1 MB is 8e6 of them."""

BitsOrNone = Given[Annotated[float, _BITS] | None, str | None]
"""The same, or nothing."""

Bytes = Given[Annotated[float, Quantity("an amount of data", "B", "40 B", ("B",), whole=True)], str]
"""Bytes, a whole number of them, 0 or more."""

_FRACTION = Quantity("a share", "whole", "40 %", ("%",), most=1.0)
Fraction = Given[Annotated[float, _FRACTION], str]
"""A share from 0 to 1, written in per cent."""

FractionOrNone = Given[Annotated[float, _FRACTION] | None, str | None]
"""The same, or nothing."""

_SHARE = Quantity("a share", "whole", "40 %", ("%",), most=1.0, positive=True)
Share = Given[Annotated[float, _SHARE], str]
"""A share above 0 and up to 1, written in per cent."""

ShareOrNone = Given[Annotated[float, _SHARE] | None, str | None]
"""The same, or nothing."""

GramsPerKilowattHour = Given[
    Annotated[float, Quantity("a carbon intensity", "g/kWh", "400 g/kWh", ("g/kWh",), most=1e6)],
    str,
]
"""Grams of CO2 equivalents per kilowatt-hour, 0 or more."""

Leak = Given[
    Annotated[float, Quantity("a share per time", "whole/month", "2 %/month", ("%/month",))], str
]
"""A share per month of 30 days, 0 or more."""

_FREQUENCY = Quantity("a frequency", "Hz", "2 GHz", _HERTZ, positive=True)
Hertz = Given[Annotated[float, _FREQUENCY], str]
"""Hertz, above 0."""

HertzOrNone = Given[Annotated[float, _FREQUENCY] | None, str | None]
"""The same, or nothing."""

Metres = Given[
    Annotated[float, Quantity("a length", "m", "100 m", ("km", "m"), positive=True)], str
]
"""Metres, above 0."""

Decibels = Given[Annotated[float, Quantity("a level", "dB", "8 dB", ("dB",), most=100.0)], str]
"""Decibels, 0 to 100."""

NoiseDensity = Given[
    Annotated[
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
    ],
    str,
]
"""Decibels over a milliwatt per hertz, -300 to 300."""

Efficiency = Given[
    Annotated[
        float,
        Quantity(
            "a spectral efficiency",
            "bit/s/Hz",
            "4.4 bit/s/Hz",
            ("bit/s/Hz",),
            positive=True,
            word=UNLIMITED,
        ),
    ],
    str,
]
"""Bits per second and hertz, above 0; "unlimited" is infinity."""
