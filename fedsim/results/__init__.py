"""Results of runs as one object: tables, models, a figure, a comparison, a report."""

from fedsim.results.result import (
    Result,
    open,  # noqa: A004 - as it is called: fedsim.open
)

__all__ = ["Result", "open"]
