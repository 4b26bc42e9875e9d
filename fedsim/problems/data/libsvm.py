"""LIBSVM text: one sample per line, `label index:value index:value ...`, without zeros."""

import warnings
from io import BytesIO
from pathlib import Path
from typing import ClassVar, Literal

import numpy as np
from pydantic import Field
from scipy.sparse import csr_array, csr_matrix

from fedsim.core.blocks.spec import AnyPath
from fedsim.core.errors import DataError
from fedsim.core.files import decompress, read_bytes
from fedsim.core.memory import check_budget, format_size
from fedsim.core.ports import Array
from fedsim.problems.data.base import Source
from fedsim.problems.samples import Features, Samples, canonical

DENSE_LIMIT = 10**9
"""With `layout: auto`, larger arrays than this stay sparse, bytes."""

SMALL = 16 * 10**6
"""With `layout: auto`, arrays up to this size become dense, whatever their share of zeros,
bytes."""

SPARSE_SHARE = 0.25
"""Below this share of non-zeros, products of sparse rows with vectors are not slower."""

_TIMES = 16
"""Bytes of memory per byte of text: "1:1 " becomes a number and an index, twice."""

_LONGEST = 200  # characters of the library's message, at most: it may quote the text

Layout = Literal["auto", "dense", "sparse"]

ACCEPTED = (
    "accepted is 'label index:value index:value ...' with numbers for labels and values, "
    "and indices that count from 1 and rise"
)


class LibSVM(Source):
    """A file in LIBSVM text, plain or compressed by gzip or bzip2."""

    source: ClassVar[str] = "LIBSVM: Chang, Lin, ACM Trans. Intell. Syst. Technol. 2011"

    kind: Literal["libsvm"] = "libsvm"
    path: AnyPath = Field(description="the file, relative to the scenario file's folder")
    features: int | None = Field(
        default=None, ge=1, description="number of features; by default the largest index"
    )
    layout: Layout = Field(
        default="auto",
        description="auto: a dense array, unless fewer than a quarter of its numbers are other "
        "than 0 and it takes more than 16 MB, or it takes more than 1 GB; or dense; or sparse",
    )

    def read(self, folder: Path, rng: np.random.Generator) -> Samples:
        """Read the file."""
        path = folder / self.path
        return parse(read_bytes(path, times=_TIMES), path, self.features, self.layout)


def parse(
    content: bytes, path: Path, features: int | None = None, layout: Layout = "auto"
) -> Samples:
    """Parse LIBSVM text, which may be compressed.

    Args:
        content: the bytes of the file.
        path: its name, for errors.
        features: the number of features; by default the largest index.
        layout: dense or sparse rows; auto decides by size and share of zeros.

    Raises:
        DataError: the file is damaged, a line is malformed, or a requested dense array exceeds the
            memory limit.
    """
    text = decompress(content, path, times=_TIMES)
    try:
        X, y = _parse(text, features)
    except _REFUSALS as error:
        raise DataError("data.path", _first_fault(text, path, features, error)) from error
    return Samples(_laid_out(X, path, layout), y)


_REFUSALS = (ValueError, OverflowError, IndexError)
"""The exceptions that scikit-learn's reader raises on malformed text."""


def _parse(text: bytes, features: int | None) -> tuple[csr_matrix, Array]:
    # Importing scikit-learn takes most of a second, and few commands need it.
    from sklearn.datasets import load_svmlight_file

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        X, y = load_svmlight_file(BytesIO(text), n_features=features, zero_based=False)
    return X, y


def _first_fault(text: bytes, path: Path, features: int | None, error: Exception) -> str:
    """Return a message with the first malformed line, which is found by bisection."""
    lines = text.splitlines(keepends=True)
    low, high = 0, len(lines)
    reason = error
    # Throughout, lines[:low] can be parsed and lines[:high] cannot.
    while high - low > 1:
        middle = (low + high) // 2
        try:
            _parse(b"".join(lines[low:middle]), features)
        except _REFUSALS as found:
            high, reason = middle, found
        else:
            low = middle
    seen = lines[low][:60].decode("ascii", "backslashreplace").rstrip() if lines else ""
    dots = " ..." if lines and len(lines[low]) > 60 else ""
    why = str(reason)[:_LONGEST]
    return f"{path}, line {low + 1}: cannot read {seen!r}{dots} ({why}); {ACCEPTED}"


def _laid_out(X: csr_matrix, path: Path, layout: Layout) -> Features:
    rows, features = X.shape
    size = 8 * rows * features
    if layout == "auto":
        mostly_zero = X.nnz < SPARSE_SHARE * rows * features
        layout = "sparse" if size > DENSE_LIMIT or (mostly_zero and size > SMALL) else "dense"
    if layout == "sparse":
        return canonical(csr_array(X))
    text = f"{path} has {rows} rows of {features} features, {format_size(size)} as a dense array"
    check_budget("data.layout", f"{text} (layout: sparse takes less); it and a copy", 2 * size)
    dense: Array = X.toarray()
    return dense
