"""The evaluation of a network: losses, gradients and steps on rows of features.

Modules are not shared between threads, and within one every operation is done by one thread, so
that results do not depend on how many there are.
"""

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from threading import Lock, get_ident
from typing import Any, Literal, NamedTuple
from zlib import crc32

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from fedsim.blocks.wording import first_line
from fedsim.errors import DataError, Failed
from fedsim.ports import Array
from fedsim.problems.losses.augmentation import Augmentation, augment
from fedsim.problems.losses.base import Rows
from fedsim.problems.modules.module import FlatModule
from fedsim.problems.modules.recipe import Recipe
from fedsim.problems.modules.stepping import PassedSteps, stepping
from fedsim.problems.optimizers import GivenOptimizer, Training
from fedsim.problems.samples import Minibatches

AT_ONCE = 256
"""The largest number of rows that go through a module together when all rows do."""

Numbers = Literal["float32", "float64", "bfloat16"]

_NOISE = Lock()
"""Held while drawing from PyTorch's own stream, which all threads share."""


class LossTerms(NamedTuple):
    """The terms beyond the loss of the rows.

    Attributes:
        l2: weight of l2/2 |w|^2.
        criterion: the loss of a row.
        augment: the augmentation of minibatches of images.
    """

    l2: float
    criterion: str
    augment: tuple[Augmentation, ...] = ()


class Trainer:
    """A network used by one thread.

    Args:
        recipe: of the network.
        numbers: the number type; bfloat16 in matrix products and convolutions alone, with
            parameters in float32.
        device: to compute on.
    """

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

    def value(self, rows: Rows, w: Array, terms: LossTerms) -> float:
        """Return f(w), without noise."""
        self._load(w, training=False)
        total = 0.0
        with torch.no_grad():
            for part in self._parts(rows):
                total += float(self._sum(part, terms).double())
        trained = w[: self._trained]
        return rows.factor * total + 0.5 * terms.l2 * float(trained @ trained)

    def gradient(self, rows: Rows, w: Array, terms: LossTerms) -> Array:
        """Return the gradient of f at `w`, shape (d,), without noise."""
        self._load(w, training=False)
        self._flat.gradient.zero_()
        for part in self._parts(rows):
            self._flat.add_gradient(rows.factor * self._sum(part, terms))
        return self._gradient(w, terms)

    def minibatch_gradient(self, rows: Rows, w: Array, terms: LossTerms) -> Array:
        """Return the gradient at `w` of drawn rows, shape (d,), with the rows' noise."""
        self._load(w, training=True)
        self._step_gradient(rows, terms, 0)
        return self._gradient(w, terms)

    def steps(
        self,
        rows: Rows,
        w: Array,
        eta: float,
        drawn: Minibatches,
        pull: float | None,
        terms: LossTerms,
    ) -> Array:
        """Return the model that gradient steps reach from `w`; see `fedsim.ports.Oracle`."""
        self._load(w, training=True)
        model, whole = self._flat.model, self._flat.whole
        start, eta = whole.clone(), self._round(eta)
        for gradient in self._gradients(rows, start[: self._trained], drawn, pull, terms):
            model.add_(gradient, alpha=-eta)
        return w + _array(whole - start)

    def train(
        self, rows: Rows, w: Array, drawn: Minibatches, training: Training, terms: LossTerms
    ) -> Array:
        """Return what the steps of an optimizer reach from `w`; see `Training.result`."""
        self._load(w, training=True)
        whole, trained = self._flat.whole, self._trained
        if training.moved is not None and trained < len(whole):
            training = training.among(trained)
        start, rule = whole.clone(), stepping(training, self._flat)
        anchor = start if training.anchor is None else self._vector(training.anchor)
        found = self._gradients(rows, anchor[:trained], drawn, training.pull, terms)
        for gradient, eta in zip(found, training.rates, strict=True):
            rule.step(gradient, eta)
        return rule.result(w + _array(whole - start))

    def check(self, optimizer: GivenOptimizer) -> None:
        """Check that an optimizer of PyTorch takes a step on the module.

        Raises:
            DataError: it does not.
        """
        self._flat.gradient.zero_()
        PassedSteps(Training(optimizer, (1e-3,)), self._flat).step(self._flat.gradient, 1e-3)

    def module(self, w: Array) -> nn.Module:
        """Return the module of this thread with a model, in `eval()`; until the next call."""
        self._load(w, training=False)
        return self._flat.module

    def outputs(self, X: Array, w: Array) -> Array:
        """Return the outputs for features (n, d), shape (n, outputs), without noise."""
        self._load(w, training=False)
        with torch.no_grad():
            parts = [self._forward(X[some]).double() for some in self._slices(len(X))]
        return _array(torch.cat(parts))

    def _parts(self, rows: Rows) -> Iterator[Rows]:
        """Yield the rows in parts."""
        for some in self._slices(len(rows.t)):
            yield rows._replace(X=rows.X[some], t=rows.t[some])

    def _slices(self, count: int) -> Iterator[slice]:
        """Yield slices of rows that go through the module together: all, if outputs need it."""
        step = max(count, 1) if self._recipe.mixes else AT_ONCE
        return (slice(at, at + step) for at in range(0, count, step))

    def _vector(self, w: Array) -> Tensor:
        return _tensor(w, self._numbers).to(self._device)

    def _load(self, w: Array, *, training: bool) -> None:
        self._flat.whole.copy_(_tensor(w, self._numbers))
        self._flat.module.train(training)

    def _gradients(
        self,
        rows: Rows,
        anchor: Tensor,
        drawn: Minibatches,
        pull: float | None,
        terms: LossTerms,
    ) -> Iterator[Tensor]:
        """Yield the gradient of each step, shape (d,), at what the model then is.

        Args:
            rows: of the client.
            anchor: the model that steps are pulled to, shape (d,).
            drawn: the minibatch of each step.
            pull: mu, see `fedsim.ports.Oracle`.
            terms: beyond the loss of the rows.
        """
        model, gradient = self._flat.model, self._flat.gradient
        for number, indices in enumerate(drawn):
            self._step_gradient(rows if indices is None else _subset(rows, indices), terms, number)
            if terms.l2:
                gradient.add_(model, alpha=self._round(terms.l2))
            if pull is not None:
                gradient.add_(model - anchor, alpha=self._round(pull))
            yield gradient

    def _step_gradient(self, rows: Rows, terms: LossTerms, number: int) -> None:
        """Set `gradient` to that of f without its l2 term, with the noise of a step."""
        self._flat.gradient.zero_()
        taken = self._augment(rows, terms, number)
        with self._noise(rows, number):
            self._flat.add_gradient(rows.factor * self._sum(taken, terms))

    def _augment(self, rows: Rows, terms: LossTerms, number: int) -> Rows:
        """Return a minibatch with its images varied, by the same rule as noise: see `_noise`."""
        if not terms.augment or not self._flat.module.training:
            return rows
        rng = np.random.default_rng(_seed(rows, number))
        return rows._replace(X=augment(rows.X, self._recipe.shape, terms.augment, rng))

    def _sum(self, rows: Rows, terms: LossTerms) -> Tensor:
        """Return the sum of the rows' losses, shape ()."""
        targets = rows.t if rows.t.ndim == 1 else rows.t.argmax(axis=1)
        kind = self._numbers if terms.criterion == "squared" else np.dtype(np.int64)
        wanted = _tensor(targets, kind).to(self._device)
        outputs = self._forward(rows.X)
        try:
            losses = self._recipe.architecture.row_losses(outputs, wanted, terms.criterion)
        except Exception as error:  # the code of a user's loss may raise anything
            raise _failing("loss", len(targets), error) from error
        return losses.sum() if losses.ndim else losses * len(targets)

    def _forward(self, X: Array) -> Tensor:
        kind = np.dtype(np.int64) if self._recipe.architecture.whole_numbers else self._numbers
        rows = _tensor(X, kind).to(self._device)
        try:
            with self._narrow():
                found: Tensor = self._flat.module(self._reshape(rows))
        except Exception as error:  # the code of a user's module may raise anything
            name = f"module {type(self._flat.module).__name__}"
            raise _failing(name, len(rows), error) from error
        return found.to(self._dtype)

    def _reshape(self, rows: Tensor) -> Tensor:
        """Return rows in the shape that the module takes.

        Channels are stored last, with which convolutions and pooling take a quarter to a third less
        time on a CPU.
        """
        shaped = rows.view(len(rows), *self._recipe.shape)
        if self._recipe.channels_last:
            return shaped.to(memory_format=torch.channels_last)
        return shaped

    def _round(self, number: float) -> float:
        """Return a number rounded to the number type: infinite if out of range."""
        with np.errstate(over="ignore"):
            return float(self._numbers.type(number))

    def _narrow(self) -> AbstractContextManager[object]:
        if self._autocast:
            return torch.autocast(self._device.type, dtype=torch.bfloat16)
        return nullcontext()

    def _noise(self, rows: Rows, number: int) -> AbstractContextManager[object]:
        """Return a context in which PyTorch's stream is seeded by the rows and the step alone.

        A client draws its rows from its own stream, so noise seeded by them is independent too; and
        two gradients of the same rows, at two models, have the same noise, as variance reduction
        assumes.
        """
        return _fixed_seed(_seed(rows, number)) if self._recipe.random else nullcontext()

    def _gradient(self, w: Array, terms: LossTerms) -> Array:
        trained = self._trained
        gradient = np.zeros(len(w))
        gradient[:trained] = _array(self._flat.gradient)
        if terms.l2:
            gradient[:trained] += terms.l2 * w[:trained]
        return gradient

    @property
    def _trained(self) -> int:
        """The number of trained parameters; the rest of a model are statistics."""
        return len(self._flat.model)


def trainer(recipe: Recipe, numbers: Numbers, device: str) -> Trainer:
    """Return the trainer of this thread, cached in the recipe."""
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


def _subset(rows: Rows, indices: NDArray[np.intp]) -> Rows:
    """Return a subset of the rows, as `Loss.subset` does."""
    factor = rows.factor * (rows.X.shape[0] / len(indices))
    return rows._replace(X=rows.X[indices], t=rows.t[indices], factor=factor)


def _tensor(values: Array, kind: np.dtype[Any]) -> Tensor:
    """Return numbers as a separate tensor, as PyTorch would warn of a shared array."""
    return torch.from_numpy(np.array(values, dtype=kind, order="C"))


def _array(values: Tensor) -> Array:
    """Return a tensor as a separate array, in float64."""
    return np.array(values.detach().cpu().numpy(), dtype=np.float64)


@contextmanager
def _fixed_seed(seed: int) -> Iterator[None]:
    with _NOISE, torch.random.fork_rng():
        torch.manual_seed(seed)
        yield


def _seed(rows: Rows, number: int) -> int:
    return crc32(np.ascontiguousarray(rows.X).tobytes(), number)
