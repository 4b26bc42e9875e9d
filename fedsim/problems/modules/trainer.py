"""The evaluation of a network: losses, gradients and steps on rows of features.

Modules are not shared between threads, and one thread executes all operations of a module. So
results do not depend on the number of threads.
"""

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from threading import Lock, get_ident
from typing import Any, Literal, NamedTuple
from zlib import crc32

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from fedsim.core.blocks.wording import first_line
from fedsim.core.errors import DataError, Failed
from fedsim.core.ports import Array
from fedsim.problems.losses.augmentation import Augmentation, augment
from fedsim.problems.losses.base import Rows
from fedsim.problems.modules.module import FlatModule, add, join
from fedsim.problems.modules.recipe import Recipe
from fedsim.problems.modules.seeding import own_streams, with_gradients
from fedsim.problems.modules.stepping import PassedSteps, stepping
from fedsim.problems.optimizers import GivenOptimizer, Training
from fedsim.problems.samples import Minibatches, seed_of

AT_ONCE = 256
"""The largest number of rows that pass through a module together when all rows do."""

Numbers = Literal["float32", "float64", "bfloat16"]

_NOISE = Lock()
"""Held while drawing from PyTorch's own stream, which all threads share."""


class LossTerms(NamedTuple):
    """The terms besides the loss of the rows.

    Attributes:
        l2: the weight of l2/2 |w|^2.
        criterion: the loss of a row.
        augment: the augmentation of minibatches of images.
    """

    l2: float
    criterion: str
    augment: tuple[Augmentation, ...] = ()


_TAKEN = 2**20
"""The number of features that minibatches copied together from a client's rows may have."""


class TensorBatch(NamedTuple):
    """Rows as tensors on the device.

    Attributes:
        rows: the same rows.
        X: features in the shape that the module needs, shape (b, ...).
        t: classes or numbers, shape (b,).
        seed: the seed of the step's other draws; None if it has none.
    """

    rows: Rows
    X: Tensor
    t: Tensor
    seed: int | None = None


class Trainer:
    """A network for use by one thread.

    Args:
        recipe: the recipe of the network.
        numbers: the number type. With bfloat16 only matrix products and convolutions are narrow,
            and parameters are float32.
        device: the device to compute on.
    """

    @with_gradients
    def __init__(self, recipe: Recipe, numbers: Numbers, device: str) -> None:
        torch.set_num_threads(1)
        self._recipe = recipe
        self._autocast = numbers == "bfloat16"
        self._dtype = torch.float64 if numbers == "float64" else torch.float32
        self._numbers = np.dtype(np.float64 if numbers == "float64" else np.float32)
        self._device = torch.device(device)
        self._flat = FlatModule(
            recipe.fresh(), self._dtype, self._device, statistics=recipe.statistics
        )
        # Buffers for a model on its way to a GPU and back. On a CPU both are the model itself.
        self._begun = self._reached = self._flat.whole
        if self._device.type != "cpu":
            self._begun, self._reached = transfer((2, recipe.dimension), self._dtype, self._device)

    def value(self, rows: Rows, w: Array, terms: LossTerms) -> float:
        """Return f(w), without noise."""
        self._load(w, training=False)
        total = 0.0
        with torch.no_grad():
            for part in self._parts(rows):
                total += float(self._sum(part, terms).double())
        trained = w[: self._trained]
        return rows.factor * total + 0.5 * terms.l2 * float(trained @ trained)

    def row_losses(self, rows: Rows, w: Array, terms: LossTerms) -> Array | None:
        """Return the loss of each row, shape (n,), without noise.

        None if the loss returns a mean.
        """
        self._load(w, training=False)
        with torch.no_grad():
            batches = (self._batch(part, terms) for part in self._parts(rows))
            losses = [self._losses(batch, terms) for batch in batches]
        whole = all(loss.ndim for loss in losses)
        return _array(torch.cat([each.double() for each in losses])) if whole else None

    @with_gradients
    def gradient(self, rows: Rows, w: Array, terms: LossTerms) -> Array:
        """Return the gradient of f at `w`, shape (d,), without noise."""
        self._load(w, training=False)
        self._flat.clear()
        for part in self._parts(rows):
            self._flat.add_gradient(self._sum(part, terms), rows.factor)
        return self._gradient(w, terms)

    @with_gradients
    def minibatch_gradient(
        self, rows: Rows, w: Array, terms: LossTerms, seed: int | None = None
    ) -> Array:
        """Return the gradient of drawn rows at `w`, shape (d,), with the noise of training."""
        self._load(w, training=True)
        self._step_gradient(self._batch(rows, terms)._replace(seed=seed), terms, 0)
        return self._gradient(w, terms)

    @with_gradients
    def change(
        self,
        rows: Rows,
        w: Array,
        eta: float,
        drawn: Minibatches,
        pull: float | None,
        terms: LossTerms,
    ) -> Array:
        """Return the model after gradient steps from `w`, minus `w`, shape (d,), as a new array.

        See `fedsim.core.ports.Oracle` for the steps.
        """
        self._load(w, training=True)
        start, eta = self._start(pull), self._round(eta)
        for gradients in self._gradients(rows, start, drawn, pull, terms):
            torch._foreach_add_(self._flat.parts, gradients, alpha=-eta)
        return self._change(w)

    @with_gradients
    def train(
        self, rows: Rows, w: Array, drawn: Minibatches, training: Training, terms: LossTerms
    ) -> Array:
        """Return the result of an optimizer's steps from `w`; see `Training.result`."""
        self._load(w, training=True)
        if training.moved is not None and self._trained < len(w):
            training = training.among(self._trained)
        anchor = self._start(training.pull)
        if training.anchor is not None:
            anchor.copy_(self._vector(training.anchor)[: self._trained])
        rule = stepping(training, self._flat)
        found = self._gradients(rows, anchor, drawn, training.pull, terms)
        for gradients, eta in zip(found, training.rates, strict=True):
            rule.step(gradients, eta)
        change = self._change(w)
        return rule.result(np.add(w, change, out=change))

    @with_gradients
    def check(self, optimizer: GivenOptimizer) -> None:
        """Check that an optimizer of PyTorch can take a step on the module.

        Raises:
            DataError: it cannot.
        """
        self._flat.clear()
        steps = PassedSteps(Training(optimizer, (1e-3,)), self._flat)
        steps.step(self._flat.gradients(), 1e-3)

    def module(self, w: Array) -> nn.Module:
        """Return this thread's module with a model, in evaluation mode.

        Valid until the next call.
        """
        self._load(w, training=False)
        return self._flat.module

    def outputs(self, X: Array, w: Array) -> Array:
        """Return the outputs for features (n, d), shape (n, outputs), without noise."""
        self._load(w, training=False)
        with torch.no_grad():
            parts = [self._forward(self._inputs(X[some])).double() for some in self._slices(len(X))]
        return _array(torch.cat(parts))

    def _parts(self, rows: Rows) -> Iterator[Rows]:
        """Yield the rows in parts that pass through the module together."""
        for some in self._slices(len(rows.t)):
            yield rows._replace(X=rows.X[some], t=rows.t[some])

    def _slices(self, count: int) -> Iterator[slice]:
        """Yield slices of rows that pass together: all rows, if outputs depend on other rows."""
        step = max(count, 1) if self._recipe.mixes else AT_ONCE
        return (slice(at, at + step) for at in range(0, count, step))

    def _vector(self, w: Array) -> Tensor:
        return _tensor(w, self._numbers).to(self._device)

    def _load(self, w: Array, *, training: bool) -> None:
        np.copyto(self._begun.numpy(), w, casting="same_kind")
        self._flat.whole.copy_(self._begun)
        self._flat.train(training=training)

    def _start(self, pull: float | None) -> Tensor:
        """Return a copy of the loaded model, which only a pull needs; without one it is empty."""
        return self._flat.model.clone() if pull is not None else self._flat.model[:0]

    def _change(self, w: Array) -> Array:
        """Return the change of the model `w` by steps, shape (d,), in the number type."""
        reached = self._reached.copy_(self._flat.whole).numpy()
        change = np.empty(len(w))
        # NumPy converts in blocks that fit into the cache, unlike a conversion of the whole vector.
        np.subtract(reached, w, out=change, dtype=self._numbers, casting="same_kind")
        return change

    def _gradients(
        self,
        rows: Rows,
        anchor: Tensor,
        drawn: Minibatches,
        pull: float | None,
        terms: LossTerms,
    ) -> Iterator[list[Tensor]]:
        """Yield the gradients of each step at the current model, one tensor per parameter.

        Args:
            rows: the rows of the client.
            anchor: the model towards which steps are pulled, shape (p,); not read without a pull.
            drawn: the minibatch of each step.
            pull: mu, see `fedsim.core.ports.Oracle`.
            terms: the terms besides the loss of the rows.
        """
        parts = self._flat.parts
        anchors = [] if pull is None else self._flat.cut(anchor)
        for number, batch in enumerate(self._batches(rows, drawn, terms)):
            gradient = self._step_gradient(batch, terms, number)
            # Not in place: two gradients, such as those of both biases of an LSTM, may share
            # memory.
            if terms.l2:
                gradient = add(gradient, parts, self._round(terms.l2))
            if pull is not None:
                away = add(parts, anchors, -1.0)
                gradient = add(gradient, away, self._round(pull))
            yield gradient

    def _batches(self, rows: Rows, drawn: Minibatches, terms: LossTerms) -> Iterator[TensorBatch]:
        """Yield the minibatch of each step.

        Those of several steps are copied from the rows together.
        """
        most = 1 if self._draws(terms) else max(1, _TAKEN // max(rows.X.shape[1], 1))
        waiting: list[NDArray[np.intp]] = []
        for indices in drawn:
            if waiting and (indices is None or sum(map(len, waiting)) + len(indices) > most):
                yield from self._take_batches(rows, waiting, terms)
                waiting = []
            if indices is None:
                yield self._batch(rows, terms)
            else:
                waiting.append(indices)
        if waiting:
            yield from self._take_batches(rows, waiting, terms)

    def _take_batches(
        self, rows: Rows, waiting: Sequence[NDArray[np.intp]], terms: LossTerms
    ) -> Iterator[TensorBatch]:
        """Yield minibatches whose rows are copied and converted together."""
        every = np.concatenate(waiting)
        whole = self._batch(rows._replace(X=rows.X[every], t=rows.t[every]), terms)
        at = 0
        for indices in waiting:
            some = slice(at, at := at + len(indices))
            factor = rows.factor * (rows.X.shape[0] / len(indices))
            taken = whole.rows._replace(X=whole.rows.X[some], t=whole.rows.t[some], factor=factor)
            yield TensorBatch(taken, whole.X[some], whole.t[some], seed_of(indices))

    def _batch(self, rows: Rows, terms: LossTerms) -> TensorBatch:
        """Return rows as tensors in the form that the module needs."""
        targets = rows.t if rows.t.ndim == 1 else rows.t.argmax(axis=1)
        kind = self._numbers if terms.criterion == "squared" else np.dtype(np.int64)
        return TensorBatch(rows, self._inputs(rows.X), _tensor(targets, kind).to(self._device))

    def _step_gradient(self, batch: TensorBatch, terms: LossTerms, number: int) -> list[Tensor]:
        """Return the gradients of f without its l2 term, with the noise of a step."""
        self._flat.clear()
        rows = batch.rows
        noise: AbstractContextManager[object] = nullcontext()
        if self._draws(terms):
            seed = _seed(rows, number) if batch.seed is None else batch.seed
            batch, noise = self._augment(batch, terms, seed), self._noise(seed)
        with noise:
            self._flat.add_gradient(self._loss(batch, terms), rows.factor)
        return self._flat.gradients()

    def _draws(self, terms: LossTerms) -> bool:
        """Return whether a step draws random numbers: for masks of dropout, or for augmentation."""
        return self._recipe.random or bool(terms.augment)

    def _augment(self, batch: TensorBatch, terms: LossTerms, seed: int) -> TensorBatch:
        """Return a minibatch with augmented images; see `_noise` for the seed."""
        if not terms.augment:
            return batch
        rng = np.random.default_rng(seed)
        varied = augment(batch.rows.X, self._recipe.shape, terms.augment, rng)
        return batch._replace(X=self._inputs(varied))

    def _sum(self, rows: Rows, terms: LossTerms) -> Tensor:
        """Return the sum of the rows' losses, shape ()."""
        return self._loss(self._batch(rows, terms), terms)

    def _loss(self, batch: TensorBatch, terms: LossTerms) -> Tensor:
        """Return the sum of a batch's losses, shape ()."""
        losses = self._losses(batch, terms)
        return losses.sum() if losses.ndim else losses * len(batch.t)

    def _losses(self, batch: TensorBatch, terms: LossTerms) -> Tensor:
        """Return a batch's losses, shape (b,), or their mean, shape ()."""
        outputs, wanted = self._forward(batch.X), batch.t
        try:
            return self._recipe.architecture.row_losses(outputs, wanted, terms.criterion)
        except Exception as error:  # the code of a user's loss may raise anything
            raise _failing("loss", len(wanted), error) from error

    def _inputs(self, X: Array) -> Tensor:
        """Return features (n, d) in the form that the module needs."""
        kind = np.dtype(np.int64) if self._recipe.architecture.whole_numbers else self._numbers
        return self._reshape(_tensor(X, kind).to(self._device))

    def _forward(self, inputs: Tensor) -> Tensor:
        try:
            with self._narrow():
                found: Tensor = self._flat.module(inputs)
        except DataError as error:  # a wrapped step names the cause itself
            raise Failed(f"{error.key}: {error}") from error
        except Exception as error:  # the code of a user's module may raise anything
            name = f"module {type(self._flat.module).__name__}"
            raise _failing(name, len(inputs), error) from error
        return found.to(self._dtype)

    def _reshape(self, rows: Tensor) -> Tensor:
        """Return rows in the shape that the module needs.

        Channels are stored last if possible: on a CPU convolutions and pooling then take a quarter
        to a third less time.
        """
        shaped = rows.view(len(rows), *self._recipe.shape)
        if self._recipe.channels_last:
            return shaped.to(memory_format=torch.channels_last)
        return shaped

    def _round(self, number: float) -> float:
        """Return a number rounded to the number type; infinite if it is out of range."""
        with np.errstate(over="ignore"):
            return float(self._numbers.type(number))

    def _narrow(self) -> AbstractContextManager[object]:
        if self._autocast:
            return torch.autocast(self._device.type, dtype=torch.bfloat16)
        return nullcontext()

    def _noise(self, seed: int) -> AbstractContextManager[object]:
        """Return a context in which PyTorch's stream has the seed of a step.

        The client draws the seed from its own stream, together with the step's rows. So the noise
        belongs to the client, the round and the step. Two gradients of one minibatch at two models
        have the same noise, as variance reduction assumes.
        """
        return _fixed_seed(seed) if self._recipe.random else nullcontext()

    def _gradient(self, w: Array, terms: LossTerms) -> Array:
        trained = self._trained
        gradient = np.zeros(len(w))
        gradient[:trained] = _array(join(self._flat.gradients()))
        if terms.l2:
            gradient[:trained] += terms.l2 * w[:trained]
        return gradient

    @property
    def _trained(self) -> int:
        """The number of trained parameters; the rest of a model are statistics."""
        return len(self._flat.model)


def trainer(recipe: Recipe, numbers: Numbers, device: str) -> Trainer:
    """Return this thread's trainer, which is cached in the recipe."""
    key = get_ident(), numbers, device
    if key not in recipe.kept:
        recipe.kept[key] = Trainer(recipe, numbers, device)
    found: Trainer = recipe.kept[key]
    return found


def check_device(device: str) -> None:
    """Check that a device exists.

    Raises:
        DataError: it does not.
    """
    if device != "cpu" and not torch.cuda.is_available():
        raise DataError("loss.device", f"got {device}, but PyTorch finds no GPU here; take cpu")


def _failing(what: str, count: int, error: Exception) -> Failed:
    rows = f"{count} row{'s' * (count != 1)}"
    return Failed(f"the {what} fails on {rows}: {first_line(error)}")


def transfer(shape: tuple[int, int], dtype: torch.dtype, device: torch.device) -> Tensor:
    """Return memory for models, shape (n, d), that a GPU can access directly."""
    return torch.empty(shape, dtype=dtype, pin_memory=device.type != "cpu")


def _tensor(values: Array, kind: np.dtype[Any]) -> Tensor:
    """Return numbers as a new tensor, since PyTorch would warn about a shared read-only array."""
    return torch.from_numpy(np.array(values, dtype=kind, order="C"))


def _array(values: Tensor) -> Array:
    """Return a tensor as a new array, in float64."""
    return np.array(values.detach().cpu().numpy(), dtype=np.float64)


@contextmanager
def _fixed_seed(seed: int) -> Iterator[None]:
    with _NOISE, own_streams(seed):
        yield


def _seed(rows: Rows, number: int) -> int:
    """Return a seed for a step on rows that were not drawn, such as those of a direct call."""
    return crc32(np.ascontiguousarray(rows.X).tobytes(), number)
