"""Measures: an observer's figures of a model, which take no simulated time."""

from typing import TYPE_CHECKING

from fedsim.core.blocks.on_demand import Named, exports
from fedsim.core.blocks.registry import Registry
from fedsim.problems.measures.base import Figures, Measure, Observer, OwnObserver

if TYPE_CHECKING:
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
else:
    __getattr__, __dir__ = exports(__name__)

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
    Named(
        __name__,
        {
            "gradient_norm": "GradientNorm",
            "distance": "Distance",
            "relative_distance": "RelativeDistance",
            "l1_distance": "L1Distance",
            "max_distance": "MaxDistance",
            "operator_distance": "OperatorDistance",
            "support": "Support",
            "sparsity": "Sparsity",
            "rank": "Rank",
            "constraint": "ConstraintValue",
            "train_loss": "TrainingLoss",
            "train_accuracy": "TrainingAccuracy",
            "test_accuracy": "HeldOutAccuracy",
            "test_loss": "HeldOutLoss",
            "test_f1": "HeldOutF1",
            "test_auc": "HeldOutAUC",
            "test_top_accuracy": "HeldOutTopAccuracy",
            "test_perplexity": "HeldOutPerplexity",
            "generation": "Generation",
            "test_mae": "HeldOutAbsoluteError",
            "client_accuracy": "ClientAccuracy",
            "given": "GivenMeasure",
        },
    ),
    Measure,
)
"""The measures that a scenario can name."""
