"""Optimizers and schedules of PyTorch for the clients' steps."""

from collections.abc import Callable
from typing import Any, Literal

import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from fedsim.core.blocks.values import digest_of
from fedsim.core.blocks.wording import named_line
from fedsim.core.errors import DataError
from fedsim.problems.optimizers import GivenOptimizer, PassedOptimizer

_SIDE = 16
"""The side of the square parameter in an optimizer's trial."""


def optimizer(
    make: Callable[..., torch.optim.Optimizer],
    *,
    schedule: Callable[[Any], Any] | None = None,
    by: Literal["round", "step"] = "step",
    operations: float | None = None,
    **options: Any,
) -> GivenOptimizer:
    """Return an optimizer of PyTorch as the `optimizer` of a method, for modules.

    Args:
        make: a class of `torch.optim`, or a function like one: called with the module's trained
            parameters, `lr`, which is the `step_size` of the method, and the options. For more than
            one of `jobs` it must be importable.
        schedule: a function of the optimizer that returns a `torch.optim.lr_scheduler`, in place
            of the method's `schedule`. It is created for each round of a client, and continues from
            the steps or rounds before, as if the client had taken part in all of them.
        by: whether the schedule takes a step after each local step, or between rounds.
        operations: the operations charged per value of the model and step, beside the gradient; by
            default those of its kernels in a trial, less 2 for w - eta g, which are free.
        options: further arguments of `make`, by name.

    Raises:
        DataError: `make` fails or returns no optimizer, or the optimizer cannot take a step.

    Example:
        >>> made = optimizer(torch.optim.RMSprop, momentum=0.9)
        >>> made.name, made.moments
        ('RMSprop', 2)
    """
    _check(make, schedule, by)
    passed = PassedOptimizer(make, options, schedule, by)
    name, vectors, counted = _try(passed)
    charged = counted if operations is None else operations
    if charged is None:
        text = (
            f"the fused kernel of {name} cannot be counted; give its operations per value and step"
        )
        raise DataError("optimizer", f"{text}, such as operations=11 for Adam")
    return GivenOptimizer.of_code(
        passed,
        digest_of(*sorted(options.items()), by),
        name=name,
        vectors=vectors,
        charged=charged,
        scheduled=schedule is not None,
    )


def _check(make: object, schedule: object, by: object) -> None:
    """Check the types of the arguments.

    Raises:
        DataError: a type is wrong.
    """
    expected = "an optimizer is a class of torch.optim, or a function of parameters and lr"
    if not callable(make):
        raise DataError(
            "optimizer", f"{expected}; got an object of the class {type(make).__name__}"
        )
    if schedule is not None and not callable(schedule):
        text = "a schedule is a function of the optimizer that returns a torch.optim.lr_scheduler"
        raise DataError(
            "optimizer", f"{text}; got an object of the class {type(schedule).__name__}"
        )
    if by not in {"round", "step"}:
        raise DataError("optimizer", f"by: got {by!r}; a schedule is by round or by step")


def _try(passed: PassedOptimizer) -> tuple[str, int, float | None]:
    """Return the class of an optimizer, its vectors of state, and its operations per value.

    Raises:
        DataError: it cannot be created, or cannot take a step.
    """
    name = getattr(passed.make, "__name__", type(passed.make).__name__)
    size = _SIDE * _SIDE
    parameter = nn.Parameter(torch.linspace(-1, 1, size, dtype=torch.float32).view(_SIDE, -1))
    parameter.grad = torch.full_like(parameter, 0.5)
    counting = _Counting()
    try:
        trial = _make(passed, parameter)
        trial.step()  # creates its state
        with counting:
            trial.step()
    except Exception as error:  # noqa: BLE001 - the code of a user's factory may raise anything
        text = f"{name} is called with parameters, lr and options, and steps without arguments"
        raise DataError("optimizer", f"{text}; it fails in a trial: {named_line(error)}") from None
    state = [tensor for tensor in tree_leaves(trial.state[parameter]) if isinstance(tensor, Tensor)]
    vectors = sum(tensor.numel() for tensor in state) // size
    counted = max(float(round(counting.operations / size)) - 2.0, 0.0)
    return type(trial).__name__, vectors, None if counting.fused else counted


def _make(passed: PassedOptimizer, parameter: nn.Parameter) -> Any:
    """Return an optimizer of one parameter, after creating its schedule once."""
    optimizer_made = passed.of([parameter], 0.1)
    if not isinstance(optimizer_made, torch.optim.Optimizer):
        raise TypeError(f"it makes {type(optimizer_made).__name__}, no torch.optim.Optimizer")
    plan = passed.schedule(optimizer_made) if passed.schedule else None
    if isinstance(plan, torch.optim.lr_scheduler.ReduceLROnPlateau):
        raise TypeError("ReduceLROnPlateau follows a measure, which a client does not have")
    if passed.schedule and not isinstance(plan, torch.optim.lr_scheduler.LRScheduler):
        raise TypeError(f"its schedule makes {type(plan).__name__}, no torch.optim.lr_scheduler")
    return optimizer_made


_SEVERAL = {"lerp": 3, "addcmul": 3, "addcdiv": 3}
"""Operations per value of kernels with more than one, by the start of their names."""

_NONE = ("zeros", "empty", "copy", "clone", "detach", "view", "full")


class _Counting(TorchDispatchMode):  # type: ignore[no-untyped-call]  # of PyTorch
    """Counts the operations of kernels: one per value, or as in `_SEVERAL`.

    Attributes:
        operations: the number of operations.
        fused: whether a kernel took a whole step at once: its operations are unknown.
    """

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]  # of PyTorch
        self.operations = 0.0
        self.fused = False

    def __torch_dispatch__(
        self,
        function: Any,
        types: Any,
        args: Any = (),
        kwargs: Any = None,
    ) -> Any:
        """Call a kernel, and count the values that it returns or changes in place."""
        result = function(*args, **(kwargs or {}))
        name = str(function).removeprefix("aten.").removeprefix("_foreach_").lstrip("_")
        self.fused |= name.startswith("fused")
        operations = next((count for start, count in _SEVERAL.items() if name.startswith(start)), 1)
        if name.startswith(("add.", "add_.")):
            operations += (kwargs or {}).get("alpha", 1) != 1
        if not name.startswith(_NONE):
            changed = result if result is not None else args[0]
            tensors = [part for part in tree_leaves(changed) if isinstance(part, Tensor)]
            self.operations += operations * sum(part.numel() for part in tensors)
        return result
