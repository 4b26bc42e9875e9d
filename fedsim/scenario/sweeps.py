"""Sweeps: several values of a key, each of which becomes a variant.

`sweep: {algorithm.censor: [0.01, 0.1], wire.up.compressor.fraction: {log: [0.01, 1, 5]}}` makes one
variant per combination of the values; the first key changes slowest. The sweep of a scenario also
applies to its variants, unless they have `sweep: null`.
"""

import re
from collections.abc import Callable, Collection, Iterator, Sequence
from itertools import product
from math import prod
from typing import NamedTuple

import numpy as np

from fedsim.algorithms import ALGORITHMS, Algorithm
from fedsim.core.blocks.catalogue import BlockCatalogue
from fedsim.core.blocks.wording import show
from fedsim.core.errors import Fault, ScenarioError
from fedsim.core.ports import Array
from fedsim.results.record.variants import BASE
from fedsim.scenario.located import Located, Origin, path_of
from fedsim.scenario.merging import Inherited, join_faults, none_inherited, place

MOST = 10_000
"""The largest number of variants of a sweep."""

_NO_PARAMETERS = ("name", "seed", "seeds", "variants", "baseline", "sweep")

_LONGEST = 100  # characters in the name of a variant, which is the name of a folder

_WANTED = (
    "give a list of values, or {log: [from, to, how many]} or {linear: [from, to, how many]}: "
    "at least one value"
)


class Point(NamedTuple):
    """One value of one key.

    Attributes:
        key: the key, such as "algorithm.censor".
        value: the value in the notation of a scenario.
    """

    key: str
    value: Located


def swept(
    trees: dict[str, Located], inherited: Inherited = none_inherited, unchanged: str = ""
) -> tuple[dict[str, Located], list[Fault]]:
    """Replace each variant that has a sweep by one variant per combination.

    Args:
        trees: variants by name, some with a key `sweep`.
        inherited: returns the keys that a method inherits from one of another kind.
        unchanged: the name of the unchanged scenario, whose faults name no variant.

    Returns:
        The variants by name, without sweeps, and faults.
    """
    every: dict[str, Located] = {}
    taken: set[str] = set()
    faults: dict[str, Sequence[Fault]] = {}
    for name, tree in trees.items():
        try:
            for point, combined in _combinations(tree, inherited):
                every[_free(_name(name, point), taken)] = combined
        except ScenarioError as error:
            faults[name] = error.faults
    # Variants that inherit the same faulty sweep report it once.
    return every, join_faults(faults, unchanged, len(trees))


def _combinations(
    tree: Located, inherited: Inherited
) -> Iterator[tuple[tuple[Point, ...], Located]]:
    """Yield each combination of a sweep, and the scenario with these values.

    Raises:
        ScenarioError: the sweep is malformed.
    """
    if not isinstance(tree.content, dict) or "sweep" not in tree.content:
        yield (), tree
        return
    content = dict(tree.content)
    sweep = content.pop("sweep")
    for points in product(*_axes(tree, sweep)):
        combined = Located(tree.origin, content)
        for point in points:
            combined = place(combined, path_of(point.key), point.value, inherited)
        yield points, combined


def _axes(tree: Located, sweep: Located) -> list[list[Point]]:
    """Return the points of each key.

    Raises:
        ScenarioError: the sweep is malformed, or has too many combinations.
    """
    if sweep.content is None:
        return []
    if not isinstance(sweep.content, dict):
        text = f"got {show(sweep.plain())}; give a block of keys, each with its values"
        raise ScenarioError([tree.fault(("sweep",), text)])
    axes, faults = [], []
    for key, written in sweep.content.items():
        try:
            _check_key(key)
            values = _values(written)
        except ValueError as error:
            faults.append(Fault(str(written.origin), f"sweep.{key}", str(error)))
        else:
            axes.append([Point(key, value) for value in values])
    count = prod(len(axis) for axis in axes)
    if not faults and count > MOST:
        text = f"stands for {count} scenarios; {MOST} is the most"
        faults.append(tree.fault(("sweep",), text))
    if faults:
        raise ScenarioError(faults)
    return axes


def _check_key(key: str) -> None:
    """Raise a ValueError if a key is not a parameter of a run."""
    if key.partition(".")[0] in _NO_PARAMETERS:
        text = "seeds are for all variants alike: seed and seeds at the top of the file"
        raise ValueError(text if key in ("seed", "seeds") else f"{key} is no parameter of a run")


def _values(written: Located) -> list[Located]:
    """Return the values of a key.

    Raises:
        ValueError: it is neither a list of values nor a valid range.
    """
    content = written.content
    if isinstance(content, list) and content:
        return content
    if isinstance(content, dict) and len(content) == 1:
        ((spacing, ends),) = content.items()
        if spacing in _SPACINGS:
            return _space(spacing, ends.plain(), written.origin)
    raise ValueError(f"got {show(written.plain())}; {_WANTED}")


def _space(spacing: str, ends: object, origin: Origin) -> list[Located]:
    """Return numbers between two ends, both included, rounded to 12 significant digits.

    Rounding gives 0.1 where NumPy's spacing computes 0.10000000000000002.
    """
    if not _is_range(ends, positive=spacing == "log"):
        first = "above 0" if spacing == "log" else "any"
        raise ValueError(
            f"got {_show_range(ends)}; give [from, to, how many]: two numbers, {first}, "
            f"and 2 to {MOST}"
        )
    assert isinstance(ends, list)  # noqa: S101 - checked above
    numbers = _SPACINGS[spacing](*map(float, ends[:2]), int(ends[2]))
    return [Located(origin, float(f"{number:.12g}")) for number in numbers]


def _show_range(ends: object) -> str:
    """Return a range in the notation of a scenario."""
    return f"[{', '.join(map(show, ends))}]" if isinstance(ends, list) else show(ends)


def _is_range(ends: object, *, positive: bool) -> bool:
    if not isinstance(ends, list) or len(ends) != 3:
        return False
    numbers = all(isinstance(end, int | float) and not isinstance(end, bool) for end in ends)
    if not numbers or not isinstance(ends[2], int) or not 2 <= ends[2] <= MOST:
        return False
    return not positive or min(ends[:2]) > 0


_SPACINGS: dict[str, Callable[..., Array]] = {"log": np.geomspace, "linear": np.linspace}


def _name(variant: str, points: tuple[Point, ...]) -> str:
    """Return a folder name for a combination, such as "hb_censor-0.1_fraction-0.5"."""
    parts = [f"{point.key.rpartition('.')[2]}-{_short_value(point.value)}" for point in points]
    parts = [re.sub(r"[^A-Za-z0-9._-]+", "-", part) for part in parts]
    # A combination of the base is named by its values alone.
    if variant != BASE or not parts:
        parts.insert(0, variant)
    return "_".join(parts)[:_LONGEST].rstrip("-")


def _short_value(value: Located) -> str:
    """Return a value as one word; for a block, its kind and numbers."""
    plain = value.plain()
    if isinstance(plain, dict):
        return "-".join(str(item) for item in plain.values() if not isinstance(item, dict | list))
    return f"{plain:g}" if isinstance(plain, float) else str(plain)


def _free(name: str, taken: set[str]) -> str:
    """Return a name that no other variant has, ignoring case, and reserve it."""
    number, free = 2, name
    # Some file systems ignore case, and the name becomes a folder.
    while free.casefold() in taken:
        # The six characters are for the underscore and a number of up to five digits.
        free = f"{name[: _LONGEST - 6]}_{number}"
        number += 1
    taken.add(free.casefold())
    return free


# The parameters that a method inherits from the method of its family that it replaces.


def families(known: BlockCatalogue) -> Inherited:
    """Return a function that returns the common parameters of two methods of one family.

    Args:
        known: the classes that a scenario can name.
    """

    def inherited(before: str, after: str) -> Collection[str]:
        one, other = known.find(ALGORITHMS, before), known.find(ALGORITHMS, after)
        if other is None:
            return ()
        if one is None:  # a misspelt kind: report this alone, and no missing keys
            return other.model_fields.keys()
        if not _are_related(one, other):
            return ()
        return one.model_fields.keys() & other.model_fields.keys()

    return inherited


def _are_related(one: type, other: type) -> bool:
    """Return whether two methods are one family: they share a file or a base class."""
    bases, other_bases = ({*method.__mro__} - {*Algorithm.__mro__} for method in (one, other))
    return one.__module__ == other.__module__ or bool(bases & other_bases)
