"""Attacks: what the false clients of a fleet send, as scenario blocks.

A false client runs the method like any other, and then sends something else. Its message is
encoded, sent and charged as it is. Clients that collude know the vectors of the true clients in the
same round; what they send has the size of their own message, and its values are set when the server
combines the replies.
"""

from collections import deque
from collections.abc import Iterator, Sequence
from statistics import NormalDist
from typing import Annotated, ClassVar, Literal

import numpy as np
from pydantic import Field, NonNegativeInt, PositiveFloat, PositiveInt

from fedsim.core.blocks.choice import OneOf
from fedsim.core.blocks.nature import Nature
from fedsim.core.blocks.registry import Registry
from fedsim.core.blocks.spec import Block, Given, Spec
from fedsim.core.ports import DENSE, Array, Packer, Payload, Structure


class Attack(Spec):
    """Base class of attacks: by default a false client sends what a true one would."""

    keeps_structure: ClassVar[bool] = False
    """Whether a distorted vector has zeros, or rank, where the true one has them."""

    colludes: ClassVar[bool] = False
    """Whether false clients know the vectors of the true ones; see `collude`."""

    silent: ClassVar[bool] = False
    """Whether a false client keeps silent in every round."""

    unreadable: ClassVar[bool] = False
    """Whether the server cannot read its messages, and leaves them out."""

    kind: str

    def natures(self) -> Iterator[tuple[str, Nature]]:
        """Yield a nature if an attack needs more than the client's own message."""
        if self.colludes:
            text = f"got {self.kind}, for which false clients see what the true ones send"
            yield "kind", Nature(simulated=text)
        elif self.silent or self.unreadable:
            yield "kind", Nature(simulated=f"got {self.kind}, which live clients do not do yet")

    @property
    def memory(self) -> int:
        """The number of earlier vectors that `distort` reads; by default 0."""
        return 0

    def distort(self, vector: Array, earlier: Sequence[Array], rng: np.random.Generator) -> Array:
        """Return what a false client sends in place of a vector.

        Args:
            vector: what a true client would send, of any shape. It must not be changed.
            earlier: the vectors of earlier rounds, the oldest first, at most `memory`.
            rng: the client's stream of the attack's draws.
        """
        return vector

    def collude(self, true: Array, false_ones: int) -> Array:
        """Return what all false clients send, if they collude, shape (d,).

        Args:
            true: the vectors of the true clients in this round, shape (n - f, d), at least one.
            false_ones: f, the number of false clients in this round.
        """
        raise NotImplementedError(type(self).__name__)


class SignFlipAttack(Attack):
    """The negative of the true vector, times a factor."""

    kind: Literal["sign-flip"] = "sign-flip"
    keeps_structure: ClassVar[bool] = True

    scale: PositiveFloat = Field(default=1.0, description="the factor")

    def distort(self, vector: Array, earlier: Sequence[Array], rng: np.random.Generator) -> Array:
        """Return the negative vector, times the factor."""
        return -self.scale * vector


class ScaledAttack(Attack):
    """The true vector, times a factor."""

    kind: Literal["scaled"] = "scaled"
    keeps_structure: ClassVar[bool] = True

    factor: float = Field(description="the factor, such as 10 or -10")

    def distort(self, vector: Array, earlier: Sequence[Array], rng: np.random.Generator) -> Array:
        """Return the vector, times the factor."""
        return self.factor * vector


class GaussianAttack(Attack):
    """A random vector with independent normal coordinates."""

    kind: Literal["gaussian"] = "gaussian"

    deviation: PositiveFloat = Field(default=1.0, description="their standard deviation")
    mean: float = Field(default=0.0, description="their mean")

    def distort(self, vector: Array, earlier: Sequence[Array], rng: np.random.Generator) -> Array:
        """Return a random vector of the same shape."""
        drawn: Array = np.asarray(rng.normal(self.mean, self.deviation, vector.shape))
        return drawn


class ReplayAttack(Attack):
    """The vector that the client would have sent some rounds before."""

    kind: Literal["replay"] = "replay"
    keeps_structure: ClassVar[bool] = True

    rounds: PositiveInt = Field(default=10, description="how many of its own rounds before")

    @property
    def memory(self) -> int:
        """The number of rounds."""
        return self.rounds

    def distort(self, vector: Array, earlier: Sequence[Array], rng: np.random.Generator) -> Array:
        """Return the oldest kept vector; the true one in the first round."""
        return earlier[0] if earlier else vector


class NotFiniteAttack(Attack):
    """A vector of NaN, which ends a run under `mean`."""

    kind: Literal["nan"] = "nan"

    def distort(self, vector: Array, earlier: Sequence[Array], rng: np.random.Generator) -> Array:
        """Return NaN at every coordinate."""
        return np.full(vector.shape, np.nan)


class UnreadableAttack(Attack):
    """A message that the server cannot read, such as a vector of the wrong length.

    It is charged like a true one.
    """

    kind: Literal["unreadable"] = "unreadable"
    also_called: ClassVar[tuple[str, ...]] = ("wrong-length", "wrong-dimension")
    unreadable: ClassVar[bool] = True


class SilentAttack(Attack):
    """Silence in every round, as if the client had nothing to send."""

    kind: Literal["silent"] = "silent"
    silent: ClassVar[bool] = True


class ALittleIsEnough(Attack):
    """The mean of the true vectors, shifted by a multiple of their standard deviation.

    Baruch, Baruch, Goldberg, "A Little Is Enough: Circumventing Defenses For Distributed Learning",
    NeurIPS 2019 (ALIE).
    """

    kind: Literal["alie"] = "alie"
    colludes: ClassVar[bool] = True

    z: float | None = Field(
        default=None,
        description="the multiple; null: the paper's z_max, for which enough true vectors are"
        " farther from the mean",
    )

    def collude(self, true: Array, false_ones: int) -> Array:
        """Return mean + z deviation, coordinate by coordinate."""
        z = largest_shift(len(true) + false_ones, false_ones) if self.z is None else self.z
        mean = true.mean(axis=0)
        deviation = true.std(axis=0, ddof=1) if len(true) > 1 else np.zeros_like(mean)
        shifted: Array = mean + z * deviation
        return shifted


def largest_shift(clients: int, false_ones: int) -> float:
    """Return z_max of ALIE: the quantile of (n - f - s)/(n - f), with s = floor(n/2 + 1) - f.

    It is 0 if the false clients are a majority, and 1e3 if they need no supporter.

    >>> round(largest_shift(50, 12), 3), round(largest_shift(50, 24), 3)
    (0.336, 1.426)
    """
    true = clients - false_ones
    share = (true - (clients // 2 + 1 - false_ones)) / true
    if not 0 < share < 1:
        return 0.0 if share <= 0 else _FAR
    return NormalDist().inv_cdf(share)


_FAR = 1e3


class InnerProductAttack(Attack):
    """The negative mean of the true vectors, times a factor.

    Xie, Koyejo, Gupta, "Fall of Empires: Breaking Byzantine-Tolerant SGD by Inner Product
    Manipulation", UAI 2019 (IPM).
    """

    kind: Literal["ipm"] = "ipm"
    colludes: ClassVar[bool] = True

    scale: PositiveFloat = Field(default=0.5, description="epsilon, the factor")

    def collude(self, true: Array, false_ones: int) -> Array:
        """Return -epsilon mean."""
        sent: Array = -self.scale * true.mean(axis=0)
        return sent


class MimicAttack(Attack):
    """The vector of one true client, which so counts more than the others.

    Karimireddy, He, Jaggi, "Byzantine-Robust Learning on Heterogeneous Datasets via Bucketing",
    ICLR 2022.
    """

    kind: Literal["mimic"] = "mimic"
    colludes: ClassVar[bool] = True

    which: NonNegativeInt = Field(
        default=0, description="the place of that client among the true ones of a round"
    )

    def collude(self, true: Array, false_ones: int) -> Array:
        """Return the vector at the place, or the last one."""
        copied: Array = true[min(self.which, len(true) - 1)]
        return copied


ATTACKS: Registry[Attack] = Registry(
    "attack",
    (
        SignFlipAttack,
        ScaledAttack,
        GaussianAttack,
        ReplayAttack,
        NotFiniteAttack,
        UnreadableAttack,
        SilentAttack,
        ALittleIsEnough,
        InnerProductAttack,
        MimicAttack,
    ),
    Attack,
)
"""The kinds of attack."""

AnyAttack = Given[Annotated[Attack, OneOf(ATTACKS)] | None, Attack | Block | None]
"""A field that takes one of them, or none."""


class FalsePacker:
    """Packs, for one field of a false client, something else than what it is given.

    Args:
        packer: encodes what is sent instead.
        attack: decides what that is.
        rng: the stream of its draws.
    """

    def __init__(self, packer: Packer, attack: Attack, rng: np.random.Generator) -> None:
        self._packer, self._attack, self._rng = packer, attack, rng
        self._earlier = deque[Array](maxlen=attack.memory)

    def pack(self, vector: Array, structure: Structure = DENSE) -> Payload:
        """Return the payload of what is sent in place of a vector."""
        attack = self._attack
        sent = attack.distort(vector, self._earlier, self._rng)
        if attack.memory:
            self._earlier.append(vector.copy())
        return self._packer.pack(sent, structure if attack.keeps_structure else DENSE)

    def take_back(self, payload: Payload) -> None:
        """Undo the packing of a payload that is known to be lost."""
        self._packer.take_back(payload)
