"""The table of a repricing: what the runs took, and what they take now."""

from collections.abc import Sequence
from pathlib import Path

from rich.table import Table

from fedsim.analysis import labels_of, quantity
from fedsim.analysis.comparing.belonging import runs_of
from fedsim.record.read import read_summaries
from fedsim.tables import listing

_HEADS = ("variant", "seed", "rounds", "time", "time then", "energy", "energy then")


def price_table(place: Path, now: Sequence[Path]) -> Table:
    """Return time and energy of the same runs as they are priced now, and as they were.

    Args:
        place: where the runs are.
        now: those of the same runs, priced again.
    """
    before = read_summaries(runs_of(place)).to_dict("records")
    after = read_summaries(now)
    labels = labels_of(after)
    rows = [
        (
            labels[row["variant"]],
            str(row["seed"]),
            quantity(row["rounds"]),
            quantity(row["t"], "s"),
            quantity(old["t"], "s"),
            quantity(row["joules"], "J"),
            quantity(old["joules"], "J"),
        )
        for row, old in zip(after.to_dict("records"), before, strict=True)
    ]
    return listing("Priced again", _HEADS, rows)
