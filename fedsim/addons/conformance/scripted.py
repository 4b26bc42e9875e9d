"""A world whose rates and whose clients' availability are written in the test."""

from collections.abc import Iterable, Mapping, Sequence
from math import inf
from typing import Any, Literal

import numpy as np
from pydantic import Field

from fedsim.core.blocks.spec import Spec
from fedsim.physics.availability import Availability, Timeline
from fedsim.physics.radios.traces import Trace, TraceReader
from fedsim.physics.signals import Steps
from fedsim.results.result import Result
from fedsim.running.api import run
from fedsim.running.run import ignore_progress

Pieces = Sequence[tuple[float, float]]
"""Constant pieces of a rate: the time at which each begins, s, and the rate, bit/s."""


class GivenTrace(Trace):
    """A rate in constant pieces."""

    kind: Literal["given-trace"] = Field(default="given-trace", description="a rate in pieces")
    pieces: tuple[tuple[float, float], ...] = Field(description="times in s, rates in bit/s")
    period: float | None = Field(default=None, gt=0, description="when the pieces repeat, s")

    def rate(self, read: TraceReader) -> Steps:
        """Return the rate, bit/s."""
        times, rates = zip(*self.pieces, strict=True)
        return Steps(times, rates, inf if self.period is None else self.period)


class GivenAvailability(Availability):
    """A client that leaves and returns at given times."""

    kind: Literal["given-availability"] = Field(
        default="given-availability", description="at given times"
    )
    changes: tuple[float, ...] = Field(description="when it leaves, returns, leaves, ..., s")

    def timeline(self, rng: np.random.Generator) -> Timeline:
        """Return the timeline of one client."""
        return True, iter(self.changes)


def run_given(
    scenario: Mapping[str, Any],
    rate: Pieces,
    *,
    period: float | None = None,
    changes: Iterable[float] = (),
    clients: int = 1,
    blocks: Sequence[type[Spec]] = (),
) -> Result:
    """Run a scenario on clients whose rate and availability are given.

    A client computes 1 Gflop/s. Its radio has the given rate in both directions, and no latency.

    Args:
        scenario: as for `fedsim.run`, without a fleet.
        rate: the pieces, from time 0 on.
        period: after which they repeat, s; None where the last piece lasts.
        changes: the times at which the clients leave, return, leave and so on, s.
        clients: how many there are.
        blocks: user-defined classes that the scenario names.

    Raises:
        ScenarioError: the scenario, or the trace, is wrong.

    Example:
        >>> given = run_given(scenario, rate=[(0, 2e6)], clients=3)
        >>> len(given.clients)
        3
    """
    trace = {"kind": "given-trace", "pieces": [list(piece) for piece in rate], "period": period}
    group = {
        "count": clients,
        "device": {"kind": "custom", "speed": "1 Gflop/s", "active": "2 W", "idle": "1 W"},
        "radio": {"kind": "wifi", "latency": "0 s", "up_trace": trace, "down_trace": trace},
    }
    away = [float(change) for change in changes]
    if away:
        group["availability"] = {"kind": "given-availability", "changes": away}
    known: tuple[type[Spec], ...] = (GivenTrace, GivenAvailability, *blocks)
    return run({**scenario, "fleet": [group]}, blocks=known, watch=ignore_progress)
