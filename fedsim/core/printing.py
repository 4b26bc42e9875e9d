"""Text on streams whose encoding lacks some of its letters: each becomes a similar one.

Windows writes redirected output in the encoding of its language: gbk, cp932, cp1252. Without this a
command would end with an error at the "µ" of a table, after its runs.
"""

import codecs
import sys
import unicodedata

_HANDLER = "fedsim.similar"
_SIMILAR = str.maketrans(
    "\N{MICRO SIGN}\N{GREEK SMALL LETTER MU}\N{MULTIPLICATION SIGN}\N{EN DASH}\N{EM DASH}"
    "\N{MINUS SIGN}\N{RIGHTWARDS ARROW}\N{HORIZONTAL ELLIPSIS}\N{PLUS-MINUS SIGN}\N{MIDDLE DOT}",
    "uux--->.~.",
)


def similar(text: str) -> str:
    r"""Return letters of ASCII for a text, as many: those that look alike, else question marks.

    >>> similar("\N{MICRO SIGN}s"), similar("\N{LATIN SMALL LETTER E WITH ACUTE}t\u6771")
    ('us', 'et?')
    """
    return "".join(map(_similar, text))


def _similar(letter: str) -> str:
    first = unicodedata.normalize("NFKD", letter.translate(_SIMILAR))[:1]
    return first if first.isascii() else "?"


def _substitute(error: UnicodeError) -> tuple[str, int]:
    if not isinstance(error, UnicodeEncodeError):
        raise error
    return similar(error.object[error.start : error.end]), error.end


def print_in_any_encoding() -> None:
    """Let standard output and standard error substitute the letters that their encodings lack."""
    codecs.register_error(_HANDLER, _substitute)
    for stream in (sys.stdout, sys.stderr):
        if (reconfigure := getattr(stream, "reconfigure", None)) is not None:
            reconfigure(errors=_HANDLER)
