"""Optimizers of optax for clients and servers."""

from collections.abc import Callable
from functools import partial
from typing import Any, Literal

from fedsim.core.blocks.values import digest_of
from fedsim.core.errors import DataError
from fedsim.problems.optimizers import GivenTransformation
from fedsim.problems.transformations import transformation


def optimizer(
    make: Callable[..., Any],
    *,
    numbers: Literal["float32", "float64"] | None = None,
    operations: float | None = None,
    **options: Any,
) -> GivenTransformation:
    """Return an optimizer of optax as the `optimizer` or `server_optimizer` of a method.

    It takes its steps on the parts of the model, as a list of arrays.

    Args:
        make: a function of optax, or one like it: called with the step size, which is a number
            traced by JAX, and the options; returns a `GradientTransformation`. For more than one of
            `jobs` it must be importable.
        numbers: the type of its steps and state; that of the problem by default, see `problem`.
        operations: charged for each value of the model and step, beside the gradient's; by default
            what XLA counts of a step on the model, less the 2 of w - eta g, which are free.
        options: further arguments of `make`, by name.

    Raises:
        DataError: `make` fails, or returns no optimizer, or the optimizer cannot take a step.

    Example:
        >>> import optax
        >>> made = optimizer(optax.adamw, weight_decay=0.1)
        >>> made.name, made.moments
        ('adamw', 2)
    """
    _check(make, numbers)
    name = str(getattr(make, "__name__", type(make).__name__))
    passed = partial(make, **options)
    tried = transformation(passed, name, numbers or "float64")
    return GivenTransformation.of_code(
        passed,
        digest_of(*sorted(options.items())),
        name=name,
        vectors=tried.vectors,
        charged=tried.operations if operations is None else operations,
        numbers=numbers,
        counted=operations is None,
    )


def _check(make: object, numbers: object) -> None:
    """Check the types of the arguments.

    Raises:
        DataError: it is not.
    """
    if not callable(make):
        text = "an optimizer of optax is a function of a step size, such as optax.adam"
        raise DataError("optimizer", f"{text}; got an object of the class {type(make).__name__}")
    if numbers not in {None, "float32", "float64"}:
        raise DataError("optimizer", f"numbers: got {numbers!r}; expected 'float32' or 'float64'")
