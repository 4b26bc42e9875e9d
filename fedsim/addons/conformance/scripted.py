"""A world with rates and availability set by a test."""

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
"""Pieces of constant rate: the time at which a piece begins, s, and its rate, bit/s."""


class GivenTrace(Trace):
    """A piecewise constant rate."""

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
    """Run a scenario on clients with a given rate and availability.

    A client computes 1 Gflop/s. Its radio has the given rate in both directions, and no latency.

    Args:
        scenario: as for `fedsim.run`, without a fleet.
        rate: the pieces, the first one at time 0.
        period: the period after which the pieces repeat, s; None to continue with the last piece.
        changes: the times at which the clients leave, return, leave and so on, s.
        clients: the number of clients.
        blocks: user-defined classes that the scenario names.

    Raises:
        ScenarioError: the scenario or the trace is invalid.

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
    classes: tuple[type[Spec], ...] = (GivenTrace, GivenAvailability, *blocks)
    return run({**scenario, "fleet": [group]}, blocks=classes, watch=ignore_progress)
