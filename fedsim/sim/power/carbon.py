"""Carbon: what prices the log of a fleet in grams."""

import numpy as np

from fedsim.physics.carbon import Intensity
from fedsim.record.emissions import Emissions
from fedsim.sim.on_demand import Runs
from fedsim.sim.setup import Member


def emissions_of(kinds: Runs[Member]) -> Emissions | None:
    """Return what prices the log of these clients; None where none of them has an intensity.

    Args:
        kinds: for each client one like it, of the same group.
    """
    found: dict[Intensity, int] = {}
    for _, kind in kinds.runs:
        if kind.carbon is not None:
            found.setdefault(kind.carbon, len(found))
    if not found:
        return None
    numbers = kinds.array(lambda kind: -1 if kind.carbon is None else found[kind.carbon])
    return Emissions(list(found), numbers.astype(np.intp))
