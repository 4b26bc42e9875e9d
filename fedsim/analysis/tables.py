"""Tables for people: costs with units, as rich draws them in a terminal."""

from collections.abc import Mapping

import pandas as pd
from rich.markup import escape
from rich.table import Table

from fedsim.analysis.costs import with_grams
from fedsim.text import plain, quantity

UNITS = {"bits": "bit", "bits_up": "bit", "bits_down": "bit", "t": "s", "joules": "J", "grams": "g"}
"""Units of costs; the others are counted."""

HEADS = {
    "round": "rounds",
    "bits_up": "bits up",
    "bits_down": "bits down",
    "t": "time",
    "joules": "energy",
    "grams": "CO2",
}
"""What tables call costs, where that is not the name of their column."""

_COLUMNS = ("round", "transmissions", "beacons", "bits_up", "bits_down", "t", "joules")


def cost_table(costs: pd.DataFrame, labels: Mapping[str, str], title: str) -> Table:
    """Return a table of `mean_cost`, a row a variant."""
    several, columns = bool((costs["runs"] > 1).any()), with_grams(_COLUMNS, costs)
    table = plain(title)
    table.add_column("variant")
    if several:
        table.add_column("reached", justify="right")
    for column in columns:
        table.add_column(HEADS.get(column, column), justify="right")
    for row in costs.to_dict("records"):
        name = str(row["variant"])
        cells = [escape(labels.get(name, name))]
        if several:
            cells.append(f"{row['reached']} of {row['runs']}")
        if row["reached"]:
            cells += [quantity(row[column], UNITS.get(column, "")) for column in columns]
        else:
            cells.append("not reached")
        table.add_row(*cells)
    return table
