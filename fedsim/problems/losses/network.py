"""The loss of a network trained by PyTorch: the block; the computation is in `modules`."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from fedsim.core.blocks.choice import OneOf
from fedsim.core.blocks.spec import Given, Keys, as_written
from fedsim.core.errors import DataError, Failed
from fedsim.core.extras import missing
from fedsim.core.ports import Array
from fedsim.problems.architectures import ARCHITECTURES, Architecture, GivenModule
from fedsim.problems.losses.augmentation import Augmentation, check_images
from fedsim.problems.losses.base import SCALE, Loss, Rows, State
from fedsim.problems.losses.linear import format_labels, whole_labels
from fedsim.problems.losses.softmax import indicators
from fedsim.problems.optimizers import GivenOptimizer, Training
from fedsim.problems.samples import Features, Minibatches, Precision, seed_of

if TYPE_CHECKING:
    from torch import nn

    from fedsim.problems.modules import LossTerms, Recipe, Trainer
    from fedsim.problems.modules.vmap import Together


# Fields shared by the losses of networks, of PyTorch and of JAX.

CRITERION: Any = Field(
    default="cross-entropy",
    description="cross-entropy: one output per class; squared: (o - y)^2/2 with one output",
)
OUTPUTS: Any = Field(
    default=None,
    ge=2,
    description="how many classes, where labels are 0 to outputs - 1; if null, as many as the "
    "data has distinct labels, ascending",
)


def encode_labels(labels: Array, criterion: str, outputs: int | None) -> Array:
    """Return one column per class (cross entropy), or the labels.

    Args:
        labels: the labels of all clients, shape (n,).
        criterion: "cross-entropy" or "squared".
        outputs: the number of classes; None for the number of distinct labels.

    Raises:
        DataError: a label is no whole number, or not one of the declared classes.
    """
    if criterion == "squared":
        return labels
    whole_labels(labels, "loss.criterion")
    if outputs is None:
        return indicators(labels)
    classes = network_classes(labels, outputs)
    wrong = np.setdiff1d(labels, classes)
    if len(wrong):
        text = f"labels are 0 to {outputs - 1}; the data has {format_labels(wrong)}"
        raise DataError("loss.outputs", f"{text}, and the network {outputs} outputs, one a class")
    return np.equal.outer(labels, classes).astype(np.float64)


def network_classes(labels: Array, outputs: int | None) -> Array:
    """Return 0 to outputs - 1; or, if `outputs` is None, the distinct labels, ascending.

    Two outputs also accept the labels -1 and +1, to which two texts are converted.
    """
    distinct: Array = np.unique(labels)
    if outputs is None or (outputs == 2 and np.array_equal(distinct, [-1, 1])):
        return distinct
    return np.arange(outputs, dtype=np.float64)


class TorchLoss(Loss):
    """The loss of a PyTorch module: its trained parameters are the model, one flat vector.

    Values and full gradients are computed in evaluation mode: without dropout or other noise.
    Gradients of minibatches and steps are computed in training mode, with one seed per step, drawn
    from the client's stream. Frozen parameters and buffers are the same at every node and never
    sent. A module that changes a buffer is refused. The exception are the running means and
    variances of batch normalisation, which `statistics` controls.

    The cost of a gradient is PyTorch's own count for one row, forward and backward, times the
    number of rows. It includes matrix products and convolutions, and nothing else.
    """

    source: ClassVar[str] = "Paszke et al., PyTorch, NeurIPS 2019"
    classifies: ClassVar[bool | str] = "with cross entropy"
    threads: ClassVar[bool] = True
    converts: ClassVar[bool] = True

    kind: Literal["torch"] = "torch"
    model: Annotated[Architecture, OneOf(ARCHITECTURES)] = Field(description="the network")
    criterion: Literal["cross-entropy", "squared"] = CRITERION
    outputs: int | None = OUTPUTS
    scale: Literal["sum", "mean", "share"] = SCALE
    numbers: Literal["float32", "float64", "bfloat16"] = Field(
        default="float32",
        description="number type; bfloat16: in products and convolutions, by autocast",
    )
    device: Literal["cpu", "cuda"] = Field(
        default="cpu", description="device that computes the loss"
    )
    statistics: Literal["refused", "local", "averaged"] = Field(
        default="refused",
        description="running means and variances of batch normalisation: a module that has them is"
        " refused; or they stay with each client; or they are averaged like parameters",
    )
    augment: Given[tuple[Augmentation, ...], Sequence[Augmentation | Keys]] = as_written(
        (),
        "how images of minibatches are varied, in this order: flip, {crop: pixels}; never where "
        "all rows are taken, or where a model is tested",
    )

    def computed_in(self, precision: Precision) -> Precision:
        """Return the number type of models and gradients, which only depends on `numbers`."""
        return "float64" if self.numbers == "float64" else "float32"

    def storage_type(self, found: np.dtype[Any], precision: Precision) -> np.dtype[Any]:
        """Return the source's type if it is exact in the computation's type, else the latter."""
        asked = np.dtype(precision) if self.numbers == "float64" else np.dtype(np.float32)
        computed = np.dtype(np.int64) if self.model.whole_numbers else asked
        return found if np.can_cast(found, computed, "safe") else computed

    @property
    def state_type(self) -> np.dtype[Any]:
        """The number type of the steps."""
        return np.dtype(np.float64 if self.numbers == "float64" else np.float32)

    @property
    def computed_with(self) -> Mapping[str, str]:
        """PyTorch's version, the processor's kernels and the number type, for the manifest."""
        from fedsim.problems.modules import platform  # loads PyTorch

        return {**platform(self.device), "numbers": self.numbers}

    def encode(self, labels: Array) -> Array:
        """Return one column per class (cross entropy), or the labels.

        Raises:
            DataError: a label is no whole number, or not one of the declared classes.
        """
        return encode_labels(labels, self.criterion, self.outputs)

    def arrange(self, X: Features, t: Array, total: int) -> Rows:
        """Return the rows unchanged.

        Raises:
            DataError: they are sparse, or the network does not accept them.
        """
        if not isinstance(X, np.ndarray):
            raise DataError("loss.kind", "torch takes dense rows; those of the data are sparse")
        outputs = 1 if t.ndim == 1 else t.shape[1]
        self.model.check(X, outputs)
        if len(X) == 1 and self.recipe(int(X.shape[1]), outputs).mixes:
            text = (
                "the outputs of a row depend on the rows beside it, as under batch normalisation,"
                " and a client has one row only; take group norm, or a split that gives more"
            )
            raise DataError("loss.model", text)
        if isinstance(self.model, GivenModule) and self.model.whole_numbers and len(X):
            self._check_tokens(X, outputs)
        return super().arrange(X, t, total)

    def _check_tokens(self, X: Array, outputs: int) -> None:
        """Check that a user's module accepts the smallest and the largest whole number.

        Raises:
            DataError: it does not, for example because its embedding is too small.
        """
        key = "tokens", X.shape[1]
        low, high = self.model.kept.get(key, (0, 0))  # the range already tried; 0 at construction
        ends = int(X.min()), int(X.max())
        if not self.model.predicts or (low <= ends[0] and ends[1] <= high):
            return
        # The row with the smallest token, and the row with the largest.
        rows = X[[int(X.argmin()) // X.shape[1], int(X.argmax()) // X.shape[1]]]
        try:
            w = np.zeros(self.dimension(X.shape[1], outputs))
            self._trainer(Rows(X, np.empty((0, outputs)), 1.0)).outputs(rows, w)
        except Failed as error:
            text = f"{error}; the rows are whole numbers from {ends[0]} to {ends[1]}"
            raise DataError("loss.model", text) from None
        self.model.kept[key] = min(low, ends[0]), max(high, ends[1])

    def dimension(self, features: int, outputs: int) -> int:
        """Return the number of trained parameters."""
        return self.recipe(features, outputs).dimension

    def layer_shapes(self, features: int, outputs: int) -> tuple[tuple[int, ...], ...]:
        """Return the shapes of the trained parameters."""
        return tuple(layer.shape for layer in self.recipe(features, outputs).layers)

    def part_names(self, features: int, outputs: int) -> tuple[str, ...]:
        """Return the names of the trained parameters in the module."""
        return tuple(layer.name for layer in self.recipe(features, outputs).layers)

    def kept_names(self, features: int, outputs: int) -> tuple[str, ...]:
        """Return the names of running means and variances that are part of the model."""
        recipe = self.recipe(features, outputs)
        return tuple(layer.name for layer in recipe.layers[recipe.parameters :])

    def initial(self, features: int, outputs: int, rng: np.random.Generator) -> Array:
        """Return the initial parameters of the module, built under a random seed."""
        found = self.recipe(features, outputs)  # raises if the module is unusable
        from fedsim.problems.modules import start  # loads PyTorch

        return start(found, features, outputs, int(rng.integers(2**63)))

    def operations(self, rows: int, features: float, outputs: int) -> float:
        """Return the operations per row times the number of rows."""
        return rows * self.recipe(round(features), outputs).operations

    def forward(self, rows: Rows, w: Array) -> State:
        """Compute nothing: value and gradient share no state."""
        return ()

    def value(self, rows: Rows, w: Array, state: State) -> float:
        """Return f(w)."""
        return self._trainer(rows).value(rows, w, self._terms)

    def row_losses(self, rows: Rows, w: Array, state: State) -> Array | None:
        """Return the loss of each row; None for a user's loss that only returns their mean."""
        return self._trainer(rows).row_losses(rows, w, self._terms)

    def gradient(self, rows: Rows, w: Array, state: State) -> Array:
        """Return the gradient of f at `w`."""
        return self._trainer(rows).gradient(rows, w, self._terms)

    def minibatch_gradient(self, rows: Rows, w: Array, indices: NDArray[np.intp]) -> Array:
        """Return the stochastic gradient of some rows at `w`, with the noise of training."""
        part = self.subset(rows, indices)
        return self._trainer(rows).minibatch_gradient(part, w, self._terms, seed_of(indices))

    def sgd_steps(
        self, rows: Rows, w: Array, eta: float, drawn: Minibatches, pull: float | None
    ) -> Array:
        """Return the model after stochastic gradient steps from `w`."""
        change = self.sgd_change(rows, w, eta, drawn, pull)
        return np.add(w, change, out=change)

    def sgd_change(
        self, rows: Rows, w: Array, eta: float, drawn: Minibatches, pull: float | None
    ) -> Array:
        """Return the same model minus `w`, as a new array."""
        return self._trainer(rows).change(rows, w, eta, drawn, pull, self._terms)

    def optimizer_steps(
        self, rows: Rows, w: Array, drawn: Minibatches, training: Training
    ) -> Array:
        """Return the result of an optimizer's steps from `w`; see `Training.result`."""
        return self._trainer(rows).train(rows, w, drawn, training, self._terms)

    def noisy(self, features: int, outputs: int) -> bool:
        """Return whether the training loss is stochastic, because of dropout or augmentation."""
        return bool(self.augment) or self.recipe(features, outputs).noisy

    def draws(self, features: int, outputs: int) -> bool:
        """Return whether steps draw random numbers, for masks of dropout or for augmentation."""
        return bool(self.augment) or self.recipe(features, outputs).random

    def check_optimizer(self, optimizer: GivenOptimizer, features: int, outputs: int) -> None:
        """Check that an optimizer of PyTorch can take a step on the module; see `Loss`."""
        from fedsim.problems.modules import trainer  # loads PyTorch

        found = self.recipe(features, outputs)
        trainer(found, self.numbers, self.device).check(optimizer)

    def check_together(self, features: int, outputs: int) -> None:
        """Check that several clients' networks can be computed as one.

        Raises:
            DataError: they cannot.
        """
        if not self.model.predicts:
            raise DataError("evaluator", "got vmap, which a step cannot take; take one-by-one")
        if self.augment:
            text = "got vmap, but each client varies its images (loss.augment); take one-by-one"
            raise DataError("evaluator", text)
        self._together(features, outputs)

    def divides_together(self, features: int, outputs: int) -> bool:
        """Return whether several threads may compute groups of clients: recorded dense layers only.

        Their results do not depend on which call with some shape came first, before it was
        recorded.
        """
        if self.on_gpu or self.numbers == "bfloat16":
            return False
        found = self.recipe(features, outputs)
        return found.recordable and found.dense

    @property
    def on_gpu(self) -> bool:
        """Whether a GPU computes it."""
        return self.device == "cuda"

    def why_apart(self, features: int, outputs: int) -> str | None:
        """Return why several clients' steps as one operation would not be faster; else empty."""
        if not self.on_gpu and self.numbers == "bfloat16":
            return "the network is computed on a CPU in bfloat16"
        found = self.recipe(features, outputs)
        if not self.on_gpu and not (found.recordable and found.dense):
            return "the network has other layers than PyTorch's dense ones, or a loss of its own"
        try:
            self.check_together(features, outputs)
        except DataError as error:
            return str(error).removeprefix("got vmap, but ").partition(";")[0]
        return ""

    def steps_together(
        self,
        rows: Sequence[Rows],
        models: Sequence[Array],
        eta: float,
        drawn: NDArray[np.intp],
        pull: float | None,
    ) -> list[Array]:
        """Return the models (clients, d) after steps on minibatches (clients, steps, b)."""
        computed = self._together(*_sizes(rows[0]))
        return computed.steps(rows, models, eta, drawn, pull, self._terms)

    def trained_together(
        self,
        rows: Sequence[Rows],
        models: Sequence[Array],
        drawn: NDArray[np.intp],
        trainings: Sequence[Training],
    ) -> list[Array]:
        """Return the results of optimizers; arguments as for `steps_together`."""
        computed = self._together(*_sizes(rows[0]))
        return computed.train(rows, models, drawn, trainings, self._terms)

    def gradients_together(
        self, rows: Sequence[Rows], models: Sequence[Array], drawn: NDArray[np.intp]
    ) -> Array:
        """Return the stochastic gradients (clients, d) at models, of rows (clients, b)."""
        return self._together(*_sizes(rows[0])).gradients(rows, models, drawn, self._terms)

    def classes(self, labels: Array) -> Array:
        """Return 0 to outputs - 1, or the distinct labels, ascending.

        Raises:
            DataError: the criterion is squared.
        """
        if self.criterion == "squared":
            return super().classes(labels)
        return network_classes(labels, self.outputs)

    def scores(self, X: Features, w: Array, classes: Array) -> Array:
        """Return the outputs in evaluation mode, shape (n, C)."""
        rows = Rows(X, np.empty((0, len(classes))), 1.0)
        return self._trainer(rows).outputs(X, w)

    def regress(self, X: Features, w: Array) -> Array:
        """Return the output in evaluation mode, shape (n,).

        Raises:
            DataError: the criterion is not squared.
        """
        if not self.model.predicts:
            raise DataError("measures", _LOSSES_ALONE)
        if self.criterion != "squared":
            return super().regress(X, w)
        return self._trainer(Rows(X, np.empty(0), 1.0)).outputs(X, w).reshape(len(X))

    def module(self, features: int, outputs: int, w: Array) -> "nn.Module":
        """Return this thread's module with a model, in evaluation mode.

        Valid until its next use.
        """
        from fedsim.problems.modules import trainer  # loads PyTorch

        return trainer(self.recipe(features, outputs), self.numbers, self.device).module(w)

    def recipe(self, features: int, outputs: int) -> "Recipe":
        """Return the analysed module for rows with a number of features.

        Raises:
            DataError: PyTorch is not installed, the device does not exist, or the module cannot be
                used, or not with augmented images.
        """
        try:
            from fedsim.problems.modules import check_device, recipe  # loads PyTorch
        except ModuleNotFoundError as error:
            if error.name != "torch":
                raise
            raise DataError("loss.kind", missing("torch", "PyTorch", "torch")) from None
        check_device(self.device)
        kept = self.statistics != "refused"
        found = recipe(self.model, self.criterion, features, outputs, statistics=kept)
        check_images(found.shape, self.augment)
        return found

    def _trainer(self, rows: Rows) -> "Trainer":
        from fedsim.problems.modules import trainer  # loads PyTorch

        return trainer(self.recipe(*_sizes(rows)), self.numbers, self.device)

    def _together(self, features: int, outputs: int) -> "Together":
        from fedsim.problems.modules.vmap import together  # loads PyTorch

        return together(self.recipe(features, outputs), self.numbers, self.device, self.criterion)

    @property
    def _terms(self) -> "LossTerms":
        from fedsim.problems.modules import LossTerms  # loads PyTorch

        return LossTerms(self.l2, self.criterion, self.augment)


_LOSSES_ALONE = (
    "this measure compares predictions with labels, and a step returns losses alone; take"
    " test_loss, or fedsim.torch.metric"
)


def _sizes(rows: Rows) -> tuple[int, int]:
    """Return the numbers of features and of outputs of rows."""
    return int(rows.X.shape[1]), 1 if rows.t.ndim == 1 else int(rows.t.shape[1])
