"""The units that a scenario may use, and their conversion factors.

Pint converts between the closed set of units below, which are defined in pint's own format. Pint's
default registry has no dimension for information: there a bit is a pure number, so "5 Hz" would be
accepted as a rate. Factors are decimal, so that a quantity is rounded once, at the end.
"""

import re
from decimal import Context, Decimal, localcontext
from functools import cache, lru_cache
from tokenize import TokenError
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # importing pint takes a third of a second: only when a unit is read
    from pint import Unit, UnitRegistry

ARITHMETIC = Context(prec=40)
"""The decimal context of quantities, which does not depend on the caller's context."""

_DEFINITIONS = """
pico- = 1e-12 = p-
nano- = 1e-9 = n-
micro- = 1e-6 = \N{MICRO SIGN}- = \N{GREEK SMALL LETTER MU}- = u-
milli- = 1e-3 = m-
kilo- = 1e3 = k-
mega- = 1e6 = M-
giga- = 1e9 = G-
tera- = 1e12 = T-
kibi- = 1024 = Ki-
mebi- = 1048576 = Mi-
gibi- = 1073741824 = Gi-
bit = [information]
byte = 8 * bit = B = octet
second = [time] = s = sec
minute = 60 * second = min
hour = 60 * minute = h = hr
day = 24 * hour = d
week = 7 * day
month = 30 * day
joule = [energy] = J
watt = joule / second = W
watt_hour = watt * hour = Wh
bit_per_second = bit / second = bps
flop = [computation] = FLOP
flop_per_second = flop / second = FLOPS
whole = [share]
percent = 0.01 * whole = %
hertz = 1 / second = Hz
meter = [length] = m = metre
squaremeter = meter * meter
decibel = [level] = dB
noisedensity = [noise_level]
gram = [mass] = g
pound = 453.59237 * gram = lb
degree = [angle] = deg
"""

_NOUNS = {
    "bit/s": "a rate",
    "s": "a duration",
    "J": "an energy",
    "W": "a power",
    "J/bit": "an energy per bit",
    "flop/s": "a computing speed",
    "flop": "a number of operations",
    "bit": "an amount of data",
    "%": "a share",
    "Hz": "a frequency",
    "m": "a length",
    "g": "a mass",
    "deg": "an angle",
    "g/kWh": "a carbon intensity",
    "J/bit/m^2": "an energy per bit and area",
    "%/month": "a share per time",
    "dB": "a level",
    "dBm/Hz": "a noise density",
}
# Without digits, so that pint never evaluates a power: "bit**9**9**9" in a scenario would not end.
_UNIT = re.compile(r"[A-Za-z\N{MICRO SIGN}\N{GREEK SMALL LETTER MU}%/*() ]{1,40}")
# The only power accepted, and the only logarithmic unit of a density, which has no factor.
_SQUARE, _LEVEL = re.compile(r"\bm\^2"), "dBm/Hz"
_BETWEEN = re.compile(r"[/*() ]+")
_PART = re.compile(r"(?:milli|micro|nano|pico)(?:bit|byte|flop)")


@cache
def _registry() -> "UnitRegistry[Decimal]":
    """Build pint's registry, once a unit is parsed for the first time."""
    from pint import UnitRegistry

    registry: UnitRegistry[Decimal] = UnitRegistry(None, non_int_type=Decimal)
    registry.load_definitions(_DEFINITIONS.strip().splitlines())
    return registry


@lru_cache(maxsize=256)
def _unit(text: str) -> "Unit | None":
    """Return the unit of a text, or None if it is no unit."""
    from pint import PintError

    level = text.replace(" ", "") == _LEVEL
    text = "noisedensity" if level else _SQUARE.sub("squaremeter", text)
    if not _UNIT.fullmatch(text):
        return None
    try:
        return _registry().parse_units(text)
    except (PintError, TokenError, ValueError, TypeError, AssertionError, ArithmeticError):
        return None


def is_unit(text: str) -> bool:
    """Return whether a text is a unit that a scenario may use.

    A text with a word that is no unit is refused at once, without loading pint.
    """
    parts = filter(None, _BETWEEN.split(text))
    return all(_word().fullmatch(part) for part in parts) and _unit(text) is not None


@cache
def _word() -> re.Pattern[str]:
    """Return the pattern of one unit of `_DEFINITIONS`, with or without a prefix."""
    prefixes, units = list[str](), list[str]()
    for line in _DEFINITIONS.strip().splitlines():
        name, _, *more = (part.strip() for part in line.split("="))
        (prefixes if name.endswith("-") else units).extend((name, *more))
    before = "|".join(re.escape(prefix.rstrip("-")) for prefix in prefixes)
    return re.compile(f"(?:{before})?(?:{'|'.join(map(re.escape, units))})s?")


@lru_cache(maxsize=256)
def factor(unit: str, base: str) -> Decimal | None:
    """Return the value of one `unit` in `base` units; None if the dimensions differ.

    Example:
        >>> factor("mW/(Mbit/s)", "J/bit")
        Decimal('1E-9')
    """
    this, that = _unit(unit), _unit(base)
    if this is None or that is None or this.dimensionality != that.dimensionality:
        return None
    with localcontext(ARITHMETIC):
        return Decimal(_registry().Quantity(Decimal(1), this).to(that).magnitude)


@lru_cache(maxsize=256)
def divides_bit(unit: str) -> bool:
    """Return whether a unit has a fraction of a bit, such as "mbit/s" in place of "Mbit/s"."""
    return _PART.search(str(_unit(unit))) is not None


def known(unit: str) -> bool:
    """Return whether a text is a unit in the notation of a scenario.

    >>> known("MB/s"), known("MBps")
    (True, False)
    """
    return _unit(unit) is not None


def noun(unit: str) -> str:
    """Return the name of a unit's quantity for messages: "a duration" for "min"."""
    if _unit(unit) is None:
        return "in an unknown unit"
    for base, name in _NOUNS.items():
        if factor(unit, base) is not None:
            return name
    return "of another dimension"
