"""How far the runs are of a campaign in which none has ended: what each has come to, and spent."""

from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path

import numpy as np
import pyarrow as pa
from rich.markup import escape
from rich.table import Table

from fedsim.analysis.carbon import with_grams
from fedsim.analysis.comparing.unfinished import unfinished
from fedsim.analysis.costs import final_cost
from fedsim.analysis.outcomes import figure, measures_in, outcomes
from fedsim.analysis.tables import HEADS, UNITS
from fedsim.errors import DataError
from fedsim.record.folder import SUMMARY
from fedsim.record.parts import read_table
from fedsim.record.read import joined, run_folders
from fedsim.record.studies import read_study
from fedsim.tables import plain, quantity

_COSTS = ("round", "transmissions", "bits_up", "bits_down", "t", "joules")


def so_far(places: Sequence[Path]) -> Table | None:
    """Return a table of runs that have begun, a row each; None where none has, or some have ended.

    Args:
        places: as for `fedsim.analysis.gather`.
    """
    folders = [path for place in places if place.is_dir() for path in run_folders(place)]
    if any((path / SUMMARY).exists() for path in folders):
        return None
    read = dict(_read(folders))
    if not read:
        return None
    rounds = joined(list(read), list(read.values()), [path.parent.name for path in read])
    shown = with_grams(_COSTS, rounds)
    reached, names = outcomes(rounds), measures_in(rounds)
    table = plain("; ".join(["so far", *_extents(places)]), keys=2)
    table.add_column("variant")
    for head in ("seed", *(HEADS.get(cost, cost) for cost in shown), *names):
        table.add_column(head, justify="right")
    rows = final_cost(rounds).merge(reached, how="left", on=["variant", "seed"])
    for row in rows.to_dict("records"):
        costs = (quantity(row[cost], UNITS.get(cost, "")) for cost in shown)
        figures = (figure(float(row.get(name, np.nan))) for name in names)
        table.add_row(escape(row["variant"]), str(row["seed"]), *costs, *figures)
    return table


def _read(folders: Sequence[Path]) -> Iterator[tuple[Path, pa.Table]]:
    """Yield the round tables of those runs that have any."""
    for path in folders:
        with suppress(FileNotFoundError, DataError):
            rounds = read_table(path, "rounds")
            if len(rounds):
                yield path, rounds


def _extents(places: Sequence[Path]) -> Iterator[str]:
    for place in places:
        with suppress(DataError):
            for each in unfinished(place, read_study(place)):
                yield f"unfinished: {each.extent} have ended"
