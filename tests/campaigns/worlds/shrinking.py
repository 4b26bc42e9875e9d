"""Makes a world that fails smaller, for as long as it fails in the same way."""

from collections.abc import Callable, Iterator
from copy import deepcopy
from itertools import islice

from .dice import Block

Path = tuple[str | int, ...]
Fails = Callable[[Block], bool]


def shrunk(world: Block, fails: Fails, tries: int = 400) -> Block:
    """Return a world without what its failure does not need, and with smaller numbers.

    First blocks and keys are left out, the largest first, until none can be; then whole numbers
    are made smaller.

    Args:
        world: one that fails.
        fails: says whether a world fails in the same way.
        tries: how many worlds are played for that at most.
    """
    before: Block = {}
    while before != world and tries > 0:
        before = world
        for change in (_left_out, _lessened):
            world, tries = _smaller(world, fails, tries, change)
    return world


def _smaller(
    world: Block, fails: Fails, tries: int, change: Callable[[Block], Iterator[Block]]
) -> tuple[Block, int]:
    """Return the world after all changes of a kind that let it fail as before; tries are left."""
    at = 0
    while tries > 0:
        changed = next(islice(change(world), at, None), None)
        if changed is None:
            break
        tries -= 1
        if fails(changed):
            world = changed
        else:
            at += 1
    return world, tries


def _left_out(world: Block) -> Iterator[Block]:
    """Yield the world without each of what can be left out, the largest first."""
    for path in (path for path, _ in _paths(world) if path[-1] != "kind"):
        smaller, block = _copied(world, path)
        del block[path[-1]]  # type: ignore[arg-type]
        yield smaller


def _lessened(world: Block) -> Iterator[Block]:
    """Yield the world with each of its whole numbers at 1, and at half of what it is."""
    for path, value in _paths(world):
        if type(value) is int and value > 1:
            for less in dict.fromkeys((1, value // 2)):
                smaller, block = _copied(world, path)
                block[path[-1]] = less  # type: ignore[index]
                yield smaller


def _paths(block: object, head: Path = ()) -> Iterator[tuple[Path, object]]:
    """Yield the path of everything that can be changed, with its value, the largest first."""
    if isinstance(block, dict):
        items = list(block.items())
    elif isinstance(block, list):
        items = list(enumerate(block))
    else:
        return
    for key, value in items:
        if isinstance(block, dict) or len(block) > 1:
            yield (*head, key), value
    for key, value in items:
        yield from _paths(value, (*head, key))


def _copied(world: Block, path: Path) -> tuple[Block, Block]:
    """Return a copy of a world, and the block in it that the end of a path is in."""
    smaller = deepcopy(world)
    block: Block = smaller
    for key in path[:-1]:
        block = block[key]  # type: ignore[index]  # a list's items go by number
    return smaller, block
