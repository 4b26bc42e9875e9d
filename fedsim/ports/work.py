"""Work: numeric computations with their price, and a client's loss as such work."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from fedsim.ports.messages import Array, ClientId

if TYPE_CHECKING:
    Sparse: TypeAlias = csr_array[np.float64, tuple[int, int]]
else:
    Sparse = csr_array

Basis: TypeAlias = NDArray[np.generic] | Sparse
"""Numbers of coordinates, shape (k,); or columns, (d, k), an array or compressed sparse rows."""


class Work(NamedTuple):
    """A description of numeric work: what to evaluate, and what it costs.

    The kernel is a pure function at the level of a module, and everything else is data, so
    work can be sent anywhere: a world may have it evaluated whenever it likes between the
    virtual start and the virtual finish, wherever it likes, and together with the work of
    other clients. It is equal to work that says the same, arrays to the bit.

    Attributes:
        kernel: `kernel(loss, *arguments)` with the client's loss f_m; of no client's loss,
            `kernel(*arguments)`.
        client: the owner of the loss; None for work on no client's loss.
        arguments: what the kernel takes beside the loss.
        operations: floating-point operations of a piece, which set virtual time and energy.
        samples: how many samples a piece passes over, which set them on a device that counts
            cycles per sample.
        bases: f_m is taken as a function of the coefficients of the first basis, that in turn
            of those of the next one, and so on; of the model itself where there is none.
        pieces: how many there are, charged one after the other. Their numbers are one result,
            because nothing that the method would see can happen between them.
    """

    kernel: Callable[..., Array]
    client: ClientId | None
    arguments: tuple[Any, ...]  # each kernel has its own
    operations: float
    samples: float = 0.0
    bases: tuple[Basis, ...] = ()
    pieces: int = 1

    def plus(self, operations: float) -> "Work":
        """Return this work with so many operations more, of what is done with its result.

        Each piece takes them.
        """
        return self._replace(operations=self.operations + operations)

    def __eq__(self, other: object) -> bool:
        """Say whether other work says the same."""
        return isinstance(other, Work) and alike(tuple(self), tuple(other))

    def __ne__(self, other: object) -> bool:
        """Say whether other work says anything else."""
        return not self == other

    def __hash__(self) -> int:
        """Return a hash of all but the arrays."""
        return hash((self.kernel, self.client, self.operations, self.samples))


def alike(one: object, other: object) -> bool:
    """Say whether two arguments of work are the same, arrays by shape, type and every bit.

    >>> alike((1, np.array([0.0, np.nan])), (1, np.array([0.0, np.nan])))
    True
    >>> alike(np.array([0.0]), np.array([-0.0]))
    False
    """
    if one is other:
        return True
    if type(one) is not type(other):
        return False
    if isinstance(one, tuple) and isinstance(other, tuple):
        return len(one) == len(other) and all(alike(a, b) for a, b in zip(one, other, strict=True))
    if isinstance(one, np.ndarray) and isinstance(other, np.ndarray):
        same: bool = one.shape == other.shape and one.dtype == other.dtype
        return same and one.tobytes() == other.tobytes()
    if isinstance(one, csr_array) and isinstance(other, csr_array):
        return alike(_parts(one), _parts(other))
    return bool(one == other)


def _parts(matrix: Sparse) -> tuple[object, ...]:
    return matrix.shape, matrix.data, matrix.indices, matrix.indptr


class Oracle(Protocol):
    """A client's own loss f_m, as priced work."""

    @property
    def rows(self) -> int:
        """The number of samples, n_m."""
        ...

    def gradient(self, w: Array) -> Work:
        """Describe the evaluation of the full (sub)gradient at `w`, shape (d,)."""
        ...

    def minibatch(self, w: Array, batch: int | None, rng: np.random.Generator) -> Work:
        """Describe a stochastic gradient at `w`, shape (d,), without bias for the full one.

        Args:
            w: shape (d,).
            batch: how many samples, drawn without replacement here and now; the full gradient,
                and no draw, where it is None or there are not more.
            rng: what they are drawn from.
        """
        ...

    def minibatch_change(
        self, w: Array, old: Array, batch: int | None, rng: np.random.Generator
    ) -> Work:
        """Describe what one stochastic gradient is at `w` more than at `old`, shape (d,).

        It costs two; the samples are drawn as for `minibatch`.
        """
        ...

    def draws(
        self, count: int, batch: int | None, rng: np.random.Generator
    ) -> NDArray[np.intp] | Sequence[NDArray[np.intp] | None]:
        """Draw so many minibatches, each as for `minibatch`; None stands for all samples.

        Returns:
            The numbers of their samples, shape (count, b), or so many None.
        """
        ...

    def sgd_steps(
        self,
        w: Array,
        eta: float,
        drawn: NDArray[np.intp] | Sequence[NDArray[np.intp] | None],
        pull: float | None = None,
    ) -> Work:
        """Describe stochastic gradient steps from `w`, shape (d,), a piece each.

        Args:
            w: shape (d,), where they start.
            eta: their length.
            drawn: the minibatch of each, as `draws` drew them; at least one, of equal sizes.
            pull: mu, where the steps are those on f_m + mu/2 |. - w|^2.
        """
        ...

    def strong_convexity(self) -> Work:
        """Describe the evaluation of a mu for which f_m is known to be mu-strongly convex, ().

        0 where none is known.
        """
        ...

    def value(self, w: Array) -> Work:
        """Describe the evaluation of f_m at `w`, shape ()."""
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
            basis: numbers of coordinates, shape (k,); or columns, shape (d, k), an array or in
                compressed sparse rows.
        """
        ...
