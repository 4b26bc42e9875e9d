"""Intensities: what electricity emits as time goes by, averaged over many spans at once."""

from dataclasses import dataclass
from math import isfinite

import numpy as np
from numpy.typing import NDArray

from fedsim.physics.signals import Constant, Steps
from fedsim.ports import Array


@dataclass(frozen=True, slots=True, eq=False)
class Intensity:
    """A carbon intensity, g/kWh: a constant, or steps.

    Example:
        >>> daily = Intensity(Steps([0.0, 6.0], [100.0, 400.0], period=8.0))
        >>> daily.averages(np.array([0.0, 5.0, 7.0]), np.array([3.0, 7.0, 9.0]))
        array([100., 250., 250.])
    """

    signal: Constant | Steps

    @property
    def least(self) -> float:
        """The least intensity there ever is."""
        signal = self.signal
        return signal.value if isinstance(signal, Constant) else float(signal.values.min())

    @property
    def most(self) -> float:
        """The largest one."""
        return self.signal.peak

    def averages(self, begins: Array, ends: Array) -> Array:
        """Return the averages over spans, the intensity of the moment where one takes no time.

        Within one step an average is the step's value to the last bit; over several it is in
        closed form, whatever the number of steps between.

        Args:
            begins: of the spans, s, shape (n,).
            ends: of the same, at their begins or later.
        """
        if isinstance(self.signal, Constant):
            return np.full(len(begins), self.signal.value)
        return _averages(self.signal, begins, ends)


def _averages(steps: Steps, begins: Array, ends: Array) -> Array:
    values = steps.values
    (cycle, piece, at), (last_cycle, last, until) = _found(steps, begins), _found(steps, ends)
    found = values[piece]
    several = np.flatnonzero((cycle != last_cycle) | (piece != last))
    if not len(several):
        return found
    cycle, piece, at = cycle[several], piece[several], at[several]
    last_cycle, last, until = last_cycle[several], last[several], until[several]
    edges = np.append(steps.times, steps.period)
    repeats = isfinite(steps.period)
    whole = np.diff(edges if repeats else steps.times) * (values if repeats else values[:-1])
    sums = np.append(0.0, np.cumsum(whole))  # before each piece, and in all
    between = (last_cycle - cycle) * (sums[-1] if repeats else 0.0) + sums[last] - sums[piece + 1]
    first_part = values[piece] * (edges[piece + 1] - at)
    last_part = values[last] * (until - steps.times[last])
    total = first_part + between + last_part
    # Rounding of times may lead out of what there is.
    spans = ends[several] - begins[several]
    found[several] = np.clip(total / spans, values.min(), values.max())
    return found


def _found(steps: Steps, times: Array) -> tuple[Array, NDArray[np.intp], Array]:
    """Return the cycle and the piece that times are in, and how far into the cycle they are, s."""
    shifted = times + steps.offset
    cycle = np.floor(shifted / steps.period)  # of what does not repeat it is the first
    within = shifted - cycle * steps.period if isfinite(steps.period) else shifted
    piece = np.searchsorted(steps.times, within, side="right") - 1
    return cycle, np.maximum(piece, 0), within
