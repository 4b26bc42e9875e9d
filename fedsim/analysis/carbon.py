"""Carbon beside the other costs: a column that is there where somebody's electricity is known."""

from collections.abc import Iterable

import pandas as pd

from fedsim.record.schema import GRAMS


def with_grams(columns: Iterable[str], table: pd.DataFrame) -> list[str]:
    """Return columns of costs, and that of carbon behind them where a table has any.

    >>> with_grams(["joules"], pd.DataFrame({"joules": [1.0], "grams": [2.0]}))
    ['joules', 'grams']
    """
    there = GRAMS in table and bool(table[GRAMS].notna().any())
    return [*columns, *([GRAMS] if there else [])]
