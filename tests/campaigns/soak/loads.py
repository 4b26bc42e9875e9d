"""What is gone through: one run of many events, one of many rounds, and many runs."""

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from shutil import rmtree
from typing import Any, ClassVar, Literal

import fedsim
from fedsim.core.ports import Array
from fedsim.problems import Measure, Observer, Problem

from .measuring import Sample, sample, young_only

SAMPLES = 200
"""How often a load is interrupted to be looked at, about."""

CLIENTS = 20
EVENTS = 142
"""The rows of the log of a round of so many: seven a client, and two of the server."""


class Held(Measure):
    """What the process holds when a round is looked at; `taken` has the samples.

    Attributes:
        each: what is done in a round that is looked at, and in those before it.
    """

    source: ClassVar[str] = "/proc/self"
    columns: ClassVar[tuple[str, ...]] = ()
    taken: ClassVar[list[Sample]] = []

    kind: Literal["held"] = "held"
    each: int

    def bind(self, problem: Problem) -> Observer:
        """Return what takes a sample."""

        def observe(_: Array) -> dict[str, float]:
            self.taken.append(sample(self.each * len(self.taken)))  # the first is of the start
            return {}

        return observe


def scenario(clients: int, rounds: int) -> dict[str, Any]:
    """Return one whose clients compute next to nothing."""
    data = {"kind": "sparse-linear", "clients": clients, "rows": 1, "features": 1, "ones": 1}
    return {
        "name": "soak",
        "problem": {"loss": "squared", "data": data, "split": "groups", "optimum": "unknown"},
        "algorithm": {"kind": "fedavg", "step_size": 1e-6},
        "fleet": [{"count": clients, "device": "pi-4", "radio": "wifi"}],
        "stop": {"rounds": rounds},
    }


def events(count: int, folder: Path, taken: list[Sample]) -> None:
    """Make one run with so many rows in its log, or a few more."""
    _one_run(scenario(CLIENTS, -(-count // EVENTS)), EVENTS, folder, taken)


def rounds(count: int, folder: Path, taken: list[Sample]) -> None:
    """Make one run of so many rounds."""
    _one_run(scenario(2, count), 1, folder, taken)


def runs(count: int, folder: Path, taken: list[Sample]) -> None:
    """Make so many runs, each of a call of its own into a folder of its own."""
    every = max(1, count // SAMPLES)
    for number in range(1, count + 1):
        fedsim.run({**scenario(2, 3), "seed": number}, out=folder / "runs")
        rmtree(folder / "runs")
        if number % every == 0:
            taken.append(sample(number))


def _one_run(block: dict[str, Any], each: int, folder: Path, taken: list[Sample]) -> None:
    every = max(1, block["stop"]["rounds"] // SAMPLES)
    held = {"kind": "held", "each": each * every}
    block = {**block, "measures": [held], "observe": {"every": every}}
    Held.taken = taken
    fedsim.run(block, out=folder, blocks=[Held])


def go_through(load: str, count: int, folder: Path) -> list[Sample]:
    """Go through a load; an interrupt ends it early.

    Args:
        load: one of `LOADS`.
        count: how many events, rounds or runs.
        folder: what is written goes there.
    """
    taken = list[Sample]()
    with young_only(), suppress(KeyboardInterrupt):
        LOADS[load](count, folder, taken)
    return taken


LOADS: dict[str, Callable[[int, Path, list[Sample]], None]] = {
    "events": events,
    "rounds": rounds,
    "runs": runs,
}
