"""Losses in bursts, by a channel of two states."""

from dataclasses import dataclass, field
from math import inf
from typing import Literal, Self

import numpy as np
from pydantic import Field, model_validator

from fedsim.blocks.choice import failure
from fedsim.blocks.fields import as_written
from fedsim.blocks.quantities import Fraction, Share
from fedsim.physics.packet_loss.base import ALL_LOST, PacketLoss
from fedsim.ports import Array


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
        return self._lost(bad, self._law.h) + self._lost(packets - bad, self._law.k)

    def _lost(self, packets: int, passing: float) -> int:
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
