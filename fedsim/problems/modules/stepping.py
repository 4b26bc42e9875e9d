"""The steps of an optimizer on a flat module: fedsim's own, and those of `torch.optim`."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any, Protocol, cast

import numpy as np
import torch
from torch import Tensor

from fedsim.core.blocks.wording import named_line
from fedsim.core.errors import DataError
from fedsim.core.ports import Array
from fedsim.problems.modules.module import FlatModule, join, trained_parameters
from fedsim.problems.modules.schedules import take_steps
from fedsim.problems.optimizers import SGD, Adam, AdamW, GivenOptimizer, OptimizerState, Training


class Stepping(Protocol):
    """Takes the steps of a round on a module."""

    def step(self, gradients: list[Tensor], eta: float) -> None:
        """Change the module by gradients, one per parameter."""
        ...

    def result(self, w: Array) -> Array:
        """Return `Training.result` for the final model `w`, shape (d,)."""
        ...


class VectorSteps:
    """Steps of an optimizer's rule on the flat model.

    On a CPU, gradient descent and Adam use PyTorch's fused kernels, which read and write each
    number once.
    """

    def __init__(self, training: Training, flat: FlatModule) -> None:
        self._training, self._flat = training, flat
        self._state = training.begin(flat.model)
        self._take = step_of(training, flat.model.device.type)

    def step(self, gradients: list[Tensor], eta: float) -> None:
        """See `Stepping.step`."""
        model, gradient = self._flat.model, join(gradients)
        if self._training.moved is not None:
            self._training.step(model, gradient, eta, self._state)
        else:
            self._take(model, self._training.limit(gradient), eta, self._state)

    def result(self, w: Array) -> Array:
        """See `Stepping.result`."""
        return self._training.result(w, self._state)


def _descend(rule: SGD, w: Tensor, g: Tensor, eta: float, state: OptimizerState) -> None:
    """Take a step of gradient descent, with or without momentum."""
    torch._fused_sgd_(
        [w],
        [g],
        cast("list[Tensor]", state.moments),
        weight_decay=rule.weight_decay,
        momentum=rule.momentum,
        lr=eta,
        dampening=0.0,
        nesterov=rule.nesterov,
        maximize=False,
        is_first_step=False,
    )


def _adapt(rule: Adam, w: Tensor, g: Tensor, eta: float, state: OptimizerState) -> None:
    """Take a step of Adam or AdamW, with corrected moments."""
    state.steps += 1
    m, v = cast("list[Tensor]", state.moments)
    step = torch._fused_adamw_ if isinstance(rule, AdamW) else torch._fused_adam_
    step(
        [w],
        [g],
        [m],
        [v],
        [],
        [torch.tensor(float(state.steps), dtype=torch.float32)],
        lr=eta,
        beta1=rule.beta1,
        beta2=rule.beta2,
        weight_decay=rule.weight_decay,
        eps=rule.epsilon,
        amsgrad=False,
        maximize=False,
    )


_FUSED: dict[type, Callable[..., None]] = {SGD: _descend, Adam: _adapt, AdamW: _adapt}
"""Kernels by the exact class of the rule: Yogi, a subclass of Adam, has another rule."""


def step_of(
    training: Training, device: str
) -> Callable[[Tensor, Tensor, float, OptimizerState], None]:
    """Return the function that takes a step of a rule on a device; see `VectorOptimizer.step`."""
    rule = training.rule
    # PyTorch's fused kernels of Adam always correct the moments.
    corrected = not isinstance(rule, Adam) or rule.bias_correction
    kernel = _FUSED.get(type(rule)) if corrected and device == "cpu" else None
    return rule.step if kernel is None else partial(kernel, rule)


class PassedSteps:
    """Steps of an optimizer of PyTorch on the module's parameters.

    The learning rates that the optimizer sets for its parameter groups at the first step size are
    scaled in proportion to later step sizes. If it has a schedule of its own, only this schedule
    changes them.

    Args:
        training: the training, with an optimizer passed in from Python.
        flat: the module.

    Raises:
        DataError: the optimizer or its schedule cannot be created, or cannot continue from a state.
    """

    def __init__(self, training: Training, flat: FlatModule) -> None:
        optimizer = training.optimizer
        assert isinstance(optimizer, GivenOptimizer)  # noqa: S101 - see `stepping`
        self._flat, self._training, self._name = flat, training, optimizer.name
        self._parameters = [each for _, each in trained_parameters(flat.module)]
        passed = optimizer.passed
        self._by_step = passed.by == "step"
        try:
            self._optimizer = passed.of(self._parameters, training.rates[0])
            self._schedule: Any = passed.schedule and passed.schedule(self._optimizer)
        except Exception as error:  # the code of a user's factory may raise anything
            raise failing_optimizer(
                optimizer.name, "cannot be made for the module", error
            ) from error
        self._own = [group.get("lr") for group in self._optimizer.param_groups]
        if self._schedule:
            self._go_on(optimizer, len(training.rates) if self._by_step else 1)
        if training.state is not None:
            self._restore(training.state[1:])

    def step(self, gradients: list[Tensor], eta: float) -> None:
        """See `Stepping.step`."""
        if self._training.clip is not None:
            gradients = self._flat.cut(self._training.limit(join(gradients)))
        self._flat.set_gradients(gradients)
        first = self._training.rates[0]
        if self._schedule is None and eta != first:
            # Groups of parameters may have different step sizes, whose ratios stay the same.
            for group, own in zip(self._optimizer.param_groups, self._own, strict=True):
                if own is not None:
                    group["lr"] = own * (eta / first) if first else eta
        self._take_step()
        if self._schedule and self._by_step:
            with self._name_errors("has a schedule that fails"):
                take_steps(self._schedule, 1)

    def result(self, w: Array) -> Array:
        """See `Stepping.result`."""
        if not self._training.kept:
            return w
        values = [
            np.ravel(each.detach().cpu().numpy() if isinstance(each, Tensor) else each)
            for _, _, each in self._entries()
        ]
        # The 0 is in the place of the number of steps in `join_state`; PyTorch's state has its own.
        return np.concatenate([w, [0.0], *values]).astype(np.float64)

    def _take_step(self) -> None:
        with self._name_errors("fails on the module"):
            self._optimizer.step()

    def _go_on(self, given: GivenOptimizer, each: int) -> None:
        """Advance the new schedule by `each` steps per earlier round."""
        key = given.digest, self._training.rates[0], each
        with self._name_errors("has a schedule that fails"):
            self._flat.schedules.advance(key, self._schedule, self._training.rounds * each)

    @contextmanager
    def _name_errors(self, what: str) -> Iterator[None]:
        """Name the optimizer in errors that its code raises."""
        try:
            yield
        except Exception as error:  # as above
            raise failing_optimizer(self._name, what, error) from error

    def _restore(self, kept: Array) -> None:
        """Restore the optimizer's state; a step without gradients first creates its tensors."""
        before = self._flat.model.clone()
        self._flat.clear()
        self._flat.gradients()
        self._take_step()
        self._flat.model.copy_(before)
        at = 0
        for state, key, each in list(self._entries()):
            if isinstance(each, Tensor):
                part = torch.from_numpy(kept[at : at + each.numel()].reshape(each.shape).copy())
                each.copy_(part)
                at += each.numel()
            else:
                state[key] = type(each)(kept[at])
                at += 1
        if at != len(kept):
            text = f"{self._name} has {at} numbers in its state, and kept {len(kept)}"
            raise DataError("optimizer", f"{text}; take optimizer_state: reset")

    def _entries(self) -> Iterator[tuple[dict[str, Any], str, Any]]:
        """Yield the numbers and tensors of the state, by parameter and name."""
        for parameter in self._parameters:
            state = self._optimizer.state[parameter]
            for key in sorted(state):
                if isinstance(state[key], Tensor | float | int):
                    yield state, key, state[key]


def stepping(training: Training, flat: FlatModule) -> Stepping:
    """Return the steps of an optimizer on a module; errors as for `PassedSteps`."""
    passed = isinstance(training.optimizer, GivenOptimizer)
    return PassedSteps(training, flat) if passed else VectorSteps(training, flat)


def failing_optimizer(name: str, what: str, error: Exception) -> DataError:
    """Return the error for an optimizer whose code raises an exception."""
    return DataError("optimizer", f"the optimizer {name} {what}: {named_line(error)}")
