"""User-defined steps: items of any form, a user-defined collation, and a loss per batch.

A row of such a problem is the number of an item. So items are split, sampled in minibatches and
epochs, held out and counted like rows, and a batch is collated only when a step is called with it.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, Self, TypeAlias, cast

import numpy as np
from torch import Tensor, nn
from torch.utils._pytree import tree_map
from torch.utils.data import ConcatDataset, default_collate

from fedsim.addons.torch.datasets import by_number, has_items
from fedsim.core.blocks.wording import describe_passed, named_line
from fedsim.core.errors import DataError
from fedsim.problems import Source
from fedsim.problems.data.files import GivenRows, arrays

Batch: TypeAlias = Any
"""The batch that `collate` returns."""

BatchLoss: TypeAlias = Callable[[Any, Batch], Tensor]
"""A function of the module and a batch that returns each item's loss, shape (b,), or their mean."""

Collate: TypeAlias = Callable[[list[Any]], Batch]
"""A function of a list of items that returns a batch."""

COUNTED = 32
"""The number of items, evenly spaced, whose operations are counted."""


class Numbered(ConcatDataset[Any]):
    """All items of a problem, by number; copies of a module share them."""

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        return self


class StepForm(NamedTuple):
    """Wraps a user's module into a module of item numbers; see `StepModule`.

    Attributes:
        step: the user's step.
        collate: the user's function, or PyTorch's.
        items: the items of all clients, then held-out items.
    """

    step: BatchLoss
    collate: Collate
    items: Numbered

    @property
    def sampled(self) -> Sequence[int]:
        """Numbers of items, evenly spaced."""
        count = len(self.items)
        return tuple(np.linspace(0, count - 1, min(count, COUNTED)).astype(int).tolist())

    def __call__(self, module: nn.Module) -> "StepModule":
        """Return the module of item numbers."""
        return StepModule(module, self)


class StepModule(nn.Module):
    """A module whose inputs are numbers of items, shape (b, 1), and whose outputs are their losses.

    If the step returns the mean of a batch, the mean is the loss of each item of the batch.

    Args:
        module: the user's module; the parameters have the same names here.
        form: the step, its collation and its items.
    """

    def __init__(self, module: nn.Module, form: StepForm) -> None:
        super().__init__()
        self.module = module
        self._form = form

    def named_parameters(
        self,
        prefix: str = "",
        recurse: bool = True,  # noqa: FBT001, FBT002 - as PyTorch has it
        remove_duplicate: bool = True,  # noqa: FBT001, FBT002 - likewise
    ) -> Iterator[tuple[str, nn.Parameter]]:
        """Yield the parameters of the user's module under their names."""
        return self.module.named_parameters(prefix, recurse, remove_duplicate)

    def forward(self, numbers: Tensor) -> Tensor:
        """Return the losses of items, shape (b, 1)."""
        count, batch = len(numbers), self.batch(numbers)
        try:
            losses: object = self._form.step(self.module, batch)
        except Exception as error:  # the user's code may raise anything
            text = f"it fails on a batch of {count} items: {named_line(error)}"
            raise DataError("step", text + _leaving(error)) from error
        if not isinstance(losses, Tensor) or tuple(losses.shape) not in {(), (count,)}:
            raise DataError(
                "step",
                f"of a batch of {count} items it is to return a tensor of the shape ({count},), the"
                f" loss of each, or (), their mean; got {describe_passed(losses)}",
            )
        if not losses.dtype.is_floating_point:
            raise DataError("step", f"a loss is a real number; got {losses.dtype}")
        return losses.expand(count).unsqueeze(1)

    def batch(self, numbers: Tensor) -> Batch:
        """Return collated items on the model's device, with real numbers in the model's type."""
        items = [self._item(number) for number in numbers.reshape(-1).tolist()]
        try:
            collated = self._form.collate(items)
        except Exception as error:  # the user's code may raise anything
            text = f"it fails on a list of {len(items)} items, of {describe_passed(items[0])}"
            raise DataError("collate", f"{text}: {named_line(error)}") from error
        like = next(self.module.parameters())

        def placed(value: object) -> object:
            if not isinstance(value, Tensor):
                return value
            return value.to(like.device, like.dtype if value.dtype.is_floating_point else None)

        return tree_map(placed, collated)

    def _item(self, number: int) -> Any:
        try:
            return self._form.items[number]
        except Exception as error:  # likewise
            text = f"item {number}, counted from 0 through all clients, cannot be read"
            raise DataError("data", f"{text}: {named_line(error)}") from error


def _leaving(error: Exception) -> str:
    """Return a hint if the step tried to call backward() or an optimizer, which the method does."""
    needs_grad = "does not require grad" in str(error)
    return "; backward() and the optimizer's step are the method's" if needs_grad else ""


class ItemRows(NamedTuple):
    """Items as rows of a problem.

    Attributes:
        items: all items, by number.
        data: the numbers of the clients' items, as rows.
        test: the numbers of held-out items; a fraction of the clients' items; or None.
    """

    items: Numbered
    data: GivenRows
    test: GivenRows | Mapping[str, Any] | None


def item_rows(data: object, test: object) -> ItemRows:
    """Return items as rows with one feature, the number of the item.

    Args:
        data: a dataset or iterable of all clients, or one dataset or list of items per client.
        test: held-out items in the same forms; or {"fraction": 0.2}.

    Raises:
        DataError: there are fewer than two items, or a part has no length or no items.
    """
    by_client = not has_items(data)
    parts = list(_sequence(data, "data")) if by_client else [data]
    if by_client and not all(isinstance(part, Sequence) or has_items(part) for part in parts):
        text = "with a step, rows are a dataset of PyTorch, or one, or a list of items, per client"
        raise DataError("data", f"{text}; got {type(data).__name__} of {type(parts[0]).__name__}")
    sequences = [_by_number(part, "data") for part in parts]
    lengths = [len(part) for part in sequences]
    if sum(lengths) < 2:
        raise DataError("data", f"got {sum(lengths)} items; expected at least 2")
    owners = np.repeat(np.arange(len(parts)), lengths) if by_client else None
    rows = _numbers(0, sum(lengths), owners)
    if test is None or isinstance(test, Mapping):
        return ItemRows(Numbered(sequences), rows, test)
    held_out = _by_number(test, "test")
    return ItemRows(
        Numbered([*sequences, held_out]), rows, _numbers(sum(lengths), len(held_out), None)
    )


def _sequence(data: object, key: str) -> Sequence[Any]:
    """Return a sequence that is not empty.

    Raises:
        DataError: it is none.
    """
    if isinstance(data, Source | Mapping | str) or not isinstance(data, Sequence) or not data:
        text = "with a step, rows are a dataset of PyTorch, or one, or a list of items, per client"
        raise DataError(key, f"{text}; got {type(data).__name__}")
    return data


def _by_number(items: object, key: str) -> Any:
    """Return items that can be read by number; those of an iterable are read once.

    Raises:
        DataError: they have no length, cannot be read, or there are none.
    """
    name = type(items).__name__
    if not hasattr(items, "__len__"):
        text = f"got {name}, which has no length; expected items of a known number"
        raise DataError(key, text)
    try:
        numbered = by_number(items)
        count = len(numbered)
    except Exception as error:  # the user's code may raise anything
        raise DataError(
            key, f"the items of the {name} cannot be read: {named_line(error)}"
        ) from error
    if not count:
        raise DataError(key, f"the {name} has no items")
    return numbered


def _numbers(start: int, count: int, owners: Any) -> GivenRows:
    """Return item numbers as rows, their labels zero."""
    return arrays(np.arange(start, start + count)[:, None], np.zeros(count), owners)


def form_of(step: object, collate: object, items: Numbered) -> StepForm:
    """Return the form of a step; its collation is PyTorch's by default.

    Raises:
        DataError: step or collate cannot be called.
    """
    for key, value in (("step", step), ("collate", collate)):
        if value is not None and not callable(value):
            text = f"{key} is a function, step(module, batch) or collate(items)"
            raise DataError(key, f"{text}; got {type(value).__name__}")
    return StepForm(cast("BatchLoss", step), cast("Collate", collate or default_collate), items)
