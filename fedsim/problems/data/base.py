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

    To preprocess other rows in the same way, use `plain`, which returns the samples before
    preprocessing. Then `fit(samples.X, source.preprocess)` returns their features after it, and the
    function to apply to other rows.
    """

    source: ClassVar[str]
    """Human-readable source of the format or the data."""

    numbers_clients: ClassVar[bool | str] = False
    """Whether its rows have client numbers; or the name of the field that provides them."""

    kind: str
    preprocess: Given[tuple[Step, ...], Sequence[Step | Keys]] = as_written(
        (),
        "steps applied to the features in this order: standardise, unit-range, "
        "max-abs, unit-rows, intercept, {first: k}, or {divide: c}",
    )

    @abstractmethod
    def read(self, folder: Path, rng: np.random.Generator) -> Samples:
        """Read or draw the samples as they are.

        Numbers of up to four bytes keep the type of the file, such as bytes of pixels (see
        `fedsim.problems.samples.as_read`); all others are float64.

        Args:
            folder: the base of relative paths: the folder of the scenario file.
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

        Features are float64. A planted truth is dropped if there is preprocessing, since it no
        longer fits the features.
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

        Arguments and errors as for `read`.

        Args:
            folder: see `read`.
            rng: see `read`.
            training: the training rows, which come from another source.
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
        """Whether preprocessing is fitted for each client, on its own rows only."""
        return False

    def transform_clients(
        self, samples: Samples, rows: Sequence[NDArray[np.intp]], test: Samples | None
    ) -> tuple[Samples, Samples | None]:
        """Return samples and test rows, preprocessed for each client as fitted on its own rows.

        Only called if `fits_clients`.

        Args:
            samples: training rows before preprocessing.
            rows: the indices of each client's rows.
            test: held-out rows, if any.
        """
        raise NotImplementedError

    @property
    def exchanges_fit(self) -> bool:
        """Whether clients and server exchange messages to fit preprocessing, which are charged."""
        return False

    def fit_exchange(self, samples: Samples, rows: Sequence[NDArray[np.intp]]) -> FitExchange:
        """Return the messages by which the server fits all clients' training rows.

        Only called if `exchanges_fit`; arguments as for `transform_clients`.
        """
        raise NotImplementedError

    def explain_fit(self, samples: Samples) -> str:
        """Return a note on what preprocessing is fitted on; empty if there is nothing to note."""
        return ""
