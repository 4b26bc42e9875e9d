"""PyTorch modules and losses as the problem of a scenario."""

from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from functools import partial
from operator import index
from typing import Any, Literal, NamedTuple, TypeAlias

import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset, TensorDataset

from fedsim.addons.torch.datasets import Items, as_array, dataset, has_items
from fedsim.addons.torch.steps import BatchLoss, Collate, StepForm, StepModule, form_of, item_rows
from fedsim.core.blocks.values import digest_of
from fedsim.core.blocks.wording import describe_passed
from fedsim.core.errors import DataError
from fedsim.problems import Source
from fedsim.problems.architectures import GivenModule, PassedModule
from fedsim.problems.data.files import GivenRows
from fedsim.problems.modules.seeding import own_streams
from fedsim.scenario import ProblemSpec
from fedsim.scenario.passed import passed_problem, passed_rows

Rows: TypeAlias = Dataset[Any] | Items | Sequence[Any] | Source | Mapping[str, Any]
"""A dataset, or an iterable of known length; one for each client; (X, y), (X, y, clients); or a
source as in a scenario."""

Module: TypeAlias = nn.Module | Callable[[], nn.Module]
"""A module with the initial parameters; or a function that creates one under each seed."""

RowLoss: TypeAlias = Callable[[Tensor, Tensor], Tensor]
"""A function of outputs and targets that returns the loss of each row, or their mean."""

Criterion: TypeAlias = Literal["cross-entropy", "squared"]


def problem(
    module: Module,
    loss: Criterion | RowLoss = "cross-entropy",
    *,
    data: Rows,
    test: Rows | None = None,
    split: Mapping[str, Any] | str | None = None,
    shape: Sequence[int] | None = None,
    step: BatchLoss | None = None,
    collate: Collate | None = None,
    **of_the_loss: Any,
) -> ProblemSpec:
    """Return a module and a loss as the `problem` of a scenario.

    The trainable parameters (`requires_grad`) are the model; all other tensors are the same at
    every client, are not trained, and are never sent. The outputs belong to classes 0, 1, ...

    Args:
        module: a module with the initial parameters; or a class or function that creates one,
            called under the seed of each run. For more than one of `jobs` it must be importable.
        loss: "cross-entropy", "squared" ((o - y)^2/2 with one output), or a function or module of
            outputs and targets that returns each row's loss, shape (b,), or their mean, shape ().
            Its targets are classes if the module has several outputs, and numbers, like the outputs
            of shape (b,), if it has one. A loss with a `reduction` is evaluated for each row; "sum"
            sets `scale` to "sum" by default.
        data: the clients' rows: a dataset of PyTorch, or an iterable of known length, or one for
            each client; arrays or tensors (X, y) or (X, y, clients); or a source, as in a scenario.
        test: test rows in the same forms; or {"fraction": 0.2}.
        split: the assignment of rows to clients; by default the clients of the rows if they have
            them (`groups`), and otherwise contiguous blocks in fleet order (`contiguous`).
        shape: of the module's input for a row; by default that of the data.
        step: in place of `loss`, a function of the module and a batch that returns each item's
            loss, shape (b,), or their mean. Items may have any form then: `data` is a dataset, or
            one dataset or list of items per client; `test` is a further one. The loss over all
            items of a client is the mean over batches of at most 256; the operations of an item are
            1/32 of those of a batch of 32 evenly spaced items.
        collate: with a step: a function of a list of items that returns a batch, `default_collate`
            by default. Its tensors are moved to the model's device, real ones cast to its type.
        of_the_loss: other keys of the loss `torch`: l2, scale, numbers, device, outputs. `device`
            is by default that of a module passed as an object.

    Raises:
        DataError: rows, module or loss cannot be used, or a key or value of the loss is invalid.

    Example:
        >>> from torch import nn
        >>> made = problem(nn.Linear(3, 2), data=(np.eye(3), [0, 1, 1]))
    """
    if step is not None:
        _check_alone(loss, shape)
        return _problem_of_items(module, step, collate, data, test, split, of_the_loss)
    if collate is not None:
        raise DataError("collate", "it makes batches for a step, and none is given")
    return _problem_of_rows(module, loss, data, test, split, shape, of_the_loss)


def _problem_of_rows(
    module: Module,
    loss: Criterion | RowLoss,
    data: Rows,
    test: Rows | None,
    split: Mapping[str, Any] | str | None,
    shape: Sequence[int] | None,
    of_the_loss: Mapping[str, Any],
) -> ProblemSpec:
    """Return the problem of a module and a loss of outputs and targets; see `problem`."""
    rows = _rows(data)
    row = _shape(shape) or (rows.row if isinstance(rows, GivenRows) else None)
    handed = PassedModule(module, None if isinstance(loss, str) else loss)
    _check_callable(handed)
    tried = _try(handed, row)
    model = _model(handed, row, tried)
    if isinstance(rows, GivenRows):
        _check_texts(rows.texts, tried)
    if loss == _CLASSES and tried.outputs == 1:
        text = "cross-entropy needs an output for each class, and the module has one output"
        raise DataError("loss.criterion", f"{text}; use squared, or a custom loss")
    known = {**_loss_keys(loss, tried.outputs), **_device(module)}
    keys = {"kind": "torch", "model": model, **known, **of_the_loss}
    return passed_problem(keys, rows, test, split, _rows)


def _check_texts(texts: Sequence[str], tried: "Tried") -> None:
    """Check that text labels are classes of a module.

    Raises:
        DataError: they are not.
    """
    outputs = tried.outputs
    if outputs is None or len(texts) <= max(outputs, 2):
        return
    count = "one, for a number" if outputs == 1 else f"{outputs}, one per class"
    raise DataError(
        "data",
        f"y has {len(texts)} distinct texts, such as {texts[0]!r:.60}, and the outputs of"
        f" {tried.name} are {count}; y takes numbers, shape (rows,), or texts that name classes,"
        " one per row; other targets need a step",
    )


def _check_alone(loss: object, shape: object) -> None:
    """Check that no argument is given that a step would ignore.

    Raises:
        DataError: one is.
    """
    if loss != _CLASSES or shape is not None:
        name = "shape" if loss == _CLASSES else "loss"
        text = f"got step and {name}; a step computes the loss of a batch of any shape"
        raise DataError(name, f"{text}: give one of the two")


def _problem_of_items(
    module: Module,
    step: BatchLoss,
    collate: Collate | None,
    data: Any,
    test: Any,
    split: Mapping[str, Any] | str | None,
    of_the_loss: Mapping[str, Any],
) -> ProblemSpec:
    """Return the problem of a module and a step; see `problem`."""
    rows = item_rows(data, test)
    handed = PassedModule(module, wrap=form_of(step, collate, rows.items))
    _check_callable(handed)
    keys = {
        "kind": "torch",
        "model": _model(handed, (1,), _try(handed, None)),
        "criterion": "squared",  # its only output is the loss itself
        **_device(module),
        **of_the_loss,
    }
    return passed_problem(keys, rows.data, rows.test, split, lambda test: test)


def _shape(shape: Sequence[int] | None) -> tuple[int, ...]:
    """Return the shape of a row's features; empty if not given.

    Raises:
        DataError: it is invalid.
    """
    try:
        sizes = () if shape is None else tuple(index(length) for length in shape)
    except TypeError:
        sizes = (0,)
    if any(length < 1 for length in sizes):
        text = "the shape is that of one row's features, such as (3, 32, 32)"
        raise DataError("loss.model", f"{text}; got {shape!r}")
    return sizes


def _model(handed: PassedModule, row: tuple[int, ...] | None, tried: "Tried") -> GivenModule:
    """Return the block of a validated module."""
    as_object = isinstance(handed.make, nn.Module)  # a function may return another one each time
    return GivenModule.of_code(
        handed,
        tried.digest,
        partial(_digest, handed, handed.make) if as_object else None,
        name=tried.name,
        row=row,
        integers=tried.integers,
    )


def _loss_keys(loss: Criterion | RowLoss, outputs: int | None) -> dict[str, Any]:
    """Return the keys of the loss that follow from the arguments."""
    criterion = loss if isinstance(loss, str) else "squared" if outputs == 1 else _CLASSES
    keys: dict[str, Any] = {"criterion": criterion}
    if criterion == _CLASSES and outputs is not None:
        keys["outputs"] = outputs
    if getattr(loss, "reduction", None) == "sum":
        keys["scale"] = "sum"
    return keys


def _device(module: Module) -> dict[str, str]:
    """Return the key `device` of the loss for a module on a GPU; empty for others."""
    parts = module.parameters() if isinstance(module, nn.Module) else ()
    return {"device": "cuda"} if any(each.is_cuda for each in parts) else {}


_CLASSES: Criterion = "cross-entropy"
_TRIED = 2  # rows


class Tried(NamedTuple):
    """Properties of a module, from a trial.

    Attributes:
        name: the name of its class.
        digest: a digest of the numbers of module and loss, and of the items of a step.
        outputs: the number of its outputs; None if unknown.
        integers: whether its inputs are integers.
    """

    name: str
    digest: str
    outputs: int | None
    integers: bool


def _check_callable(handed: PassedModule) -> None:
    """Check the types of a module and a loss.

    Raises:
        DataError: they are not.
    """
    make: Any = handed.make
    loss: Any = handed.loss
    if not callable(make):
        text = "the module has to be a torch.nn.Module, or a class or function that makes one"
        raise DataError("loss.model", f"{text}; got {describe_passed(make)}")
    if loss is not None and (not callable(loss) or isinstance(loss, type)):
        text = "the loss has to be a function or module of outputs and targets"
        hint = "; make one of the class first" if isinstance(loss, type) else ""
        raise DataError("loss.model", f"{text}; got {describe_passed(loss)}{hint}")
    if isinstance(loss, nn.Module) and any(
        parameter.requires_grad for parameter in loss.parameters()
    ):
        text = f"the loss {type(loss).__name__} has parameters, which nothing would train"
        raise DataError("loss.model", f"{text}; make them part of the module, or freeze them")


def _try(handed: PassedModule, row: tuple[int, ...] | None) -> Tried:
    """Create a module once, and run it on rows of zeros.

    Raises:
        DataError: it cannot be created.
    """
    with own_streams(0):
        passed = handed.module()
        outputs, integers = (None, False) if row is None else _outputs(passed, row)
    if isinstance(passed, StepModule):
        network = passed.module
        return Tried(type(network).__name__, _digest(handed, network), 1, integers=True)
    return Tried(type(passed).__name__, _digest(handed, passed), outputs, integers)


def _digest(handed: PassedModule, module: object) -> str:
    """Return a digest of the numbers of a module and its loss, and of the items of a step."""
    items = handed.wrap.items.datasets if isinstance(handed.wrap, StepForm) else ()
    tensors = [each.tensors if type(each) is TensorDataset else each for each in items]
    return digest_of(*(_numbers(each) for each in (module, handed.loss)), *tensors)


def _numbers(module: object) -> object:
    """Return parameters and buffers of a module by name; other objects unchanged."""
    if not isinstance(module, nn.Module):
        return module
    return [*module.named_parameters(), *module.named_buffers()]


def _outputs(module: nn.Module, row: tuple[int, ...]) -> tuple[int | None, bool]:
    """Return the number of outputs of a module, and whether its inputs are integers.

    If the module cannot be run here, the run itself raises the error.
    """
    try:
        plain = deepcopy(module).to(torch.float32).eval()
    except Exception:  # noqa: BLE001 - a module holds whatever its author likes; its trial says so
        return None, False
    for kind in (torch.float32, torch.int64):
        try:
            output = plain(torch.zeros(_TRIED, *row, dtype=kind))
        except Exception:  # noqa: BLE001, S112 - the code of a user's module; its trial says why
            continue
        shape = tuple(output.shape) if isinstance(output, Tensor) else ()
        if len(shape) == 2 and shape[0] == _TRIED:
            return shape[1], kind is torch.int64
        return (1 if shape == (_TRIED,) else None), kind is torch.int64
    return None, False


def _rows(data: Rows) -> Source | Mapping[str, Any]:
    """Return rows as a block."""
    if isinstance(data, Source | Mapping):
        return data
    several = isinstance(data, list | tuple) and len(data) > 0
    each: Any = data if several else [data]
    if any(isinstance(one, DataLoader) for one in each):
        text = "got a DataLoader; clients draw their own minibatches, of the `batch` of the method"
        raise DataError("data", f"{text}: give its dataset, loader.dataset")
    if all(map(has_items, each)):
        return dataset(data)
    others = "a dataset of PyTorch, one for each client, or a source of a scenario"
    return passed_rows(data, as_array, others)
