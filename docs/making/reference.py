"""The pages under docs/reference: every public name, described by its docstring.

What is public is said by the table of docs/modules.md. A name that several modules give is
described once, on the page of the first; the others link to it. Sources are read, not imported, so
no extra of fedsim is needed.
"""

import re
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path

import griffe

_DOCS = Path(__file__).parents[1]
_ROW = re.compile(r"^\| `(fedsim[\w.]*)` \| (.*?) \| (.*?) \|$", re.MULTILINE)
_FIRST = "fedsim.core.errors"
"""The module whose names are described on its own page, though `fedsim` gives them, too."""


@cache
def public() -> Mapping[str, tuple[str, ...]]:
    """Return the names of every public module, as docs/modules.md lists them."""
    rows = _ROW.findall((_DOCS / "modules.md").read_text(encoding="utf-8"))
    return {module: tuple(re.findall(r"`(\w+)`", names)) for module, names, _ in rows}


_READ: list[griffe.ModulesCollection] = []


def take(package: griffe.Module) -> None:
    """Take the sources as another has read them, which is most of the work."""
    _READ.append(package.modules_collection)


def _sources() -> griffe.ModulesCollection:
    if not _READ:
        loader = griffe.GriffeLoader(search_paths=[str(_DOCS.parent)])
        loader.load("fedsim")
        take(loader.modules_collection["fedsim"])
    return _READ[0]


def source_of(path: str) -> griffe.Object:
    """Return what a public path names, where it is defined."""
    found = _sources()[path]
    return found.final_target if isinstance(found, griffe.Alias) else found


@cache
def homes() -> Mapping[str, str]:
    """Return the path that is described for each public one, as "fedsim.core.ports.Server"."""
    first: dict[str, str] = {}
    for module in sorted(public(), key=lambda module: module != _FIRST):
        for name in public()[module]:
            first.setdefault(source_of(f"{module}.{name}").path, f"{module}.{name}")
    paths = [f"{module}.{name}" for module, names in public().items() for name in names]
    return {path: first[source_of(path).path] for path in paths}


def described(module: str) -> list[str]:
    """Return the names that the page of a module describes: functions, classes, constants."""
    own = [name for name in public()[module] if homes()[f"{module}.{name}"] == f"{module}.{name}"]
    return sorted(own, key=lambda name: (_rank(source_of(f"{module}.{name}")), name.lower()))


def _rank(each: griffe.Object) -> int:
    return 0 if each.is_function else 1 if each.is_class else 2


def file_of(module: str) -> str:
    """Return the file of a module's page."""
    return f"{module.removeprefix('fedsim.')}.md"


def place_of(path: str) -> str:
    """Return the page, below docs/reference, and the anchor that describe a public path."""
    home = homes()[path]
    return f"{file_of(home.rpartition('.')[0])}#{home}"


def reference_pages() -> dict[Path, str]:
    """Return the pages, of all modules that describe a name themselves."""
    return {
        _DOCS / "reference" / file_of(module): "\n".join(_page(module)) + "\n"
        for module in public()
        if described(module)
    }


def _page(module: str) -> Iterator[str]:
    """Yield the lines of a page: a table that links all names, then what is described here."""
    own = described(module)
    elsewhere = [name for name in public()[module] if name not in own]
    yield from (
        f"# {module}",
        "",
        _summary(source_of(module)),
        "",
        "| name | meaning |",
        "|---|---|",
    )
    for name in (*own, *elsewhere):
        path = f"{module}.{name}"
        link = f"#{path}" if name in own else place_of(path)
        yield f"| [`{name}`]({link}) | {_summary(source_of(path))} |"
    for name in own:
        yield from ("", f"::: {module}.{name}")


def _summary(each: griffe.Object) -> str:
    """Return the first paragraph of a docstring as a cell of a table."""
    text = each.docstring.value.partition("\n\n")[0] if each.docstring else ""
    text = re.sub(r"^fedsim(\.\w+)*: (\w)", lambda found: found[2].upper(), " ".join(text.split()))
    return text.replace("|", "\\|").replace("<", "&lt;").replace("*", "\\*")
