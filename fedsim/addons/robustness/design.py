"""The design: worlds sampled from the intervals of uncertain constants, common to all runs.

All variants and seeds are priced in the same worlds (common random numbers). So the ratio of two
variants only varies with the constants.
"""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.stats import qmc

from fedsim.addons.robustness.constants import ConstantKey, UncertainConstant
from fedsim.addons.robustness.saltelli import Saltelli
from fedsim.core.ports import Array

STEPS = 17
"""Points of a line, along which one constant varies over its interval and all others stay."""


@dataclass(frozen=True, eq=False)
class Worlds:
    """Sampled parameter sets: the value of each constant in each of them.

    Attributes:
        constants: the uncertain constants, k.
        values: the values in SI units, shape (k, W).
    """

    constants: tuple[UncertainConstant, ...]
    values: Array

    @property
    def count(self) -> int:
        """The number of worlds, W."""
        return int(self.values.shape[1])

    @cached_property
    def digest(self) -> str:
        """A hash of the constants' names and values."""
        # Values alone do not tell which constants they belong to.
        digest = hashlib.sha256(self.values.tobytes())
        for constant in self.constants:
            digest.update(f"{constant.key[0]} {constant.key}\n".encode())
        return digest.hexdigest()

    def world(self, part: slice = slice(None)) -> dict[ConstantKey, Array]:
        """Return the values of the constants in some of the worlds, by key."""
        rows = zip(self.constants, self.values, strict=True)
        return {constant.key: values[part] for constant, values in rows}

    def one(self, number: int) -> dict[ConstantKey, float]:
        """Return the values of the constants in one world, by key."""
        drawn = self.world(slice(number, number + 1))
        return {key: float(values[0]) for key, values in drawn.items()}


@dataclass(frozen=True)
class Design:
    """Worlds in four parts: sampled ones, the one as written, lines, and those for Sobol' indices.

    Probabilities are shares of the sampled worlds, in which all constants vary together. Lines vary
    one constant at a time, from the scenario as written. Worlds for Sobol' indices come last, if
    there are enough sampled ones (see `Saltelli`).

    If each world costs a run, there are only sampled ones and the world as written.

    Attributes:
        constants: the uncertain constants, at least one.
        drawn: the number of sampled worlds; a power of two if there are lines.
        seed: the seed of the sampling.
        lines: whether there are lines, and worlds for indices.
    """

    constants: tuple[UncertainConstant, ...]
    drawn: int
    seed: int
    lines: bool = True

    @classmethod
    def of(
        cls, constants: Sequence[UncertainConstant], worlds: int, seed: int, runs: int = 0
    ) -> "Design":
        """Return the smallest design with at least `worlds` sampled worlds.

        Args:
            constants: the uncertain constants, at least one.
            worlds: the least number of sampled worlds.
            seed: the seed of the sampling.
            runs: the number of worlds instead, if each of them costs a run; otherwise 0.
        """
        if runs:
            return cls(tuple(constants), runs, seed, lines=False)
        # A power of two, as Sobol sequences are balanced only there.
        return cls(tuple(constants), max(2, 1 << (worlds - 1).bit_length()), seed)

    @property
    def words(self) -> str:
        """The number of sampled worlds, in words."""
        return f"{self.drawn:,} world{'' if self.drawn == 1 else 's'}"

    @cached_property
    def saltelli(self) -> Saltelli | None:
        """The part that serves to estimate Sobol' indices; None if there are too few worlds."""
        if not self.lines or not Saltelli.enough(self.drawn):
            return None
        return Saltelli(
            tuple(str(constant.key) for constant in self.constants), self.drawn // 2, self.seed
        )

    @property
    def count(self) -> int:
        """The number of all worlds."""
        return int(self._mixed.start) + (self.saltelli.mixed if self.saltelli else 0)

    @property
    def _mixed(self) -> slice:
        """The worlds for Sobol' indices."""
        lines = STEPS * len(self.constants) if self.lines else 0
        return slice(self.drawn + 1 + lines, None)

    @cached_property
    def values(self) -> Array:
        """The value of each constant in each world, SI, shape (k, count)."""
        shares, mixed = self._shares()
        drawn, last = (
            np.array(
                [
                    constant.at(quantiles)
                    for constant, quantiles in zip(self.constants, part.T, strict=True)
                ]
            )
            for part in (shares, mixed)
        )
        # The first world of the rest is the one as written; lines follow, and each overwrites one
        # row.
        rest = np.tile(self.as_written[:, None], self._mixed.start - self.drawn)
        for number, constant in enumerate(self.constants if self.lines else ()):
            first = 1 + number * STEPS
            rest[number, first : first + STEPS] = constant.at(np.linspace(0.0, 1.0, STEPS))
        return np.hstack([drawn, rest, last])

    @property
    def as_written(self) -> Array:
        """The value of each constant in the scenario, SI, shape (k,)."""
        return np.array([constant.value for constant in self.constants])

    def _shares(self) -> tuple[Array, Array]:
        """Return sampled and mixed points of the unit cube, shapes (W, k)."""
        if self.saltelli is not None:
            return self.saltelli.shares
        count = len(self.constants)
        engine = qmc.Sobol(count, scramble=True, rng=self.seed)
        # Sobol points are balanced only in powers of two, so that many are drawn and cut.
        points = engine.random(1 << (self.drawn - 1).bit_length())[: self.drawn]
        return np.asarray(points), np.empty((0, count))

    @cached_property
    def worlds(self) -> Worlds:
        """All worlds."""
        return Worlds(self.constants, self.values)

    def world(self, part: slice = slice(None)) -> dict[ConstantKey, Array]:
        """Return the values of the constants in some of the worlds, by key."""
        return self.worlds.world(part)

    def one(self, number: int) -> dict[ConstantKey, float]:
        """Return the values of the constants in one world, by key."""
        return self.worlds.one(number)

    def line(self, number: int) -> slice:
        """Return the worlds of the line of a constant."""
        first = self.drawn + 1 + number * STEPS
        return slice(first, first + STEPS)

    def indices(self, values: Array) -> Mapping[str, Array] | None:
        """Return Sobol' indices of a quantity; None if there are too few worlds.

        Args:
            values: the quantity in all worlds of the design, shape (count,).
        """
        if self.saltelli is None:
            return None
        # A and B are the sampled worlds themselves.
        return self.saltelli.indices(values[: self.drawn], values[self._mixed])
