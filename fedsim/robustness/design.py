"""The design: worlds that are drawn from the doubt of constants, common to all runs."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from SALib.sample import sobol
from scipy.stats import qmc

from fedsim.ports import Array
from fedsim.robustness.constants import Constant, Key

STEPS = 33
"""Points of a line: one constant goes from end to end of its interval, all others stay."""


@dataclass(frozen=True)
class Design:
    """Worlds, in three parts: those that are drawn, the one as written, and a line a constant.

    The drawn ones are Saltelli's design over scrambled Sobol' points (Saltelli et al., "Variance
    based sensitivity analysis of model output", Comp. Phys. Comm. 2010): N points, N others, and
    for each of k constants the first N with that one from the others. Each of these N(k + 2)
    worlds is drawn from the doubt; 2N of them are independent of one another.

    Where a world costs a run, a few independent ones are all: they give probabilities, and neither
    indices nor lines.

    Attributes:
        constants: that are in doubt, at least one.
        base: N, a power of two; without lines, how many worlds are drawn.
        seed: of the drawing.
        lines: whether there are the further points of Saltelli's design, and lines.
    """

    constants: tuple[Constant, ...]
    base: int
    seed: int
    lines: bool = True

    @classmethod
    def of(cls, constants: Sequence[Constant], worlds: int, seed: int, runs: int = 0) -> "Design":
        """Return the smallest design of at least so many worlds.

        Args:
            constants: at least one.
            worlds: so many at the least.
            seed: of the drawing.
            runs: so many independent worlds instead, where each of them costs runs; 0 if not.
        """
        if runs:
            return cls(tuple(constants), runs, seed, lines=False)
        base = 2
        while base * (len(constants) + 2) < worlds:
            base *= 2
        return cls(tuple(constants), base, seed)

    @property
    def drawn(self) -> int:
        """How many worlds are drawn."""
        return self.base * (len(self.constants) + 2) if self.lines else self.base

    @property
    def independent(self) -> int:
        """How many of them are independent of one another."""
        return 2 * self.base if self.lines else self.base

    @property
    def count(self) -> int:
        """How many there are."""
        return self.drawn + 1 + (STEPS * len(self.constants) if self.lines else 0)

    @property
    def problem(self) -> Mapping[str, Any]:
        """What SALib calls the problem: shares of the probability, in [0, 1]."""
        names = [str(constant.key) for constant in self.constants]
        return {"num_vars": len(names), "names": names, "bounds": [[0.0, 1.0]] * len(names)}

    @cached_property
    def values(self) -> Array:
        """What each constant is in each world, SI, shape (k, count)."""
        shares = self._shares()
        as_written = np.array([constant.value for constant in self.constants])
        rest = np.tile(as_written[:, None], self.count - self.drawn)
        for number, constant in enumerate(self.constants if self.lines else ()):
            first = 1 + number * STEPS
            rest[number, first : first + STEPS] = constant.at(np.linspace(0.0, 1.0, STEPS))
        rows = zip(self.constants, shares.T, strict=True)
        return np.hstack([np.array([constant.at(own) for constant, own in rows]), rest])

    def _shares(self) -> Array:
        """Return what is drawn, in [0, 1], shape (drawn, k)."""
        if self.lines:
            made = sobol.sample(self.problem, self.base, calc_second_order=False, seed=self.seed)
            return np.asarray(made)
        engine = qmc.Sobol(len(self.constants), scramble=True, rng=self.seed)
        return np.asarray(engine.random(1 << (self.base - 1).bit_length())[: self.base])

    def world(self, part: slice = slice(None)) -> dict[Key, Array]:
        """Return the constants by their names, in some of the worlds."""
        rows = zip(self.constants, self.values, strict=True)
        return {constant.key: own[part] for constant, own in rows}

    def one(self, number: int) -> dict[Key, float]:
        """Return the constants by their names, in one world."""
        drawn = self.world(slice(number, number + 1))
        return {key: float(values[0]) for key, values in drawn.items()}

    def line(self, number: int) -> slice:
        """Return which worlds are the line of a constant."""
        first = self.drawn + 1 + number * STEPS
        return slice(first, first + STEPS)
