"""Reference optima: the least objective that gaps are measured from, and what certifies it."""

from fedsim.problems.references.constrained import constrained_optimum
from fedsim.problems.references.convex import Reference, given, noted, optimum
from fedsim.problems.references.sparse import sparse_optimum

__all__ = ["Reference", "constrained_optimum", "given", "noted", "optimum", "sparse_optimum"]
