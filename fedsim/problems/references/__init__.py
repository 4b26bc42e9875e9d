"""Reference optima: the least objective, from which gaps are measured, and its certificate."""

from typing import TYPE_CHECKING

from fedsim.core.blocks.on_demand import exports
from fedsim.problems.references.convex import Reference, optimum, record_optima, use_optima

if TYPE_CHECKING:
    from fedsim.problems.references.constrained import constrained_optimum
    from fedsim.problems.references.sparse import sparse_optimum
else:
    __getattr__, __dir__ = exports(__name__)

__all__ = [
    "Reference",
    "constrained_optimum",
    "optimum",
    "record_optima",
    "sparse_optimum",
    "use_optima",
]
