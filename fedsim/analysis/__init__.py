"""Analysis: frames in, tables and figures out."""

from fedsim.analysis.costs import cost_to_target, cumulative, final_cost, mean_cost
from fedsim.analysis.figures import convergence, save
from fedsim.analysis.tables import cost_table, listing, quantity

__all__ = [
    "convergence",
    "cost_table",
    "cost_to_target",
    "cumulative",
    "final_cost",
    "listing",
    "mean_cost",
    "quantity",
    "save",
]
