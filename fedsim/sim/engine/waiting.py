"""Who waits, and where, when nothing will ever happen again."""

import asyncio
from collections.abc import Hashable, Iterable
from typing import Any, Protocol

_MOST_REPORTED = 20


class Waiting(Hashable, Protocol):
    """What is told of a task: one of asyncio's, or one that does as they do.

    Tasks that hash by their number in their loop are put in order by it.
    """

    def done(self) -> bool:
        """Tell whether it waits for nothing any more."""
        ...

    def get_name(self) -> str:
        """Return its name."""
        ...

    def get_coro(self) -> Any:  # noqa: ANN401 - a coroutine, a generator or nothing
        """Return what it runs, if anything."""
        ...


def who_waits(tasks: Iterable[Waiting], now: float) -> str:
    """Name every task that is not done, and where it waits; `now` in seconds."""
    waiting = sorted((task for task in tasks if not task.done()), key=_place)
    lines = [f"  {task.get_name()} waits in {_where(task)}" for task in waiting]
    more = len(lines) - _MOST_REPORTED
    shown = lines[:_MOST_REPORTED] + ([f"  ... and {more} more"] if more > 0 else [])
    head = f"nothing is scheduled after t = {now:g} s, yet {len(waiting)} task(s) wait:"
    return "\n".join([head, *shown])


def _place(task: Waiting) -> tuple[int, str]:
    """Return what puts tasks in order: those that hash by their address come first, by name."""
    by_address = type(task) is asyncio.Task
    return (0, task.get_name()) if by_address else (hash(task), "")


def _where(task: Waiting) -> str:
    """Describe the chain of coroutines that a task is suspended in, outermost first."""
    chain: list[str] = []
    waiting: Any = task.get_coro()
    while hasattr(waiting, "cr_frame"):
        frame = waiting.cr_frame
        line = f":{frame.f_lineno}" if frame else ""
        chain.append(f"{waiting.__qualname__}{line}")
        waiting = waiting.cr_await
    return " > ".join(chain) or repr(waiting)
