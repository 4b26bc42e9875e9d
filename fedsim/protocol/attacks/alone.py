"""Attacks of malicious clients that know no other client."""

from collections.abc import Iterator, Sequence
from typing import ClassVar, Literal

import numpy as np
from pydantic import Field, PositiveFloat, PositiveInt

from fedsim.core.blocks.nature import Nature
from fedsim.core.ports import Array
from fedsim.protocol.attacks.base import Attack


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

    rounds: PositiveInt = Field(
        default=10, description="age of the replayed update, in rounds of the client"
    )

    @property
    def memory(self) -> int:
        """The number of rounds."""
        return self.rounds

    def distort(self, vector: Array, earlier: Sequence[Array], rng: np.random.Generator) -> Array:
        """Return the oldest kept vector; in the first round, the client's own."""
        return earlier[0] if earlier else vector


class NotFiniteAttack(Attack):
    """A vector of NaN, which ends a run under `mean`."""

    kind: Literal["nan"] = "nan"

    def natures(self) -> Iterator[tuple[str, Nature]]:
        """Yield that a live server ends the run instead, under every rule."""
        text = f"got {self.kind}, and a live run ends with a message whose numbers are not finite"
        yield "kind", Nature(simulated=text)

    def distort(self, vector: Array, earlier: Sequence[Array], rng: np.random.Generator) -> Array:
        """Return NaN at every coordinate."""
        return np.full(vector.shape, np.nan)


class UnreadableAttack(Attack):
    """A message that the server cannot read, such as a vector of the wrong length.

    It is charged like an honest one.
    """

    kind: Literal["unreadable"] = "unreadable"
    also_called: ClassVar[tuple[str, ...]] = ("wrong-length", "wrong-dimension")
    unreadable: ClassVar[bool] = True


class SilentAttack(Attack):
    """Silence in every round, as if the client had nothing to send."""

    kind: Literal["silent"] = "silent"
    silent: ClassVar[bool] = True


class LabelFlipAttack(Attack):
    """The true message of a client that trains on flipped labels.

    Of C classes k becomes C - 1 - k, a sign becomes the other one, and the target of a regression
    its negative. Objective, accuracy and optimum are those of the true labels. Fang, Cao, Jia,
    Gong, "Local Model Poisoning Attacks to Byzantine-Robust Federated Learning", USENIX Security
    2020.
    """

    kind: Literal["label-flip"] = "label-flip"
    mislabels: ClassVar[bool] = True
