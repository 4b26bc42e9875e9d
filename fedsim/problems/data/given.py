"""Rows that were handed over in Python, as arrays."""

from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray
from pydantic import Field

from fedsim.blocks.held import Holding
from fedsim.blocks.identity import Identity
from fedsim.errors import DataError
from fedsim.problems.data.base import Source
from fedsim.problems.samples import Samples, check


class GivenRows(Holding, Source):
    """Rows that were handed over in Python: see `fedsim.arrays` and `fedsim.torch.dataset`."""

    source: ClassVar[str] = "the user's own"
    numbers_clients: ClassVar[bool | str] = "where they were handed over with them"

    kind: Literal["given"] = "given"
    rows: int = Field(ge=1, description="how many there are")
    row: tuple[int, ...] = Field(description="shape of the features of one")
    numbered: bool = Field(default=False, description="whether each has the number of its client")

    def read(self, folder: Path, rng: np.random.Generator) -> Samples:  # noqa: ARG002 - no file
        """Return the rows; see `Source.read`."""
        samples: Samples = self.value("data")
        return samples


def arrays(X: ArrayLike, y: ArrayLike, clients: ArrayLike | None = None) -> GivenRows:
    """Return arrays as a block, for `problem.data` or `problem.test` of a scenario.

    They are not copied where they are of float64 or float32 and lie row by row; change them no
    more. A file keeps their digest only, so such a scenario is run from Python.

    Args:
        X: features, shape (n, ...); each row is read flat, and networks are given its shape.
        y: labels, shape (n,).
        clients: the number of the client that each row belongs to, shape (n,), for the split
            `groups`.

    Raises:
        DataError: shapes disagree, there is nothing, or a number is not finite.
    """
    features, labels = _numbers(X), as_read(y, "labels")
    if labels.dtype.kind not in "fiub":
        text = "labels are numbers, such as those of classes 0, 1, ..."
        raise DataError("data", f"{text}; got an array of {labels.dtype}")
    if features.ndim < 2 or labels.ndim != 1:
        text = "X takes the shape (rows, features, ...) and y (rows,)"
        raise DataError("data", f"{text}; got {features.shape} and {labels.shape}")
    if not features.size:
        text = "at least one row and one feature are needed"
        raise DataError("data", f"{text}; got features of the shape {features.shape}")
    numbers = None if clients is None else _client_numbers(clients)
    flat = features.reshape(len(features), -1)
    samples = Samples(flat, labels.astype(np.float64, copy=False), numbers)
    check(samples)
    return GivenRows.holding(
        _identity(samples),
        samples,
        partial(_identity, samples),
        rows=samples.rows,
        row=features.shape[1:],
        numbered=numbers is not None,
    )


def _numbers(X: ArrayLike) -> NDArray[Any]:
    """Return features as numbers that are computed with: real ones of 64 or 32 bits.

    Raises:
        DataError: they are none.
    """
    found = as_read(X, "features")
    if found.dtype.kind not in "fiub":
        raise DataError("data", f"features are numbers; got an array of {found.dtype}")
    if found.dtype in (np.float64, np.float32):
        return np.ascontiguousarray(found)
    narrow = found.dtype.kind in "ub" or found.dtype.itemsize <= 2
    return np.ascontiguousarray(found, dtype=np.float32 if narrow else np.float64)


def as_read(values: ArrayLike, name: str) -> NDArray[Any]:
    """Return values as an array.

    Raises:
        DataError: rows differ in length.
    """
    try:
        return np.asarray(values)
    except (TypeError, ValueError) as error:
        raise DataError(
            "data", f"{name} are an array of numbers; seen otherwise: {error}"
        ) from None


def _client_numbers(clients: ArrayLike) -> NDArray[np.int64]:
    found = as_read(clients, "clients")
    if found.dtype.kind not in "iu":
        raise DataError("data", f"clients are whole numbers; got an array of {found.dtype}")
    if found.size and found.min() < 0:
        text = "clients are numbers from 0, one a row"
        raise DataError(
            "data", f"{text}; got {found.min()}, which is often a mark of a missing one"
        )
    return found.astype(np.int64)


def _identity(samples: Samples) -> Identity:
    digest = sha256()
    for block in samples.blocks():
        digest.update(block)
    if samples.client is not None:
        digest.update(f" clients {samples.client.dtype.str} ".encode())
        digest.update(np.ascontiguousarray(samples.client).data)
    return Identity(digest.hexdigest())
