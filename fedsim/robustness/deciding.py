"""Deciding: which constants make a verdict what it is, and where it turns round."""

from collections.abc import Iterator

import numpy as np
import pandas as pd
from SALib.analyze import sobol

from fedsim.ports import Array
from fedsim.robustness.design import STEPS, Design
from fedsim.robustness.verdicts import COSTS, Table, log_ratio

_ROUNDING = 1e-12
_RESAMPLES = 200


def deciding(table: Table, design: Design, against: int) -> pd.DataFrame:
    """Return what each constant does to each ratio of costs.

    Args:
        table: of costs in the worlds of the design.
        design: see `Design`.
        against: the variant that the others are compared with.

    Returns:
        A row a variant, cost and constant: variant, cost, constant; first and total (Sobol'
        indices of the log ratio; Saltelli et al. 2010 and Jansen 1999, as SALib has them),
        first_error and total_error (half of their 90 % intervals, by bootstrap); at_low and
        at_high (the ratio with this constant at the ends of its interval, all others as written).
    """
    rows = []
    for variant, cost, ratios in _pairs(table, against):
        drawn = ratios[: design.drawn]
        indices = _indices(drawn, design)
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
    return pd.DataFrame(rows)


def _pairs(table: Table, against: int) -> Iterator[tuple[str, str, Array]]:
    for number, variant in enumerate(table.variants):
        if number != against:
            for cost in COSTS:
                yield variant, cost, log_ratio(table, cost, number, against)


def _indices(drawn: Array, design: Design) -> dict[str, Array]:
    """Return Sobol' indices; 0 where nothing varies, NaN where some world is not known."""
    names = ("first", "first_error", "total", "total_error")
    count = len(design.constants)
    if np.isnan(drawn).any() or drawn.std() <= _ROUNDING:
        value = np.nan if np.isnan(drawn).any() else 0.0
        return {name: np.full(count, value) for name in names}
    found = sobol.analyze(
        design.problem,
        drawn,
        calc_second_order=False,
        num_resamples=_RESAMPLES,
        conf_level=0.9,
        seed=design.seed,
    )
    keys = ("S1", "S1_conf", "ST", "ST_conf")
    return {name: np.asarray(found[key]) for name, key in zip(names, keys, strict=True)}


def flips(table: Table, design: Design, against: int) -> pd.DataFrame:
    """Return the values of single constants at which verdicts turn round, all others as written.

    Returns:
        A row a turn: variant, cost, constant; value (in the unit), unit; wins ("below" or "above":
        on which side of the value the variant costs less than `against`).
    """
    rows = []
    for variant, cost, ratios in _pairs(table, against):
        for number, constant in enumerate(design.constants):
            line = ratios[design.line(number)]
            for share, rises in _turns(line):
                rows.append(
                    {
                        "variant": variant,
                        "cost": cost,
                        "constant": str(constant.key),
                        "value": float(constant.at(np.array(share))),
                        "unit": constant.unit,
                        "wins": "below" if rises else "above",
                    }
                )
    columns = ["variant", "cost", "constant", "value", "unit", "wins"]
    return pd.DataFrame(rows, columns=columns)


def _turns(line: Array) -> Iterator[tuple[float, bool]]:
    """Yield the shares at which a line of log ratios crosses zero, and whether it rises there."""
    shares = np.linspace(0.0, 1.0, STEPS)
    line = np.where(np.abs(line) <= _ROUNDING, 0.0, line)
    for first in np.flatnonzero(line[:-1] * line[1:] < 0):
        one, other = line[first], line[first + 1]
        part = one / (one - other)
        yield float(shares[first] + part * (shares[first + 1] - shares[first])), bool(one < 0)
