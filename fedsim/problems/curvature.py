"""Of what mu a client's loss is known to be strongly convex: how far a gradient says it is off.

With f mu-strongly convex and g a (sub)gradient at c, |c - c*| <= |g|/mu of the minimiser c*.
"""

import numpy as np

from fedsim.problems.bases import Columns
from fedsim.problems.local import LocalLoss
from fedsim.problems.losses import LeastSquares, Loss
from fedsim.problems.restricted import Restriction, hessian_operations


def convex(loss: Loss) -> bool:
    """Say whether a loss is convex in the model, which those with a majorant are."""
    return type(loss).majorant is not Loss.majorant


def strong_convexity(loss: LocalLoss) -> float:
    """Return a mu for which f_m is mu-strongly convex; 0 where none is known.

    Of a quadratic it is the least eigenvalue of its Hessian, to rounding. Of another convex loss
    it is what its l2 term gives, whose curvature a skew basis changes. l1 only adds to it.
    """
    own = loss.loss
    if isinstance(own, LeastSquares):
        values = np.linalg.eigvalsh(loss.hessian(np.zeros(loss.dimension)))
        rounding = len(values) * float(np.finfo(np.float64).eps) * float(values[-1])
        return float(values[0]) if values[0] > rounding else 0.0
    if not (own.l2 and convex(own)):
        return 0.0
    return float(own.l2 * loss.span.least**2 if isinstance(loss, Restriction) else own.l2)


def strong_convexity_operations(loss: LocalLoss) -> float:
    """Return the floating-point operations of it.

    The Hessian, or 2 d k^2 for the Gram matrix of k columns; 4 k^3/3 for eigenvalues alone
    (Golub, Van Loan, Matrix Computations, 2013, section 8.3). Nothing where they are known.
    """
    own, k = loss.loss, loss.dimension
    if isinstance(own, LeastSquares):
        return hessian_operations(loss) + 4.0 / 3.0 * k**3
    if own.l2 and convex(own) and isinstance(loss, Restriction) and isinstance(loss.span, Columns):
        return loss.span.operations * k + 4.0 / 3.0 * k**3
    return 0.0
