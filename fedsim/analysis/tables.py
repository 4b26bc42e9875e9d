"""Tables for people: costs with units, as rich draws them in a terminal."""

from collections.abc import Mapping

import pandas as pd
from rich.markup import escape
from rich.table import Table

from fedsim.analysis.costs import with_grams
from fedsim.record.columns import SPENT, TITLES, UNITS
from fedsim.text import plain, quantity


def cost_table(costs: pd.DataFrame, labels: Mapping[str, str], title: str) -> Table:
    """Return a table of `mean_cost`, a row a variant."""
    several, columns = bool((costs["runs"] > 1).any()), with_grams(SPENT, costs)
    table = plain(title)
    table.add_column("variant")
    if several:
        table.add_column("reached", justify="right")
    for column in columns:
        table.add_column(TITLES.get(column, column), justify="right")
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
