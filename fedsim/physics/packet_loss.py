"""Packet loss on a client's radio, and retransmission (ARQ). Each block is its own law."""

from abc import abstractmethod
from dataclasses import dataclass, field
from math import inf
from typing import Annotated, Literal, NamedTuple, Protocol, Self

import numpy as np
from pydantic import Field, model_validator

from fedsim.core.blocks.choice import OneOf, failure
from fedsim.core.blocks.quantities import Fraction, Share
from fedsim.core.blocks.registry import Registry
from fedsim.core.blocks.spec import Block, Given, Spec, as_written
from fedsim.core.ports import Array

# Packet loss, and automatic repeat requests.

ALL_LOST = "every packet would be lost; give a share of losses below 100 %"
"""The error about a law under which no packet arrives."""


class LossProcess(Protocol):
    """The losses of one direction of one link, packet by packet."""

    @property
    def mean(self) -> float:
        """The share of packets lost in the long run."""
        ...

    def losses(self, packets: int) -> int:
        """Return the number of lost packets among the next `packets` ones."""
        ...


class PacketLoss(Spec):
    """A law of packet loss. In its docstrings, p is the mean and m the number of tries."""

    kind: str

    @property
    @abstractmethod
    def mean(self) -> float:
        """The share of packets lost in the long run."""

    @abstractmethod
    def process(self, rng: np.random.Generator) -> LossProcess:
        """Return the losses of one link, drawn from its own stream."""

    def expected_transmissions(self, tries: int | None) -> float:
        """Return the mean transmissions of a packet, (1 - p^m)/(1 - p); m None: no limit."""
        if self.mean == 1:
            return inf if tries is None else float(tries)
        return (1 - self.residual(tries)) / (1 - self.mean)

    def residual(self, tries: int | None) -> float:
        """Return the share of packets lost for good, p^m; m None: no limit."""
        if tries is None:
            return 1.0 if self.mean == 1 else 0.0
        return float(self.mean**tries)


class PacketOutcome(NamedTuple):
    """The outcome of sending packets with retransmission.

    Attributes:
        repeated: the number of transmissions besides the first of each packet.
        lost: the number of packets lost for good.
    """

    repeated: int
    lost: int


def repeat(process: LossProcess, packets: int, tries: int | None) -> PacketOutcome:
    """Send packets, and lost packets again, until all have arrived or have used up their tries.

    Args:
        process: the losses. All packets are sent once, then the lost ones once more, and so on.
        packets: the number of packets.
        tries: the largest number of transmissions of a packet; None for no limit.

    Raises:
        ValueError: `tries` is below 1, or there is no limit and every packet is lost.
    """
    if tries is None and process.mean >= 1:
        raise ValueError("every packet is lost, so an unlimited number of tries never ends")
    if tries is not None and tries < 1:
        raise ValueError(f"got {tries} tries; expected at least 1")
    repeated, lost = 0, process.losses(packets)
    left = inf if tries is None else tries - 1
    while lost and left:
        repeated += lost
        lost = process.losses(lost)
        left -= 1
    return PacketOutcome(repeated, lost)


# Independent losses, and no losses.


class NoLoss(PacketLoss):
    """No packet is lost."""

    kind: Literal["none"] = Field(default="none", description="no packet is lost")

    @property
    def mean(self) -> float:
        """Zero."""
        return 0.0

    def process(self, rng: np.random.Generator) -> "IndependentLosses":
        """Return the losses of one link: none."""
        return IndependentLosses(0.0, rng)


class IndependentLoss(PacketLoss):
    """Every packet is lost with the same probability, independently of the others."""

    kind: Literal["independent"] = Field(
        default="independent", description="each packet independently"
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
    """Independent losses.

    Attributes:
        mean: the probability of loss.
    """

    mean: float
    _rng: np.random.Generator

    def losses(self, packets: int) -> int:
        """Return the number of lost packets among the next `packets` ones."""
        return int(self._rng.binomial(packets, self.mean))


@dataclass(slots=True)
class LossesOnTheWay:
    """Losses of a radio and of the links behind it: a packet has to survive both.

    Attributes:
        own: the losses of the radio; None if it has none.
        links: the losses of the links.
    """

    own: LossProcess | None
    links: IndependentLosses

    @property
    def mean(self) -> float:
        """The share of packets lost in the long run."""
        mean = 0.0 if self.own is None else self.own.mean
        return 1 - (1 - mean) * (1 - self.links.mean)

    def losses(self, packets: int) -> int:
        """Return the number of lost packets among the next `packets` ones."""
        # Only packets that the radio has not lost can be lost on the links.
        lost = 0 if self.own is None else self.own.losses(packets)
        return lost + self.links.losses(packets - lost)


# Losses in bursts: a channel with two states.


class GilbertElliottLoss(PacketLoss):
    """Losses in bursts: a Markov chain with a good and a bad state, and one transition per packet.

    Gilbert, Bell Syst. Tech. J. 1960; Elliott, Bell Syst. Tech. J. 1963. The letters are those of
    Hasslinger, Hohlfeld, "The Gilbert-Elliott Model for Packet Loss in Real Time Services on the
    Internet", MMB 2008. A link starts in the stationary state.

    Expected transmissions and residual loss are approximations. They are exact if the state at a
    retransmission is independent of the state at the first transmission. Within the same burst both
    are larger.
    """

    kind: Literal["gilbert-elliott"] = Field(
        default="gilbert-elliott", description="in bursts, by a channel with two states"
    )
    p: Share = Field(description="probability of a transition from good to bad")
    r: Share = Field(description="probability of a transition from bad to good")
    h: Fraction = as_written("0 %", "share of packets delivered in the bad state")
    k: Fraction = as_written("100 %", "share of packets delivered in the good state")

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
    """The state of one link in a `GilbertElliottLoss` chain.

    Packets are not drawn one by one. The lengths of stays in a state are geometric. So the number
    of packets in the bad state is drawn first, then the losses in both states, which are binomial.
    This gives the same distribution with few draws for any number of packets.

    Attributes:
        bad: whether the chain is in its bad state.
    """

    _law: GilbertElliottLoss
    _rng: np.random.Generator
    bad: bool = field(init=False)
    _left: float = field(init=False)  # remaining packets of the current stay

    def __post_init__(self) -> None:
        self.bad = bool(self._rng.random() < self._law.bad_share)
        self._left = float(self._stays(1, bad=self.bad)[0])

    @property
    def mean(self) -> float:
        """The share of packets lost in the long run."""
        return self._law.mean

    def losses(self, packets: int) -> int:
        """Return the number of lost packets among the next `packets` ones."""
        bad = self._bad_among(packets)
        return self._draw_losses(bad, self._law.h) + self._draw_losses(packets - bad, self._law.k)

    def _draw_losses(self, packets: int, passing: float) -> int:
        # If all packets pass, or none, no random number is drawn.
        if passing in (0.0, 1.0) or not packets:
            return 0 if passing else packets
        return int(self._rng.binomial(packets, 1 - passing))

    def _bad_among(self, packets: int) -> int:
        """Advance the chain by a number of packets; return how many of them met the bad state."""
        if packets <= self._left:
            self._left -= packets
            return packets if self.bad else 0
        ends = self._ends(packets)
        last = int(np.searchsorted(ends, packets))
        lengths = np.diff(np.minimum(ends[: last + 1], packets), prepend=0.0)
        # Stays alternate between the two states, beginning with the current one.
        met = lengths[0 if self.bad else 1 :: 2].sum()
        self.bad ^= bool(last % 2)
        self._left = float(ends[last]) - packets
        return int(met)

    def _ends(self, packets: int) -> Array:
        """Return the ends of the current stay and of later ones, up to one that covers all packets.

        Ends are counted in packets from now. Stays drawn beyond the last packet may be dropped,
        since the chain is memoryless.
        """
        # A good and a bad stay together last 1/p + 1/r packets on average.
        pairs_per_packet = self._law.bad_share * self._law.r
        stays, todo = [np.array([self._left])], packets - self._left
        # The loop usually runs once: it draws the expected number of pairs of stays, plus one.
        while todo > 0:
            pairs = 1 + int(todo * pairs_per_packet)
            both = [self._stays(pairs, bad=state) for state in (not self.bad, self.bad)]
            stays.append(np.stack(both, axis=1).ravel())
            todo -= float(stays[-1].sum())
        return np.cumsum(np.concatenate(stays))

    def _stays(self, count: int, *, bad: bool) -> Array:
        """Return the lengths of `count` visits to a state, in packets."""
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
"""A field for a packet loss."""
