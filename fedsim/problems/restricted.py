"""A client's loss as a function of the coefficients of a basis, and its Newton step.

Methods that look for few coefficients (matching pursuit, debiasing on a support) minimise f_m(B c)
over c. For a linear loss, X B is formed once, after which the cost no longer depends on d.
"""

from dataclasses import dataclass
from functools import cached_property, partial
from math import inf

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import lstsq

from fedsim.core.errors import DataError
from fedsim.core.ports import Array, Basis
from fedsim.problems.client_loss import (
    EvaluationCache,
    LocalLoss,
    optimizer_steps,
    sgd_steps,
)
from fedsim.problems.losses import LeastSquares, LinearLoss, Loss
from fedsim.problems.optimizers import Training
from fedsim.problems.samples import Features, Minibatches, dense, entries, longest_row, product

# Bases of a subspace of models, w = B c: some of the coordinates, or the columns of a matrix.


@dataclass(frozen=True, slots=True, eq=False)
class Coordinates:
    """Distinct coordinates as a basis: the columns of B are unit vectors of R^d."""

    indices: NDArray[np.intp]
    length: int
    # For orthonormal columns, |B c| = |c|, and a product with B only picks entries.
    norm = least = 1.0
    operations = 0.0

    def embed(self, c: Array) -> Array:
        """Return B c, shape (d,)."""
        w = np.zeros(self.length)
        w[self.indices] = c
        return w

    def pull(self, g: Array) -> Array:
        """Return B^T g for `g` of shape (d,) or (d, columns)."""
        return g[self.indices]

    def features(self, X: Features) -> Array:
        """Return X B, shape (n, k), dense."""
        return dense(X[:, self.indices])


@dataclass(frozen=True, slots=True, eq=False)
class Columns:
    """The columns of a matrix B, shape (d, k), as a basis; they need not be orthonormal."""

    matrix: Features

    @property
    def norm(self) -> float:
        """The largest singular value of B."""
        return float(np.linalg.norm(dense(self.matrix), 2))

    @property
    def least(self) -> float:
        """The largest s with |B c| >= s |c| for all c; 0 if the columns are linearly dependent."""
        gram = dense(self.matrix.T @ self.matrix)
        values = np.linalg.eigvalsh(gram)
        rounding = len(values) * float(np.finfo(np.float64).eps) * float(values[-1])
        return float(np.sqrt(values[0])) if values[0] > rounding else 0.0

    @property
    def operations(self) -> float:
        """Floating-point operations of one product with B: 2 per stored entry, 2 d k if dense."""
        return 2.0 * self.matrix.size

    def embed(self, c: Array) -> Array:
        """Return B c, shape (d,)."""
        return product(self.matrix, c)

    def pull(self, g: Array) -> Array:
        """Return B^T g for `g` of shape (d,) or (d, columns)."""
        return np.asarray(self.matrix.T @ g)

    def features(self, X: Features) -> Array:
        """Return X B, shape (n, k)."""
        return dense(X @ self.matrix)


Span = Coordinates | Columns
"""A basis from which a model is computed."""


class Restriction(LocalLoss):
    """f_m as a function of the coefficients c, shape (k,), of a basis B: w = B c.

    It has an evaluation cache if the whole loss has one.

    Attributes:
        basis: the argument that B was built from.
        span: the basis.
        forming_operations: the one-off cost: 2 n d k for X B, and zero if columns of X are picked
            or nothing is formed.
    """

    basis: Basis
    span: Span
    forming_operations: float

    def __init__(
        self, whole: LocalLoss, basis: Basis, span: Span, forming_operations: float
    ) -> None:
        self.loss, self.outputs, self.arranged = whole.loss, whole.outputs, whole.arranged
        self.memory = None if whole.memory is None else EvaluationCache()
        self.basis, self.span, self.forming_operations = basis, span, forming_operations


class Formed(Restriction):
    """A linear loss on the rows of X B: a gradient costs 4 n k operations."""

    def __init__(self, whole: LocalLoss, basis: Basis, span: Span) -> None:
        rows = whole.arranged
        super().__init__(whole, basis, span, span.operations * rows.X.shape[0] * _share(rows.X))
        formed = span.features(rows.X)
        # Computing the reach is costly, and least squares does not read it.
        reach = inf if isinstance(whole.loss, LeastSquares) else longest_row(formed)
        self.arranged = rows._replace(X=formed, reach=reach)


class Embedded(Restriction):
    """Any loss: c is embedded, the loss is computed in full, and its gradient is pulled back.

    Attributes:
        whole: the loss itself.
    """

    def __init__(self, whole: LocalLoss, basis: Basis, span: Span) -> None:
        super().__init__(whole, basis, span, 0.0)
        self.whole, self._length = whole, int(basis.shape[-1])

    @property
    def dimension(self) -> int:
        """The number of coefficients, k."""
        return self._length

    @property
    def shape(self) -> tuple[int, ...]:
        """(k,)."""
        return (self._length,)

    def value(self, w: Array) -> float:
        """Return f_m(B c) for `w` = c of shape (k,)."""
        return self.whole.value(self.span.embed(w))

    def root_mean_square(self, w: Array) -> float:
        """Return the root mean square of the rows' losses at B c for `w` = c of shape (k,)."""
        return self.whole.root_mean_square(self.span.embed(w))

    def gradient(self, w: Array) -> Array:
        """Return B^T times a (sub)gradient of f_m at B c, shape (k,)."""
        return self.span.pull(self.whole.gradient(self.span.embed(w)))

    def minibatch_gradient(self, w: Array, rows: NDArray[np.intp]) -> Array:
        """Return B^T times the stochastic gradient of these rows at B c, shape (k,)."""
        return self.span.pull(self.whole.minibatch_gradient(self.span.embed(w), rows))

    def sgd_steps(self, w: Array, eta: float, drawn: Minibatches, pull: float | None) -> Array:
        """Return the coefficients after stochastic gradient steps from `w` = c, shape (k,)."""
        return sgd_steps(self, w, eta, drawn, pull)

    def sgd_change(self, w: Array, eta: float, drawn: Minibatches, pull: float | None) -> Array:
        """Return the change by stochastic gradient steps from `w` = c, shape (k,)."""
        return self.sgd_steps(w, eta, drawn, pull) - w

    def optimizer_steps(self, w: Array, drawn: Minibatches, training: Training) -> Array:
        """Return the coefficients after an optimizer's steps from `w` = c, shape (k,)."""
        return optimizer_steps(self, w, drawn, training)

    def constraint(self, w: Array) -> float:
        """Return g_m(B c); errors as for the whole loss."""
        return self.whole.constraint(self.span.embed(w))

    def constraint_gradient(self, w: Array) -> Array:
        """Return B^T times the gradient of g_m at B c, shape (k,); errors as for the whole loss."""
        return self.span.pull(self.whole.constraint_gradient(self.span.embed(w)))

    def hessian(self, w: Array) -> Array:
        """Return B^T H B, H the Hessian of f_m at B c, shape (k, k).

        Errors as for the whole loss.
        """
        half = self.span.pull(self.whole.hessian(self.span.embed(w)))
        return self.span.pull(half.T)

    def initial(self, rng: np.random.Generator) -> Array:
        """Return zeros, shape (k,)."""
        return np.zeros(self._length)

    @property
    def gradient_operations(self) -> float:
        """The operations of a whole gradient, and of one product with B and one with B^T."""
        return self.whole.gradient_operations + 2 * self.span.operations

    @cached_property
    def majorant(self) -> tuple[float, Array]:
        """Not available for restricted losses; see `smoothness`.

        Raises:
            DataError: always.
        """
        raise DataError("loss", "a loss restricted to a basis gives its smoothness constant only")

    @cached_property
    def smoothness(self) -> float:
        """An upper bound on the smoothness constant: that of the whole loss times |B|^2."""
        return self.whole.smoothness * self.span.norm**2


def restrict(loss: LocalLoss, basis: Basis) -> Restriction:
    """Return f_m as a function of the coefficients c of a basis, w = B c.

    The loss's l1 and l2 terms stay functions of w.

    Args:
        loss: f_m.
        basis: distinct coordinates, integers of shape (k,); or a matrix of columns, (d, k), dense
            or in compressed sparse rows. Only stored entries are charged.

    Raises:
        ValueError: the basis is neither.
    """
    if loss.memory is None:
        return _restriction(loss, basis)
    return loss.memory.part(basis, partial(_restriction, loss, basis))


def _restriction(loss: LocalLoss, basis: Basis) -> Restriction:
    linear = isinstance(loss.loss, LinearLoss)
    basis = basis.copy()  # so that later modification has no effect
    if isinstance(basis, np.ndarray) and basis.ndim == 1 and basis.dtype.kind in "iu":
        picked = Coordinates(basis.astype(np.intp), loss.dimension)
        return (Formed if linear else Embedded)(loss, basis, picked)
    if basis.ndim != 2 or basis.shape[0] != loss.dimension:
        raise ValueError(
            f"a basis is integers of shape (k,) or a matrix of shape ({loss.dimension}, k); "
            f"got {basis.dtype} of shape {basis.shape}"
        )
    columns = Columns(basis.astype(np.float64, copy=False))
    # In a basis that is not orthonormal, the l1 and l2 norms of the coefficients differ from those
    # of the model.
    plain = isinstance(loss.loss, LinearLoss) and not (loss.loss.l1 or loss.loss.l2)
    return (Formed if plain else Embedded)(loss, basis, columns)


def newton(loss: LocalLoss, w: Array) -> Array:
    """Return w - H^+ g, one full Newton step, shape (d,).

    For the squared loss without l1 and l2, it is the minimiser. This is solved as least squares on
    the rows themselves, which is more accurate than through H. If H is singular, the step is the
    shortest one, so that a step from zero gives the minimiser of least norm.

    Raises:
        DataError: the loss does not provide its Hessian.
    """
    linear, X = loss.loss, loss.arranged.X
    solvable = isinstance(linear, LeastSquares) and not (linear.l1 or linear.l2)
    if solvable and isinstance(X, np.ndarray) and not isinstance(loss, Embedded):
        (residuals,) = linear.forward(loss.arranged, w)
        return w - _shortest(X, residuals)
    return w - _shortest(loss.hessian(w), loss.gradient(w))


def newton_operations(loss: LocalLoss) -> float:
    """Return the floating-point operations of a Newton step.

    They are 2 n k^2 for the Hessian of k coefficients on n rows, 2 k^3/3 to solve with it, and a
    gradient. If X B is not formed, they include the whole Hessian, and products with B.
    """
    k = loss.dimension
    return hessian_operations(loss) + 2.0 / 3.0 * k * k * k + loss.gradient_operations


def hessian_operations(loss: LocalLoss) -> float:
    """Return the floating-point operations of the Hessian."""
    if isinstance(loss, Embedded):
        whole = loss.whole
        return _hessian(whole) + loss.span.operations * (whole.dimension + loss.dimension)
    return _hessian(loss)


def _hessian(loss: LocalLoss) -> float:
    side = entries(loss.arranged.X) * loss.outputs
    return 2.0 * loss.rows * side * side


def _shortest(A: Array, b: Array) -> Array:
    """Return the shortest x of least |A x - b|, by QR with column pivoting (Golub, Businger)."""
    if not A.size:
        return np.zeros(A.shape[1])
    A = A.astype(np.float64, copy=False)  # ranks are determined by the rounding of float64
    cutoff = max(A.shape) * float(np.finfo(np.float64).eps)
    solved = lstsq(A, b, cond=cutoff, lapack_driver="gelsy", check_finite=False)
    return np.asarray(solved[0], dtype=np.float64)


def _share(X: Features) -> float:
    """Return the share of stored entries in a matrix."""
    return float(entries(X) / X.shape[1])


# The known strong convexity of a client's loss, which bounds the distance to its minimiser c*: if f
# is mu-strongly convex and g is a (sub)gradient at c, then |c - c*| <= |g|/mu.


def convex(loss: Loss) -> bool:
    """Return whether a loss is convex in the model: whether it has a majorant."""
    return type(loss).majorant is not Loss.majorant


def strong_convexity(loss: LocalLoss) -> float:
    """Return a mu for which f_m is mu-strongly convex; 0 if none is known.

    For a quadratic, it is the least eigenvalue of its Hessian, up to rounding. For another convex
    loss, it is the curvature of its l2 term, which depends on the basis. An l1 term only adds to
    it.
    """
    inner = loss.loss
    if _has_flat_directions(loss):
        return 0.0
    if isinstance(inner, LeastSquares):
        values = np.linalg.eigvalsh(loss.hessian(np.zeros(loss.dimension)))
        rounding = len(values) * float(np.finfo(np.float64).eps) * float(values[-1])
        return float(values[0]) if values[0] > rounding else 0.0
    if not (inner.l2 and convex(inner)):
        return 0.0
    return float(inner.l2 * loss.span.least**2 if isinstance(loss, Restriction) else inner.l2)


def _has_flat_directions(loss: LocalLoss) -> bool:
    """Return whether a quadratic has fewer rows than coefficients, and no l2 term.

    Its Hessian is singular then, which a client knows without computing it.
    """
    inner = loss.loss
    return isinstance(inner, LeastSquares) and not inner.l2 and loss.rows < loss.dimension


def strong_convexity_operations(loss: LocalLoss) -> float:
    """Return the floating-point operations of `strong_convexity`.

    They are those of the Hessian, or 2 d k^2 for the Gram matrix of k columns, and 4 k^3/3 for
    eigenvalues alone (Golub, Van Loan, Matrix Computations, 2013, section 8.3). They are zero if
    the result is known without them.
    """
    inner, k = loss.loss, loss.dimension
    if _has_flat_directions(loss):
        return 0.0
    if isinstance(inner, LeastSquares):
        return hessian_operations(loss) + 4.0 / 3.0 * k**3
    if (
        inner.l2
        and convex(inner)
        and isinstance(loss, Restriction)
        and isinstance(loss.span, Columns)
    ):
        return loss.span.operations * k + 4.0 / 3.0 * k**3
    return 0.0
