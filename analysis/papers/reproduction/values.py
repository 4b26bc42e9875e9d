"""Values of runs, by variant and seed."""

import pandas as pd

Values = dict[str, pd.Series]
"""Variant -> a value a seed."""


def by_variant(table: pd.DataFrame, column: str) -> Values:
    """Return a column of a table with a row a run, which has the columns variant and seed."""
    return {
        str(variant): runs.set_index("seed")[column].astype(float)
        for variant, runs in table.groupby("variant", sort=False, observed=True)
    }
