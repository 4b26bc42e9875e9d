"""The idx format of MNIST: a header of sizes, then the numbers of one array, big-endian."""

# ruff: noqa: ARG002 - a file draws nothing

from math import prod
from pathlib import Path
from typing import ClassVar, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from fedsim.blocks.given import AnyPath
from fedsim.errors import DataError
from fedsim.files import decompressed, read_bytes
from fedsim.limits import afford
from fedsim.problems.data.base import Source
from fedsim.problems.features import as_read
from fedsim.problems.samples import Samples

_TYPES = {0x08: "u1", 0x09: "i1", 0x0B: ">i2", 0x0C: ">i4", 0x0D: ">f4", 0x0E: ">f8"}
"""The type of the numbers by the third byte of the file."""


class Idx(Source):
    """Images and labels in two files of the idx format, plain or compressed.

    An image is flattened row by row; its pixels are as in the file, whole numbers from 0 to
    255 in MNIST, so `preprocess: [{divide: 255}]` puts them into [0, 1].
    """

    source: ClassVar[str] = "LeCun, Cortes, Burges: the MNIST database"

    kind: Literal["idx"] = "idx"
    images: AnyPath = Field(description="the file of images, relative to the scenario's folder")
    labels: AnyPath = Field(description="the file of labels, relative to the scenario's folder")

    def read(self, folder: Path, rng: np.random.Generator) -> Samples:
        """Read both files."""
        images, labels = folder / self.images, folder / self.labels
        return pair(
            decompressed(read_bytes(images, "data.images"), images, "data.images"),
            decompressed(read_bytes(labels, "data.labels"), labels, "data.labels"),
            (images, labels),
        )


def pair(images: bytes, labels: bytes, paths: tuple[Path, Path]) -> Samples:
    """Return the samples of a file of images and a file of labels.

    Args:
        images: the content of the first file, not compressed.
        labels: that of the second.
        paths: the names of both, for errors.

    Raises:
        DataError: one of them is not in the idx format, or there are not as many labels as
            images.
    """
    X = _array(images, paths[0], "data.images", "two or more, the first of them the samples")
    y = _array(labels, paths[1], "data.labels", "one")
    if len(X) != len(y):
        raise DataError(
            "data.labels", f"{paths[1]} has {len(y)} labels, but {paths[0]} {len(X)} images"
        )
    rows = as_read(X.reshape(len(X), -1)) if X.size else np.empty((0, 0))
    return Samples(rows, np.ascontiguousarray(y, dtype=np.float64))


def _array(content: bytes, path: Path, key: str, dimensions: str) -> NDArray[np.generic]:
    if len(content) < 4 or content[:2] != b"\0\0" or content[2] not in _TYPES:
        raise DataError(
            key,
            f"{path} is not in the idx format: it begins with {content[:4]!r}; accepted are two "
            "bytes 0, one for the type of the numbers (8 for bytes), and one for the dimensions",
        )
    count = content[3]
    start = 4 + 4 * count
    sizes = tuple(np.frombuffer(content[4:start], ">u4").tolist()) if len(content) >= start else ()
    if (count == 1) != (dimensions == "one") or count == 0:
        raise DataError(key, f"{path} is an array of {count} dimensions; needed are {dimensions}")
    kind = np.dtype(_TYPES[content[2]])
    wanted = start + prod(sizes) * kind.itemsize
    if not sizes or len(content) != wanted:
        raise DataError(
            key,
            f"{path} has {len(content)} bytes, but its header of sizes {sizes or '(cut off)'} "
            f"means {wanted}",
        )
    afford(key, f"{path}: an array of sizes {sizes}", (kind.itemsize + 4) * prod(sizes))
    if not prod(sizes):  # beside a 0 there may be sizes beyond any array
        return np.empty((sizes[0], *[0] * (count - 1)), kind)
    return np.frombuffer(content, kind, offset=start).reshape(sizes)
