"""Dice: what a world is drawn with. The same number draws the same world, on any machine."""

from collections.abc import Sequence
from math import log
from typing import Any, TypeVar

import numpy as np

T = TypeVar("T")
Block = dict[str, Any]
"""A block of a scenario, as YAML would hold it."""


class Dice:
    """The draws of one world, in order.

    Args:
        number: of the world.

    Attributes:
        slow: whether it is a world of months, in which nothing changes many times a second.
        careful: whether it goes by what is known to fit; else anything meets anything.
    """

    def __init__(self, number: int) -> None:
        self._rng = np.random.default_rng(number)
        self.slow = self.chance(0.3)
        self.careful = self.chance(0.85)

    def chance(self, share: float) -> bool:
        """Return whether something comes to pass that does in this share of all worlds."""
        return bool(self._rng.random() < share)

    def one(self, options: Sequence[T]) -> T:
        """Return one of some options, each as likely as any other."""
        return options[int(self._rng.integers(len(options)))]

    def some(self, options: Sequence[T], most: int) -> list[T]:
        """Return a few different options, `most` at most, in the order in which they came."""
        count = self.whole(0, min(most, len(options)))
        return [options[at] for at in self._rng.permutation(len(options))[:count]]

    def whole(self, least: int, most: int) -> int:
        """Return a whole number, both ends included."""
        return int(self._rng.integers(least, most + 1))

    def size(self, least: float, most: float) -> float:
        """Return a number above 0 of which any order of magnitude is as likely as any other."""
        return float(f"{np.exp(self._rng.uniform(log(least), log(most))):.4g}")

    def quantity(self, least: float, most: float, unit: str) -> str:
        """Return such a number with a unit, as a scenario writes it."""
        return f"{self.size(least, most):g} {unit}"

    def percent(self, least: int, most: int) -> str:
        """Return a share as a scenario writes it."""
        return f"{self.whole(least, most)} %"

    def composition(self, total: int, parts: int) -> list[int]:
        """Return so many whole numbers from 1 that add up to a total."""
        cuts = np.sort(self._rng.permutation(total - 1)[: parts - 1] + 1)
        return [int(part) for part in np.diff([0, *cuts, total])]

    def options(self, block: Block, share: float = 0.4) -> Block:
        """Return a block with each of its keys left out in 1 - `share` of all worlds."""
        return {key: value for key, value in block.items() if self.chance(share)}
