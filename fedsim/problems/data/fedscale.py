"""FedScale's client mappings: a table that assigns each sample to a client."""

import csv
from io import StringIO
from pathlib import Path
from typing import ClassVar, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from fedsim.core.blocks.spec import AnyPath
from fedsim.core.errors import DataError
from fedsim.core.files import decompress, read_arrays, read_bytes
from fedsim.core.memory import check_budget
from fedsim.core.ports import Array
from fedsim.problems.data.images import PictureSource
from fedsim.problems.samples import Samples, as_read

_COLUMNS = ("client_id", "sample_path", "label_id")

_KEY = "data.mapping"

_TIMES = 8
"""Bytes of memory per byte of the table: a short text is an object of 50 bytes."""


_LONGEST, _SHOWN = 1000, 60  # characters of a path, and of a malformed cell in a message


class _Row(NamedTuple):
    line: int
    client: str
    sample: str
    label: int


class FedScale(PictureSource):
    """A client mapping of FedScale, with the images or the archive that it refers to.

    The mapping is a table with the columns client_id, sample_path and label_id; other columns are
    ignored. Clients are numbered in the order of their ids.
    """

    source: ClassVar[str] = "Lai et al., FedScale, ICML 2022"
    numbers_clients: ClassVar[bool | str] = True

    kind: Literal["fedscale"] = "fedscale"
    mapping: AnyPath = Field(
        description="the table, such as FedScale's `client_data_mapping/train.csv`, relative to "
        "the scenario file's folder"
    )
    samples: AnyPath = Field(
        description=(
            "the folder of images that each sample_path starts from; or a NumPy archive"
            " with an array X, whose rows sample_path numbers from 0"
        )
    )

    def read(self, folder: Path, rng: np.random.Generator) -> Samples:
        """Read the table, and the samples that it refers to."""
        path, samples = folder / self.mapping, folder / self.samples
        rows = _rows(path)
        X = self._images(rows, samples) if samples.is_dir() else _pick(rows, samples, path)
        names = np.array([row.client for row in rows])
        # Client 10 follows client 9 if all names are numbers; as texts, it would follow client 1.
        numbers = names.astype(np.int64) if _all_whole(names) else names
        client = np.unique(numbers, return_inverse=True)[1].astype(np.int64)
        return Samples(X, np.array([row.label for row in rows], np.float64), client)

    def _images(self, rows: list[_Row], folder: Path) -> NDArray[np.uint8]:
        images = self.rows_of(len(rows), "data.samples")
        for row in rows:
            images.read(folder / row.sample)
        return images.X


def _rows(path: Path) -> list[_Row]:
    """Return the rows of a mapping.

    Raises:
        DataError: the file is no such table; the message names the line.
    """
    content = decompress(read_bytes(path, _KEY, _TIMES), path, _KEY, _TIMES)
    try:
        lines = list(csv.reader(StringIO(content.decode("utf-8-sig"), newline=""), strict=True))
    except (csv.Error, UnicodeDecodeError) as error:
        raise DataError(_KEY, f"{path} is no table of separated values: {error}") from error
    header = [name.strip() for name in lines[0]] if lines else []
    missing = [name for name in _COLUMNS if name not in header]
    if missing:
        seen = ", ".join(header)[:80] or "nothing"
        text = f"{path} has no column {' and no column '.join(missing)}; its first line is"
        raise DataError(_KEY, f"{text} {seen!r}")
    places = [header.index(name) for name in _COLUMNS]
    rows = [
        _row(line, number, places, len(header), path)
        for number, line in enumerate(lines[1:], start=2)
        if line
    ]
    if not rows:
        raise DataError(_KEY, f"{path} names no sample: it has a header alone")
    return rows


def _row(line: list[str], number: int, places: list[int], width: int, path: Path) -> _Row:
    if len(line) != width:
        text = f"{path}, line {number}: {len(line)} values, but the first line has {width}"
        raise DataError(_KEY, text)
    client, sample, label = (line[place].strip() for place in places)
    if not client or not 0 < len(sample) < _LONGEST or not _is_whole(label):
        names = zip(_COLUMNS, (client, sample, label), strict=True)
        seen = ", ".join(f"{name} {text[:_SHOWN]!r}" for name, text in names)
        text = f"{path}, line {number}: got {seen}; a client, a sample and a whole number are due"
        raise DataError(_KEY, text)
    return _Row(number, client, sample, int(label))


def _pick(rows: list[_Row], samples: Path, path: Path) -> Array:
    """Return the rows of an archive that a mapping lists by index, shape (n, d).

    Raises:
        DataError: the archive has no such array or row, or the rows do not fit into memory.
    """
    arrays = read_arrays(samples, "data.samples")
    found = arrays.get("X")
    if found is None or found.dtype.kind not in "biuf" or found.ndim < 2:
        seen = ", ".join(f"{name} {each.dtype}{each.shape}" for name, each in arrays.items())
        text = f"{samples} has no array X of numbers, one row per sample; it has {seen or 'none'}"
        raise DataError("data.samples", text)
    for row in rows:
        if not _is_whole(row.sample) or not 0 <= int(row.sample) < len(found):
            text = f"{path}, line {row.line}: sample_path is {row.sample!r}; {samples} has the rows"
            raise DataError(_KEY, f"{text} 0 to {len(found) - 1}")
    check_budget(
        "data.samples", f"{samples}: {len(rows)} of its rows", len(rows) * found[:1].nbytes
    )
    return as_read(found[[int(row.sample) for row in rows]].reshape(len(rows), -1))


def _is_whole(text: str) -> bool:
    return text.removeprefix("-").isdecimal() and len(text) < 18


def _all_whole(names: NDArray[np.str_]) -> bool:
    return all(map(_is_whole, names.tolist()))
