"""Alarms: what is waited for by who waits until a time in a task of asyncio."""

import asyncio

from fedsim.sim.engine.loop import SimLoop


def alarm(loop: SimLoop, when: float) -> "asyncio.Future[None]":
    """Return what is done at the time `when`, for who waits in a task of asyncio."""
    future: asyncio.Future[None] = asyncio.Future(loop=loop)
    loop.calendar.call(when, _ring, future)
    return future


class Alarms:
    """Lets those wait who are in tasks of asyncio.

    Args:
        loop: that they run on.
    """

    def __init__(self, loop: SimLoop) -> None:
        self._loop = loop

    def until(self, when: float) -> "asyncio.Future[None]":
        """Wait until a time."""
        return alarm(self._loop, when)


def _ring(future: "asyncio.Future[None]") -> None:
    """Wake up who waits for a time, unless it was cancelled meanwhile."""
    if not future.done():
        future.set_result(None)
