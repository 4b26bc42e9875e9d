"""Texts: numbers with their units, characters made visible, cells that no spreadsheet evaluates."""

import re
import unicodedata
from decimal import ROUND_HALF_UP, Decimal
from html import escape
from math import floor, fsum, inf, isfinite, isinf, isnan
from typing import TYPE_CHECKING

# Escaping of characters that would hide, reorder or restyle text.
#
# Names come from files and folders of unknown origin. A character that is invisible, or reverses
# the direction of the text after it, is replaced by its escape sequence; terminal, page and figures
# all use this.

_KEPT = "\n\u200c\u200d"
"""Line ends, and the zero-width joiners that several scripts need."""


def visible(text: str) -> str:
    r"""Return a text in which every character is visible.

    >>> print(visible("a\u202eb\x1b[1m, \u00e9 \u4e2d"))
    a\u202eb\x1b[1m, é 中
    """
    if text.isprintable():
        return text
    return "".join(character if _is_seen(character) else _escape(character) for character in text)


def _is_seen(character: str) -> bool:
    spaces = unicodedata.category(character) == "Zs"
    return spaces or character in _KEPT or character.isprintable()


def _escape(character: str) -> str:
    return character.encode("unicode_escape").decode()


if TYPE_CHECKING:  # importing pandas takes half a second: callers with a table have it
    from collections.abc import Iterable, Sequence

    import pandas as pd

_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?|[+-]?(inf|nan)")

_PREFIXES = (*"qryzafpnµm", "", *"kMGTPEZYRQ")
"""SI prefixes, for each third power of ten, from -30 to 30."""


_FORMULA = re.compile(r"[=+\-@\t\r]")


def as_csv(frame: "pd.DataFrame") -> bytes:
    """Return a table as comma-separated values, without its index.

    A text that a spreadsheet would take for a formula (beginning with = + - or @, a tab or a
    carriage return) is preceded by an apostrophe, which spreadsheets do not show. Numbers,
    negative ones included, stay as they are.
    """
    named = frame.rename(columns=_inert)
    for column in named.columns:
        if named[column].dtype.kind not in "biufcmM":
            named[column] = named[column].map(_inert)
    return named.to_csv(index=False, lineterminator="\n").encode()


def _inert(cell: object) -> object:
    """Return a cell that no spreadsheet evaluates.

    >>> [_inert(cell) for cell in ("=1+1", "-", -1.5, "gd", "-2")]
    ["'=1+1", '-', -1.5, 'gd', '-2']
    """
    if not isinstance(cell, str) or len(cell) == 1 or not _FORMULA.match(cell):
        return cell
    return cell if _NUMBER.fullmatch(cell) else f"'{cell}"


def format_number(value: float, form: str) -> str:
    """Format a number in so many digits, halves away from zero, as its shortest decimal reads.

    Python itself rounds the binary value, and halves to the even digit: 17.25 to 17.2, but 34.75 to
    34.8, and 2.675, which is a little less in binary, to 2.67.

    Args:
        value: the number; infinite ones and NaN are as Python has them.
        form: of Python's formats that state a precision, with f, e, g or %: ".3g", ",.1f".

    >>> [format_number(value, ".1f") for value in (17.25, 34.75, -0.25)]
    ['17.3', '34.8', '-0.3']
    >>> format_number(2.675, ".3g"), format_number(0.0125, ".0%"), format_number(99950, ".3g")
    ('2.68', '1%', '1e+05')
    """
    number = float(value)
    if not isfinite(number) or not number:
        return format(number, form)
    digits, exact = int(form.rpartition(".")[2][:-1]), Decimal(repr(number))
    first = exact.adjusted()  # the power of ten of the first digit; below, that of the last one
    last = {"f": -digits, "%": -digits - 2, "e": first - digits}.get(form[-1], first - digits + 1)
    shortest = exact.as_tuple().exponent
    if isinstance(shortest, int) and shortest < last:
        exact = exact.quantize(Decimal(1).scaleb(last), ROUND_HALF_UP)
    return format(float(exact), form)


DIGITS = 3
"""Significant digits of a quantity, unless more tell it apart from another one."""

_EXACT = 17  # significant digits that tell any two doubles apart


_SPANS = ((31_557_600.0, "years"), (86_400.0, "days"), (3600.0, "h"), (60.0, "min"))
"""Units of long times with their seconds, the longest first."""

_SEVERAL = 3  # a time is written in a longer unit from this many of it on: 3 min, but 179 s


def unit_for(size: float, unit: str) -> tuple[float, str]:
    """Return the unit in which values of about this size are read, with its size.

    Long times are in minutes, hours, days or years, all else has an SI prefix.

    >>> unit_for(2800.0, "s"), unit_for(2800.0, "J"), unit_for(0.28, "s")
    ((60.0, 'min'), (1000.0, 'kJ'), (0.001, 'ms'))
    """
    span = _span(abs(size)) if unit == "s" else None
    if span is not None:
        return span
    power = 0 if not size or not isfinite(size) else int(f"{abs(size):.15e}".split("e")[1])
    thousands, name = _prefixed(power, unit)
    return float(f"1e{3 * thousands}"), name


def _prefixed(power: int, unit: str) -> tuple[int, str]:
    """Return the SI prefix of numbers of about 10^power, as a power of 1000, and the whole unit."""
    thousands = max(-10, min(power // 3, 10))
    return thousands, f"{_PREFIXES[thousands + 10]}{unit}"


def _span(seconds: float) -> tuple[float, str] | None:
    """Return the size and the name of the unit of a long time; None for a short one."""
    return next((span for span in _SPANS if _SEVERAL * span[0] <= seconds < inf), None)


def quantity(value: float, unit: str = "", digits: int = DIGITS) -> str:
    """Format a number: a count in full, a quantity with `digits` digits in the unit of its size.

    >>> quantity(1062), quantity(2.5e6, "bit"), quantity(float("nan"), "s")
    ('1,062', '2.5 Mbit', '-')
    >>> quantity(0.10234, "s"), quantity(0.10234, "s", digits=4)
    ('102 ms', '102.3 ms')
    >>> quantity(90, "s"), quantity(7500, "s"), quantity(40_000, "s"), quantity(3e6, "s")
    ('90 s', '125 min', '11.1 h', '34.7 days')
    >>> quantity(1e8, "s"), quantity(1.2e12, "s")
    ('3.17 years', '38,000 years')
    """
    if isnan(value):
        return "-"
    if isinf(value):
        text = f"{value:g} {unit}".rstrip()
    elif unit == "s" and (span := _span(float(format_number(abs(value), f".{digits}g")))):
        number = float(format_number(value / span[0], f".{digits}g"))
        text = f"{number:,.{max(digits, 10)}g} {span[1]}"
    elif unit:
        mantissa, power = format_number(value or 0.0, f".{digits - 1}e").split("e")
        thousands, name = _prefixed(int(power), unit)
        scaled = float(f"{mantissa}e{int(power) - 3 * thousands}")
        text = f"{scaled:.{max(digits, 6)}g} {name}"
    else:
        text = format_number(value, ",.0f" if float(value).is_integer() else ",.1f")
    return text.replace("-", "\N{MINUS SIGN}")


def shared_unit(values: "Iterable[float]", unit: str) -> tuple[float, str] | None:
    """Return the unit in which some amounts are read side by side, with its size.

    It is that of the largest. None if one of them is above 0 and below a hundredth of this unit:
    it would have leading zeros.

    >>> shared_unit([104.0, 180.0], "s"), shared_unit([636.0, 1110.0], "J")
    ((60.0, 'min'), (1000.0, 'kJ'))
    >>> shared_unit([0.1, 7200.0], "s") is None
    True
    """
    sizes = [abs(value) for value in values if isfinite(value) and value]
    if not (unit and sizes):
        return None
    size, name = unit_for(max(sizes), unit)
    return (size, name) if min(sizes) >= size / 100 else None


def in_unit(value: float, unit: tuple[float, str], digits: int = DIGITS) -> str:
    """Format an amount in a unit as `shared_unit` returns it.

    >>> in_unit(104.0, (60.0, "min")), in_unit(1_234_000.0, (1000.0, "kJ"))
    ('1.73 min', '1,230 kJ')
    """
    size, name = unit
    number = float(format_number(value / size, f".{digits}g"))
    return f"{number:,.{max(digits, 12)}g} {name}".replace("-", "\N{MINUS SIGN}")


def span_text(low: float, high: float, unit: str = "") -> str:
    """Format a range, whose unit stands once if both ends can be read in it.

    >>> span_text(104.0, 180.0, "s"), span_text(636.0, 1110.0, "J"), span_text(3.0, 5.0)
    ('1.73 to 3 min', '0.636 to 1.11 kJ', '3 to 5')
    """
    shared = shared_unit((low, high), unit)
    if shared is None:
        return f"{quantity(low, unit)} to {quantity(high, unit)}"
    first = in_unit(low, shared).rpartition(" ")[0]
    return f"{first} to {in_unit(high, shared)}"


def summands(values: "Sequence[float]", unit: str) -> list[str]:
    """Format signed parts of a sum, and the sum as the last one, so that the texts add up exactly.

    All have one unit and one last digit, and the largest has `DIGITS` digits. Parts are rounded up
    or down such that they make the rounded sum (largest remainders).

    >>> summands([1004.0, 1004.0, 1004.0], "J"), summands([0.0], "J")
    (['+1.01 kJ', '+1.00 kJ', '+1.00 kJ', '+3.01 kJ'], ['0.00 J', '0.00 J'])
    >>> summands([90.0, 120.0], "s")
    ['+1.50 min', '+2.00 min', '+3.50 min']
    """
    span = _span(max(map(abs, (*values, fsum(values))))) if unit == "s" else None
    in_span = [value / span[0] for value in values] if span else values
    largest = max(map(abs, (*in_span, fsum(in_span))))
    power = int(f"{largest:.{DIGITS - 1}e}".split("e")[1])
    last = power - (DIGITS - 1)
    thousands, name = (0, span[1]) if span else _prefixed(power, unit)
    exact = [value / 10.0**last for value in in_span]
    counts, total = [floor(value) for value in exact], round(fsum(exact))
    up = sorted(range(len(counts)), key=lambda place: counts[place] - exact[place])
    for place in up[: total - sum(counts)]:
        counts[place] += 1
    scaled = (Decimal(count).scaleb(last - 3 * thousands) for count in (*counts, total))
    texts = (f"{number:{'+' if number else ''}f}" for number in scaled)
    shown = (f"{text} {name}" for text in texts)
    return [text.replace("-", "\N{MINUS SIGN}") for text in shown]


def digits_apart(value: float, others: "Iterable[float]") -> int:
    """Return the digits with which no other number looks like `value`, at least `DIGITS`.

    >>> digits_apart(0.102, [0.1018, 0.3]), digits_apart(0.102, [0.102, 0.3])
    (4, 3)
    """
    unlike = [other for other in others if other != value]
    return next(
        digits
        for digits in range(DIGITS, _EXACT + 1)
        if digits == _EXACT
        or all(
            format_number(other, f".{digits - 1}e") != format_number(value, f".{digits - 1}e")
            for other in unlike
        )
    )


_UNIT = r"(?:%|[qryzafpn\u00b5mkMGTPEZYRQ]?(?:bit|byte|flop|Wh|Hz|[sJWBgm])\b)"

_FIGURE = re.compile(rf"(?<=\d) (?={_UNIT})")
"""The space between a number and its unit."""


def unbroken(text: str) -> str:
    r"""Return a text in which no line ends between a number and its unit.

    >>> unbroken("95 % interval of 3 seeds, 10 ms").split(" ")
    ['95\xa0%', 'interval', 'of', '3', 'seeds,', '10\xa0ms']
    """
    return _FIGURE.sub("\N{NO-BREAK SPACE}", text)


_SKIPPED = "script|style|pre|code|svg|title|option|textarea"

_TEXTS = re.compile(rf"<({_SKIPPED})\b.*?</\1>|(?<=>)[^<>]+(?=<)", re.DOTALL | re.IGNORECASE)


_NODES = r"(?:client|gateway|router)-\d+"

_LONGEST_NAME = 24  # characters of a name that stays in one line; a telephone has room for 40


def unbroken_html(page: str, names: "Iterable[str]" = ()) -> str:
    r"""Return a page whose texts are `unbroken`, without its code, drawings and choices.

    A short name with a hyphen stays in one line, too: it is put into a span of the class `name`.

    Args:
        page: HTML.
        names: identifiers that its texts may contain, beside those of clients.

    >>> unbroken_html("<p>10 ms<code>10 ms</code>10 ms</p>")
    '<p>10\xa0ms<code>10 ms</code>10\xa0ms</p>'
    >>> unbroken_html("<p>top-k, client-3</p>", ["top-k"])
    '<p><span class="name">top-k</span>, <span class="name">client-3</span></p>'
    """
    hyphened = sorted(filter(breaks, names), key=len, reverse=True)
    within = "|".join([*(re.escape(escape(visible(name))) for name in hyphened), _NODES])
    known = re.compile(rf"(?<![\w&/-])(?:{within})(?![\w/-])")

    def mend(found: "re.Match[str]") -> str:
        if found[1]:
            return found[0]
        return known.sub(r'<span class="name">\g<0></span>', unbroken(found[0]))

    return _TEXTS.sub(mend, page)


def breaks(name: str) -> bool:
    """Return whether a browser may end a line at a hyphen of a name that fits into one line.

    >>> breaks("top-k"), breaks("chb"), breaks("a-" * 30)
    (True, False, False)
    """
    return "-" in name and len(name) <= _LONGEST_NAME
