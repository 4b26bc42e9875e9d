"""Units as people write them: kbps, MBps, lbs/MWh, gCO2eq per kWh.

Headers of files and quantities of scenarios accept the same spellings, except for rates in lower
case. A header may be in lower case throughout, so there "mbps" is a megabit per second: nobody
measures millibits. In a scenario it is refused. A text that could be two units in lower case (mW or
MW, megabit or megabyte) is not accepted at all.
"""

import re
from collections.abc import Iterator, Sequence
from functools import lru_cache
from unicodedata import normalize

from fedsim.core.blocks.units import divides_bit, is_unit

_CO2 = re.compile(r"[\s_]*CO2(?:[-_ ]?eq?(?:uiv(?:alents?)?)?)?(?![A-Za-z])", re.IGNORECASE)
_PER = re.compile(r"[\s_]*(?:(?<![A-Za-z])per(?![A-Za-z])|/)[\s_]*", re.IGNORECASE)
_RATE = re.compile(r"([kMGT]|[KMG]i)?(bits?|[Bb]ytes?|b|B) ?(?:ps|/s|/sec|/second)")
_SMALL = re.compile(r"([mgt])(?:bps|bits?/s|bits?/sec)")
_LETTERS = {
    "w": "W",
    "kw": "kW",
    "wh": "Wh",
    "kwh": "kWh",
    "mwh": "MWh",
    "gwh": "GWh",
    "j": "J",
    "kj": "kJ",
    "uj": "uJ",
    "uw": "uW",
}
"""Units that are unambiguous in lower case."""

_MASSES = frozenset(("g", "kg", "lb"))
_WORD = 3  # a word has this many letters: the case of "Seconds" is ignored, that of "MS" is not
_KILO = re.compile(r"\bK(?=[WJBbmg])")


@lru_cache(maxsize=256)
def spelled(text: str) -> str | None:
    """Return a unit in the notation of a scenario; None if the text is no unit.

    >>> [spelled(each) for each in ("kbps", "Mb/s", "MBps", "lbs/MWh", "gCO2eq/kWh", "Hours", "mw")]
    ['kbit/s', 'Mbit/s', 'MB/s', 'lbs/MWh', 'g/kWh', 'hours', None]
    """
    text = _CO2.sub("", normalize("NFKC", text)).replace("°", "deg")
    text = _KILO.sub("k", _PER.sub("/", text).strip(" _"))
    for found in (_rate(text), text, _folded(text)):
        if found and is_unit(found) and not divides_bit(found):
            return found
    return None


def _rate(text: str) -> str:
    """Return a data rate in the notation of a scenario; empty if the text is none."""
    if small := _SMALL.fullmatch(text):
        return f"{small[1].upper()}bit/s"
    if (match := _RATE.fullmatch(text)) is None:
        return ""
    # A capital B is bytes and a small b is bits, but the words "Bits" and "Bytes" occur in any
    # case.
    octets = match[2] == "B" or match[2].lower().startswith("byte")
    return f"{match[1] or ''}{'B' if octets else 'bit'}/s"


def _folded(text: str) -> str:
    """Return a unit written in one case throughout in its usual case; empty if it is ambiguous."""
    parts = text.lower().split("/")
    clear = "bps" not in text.lower() and all(map(_is_clear, parts))
    return "/".join(_LETTERS.get(part, part) for part in parts) if clear else ""


def _is_clear(part: str) -> bool:
    return part in _LETTERS or part in _MASSES or len(part) >= _WORD


# Suggestions for a unit that is refused.

_SUGGESTED = 2
_USUAL = {
    "s": ("min", "h", "days"),
    "bit": ("B", "kB", "MB", "GB"),
    "bit/s": ("kB/s", "MB/s", "GB/s"),
    "J": ("Wh", "kWh", "J", "kJ"),
    "W": ("kW",),
    "flop/s": ("Tflop/s",),
}
"""Units in which quantities are often written, beside those in which fedsim writes them."""

_ENDINGS = ("in", "h", "/s", "/bit", "/kWh", "/month", "/Hz", "/m^2", "m")
"""Endings that tell quantities apart: "m" and "min", "W" and "Wh", "MB" and "MB/s"."""


def similar(unit: str, base: str, written: Sequence[str]) -> list[str]:
    """Return at most two units of the wanted quantity that a refused text may mean.

    Args:
        unit: the refused text.
        base: the base unit of the wanted quantity.
        written: the units in which fedsim writes the quantity.

    >>> similar("m", "s", ("s", "ms")), similar("MB", "bit/s", ()), similar("mw", "W", ("W", "mW"))
    (['min', 'ms'], ['MB/s'], ['mW'])
    """
    usual = dict.fromkeys([*written, *_USUAL.get(base, ())])
    found = [each for text in _meant(unit, base) for each in usual if text.lower() == each.lower()]
    return list(dict.fromkeys(found))[:_SUGGESTED]


def _meant(unit: str, base: str) -> Iterator[str]:
    """Yield what a text may have been meant to be, in any case; the likeliest first."""
    yield unit
    for ending in _ENDINGS:
        yield unit + ending
        yield unit.removesuffix(ending)
    yield re.sub("s$", "/s", unit)  # Gflops
    yield re.sub("b(?!it)", "bit", unit)  # mb/s
    yield unit + base  # a prefix alone: 10 k
