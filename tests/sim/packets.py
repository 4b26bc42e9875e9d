"""Losses that are told in the test."""

import numpy as np

from fedsim.physics.radios.channel import Framing

FRAMING = Framing(4, 16)
"""Packets of 16 bytes, 12 of them the message's: 96 bits carry 128."""


class Scripted:
    """A law of loss, and its own process: so many packets are lost, transmission by transmission.

    Attributes:
        asked: how many packets were on the air each time.
    """

    def __init__(self, *lost: int) -> None:
        self.asked: list[int] = []
        self._left = iter(lost)  # nothing is lost after that

    @property
    def mean(self) -> float:
        return 0.5

    def process(self, rng: np.random.Generator) -> "Scripted":
        return self

    def losses(self, packets: int) -> int:
        self.asked.append(packets)
        return next(self._left, 0)
