"""Base class of data sources: a frozen block that reads or draws samples."""

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from fedsim.core.blocks.spec import Given, Keys, Spec, as_written
from fedsim.problems.data.preprocess import Step, Transform, fit, fit_transform
from fedsim.problems.samples import Samples, check, wide
from fedsim.problems.tables.fit_exchange import FitExchange


class Source(Spec):
    """A data source; `load` reads, checks and preprocesses the samples.

    To treat other rows like these, use `plain`, which returns the samples before preprocessing, and
    `fit(samples.X, source.preprocess)` both the features after it and the function to apply to the
    others.
    """

    source: ClassVar[str]
    """Human-readable source of the format or the data."""

    numbers_clients: ClassVar[bool | str] = False
    """Whether its rows carry client numbers; or the name of the field that supplies them."""

    kind: str
    preprocess: Given[tuple[Step, ...], Sequence[Step | Keys]] = as_written(
        (),
        "steps applied to the features in this order: standardise, unit-range, "
        "max-abs, unit-rows, intercept, {first: k}, or {divide: c}",
    )

    @abstractmethod
    def read(self, folder: Path, rng: np.random.Generator) -> Samples:
        """Read or draw the samples as they are.

        Features stay in the type of the file where a number takes up to four bytes, such as
        bytes of pixels (see `fedsim.problems.samples.as_read`); all others are float64.

        Args:
            folder: what relative paths are relative to: the folder of the scenario file.
            rng: the stream that generators draw from.

        Raises:
            DataError: the samples cannot be read; the message names the fault and its place.
        """

    def plain(self, folder: Path, rng: np.random.Generator) -> Samples:
        """Return the samples, checked; arguments and errors as for `read`."""
        samples = self.read(folder, rng)
        check(samples)
        return samples

    def load(self, folder: Path, rng: np.random.Generator) -> Samples:
        """Return the samples, checked and preprocessed; arguments and errors as for `read`.

        Features are float64. Once preprocessed they no longer go with a planted truth, so it is
        dropped then.
        """
        samples = self.plain(folder, rng)
        if not self.preprocess:
            return replace(samples, X=wide(samples.X))
        X, _ = fit(samples.X, self.preprocess)
        return samples.with_features(X)

    def plain_like(
        self,
        folder: Path,
        rng: np.random.Generator,
        training: Samples,
    ) -> Samples:
        """Return test rows before preprocessing, in the form of training rows.

        Arguments and errors as for `read`; `training` are the rows of another source.
        """
        return self.load(folder, rng) if self.preprocess else self.plain(folder, rng)

    @property
    def transforms(self) -> bool:
        """Whether features are preprocessed."""
        return bool(self.preprocess)

    def transform_for(self, samples: Samples) -> Transform | None:
        """Return the function that preprocesses any rows, fitted on some; None if there is none.

        Raises:
            DataError: as for `fedsim.problems.data.preprocess.fit_transform`.
        """
        return fit_transform(samples.X, self.preprocess) if self.preprocess else None

    @property
    def fits_clients(self) -> bool:
        """Whether each client's rows are preprocessed by what is fitted on them alone."""
        return False

    def transform_clients(
        self, samples: Samples, rows: Sequence[NDArray[np.intp]], test: Samples | None
    ) -> tuple[Samples, Samples | None]:
        """Return samples and test rows, each client's preprocessed by what its own rows fit.

        Called only if `fits_clients`.

        Args:
            samples: training rows before preprocessing.
            rows: the indices of each client's rows.
            test: rows that no client has, if any.
        """
        raise NotImplementedError

    @property
    def exchanges_fit(self) -> bool:
        """Whether clients and server exchange messages to fit preprocessing, which are charged."""
        return False

    def fit_exchange(self, samples: Samples, rows: Sequence[NDArray[np.intp]]) -> FitExchange:
        """Return the messages by which the server fits all clients' training rows.

        Called only if `exchanges_fit`; arguments as for `transform_clients`.
        """
        raise NotImplementedError

    def explain_fit(self, samples: Samples) -> str:
        """Return what preprocessing is fitted on, where the user should know; else nothing."""
        return ""
