"""Tables for people: costs with units, as rich draws them in a terminal."""

from collections.abc import Mapping
from math import isnan

import pandas as pd
from matplotlib.ticker import EngFormatter
from rich.markup import escape
from rich.table import Table

from fedsim.tables import plain

UNITS = {"bits": "bit", "bits_up": "bit", "bits_down": "bit", "t": "s", "joules": "J"}
"""Units of costs; the others are counted."""

HEADS = {
    "round": "rounds",
    "bits_up": "bits up",
    "bits_down": "bits down",
    "t": "time",
    "joules": "energy",
}
"""What tables call costs, where that is not the name of their column."""

_COLUMNS = ("round", "transmissions", "beacons", "bits_up", "bits_down", "t", "joules")


def quantity(value: float, unit: str = "") -> str:
    """Return a figure for reading: a count, or a quantity with an SI prefix.

    >>> quantity(1062), quantity(2.5e6, "bit"), quantity(float("nan"), "s")
    ('1,062', '2.5 Mbit', '-')
    """
    if isnan(value):
        return "-"
    if unit:
        return EngFormatter(unit, places=None)(float(f"{value:.3g}"))
    text = f"{value:,.0f}" if float(value).is_integer() else f"{value:,.1f}"
    return text.replace("-", "\N{MINUS SIGN}")  # as the formatter of quantities has it


def cost_table(costs: pd.DataFrame, labels: Mapping[str, str], title: str) -> Table:
    """Return a table of `mean_cost`, a row a variant."""
    several = bool((costs["runs"] > 1).any())
    table = plain(title)
    table.add_column("variant", no_wrap=True)
    if several:
        table.add_column("reached", justify="right", overflow="fold")
    for column in _COLUMNS:
        table.add_column(HEADS.get(column, column), justify="right", overflow="fold")
    for row in costs.to_dict("records"):
        name = str(row["variant"])
        cells = [escape(labels.get(name, name))]
        if several:
            cells.append(f"{row['reached']} of {row['runs']}")
        if row["reached"]:
            cells += [quantity(row[column], UNITS.get(column, "")) for column in _COLUMNS]
        else:
            cells.append("not reached")
        table.add_row(*cells)
    return table
