"""Makes a world that fails smaller, for as long as it fails in the same way."""

from collections.abc import Callable, Iterator
from copy import deepcopy

from .dice import Block

Path = tuple[str | int, ...]


def shrunk(world: Block, fails: Callable[[Block], bool], tries: int = 200) -> Block:
    """Return a world with blocks and keys left out that its failure does not need.

    Args:
        world: one that fails.
        fails: says whether a world fails in the same way.
        tries: how many worlds are played for that at most.
    """
    at = 0
    while tries > 0 and at < len(paths := list(_paths(world))):
        smaller = _without(world, paths[at])
        tries -= 1
        if fails(smaller):
            world = smaller
        else:
            at += 1
    return world


def _paths(block: object, head: Path = ()) -> Iterator[Path]:
    """Yield the path of everything that can be left out, the largest first."""
    if isinstance(block, dict):
        items = list(block.items())
    elif isinstance(block, list):
        items = list(enumerate(block))
    else:
        return
    for key, _ in items:
        if key != "kind" and (isinstance(block, dict) or len(block) > 1):
            yield (*head, key)
    for key, value in items:
        yield from _paths(value, (*head, key))


def _without(world: Block, path: Path) -> Block:
    smaller = deepcopy(world)
    block: Block = smaller
    for key in path[:-1]:
        block = block[key]  # type: ignore[index]  # a list's items go by number
    del block[path[-1]]  # type: ignore[arg-type]
    return smaller
