"""Deciding: which constants make a ratio of costs what it is."""

from collections.abc import Iterator

import numpy as np
import pandas as pd

from fedsim.ports import Array
from fedsim.robustness.design import Design
from fedsim.robustness.verdicts import Table, log_typical, priced

_COLUMNS = ("first", "first_error", "total", "total_error")


def deciding(table: Table, design: Design, against: int) -> pd.DataFrame:
    """Return what each constant does to each ratio of costs.

    Args:
        table: of costs in the worlds of the design.
        design: see `Design`.
        against: the variant that the others are compared with.

    Returns:
        A row a variant, cost and constant: variant, cost, constant; first and total (Sobol'
        indices of the log of the typical ratio, see `Saltelli`), first_error and total_error (half
        of their 90 % intervals, by bootstrap), NaN where worlds are too few; at_low and at_high
        (the ratio with this constant at the ends of its interval, all others as written). No rows
        of a design without lines.
    """
    rows = []
    for variant, cost, ratios in pairs(table, against) if design.lines else ():
        nothing = np.full(len(design.constants), np.nan)
        indices = design.indices(ratios) or dict.fromkeys(_COLUMNS, nothing)
        for number, constant in enumerate(design.constants):
            line = np.exp(ratios[design.line(number)])
            rows.append(
                {
                    "variant": variant,
                    "cost": cost,
                    "constant": str(constant.key),
                    **{name: float(values[number]) for name, values in indices.items()},
                    "at_low": float(line[0]),
                    "at_high": float(line[-1]),
                }
            )
    columns = ["variant", "cost", "constant", *_COLUMNS, "at_low", "at_high"]
    return pd.DataFrame(rows, columns=columns)


def by_weight(rows: pd.DataFrame) -> pd.DataFrame:
    """Return rows of `deciding`, the constant that decides most first.

    By total indices; where these are not known, by how far the ratio goes along the interval.
    """
    reach = np.abs(np.log(rows["at_high"].to_numpy(float) / rows["at_low"].to_numpy(float)))
    known = rows.assign(reach=reach)
    ordered = known.sort_values(["total", "reach"], ascending=False, kind="stable")
    return ordered.drop(columns="reach")


def pairs(table: Table, against: int) -> Iterator[tuple[str, str, Array]]:
    """Yield variant, cost and the log of the typical ratio to one variant in each world, (W,)."""
    for number, variant in enumerate(table.variants):
        if number != against:
            for cost in table.costs:
                if priced(table, cost, number, against):
                    yield variant, cost, log_typical(table, cost, number, against)
