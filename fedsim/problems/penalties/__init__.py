"""Penalties: convex, non-smooth terms of the objective, each with its prox."""

from fedsim.core.blocks.registry import Registry
from fedsim.problems.penalties.base import Penalty, Shape
from fedsim.problems.penalties.norms import (
    L1,
    L2,
    ElasticNet,
    GroupL2,
    NoPenalty,
    Nuclear,
    Regulariser,
)

PENALTIES: Registry[Penalty] = Registry(
    "penalty", (NoPenalty, L1, L2, ElasticNet, GroupL2, Nuclear), Penalty, plural="penalties"
)
"""The penalties that a scenario can name."""

__all__ = [
    "L1",
    "L2",
    "PENALTIES",
    "ElasticNet",
    "GroupL2",
    "NoPenalty",
    "Nuclear",
    "Penalty",
    "Regulariser",
    "Shape",
]
