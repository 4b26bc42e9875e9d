"""Units as people write them: kbps, MBps, lbs/MWh, gCO2eq per kWh.

Headers of files and quantities of scenarios are read alike, but for rates in small letters. A
header may be in small letters throughout, so that "mbps" there is a megabit per second: nobody
measures millibits. In a scenario it is refused. Where small letters leave two units (mW or MW,
megabit or megabyte), it is none.
"""

import re
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
}
"""Units in small letters that leave no doubt."""

_MASSES = frozenset(("g", "kg", "lb"))
_WORD = 3  # letters from which a unit is a word: "Seconds", "HOURS", but not "MS"
_KILO = re.compile(r"\bK(?=[WJBbmg])")


@lru_cache(maxsize=256)
def spelled(text: str) -> str | None:
    """Return a unit as a scenario writes it; None if the text is no unit.

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
    """Return a rate of data as a scenario writes it; empty if it is none."""
    if small := _SMALL.fullmatch(text):
        return f"{small[1].upper()}bit/s"
    if (match := _RATE.fullmatch(text)) is None:
        return ""
    octets = match[2] == "B" or match[2].lower().startswith("byte")
    return f"{match[1] or ''}{'B' if octets else 'bit'}/s"


def _folded(text: str) -> str:
    """Return a unit in small or large letters throughout as it is usually written."""
    parts = text.lower().split("/")
    clear = "bps" not in text.lower() and all(map(_is_clear, parts))
    return "/".join(_LETTERS.get(part, part) for part in parts) if clear else ""


def _is_clear(part: str) -> bool:
    return part in _LETTERS or part in _MASSES or len(part) >= _WORD
