"""Overrides without effect: a value that is set where every variant has one of its own."""

from collections.abc import Iterator, Sequence

from fedsim.blocks.wording import format_path
from fedsim.errors import Fault, ScenarioError
from fedsim.scenario.located import Located, Origin, path_of
from fedsim.scenario.merging import OF_THE_WHOLE, OPTION, Inherited, place, variants
from fedsim.scenario.sweeps import swept

_MARK = "\0set"
"""A value that no scenario has, which stands for one that is set."""

_WHOLE = (*OF_THE_WHOLE, "sweep")
"""Keys that say which variants there are: what they do is seen in their number."""


def without_effect(
    tree: Located, overrides: Sequence[str], inherited: Inherited
) -> Iterator[Fault]:
    """Yield a fault for each override of which no variant takes the value.

    A sweep sets the same key for all of them then. Of two overrides of one key the last wins.

    Args:
        tree: the scenario as written, on which all overrides lie.
        overrides: "key.path=value" texts, each of which is well formed.
        inherited: as for `merge`.
    """
    paths = [path_of(text.partition("=")[0]) for text in overrides]
    for number, (text, path) in enumerate(zip(overrides, paths, strict=True)):
        if path[0] in _WHOLE:
            continue
        replaced = any(path[: len(each)] == each for each in paths[number + 1 :])  # the last wins
        if not replaced and not _is_taken(tree, path, inherited):
            why = "the sweep sets it for each of them"
            origin = str(Origin(f"{OPTION} {text}"))
            yield Fault(
                origin, format_path(path), f"no variant takes this value: {why}; leave it out"
            )


def _is_taken(tree: Located, path: Sequence[str], inherited: Inherited) -> bool:
    """Return whether a value at a path of the scenario as written is in any of its variants."""
    try:
        marked = place(tree, path, Located(Origin(), _MARK), inherited)
    except ScenarioError:  # which is reported elsewhere
        return True
    trees, wrong = variants(marked, inherited)
    trees, more = swept(trees, inherited)
    return bool(wrong or more) or any(_MARK in _scalars(each) for each in trees.values())


def _scalars(tree: Located) -> Iterator[object]:
    match tree.content:
        case dict():
            for piece in tree.content.values():
                yield from _scalars(piece)
        case list():
            for piece in tree.content:
                yield from _scalars(piece)
        case _:
            yield tree.content
