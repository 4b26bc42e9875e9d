"""What is computed: numeric work with its price, and the loss of a client as such work."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from fedsim.ports.messages import Array

if TYPE_CHECKING:
    Sparse: TypeAlias = Any  # stubs have no type for it
else:
    Sparse = csr_array


class Work(NamedTuple):
    """A description of numeric work: what to evaluate, and what it costs.

    The kernel is a pure function of its arguments, so a world may evaluate it whenever it
    likes between the virtual start and the virtual finish, and wherever it likes.

    Attributes:
        kernel: the function to evaluate.
        arguments: its positional arguments.
        operations: floating-point operations, which set virtual time and energy.
        samples: how many samples it passes over, which set them on a device that counts
            cycles per sample.
    """

    kernel: Callable[..., Array]
    arguments: tuple[Any, ...]
    operations: float
    samples: float = 0.0

    def plus(self, operations: float) -> "Work":
        """Return this work with so many operations more, of what is done with its result."""
        return self._replace(operations=self.operations + operations)


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

    def restricted(self, basis: NDArray[np.generic] | Sparse) -> "Oracle":
        """Return f_m as a function of the coefficients of a basis.

        Args:
            basis: numbers of coordinates, shape (k,); or columns, shape (d, k), an array or in
                compressed sparse rows.
        """
        ...
