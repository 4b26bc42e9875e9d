"""A module and a loss as the problem of a scenario."""

from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from typing import Any, Literal, NamedTuple, TypeAlias

import torch
from torch import Tensor, nn
from torch.utils.data import Dataset

from fedsim.errors import DataError
from fedsim.problems import Source
from fedsim.problems.architectures import GivenModule, Handed
from fedsim.problems.data.given import GivenRows, arrays
from fedsim.scenario import ProblemSpec
from fedsim.torch.datasets import dataset
from fedsim.torch.digests import digest_of

Rows: TypeAlias = Dataset[Any] | Sequence[Any] | Source | Mapping[str, Any]
"""A dataset, one for each client, (X, y), (X, y, clients), or a source as a scenario has it."""

Module: TypeAlias = nn.Module | Callable[[], nn.Module]
"""A module, whose parameters are the ones to begin with; or what makes one under each seed."""

RowLoss: TypeAlias = Callable[[Tensor, Tensor], Tensor]
"""Of outputs and targets: the loss of each row, or their mean."""

Criterion: TypeAlias = Literal["cross-entropy", "squared"]


def problem(
    module: Module,
    loss: Criterion | RowLoss = "cross-entropy",
    *,
    data: Rows,
    test: Rows | None = None,
    split: Mapping[str, Any] | str | None = None,
    shape: Sequence[int] | None = None,
    **of_the_loss: Any,
) -> ProblemSpec:
    """Return a module and a loss as the `problem` of a scenario.

    What the module trains (`requires_grad`) is the model; all else in it is the same at every
    client, is not trained, and never travels. Its outputs are those of classes 0, 1, ...

    Args:
        module: a module, whose parameters are the ones to begin with; or a class or function that
            makes one, which is called under the seed of each run. For more `jobs` than one it has
            to be of a file that can be imported.
        loss: "cross-entropy", "squared" ((o - y)^2/2 with one output), or a function or module of
            outputs and targets that returns each row's loss, shape (b,), or their mean, shape ().
            For such a one targets are classes where the module has several outputs, and numbers,
            like the outputs of shape (b,), where it has one.
        data: the clients' rows: a dataset of PyTorch, or one for each client; arrays or tensors
            (X, y) or (X, y, clients); or a source, as a scenario has it.
        test: rows to test on, likewise; or {"fraction": 0.2}.
        split: which client gets which rows; if None, the rows' own clients where they have them
            (`groups`), and otherwise the fleet's clients in their order (`contiguous`).
        shape: of the features of a row as the module takes them; if None, that of the data.
        of_the_loss: other keys of the loss `torch`: l2, scale, numbers, device, outputs.

    Raises:
        DataError: rows cannot be used.
        ValueError: a key or value is none that the loss has.
    """
    rows = _rows(data)
    row = tuple(shape) if shape else rows.row if isinstance(rows, GivenRows) else None
    handed = Handed(module, None if isinstance(loss, str) else loss)
    tried = _tried(handed, row)
    model = GivenModule.holding(
        tried.digest, handed, name=tried.name, row=row, integers=tried.integers
    )
    criterion = loss if isinstance(loss, str) else "squared" if tried.outputs == 1 else _CLASSES
    known = {} if criterion != _CLASSES or tried.outputs is None else {"outputs": tried.outputs}
    keys: dict[str, Any] = {
        "loss": {"kind": "torch", "model": model, "criterion": criterion, **known, **of_the_loss},
        "data": rows,
        "split": split or ("groups" if _numbered(rows) else "contiguous"),
    }
    if test is not None:
        keys["test"] = test if _is_fraction(test) else _rows(test)
    return ProblemSpec.model_validate(keys)


_CLASSES: Criterion = "cross-entropy"


class Tried(NamedTuple):
    """What is known of a module that was handed over.

    Attributes:
        name: of its class.
        digest: of its code as far as it can be had, its state, and the loss.
        outputs: how many it has; None where that is not known.
        integers: whether it takes whole numbers.
    """

    name: str
    digest: str
    outputs: int | None
    integers: bool


def _tried(handed: Handed, row: tuple[int, ...] | None) -> Tried:
    """Make a module once, and give it a row of zeros."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        make: Any = handed.make
        made: object = deepcopy(make) if isinstance(make, nn.Module) else make()
        if not isinstance(made, nn.Module):
            text = f"the module is to be a torch.nn.Module; seen {type(made).__name__}"
            raise DataError("loss.model", text)
        outputs, integers = (None, False) if row is None else _outputs(made, row)
    return Tried(type(made).__name__, digest_of(made, handed.make, handed.loss), outputs, integers)


def _outputs(module: nn.Module, row: tuple[int, ...]) -> tuple[int | None, bool]:
    """Return how many outputs a module has, and whether it takes whole numbers.

    Where it cannot be run, the run itself says why.
    """
    plain = deepcopy(module).to(torch.float32).eval()
    for kind in (None, torch.int64):
        try:
            found = plain(torch.zeros(2, *row, dtype=kind))
        except (RuntimeError, TypeError, ValueError, IndexError):
            continue
        several = isinstance(found, Tensor) and found.ndim == 2
        return (int(found.shape[1]) if several else 1), kind is not None
    return None, False


def _rows(data: Rows) -> Source | Mapping[str, Any]:
    """Return rows as a block."""
    if isinstance(data, Source | Mapping):
        return data
    if isinstance(data, Dataset):
        return dataset(data)
    parts = list(data)
    if parts and all(isinstance(each, Dataset) for each in parts):
        return dataset(parts)
    if len(parts) not in (2, 3):
        text = "rows are a dataset of PyTorch, one for each client, (X, y), (X, y, clients) or a"
        raise DataError("data", f"{text} source of a scenario; seen {len(parts)} things")
    return arrays(*(_plain(each) for each in parts))


def _plain(values: Any) -> Any:  # noqa: ANN401 - whatever arrays are made of
    return values.detach().cpu().numpy() if isinstance(values, Tensor) else values


def _numbered(rows: Source | Mapping[str, Any]) -> bool:
    return isinstance(rows, GivenRows) and rows.numbered


def _is_fraction(test: Rows) -> bool:
    return isinstance(test, Mapping) and "fraction" in test
