"""The table of a repricing: what the runs took, and what they take now."""

from collections.abc import Hashable, Mapping, Sequence
from math import isnan
from pathlib import Path
from typing import Any

from rich.table import Table

from fedsim.analysis import labels_of, quantity
from fedsim.analysis.comparing.belonging import runs_of
from fedsim.record.read import read_summaries
from fedsim.record.schema import GRAMS
from fedsim.tables import listing

_HEADS = ("variant", "seed", "rounds", "time", "time then", "energy", "energy then")
_CARBON = ("CO2", "CO2 then")
_UNKNOWN = "-"


def price_table(place: Path, now: Sequence[Path]) -> Table:
    """Return what the same runs take as they are priced now, and what they took: CO2 if known.

    Args:
        place: where the runs are.
        now: those of the same runs, priced again.
    """
    before = read_summaries(runs_of(place)).to_dict("records")
    after = read_summaries(now)
    labels = labels_of(after)
    pairs = list(zip(after.to_dict("records"), before, strict=True))
    carbon = any(_grams(row) != _UNKNOWN for pair in pairs for row in pair)
    rows = [
        (
            labels[row["variant"]],
            str(row["seed"]),
            quantity(row["rounds"]),
            quantity(row["t"], "s"),
            quantity(old["t"], "s"),
            quantity(row["joules"], "J"),
            quantity(old["joules"], "J"),
            *([_grams(row), _grams(old)] if carbon else []),
        )
        for row, old in pairs
    ]
    return listing("Priced again", (*_HEADS, *_CARBON) if carbon else _HEADS, rows)


def _grams(row: Mapping[Hashable, Any]) -> str:
    """Return what a run has emitted, where somebody has counted it."""
    grams = row.get(GRAMS)
    return _UNKNOWN if grams is None or isnan(grams) else quantity(grams, "g")
