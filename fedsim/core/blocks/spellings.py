"""Units as people write them: kbps, MBps, lbs/MWh, gCO2eq per kWh.

Headers of files and quantities of scenarios accept the same spellings, except for rates in lower
case. A header may be in lower case throughout, so there "mbps" is a megabit per second: nobody
measures millibits. In a scenario it is refused. A text that could be two units in lower case (mW or
MW, megabit or megabyte) is not accepted at all.
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
