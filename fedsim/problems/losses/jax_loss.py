"""The loss of JAX functions: the block; the computation is in `fedsim.problems.pytrees`."""

from collections.abc import Mapping
from math import prod
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np
from pydantic import Field, PrivateAttr

from fedsim.core.blocks.in_memory import Holding
from fedsim.core.errors import DataError
from fedsim.core.extras import missing
from fedsim.core.ports import Array
from fedsim.problems.architectures.base import Kept
from fedsim.problems.losses.base import SCALE, Loss, Rows, State
from fedsim.problems.losses.network import (
    CRITERION,
    OUTPUTS,
    encode_labels,
    network_classes,
)
from fedsim.problems.passed import PassedFunctions
from fedsim.problems.samples import Features, Minibatches, Precision

if TYPE_CHECKING:
    from fedsim.problems.pytrees import Functions


class GivenFunctions(Holding):
    """JAX functions passed in from Python by `fedsim.jax.problem`."""

    name: str = Field(description="the name of the function that computes outputs")
    row: tuple[int, ...] = Field(description="shape that a row's features are given to it in")

    _kept: Kept = PrivateAttr(default_factory=Kept)

    def functions(self, criterion: str, numbers: str) -> "Functions":
        """Return the functions as a loss of a flat model, compiled once for this block.

        Raises:
            DataError: JAX is not installed, this process does not have the functions, or they
                cannot be used.
        """
        if (criterion, numbers) not in self._kept:
            passed: PassedFunctions = self.value("loss")
            try:
                from fedsim.problems.pytrees import Functions  # loads JAX
            except ModuleNotFoundError as error:
                if error.name != "jax":
                    raise
                raise DataError("loss.kind", missing("jax", "JAX", "jax")) from None
            made = Functions(passed, self.row, criterion, np.dtype(numbers))
            self._kept[criterion, numbers] = made
        found: Functions = self._kept[criterion, numbers]
        return found


class JaxLoss(Loss):
    """The loss of JAX functions: the numbers of their parameters are the model, one flat vector.

    The functions are passed in from Python by `fedsim.jax.problem`. The cost of a gradient per row
    is XLA's own count for the compiled loss and gradient.
    """

    source: ClassVar[str] = "Bradbury et al., JAX: composable transformations of Python+NumPy, 2018"
    classifies: ClassVar[bool | str] = "with cross entropy"
    converts: ClassVar[bool] = True

    kind: Literal["jax"] = "jax"
    model: GivenFunctions = Field(description="the functions")
    criterion: Literal["cross-entropy", "squared"] = CRITERION
    outputs: int | None = OUTPUTS
    scale: Literal["sum", "mean", "share"] = SCALE
    numbers: Literal["float32", "float64"] = Field(default="float32", description="number type")

    def computed_in(self, precision: Precision) -> Precision:
        """Return the number type of models and gradients, which only depends on `numbers`."""
        return "float64" if self.numbers == "float64" else "float32"

    def storage_type(self, found: np.dtype[Any], precision: Precision) -> np.dtype[Any]:
        """Return the source's type if it is exact in the computation's type, else the latter."""
        computed = np.dtype(self.numbers)
        return found if np.can_cast(found, computed, "safe") else computed

    @property
    def computed_with(self) -> Mapping[str, str]:
        """JAX's version, its device and the number type, for the manifest."""
        return {**self._functions.platform, "numbers": self.numbers}

    def encode(self, labels: Array) -> Array:
        """Return one column per class (cross entropy), or the labels.

        Raises:
            DataError: a label is no whole number, or not one of the declared classes.
        """
        return encode_labels(labels, self.criterion, self.outputs)

    def arrange(self, X: Features, t: Array, total: int) -> Rows:
        """Return the rows unchanged.

        Raises:
            DataError: they are sparse, have another size, or the functions do not accept them.
        """
        if not isinstance(X, np.ndarray):
            raise DataError("loss.kind", "jax takes dense rows; those of the data are sparse")
        if prod(self.model.row) != X.shape[-1]:
            text = f"{self.model.name} takes rows of shape {self.model.row}"
            raise DataError("loss.row", f"{text}; the data has {X.shape[-1]} features")
        self._functions.check(1 if t.ndim == 1 else int(t.shape[1]))
        return super().arrange(X, t, total)

    def dimension(self, features: int, outputs: int) -> int:
        """Return the number of parameters."""
        return self._functions.dimension

    def layer_shapes(self, features: int, outputs: int) -> tuple[tuple[int, ...], ...]:
        """Return the shapes of the parameter arrays."""
        return self._functions.shapes

    def initial(self, features: int, outputs: int, rng: np.random.Generator) -> Array:
        """Return the parameters that `init` draws from a key with a random seed."""
        return self._functions.initial(int(rng.integers(2**31)))

    def operations(self, rows: int, features: float, outputs: int) -> float:
        """Return the operations per row times the number of rows."""
        return rows * self._functions.operations

    def forward(self, rows: Rows, w: Array) -> State:
        """Compute nothing: value and gradient share no state."""
        return ()

    def value(self, rows: Rows, w: Array, state: State) -> float:
        """Return f(w)."""
        return self._functions.value(rows, w) + 0.5 * self.l2 * float(w @ w)

    def gradient(self, rows: Rows, w: Array, state: State) -> Array:
        """Return the gradient of f at `w`."""
        return self._functions.gradient(rows, w) + self.l2 * w

    def sgd_steps(
        self, rows: Rows, w: Array, eta: float, drawn: Minibatches, pull: float | None
    ) -> Array:
        """Return the model after stochastic gradient steps from `w`."""
        return self._functions.steps(rows, w, eta, drawn, pull, self.l2)

    def classes(self, labels: Array) -> Array:
        """Return 0 to outputs - 1, or the distinct labels, ascending.

        Raises:
            DataError: the criterion is squared.
        """
        if self.criterion == "squared":
            return super().classes(labels)
        return network_classes(labels, self.outputs)

    def scores(self, X: Features, w: Array, classes: Array) -> Array:
        """Return the outputs, shape (n, C)."""
        return self._functions.outputs(np.asarray(X), w)

    def regress(self, X: Features, w: Array) -> Array:
        """Return the output.

        Raises:
            DataError: the criterion is not squared.
        """
        if self.criterion != "squared":
            return super().regress(X, w)
        return self._functions.outputs(np.asarray(X), w).reshape(X.shape[0])

    @property
    def _functions(self) -> "Functions":
        return self.model.functions(self.criterion, self.numbers)
