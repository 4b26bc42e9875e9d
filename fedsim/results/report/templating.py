"""Templates of pages: their environment, their files, and the hash under which a script may run."""

import base64
import hashlib
import re
from collections.abc import Iterable
from importlib import resources

from jinja2 import Environment, PackageLoader, StrictUndefined

from fedsim.core.text import visible
from fedsim.results.report.svg import ink

_END = re.compile("</(?=script)", re.IGNORECASE)  # what would end a script within its own text


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


def palette(colours: Iterable[str]) -> str:
    """Return the declarations of colours that have a name in the page's style."""
    return " ".join(f"{ink(each)[4:-1]}: {each};" for each in colours)
