"""Loss of packets, and the automatic repeat that makes up for it."""

from abc import abstractmethod
from math import inf
from typing import NamedTuple, Protocol

import numpy as np

from fedsim.blocks.spec import Spec

ALL_LOST = "every packet would be lost, for ever; give a share of losses below 100 %"
"""What is wrong with a law under which nothing ever passes."""


class LossProcess(Protocol):
    """Which packets of one direction of one link are lost, packet after packet."""

    @property
    def mean(self) -> float:
        """The share of packets lost in the long run."""
        ...

    def losses(self, packets: int) -> int:
        """Return how many of the next so many packets are lost."""
        ...


class PacketLoss(Spec):
    """A law of loss; p is its mean below, and m the number of tries."""

    kind: str

    @property
    @abstractmethod
    def mean(self) -> float:
        """The share of packets lost in the long run."""

    @abstractmethod
    def process(self, rng: np.random.Generator) -> LossProcess:
        """Return the losses of one link, drawn from its stream."""

    def expected_transmissions(self, tries: int | None) -> float:
        """Return how often a packet is sent on average, (1 - p^m) / (1 - p); None: no limit."""
        if self.mean == 1:
            return inf if tries is None else float(tries)
        return (1 - self.residual(tries)) / (1 - self.mean)

    def residual(self, tries: int | None) -> float:
        """Return the share of packets that are lost for good, p^m; None: no limit."""
        if tries is None:
            return 1.0 if self.mean == 1 else 0.0
        return float(self.mean**tries)


class Outcome(NamedTuple):
    """What became of packets that were sent again when lost.

    Attributes:
        repeated: transmissions beyond the first of each packet.
        lost: packets lost for good.
    """

    repeated: int
    lost: int


def repeat(process: LossProcess, packets: int, tries: int | None) -> Outcome:
    """Send packets, and those lost again, until all have passed or were sent often enough.

    Args:
        process: decides over each transmission, the repeated ones after those before them.
        packets: how many there are.
        tries: how often a packet is sent at most; None for as often as it takes.

    Raises:
        ValueError: less than one try, or no limit where every packet is lost.
    """
    if tries is None and process.mean >= 1:
        raise ValueError("every packet is lost, so one that is sent until it passes never ends")
    if tries is not None and tries < 1:
        raise ValueError(f"a packet is sent once at least; got {tries} tries")
    repeated, lost = 0, process.losses(packets)
    left = inf if tries is None else tries - 1
    while lost and left:
        repeated += lost
        lost = process.losses(lost)
        left -= 1
    return Outcome(repeated, lost)
