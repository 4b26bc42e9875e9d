"""What runs have left, as one object: tables, models, a figure, a comparison, a report."""

from fedsim.results.opening import open  # noqa: A004 - as it is called: fedsim.open
from fedsim.results.result import Result

__all__ = ["Result", "open"]
