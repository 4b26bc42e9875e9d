"""Loss: how packets are lost on a client's radio. The block is the law."""

from abc import abstractmethod
from dataclasses import dataclass, field
from math import inf
from typing import Annotated, Literal, NamedTuple, Protocol, Self

import numpy as np
from pydantic import Field, model_validator

from fedsim.blocks.choice import OneOf, failure
from fedsim.blocks.quantities import Fraction, Share
from fedsim.blocks.registry import Registry
from fedsim.blocks.spec import Block, Given, Spec, as_written
from fedsim.ports import Array

# Loss of packets, and the automatic repeat that makes up for it.

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


class PacketOutcome(NamedTuple):
    """What became of packets that were sent again when lost.

    Attributes:
        repeated: transmissions beyond the first of each packet.
        lost: packets lost for good.
    """

    repeated: int
    lost: int


def repeat(process: LossProcess, packets: int, tries: int | None) -> PacketOutcome:
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
    return PacketOutcome(repeated, lost)


# Losses without a memory, and none.


class NoLoss(PacketLoss):
    """Every packet passes."""

    kind: Literal["none"] = Field(default="none", description="no packet is lost")

    @property
    def mean(self) -> float:
        """Nothing."""
        return 0.0

    def process(self, rng: np.random.Generator) -> "IndependentLosses":
        """Return the losses of one link: none."""
        return IndependentLosses(0.0, rng)


class IndependentLoss(PacketLoss):
    """Every packet is lost with the same probability, whatever became of the others."""

    kind: Literal["independent"] = Field(
        default="independent", description="each packet for itself"
    )
    rate: Fraction = Field(description="the share of packets that are lost, below 100 %")

    @model_validator(mode="after")
    def _some_pass(self) -> Self:
        if self.rate >= 1:
            raise failure(("rate", f'got "100 %": {ALL_LOST}', self.rate))
        return self

    @property
    def mean(self) -> float:
        """The share of packets lost in the long run."""
        return self.rate

    def process(self, rng: np.random.Generator) -> "IndependentLosses":
        """Return the losses of one link."""
        return IndependentLosses(self.rate, rng)


@dataclass(slots=True)
class IndependentLosses:
    """Losses without a memory.

    Attributes:
        mean: the probability of loss.
    """

    mean: float
    _rng: np.random.Generator

    def losses(self, packets: int) -> int:
        """Return how many of the next so many packets are lost."""
        return int(self._rng.binomial(packets, self.mean))


# Losses in bursts, by a channel of two states.


class GilbertElliottLoss(PacketLoss):
    """Losses in bursts: a channel that is good or bad, and changes packet by packet.

    Gilbert, Bell Syst. Tech. J. 1960; Elliott, Bell Syst. Tech. J. 1963; the letters are
    those of Hasslinger, Hohlfeld, "The Gilbert-Elliott Model for Packet Loss in Real Time
    Services on the Internet", MMB 2008. A link starts in the stationary state.

    Expected transmissions and residual loss are approximations: they would be exact if a
    packet sent again met a state of its own. Where it meets the same burst, both are larger.
    """

    kind: Literal["gilbert-elliott"] = Field(
        default="gilbert-elliott", description="in bursts, by a channel of two states"
    )
    p: Share = Field(description="from good to bad, per packet")
    r: Share = Field(description="from bad to good, per packet")
    h: Fraction = as_written("0 %", "packets that pass in the bad state")
    k: Fraction = as_written("100 %", "packets that pass in the good state")

    @model_validator(mode="after")
    def _some_pass(self) -> Self:
        if self.h == 0 and self.k == 0:
            raise failure(("k", f"got 0 % for both h and k: {ALL_LOST}", self.k))
        return self

    @property
    def bad_share(self) -> float:
        """The stationary probability of the bad state, p / (p + r)."""
        return self.p / (self.p + self.r)

    @property
    def mean(self) -> float:
        """The share of packets lost in the long run."""
        return self.bad_share * (1 - self.h) + (1 - self.bad_share) * (1 - self.k)

    def process(self, rng: np.random.Generator) -> "BurstLosses":
        """Return the losses of one link."""
        return BurstLosses(self, rng)


@dataclass(slots=True)
class BurstLosses:
    """A link's walk between the states of a `GilbertElliottLoss` chain.

    Attributes:
        bad: whether the chain is in its bad state.
    """

    _law: GilbertElliottLoss
    _rng: np.random.Generator
    bad: bool = field(init=False)
    _left: float = field(init=False)  # packets that the present stay still covers

    def __post_init__(self) -> None:
        self.bad = bool(self._rng.random() < self._law.bad_share)
        self._left = float(self._stays(1, bad=self.bad)[0])

    @property
    def mean(self) -> float:
        """The share of packets lost in the long run."""
        return self._law.mean

    def losses(self, packets: int) -> int:
        """Return how many of the next so many packets are lost."""
        bad = self._bad_among(packets)
        return self._draw_losses(bad, self._law.h) + self._draw_losses(packets - bad, self._law.k)

    def _draw_losses(self, packets: int, passing: float) -> int:
        if passing in (0.0, 1.0) or not packets:
            return 0 if passing else packets
        return int(self._rng.binomial(packets, 1 - passing))

    def _bad_among(self, packets: int) -> int:
        """Let the chain move on, and return how many of the packets met the bad state."""
        if packets <= self._left:
            self._left -= packets
            return packets if self.bad else 0
        ends = self._ends(packets)
        last = int(np.searchsorted(ends, packets))
        lengths = np.diff(np.minimum(ends[: last + 1], packets), prepend=0.0)
        met = lengths[0 if self.bad else 1 :: 2].sum()
        self.bad ^= bool(last % 2)
        self._left = float(ends[last]) - packets
        return int(met)

    def _ends(self, packets: int) -> Array:
        """Return where stays end, the present one and as many more as cover the packets.

        What is drawn beyond them is forgotten, as the chain itself forgets.
        """
        pairs_per_packet = self._law.bad_share * self._law.r
        stays, todo = [np.array([self._left])], packets - self._left
        while todo > 0:
            pairs = 1 + int(todo * pairs_per_packet)
            both = [self._stays(pairs, bad=state) for state in (not self.bad, self.bad)]
            stays.append(np.stack(both, axis=1).ravel())
            todo -= float(stays[-1].sum())
        return np.cumsum(np.concatenate(stays))

    def _stays(self, count: int, *, bad: bool) -> Array:
        """Return for how many packets the chain stays in a state, visit by visit."""
        leave = self._law.r if bad else self._law.p
        if leave == 0:
            return np.full(count, inf)
        return self._rng.geometric(leave, count).astype(np.float64)


PACKET_LOSSES: Registry[PacketLoss] = Registry(
    "packet loss",
    (NoLoss, IndependentLoss, GilbertElliottLoss),
    PacketLoss,
    plural="packet losses",
)
"""The kinds of packet loss."""

AnyPacketLoss = Given[Annotated[PacketLoss, OneOf(PACKET_LOSSES)], PacketLoss | Block]
"""A field that takes one of them."""
