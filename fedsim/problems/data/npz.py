"""NumPy archives: arrays `X` and `y`, and `client` where rows belong to clients."""

# ruff: noqa: ARG002 - a file draws nothing

from pathlib import Path
from typing import ClassVar, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from fedsim.blocks.given import AnyPath
from fedsim.errors import DataError
from fedsim.files import read_arrays
from fedsim.problems.data.base import Source
from fedsim.problems.features import as_read
from fedsim.problems.samples import Samples


class NpzArchive(Source):
    """A NumPy archive with arrays X (n, d), y (n,) and, where present, client (n,)."""

    source: ClassVar[str] = "NumPy's .npz format"
    numbers_clients: ClassVar[bool | str] = "with an array client"

    kind: Literal["npz"] = "npz"
    path: AnyPath = Field(description="the file, relative to the scenario file's folder")

    def read(self, folder: Path, rng: np.random.Generator) -> Samples:
        """Read the file."""
        path = folder / self.path
        return samples_of(read_arrays(path, "data.path"), path)


def samples_of(found: dict[str, NDArray[np.generic]], path: Path) -> Samples:
    """Return the samples in an archive.

    Args:
        found: its arrays, by their names.
        path: its own name, for errors.

    Raises:
        DataError: an array is missing, or one is not of numbers.
    """
    missing = [name for name in ("X", "y") if name not in found]
    if missing:
        raise DataError(
            "data.path",
            f"{path} has no array {' and no array '.join(missing)}; it has "
            f"{', '.join(found) or 'none'}; X (n, d) and y (n,) are needed",
        )
    client = found.get("client")
    return Samples(
        as_read(_numbers(found, "X", path)),
        np.ascontiguousarray(_numbers(found, "y", path), dtype=np.float64),
        None if client is None else _whole(client, path),
    )


def _numbers(found: dict[str, NDArray[np.generic]], name: str, path: Path) -> NDArray[np.generic]:
    array = found[name]
    if array.dtype.kind not in "biuf":
        raise DataError(
            "data.path", f"{path}: array {name} is of type {array.dtype}; numbers are needed"
        )
    return array


def _whole(array: NDArray[np.generic], path: Path) -> NDArray[np.int64]:
    if array.dtype.kind not in "iu":
        raise DataError(
            "data.path",
            f"{path}: array client is of type {array.dtype}; whole numbers are needed",
        )
    return array.astype(np.int64)
