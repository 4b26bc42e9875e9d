"""Writes plain trees as YAML, to the same characters as ruamel.yaml.

The library takes 20 ms for a scenario, as long as a short run does, and most of its scalars are the
same from scenario to scenario. So it writes each of these once, and lines are put together here.
"""

import json
from collections.abc import Iterator
from functools import lru_cache
from io import StringIO
from typing import Any

from ruamel.yaml import YAML


class _Unusual(Exception):
    """A tree that is left to the library: a part of it occurs twice, or fills several lines."""


def as_yaml(tree: dict[str, Any]) -> str:
    """Return a tree as YAML: a mapping of texts, numbers, None, lists and mappings.

    Example:
        >>> print(as_yaml({"name": "a", "seeds": [1, 2], "none": {}}), end="")
        name: a
        seeds:
        - 1
        - 2
        none: {}
    """
    # Line ends of Unicode's and the like are escaped: as they are, YAML folds them away.
    escaped = not json.dumps(tree, ensure_ascii=False).isprintable()
    try:
        lines = [f"{line}\n" for line in _lines(tree, set(), escaped=escaped)]
    except _Unusual:
        return _by_library(tree, escaped=escaped)
    return "".join(lines)


def _by_library(tree: object, *, escaped: bool) -> str:
    yaml = YAML(typ="safe", pure=True)
    yaml.default_flow_style = False
    yaml.width = 2**31  # a long text that is folded comes back with a blank in it
    yaml.sort_base_mapping_type_on_output = False  # type: ignore[assignment]  # untyped there
    yaml.allow_unicode = not escaped
    stream = StringIO()
    yaml.dump(tree, stream)
    return stream.getvalue()


def _lines(tree: object, seen: set[int], *, escaped: bool) -> Iterator[str]:
    """Yield the lines of a tree; a scalar has one, and what has no elements another."""
    if not isinstance(tree, dict | list):
        yield _scalar(type(tree).__name__, repr(tree), tree, escaped=escaped)
        return
    if id(tree) in seen:
        raise _Unusual  # the library would refer to the first occurrence
    seen.add(id(tree))
    if not tree:
        yield "{}" if isinstance(tree, dict) else "[]"
    elif isinstance(tree, dict):
        for key, value in tree.items():
            head, lines = _key(key, escaped=escaped), _lines(value, seen, escaped=escaped)
            if isinstance(value, dict | list) and value:
                yield f"{head}:"
                indent = "  " if isinstance(value, dict) else ""
                yield from (f"{indent}{line}" for line in lines)
            else:
                yield f"{head}: {next(lines)}"
    else:
        for value in tree:
            mark = "- "
            for line in _lines(value, seen, escaped=escaped):
                yield f"{mark}{line}"
                mark = "  "


@lru_cache(maxsize=4096)
def _scalar(_: str, __: str, value: object, *, escaped: bool) -> str:
    """Return a scalar as it stands after a key; type and `repr` tell 1 from True, and 0 from -0."""
    return _one_line(_by_library({"a": value}, escaped=escaped), "a: ", "")


@lru_cache(maxsize=4096)
def _key(key: str, *, escaped: bool) -> str:
    return _one_line(_by_library({key: 0}, escaped=escaped), "", ": 0")


def _one_line(text: str, before: str, after: str) -> str:
    if text.count("\n") > 1 or not text.startswith(before) or not text.endswith(f"{after}\n"):
        raise _Unusual
    return text[len(before) : len(text) - len(after) - 1]
