"""Verdicts: which way a difference between two variants points, as far as the seeds can tell."""

from collections.abc import Mapping
from typing import Any

SAME, TIE, ONE = "tie, the same", "tie", "one seed"
"""Verdicts, beside "more" and "less"."""

SEVERAL = 2
"""Seeds from which on there is an interval."""

_ROUNDING = 1e-12  # relative; sums in another order differ by less


def verdict_of(row: Mapping[Any, Any], usual: float) -> str:
    """Return which way a paired difference points, as far as its seeds can tell.

    Args:
        row: of `paired`.
        usual: what costs like these are, which says what is rounding.
    """
    low, high = float(row["low"]), float(row["high"])
    if abs(row["difference"]) <= _ROUNDING * usual and not low < high:
        return SAME
    if row["pairs"] < SEVERAL:
        return ONE
    if low <= 0 <= high:
        return TIE
    return "more" if low > 0 else "less"
