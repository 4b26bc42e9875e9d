"""The models of a run: that of its last round, and on request those of every n-th one.

They are a Parquet table like the others, a row a model, and not an archive of NumPy's: it grows
on disk while the run goes on, so that memory does not grow with the rounds; the same models are
the same bytes, where a zip archive tells the time of day; float64 stays what it was to the last
bit, NaN and -0.0 included; zeros of sparse models are compressed away; one model can be read
without the others; and every reader of Parquet reads it.
"""

import json
from collections.abc import Sequence
from contextlib import suppress
from typing import Protocol

import numpy as np
import pyarrow as pa

from fedsim.errors import OutputError
from fedsim.ports import Array
from fedsim.record.parts import Parts

_CHUNK = 2**20
"""So many bytes of models wait in memory, and then go to disk together."""

_FLAT = pa.list_(pa.field("element", pa.float64()))  # as Parquet calls it, when read as well
COLUMNS = pa.schema([("round", pa.int64()), ("model", _FLAT)])
"""Of the table: models are flat."""

SHAPE = b"shape"
"""The key of the shape of all models, in the metadata of the table."""


class Keeper(Protocol):
    """What is shown every model of a run, keeps some, and is closed once, or abandoned."""

    def see(self, number: int, model: Array) -> None:
        """Take note of the model of a round."""

    def close(self) -> None:
        """Make the table of a run that has ended."""

    def abandon(self) -> None:
        """Write what can still be written of a run that ends before its time."""


class ModelTable:
    """The writer of `models.parquet`.

    Args:
        parts: where the table goes.
        shape: of every model, for its readers; the models come flat.
        every: those of rounds that are multiples of this are kept, beside the last; None for
            the last only.
    """

    def __init__(self, parts: Parts, shape: Sequence[int], every: int | None = None) -> None:
        self._schema = COLUMNS.with_metadata({SHAPE: json.dumps(list(shape)).encode()})
        self._parts = parts
        self._every = every
        self._last: tuple[int, Array] | None = None
        self._kept = 0  # the last round of which the model is on disk, or waits
        self._waiting: list[tuple[int, Array]] = []
        self._bytes = 0

    def see(self, number: int, model: Array) -> None:
        """Take the model of a round, shape (d,); a copy, as a method may go on working in it.

        Raises:
            OutputError: models cannot be written.
        """
        self._last = number, np.array(model, dtype=np.float64)
        if self._every is not None and number % self._every == 0:
            self._keep()
            if self._bytes >= _CHUNK:
                self._flush()

    def _keep(self) -> None:
        """Let the last model wait to be written."""
        if self._last is not None and self._last[0] != self._kept:
            self._kept, model = self._last
            self._waiting.append(self._last)
            self._bytes += model.nbytes

    def _flush(self) -> None:
        waiting, self._waiting, self._bytes = self._waiting, [], 0
        ends = np.cumsum([0, *(model.size for _, model in waiting)], dtype=np.int32)
        values = np.concatenate([model for _, model in waiting]) if waiting else np.zeros(0)
        rounds = pa.array([number for number, _ in waiting], pa.int64())
        models = pa.ListArray.from_arrays(pa.array(ends), pa.array(values), type=_FLAT)
        self._parts.write(pa.Table.from_arrays([rounds, models], schema=self._schema))

    def close(self) -> None:
        """Write the rest and join the parts; the table has no rows where no round ended.

        Raises:
            OutputError: it cannot be written.
        """
        self._keep()
        if self._waiting or not self._kept:
            self._flush()
        self._parts.close()

    def abandon(self) -> None:
        """Write what can still be written, the last model included; see `Parts`."""
        self._keep()
        if self._waiting:
            with suppress(OutputError):  # why the run ends is told already
                self._flush()
        self._parts.abandon()
