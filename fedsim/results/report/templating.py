"""Templates of pages: their environment, their files, and the hash under which a script may run."""

import base64
import hashlib
import re
from importlib import resources

from jinja2 import Environment, PackageLoader, StrictUndefined

from fedsim.core.text import visible
from fedsim.results.analysis.style import (
    COLOURS,
    DEVICE_COLOURS,
    OUTCOME_COLOURS,
    PART_COLOURS,
)

_END = re.compile("</(?=script)", re.IGNORECASE)  # what would end a script within its own text


_PALETTES = {"c": COLOURS, "d": DEVICE_COLOURS, "o": OUTCOME_COLOURS.values()}
"""The first letter of the names of each palette's colours."""

_INK = {PART_COLOURS["idle"].lower(): "var(--idle)", "#ffffff": "var(--paper)"}
_INK["#bbbbbb"] = "var(--rest)"
_INK |= dict.fromkeys(("#444444", "#666666", "#b0b0b0"), "var(--off)")
_INK |= {
    colour.lower(): f"var(--{letter}{number})"
    for letter, colours in _PALETTES.items()
    for number, colour in enumerate(colours)
}


def ink(colour: str) -> str:
    """Return a colour as the page has it, which is another one in the dark.

    >>> ink("#0072B2"), ink("#bbbbbb"), ink("#123456"), ink("none")
    ('var(--c0)', 'var(--rest)', '#123456', 'none')
    """
    return _INK.get(colour.lower(), colour)


def environment(package: str) -> Environment:
    """Return the environment of the templates of a package: texts are escaped and visible."""
    return Environment(
        loader=PackageLoader(package),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=_show,
    )


def _show(value: object) -> object:
    """Return what a page shows of a value; markup of its own making stays as it is."""
    return visible(value) if type(value) is str else value


def asset(package: str, name: str) -> str:
    """Return a file beside the templates of a package."""
    return (resources.files(package) / "templates" / name).read_text("utf-8")


def script_hash(script: str) -> str:
    """Return the hash under which a page allows a script: no other one can run in it.

    Raises:
        ValueError: the script would end within its own text.
    """
    if _END.search(script):
        raise ValueError("a script that ends itself cannot stand in a page")
    return base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()


def palette() -> str:
    """Return the declarations of colours that have a name in the page's style."""
    every = [colour for colours in _PALETTES.values() for colour in colours]
    return " ".join(f"{ink(each)[4:-1]}: {each};" for each in every)
