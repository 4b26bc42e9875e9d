"""Links under Poisson arrivals, against the closed forms of queueing theory.

Seeds are fixed, so a test passes or fails for good; intervals are of batch means, at 99.9 %.
"""

from collections.abc import Callable
from math import inf
from typing import Any

import numpy as np
import pytest
from scipy.stats import t as student

from fedsim.core.ports import Array
from fedsim.physics.radios import ConstantRate
from fedsim.sim.engine.calendar import Calendar
from fedsim.sim.network.fluid import Fluid
from fedsim.sim.network.processor_sharing import FairLink

LOAD = 0.7
BATCHES = 40

Sizes = Callable[[np.random.Generator, int], Array]


def constant(_: np.random.Generator, count: int) -> Array:
    return np.ones(count)


def mixed(rng: np.random.Generator, count: int) -> Array:
    """Mostly small, a few large: mean 1, mean square 6.5."""
    return rng.exponential(np.where(rng.random(count) < 0.1, 5.5, 0.5))


def sojourns(kind: str, arrivals: Array, sizes: Array) -> Array:
    """Return how long each transfer takes over a link of 1 bit/s."""
    env = Calendar()
    ended = np.full(len(arrivals), inf)
    fair, fluid = FairLink(env, 1.0), Fluid(env)
    path = fluid.path([fluid.link(ConstantRate(1.0), "fifo" if kind == "fifo" else "fair")])

    def end(n: Any) -> None:
        ended[n] = env.now

    def start(n: int) -> None:
        if kind == "fair link":
            fair.add(float(sizes[n]), inf, end, n)
        else:
            fluid.add(path, float(sizes[n]), inf, end, n)

    for n, moment in enumerate(arrivals.tolist()):
        env.at(moment, start, n)
    env.run()
    return ended - arrivals


def interval(times: Array) -> tuple[float, float]:
    """Return mean and half-width, the first batch left out: the link was empty at first."""
    means = times.reshape(BATCHES, -1)[1:].mean(axis=1)
    width = student.ppf(0.9995, len(means) - 1) * means.std(ddof=1) / np.sqrt(len(means))
    return float(means.mean()), float(width)


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "count"), [("fair link", 40_000), ("fluid", 16_000)])
@pytest.mark.parametrize("sizes", [constant, mixed], ids=["constant", "mixed"])
def test_the_mean_time_under_processor_sharing_depends_on_the_mean_size_alone(
    kind: str, count: int, sizes: Sizes
) -> None:
    rng = np.random.default_rng(20)
    arrivals = np.cumsum(rng.exponential(1 / LOAD, count))
    mean, width = interval(sojourns(kind, arrivals, sizes(rng, count)))
    assert width < 0.25 * mean
    assert mean == pytest.approx(1.0 / (1.0 - LOAD), abs=width)


@pytest.mark.slow
@pytest.mark.parametrize("sizes", [constant, mixed], ids=["constant", "mixed"])
def test_the_mean_wait_in_a_fifo_queue_grows_with_the_variance(sizes: Sizes) -> None:
    # Pollaczek and Khinchine: E[T] = E[S] + lambda E[S^2] / (2 (1 - rho)).
    rng = np.random.default_rng(21)
    arrivals = np.cumsum(rng.exponential(1 / LOAD, 40_000))
    second = 1.0 if sizes is constant else 6.5
    mean, width = interval(sojourns("fifo", arrivals, sizes(rng, 40_000)))
    assert width < 0.25 * mean
    assert mean == pytest.approx(1.0 + LOAD * second / (2 * (1 - LOAD)), abs=width)
