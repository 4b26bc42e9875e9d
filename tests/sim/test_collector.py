"""While a world runs the garbage collector looks less often, and afterwards as before."""

import asyncio
import gc
import weakref
from collections.abc import Iterator

import pytest

from fedsim.core.errors import Deadlock
from fedsim.sim.engine.loop import simulate


@pytest.fixture(autouse=True)
def unchanged() -> Iterator[None]:
    before = gc.get_threshold()
    yield
    gc.set_threshold(*before)


async def thresholds() -> tuple[int, int, int]:
    return gc.get_threshold()


def test_it_looks_less_often_and_then_as_before() -> None:
    gc.set_threshold(700, 10, 10)
    assert all(
        own > before for own, before in zip(simulate(thresholds()), (700, 10, 10), strict=True)
    )
    assert gc.get_threshold() == (700, 10, 10)


def test_it_looks_as_before_after_a_run_that_fails() -> None:
    async def for_ever() -> None:
        await asyncio.get_running_loop().create_future()

    gc.set_threshold(701, 11, 12)
    with pytest.raises(Deadlock):
        simulate(for_ever())
    assert gc.get_threshold() == (701, 11, 12)


def test_who_has_it_look_less_often_still_keeps_that() -> None:
    gc.set_threshold(10**6, 10**4, 10**5)
    assert simulate(thresholds()) == (10**6, 10**4, 10**5)


def test_who_has_turned_it_off_keeps_it_off() -> None:
    gc.set_threshold(0)
    assert simulate(thresholds())[0] == 0


def test_cycles_that_handlers_leave_are_freed_while_the_world_runs() -> None:
    class Node:
        other: "Node"

    async def main() -> int:
        first = Node()
        first.other = first
        seen = weakref.ref(first)
        del first
        made = 0
        while seen() is not None:
            node = Node()
            node.other = node
            made += 1
            await asyncio.sleep(1.0)
        return made

    assert simulate(main()) < 200_000
