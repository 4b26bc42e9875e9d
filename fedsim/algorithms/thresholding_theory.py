"""Which steps and which sparsity the analysis of hard thresholding bears.

The theorems of Tong et al. 2022 (`fedsim.algorithms.thresholding`) bound a round by what local
steps bring the model nearer to the best one and what thresholding may move it away. What is
tested here is derived, and necessary for any such bound; their own conditions have restricted
constants that nobody knows of a problem. With w* of tau* entries other than zero,

    |H_tau(v) - w*|^2 <= nu |v - w*|^2,    nu = 1 + (r + sqrt((4 + r) r))/2,
    r = m/(tau - tau* + m),  m = min(tau*, d - tau)

(Shen, Li, J. Mach. Learn. Res. 2018, theorem 1, which is tight), and a gradient step of length
gamma on a loss that is mu_m-strongly convex brings a model nearer to its minimiser by the factor
max(|1 - gamma mu_m|, |1 - gamma L_m|), which is no less than |1 - gamma L_m|. K of them, averaged,
and n thresholds (1; with those of local steps K + 1) make a contraction of this kind only where

    gamma < 2/L_max    and    nu^n (sum_m p_m |1 - gamma L_m|^K)^2 < 1,    tau* = 1 at best.

Steps too short for their sparsity are those that thresholding takes back: a wrong support is then
a fixed point (Beck, Eldar, SIAM J. Optim. 2013, L-stationarity).
"""

from collections.abc import Iterator

import numpy as np
from numpy.typing import ArrayLike

from fedsim.algorithms.base import Concern, ProblemInfo
from fedsim.algorithms.remedies import concern, long_step
from fedsim.ports import Array


def expansion(kept: ArrayLike, length: int, target: int = 1) -> Array:
    """Return nu, by which squared distances to a target may grow as a vector is thresholded.

    Args:
        kept: tau >= tau*, a number or many.
        length: d, of the vector.
        target: tau*, the entries of the target that differ from zero.

    >>> float(expansion(1, 10)), float(expansion(10, 10))
    (2.618033988749895, 1.0)
    """
    tau = np.asarray(kept, dtype=np.float64)
    most = np.minimum(target, length - tau)
    r = most / np.maximum(tau - target + most, 1)
    return np.asarray(1 + (r + np.sqrt((4 + r) * r)) / 2)


def concerns(
    info: ProblemInfo, eta: float, steps: int, kept: int, thresholds: int
) -> Iterator[Concern]:
    """Yield that a step is too long for a gradient step, or too short for the sparsity.

    Args:
        info: with the clients' smoothness constants.
        eta: gamma.
        steps: K.
        kept: tau.
        thresholds: n, how many a model goes through in a round.
    """

    def text(bound: float) -> str:
        return (
            f"got {eta:g}, but 2/L_max = {bound:g}: no longer gradient step on a client's loss is"
            " sure to bring a model nearer (derived, for the theorems of Tong et al. 2022)"
        )

    yield from long_step(eta, info.largest_smoothness / 2, text, "1/L_max")
    if eta * info.largest_smoothness >= 2:
        return
    nearer = np.abs(1 - eta * info.client_smoothness()) ** steps
    rate, length = float(info.shares @ nearer), (info.shape or (info.dimension,))[0]
    bears = expansion(np.arange(kept, length + 1), length) ** thresholds * rate**2 < 1
    if bears.any() and not bears[0]:
        moved = float(np.power(expansion(kept, length), thresholds / 2))
        worst = (
            f"got {kept}, which may move a model away from the best one by {moved:.4g}, while"
            f" local steps of {eta:g} bring it nearer by {rate:.4g} at best: no theorem like those"
            " of Tong et al. 2022 holds for such short steps (Shen, Li 2018)"
        )
        yield concern("sparsity", worst, str(kept + int(np.argmax(bears))))
