"""Emissions: grams of CO2 of the log's rows.

Each row of a client is charged for its joules at the carbon intensity of the client's electricity,
averaged over the row's span: a row's joules are assumed to be drawn evenly. The fleet's idle draw
is metered client by client, and passed in with each row that reports it. So every joule in a
client's account is charged at the time at which the client draws it, from mains or from a battery.
Losses of chargers and batteries, the server and the network are not included.

Clients with unknown electricity have no grams, and are left out of all sums.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from math import fsum
from typing import Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fedsim.core.ports import SERVER, Array, node_name
from fedsim.results.record.nodes import number_nodes
from fedsim.results.record.schema import Chunk, Event

KILOWATT_HOUR = 3.6e6
"""Joules in a kilowatt-hour: intensities are in grams for one."""

_TOLERANCE = 1e-9  # relative rounding error of sums in another order
_TINY = float(np.finfo(np.float64).tiny)


class IntensityOverTime(Protocol):
    """Carbon intensity of electricity over time, g/kWh."""

    @property
    def least(self) -> float:
        """The smallest intensity at any time."""
        ...

    @property
    def most(self) -> float:
        """The largest intensity at any time."""
        ...

    def averages(self, begins: Array, ends: Array) -> Array:
        """Return the averages over spans, shape (n,); at an instant the intensity then."""
        ...


@dataclass(eq=False)
class Emissions:
    """Prices the rows of one log, in order, and keeps the sums.

    Attributes:
        intensities: the different ones of the fleet.
        numbers: each client's intensity, shape (M,); -1 for clients without one.
        grams: by node, shape (M + 1,); the server's entry, first, is the fleet's idle emissions.
    """

    intensities: Sequence[IntensityOverTime]
    numbers: NDArray[np.intp]
    grams: Array = field(init=False)
    _rests: list[float] = field(init=False, default_factory=list)

    def __post_init__(self) -> None:
        self.grams = np.zeros(len(self.numbers) + 1)

    @property
    def total(self) -> float:
        """All grams so far."""
        return float(self.grams.sum())

    @property
    def known(self) -> NDArray[np.bool_]:
        """Which clients have a known intensity, shape (M,)."""
        return np.asarray(self.numbers >= 0)

    def rest(self, grams: float) -> None:
        """Add idle emissions of the fleet, for the next row that reports them."""
        self._rests.append(grams)

    def of(self, number: int, joules: Array | float, begins: ArrayLike, ends: ArrayLike) -> Array:
        """Return the grams of joules that are drawn evenly over spans at one of the intensities.

        Args:
            number: of the intensity.
            joules: shape (n,), or one figure.
            begins: of the spans, s, shape (n,), or one time.
            ends: of the same.
        """
        spans = np.atleast_1d(begins, ends)
        return np.asarray(joules * self.intensities[number].averages(*spans) / KILOWATT_HOUR)

    def of_spans(
        self, clients: NDArray[np.intp], begins: Array, ends: Array, joules: Array
    ) -> float:
        """Return the grams of spans of clients that no row has charged."""
        numbers, grams = self.numbers[clients], list[float]()
        for place in range(len(self.intensities)):
            some = np.flatnonzero(numbers == place)
            grams += self.of(place, joules[some], begins[some], ends[some]).tolist()
        return fsum(grams)

    def price(self, rows: Chunk) -> Array:
        """Return the grams of each row, shape (n,); rows come in order, each once."""
        grams, node, joules = np.zeros(len(rows)), rows["node"], rows["joules"]
        ends = rows["t"]
        begins = ends - rows["duration"]
        number = np.where(node == SERVER, -1, self.numbers[node])
        for place in range(len(self.intensities)):
            indices = np.flatnonzero((number == place) & (joules > 0))
            grams[indices] = self.of(place, joules[indices], begins[indices], ends[indices])
        reporting = np.isin(rows["event"], (Event.ROUND, Event.STOP)) & (node == SERVER)
        count = int(np.count_nonzero(reporting))
        grams[reporting] = self._rests[:count]
        del self._rests[:count]
        nodes, which = number_nodes(rows, "node", len(self.numbers))
        self.grams[nodes + 1] += np.bincount(which, grams, minlength=len(nodes))
        return grams

    def faults(self, joules: Array, idle_joules: Array, idle_grams: Array) -> Iterator[str]:
        """Yield descriptions of grams that are inconsistent with the meters.

        Args:
            joules: spent beyond idle power by each client, from its meters, shape (M,).
            idle_joules: drawn while idle by each client, shape (M,).
            idle_grams: emitted by that draw, shape (M,).
        """
        yield from self._unfit("grams", joules, self.grams[1:])
        yield from self._unfit("idle grams", idle_joules, idle_grams)
        logged, metered = float(self.grams[0]), float(idle_grams[self.known].sum())
        if not np.isclose(logged, metered, rtol=_TOLERANCE, atol=_TINY):
            yield f"idle grams: {logged} logged, {metered} metered"

    def _unfit(self, what: str, joules: Array, grams: Array) -> Iterator[str]:
        """Yield clients whose grams are outside the range of the intensities."""
        least, most = (
            np.array([*(getattr(intensity, bound) for intensity in self.intensities), 0.0])[
                self.numbers
            ]
            for bound in ("least", "most")
        )
        low, high = (joules * bound / KILOWATT_HOUR for bound in (least, most))
        slack = _TOLERANCE * high + _TINY
        for client in np.flatnonzero((grams < low - slack) | (grams > high + slack)):
            bounds = f"{float(low[client])} to {float(high[client])} by the meters"
            yield f"{what} of {node_name(int(client))}: {float(grams[client])}, and {bounds}"
