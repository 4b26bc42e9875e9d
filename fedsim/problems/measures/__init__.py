"""Measures: an observer's figures of a model, at no simulated time.

observe = Support(threshold=0.01).bind(problem, "mean")
observe(w)      # {"support_precision": ..., "support_recall": ..., ...}
"""

from fedsim.blocks.registry import Registry
from fedsim.problems.measures.base import Figures, Measure, Observer
from fedsim.problems.measures.optimality import ConstraintValue, GradientNorm, Rank, Sparsity
from fedsim.problems.measures.prediction import HeldOutAccuracy, HeldOutLoss, TrainingAccuracy
from fedsim.problems.measures.truth import Distance, OperatorDistance, RelativeDistance, Support

MEASURES: Registry[Measure] = Registry(
    "measure",
    (
        GradientNorm,
        Distance,
        RelativeDistance,
        OperatorDistance,
        Support,
        Sparsity,
        Rank,
        ConstraintValue,
        TrainingAccuracy,
        HeldOutAccuracy,
        HeldOutLoss,
    ),
    Measure,
)
"""Every measure that a scenario can name."""

__all__ = [
    "MEASURES",
    "ConstraintValue",
    "Distance",
    "Figures",
    "GradientNorm",
    "HeldOutAccuracy",
    "HeldOutLoss",
    "Measure",
    "Observer",
    "OperatorDistance",
    "Rank",
    "RelativeDistance",
    "Sparsity",
    "Support",
    "TrainingAccuracy",
]
