"""Problems: losses, data, splits and reference optima, as pure mathematics on arrays.

A problem is a loss x data x a split over clients, and the three vary independently:

    samples = source.load(folder, rng)
    parts = [samples.take(rows) for rows in split.assign(samples, clients, rng)]
    problem = Problem.of(loss, parts)
    reference = optimum(problem, "sum")
"""

from fedsim.problems.architectures import (
    ARCHITECTURES,
    Architecture,
    CharacterLSTM,
    Convolutional,
    DenseLayers,
    FemnistNetwork,
    GivenModule,
    LogisticModel,
    ResidualNetwork,
    Transformer,
)
from fedsim.problems.client_loss import LocalLoss
from fedsim.problems.data import (
    ENTRIES,
    SOURCES,
    Bundled,
    Catalogue,
    Csv,
    FedScale,
    GivenRows,
    HuggingFace,
    Idx,
    ImageFolder,
    Leaf,
    LibSVM,
    LowRankData,
    NpzArchive,
    PlantedDirections,
    PlantedSmoothness,
    ShiftedMean,
    Source,
    SparseLinear,
    Tong,
    fetch,
)
from fedsim.problems.held_out import HeldOut, load_both
from fedsim.problems.losses import (
    LOSSES,
    LinearLoss,
    Logistic,
    Loss,
    MultilayerPerceptron,
    NeymanPearson,
    Softmax,
    Squared,
    TorchLoss,
    TraceRegression,
)
from fedsim.problems.measures import MEASURES, Measure, Observer
from fedsim.problems.measures.optimality import ConstraintValue, GradientNorm, Rank, Sparsity
from fedsim.problems.measures.prediction import HeldOutAccuracy, HeldOutLoss, TrainingAccuracy
from fedsim.problems.measures.truth import (
    Distance,
    OperatorDistance,
    RelativeDistance,
    Support,
)
from fedsim.problems.oracle import LossOracle
from fedsim.problems.penalties import PENALTIES, NoPenalty, Penalty, Regulariser
from fedsim.problems.penalties.norms import GroupL2, Nuclear
from fedsim.problems.penalties.separable import L1, L2, ElasticNet
from fedsim.problems.problem import STARTS, NormalStart, Objective, OwnStart, Problem, Start
from fedsim.problems.programs import ProgramLoss, ProgramProblem
from fedsim.problems.references import (
    Reference,
    constrained_optimum,
    optimum,
    sparse_optimum,
)
from fedsim.problems.samples import Samples
from fedsim.problems.splits import (
    IID,
    SPLITS,
    ByLabel,
    Clusters,
    Contiguous,
    Dirichlet,
    Groups,
    LabelMix,
    LogNormal,
    Shards,
    Split,
)

__all__ = [
    "ARCHITECTURES",
    "ENTRIES",
    "IID",
    "L1",
    "L2",
    "LOSSES",
    "MEASURES",
    "PENALTIES",
    "SOURCES",
    "SPLITS",
    "STARTS",
    "Architecture",
    "Bundled",
    "ByLabel",
    "Catalogue",
    "CharacterLSTM",
    "Clusters",
    "ConstraintValue",
    "Contiguous",
    "Convolutional",
    "Csv",
    "DenseLayers",
    "Dirichlet",
    "Distance",
    "ElasticNet",
    "FedScale",
    "FemnistNetwork",
    "GivenModule",
    "GivenRows",
    "GradientNorm",
    "GroupL2",
    "Groups",
    "HeldOut",
    "HeldOutAccuracy",
    "HeldOutLoss",
    "HuggingFace",
    "Idx",
    "ImageFolder",
    "LabelMix",
    "Leaf",
    "LibSVM",
    "LinearLoss",
    "LocalLoss",
    "LogNormal",
    "Logistic",
    "LogisticModel",
    "Loss",
    "LossOracle",
    "LowRankData",
    "Measure",
    "MultilayerPerceptron",
    "NeymanPearson",
    "NoPenalty",
    "NormalStart",
    "NpzArchive",
    "Nuclear",
    "Objective",
    "Observer",
    "OperatorDistance",
    "OwnStart",
    "Penalty",
    "PlantedDirections",
    "PlantedSmoothness",
    "Problem",
    "ProgramLoss",
    "ProgramProblem",
    "Rank",
    "Reference",
    "Regulariser",
    "RelativeDistance",
    "ResidualNetwork",
    "Samples",
    "Shards",
    "ShiftedMean",
    "Softmax",
    "Source",
    "SparseLinear",
    "Sparsity",
    "Split",
    "Squared",
    "Start",
    "Support",
    "Tong",
    "TorchLoss",
    "TraceRegression",
    "TrainingAccuracy",
    "Transformer",
    "constrained_optimum",
    "fetch",
    "load_both",
    "optimum",
    "sparse_optimum",
]
