"""User-defined functions and torchmetrics as measures of a run."""

import re
from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from functools import partial
from importlib.metadata import version
from types import MappingProxyType
from typing import Any, Literal, NamedTuple, TypeAlias, cast

import numpy as np
import torch
from torch import Tensor

from fedsim.addons.torch.steps import StepModule
from fedsim.addons.torch.torchmetrics import check_options, make_metric, metric_class, snake_case
from fedsim.core.blocks.values import digest_of
from fedsim.core.blocks.wording import describe_passed, named_line
from fedsim.core.errors import DataError, Failed
from fedsim.core.ports import Array
from fedsim.core.table_columns import higher_is_better
from fedsim.problems import GivenMeasure, Problem, Samples
from fedsim.problems.held_out_targets import class_places, held_out_labels, held_out_rows
from fedsim.problems.losses import TorchLoss
from fedsim.problems.measures.given import NAME
from fedsim.problems.modules.trainer import AT_ONCE
from fedsim.scenario.figures import columns

Metric: TypeAlias = str | Callable[..., Any]
"""A function, an object or a class of torchmetrics, or the name of such a class."""


def metric(
    function: Metric,
    name: str = "",
    *,
    on: Literal["test", "clients"] = "test",
    **options: Any,
) -> GivenMeasure:
    """Return a function as a measure: `measures=[metric(f, "test_iou")]`.

    It is evaluated in `eval()` and without gradients. Larger values are better if the name ends in
    accuracy, acc, precision, recall, f1, auc, auroc, r2, score, iou or kappa. A name that
    contradicts the direction of a torchmetrics metric is refused.

    Args:
        function: of outputs and targets of all rows: logits (n, classes) and classes (n,), or
            numbers (n,) and (n,); where the problem has a step: of the module and a batch, of which
            the mean over batches of at most 256 items, weighted by them, is the figure. It returns
            a number. An object of torchmetrics is copied for each call; a class of torchmetrics, or
            its name such as "MulticlassF1Score", is made with the options, and with `num_classes`
            of the data where it needs that.
        name: of the column, such as "test_iou"; by default that of a class of torchmetrics, in
            small letters, with "_score" or "_error" behind it where it did not say which is better.
        on: "test" for held-out rows, or "clients" for each client's own rows. The latter fills four
            columns, with these prefixes before the name: `worst_` (the worst client), `tenth_` (the
            mean over the worst tenth of clients, rounded up), `median_`, and `mean_` (unweighted).
        options: further arguments of a class of torchmetrics, by name.

    Raises:
        DataError: the function cannot be called; the name is invalid, taken, or contradicts the
            metric; torchmetrics is not installed, lacks the class, or refuses the options.

    Example:
        >>> made = metric(lambda outputs, targets: (outputs - targets).abs().max(), "largest_error")
        >>> made.columns
        ('largest_error',)
    """
    found = metric_class(function)
    if found is None and options:
        text = f"options are those of a class of torchmetrics; got {', '.join(options)}"
        raise DataError("measures", f"{text} for {function!r}")
    if found is not None:
        check_options(found, options)
    named = name or ("" if found is None else _own_name(found))
    _check(found or function, named, on, is_class=found is not None)
    passed = PassedMetric(found or cast("Callable[..., Any]", function), named, options)
    if isinstance(function, str) and all(map(digest_of, options.values())):
        identity = [function, version("torchmetrics"), sorted(options.items())]
        return GivenMeasure.of_values(passed, partial(digest_of, identity), name=named, on=on)
    return GivenMeasure.of_code(passed, digest_of(*sorted(options.items())), name=named, on=on)


def _own_name(metric_type: type[Any]) -> str:
    """Return a column name for a class of torchmetrics, which shows the better direction."""
    name, more = snake_case(metric_type.__name__), _more_is_better(metric_type)
    if more is None or more is higher_is_better(name):
        return name
    return f"{name}_{_ENDS[more]}"


_ENDS = {True: "score", False: "error"}


def _more_is_better(function: object) -> bool | None:
    """Return whether larger values of a torchmetrics metric are better; None if unknown."""
    direction: object = getattr(function, "higher_is_better", None)
    return direction if isinstance(direction, bool) else None


def _check(function: object, name: object, on: object, *, is_class: bool) -> None:
    """Check a function and its name.

    Raises:
        DataError: one of them cannot be used.
    """
    if not callable(function) or (isinstance(function, type) and not is_class):
        text = "a metric is a function of outputs and targets, or of a module and a batch, or of"
        raise DataError("measures", f"{text} torchmetrics; got {function!r}")
    if not isinstance(name, str) or not re.fullmatch(NAME, name):
        text = "the name of a metric is one of small letters, digits and _, such as test_iou"
        raise DataError("measures", f"{text}; got {name!r}")
    if name in columns():
        raise DataError("measures", f"the name {name} is that of a measure; take another one")
    if on not in ("test", "clients"):
        raise DataError("measures", f"on: got {on!r}; expected test or clients")
    more = _more_is_better(function)
    if more is not None and more is not higher_is_better(name):
        what = function.__name__ if isinstance(function, type) else type(function).__name__
        better = "larger" if more else "smaller"
        text = f"{better} values of {what} are better, but the name {name} stands for"
        other = f"{'smaller' if more else 'larger'} values; use {name}_{_ENDS[more]}"
        raise DataError("measures", f"{text} {other}")


class PassedMetric(NamedTuple):
    """A function and its name.

    Attributes:
        function: the user's function, or a class of torchmetrics.
        name: the name of the column.
        options: arguments of the class.
    """

    function: Callable[..., Any]
    name: str
    options: Mapping[str, Any] = MappingProxyType({})

    def bind(self, problem: Problem) -> Callable[[Array], float]:
        """Return the figure of a model on the test rows; see `PassedFunction`."""
        test = held_out_rows(problem, self.name)
        if self._has_classes(problem):
            held_out_labels(problem, self.name)  # raises for unknown classes
        figure = self._with_object(problem)._figure_of(problem, test)  # noqa: SLF001 - its own class
        self._try(problem, figure)
        return figure

    def bind_clients(self, problem: Problem) -> Callable[[Sequence[Array]], Array]:
        """Return a function of a model: the measure on each client's rows, shape (M,)."""
        figure = self._with_object(problem)._figure_of  # noqa: SLF001 - its own class
        each = [figure(problem, rows) for rows in problem.samples]
        self._try(problem, each[0])

        def evaluate(models: Sequence[Array]) -> Array:
            return np.array([found(w) for found, w in zip(each, models, strict=True)])

        return evaluate

    def _with_object(self, problem: Problem) -> "PassedMetric":
        """Return a copy with an instance of its class.

        Raises:
            DataError: it cannot be made.
        """
        if not isinstance(self.function, type):
            return self
        count = len(problem.loss.classes(problem.labels)) if self._has_classes(problem) else None
        return self._replace(function=make_metric(self.function, self.options, count))

    @staticmethod
    def _try(problem: Problem, figure: Callable[[Array], float]) -> None:
        """Evaluate a measure once, at an initial model.

        Raises:
            DataError: it fails, or returns no number.
        """
        try:
            figure(problem.losses[0].initial(np.random.default_rng(0)))
        except Failed as error:
            raise DataError("measures", str(error)) from None

    @staticmethod
    def _has_classes(problem: Problem) -> bool:
        loss = problem.loss
        if isinstance(loss, TorchLoss) and not loss.model.predicts:
            return False
        try:
            loss.classes(problem.labels)
        except DataError:  # not a classifier
            return False
        return True

    def _figure_of(self, problem: Problem, rows: Samples) -> Callable[[Array], float]:
        """Return the measure of a model on some rows."""
        loss = problem.loss
        if isinstance(loss, TorchLoss) and not loss.model.predicts:
            return self._of_batches(rows, loss)
        return self._of_outputs(rows, problem)

    def _of_outputs(self, rows: Samples, problem: Problem) -> Callable[[Array], float]:
        """Return the function's value for the outputs and targets of all rows."""
        loss, classes = problem.loss, None
        if self._has_classes(problem):
            classes = loss.classes(problem.labels)
            targets = torch.from_numpy(class_places(loss.class_labels(rows.y), classes))
        else:
            targets = torch.from_numpy(rows.y.copy())

        def evaluate(w: Array) -> float:
            found = loss.regress(rows.X, w) if classes is None else loss.scores(rows.X, w, classes)
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
        """Call the function, and return its result as a number.

        Raises:
            Failed: it fails, or returns something else.
        """
        function = deepcopy(self.function) if hasattr(self.function, "reset") else self.function
        try:
            with torch.no_grad():
                result: object = function(first, second)
            if isinstance(result, Tensor) and result.numel() == 1:
                return float(result)
            if isinstance(result, int | float | np.number):
                return float(result)
        except Exception as error:
            arguments = f"{describe_passed(first)} and {describe_passed(second)}"
            text = f"the metric {self.name} fails: {named_line(error)}; it is given {arguments}"
            raise Failed(text) from error
        raise Failed(
            f"the metric {self.name} has to return a number; got {describe_passed(result)}"
        )
