"""A program whose trace must not depend on anything but itself; run it to see the trace.

It does what would show an order that hangs on addresses or on the hash seed: groups that
fail, sets of tasks that are walked, timeouts that tie, and processes in the same heap.
"""

import asyncio
import sys
from collections.abc import Generator
from typing import Any

import simpy

from fedsim.sim.engine.calendar import Calendar
from fedsim.sim.engine.loop import simulate

Trace = list[str]


async def worker(name: str, seconds: float, trace: Trace, env: Calendar) -> str:
    try:
        async with asyncio.timeout(2.0):
            await asyncio.sleep(seconds)
    except TimeoutError:
        trace.append(f"{env.now} {name} was late")
    except asyncio.CancelledError:
        trace.append(f"{env.now} {name} was cancelled")
        raise
    else:
        trace.append(f"{env.now} {name} was in time")
    return name


async def fail(seconds: float) -> None:
    await asyncio.sleep(seconds)
    raise ZeroDivisionError


def process(name: str, trace: Trace, env: Calendar) -> Generator[simpy.Event, Any, None]:
    for _ in range(5):
        yield env.timeout(0.5)
        trace.append(f"{env.now} {name} ticks")


async def main(trace: Trace, env: Calendar) -> None:
    for name in ("first", "second"):
        env.process(process(name, trace, env))
    try:
        async with asyncio.TaskGroup() as group:
            for n in range(40):
                group.create_task(worker(f"member-{n}", (n * 7 % 20) / 4, trace, env))
            group.create_task(fail(1.5))
    except* ZeroDivisionError:
        trace.append(f"{env.now} the group has failed")
    tasks = {asyncio.create_task(worker(f"one-{n}", 3.0 - n % 2, trace, env)) for n in range(30)}
    done, pending = await asyncio.wait(tasks, timeout=2.0)  # ties with half of them
    trace.extend(f"{env.now} done: {task.result()}" for task in done)
    for task in pending:
        task.cancel()
    for one in asyncio.as_completed(done):
        trace.append(f"{env.now} completed: {await one}")
    await asyncio.gather(*pending, return_exceptions=True)


def trace() -> Trace:
    """Run it and return what happened."""
    env, happened = Calendar(), Trace()
    simulate(main(happened, env), env)
    return happened


if __name__ == "__main__":
    # Let the hash seed move what is allocated from here on.
    ballast = [bytearray(64) for _ in range(hash("ballast") % 5000)]
    sys.stdout.write("\n".join(trace()))
