"""Splits: the assignment of rows to clients."""

from typing import TYPE_CHECKING

from fedsim.core.blocks.on_demand import Named, exports
from fedsim.core.blocks.registry import Registry
from fedsim.problems.splits.base import Indices, Split

if TYPE_CHECKING:
    from fedsim.problems.splits.by_label import ByLabel, Clusters, LabelMix, Shards
    from fedsim.problems.splits.by_partitioner import Partitioned
    from fedsim.problems.splits.by_size import IID, Contiguous, Dirichlet, Groups, LogNormal
    from fedsim.problems.splits.by_writer import Writers
else:
    __getattr__, __dir__ = exports(__name__)

SPLITS: Registry[Split] = Registry(
    "split",
    Named(
        __name__,
        {
            "contiguous": "Contiguous",
            "iid": "IID",
            "labels": "ByLabel",
            "shards": "Shards",
            "dirichlet": "Dirichlet",
            "label-mix": "LabelMix",
            "clusters": "Clusters",
            "groups": "Groups",
            "lognormal": "LogNormal",
            "writers": "Writers",
            "flwr-datasets": "Partitioned",
        },
    ),
    Split,
)
"""The splits that a scenario can name."""

__all__ = [
    "IID",
    "SPLITS",
    "ByLabel",
    "Clusters",
    "Contiguous",
    "Dirichlet",
    "Groups",
    "Indices",
    "LabelMix",
    "LogNormal",
    "Partitioned",
    "Shards",
    "Split",
    "Writers",
]
