"""What a check of a block finds, as a table."""

from collections.abc import Iterable, Iterator
from typing import NamedTuple

import pandas as pd


class Check(NamedTuple):
    """A promise, and whether it is kept.

    Attributes:
        promise: what a block of the kind has to do.
        broken: how it does not; empty where it does.
    """

    promise: str
    broken: str = ""


def first(promise: str, broken: Iterator[str]) -> Check:
    """Return a check that is broken by the first of what is wrong, if anything is."""
    return Check(promise, next(broken, ""))


def table(checks: Iterable[Check]) -> pd.DataFrame:
    """Return a row a check: check, outcome (kept or broken), and the reason."""
    rows = [(check.promise, "broken" if check.broken else "kept", check.broken) for check in checks]
    return pd.DataFrame(rows, columns=["check", "outcome", "reason"])
