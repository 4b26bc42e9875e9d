"""Constants: figures that a study stands on, and how well each of them is known."""

from dataclasses import dataclass
from math import log

import numpy as np

from fedsim.ports import Array


class ConstantKey(tuple[str, str, str]):
    """The name of a constant: the block, the preset, and the field.

    >>> str(ConstantKey(("radio", "lte", "tail_time")))
    'lte.tail_time'
    """

    __slots__ = ()

    def __str__(self) -> str:
        return f"{self[1]}.{self[2]}"


@dataclass(frozen=True)
class UncertainConstant:
    """A figure of a preset, with the interval that holds it in nine of ten worlds.

    Attributes:
        key: its name.
        value, low, high: in the unit of the field, SI.
        unit: of the three.
        basis: "meas", "lit" or "est"; "given" for an interval of the user's.
        source: where the interval is from, in words.
    """

    key: ConstantKey
    value: float
    low: float
    high: float
    unit: str
    basis: str
    source: str

    @property
    def positive(self) -> bool:
        """Whether it is drawn by its logarithm: it has one, all over the interval."""
        return self.low > 0

    def at(self, share: Array) -> Array:
        """Return the values at shares of the probability, each in [0, 1]: log-uniform.

        A constant that may be zero has no logarithm there, and is uniform.
        """
        if self.positive:
            return np.asarray(np.exp(log(self.low) + share * (log(self.high) - log(self.low))))
        return np.asarray(self.low + share * (self.high - self.low))

    def share(self, value: float) -> float:
        """Return the share at which it has a value: the inverse of `at`."""
        if self.positive:
            return (log(value) - log(self.low)) / (log(self.high) - log(self.low))
        return (value - self.low) / (self.high - self.low)
