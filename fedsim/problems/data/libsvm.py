"""LIBSVM text: one sample a line, `label index:value index:value ...`, zeros left out."""

# ruff: noqa: ARG002 - a file draws nothing

import bz2
import gzip
import warnings
import zlib
from collections.abc import Callable
from io import BytesIO
from pathlib import Path
from typing import ClassVar, Literal

import numpy as np
from pydantic import Field
from scipy.sparse import csr_matrix

from fedsim.errors import DataError
from fedsim.ports import Array
from fedsim.problems.data.base import Source, read_bytes
from fedsim.problems.samples import Samples

DENSE_LIMIT = 10**9
"""The largest dense array of features in bytes; sparse features are not kept sparse yet."""

ACCEPTED = (
    "accepted is 'label index:value index:value ...' with numbers for labels and values, "
    "and indices that count from 1 and rise"
)

_MAGIC: dict[bytes, Callable[[bytes], bytes]] = {
    b"\x1f\x8b": gzip.decompress,
    b"BZh": bz2.decompress,
}


class LibSVM(Source):
    """A file in LIBSVM text, plain or compressed by gzip or bzip2."""

    source: ClassVar[str] = "LIBSVM: Chang, Lin, ACM Trans. Intell. Syst. Technol. 2011"

    kind: Literal["libsvm"] = "libsvm"
    path: Path = Field(description="the file, relative to the scenario file's folder")
    features: int | None = Field(
        default=None, ge=1, description="number of features; the largest index when not given"
    )

    def read(self, folder: Path, rng: np.random.Generator) -> Samples:
        """Read the file."""
        path = folder / self.path
        return parse(read_bytes(path), path, self.features)


def parse(content: bytes, path: Path, features: int | None = None) -> Samples:
    """Parse LIBSVM text, compressed or not, as its first bytes say.

    Args:
        content: the bytes of the file.
        path: its name, for errors.
        features: the number of features; the largest index when not given.

    Raises:
        DataError: the file is damaged, a line is malformed, or the dense array of its
            features would be larger than `DENSE_LIMIT`.
    """
    text = _decompressed(content, path)
    try:
        X, y = _parse(text, features)
    except _REFUSALS as error:
        raise DataError("data.path", _first_fault(text, path, features, error)) from error
    return Samples(_dense(X, path), y)


_REFUSALS = (ValueError, OverflowError, IndexError)
"""What scikit-learn's reader raises on text that is not LIBSVM's."""


def _decompressed(content: bytes, path: Path) -> bytes:
    for magic, decompress in _MAGIC.items():
        if content.startswith(magic):
            try:
                return decompress(content)
            except (OSError, EOFError, ValueError, zlib.error) as error:
                raise DataError(
                    "data.path", f"{path}: the compressed file is damaged or cut off ({error})"
                ) from error
    return content


def _parse(text: bytes, features: int | None) -> tuple[csr_matrix, Array]:
    # scikit-learn takes most of a second to import, and few commands need it.
    from sklearn.datasets import load_svmlight_file  # noqa: PLC0415

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        X, y = load_svmlight_file(BytesIO(text), n_features=features, zero_based=False)
    return X, y


def _first_fault(text: bytes, path: Path, features: int | None, error: Exception) -> str:
    """Name the first line that does not parse; each stands or falls by itself."""
    lines = text.splitlines(keepends=True)
    low, high = 0, len(lines)
    reason = error
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
    return f"{path}, line {low + 1}: cannot read {seen!r}{dots} ({reason}); {ACCEPTED}"


def _dense(X: csr_matrix, path: Path) -> Array:
    rows, features = X.shape
    if 8 * rows * features > DENSE_LIMIT:
        raise DataError(
            "data.path",
            f"{path} has {rows} rows of {features} features, {8e-9 * rows * features:.1f} GB "
            f"as a dense array; up to {DENSE_LIMIT * 1e-9:.0f} GB is accepted, and sparse "
            "features are not supported yet",
        )
    dense: Array = X.toarray()
    return dense
