"""Trees of scenarios, changed where a reader may not expect it."""

import copy
from collections.abc import Callable, Iterator
from math import isfinite
from typing import Any

import numpy as np

Path = tuple[str | int, ...]
Tree = Any

SCALARS: tuple[Any, ...] = (
    *(None, True, False, 0, -1, 1, 2, 7, 1e-300, 5e-324, -0.0, 0.5, 1e308, -1e308),
    *(2**31, 2**63, 2**64, -(2**63), 10**18, 10**30, 10**400, 1.5, 3.0000001),
    *(float("nan"), float("inf"), float("-inf")),
    *("", " ", "nan", "inf", "1/L", "nan/L", "0/L", "-1/L", "1e400/L", "1/0", "1/K", "L"),
    *("5 Mbit/s", "-5 Mbit/s", "0 bit/s", "1e400 s", "nan s", "0 s", "1 parsec", "5 Mbit / s"),
    *("40 %", "400 %", "-1 %", "1e-320 J", "5 kJ", "1 s s", "s", "%", "5 5 s", "10 Wh", "1e309 W"),
    *(
        "\u202e",
        "\u0661",
        "\U0001f986",
        "\x1b[31m",
        "a" * 10_000,
        "9" * 5000,
        "\0",
        "\x85",
        "\ufeff",
    ),
    *("~", "<<", "2020-01-01", "0x10", "1_000", "0o17", "yes", "null", "base", "..", "../..", "/"),
    *("/dev/zero", "/dev/null", "/nowhere", "C:\\x", "{}", "[", "!!python/name:os.system", "*a"),
    *("constructor", "__class__", "model_config", "kind", "self", "problem.loss", "fleet.0.radio"),
)
"""What takes the place of a value."""


def _deep(depth: int, kind: str) -> Tree:
    tree: Tree = 1
    for _ in range(depth):
        tree = [tree] if kind == "list" else {"a": tree}
    return tree


def blocks() -> Iterator[Tree]:
    """Yield blocks and lists that take the place of a value."""
    yield from (
        [],
        {},
        [[]],
        [{}],
        {"kind": None},
        {"kind": "x"},
        {"kind": []},
        {"": 1},
        {"kind": {}},
    )
    yield from ([1] * 1000, [None] * 3, {str(i): i for i in range(500)}, [{"count": 1}] * 400)
    yield from (_deep(10, "list"), _deep(60, "list"), _deep(300, "list"), _deep(60, "block"))
    yield from ({"log": [1, 2, 3]}, {"linear": [0, 1, 10**9]}, {"log": [0, 1, 5]}, {"log": []})
    yield from ([float("nan")], ["\ud83e"], {"kind": "gd", "step_size": [1]}, {"a.b": 1}, {"0": 1})


BLOCKS = tuple(blocks())


def places(tree: Tree, path: Path = ()) -> Iterator[Path]:
    """Yield the paths of all values of a tree but itself."""
    pairs = (
        tree.items()
        if isinstance(tree, dict)
        else enumerate(tree)
        if isinstance(tree, list)
        else ()
    )
    for key, value in pairs:
        yield (*path, key)
        yield from places(value, (*path, key))


def at(tree: Tree, path: Path) -> Tree:
    """Return the value at a path."""
    for key in path:
        tree = tree[key]
    return tree


class Changes:
    """Changes trees.

    Args:
        trees: from which kinds, keys and blocks are taken.
    """

    def __init__(self, trees: list[Tree]) -> None:
        every = [(path, at(tree, path)) for tree in trees for path in places(tree)]
        self._keys = sorted({str(path[-1]) for path, _ in every if isinstance(path[-1], str)})
        self._kinds = sorted({str(value) for path, value in every if path[-1] == "kind"})
        self._parts = [value for _, value in every]
        self._all: tuple[Callable[[Tree, Path, np.random.Generator], None], ...] = (
            *[self._other_value] * 5,
            *[self._scaled] * 2,
            *[self._other_kind] * 2,
            self._other_block,
            self._part,
            self._gone,
            self._renamed,
            self._further_key,
            self._wrapped,
            self._swapped,
            self._grown,
        )

    def changed(self, tree: Tree, rng: np.random.Generator) -> Tree:
        """Return a copy of a tree with one change, or a few."""
        tree = copy.deepcopy(tree)
        for _ in range(int(rng.choice([1, 1, 1, 2, 4]))):
            paths = list(places(tree))
            if not paths:
                break
            change = self._all[int(rng.integers(len(self._all)))]
            change(tree, paths[int(rng.integers(len(paths)))], rng)
        return tree

    def _other_value(self, tree: Tree, path: Path, rng: np.random.Generator) -> None:
        at(tree, path[:-1])[path[-1]] = SCALARS[int(rng.integers(len(SCALARS)))]

    def _other_block(self, tree: Tree, path: Path, rng: np.random.Generator) -> None:
        at(tree, path[:-1])[path[-1]] = copy.deepcopy(BLOCKS[int(rng.integers(len(BLOCKS)))])

    def _part(self, tree: Tree, path: Path, rng: np.random.Generator) -> None:
        part = self._parts[int(rng.integers(len(self._parts)))]
        at(tree, path[:-1])[path[-1]] = copy.deepcopy(part)

    def _scaled(self, tree: Tree, path: Path, rng: np.random.Generator) -> None:
        value = at(tree, path)
        if isinstance(value, int | float):
            factor = float(rng.choice([-1, 0, 0.1, 10, 1e3, 1e6, 1e12, 1e-9]))
            scaled = (
                value * factor if abs(value) < 1e290 else -value
            )  # an integer may be larger than any float
            whole = isinstance(value, int) and isfinite(scaled)
            at(tree, path[:-1])[path[-1]] = int(scaled) if whole else scaled
        else:
            self._other_value(tree, path, rng)

    def _other_kind(self, tree: Tree, path: Path, rng: np.random.Generator) -> None:
        value, kind = at(tree, path), self._kinds[int(rng.integers(len(self._kinds)))]
        if isinstance(value, dict):
            value["kind"] = kind
        else:
            at(tree, path[:-1])[path[-1]] = kind if rng.random() < 0.5 else {"kind": kind}

    def _gone(self, tree: Tree, path: Path, rng: np.random.Generator) -> None:
        del at(tree, path[:-1])[path[-1]]

    def _renamed(self, tree: Tree, path: Path, rng: np.random.Generator) -> None:
        around = at(tree, path[:-1])
        if isinstance(around, dict):
            key = str(path[-1])
            others = (
                key[:-1],
                key.upper(),
                f"{key} ",
                f"{key}.a",
                "",
                "\u202e",
                key.replace("_", "-"),
            )
            around[others[int(rng.integers(len(others)))]] = around.pop(path[-1])

    def _further_key(self, tree: Tree, path: Path, rng: np.random.Generator) -> None:
        value = at(tree, path)
        if isinstance(value, dict):
            part = self._parts[int(rng.integers(len(self._parts)))]
            value[self._keys[int(rng.integers(len(self._keys)))]] = copy.deepcopy(part)

    def _wrapped(self, tree: Tree, path: Path, rng: np.random.Generator) -> None:
        value = at(tree, path)
        others = ([value], {"kind": value}, {path[-1]: value}, [value, value])
        at(tree, path[:-1])[path[-1]] = copy.deepcopy(others[int(rng.integers(len(others)))])

    def _swapped(self, tree: Tree, path: Path, rng: np.random.Generator) -> None:
        around = at(tree, path[:-1])
        keys = list(around) if isinstance(around, dict) else list(range(len(around)))
        other = keys[int(rng.integers(len(keys)))]
        around[path[-1]], around[other] = around[other], around[path[-1]]

    def _grown(self, tree: Tree, path: Path, rng: np.random.Generator) -> None:
        value = at(tree, path)
        if isinstance(value, list) and len(value) < 50:
            value *= int(rng.choice([2, 10, 300]))
        elif isinstance(value, str) and len(value) < 1000:
            at(tree, path[:-1])[path[-1]] = value * int(rng.choice([2, 50]))
