"""Costs of a counted run in worlds: sampled values of its fleet's uncertain constants.

The worlds are those of `fedsim robust`. They depend on the fleet alone, so that all entries are
compared in the same ones. First come `DRAWN` worlds in which all constants vary together; then, for
each constant, the two in which it has the low and the high end of its interval, and all others are
as written.
"""

from collections.abc import Sequence
from functools import cache
from pathlib import Path

import numpy as np

from fedsim.addons.bench.rules import WORLD, named, names
from fedsim.addons.robustness.api import finished_runs, gather_runs
from fedsim.addons.robustness.design import Design
from fedsim.addons.robustness.pricing import hindrance
from fedsim.addons.robustness.pricing import price as price_in
from fedsim.addons.robustness.uncertain_inputs import constants_of
from fedsim.core.blocks.spec import Spec
from fedsim.core.errors import DataError
from fedsim.scenario import Scenario, load

DRAWN = 32
"""Worlds in which all constants of a fleet vary together: a power of two."""

_SEED = 1
_FIGURES = 5
"""Digits of a stored cost."""


def in_worlds(
    folder: str | Path, task: str, blocks: Sequence[type[Spec]] = ()
) -> dict[str, dict[str, list[float]]]:
    """Return what one run pays until the task's target in each world, to join its row.

    Args:
        folder: what `reprice` has written: one run on one fleet.
        task: its name.
        blocks: user-defined classes that the scenario names.

    Returns:
        "worlds": seconds and joules. Nothing if the run missed the target, or if its fleet needs a
        replay for each world: random slowdowns, losses, shared air, gateways.
    """
    ((column, value),) = named("tasks", task)["target"].items()
    try:
        (run,) = finished_runs(*gather_runs(folder, f"{column}={value}"))
    except DataError:  # the target was missed
        return {}
    original = run.original(tuple(blocks))
    design = _design(original.scenario)
    if design is None or hindrance(original):
        return {}
    costs = price_in(run, design.world(), design.count, tuple(blocks))
    places = _places(design)
    found = {"seconds": costs.t[places], "joules": costs.joules[places]}
    if not all(np.isfinite(own).all() for own in found.values()):  # a battery runs low in a world
        return {}
    digits = {
        clock: [float(f"{each:.{_FIGURES}g}") for each in own] for clock, own in found.items()
    }
    return {"worlds": digits}


def _design(scenario: Scenario) -> Design | None:
    constants = constants_of([scenario], {})
    return Design(constants, DRAWN, _SEED) if constants else None


def _places(design: Design) -> list[int]:
    """Return the worlds of a design that are stored."""
    lines = [design.line(number) for number in range(len(design.constants))]
    return [*range(DRAWN), *(place for line in lines for place in (line.start, line.stop - 1))]


@cache
def constants_on(fleet: str) -> tuple[str, ...]:
    """Return the names of the uncertain constants of a fleet, in the order of its worlds.

    Args:
        fleet: its name.
    """
    block = {key: own for key, own in named("fleets", fleet).items() if key in {"fleet", "network"}}
    # Constants depend neither on the task nor on the method, so that any will do.
    task = named("tasks", names("tasks")[0])["scenario"]
    method = {"algorithm": {"kind": "gd", "step_size": 1}, "stop": {"rounds": 1}}
    scenario = load({"name": fleet, **task, **method, **WORLD, **block}).variants[0].scenario
    return tuple(str(constant.key) for constant in constants_of([scenario], {}))
