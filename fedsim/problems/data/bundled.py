"""The data sets that come with scikit-learn: no file and no network is needed."""

# ruff: noqa: ARG002 - nothing is read or drawn

from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar, Literal

import numpy as np
from pydantic import Field
from sklearn import datasets

from fedsim.problems.data.base import Source
from fedsim.problems.samples import Samples

_LOADERS: dict[str, Callable[..., Any]] = {
    "breast-cancer": datasets.load_breast_cancer,
    "digits": datasets.load_digits,
    "diabetes": datasets.load_diabetes,
    "wine": datasets.load_wine,
    "iris": datasets.load_iris,
}


class Bundled(Source):
    """A small data set bundled with scikit-learn, labels as given there."""

    source: ClassVar[str] = "scikit-learn's toy data sets; from the UCI repository, diabetes LARS"

    kind: Literal["sklearn"] = "sklearn"
    name: Literal["breast-cancer", "digits", "diabetes", "wine", "iris"] = Field(
        description="breast-cancer 569 x 30 with labels 0 and 1, digits 1797 x 64 with 0..9, "
        "diabetes 442 x 10 for regression, wine 178 x 13 with 0..2, iris 150 x 4 with 0..2"
    )

    def read(self, folder: Path, rng: np.random.Generator) -> Samples:
        """Load the set."""
        X, y = _LOADERS[self.name](return_X_y=True)
        return Samples(np.ascontiguousarray(X, dtype=np.float64), y.astype(np.float64))
