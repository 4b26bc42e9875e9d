"""Work: descriptions of numeric computations with their cost, and a client's loss as work."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from fedsim.core.ports.messages import Array, ClientId

if TYPE_CHECKING:
    Sparse: TypeAlias = csr_array[np.float64, tuple[int, int]]
else:
    Sparse = csr_array

Basis: TypeAlias = NDArray[np.generic] | Sparse
"""Indices of coordinates, shape (k,); or columns, (d, k), an array or compressed sparse rows."""


class Work(NamedTuple):
    """A description of numeric work and its cost.

    The kernel is a pure function at module level, and everything else is data. So a world may
    evaluate the work at any time between its virtual start and its virtual finish, on any thread,
    and together with the work of other clients. Two descriptions are equal if all fields are,
    arrays bit by bit.

    Attributes:
        kernel: called as `kernel(loss, *arguments)` with the client's loss f_m, or as
            `kernel(*arguments)` without a client.
        client: the number of the client; None for work without a loss.
        arguments: the arguments of the kernel after the loss.
        operations: floating-point operations of a piece; they determine its virtual time and
            energy.
        samples: the number of samples in a piece; on a device with a cost in cycles per sample, it
            determines them instead.
        bases: restrictions of f_m: it becomes a function of the coefficients of the first basis,
            that one is restricted to the next basis, and so on; empty for f_m itself.
        pieces: the number of pieces, charged one after the other. They have one common result: no
            event that the method could observe happens between them.
        sent: whether the result is only sent: packed unchanged, dense, under the field "". An
            evaluator may then return float32 if the result travels in it: the receiver gets the
            same.
        single: whether an evaluator may return the result rounded to float32. The world of the
            client sets it for work that is `sent`, if its packer rounds anyway. Whether a result is
            finite is checked before it is rounded.
    """

    kernel: Callable[..., Array]
    client: ClientId | None
    arguments: tuple[Any, ...]  # each kernel has its own
    operations: float
    samples: float = 0.0
    bases: tuple[Basis, ...] = ()
    pieces: int = 1
    sent: bool = False
    single: bool = False

    def plus(self, operations: float) -> "Work":
        """Return this work with more operations per piece, for the use of its result."""
        return self._replace(operations=self.operations + operations)

    # Many methods describe every update with these two: `_replace` would be too slow for them.

    def as_sent(self) -> "Work":
        """Return this work as work whose result is only sent."""
        return Work(*self[:-2], True, self.single)  # noqa: FBT003 - a field

    def allow_rounding(self, *, single: bool) -> "Work":
        """Return this work with or without the permission to round its result to float32."""
        return Work(*self[:-1], single)

    def __eq__(self, other: object) -> bool:
        """Return whether all fields are equal, arrays bit by bit."""
        return isinstance(other, Work) and alike(tuple(self), tuple(other))

    def __ne__(self, other: object) -> bool:
        """Return whether any field differs."""
        return not self == other

    def __hash__(self) -> int:
        """Return a hash of the fields without arrays."""
        return hash((self.kernel, self.client, self.operations, self.samples))


def alike(one: object, other: object) -> bool:
    """Return whether two arguments of work are equal; arrays by shape, type and every bit.

    >>> alike((1, np.array([0.0, np.nan])), (1, np.array([0.0, np.nan])))
    True
    >>> alike(np.array([0.0]), np.array([-0.0]))
    False
    """
    if one is other:
        return True
    if type(one) is not type(other):
        return False
    if isinstance(one, tuple | list) and isinstance(other, tuple | list):
        return len(one) == len(other) and all(alike(a, b) for a, b in zip(one, other, strict=True))
    if isinstance(one, np.ndarray) and isinstance(other, np.ndarray):
        same: bool = one.shape == other.shape and one.dtype == other.dtype
        seeds = [getattr(work, "seed", None) for work in (one, other)]  # of what a step draws
        return same and seeds[0] == seeds[1] and one.tobytes() == other.tobytes()
    if isinstance(one, csr_array) and isinstance(other, csr_array):
        return alike(_parts(one), _parts(other))
    return bool(one == other)


def _parts(matrix: Sparse) -> tuple[object, ...]:
    return matrix.shape, matrix.data, matrix.indices, matrix.indptr


class Oracle(Protocol):
    """A client's own loss f_m, whose evaluations are described as work with a cost."""

    @property
    def rows(self) -> int:
        """The number of samples, n_m."""
        ...

    @property
    def weight(self) -> float:
        """The weight w_m of the loss in the objective; see `Client.weight`."""
        ...

    @property
    def random(self) -> bool:
        """Whether stochastic gradients draw more than their samples, as dropout does.

        If so, minibatches of all samples are drawn, too: each carries the seed of a step.
        """
        ...

    def gradient(self, w: Array) -> Work:
        """Describe the evaluation of the full (sub)gradient at `w`, shape (d,)."""
        ...

    def minibatch(self, w: Array, batch: int | None, rng: np.random.Generator) -> Work:
        """Describe a stochastic gradient at `w`, shape (d,), an unbiased estimate of the full one.

        Args:
            w: shape (d,).
            batch: the number of samples, drawn by this call without replacement; None, or at least
                n_m, for the full gradient without a draw.
            rng: the stream of the draw.
        """
        ...

    def minibatch_change(
        self, w: Array, old: Array, batch: int | None, rng: np.random.Generator
    ) -> Work:
        """Describe a stochastic gradient at `w` minus that at `old`, same samples, shape (d,).

        Its cost is that of two gradients; the samples are drawn as for `minibatch`.
        """
        ...

    def draws(
        self, count: int, batch: int | None, rng: np.random.Generator
    ) -> NDArray[np.intp] | Sequence[NDArray[np.intp] | None]:
        """Draw `count` minibatches, each as for `minibatch`; None stands for all samples.

        Returns:
            The indices of the samples, shape (count, b), or `count` times None.
        """
        ...

    def later_draws(
        self, count: int, batch: int, rng: np.random.Generator
    ) -> Sequence[NDArray[np.intp]] | None:
        """Return minibatches that are drawn only when the steps that use them are evaluated.

        None if the caller has to draw them at once, by `draws`. Until the result of the work is
        there, nothing else may draw from the stream. Cancelled work may have drawn from it.
        """
        ...

    def passes(
        self, count: int, batch: int | None, rng: np.random.Generator, *, drop_last: bool = False
    ) -> NDArray[np.intp] | Sequence[NDArray[np.intp] | None]:
        """Draw the minibatches of `count` passes over the samples, each in a random order.

        Args:
            count: the number of passes.
            batch: the number of samples of a minibatch; the last one of a pass takes the rest.
                None, or at least n_m, for all samples at once, without a draw.
            rng: the stream of the draws.
            drop_last: whether a smaller last minibatch of a pass is left out.
        """
        ...

    def sgd_steps(
        self,
        w: Array,
        eta: float,
        drawn: NDArray[np.intp] | Sequence[NDArray[np.intp] | None],
        pull: float | None = None,
        *,
        change: bool = False,
    ) -> Work:
        """Describe stochastic gradient steps from `w`, shape (d,), one piece each.

        Args:
            w: the first model, shape (d,).
            eta: the step size.
            drawn: the minibatches, from `draws` or `passes`; at least one.
            pull: mu, for steps on f_m + mu/2 |. - w|^2; None for 0.
            change: whether the result is the last model minus `w`.
        """
        ...

    def optimizer_steps(
        self,
        w: Array,
        drawn: NDArray[np.intp] | Sequence[NDArray[np.intp] | None],
        training: Any,
    ) -> Work:
        """Describe the steps of an optimizer from `w`, shape (d,), one piece each.

        Args:
            w: the first model, shape (d,).
            drawn: the minibatches, from `draws` or `passes`; at least one.
            training: the optimizer and its step sizes, `fedsim.problems.optimizers.Training`.
        """
        ...

    def strong_convexity(self) -> Work:
        """Describe the evaluation of a mu such that f_m is known to be mu-strongly convex, ().

        The result is 0 if none is known.
        """
        ...

    def value(self, w: Array) -> Work:
        """Describe the evaluation of f_m at `w`, shape ()."""
        ...

    def root_mean_square(self, w: Array) -> Work:
        """Describe the evaluation of the root mean square of the rows' losses at `w`, shape ()."""
        ...

    def constraint(self, w: Array) -> Work:
        """Describe the evaluation of g_m at `w`, shape (): g(w) <= 0 is the constraint."""
        ...

    def constraint_gradient(self, w: Array) -> Work:
        """Describe the evaluation of the gradient of g_m at `w`, shape (d,)."""
        ...

    def newton(self, w: Array) -> Work:
        """Describe a full Newton step from `w`, shape (d,); for the squared loss, the minimiser."""
        ...

    def restricted(self, basis: Basis) -> "Oracle":
        """Return f_m as a function of the coefficients of a basis.

        Args:
            basis: indices of coordinates, shape (k,); or columns, shape (d, k), an array or in
                compressed sparse rows.
        """
        ...
