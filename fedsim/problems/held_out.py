"""Held-out test data: rows that no client has, preprocessed like the training rows."""

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from fedsim.core.blocks.spec import Spec
from fedsim.core.errors import DataError
from fedsim.core.streams import stream
from fedsim.problems.data import Source
from fedsim.problems.samples import Samples
from fedsim.problems.splits.base import Split

Indices = NDArray[np.intp]


class HeldOut(Spec):
    """A share of the rows, drawn before the split, for testing only."""

    fraction: float = Field(
        gt=0,
        lt=1,
        description=(
            "share of the rows that are held out for testing: of each client where the data"
            " numbers clients; a client keeps at least one row"
        ),
    )

    def divide(self, samples: Samples, rng: np.random.Generator) -> tuple[Indices, Indices]:
        """Draw the rows for training and those for testing; both ascending.

        Of n rows of a client (or of all n rows if rows have no client), round(fraction n) are held
        out, at most n - 1.

        Raises:
            DataError: the share is less than one row.
        """
        client = np.zeros(samples.rows, np.intp) if samples.client is None else samples.client
        # A random order within each client: a stable sort by client of a permutation of all rows.
        _, inverse, sizes = np.unique(client, return_inverse=True, return_counts=True)
        shuffled = rng.permutation(samples.rows)
        order = shuffled[np.argsort(inverse[shuffled], kind="stable")]
        places = np.arange(samples.rows) - np.repeat(np.cumsum(sizes) - sizes, sizes)
        # A client has to keep at least one row.
        wanted = np.minimum(np.rint(self.fraction * sizes), sizes - 1)
        held = np.zeros(samples.rows, np.bool_)
        held[order] = places < np.repeat(wanted, sizes)
        if not held.any():
            text = (
                f"got {self.fraction:g}, less than one row of {_describe_share(sizes)}; give more"
            )
            raise DataError("test.fraction", text)
        return np.flatnonzero(~held), np.flatnonzero(held)


class HeldOutClients(Spec):
    """Whole clients for testing only, drawn among those of the split.

    Preprocessing is fitted on the rows of the others. It is fitted on all rows only if the split
    needs the preprocessed features, like `clusters`.
    """

    clients: int = Field(
        ge=1,
        description=(
            "number of clients whose rows are all held out for testing; the split makes"
            " this many more clients than the fleet has"
        ),
    )

    def divide(
        self, rows: Sequence[Indices], rng: np.random.Generator
    ) -> tuple[tuple[Indices, ...], Indices]:
        """Draw the clients that stay, in their order, and return the rows of the others, ascending.

        Args:
            rows: the rows of each client.
            rng: the stream that the clients are drawn from.

        Raises:
            DataError: no client would stay.
        """
        count = len(rows)
        if self.clients >= count:
            text = (
                f"got {self.clients}, but the split makes {count} clients; one at least must stay"
            )
            raise DataError("test.clients", text)
        drawn = set(rng.permutation(count)[: self.clients].tolist())
        kept = tuple(client_rows for number, client_rows in enumerate(rows) if number not in drawn)
        held = np.concatenate([rows[number] for number in sorted(drawn)])
        return kept, np.sort(held)


class Loaded(NamedTuple):
    """Training rows, and test rows if any, before preprocessing.

    Attributes:
        training: the rows to partition.
        test: rows that no client has.
    """

    training: Samples
    test: Samples | None


def load_both(
    data: Source,
    test: HeldOut | HeldOutClients | Source | None,
    folder: Path,
    rng: np.random.Generator,
    test_rng: np.random.Generator,
) -> Loaded:
    """Return the training rows and the test rows, if any, before preprocessing.

    They keep the type of their file until they are partitioned, which transforms them in blocks.

    Args:
        data: the source of the training rows.
        test: the share to hold out, or the source of the test rows. Whole clients are held out only
            after the split; in this case there are no test rows yet.
        folder: the base of relative paths.
        rng: the stream of `data`.
        test_rng: the stream from which the test rows are drawn.

    Raises:
        DataError: the data cannot be read, or the two do not match.
    """
    training, testing = data.plain(folder, rng), None
    if isinstance(test, HeldOut):
        kept, held = test.divide(training, test_rng)
        training, testing = training.take(kept), training.take(held)
    elif isinstance(test, Source):
        testing = _load(test, folder, test_rng, training)
    if testing is not None:
        _check(training, testing)
    return Loaded(training, testing)


def count_clients(
    data: Source,
    split: Split,
    test: HeldOut | HeldOutClients | Source | None,
    folder: Path,
    seed: int,
) -> int:
    """Return the number of clients that a split creates from data without a fleet.

    Arguments are those of a problem, and the seed of its streams.

    Raises:
        DataError: the data cannot be read, or the split takes the number of clients from the fleet.
    """
    # These are the streams of a run, so that the rows are those of the run.
    drawn = stream(seed, "test")
    samples, _ = load_both(data, test, folder, stream(seed, "data"), drawn)
    if split.sees_features and (transform := data.transform_for(samples)) is not None:
        samples = samples.with_features(transform(samples.X))
    rows = split.assign(samples, None, stream(seed, "split"))
    return len(rows) - (test.clients if isinstance(test, HeldOutClients) else 0)


def _load(test: Source, folder: Path, rng: np.random.Generator, training: Samples) -> Samples:
    """Load test rows; errors have the key `test`."""
    try:
        return test.plain_like(folder, rng, training)
    except DataError as error:
        raise DataError(f"test{error.key.removeprefix('data')}", str(error)) from error


def _check(training: Samples, testing: Samples) -> None:
    if training.features != testing.features:
        text = (
            f"the test rows have {testing.features} features, but the clients' have"
            f" {training.features}; both take the same number"
        )
        raise DataError("test", text)


def _describe_share(sizes: NDArray[np.intp]) -> str:
    size = f"{sizes.min()}" if sizes.min() == sizes.max() else f"{sizes.min()} to {sizes.max()}"
    return f"{size}" if len(sizes) == 1 else f"{len(sizes)} clients with {size} each"
