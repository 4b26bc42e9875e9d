"""The settings of differential privacy, as scenario blocks."""

from math import inf
from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from fedsim.core.blocks.choice import failure
from fedsim.core.blocks.spec import Given, Keys, PerCent, Spec

Norm = Annotated[float, Field(gt=0)]


class AdaptiveClip(Spec):
    """A clipping norm that follows a quantile of the clients' norms.

    Andrew, Thakkar, McMahan, Ramaswamy, "Differentially Private Learning with Adaptive Clipping",
    NeurIPS 2021, algorithm 1: each reply has one further bit, whether its norm is at most the clip
    C. With the noised share b of these bits, C becomes C exp(-rate (b - quantile)).
    """

    kind: Literal["adaptive"] = "adaptive"
    quantile: Annotated[float, PerCent()] = Field(
        default=0.5, gt=0, lt=1, description="the share of replies whose norm is at most the clip"
    )
    start: Norm = Field(default=0.1, description="the clip of round 1")
    rate: float = Field(default=0.2, gt=0, description="eta, the step of the clip's logarithm")
    count_noise: Norm | None = Field(
        default=None,
        description="standard deviation of the noise on the number of bits; null: a twentieth of"
        " the expected number of replies",
    )


class Privacy(Spec):
    """Client-level differential privacy: clipped replies, noise, and an account of epsilon."""

    clip: Given[Norm | AdaptiveClip, Norm | AdaptiveClip | Keys] = Field(
        description="C, the largest L2 norm of what a client sends in a reply: a number, or"
        " {kind: adaptive, quantile: 0.5} for a quantile of the clients' norms"
    )
    noise: float = Field(
        ge=0,
        description="z, the noise multiplier: the standard deviation of the noise over C; 0 for"
        " none, where epsilon is infinite",
    )
    where: Literal["server", "clients", "distributed"] = Field(
        default="server",
        description="who adds the noise. server: the server, to the sum of replies, so clients have"
        " to trust it; clients: each client, to its own reply (local privacy); distributed: each"
        " client adds a part, in integers, and the sum under secure aggregation (secrecy) has all"
        " of the noise",
    )
    law: Literal["skellam", "discrete-gaussian"] = Field(
        default="skellam",
        description="distribution of the clients' parts with where: distributed. A sum of skellam"
        " parts is again one; a sum of discrete-gaussian parts only nearly, and epsilon includes"
        " the difference",
    )
    tree: int | None = Field(
        default=None,
        ge=2,
        description="DP-FTRL: number of sums that share a binary tree of noise; then a new tree"
        " begins. The model has the noise of a few nodes instead of one draw per round; null: each"
        " sum has separate noise",
    )
    delta: float = Field(
        default=1e-5, gt=0, lt=1, description="delta, below 1 divided by the number of clients"
    )

    @model_validator(mode="after")
    def _fitting_noise(self) -> Self:
        if self.law != "skellam" and self.where != "distributed":
            text = f"got {self.law}, but only where: distributed draws integers; leave it out"
            raise failure(("law", text, self.law))
        if self.tree is not None and self.where != "server":
            text = f"got {self.tree}, but with where: {self.where} no server keeps a tree of noise"
            raise failure(("tree", f"{text}; leave it out, or use where: server", self.tree))
        if self.tree is not None and isinstance(self.clip, AdaptiveClip):
            text = "got adaptive, but its bits are in no tree of noise; give a number, or no tree"
            raise failure(("clip", text, self.clip.kind))
        return self

    @model_validator(mode="after")
    def _counted_noise(self) -> Self:
        if not isinstance(self.clip, AdaptiveClip) or self.where == "server":
            return self
        text = f"got adaptive, but with where: {self.where} no server noises the count of the bits"
        raise failure(("clip", f"{text}; give a number, or where: server", self.clip.kind))

    @property
    def first_clip(self) -> float:
        """The clip of round 1."""
        return self.clip.start if isinstance(self.clip, AdaptiveClip) else self.clip

    def count_deviation(self, replies: float) -> float:
        """Return the standard deviation of the noise on the number of bits; infinite for no bits.

        Args:
            replies: the expected number of replies of a round.
        """
        if not isinstance(self.clip, AdaptiveClip):
            return inf
        if not self.noise:
            return 0.0
        return self.clip.count_noise or replies / 20

    def vector_noise(self, replies: float) -> float:
        """Return the noise multiplier of the vectors, above z if bits are counted.

        Vectors and bits together then have the privacy of z: z_v = (z^-2 - (2 s)^-2)^(-1/2), with
        the standard deviation s of the count (Andrew et al. 2021, theorem 1).

        Raises:
            ValueError: s is at most z/2, so no z_v has that privacy.
        """
        deviation = self.count_deviation(replies)
        if not self.noise or deviation == inf:
            return self.noise
        left = self.noise**-2 - (2 * deviation) ** -2
        if left <= 0:
            raise ValueError(
                f"the noise of the count, {deviation:g}, is at most half of {self.noise:g}"
            )
        return float(left**-0.5)


AnyPrivacy = Given[Privacy | None, Privacy | Keys | None]
"""A field that takes the settings, or none."""
