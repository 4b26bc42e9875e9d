"""Datasets of PyTorch as rows of a scenario."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Protocol, TypeAlias

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import issparse
from torch.utils.data import DataLoader, Dataset, IterableDataset, Subset, TensorDataset

from fedsim.core.blocks.wording import first_line, named_line
from fedsim.core.errors import DataError
from fedsim.problems.data.files import GivenRows, _labels_as_read, arrays

_AT_ONCE = 1024


class Items(Protocol):
    """Items of known number that can be read in sequence."""

    def __len__(self) -> int: ...

    def __iter__(self) -> Iterator[Any]: ...


def dataset(
    data: "Dataset[Any] | Items | Sequence[Dataset[Any] | Items]", clients: ArrayLike | None = None
) -> GivenRows:
    """Return a dataset of pairs (features, label) as a block, for `problem.data` or `problem.test`.

    Every item is read once, in order, by this call: transforms are applied only once, so random
    transforms (augmentation) do not belong here.

    Args:
        data: a map-style dataset, or an iterable of known length, whose items have features of one
            shape; or a list with one dataset per client.
        clients: the client of each row, shape (n,); only with a single dataset.

    Raises:
        DataError: the dataset has no items, no length, or items that are not such pairs.

    Example:
        >>> from torch.utils.data import TensorDataset
        >>> rows = TensorDataset(torch.rand(6, 3), torch.tensor([0, 1, 0, 1, 0, 1]))
        >>> dataset(rows, clients=[0, 0, 1, 1, 2, 2]).kind
        'given'
    """
    if has_items(data):
        X, y = _stack(data)
        return arrays(X, y, clients)
    each_of: Any = data
    parts = [_stack(each, f"client {number}: ") for number, each in enumerate(each_of)]
    if not parts or clients is not None:
        text = "one dataset, or at least one for each client without `clients`"
        raise DataError("data", f"got {len(parts)} datasets; expected {text}")
    numbers = np.repeat(np.arange(len(parts)), [len(y) for _, y in parts])
    return arrays(*_join(parts), numbers)


def has_items(value: object) -> bool:
    """Return whether an object is a dataset, or an iterable of known length.

    Sequences and arrays are not: they may be features, or one dataset for each client.
    """
    if isinstance(value, Dataset):
        return True
    is_other = isinstance(value, Sequence | Mapping | DataLoader)
    if is_other or hasattr(value, "__array__") or issparse(value):
        return False
    return hasattr(value, "__len__") and hasattr(value, "__iter__")


def by_number(data: Any) -> Any:
    """Return items that can be read by number; those of an iterable are read once."""
    by_place = hasattr(data, "__getitem__") and not isinstance(data, IterableDataset)
    return data if by_place else list(data)


Pair: TypeAlias = tuple[NDArray[Any], NDArray[Any]]
"""Features, shape (n, ...), and labels, shape (n,)."""


def _stack(data: Any, prefix: str = "") -> Pair:
    """Return all features and all labels; `whose` begins an error."""
    if not hasattr(data, "__len__"):
        text = f"{prefix}got {type(data).__name__}, which has no length"
        raise DataError("data", f"{text}; expected a map-style dataset, or items of a known number")
    try:
        return _join(_batches(by_number(data), type(data).__name__))
    except DataError as error:
        raise DataError("data", f"{prefix}{error}") from None
    except Exception as error:  # noqa: BLE001 - the code of a user's dataset may raise anything
        text = f"{prefix}an item of the {type(data).__name__} cannot be read"
        raise DataError("data", f"{text}: {named_line(error)}") from None


def _join(parts: Sequence[Pair]) -> Pair:
    """Return the rows of several parts, concatenated.

    Raises:
        DataError: their features differ in shape.
    """
    if len(parts) == 1:  # not copied
        return parts[0]
    shapes = list(dict.fromkeys(X.shape[1:] for X, _ in parts))
    if len(shapes) > 1:
        text = f"features are of one shape; got rows of {shapes[0]} and of {shapes[1]}"
        raise DataError("data", f"{text}; a step takes items of any shape")
    X, y = (np.concatenate(each) for each in zip(*parts, strict=True))
    return X, y


def _batches(data: Any, name: str) -> list[Pair]:
    """Yield features and labels in batches; `name` is the class of the items."""
    if not len(data):
        raise DataError("data", f"the {name} has no items")
    tensors = _tensors(data)
    if tensors is not None:
        return [tensors]
    generator = torch.Generator()  # without it, the loader draws from PyTorch's global generator
    return list(DataLoader(data, batch_size=_AT_ONCE, collate_fn=_collate, generator=generator))


def _tensors(data: "Dataset[Any]") -> Pair | None:
    """Return the tensors of a `TensorDataset`, without reading items one by one."""
    rows: Any = slice(None)
    if isinstance(data, Subset):
        rows, data = np.asarray(data.indices), data.dataset
    if not isinstance(data, TensorDataset) or len(data.tensors) != 2:
        return None
    X, y = (as_array(each)[rows] for each in data.tensors)
    return X, y


def _collate(items: list[Any]) -> Pair:
    """Return some items as arrays.

    Raises:
        DataError: they are not pairs of features of one shape and a label.
    """
    try:
        features, labels = zip(*items, strict=True)
        return np.stack([as_array(each) for each in features]), np.array(
            [_label(y) for y in labels]
        )
    except (TypeError, ValueError) as error:
        text = (
            "expected items that are pairs: features, all of one shape, and a number as the label"
        )
        raise DataError("data", f"{text}; got: {first_line(error)}") from None


def as_array(value: Any) -> NDArray[Any]:
    """Return a tensor, or anything that NumPy converts, as an array.

    bfloat16, which NumPy lacks, is converted to float32, which represents it exactly.

    Raises:
        DataError: the tensor is sparse, quantized or on `meta`.
    """
    if not isinstance(value, torch.Tensor):
        return _labels_as_read(value, "rows")
    if value.layout is not torch.strided or value.is_quantized or value.is_meta:
        sort = "quantized" if value.is_quantized else "on meta" if value.is_meta else "sparse"
        raise DataError("data", f"got a tensor that is {sort}; expected a dense one")
    plain = value.detach().cpu().resolve_conj().resolve_neg()
    return (plain.float() if plain.dtype is torch.bfloat16 else plain).numpy()


def _label(value: Any) -> float:
    return float(value)
