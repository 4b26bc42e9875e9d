"""Measures: an observer's figures of a model, at no simulated time."""

from fedsim.blocks.registry import Registry
from fedsim.problems.measures.base import Figures, Measure, Observer, OwnObserver
from fedsim.problems.measures.generation import Generation
from fedsim.problems.measures.given import GivenMeasure
from fedsim.problems.measures.models import (
    ConstraintValue,
    Distance,
    GradientNorm,
    L1Distance,
    MaxDistance,
    OperatorDistance,
    Rank,
    RelativeDistance,
    Sparsity,
    Support,
)
from fedsim.problems.measures.predictions import (
    ClientAccuracy,
    HeldOutAbsoluteError,
    HeldOutAccuracy,
    HeldOutAUC,
    HeldOutF1,
    HeldOutLoss,
    HeldOutPerplexity,
    HeldOutTopAccuracy,
    TrainingAccuracy,
    TrainingLoss,
)

__all__ = [
    "MEASURES",
    "ClientAccuracy",
    "ConstraintValue",
    "Distance",
    "Figures",
    "Generation",
    "GivenMeasure",
    "GradientNorm",
    "HeldOutAUC",
    "HeldOutAbsoluteError",
    "HeldOutAccuracy",
    "HeldOutF1",
    "HeldOutLoss",
    "HeldOutPerplexity",
    "HeldOutTopAccuracy",
    "L1Distance",
    "MaxDistance",
    "Measure",
    "Observer",
    "OperatorDistance",
    "OwnObserver",
    "Rank",
    "RelativeDistance",
    "Sparsity",
    "Support",
    "TrainingAccuracy",
    "TrainingLoss",
]

MEASURES: Registry[Measure] = Registry(
    "measure",
    (
        GradientNorm,
        Distance,
        RelativeDistance,
        L1Distance,
        MaxDistance,
        OperatorDistance,
        Support,
        Sparsity,
        Rank,
        ConstraintValue,
        TrainingLoss,
        TrainingAccuracy,
        HeldOutAccuracy,
        HeldOutLoss,
        HeldOutF1,
        HeldOutAUC,
        HeldOutTopAccuracy,
        HeldOutPerplexity,
        Generation,
        HeldOutAbsoluteError,
        ClientAccuracy,
        GivenMeasure,
    ),
    Measure,
)
"""Every measure that a scenario can name."""
