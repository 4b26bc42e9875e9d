"""How does the cost of a star grow with the number of transfers that share the server's link?

So many transfers of distinct sizes start at once over one link. It is shared anew whenever
one of them ends, so n transfers cost n sharings; the question is what a sharing costs. The
unit is the star of 100, measured in the same run, in turn with the others. Links are shared
by what `bearers` would choose, by the general fluid network, and by the fluid network with
every transfer watched, as on clients with batteries: then each update reports n rates.

    python analysis/benchmarks/star_scaling.py
"""

import statistics
import time
from collections.abc import Callable, Sequence
from functools import partial
from math import inf
from typing import Any

from fedsim.physics.radios import ConstantRate
from fedsim.sim.engine.calendar import Calendar
from fedsim.sim.network.fluid import Fluid
from fedsim.sim.network.processor_sharing import FairLink

UNIT, SIZES, REPEATS = 100, (1000, 3000), 7
CAPACITY = 1e6

Add = Callable[[Calendar, Sequence[float], Callable[[Any], None]], None]
"""Starts transfers of so many bits, each with its number as its token."""


def over_a_fair_link(
    calendar: Calendar, sizes: Sequence[float], end: Callable[[Any], None]
) -> None:
    """Let all share a link that does nothing else."""
    link = FairLink(calendar, CAPACITY)
    for number, bits in enumerate(sizes):
        link.add(bits, inf, end, number)


def over_the_fluid_network(
    calendar: Calendar,
    sizes: Sequence[float],
    end: Callable[[Any], None],
    changed: Callable[[Any, float], None] | None = None,
) -> None:
    """Let all share a link of the fluid network."""
    fluid = Fluid(calendar)
    path = fluid.path([fluid.link(ConstantRate(CAPACITY))])
    for number, bits in enumerate(sizes):
        fluid.add(path, bits, inf, end, number, changed)


def nothing(token: object, rate: float) -> None:
    """Record a rate."""


CASES: dict[str, Add] = {
    "fair link": over_a_fair_link,
    "fluid network": over_the_fluid_network,
    "fluid network, watched": partial(over_the_fluid_network, changed=nothing),
}


def star(add: Add, transfers: int) -> list[int]:
    """Let transfers of distinct sizes, the largest first, pass; return the order of their ends."""
    calendar, ended = Calendar(), list[int]()
    add(calendar, [1000.0 * (transfers - n) for n in range(transfers)], ended.append)
    calendar.run()
    return ended


def seconds(job: Callable[[], object]) -> float:
    """Return the processor time of a job."""
    start = time.process_time()
    job()
    return time.process_time() - start


def main() -> None:
    """Print what a star costs, in stars of 100."""
    for name, add in CASES.items():
        for size in SIZES:
            ratios, costs = [], []
            for _ in range(REPEATS):
                unit = statistics.median([seconds(partial(star, add, UNIT)) for _ in range(5)])
                costs.append(seconds(partial(star, add, size)))
                ratios.append(costs[-1] / unit)
            print(
                f"{name}: {size} transfers cost {statistics.median(ratios):.1f} times as much as "
                f"{UNIT} ({min(ratios):.1f} to {max(ratios):.1f}), "
                f"{1e6 * statistics.median(costs) / size:.1f} us each"
            )


if __name__ == "__main__":
    main()
