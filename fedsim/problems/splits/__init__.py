"""Splits: the assignment of rows to clients."""

from fedsim.blocks.registry import Registry
from fedsim.problems.splits.base import Indices, Split
from fedsim.problems.splits.by_label import ByLabel, Clusters, LabelMix, Shards
from fedsim.problems.splits.by_size import IID, Contiguous, Dirichlet, Groups, LogNormal
from fedsim.problems.splits.by_writer import Writers

SPLITS: Registry[Split] = Registry(
    "split",
    (
        Contiguous,
        IID,
        ByLabel,
        Shards,
        Dirichlet,
        LabelMix,
        Clusters,
        Groups,
        LogNormal,
        Writers,
    ),
    Split,
)
"""Every split that a scenario can name."""

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
    "Shards",
    "Split",
    "Writers",
]
