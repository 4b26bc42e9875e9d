"""Counts of the words and names that `words.toml` limits: `python -m tests.words [--lower]`.

In pages (`*.md`) and notebooks only prose counts: code, in blocks or in backticks, does not, nor
does the history of changes. In Python files and scenarios everything counts.

A function is named by a bare participle if its name, without leading underscores, is one word
that ends in -ed or is an irregular participle. What counts are functions of modules and classes;
properties, fields and functions within functions do not. A name is shared if several modules
have a class of that name.
"""

import ast
import json
import re
import sys
import tomllib
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

from tests.conftest import ROOT

FILE = Path(__file__).with_name("words.toml")
CODE = re.compile(r"^```.*?^```$|`[^`\n]*`|<code>.*?</code>", re.DOTALL | re.MULTILINE)


def rules() -> dict[str, Any]:
    """Return the list of words, limits and names."""
    return tomllib.loads(FILE.read_text(encoding="utf-8"))


def texts(folder: str) -> Iterator[str]:
    """Yield the prose of the pages and notebooks in a folder; Python files and scenarios whole."""
    for path in sorted((ROOT / folder).rglob("*")):
        if path.suffix == ".md" and path.name != "changelog.md":
            yield CODE.sub("", path.read_text(encoding="utf-8"))
        elif path.suffix == ".ipynb":
            cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
            prose = ["".join(each["source"]) for each in cells if each["cell_type"] == "markdown"]
            yield CODE.sub("", "\n".join(prose))
        elif path.suffix in {".py", ".yaml"}:
            yield path.read_text(encoding="utf-8")


def counted(folder: str) -> dict[str, int]:
    """Return how often each word of the list is in a folder."""
    every = list(texts(folder))
    patterns = {name: word["is"] for name, word in rules()["words"].items()}
    return {
        name: sum(len(re.findall(rf"\b(?:{is_})\b", text, re.IGNORECASE)) for text in every)
        for name, is_ in patterns.items()
    }


@cache
def modules() -> dict[str, ast.Module]:
    """Return the syntax trees of all modules of fedsim."""
    paths = sorted((ROOT / "fedsim").rglob("*.py"))
    return {
        path.relative_to(ROOT).as_posix(): ast.parse(path.read_text(encoding="utf-8"))
        for path in paths
    }


def participles() -> list[str]:
    """Return the functions of fedsim that are named by a bare participle."""
    names = rules()["names"]
    found = []
    for path, module in modules().items():
        for part in _public(module):
            word = part.name.strip("_")
            regular = word.endswith("ed") and "_" not in word and word not in names["verbs"]
            if (regular or word in names["irregular"]) and not _is_property(part):
                found.append(f"{path}:{part.lineno} {part.name}")
    return found


def _public(
    part: ast.Module | ast.ClassDef,
) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    """Yield the functions of a module and the methods of its classes."""
    for each in part.body:
        if isinstance(each, ast.ClassDef):
            yield from _public(each)
        elif isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef):
            yield each


def _is_property(function: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    return any(
        "property" in ast.unparse(each) or ast.unparse(each).endswith(".setter")
        for each in function.decorator_list
    )


def shared() -> dict[str, int]:
    """Return the names that classes of several modules have, with how many have them."""
    counts = Counter(
        part.name
        for module in modules().values()
        for part in module.body
        if isinstance(part, ast.ClassDef)
    )
    return {name: count for name, count in sorted(counts.items()) if count > 1}


def main() -> None:
    """Print every count beside its limit; with --lower, lower each limit to its count."""
    given = rules()
    lines = FILE.read_text(encoding="utf-8")
    for folder, limits in given["limits"].items():
        counts = counted(folder)
        for name, count in counts.items():
            print(f"{folder:9} {name:10} {count:5} of {limits.get(name, 0)}")  # noqa: T201
        lower = {name: min(count, limits.get(name, 0)) for name, count in counts.items()}
        body = "".join(f"{name} = {limit}\n" for name, limit in lower.items() if limit)
        lines = re.sub(
            rf"(?m)^\[limits\.{folder}\]\n(?:\w+ = \d+\n)*", f"[limits.{folder}]\n{body}", lines
        )
    for name, count in (("participles", len(participles())), ("shared", len(shared()))):
        print(f"fedsim    {name:10} {count:5} of {given['names'][name]}")  # noqa: T201
        lines = re.sub(
            rf"(?m)^{name} = \d+$", f"{name} = {min(count, given['names'][name])}", lines
        )
    if "--lower" in sys.argv:
        FILE.write_text(lines, encoding="utf-8")


if __name__ == "__main__":
    main()
