"""Losses that are told in the test, and one message through them."""

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from fedsim.physics.packets import Framing

FRAMING = Framing(4, 16)
"""Packets of 16 bytes, 12 of them the message's: 96 bits carry 128."""


@dataclass
class Scripted:
    """A law of loss, and its process: so many packets are lost, transmission by transmission.

    Attributes:
        lost: what is answered, in order; nothing is lost after that.
        asked: how many packets were on the air each time.
    """

    lost: tuple[int, ...]
    mean: float = 0.0
    asked: list[int] = field(default_factory=list)
    _left: Iterator[int] = field(init=False)

    def process(self, rng: np.random.Generator) -> "Scripted":
        self._left = iter(self.lost)
        return self

    def losses(self, packets: int) -> int:
        self.asked.append(packets)
        return next(self._left, 0)

    def expected_transmissions(self, tries: int | None) -> float:
        raise NotImplementedError

    def residual(self, tries: int | None) -> float:
        raise NotImplementedError
