"""Reference optima: the least objective, from which gaps are measured, and its certificate."""

from fedsim.problems.references.constrained import constrained_optimum
from fedsim.problems.references.convex import Reference, optimum, record_optima, use_optima
from fedsim.problems.references.sparse import sparse_optimum

__all__ = [
    "Reference",
    "constrained_optimum",
    "optimum",
    "record_optima",
    "sparse_optimum",
    "use_optima",
]
