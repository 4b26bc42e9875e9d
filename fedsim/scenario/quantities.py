"""Quantities: text with a unit in the file, a float in SI units in the program."""

import re
from dataclasses import dataclass
from decimal import Decimal, localcontext
from typing import Annotated, Any

from pydantic import GetCoreSchemaHandler, GetJsonSchemaHandler
from pydantic_core import CoreSchema, PydanticCustomError, core_schema

from fedsim.scenario.units import ARITHMETIC, divides_bit, factor, noun
from fedsim.scenario.wording import shown

UNLIMITED = "unlimited"
"""The word for an infinite rate or speed."""

_NUMBER = r"(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]{1,4})?"
_TEXT = re.compile(rf"\s*([+-]?{_NUMBER})\s*(.*?)\s*")
_LONGEST = 80


@dataclass(frozen=True)
class Quantity:
    """An annotation for pydantic: a float in `base` units, written as text with a unit.

    Attributes:
        noun: what it is, for messages ("a rate").
        base: the unit of the float.
        example: a text that would be accepted.
        scales: the units it is written in again, largest first; decimal multiples of `base`.
        positive: whether zero is refused; what is negative always is.
        unlimited: whether the word "unlimited" stands for infinity.
        most: the largest value accepted, in base units.
    """

    noun: str
    base: str
    example: str
    scales: tuple[str, ...]
    positive: bool = False
    unlimited: bool = False
    most: float = float("inf")

    def parse(self, value: object) -> float:
        """Return the value in base units.

        Raises:
            PydanticCustomError: a ValueError; its text says what was seen and what is accepted.
        """
        if not isinstance(value, str):
            bare = isinstance(value, int | float) and not isinstance(value, bool)
            raise self._refusal(value, ", a bare number" if bare else "", " with its unit")
        if self.unlimited and value.strip() == UNLIMITED:
            return float("inf")
        match = _TEXT.fullmatch(value) if len(value) <= _LONGEST else None
        if match is None or not match[2]:
            what = ", a number without a unit" if match else ""
            raise self._refusal(value, what, " as a number with its unit")
        return self._within(value, self._converted(value, match[1], match[2]))

    def format(self, value: float) -> str:
        """Return a text that `parse` reads back as exactly `value`.

        Example:
            >>> Quantity("a duration", "s", "30 s", ("s", "ms", "us")).format(0.0121)
            '12.1 ms'
        """
        if value == float("inf"):
            return UNLIMITED
        if value == 0:
            return f"0 {self.base if self.base in self.scales else self.scales[-1]}"
        exact = Decimal(repr(float(value)))  # the shortest decimal that means this float
        for unit in self.scales:
            with localcontext(ARITHMETIC):
                scaled = (exact / (factor(unit, self.base) or 1)).normalize()
            if scaled >= 1:
                break
        plain = -7 < scaled.adjusted() < 16
        return f"{scaled:f} {unit}" if plain else f"{scaled} {unit}"

    def _converted(self, value: str, number: str, unit: str) -> float:
        """Return number times unit in base units, rounded once."""
        size = factor(unit, self.base)
        if size is None:
            raise self._refusal(value, f", {noun(unit)}")
        if divides_bit(unit):
            raise self._refusal(value, ", a part of a bit (m is milli, M is mega)")
        with localcontext(ARITHMETIC):
            return float(Decimal(number) * size)

    def _within(self, text: str, value: float) -> float:
        """Return the value unless it is out of bounds."""
        if value < 0 or (value == 0 and self.positive):
            raise self._refusal(text, "", " above 0" if self.positive else " of 0 or more")
        if value > self.most:
            raise self._refusal(text, "", f" of {self.format(self.most)} or less")
        if value == float("inf"):
            raise self._refusal(text, ", too large a number")
        return value

    def _refusal(self, value: object, what: str, wanted: str = "") -> PydanticCustomError:
        text = f'seen {shown(value)}{what}; give {self.noun}{wanted}, such as "{self.example}"'
        if self.unlimited and (isinstance(value, str) or value == float("inf")):
            text += f' or "{UNLIMITED}"'
        return PydanticCustomError("quantity", "{text}", {"text": text})

    def __get_pydantic_core_schema__(
        self, source: object, handler: GetCoreSchemaHandler
    ) -> CoreSchema:
        """Validate by `parse`; write by `format` in JSON, and so in YAML."""
        written = core_schema.plain_serializer_function_ser_schema(
            self.format, return_schema=core_schema.str_schema(), when_used="json-unless-none"
        )
        return core_schema.no_info_plain_validator_function(self.parse, serialization=written)

    def __get_pydantic_json_schema__(
        self, schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> dict[str, Any]:
        """Describe the text, for editors."""
        text = rf"\+?{_NUMBER}\s*[^\s0-9].*"
        return {
            "type": "string",
            "pattern": rf"^\s*({text}|{UNLIMITED})\s*$" if self.unlimited else rf"^\s*{text}$",
            "examples": [self.example, UNLIMITED] if self.unlimited else [self.example],
        }


_RATES = ("Gbit/s", "Mbit/s", "kbit/s", "bit/s")
_SPEEDS = ("Gflop/s", "Mflop/s", "kflop/s", "flop/s")
_PER_BIT = ("J/bit", "mJ/bit", "uJ/bit", "nJ/bit")

_RATE = Quantity("a rate", "bit/s", "5 Mbit/s", _RATES, positive=True, unlimited=True)
Rate = Annotated[float, _RATE]
"""Bits per second, above 0; "unlimited" is infinity."""

Seconds = Annotated[float, Quantity("a duration", "s", "30 s", ("s", "ms", "us"))]
"""Seconds, 0 or more."""

Duration = Annotated[float, Quantity("a duration", "s", "30 s", ("s", "ms", "us"), positive=True)]
"""Seconds, above 0."""

_ENERGY = Quantity("an energy", "J", "5 kJ", ("MJ", "kJ", "J", "mJ"), positive=True)
Joules = Annotated[float, _ENERGY]
"""Joules, above 0."""

Watts = Annotated[float, Quantity("a power", "W", "4.5 W", ("W", "mW"))]
"""Watts, 0 or more."""

JoulesPerBit = Annotated[float, Quantity("an energy per bit", "J/bit", "50 nJ/bit", _PER_BIT)]
"""Joules per bit, 0 or more. A power per rate is one: 1 mW/(Mbit/s) is 1 nJ/bit."""

_SPEED = Quantity(
    "a computing speed", "flop/s", "12 Gflop/s", _SPEEDS, positive=True, unlimited=True
)
Speed = Annotated[float, _SPEED]
"""Floating-point operations per second, above 0; "unlimited" is infinity."""

_DATA = Quantity(
    "an amount of data", "bit", "10 MB", ("Gbit", "Mbit", "kbit", "bit"), positive=True
)
Bits = Annotated[float, _DATA]
"""Bits, above 0; 1 MB is 8e6 of them."""

Fraction = Annotated[float, Quantity("a share", "whole", "40 %", ("%",), most=1.0)]
"""A share from 0 to 1, written in per cent."""
