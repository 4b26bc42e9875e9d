"""The nuclear norm: the sum of singular values, for models that are matrices of low rank."""

from math import prod
from typing import ClassVar, Literal

import numpy as np
from scipy.linalg import svd

from fedsim.blocks.wording import joined
from fedsim.errors import DataError
from fedsim.ports import Array, Structure
from fedsim.problems.losses.base import matrix_losses
from fedsim.problems.penalties.base import Shape
from fedsim.problems.penalties.norms import Norm
from fedsim.problems.projections import nuclear_ball, on_singular_values, soft_threshold


class Nuclear(Norm):
    """h = weight |W|_*, the sum of the singular values of a matrix model."""

    source: ClassVar[str] = "Fazel, 2002; prox: Cai, Candes, Shen, SIAM J. Optim. 2010"
    ball: ClassVar[str] = "nuclear-ball"

    kind: Literal["nuclear"] = "nuclear"

    def check(self, shape: Shape) -> None:
        """See to it that there are singular values.

        Raises:
            DataError: the model is no matrix.
        """
        if len(shape) != 2:
            raise DataError(
                "penalty",
                f"the loss's model is a vector of {prod(shape)} entries; the penalty {self.kind} "
                f"takes a matrix, as the losses {joined(matrix_losses(), 'and')} have",
            )

    def norm(self, W: Array) -> float:
        """Return the sum of the singular values; NaN where an entry is not finite."""
        if not np.isfinite(W).all():
            return float("nan")
        return float(svd(W, compute_uv=False).sum())

    def prox(self, W: Array, step: float) -> Array:
        """Return W with its singular values soft-thresholded at step x weight."""
        return on_singular_values(W, lambda s: soft_threshold(s, step * self.weight))

    def project(self, W: Array, radius: float) -> Array:
        """Return the nearest point of the nuclear ball."""
        return nuclear_ball(W, radius)

    def residual(self, W: Array, G: Array) -> float:
        """Return the distance of -G from weight {U V^T + Z: U^T Z = 0, Z V = 0, |Z|_2 <= 1}.

        U and V are the singular vectors of W of singular values that are not zero, which
        those at the level of rounding are.
        """
        if not (np.isfinite(W).all() and np.isfinite(G).all()):
            return float("nan")
        U, s, Vt = svd(W, full_matrices=False)
        kept = s > max(W.shape) * np.finfo(np.float64).eps * s[0]
        U, Vt = U[:, kept], Vt[kept]
        left = G - U @ (U.T @ G)
        outside = left - (left @ Vt.T) @ Vt
        inside = G - outside + self.weight * (U @ Vt)
        excess = np.maximum(svd(outside, compute_uv=False) - self.weight, 0.0)
        return float(np.hypot(np.linalg.norm(inside), np.linalg.norm(excess)))

    def structure(self, shape: Shape) -> Structure:
        """Return that its rank is low."""
        return Structure("low-rank", shape[0])

    def operations(self, shape: Shape) -> float:
        """Return 16 m n k + 8 k^3 with k = min(m, n).

        14 m n k + 8 k^3 is the thin singular value decomposition (Golub, Van Loan, Matrix
        Computations, 2013, section 8.6), 2 m n k the product that joins it again.
        """
        m, n = shape
        k = min(m, n)
        return 16.0 * m * n * k + 8.0 * k**3
