"""Splits: which client has which rows."""

from fedsim.blocks.registry import Registry
from fedsim.problems.splits.base import Indices, Split
from fedsim.problems.splits.equal import IID, Contiguous
from fedsim.problems.splits.groups import Groups
from fedsim.problems.splits.kinds import ByLabel, Clusters
from fedsim.problems.splits.papers import LabelMix, Shards
from fedsim.problems.splits.uneven import Dirichlet, LogNormal

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
]
