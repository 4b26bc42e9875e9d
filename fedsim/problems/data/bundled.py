"""The data sets that come with scikit-learn: no file and no network is needed."""

# ruff: noqa: ARG002 - nothing is read or drawn

from importlib.util import find_spec
from pathlib import Path
from typing import ClassVar, Literal

import numpy as np
from pydantic import Field

from fedsim.problems.data.base import Source
from fedsim.problems.samples import Samples


class Bundled(Source):
    """A small data set bundled with scikit-learn, labels as given there."""

    source: ClassVar[str] = "scikit-learn's toy data sets; from the UCI repository, diabetes LARS"

    kind: Literal["sklearn"] = "sklearn"
    name: Literal["breast-cancer", "digits", "diabetes", "wine", "iris"] = Field(
        description="breast-cancer 569 x 30 with labels 0 and 1, digits 1797 x 64 with 0..9, "
        "diabetes 442 x 10 for regression, wine 178 x 13 with 0..2, iris 150 x 4 with 0..2"
    )

    def read(self, folder: Path, rng: np.random.Generator) -> Samples:
        """Load the set: from its file, where that has what scikit-learn would make of it."""
        path = _folder() / _FILES.get(self.name, "")
        if path.is_file():
            rows = np.loadtxt(path, delimiter=",", skiprows=int(path.suffix == ".csv"))
            return Samples(np.ascontiguousarray(rows[:, :-1]), rows[:, -1].copy())
        # scikit-learn takes most of a second to import, and few commands need it.
        from sklearn import datasets  # noqa: PLC0415

        load = getattr(datasets, f"load_{self.name.replace('-', '_')}")
        X, y = load(return_X_y=True)
        return Samples(np.ascontiguousarray(X, dtype=np.float64), y.astype(np.float64))


_FILES = {
    "breast-cancer": "breast_cancer.csv",
    "digits": "digits.csv.gz",
    "iris": "iris.csv",
    "wine": "wine_data.csv",
}
"""The sets that are given as they stand in a file, with a header unless it is packed."""


def _folder() -> Path:
    """Return where scikit-learn keeps its data."""
    found = find_spec("sklearn")  # which does not import it
    places = found.submodule_search_locations if found else None
    return Path(places[0] if places else "", "datasets", "data")
