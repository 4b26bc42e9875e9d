"""Functions of the user's as measures of a run, such as those of torchmetrics."""

import re
from collections.abc import Callable
from copy import deepcopy
from typing import Any, NamedTuple, cast

import numpy as np
import torch
from torch import Tensor

from fedsim.blocks.identity import identity_of
from fedsim.blocks.wording import named_line
from fedsim.errors import DataError, Failed
from fedsim.ports import Array
from fedsim.problems import GivenMeasure, Problem, Samples
from fedsim.problems.held_out_targets import class_places, held_out_labels, held_out_rows
from fedsim.problems.losses import TorchLoss
from fedsim.problems.measures.given import NAME
from fedsim.problems.modules.trainer import AT_ONCE
from fedsim.scenario.figures import columns
from fedsim.torch.steps import StepModule


def metric(function: Callable[[Any, Any], Any], name: str) -> GivenMeasure:
    """Return a function as a measure on the test rows: `measures=[metric(f, "test_iou")]`.

    It is evaluated in `eval()` and without gradients. Where a model is best by it, more is better
    if the name ends in accuracy, acc, precision, recall, f1, auc, r2, score or iou.

    Args:
        function: of outputs and targets of all test rows: logits (n, classes) and classes (n,), or
            numbers (n,) and (n,); where the problem has a step: of the module and a batch, of which
            the mean over batches of at most 256 test items, weighted by them, is the figure. An
            object of torchmetrics is copied for each call. It returns a number.
        name: of the column, such as "test_iou".

    Raises:
        DataError: the function cannot be called, or the name is none or one of fedsim's.

    Example:
        >>> made = metric(lambda outputs, targets: (outputs - targets).abs().max(), "largest_error")
        >>> made.columns
        ('largest_error',)
    """
    _check(function, name)
    return GivenMeasure.holding(
        identity_of(function),
        PassedMetric(function, name),
        lambda: identity_of(function),
        name=name,
    )


def _check(function: object, name: object) -> None:
    """Check a function and its name.

    Raises:
        DataError: one of them cannot be used.
    """
    if not callable(function) or isinstance(function, type):
        text = "a metric is a function of outputs and targets, or of a module and a batch"
        raise DataError("measures", f"{text}; got {function!r}")
    if not isinstance(name, str) or not re.fullmatch(NAME, name):
        text = "the name of a metric is one of small letters, digits and _, such as test_iou"
        raise DataError("measures", f"{text}; got {name!r}")
    if name in columns():
        raise DataError("measures", f"the name {name} is that of a measure; take another one")


class PassedMetric(NamedTuple):
    """A function and its name.

    Attributes:
        function: the user's.
        name: of the figure.
    """

    function: Callable[[Any, Any], Any]
    name: str

    def bind(self, problem: Problem) -> Callable[[Array], float]:
        """Return the figure of a model; see `fedsim.problems.measures.given.PassedFunction`."""
        test, loss = held_out_rows(problem, self.name), problem.loss
        if isinstance(loss, TorchLoss) and not loss.model.predicts:
            return self._of_batches(test, loss)
        return self._of_outputs(test, problem)

    def _of_outputs(self, test: Samples, problem: Problem) -> Callable[[Array], float]:
        """Return the function's value for the outputs and targets of all rows."""
        loss = problem.loss
        try:
            classes: Array | None = loss.classes(problem.labels)
        except DataError:  # no classifier
            classes = None
        if classes is None:
            targets = torch.from_numpy(test.y.copy())
        else:
            _, labels, classes = held_out_labels(problem, self.name)
            targets = torch.from_numpy(class_places(labels, classes))

        def evaluate(w: Array) -> float:
            found = loss.regress(test.X, w) if classes is None else loss.scores(test.X, w, classes)
            return self._number(torch.from_numpy(np.ascontiguousarray(found)), targets)

        return evaluate

    def _of_batches(self, test: Samples, loss: TorchLoss) -> Callable[[Array], float]:
        """Return the mean of the function's values for batches of items."""
        numbers = torch.from_numpy(np.asarray(test.X).astype(np.int64).reshape(-1))

        def evaluate(w: Array) -> float:
            module = cast("StepModule", loss.module(1, 1, w))
            total = 0.0
            for some in torch.split(numbers, AT_ONCE):
                total += len(some) * self._number(module.module, module.batch(some))
            return total / len(numbers)

        return evaluate

    def _number(self, first: object, second: object) -> float:
        """Return what the function returns, as a number.

        Raises:
            Failed: it fails, or returns something else.
        """
        function = deepcopy(self.function) if hasattr(self.function, "reset") else self.function
        try:
            with torch.no_grad():
                found: object = function(first, second)
            if isinstance(found, Tensor) and found.numel() == 1:
                return float(found)
            if isinstance(found, int | float | np.number):
                return float(found)
        except Exception as error:
            raise Failed(f"the metric {self.name} fails: {named_line(error)}") from error
        raise Failed(f"the metric {self.name} is to return a number; got {type(found).__name__}")
