"""Problems: losses, data, splits and reference optima, as pure mathematics on arrays.

A problem is a loss x data x a split over clients, and the three vary independently:

    samples = source.load(folder, rng)
    parts = [samples.take(rows) for rows in split.assign(samples, clients, rng)]
    problem = Problem.of(loss, parts)
    reference = optimum(problem, "sum")
"""

from fedsim.problems.data import (
    ENTRIES,
    SOURCES,
    Bundled,
    Catalogue,
    LibSVM,
    NpzArchive,
    PlantedSmoothness,
    Source,
    fetch,
)
from fedsim.problems.local import LocalLoss, LossOracle
from fedsim.problems.losses import LOSSES, LinearLoss, Logistic, Loss, MultilayerPerceptron, Squared
from fedsim.problems.problem import Objective, Problem
from fedsim.problems.reference import Reference, optimum
from fedsim.problems.samples import Samples
from fedsim.problems.splits import IID, SPLITS, Contiguous, Groups, Split

__all__ = [
    "ENTRIES",
    "IID",
    "LOSSES",
    "SOURCES",
    "SPLITS",
    "Bundled",
    "Catalogue",
    "Contiguous",
    "Groups",
    "LibSVM",
    "LinearLoss",
    "LocalLoss",
    "Logistic",
    "Loss",
    "LossOracle",
    "MultilayerPerceptron",
    "NpzArchive",
    "Objective",
    "PlantedSmoothness",
    "Problem",
    "Reference",
    "Samples",
    "Source",
    "Split",
    "Squared",
    "fetch",
    "optimum",
]
