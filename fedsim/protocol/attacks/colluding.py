"""Attacks of malicious clients that know the vectors of the honest ones in the same round."""

from statistics import NormalDist
from typing import ClassVar, Literal

import numpy as np
from pydantic import Field, NonNegativeInt, PositiveFloat

from fedsim.core.ports import Array
from fedsim.protocol.attacks.base import Attack


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

    It is 0 if the malicious clients are a majority, and 1e3 if they need no supporter.

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
    """The vector of one honest client, which so counts more than the others.

    Karimireddy, He, Jaggi, "Byzantine-Robust Learning on Heterogeneous Datasets via Bucketing",
    ICLR 2022.
    """

    kind: Literal["mimic"] = "mimic"
    colludes: ClassVar[bool] = True

    which: NonNegativeInt = Field(
        default=0, description="the number of the copied client among the honest clients of a round"
    )

    def collude(self, true: Array, false_ones: int) -> Array:
        """Return the vector at the place, or the last one."""
        copied: Array = true[min(self.which, len(true) - 1)]
        return copied
