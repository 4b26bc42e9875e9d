"""Networks of several clients as one: `torch.func.vmap` of one client's gradient.

Each client has its own model and rows. Results equal those of a `Trainer` for each client up to
rounding, which depends on the number of clients.
"""

import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from threading import Lock

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.func import functional_call, grad, vmap

from fedsim.core.errors import DataError
from fedsim.core.ports import Array
from fedsim.problems.losses.base import Rows
from fedsim.problems.modules.module import add
from fedsim.problems.modules.recipe import Recipe
from fedsim.problems.modules.recorded import record
from fedsim.problems.modules.stepping import step_of
from fedsim.problems.modules.trainer import LossTerms, Numbers, transfer
from fedsim.problems.optimizers import OptimizerState, Training, join_state

_SLOW = "There is a performance drop because we have not yet implemented the batching rule"
"""PyTorch's warning when it falls back to one client after the other."""

_TAKEN = 2**22
"""The number of features that minibatches copied together from the clients' rows may have."""


class Together:
    """A network computed for many clients at once, which several threads may call.

    Args:
        recipe: the recipe of the network, which must not draw random numbers.
        numbers: see `Trainer`.
        device: see `Trainer`.
    """

    def __init__(self, recipe: Recipe, numbers: Numbers, device: str) -> None:
        self._recipe = recipe
        self._autocast = numbers == "bfloat16"
        self._dtype = torch.float64 if numbers == "float64" else torch.float32
        self._device = torch.device(device)
        self._module = recipe.fresh().to(device=self._device, dtype=self._dtype)
        self._records = recipe.recordable and not self._autocast
        self._recorded: dict[object, Callable[..., tuple[Tensor, ...]]] = {}
        self._seen: set[object] = set()
        self._recording = Lock()

    def steps(
        self,
        rows: Sequence[Rows],
        models: Sequence[Array],
        eta: float,
        drawn: NDArray[np.intp],
        pull: float | None,
        terms: LossTerms,
    ) -> list[Array]:
        """Return the models after stochastic gradient steps, one per client, shape (d,).

        Args:
            rows: the rows of each client.
            models: the initial models, shape (clients, d).
            eta: the step size.
            drawn: the minibatches, shape (clients, steps, b).
            pull: mu, towards the initial models; see `fedsim.core.ports.Oracle`.
            terms: the terms besides the loss of the rows.
        """
        start = self._cut(self._load_models(models))
        parts = _separate(start)
        for found in self._step_gradients(rows, drawn, parts, start, pull, terms):
            torch._foreach_add_(parts, found, alpha=-eta)
        return self._add_changes(models, parts, start)

    def train(
        self,
        rows: Sequence[Rows],
        models: Sequence[Array],
        drawn: NDArray[np.intp],
        trainings: Sequence[Training],
        terms: LossTerms,
    ) -> list[Array]:
        """Return the results of optimizers, shape (d,), followed by their states if these are kept.

        Args:
            rows: the rows of each client.
            models: the initial models, shape (clients, d).
            drawn: the minibatches, shape (clients, steps, b).
            trainings: the trainings of the clients, which may only differ in their moments.
            terms: the terms besides the loss of the rows.
        """
        model, training = self._load_models(models), trainings[0]
        start, whole = self._cut(model), _state(trainings, model)
        parts, take = _separate(start), step_of(training, self._device.type)
        moments = [_separate(self._cut(moment)) for moment in whole.moments]
        of_parts = zip(*moments, strict=True) if moments else [()] * len(parts)
        states = [OptimizerState(part_moments, whole.steps) for part_moments in of_parts]
        pull = training.pull
        found = self._step_gradients(rows, drawn, parts, start, pull, terms)
        for gradients, eta in zip(found, training.rates, strict=True):
            clipped = training.clip is not None
            limited = self._cut(training.limit(_join(gradients))) if clipped else gradients
            for part, gradient, state in zip(parts, limited, states, strict=True):
                take(part, gradient.contiguous(), eta, state)
        ends = self._add_changes(models, parts, start)
        if not training.kept:
            return ends
        own = zip(*(_join(each) for each in moments), strict=True) if moments else [()] * len(ends)
        kept = [OptimizerState(each, states[0].steps) for each in own]
        return [join_state(w, each) for w, each in zip(ends, kept, strict=True)]

    def gradients(
        self,
        rows: Sequence[Rows],
        models: Sequence[Array],
        drawn: NDArray[np.intp],
        terms: LossTerms,
    ) -> Array:
        """Return each client's stochastic gradient, shape (clients, d), on rows (clients, b)."""
        parts = _separate(self._cut(self._load_models(models)))
        (found,) = self._step_gradients(rows, drawn[:, None], parts, parts, None, terms)
        return _array(_join(found))

    def _load_models(self, models: Sequence[Array]) -> Tensor:
        """Return models as one tensor in the number type, shape (clients, d)."""
        torch.set_num_threads(1)  # in each thread: last bits depend on the number of threads
        made = transfer((len(models), len(models[0])), self._dtype, self._device)
        for row, w in zip(made.numpy(), models, strict=True):
            np.copyto(row, w, casting="same_kind")
        return made.to(self._device)

    def _add_changes(
        self, models: Sequence[Array], parts: list[Tensor], start: list[Tensor]
    ) -> list[Array]:
        """Return the initial models plus the change by the steps."""
        found = _join(add(parts, start, -1.0))
        changes = found
        if self._device.type != "cpu":
            changes = transfer((len(models), found.shape[1]), self._dtype, self._device)
            changes.copy_(found)
        # The sum in float64 keeps those bits of w that the network's number type cannot hold.
        return [w + change for w, change in zip(models, changes.numpy(), strict=True)]

    def _cut(self, models: Tensor) -> list[Tensor]:
        """Return views of models (clients, d), one per parameter, shape (clients, ...)."""
        return [
            models[:, layer.start : layer.stop].view(len(models), *layer.shape)
            for layer in self._recipe.layers
        ]

    def _step_gradients(
        self,
        rows: Sequence[Rows],
        drawn: NDArray[np.intp],
        parts: list[Tensor],
        start: list[Tensor],
        pull: float | None,
        terms: LossTerms,
    ) -> Iterator[list[Tensor]]:
        """Yield the clients' gradients of each step at the current models, by parameter."""
        batch = drawn.shape[2]
        factors = self._real(
            np.array([client_rows.factor * (len(client_rows.t) / batch) for client_rows in rows])
        )
        for X, t in self._batches(rows, drawn, terms):
            gradients = self._gradients(parts, X, t, factors, terms.criterion)
            if terms.l2:
                gradients = add(gradients, parts, terms.l2)
            if pull is not None:
                gradients = add(gradients, add(parts, start, -1.0), pull)
            yield gradients

    def _batches(
        self, rows: Sequence[Rows], drawn: NDArray[np.intp], terms: LossTerms
    ) -> Iterator[tuple[Tensor, Tensor]]:
        """Yield the clients' rows of each step, (clients, b, ...), and targets, (clients, b).

        The rows of several steps are copied together.
        """
        clients, steps, batch = drawn.shape
        whole = self._recipe.architecture.whole_numbers
        most = max(1, _TAKEN // (clients * batch * rows[0].X.shape[1]))
        for at in range(0, steps, most):
            some = drawn[:, at : at + most]
            pairs = list(zip(rows, some, strict=True))
            X = np.stack([each.X[which] for each, which in pairs], axis=1)
            t = np.stack([each.t[which] for each, which in pairs], axis=1)
            inputs = self._whole(X) if whole else self._real(X)
            targets = self._real(t) if terms.criterion == "squared" else self._whole(_classes(t))
            yield from zip(
                inputs.view(-1, clients, batch, *self._recipe.shape), targets, strict=True
            )

    def _gradients(
        self, models: list[Tensor], X: Tensor, t: Tensor, factors: Tensor, criterion: str
    ) -> list[Tensor]:
        """Return the clients' gradients of rows and targets, one per parameter, as in `_cut`.

        From the second call with the same shapes on, operations are recorded and then repeated.
        Until then only one thread at a time runs, since module and warnings are shared.
        """
        key = criterion, X.shape
        known = self._recorded.get(key)
        if known is not None:
            return list(known(*models, X, t, factors))
        of_each = vmap(grad(self._loss(criterion)))
        with self._recording, _quiet(), self._narrow():
            # Recording takes time, so only shapes that come a second time are recorded.
            if key in self._seen and self._records and key not in self._recorded:
                self._recorded[key] = record(
                    lambda *own: of_each(list(own[:-3]), *own[-3:]), *models, X, t, factors
                )
            self._seen.add(key)
            return [gradient.detach() for gradient in of_each(models, X, t, factors)]

    def _loss(self, criterion: str) -> Callable[[list[Tensor], Tensor, Tensor, Tensor], Tensor]:
        """Return the loss of one client as a function of its parameters.

        The parameters are not slices of one vector: the gradient of a slice would be as long as the
        whole vector.
        """

        def loss(parts: list[Tensor], rows: Tensor, targets: Tensor, factor: Tensor) -> Tensor:
            names = (layer.name for layer in self._recipe.layers)
            parameters = dict(zip(names, parts, strict=True))
            outputs: Tensor = functional_call(self._module, parameters, (rows,))
            losses = self._recipe.architecture.row_losses(
                outputs.to(self._dtype), targets, criterion
            )
            # A single number is the mean over the rows.
            return factor * (losses.sum() if losses.ndim else losses * len(targets))

        return loss

    def _real(self, values: Array) -> Tensor:
        return torch.as_tensor(np.asarray(values), dtype=self._dtype, device=self._device)

    def _whole(self, values: Array) -> Tensor:
        return torch.as_tensor(np.asarray(values), dtype=torch.int64, device=self._device)

    def _narrow(self) -> AbstractContextManager[object]:
        if self._autocast:
            return torch.autocast(self._device.type, dtype=torch.bfloat16)
        return nullcontext()


def together(recipe: Recipe, numbers: Numbers, device: str, criterion: str) -> Together:
    """Return the evaluator of many clients at once.

    Raises:
        DataError: the module does not allow it.
    """
    key = "together", numbers, device, criterion
    if key not in recipe.kept:
        recipe.kept[key] = _build_together(recipe, numbers, device, criterion)
    found: Together = recipe.kept[key]
    return found


def _build_together(recipe: Recipe, numbers: Numbers, device: str, criterion: str) -> Together:
    name = type(recipe.module).__name__
    if recipe.random:
        text = (
            f"{name} draws random numbers while it is trained, as dropout does, and each client "
            "has its own"
        )
        raise _refusal(text)
    if recipe.statistics:
        raise _refusal(f"{name} has statistics of batch normalisation, which each client changes")
    together = Together(recipe, numbers, device)
    outputs = 1 if criterion == "squared" else 2
    one = Rows(np.zeros((1, int(np.prod(recipe.shape)))), np.zeros((1, outputs)), 1.0)
    if criterion == "squared":
        one = one._replace(t=np.zeros(1))
    models, drawn = list(np.zeros((2, recipe.dimension))), np.zeros((2, 1), np.intp)
    if recipe.mixes:  # batch statistics need more than one row
        two = one._replace(X=np.tile(one.X, (2, 1)), t=np.repeat(one.t, 2, axis=0))
        one, drawn = two, np.tile(np.arange(2), (2, 1))
    try:
        together.gradients([one, one], models, drawn, LossTerms(0.0, criterion))
    except Exception as error:  # the code of a user's module may raise anything
        raise _refusal(f"{name} cannot be vmapped: {str(error).splitlines()[0]}") from error
    return together


def _refusal(text: str) -> DataError:
    return DataError("evaluator", f"got vmap, but {text}; take one-by-one")


def _separate(parts: list[Tensor]) -> list[Tensor]:
    """Return contiguous copies of parts of models: products take less time than with slices."""
    return [part.clone(memory_format=torch.contiguous_format) for part in parts]


def _state(trainings: Sequence[Training], models: Tensor) -> OptimizerState:
    """Return the state of several clients' optimizers as one, for models (clients, d)."""
    if trainings[0].state is None:
        return trainings[0].rule.begin(models)
    states = [training.begin(w) for training, w in zip(trainings, models, strict=True)]
    moments = zip(*(each.moments for each in states), strict=True)
    return OptimizerState([torch.stack(moment) for moment in moments], states[0].steps)


def _classes(t: Array) -> Array:
    """Return the class of each target, (clients, b), from indicators (clients, b, classes)."""
    return np.asarray(t.argmax(axis=-1) if t.ndim > 2 else t)


def _join(gradients: list[Tensor]) -> Tensor:
    """Concatenate clients' gradients, one per parameter, to vectors, shape (clients, d)."""
    return torch.cat([gradient.flatten(1) for gradient in gradients], dim=1)


def _array(values: Tensor) -> Array:
    return np.array(values.detach().cpu().numpy(), dtype=np.float64)


@contextmanager
def _quiet() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", _SLOW)
        yield
