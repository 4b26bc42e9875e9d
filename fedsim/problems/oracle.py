"""The `Oracle` of one client: evaluations of its loss, as work with a cost."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedsim.core.ports import Array, Basis, ClientId, Work
from fedsim.problems import kernels
from fedsim.problems.client_loss import LocalLoss
from fedsim.problems.client_losses import LazySequence
from fedsim.problems.optimizers import Training
from fedsim.problems.restricted import newton_operations, restrict, strong_convexity_operations
from fedsim.problems.samples import (
    Draw,
    Drawn,
    LaterDraws,
    Minibatches,
    draw_minibatches,
    seeded,
    shuffled_passes,
)


class LossOracle:
    """A client's loss, whose evaluations are described as work with a cost.

    A gradient costs the loss's operations on its rows; a value costs half of that.

    Args:
        loss: the loss of the client, as a function of the coefficients of the bases.
        client: its number.
        bases: see `fedsim.core.ports.Work`.
        forming: operations that built the loss, charged to its first work.
        draw: the function that draws minibatches.
        losses: the losses of all clients. This loss is then looked up there for each use, so that
            it takes no memory per client; otherwise the oracle stores it.
        weight: the weight of the loss in the objective.

    Attributes:
        rows: the number of samples, n_m.
        weight: the weight of the loss in the objective.
        random: whether stochastic gradients draw more than their samples, for example by dropout.
    """

    __slots__ = (
        "_bases",
        "_client",
        "_draw",
        "_forming",
        "_kept",
        "_later",
        "_noisy",
        "_operations",
        "random",
        "rows",
        "weight",
    )

    def __init__(
        self,
        loss: LocalLoss,
        client: ClientId = 0,
        bases: tuple[Basis, ...] = (),
        forming: float = 0.0,
        draw: Draw = draw_minibatches,
        losses: Sequence[LocalLoss] | None = None,
        weight: float = 1.0,
    ) -> None:
        self._kept = loss if losses is None else losses
        self._client = client
        self._bases = bases
        self._forming = forming
        self._operations = loss.gradient_operations
        self._draw = draw
        self._later = False
        self._noisy = loss.noisy
        self.random = loss.draws
        self.rows = loss.rows
        self.weight = weight

    @property
    def _loss(self) -> LocalLoss:
        kept = self._kept
        return kept if isinstance(kept, LocalLoss) else kept[self._client]

    def gradient(self, w: Array) -> Work:
        """Describe the evaluation of the full (sub)gradient at `w`, shape (d,)."""
        return self._work(kernels.gradient, (w,), self._operations, float(self.rows))

    def minibatch(self, w: Array, batch: int | None, rng: np.random.Generator) -> Work:
        """Describe a stochastic gradient at `w`, with samples drawn without replacement."""
        drawn = self._draw_one(batch, rng)
        if drawn is None:
            return self.gradient(w)
        count = float(len(drawn))
        operations = count / self.rows * self._operations
        return self._work(kernels.minibatch_gradient, (w, drawn), operations, count)

    def minibatch_change(
        self, w: Array, old: Array, batch: int | None, rng: np.random.Generator
    ) -> Work:
        """Describe a stochastic gradient at `w` minus that at `old`, on the same samples."""
        drawn, rows = self._draw_one(batch, rng), self.rows
        count = rows if drawn is None else len(drawn)
        operations = 2 * count / rows * self._operations
        return self._work(kernels.minibatch_change, (w, old, drawn), operations, 2.0 * count)

    def _draw_one(self, batch: int | None, rng: np.random.Generator) -> Drawn:
        """Draw a minibatch; None for all samples, if training and evaluation compute the same.

        With dropout or batch normalisation they do not. Then the indices of all samples are
        returned.
        """
        drawn: Drawn = self.draws(1, batch, rng)[0]
        # Under dropout, a training step on all rows differs from the gradient of the loss.
        if drawn is None and self._noisy:
            return np.arange(self.rows)
        return drawn

    def draws(self, count: int, batch: int | None, rng: np.random.Generator) -> Minibatches:
        """Draw minibatches, each without replacement; None stands for all samples.

        If steps draw more than their samples, each minibatch contains a seed for that.
        """
        if batch is None or batch >= self.rows:
            return self._seeded((None,) * count, rng)
        return self._seeded(self._draw(rng, self.rows, batch, count), rng)

    def _seeded(self, drawn: Minibatches, rng: np.random.Generator) -> Minibatches:
        return seeded(drawn, self.rows, rng) if self.random else drawn

    def draw_later(self) -> None:
        """Draw the minibatches of steps when the work is evaluated; see `later_draws`."""
        self._later = True

    def later_draws(
        self, count: int, batch: int, rng: np.random.Generator
    ) -> Sequence[NDArray[np.intp]] | None:
        """See `fedsim.core.ports.Oracle.later_draws`."""
        later = self._later and not self.random
        return LaterDraws(rng, self.rows, batch, count, self._draw) if later else None

    def passes(
        self, count: int, batch: int | None, rng: np.random.Generator, *, drop_last: bool = False
    ) -> Minibatches:
        """Draw minibatches of reshuffled passes, like `draws`; None stands for all samples."""
        if batch is None or batch >= self.rows:
            return self._seeded((None,) * count, rng)
        drawn = shuffled_passes(rng, self.rows, batch, count, drop_last=drop_last)
        return self._seeded(drawn, rng)

    def sgd_steps(
        self,
        w: Array,
        eta: float,
        drawn: Minibatches,
        pull: float | None = None,
        *,
        change: bool = False,
    ) -> Work:
        """Describe stochastic gradient steps from `w`; each piece costs a gradient of its samples.

        Operations that are not charged yet are divided equally among the pieces, and so are the
        samples of minibatches of different size.
        """
        kernel = kernels.sgd_change if change else kernels.sgd_steps
        return self._steps(kernel, (w, eta, drawn, pull), drawn)

    def optimizer_steps(self, w: Array, drawn: Minibatches, training: Training) -> Work:
        """Describe the steps of an optimizer from `w`, charged like those of `sgd_steps`.

        Each piece additionally costs the operations of the optimizer on the model.
        """
        work = self._steps(kernels.optimizer_steps, (w, drawn, training), drawn)
        return work.plus(training.operations * w.size)

    def _steps(
        self, kernel: Callable[..., Array], arguments: tuple[Any, ...], drawn: Minibatches
    ) -> Work:
        """Return work with one piece per minibatch."""
        count = _mean_size(drawn, self.rows)
        pieces = len(drawn)
        operations = count / self.rows * self._operations
        if self._forming:
            # The one-off cost is charged once, spread over the pieces of this work.
            operations += self._forming / pieces
            self._forming = 0.0
        return Work(kernel, self._client, arguments, operations, count, self._bases, pieces)

    def strong_convexity(self) -> Work:
        """Describe the evaluation of a lower bound of the strong convexity of f_m, shape ()."""
        return self._work(kernels.strong_convexity, (), strong_convexity_operations(self._loss))

    def value(self, w: Array) -> Work:
        """Describe the evaluation of f_m at `w`, shape ()."""
        return self._work(kernels.value, (w,), self._operations / 2, float(self.rows))

    def root_mean_square(self, w: Array) -> Work:
        """Describe the evaluation of the root mean square of the rows' losses at `w`, shape ()."""
        kernel = kernels.root_mean_square
        return self._work(kernel, (w,), self._operations / 2, float(self.rows))

    def constraint(self, w: Array) -> Work:
        """Describe the evaluation of g_m at `w`, shape ()."""
        return self._work(kernels.constraint, (w,), self._operations / 2, float(self.rows))

    def constraint_gradient(self, w: Array) -> Work:
        """Describe the evaluation of the gradient of g_m at `w`, shape (d,)."""
        return self._work(kernels.constraint_gradient, (w,), self._operations, float(self.rows))

    def newton(self, w: Array) -> Work:
        """Describe a full Newton step from `w`, shape (d,)."""
        return self._work(kernels.newton, (w,), newton_operations(self._loss), float(self.rows))

    def restricted(self, basis: Basis) -> "LossOracle":
        """Return f_m as a function of the coefficients of a basis."""
        part = restrict(self._loss, basis)
        bases = (*self._bases, part.basis)
        forming = part.forming_operations
        return LossOracle(part, self._client, bases, forming, self._draw, weight=self.weight)

    def _work(
        self,
        kernel: Callable[..., Array],
        arguments: tuple[Any, ...],
        operations: float,
        samples: float = 0.0,
    ) -> Work:
        """Return work on this loss, including operations that are not charged yet."""
        if self._forming:
            operations += self._forming
            self._forming = 0.0
        return Work(kernel, self._client, arguments, operations, samples, self._bases)


def _mean_size(drawn: Minibatches, rows: int) -> float:
    """Return the mean number of samples in minibatches; None stands for all `rows`."""
    if type(drawn) is not tuple and isinstance(drawn, LaterDraws):  # `isinstance` is slow here
        return float(drawn.batch)
    first, last = drawn[0], drawn[-1]
    if first is None or last is None:
        return float(rows)
    if len(first) == len(last):  # only the last one of a pass may be smaller
        return float(len(first))
    return sum(rows if minibatch is None else len(minibatch) for minibatch in drawn) / len(drawn)


def oracles(
    losses: Sequence[LocalLoss], draw: Draw = draw_minibatches, weights: Array | None = None
) -> Sequence[LossOracle]:
    """Return the oracles of all clients, in the order of the fleet.

    Args:
        losses: the losses of the clients.
        draw: draws their minibatches.
        weights: the weights of the losses in the objective, shape (M,); 1 by default.
    """
    return LazySequence(len(losses), partial(_oracle, losses, draw, weights), kept=0)


def _oracle(
    losses: Sequence[LocalLoss], draw: Draw, weights: Array | None, client: int
) -> LossOracle:
    weight = 1.0 if weights is None else float(weights[client])
    return LossOracle(losses[client], client, draw=draw, losses=losses, weight=weight)
