"""The models of a run that is priced again: nothing is trained, so they are those it has kept."""

import pyarrow.compute as pc

from fedsim.ports import Array
from fedsim.record.folder import MODELS
from fedsim.record.manifest import FILES
from fedsim.record.models import COLUMNS, SHAPE
from fedsim.record.parts import Parts
from fedsim.record.read_models import chunks
from fedsim.repricing.original import Original

_NONE = COLUMNS.with_metadata({SHAPE: b"[0]"}).empty_table()


class KnownModels:
    """Implements `fedsim.record.models.Keeper` by what the original has kept.

    A run that ends as the original does has the same models, to the byte. One that ends earlier
    has those of the rounds that it gets to, and its last one only where that was kept.

    Args:
        original: the run.
        parts: where the table goes.
    """

    def __init__(self, original: Original, parts: Parts) -> None:
        self._original = original
        self._parts = parts
        self._last = 0

    def see(self, number: int, model: Array) -> None:  # noqa: ARG002 - it stands for nothing
        """Take note of how far the run has come."""
        self._last = number

    def close(self) -> None:
        """Write the models of the rounds that there were.

        Raises:
            DataError: the original's are damaged.
            OutputError: they cannot be written.
        """
        told = f"{MODELS}.parquet" in self._original.manifest[FILES]  # not in older runs
        for number, chunk in enumerate(chunks(self._original.folder) if told else [_NONE]):
            known = chunk.filter(pc.field("round") <= self._last)
            if len(known) or not number:
                self._parts.write(known)
        self._parts.close()

    def abandon(self) -> None:
        """Leave what is there; see `Parts`."""
        self._parts.abandon()
