"""How a quantity is read: text with a unit in the file, a float in SI units in the program."""

import re
from dataclasses import dataclass
from decimal import Decimal, localcontext
from math import isnan
from typing import Any

from pydantic import GetCoreSchemaHandler, GetJsonSchemaHandler, ValidationInfo
from pydantic_core import CoreSchema, PydanticCustomError, core_schema

from fedsim.blocks.spec import IN_SI
from fedsim.blocks.units import ARITHMETIC, divides_bit, factor, noun
from fedsim.blocks.wording import shown

_NUMBER = r"(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]{1,4})?"
_TEXT = re.compile(rf"\s*([+-]?{_NUMBER})\s*(.*?)\s*")
_LONGEST = 80
_SMALLEST, _LARGEST = 1e-24, 1e24
"""No quantity but zero and infinity is beyond these in base units, SI's yocto and yotta: products
and quotients of a few of them are finite, and above 0."""
_DIGITS = 17  # of the longest of the shortest decimals that mean a float


@dataclass(frozen=True)
class Quantity:
    """An annotation for pydantic: a float in `base` units, written as text with a unit.

    Attributes:
        noun: what it is, for messages ("a rate").
        base: the unit of the float.
        example: a text that would be accepted.
        scales: the units it is written in again, largest first; the last one is a decimal
            multiple of `base`.
        positive: whether zero is refused; what is negative is, unless `signed`.
        signed: whether it may be negative.
        whole: whether it is a whole number of `base` units.
        word: the word that stands for infinity; empty where none does.
        most: the largest value accepted, in base units.
        least: the smallest one that is signed.
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

    def parse(self, value: object) -> float:
        """Return the value in base units.

        Raises:
            PydanticCustomError: a ValueError; its text says what was seen and what is accepted.
        """
        if not isinstance(value, str):
            bare = isinstance(value, int | float) and not isinstance(value, bool)
            raise self._refusal(value, ", a bare number" if bare else "", " with its unit")
        if self.word and value.strip() == self.word:
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
            return self.word
        if value == 0:
            return f"0 {self.base if self.base in self.scales else self.scales[-1]}"
        exact = Decimal(repr(float(value)))  # the shortest decimal that means this float
        for unit in self.scales:
            with localcontext(ARITHMETIC):
                scaled = (exact / (factor(unit, self.base) or 1)).normalize()
            if abs(scaled) >= 1 and len(scaled.as_tuple().digits) <= _DIGITS:
                break
        plain = -7 < scaled.adjusted() < 16
        return f"{scaled:f} {unit}" if plain else f"{scaled} {unit}"

    def _converted(self, value: str, number: str, unit: str) -> float:
        """Return number times unit in base units, rounded once."""
        # Most defaults are in base units: reading them takes no pint, which takes long to import.
        size = Decimal(1) if unit == self.base else factor(unit, self.base)
        if size is None:
            raise self._refusal(value, f", {noun(unit)}")
        if unit != self.base and divides_bit(unit):
            raise self._refusal(value, ", a part of a bit (m is milli, M is mega)")
        with localcontext(ARITHMETIC):
            return float(Decimal(number) * size)

    def _read(self, value: object, info: ValidationInfo) -> float:
        """Return the value in base units, which code may give as a number."""
        bare = info.context is IN_SI and not isinstance(value, bool)
        if not (bare and isinstance(value, int | float)):
            return self.parse(value)
        if value == float("inf") and self.word:
            return float("inf")
        return self._within(value, float(value))

    def _within(self, text: object, value: float) -> float:
        """Return the value unless it is out of bounds."""
        if isnan(value):
            raise self._refusal(text, "", " as a number")
        if not self.signed and (value < 0 or (value == 0 and self.positive)):
            raise self._refusal(text, "", " above 0" if self.positive else " of 0 or more")
        if value > self.most:
            raise self._refusal(text, "", f" of {self.format(self.most)} or less")
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
        text = f'got {shown(value)}{what}; give {self.noun}{wanted}, such as "{self.example}"'
        if self.word and (isinstance(value, str) or value == float("inf")):
            text += f' or "{self.word}"'
        return PydanticCustomError("quantity", "{text}", {"text": text})

    def __get_pydantic_core_schema__(
        self, source: object, handler: GetCoreSchemaHandler
    ) -> CoreSchema:
        """Validate by `parse`, or take code's numbers; write by `format` in JSON and YAML."""
        written = core_schema.plain_serializer_function_ser_schema(
            self.format, return_schema=core_schema.str_schema(), when_used="json-unless-none"
        )
        return core_schema.with_info_plain_validator_function(self._read, serialization=written)

    def __get_pydantic_json_schema__(
        self, schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> dict[str, Any]:
        """Describe the text, for editors."""
        sign = "[+-]?" if self.signed else r"\+?"
        text = rf"{sign}{_NUMBER}\s*[^\s0-9].*"
        return {
            "type": "string",
            "pattern": rf"^\s*({text}|{self.word})\s*$" if self.word else rf"^\s*{text}$",
            "examples": [self.example, self.word] if self.word else [self.example],
        }
