"""What every data source is: a frozen block that reads or draws samples."""

from abc import abstractmethod
from pathlib import Path
from typing import ClassVar

import numpy as np
from pydantic import Field

from fedsim.errors import DataError
from fedsim.problems.data.preprocess import Step, preprocess
from fedsim.problems.samples import Samples, check
from fedsim.spec import Spec


class Source(Spec):
    """Where samples come from; `load` reads, checks and preprocesses them."""

    source: ClassVar[str]
    """Where the format or the data is from, for people to read."""

    kind: str
    preprocess: tuple[Step, ...] = Field(
        default=(),
        description="steps applied to the features in this order: standardise, unit-range, "
        "unit-rows, intercept, or {first: k}",
    )

    @abstractmethod
    def read(self, folder: Path, rng: np.random.Generator) -> Samples:
        """Read or draw the samples as they are.

        Args:
            folder: what relative paths are relative to: the folder of the scenario file.
            rng: the stream that generators draw from.

        Raises:
            DataError: they cannot be had; the text names what is wrong with what.
        """

    def load(self, folder: Path, rng: np.random.Generator) -> Samples:
        """Return the samples, checked and preprocessed; arguments and errors as for `read`.

        Preprocessed features no longer go with a planted truth, so it is dropped then.
        """
        samples = self.read(folder, rng)
        check(samples)
        if not self.preprocess:
            return samples
        X = preprocess(samples.X, self.preprocess)
        return Samples(X, samples.y, samples.client)


def read_bytes(path: Path) -> bytes:
    """Return the content of a user's file.

    Raises:
        DataError: it cannot be read.
    """
    try:
        return path.read_bytes()
    except OSError as error:
        reason = error.strerror or type(error).__name__
        raise DataError("data.path", f"cannot read {path}: {reason}") from error
