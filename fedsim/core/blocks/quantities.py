"""The quantities of a scenario: floats in base units (mostly SI), written as text with a unit.

Conversion rounds only once. The number and the factor of its unit are decimals, their product is a
decimal of 40 digits, and only this product is rounded to a float. Therefore "0.1 ms" and "100 us"
are the same float, which products of floats would not guarantee, and a scenario written in other
units gives the same run.
"""

import re
from dataclasses import dataclass
from decimal import Decimal, localcontext
from math import isnan
from typing import Annotated, Any

from pydantic import GetCoreSchemaHandler, GetJsonSchemaHandler, ValidationInfo
from pydantic_core import CoreSchema, PydanticCustomError, core_schema

from fedsim.core.blocks.spec import IN_SI, LONGEST, NUMBER, Given, per_cent
from fedsim.core.blocks.spellings import similar, spelled
from fedsim.core.blocks.units import ARITHMETIC, divides_bit, factor, known, noun
from fedsim.core.blocks.wording import join_names, show

_TEXT = re.compile(rf"\s*([+-]?{NUMBER})\s*(.*?)\s*")
_SMALLEST, _LARGEST = 1e-24, 1e24
"""The range of quantities other than zero and infinity, in base units (SI's yocto and yotta).
Within it, products and quotients of a few quantities neither overflow nor underflow."""
_DIGITS = 17  # enough for the shortest decimal of any float


@dataclass(frozen=True)
class Quantity:
    """An annotation for pydantic: a float in `base` units, written as text with a unit.

    Attributes:
        noun: the name of the quantity in messages ("a rate").
        base: the unit of the float.
        example: an accepted text.
        scales: the units that `format` may use, largest first; the last one is a decimal multiple
            of `base`.
        positive: whether zero is refused. Negative values are refused unless `signed`.
        signed: whether negative values are accepted.
        whole: whether the value must be a whole number of `base` units.
        word: the word for infinity; empty if infinity is refused.
        most: the largest accepted value, in base units.
        least: the smallest accepted value of a signed quantity, in base units.
        bare: whether a number without a unit is accepted, in base units: a share of 0.4 is 40 %.
    """

    noun: str
    base: str
    example: str
    scales: tuple[str, ...]
    positive: bool = False
    signed: bool = False
    whole: bool = False
    word: str = ""
    most: float = float("inf")
    least: float = float("-inf")
    bare: bool = False

    def parse(self, value: object) -> float:
        """Return the value in base units.

        Raises:
            PydanticCustomError: a ValueError; its text states the input and what is accepted.
        """
        if not isinstance(value, str):
            # A bool is an int in Python, and YAML reads an unquoted `yes` or `on` as one.
            if isinstance(value, bool) or not isinstance(value, int | float):
                raise self._refusal(value, "", " with its unit")
            if self.bare:
                return self._within(value, float(value))
            raise self._refusal(value, ", a bare number", " with its unit")
        if self.word and value.strip() == self.word:
            return float("inf")
        if self.base == "whole" and isinstance(share := per_cent(value), float):
            return self._within(value, share)
        match = _TEXT.fullmatch(value) if len(value) <= LONGEST else None
        if match is None or not (match[2] or self.bare):
            what = ", a number without a unit" if match else ""
            raise self._refusal(value, what, " as a number with its unit")
        return self._within(value, self._convert(value, match[1], match[2] or self.base))

    def format(self, value: float) -> str:
        """Return a text that `parse` converts back to exactly `value`.

        Example:
            >>> Quantity("a duration", "s", "30 s", ("s", "ms", "us")).format(0.0121)
            '12.1 ms'
        """
        if value == float("inf"):
            return self.word
        if value == 0:
            return f"0 {self.base if self.base in self.scales else self.scales[-1]}"
        # `repr` gives the shortest decimal that rounds to this float. Dividing it by the decimal
        # factor is exact (with at most `_DIGITS` digits, else a smaller unit is tried), so `parse`
        # finds that decimal again, and rounds it to the same float.
        exact = Decimal(repr(float(value)))
        for unit in self.scales:
            with localcontext(ARITHMETIC):
                scaled = (exact / (factor(unit, self.base) or 1)).normalize()
            if abs(scaled) >= 1 and len(scaled.as_tuple().digits) <= _DIGITS:
                break
        plain = -7 < scaled.adjusted() < 16
        return f"{scaled:f} {unit}" if plain else f"{scaled} {unit}"

    def _convert(self, value: str, number: str, unit: str) -> float:
        """Return number times unit in base units, rounded once."""
        # Most defaults are in base units and need no conversion. Pint, whose import is slow, is not
        # loaded for them.
        if unit != self.base and not known(unit):
            unit = spelled(unit) or unit  # a spelling from file headers: MBps, KB, Seconds
        size = Decimal(1) if unit == self.base else factor(unit, self.base)
        if size is None:
            raise self._refusal(value, f", {noun(unit)}{self._meant(number, unit)}")
        if unit != self.base and divides_bit(unit):
            raise self._refusal(value, ", a part of a bit (m is milli, M is mega)")
        with localcontext(ARITHMETIC):
            return float(Decimal(number) * size)

    def _meant(self, number: str, unit: str) -> str:
        """Return a question whether a similar unit is meant, or an empty text."""
        if self.base == "J" and unit in ("mAh", "Ah"):
            return ": multiply a charge by the voltage of its battery (3000 mAh at 3.7 V: 11.1 Wh)"
        meant = [f'"{number} {each}"' for each in similar(unit, self.base, self.scales)]
        return f" (did you mean {join_names(meant, 'or')}?)" if meant else ""

    def _read(self, value: object, info: ValidationInfo) -> float:
        """Return the value in base units. Code may pass a number in place of a text."""
        # Only `Spec.in_si` sets this context. A bare number in a file is refused even where its
        # unit could be guessed: a deadline of "30" may mean seconds or milliseconds.
        bare = info.context is IN_SI and not isinstance(value, bool)
        if not (bare and isinstance(value, int | float)):
            return self.parse(value)
        if value == float("inf") and self.word:
            return float("inf")
        return self._within(value, float(value))

    def _within(self, text: object, value: float) -> float:
        """Return the value if it is within all bounds.

        Raises:
            PydanticCustomError: it is not; the text states the bound.
        """
        if isnan(value):
            raise self._refusal(text, "", " as a number")
        if not self.signed and (value < 0 or (value == 0 and self.positive)):
            raise self._refusal(text, "", " above 0" if self.positive else " of 0 or more")
        if value > self.most:
            # A bare 40 where a share is wanted is probably 40 %.
            per_cent_meant = self.bare and text == value and value <= 100
            meant = f' (did you mean "{value:g} %"?)' if per_cent_meant else ""
            raise self._refusal(text, meant, f" of {self.format(self.most)} or less")
        if value < self.least:
            raise self._refusal(text, "", f" of {self.format(self.least)} or more")
        if abs(value) > _LARGEST:
            raise self._refusal(
                text, ", too large a number", f" of {_LARGEST:g} {self.base} or less"
            )
        if 0 < abs(value) < _SMALLEST:
            raise self._refusal(
                text, ", too small a number", f" of {_SMALLEST:g} {self.base} or more"
            )
        if self.whole and not value.is_integer():
            raise self._refusal(text, "", f" as a whole number of {self.base}")
        return value

    def _refusal(self, value: object, what: str, wanted: str = "") -> PydanticCustomError:
        text = f'got {show(value)}{what}; give {self.noun}{wanted}, such as "{self.example}"'
        if self.word and (isinstance(value, str) or value == float("inf")):
            text += f' or "{self.word}"'
        return PydanticCustomError("quantity", "{text}", {"text": text})

    def __get_pydantic_core_schema__(
        self, source: object, handler: GetCoreSchemaHandler
    ) -> CoreSchema:
        """Validate by `parse`, or accept code's numbers; serialise by `format` in JSON and YAML."""
        written = core_schema.plain_serializer_function_ser_schema(
            self.format, return_schema=core_schema.str_schema(), when_used="json-unless-none"
        )
        return core_schema.with_info_plain_validator_function(self._read, serialization=written)

    def __get_pydantic_json_schema__(
        self, schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> dict[str, Any]:
        """Describe the text, for editors."""
        sign = "[+-]?" if self.signed else r"\+?"
        text = rf"{sign}{NUMBER}\s*[^\s0-9].*"
        written = {
            "type": "string",
            "pattern": rf"^\s*({text}|{self.word})\s*$" if self.word else rf"^\s*{text}$",
            "examples": [self.example, self.word] if self.word else [self.example],
        }
        least = {"exclusiveMinimum" if self.positive else "minimum": 0}
        number = {"type": "number", **least, "maximum": self.most}
        return {"anyOf": [written, number]} if self.bare else written


UNLIMITED = "unlimited"
"""The word for an infinite rate or speed, and for an unlimited number of tries."""

MAINS = "mains"
"""The word for a client without a battery, an infinite energy."""

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
"""The same, or None."""

_HOURS = ("h", "min", *_TIMES)
Hours = Given[Annotated[float, Quantity("a duration", "s", "24 h", _HOURS)], str]
"""Seconds, 0 or more, usually written in hours."""

Period = Given[Annotated[float, Quantity("a duration", "s", "24 h", _HOURS, positive=True)], str]
"""Seconds, above 0, usually written in hours."""

TimeOfDay = Given[
    Annotated[float, Quantity("a time of day", "s", "22 h", _HOURS, most=86400.0)], str
]
"""Seconds after midnight, a day at most."""

_JOULES = Quantity("an energy", "J", "5 kJ", ("MJ", "kJ", "J", "mJ"), positive=True)
Joules = Given[Annotated[float, _JOULES], str]
"""Joules, above 0."""

JoulesOrNone = Given[Annotated[float, _JOULES] | None, str | None]
"""The same, or None."""

_STORED = ("kWh", "Wh", "J", "mJ")
_WATT_HOURS = Quantity("an energy", "J", "15 Wh", _STORED, positive=True)
WattHours = Given[Annotated[float, _WATT_HOURS], str]
"""Joules, above 0, usually written in watt-hours."""

WattHoursOrNone = Given[Annotated[float, _WATT_HOURS] | None, str | None]
"""The same, or None."""

Stored = Given[
    Annotated[float, Quantity("an energy", "J", "15 Wh", _STORED, positive=True, word=MAINS)], str
]
"""The joules of a full battery, above 0; "mains" is infinity."""

_WATTS = Quantity("a power", "W", "4.5 W", ("W", "mW"))
Watts = Given[Annotated[float, _WATTS], str]
"""Watts, 0 or more."""

WattsOrNone = Given[Annotated[float, _WATTS] | None, str | None]
"""The same, or None."""

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
"""The same, or None."""

_BITS = Quantity("an amount of data", "bit", "10 MB", _DATA, positive=True)
Bits = Given[Annotated[float, _BITS], str]
"""Bits, above 0; 1 MB is 8e6 of them."""

BitsOrNone = Given[Annotated[float, _BITS] | None, str | None]
"""The same, or None."""

Bytes = Given[Annotated[float, Quantity("an amount of data", "B", "40 B", ("B",), whole=True)], str]
"""Bytes, a whole number of them, 0 or more."""

_FRACTION = Quantity("a share", "whole", "40 %", ("%",), most=1.0, bare=True)
Fraction = Given[Annotated[float, _FRACTION], float | str]
"""A share from 0 to 1, written in per cent or as a number."""

FractionOrNone = Given[Annotated[float, _FRACTION] | None, float | str | None]
"""The same, or None."""

_SHARE = Quantity("a share", "whole", "40 %", ("%",), most=1.0, positive=True, bare=True)
Share = Given[Annotated[float, _SHARE], float | str]
"""A share above 0 and up to 1, written in per cent or as a number."""

ShareOrNone = Given[Annotated[float, _SHARE] | None, float | str | None]
"""The same, or None."""

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
"""The same, or None."""

Metres = Given[
    Annotated[float, Quantity("a length", "m", "100 m", ("km", "m"), positive=True)], str
]
"""Metres, above 0."""

MetresPerSecond = Given[
    Annotated[float, Quantity("a velocity", "m/s", "1.5 m/s", ("m/s",), positive=True)], str
]
"""Metres per second, above 0."""

_LEVEL = Quantity("a level", "dB", "8 dB", ("dB",), most=100.0)
Decibels = Given[Annotated[float, _LEVEL], str]
"""Decibels, 0 to 100."""

DecibelsOrNone = Given[Annotated[float, _LEVEL] | None, str | None]
"""The same, or None."""

_PATH_LOSS = Quantity("a path loss", "dB", "120 dB", ("dB",), most=300.0)
PathLoss = Given[Annotated[float, _PATH_LOSS], str]
"""Decibels between a sender and a receiver, 0 to 300."""

PathLossOrNone = Given[Annotated[float, _PATH_LOSS] | None, str | None]
"""The same, or None."""

_POWER_LEVEL = Quantity(
    "a power level", "dBm", "-105 dBm", ("dBm",), signed=True, most=100.0, least=-300.0
)
Level = Given[Annotated[float, _POWER_LEVEL], str]
"""Decibels relative to a milliwatt, -300 to 100."""

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
"""Decibels relative to a milliwatt per hertz, -300 to 300."""

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


def read_energy(text: object) -> float:
    """Return the energy of a full battery in a record of a scenario, J.

    >>> read_energy("15 Wh")
    54000.0
    """
    return _WATT_HOURS.parse(text)


def read_fraction(text: object) -> float:
    """Return a share in a record of a scenario.

    >>> read_fraction("20 %"), read_fraction(0.2)
    (0.2, 0.2)
    """
    return _FRACTION.parse(text)
