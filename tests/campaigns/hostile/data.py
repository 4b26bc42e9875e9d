"""Files of data that mean harm: what every reader makes of them."""

import os
import warnings
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from fedsim.core.errors import DataError
from fedsim.core.memory import VARIABLE
from fedsim.problems.samples import Samples
from tests.guarded import FAULT, Tried

from .files import Data, every

READ, REFUSED = "read", "refused"
LIMIT = "200 MB"
"""Of the memory that data may take, so that what takes more than it says is seen."""

_LONGEST = 400


class Files:
    """Plays cases.

    Args:
        folder: of its own.
        seed: of the campaign.
    """

    def __init__(self, folder: Path, seed: int) -> None:
        os.environ[VARIABLE] = LIMIT
        warnings.simplefilter("error")  # a warning of a library is nothing that a user asked for
        self._folder, self._seed = folder / "data", seed
        self._all = list(every())
        for each in self._all:
            each.write(self._folder)
            read(each, self._folder)

    def __call__(self, number: int) -> Iterator[Tried]:
        """Play a case."""
        rng = np.random.default_rng([self._seed, number])
        own = self._all[number % len(self._all)]
        harmed = own.write(self._folder, rng)
        yield tried(own, self._folder, harmed)


def read(own: Data, folder: Path) -> Samples:
    """Read data as a run does, down to features in float64."""
    return own.source.load(folder, np.random.default_rng(0))


def tried(own: Data, folder: Path, harmed: str) -> Tried:
    """Return what a reader makes of the files in a folder."""
    try:
        samples = read(own, folder)
    except DataError as error:
        text = str(error)
        clear = error.key.startswith("data") and 0 < len(text) < 3000
        return Tried(own.name, REFUSED if clear else FAULT, f"{error.key}: {text}"[:_LONGEST])
    except Exception as error:
        return Tried(own.name, FAULT, f"{harmed}: {type(error).__name__}: {error}"[:_LONGEST])
    sound = samples.X.ndim == 2 and samples.rows == samples.X.shape[0] > 0
    return Tried(own.name, READ if sound else FAULT, "what was read is no table")
