"""The problem of a scenario: data dealt out, or clients that have programs of their own."""

from pathlib import Path
from typing import Any

import numpy as np

from fedsim.errors import DataError
from fedsim.problems import Problem, ProgramLoss, load_both
from fedsim.problems.dealt import Transform, deal, finished
from fedsim.problems.samples import Precision, Samples
from fedsim.scenario import ProblemSpec
from fedsim.streams import stream
from fedsim.under_way import doing

_DOUBLE = np.dtype(np.float64)


def problem_of(
    spec: ProblemSpec,
    clients: int | None,
    seed: int,
    folder: Path,
    precision: Precision,
) -> Problem:
    """Return what the clients minimise.

    Args:
        spec: what was written.
        clients: the size of the fleet; None where nobody has written one.
        seed: of all that is random.
        folder: where relative paths start.
        precision: of the samples.

    Raises:
        DataError: that cannot be had.
    """
    if isinstance(spec.loss, ProgramLoss):
        with doing("asking the clients' program for its model"):
            return spec.loss.problem(clients, seed, folder)
    streams = stream(seed, "data"), stream(seed, "test")
    if spec.data is None:  # which the scenario refuses for any other loss
        raise DataError("data", "missing")
    with doing("reading data"):
        samples, test, treat = load_both(spec.data, spec.test, folder, *streams)
    with doing("dealing out samples to clients"):
        if spec.split.sees_features:
            samples, test = finished(samples, treat), test and finished(test, treat)
            treat = None
        rows = spec.split.assign(samples, clients, stream(seed, "split"))
        kind = spec.loss.held(_kind(samples, treat), precision)
        dealt = deal(samples, rows, treat, kind)
        if test is not None:
            test = finished(test, treat, kind if spec.loss.converts else _DOUBLE)
        return Problem.of(spec.loss, dealt, spec.penalty, test)


def _kind(samples: Samples, treat: Transform | None) -> np.dtype[Any]:
    """Return the type of features that are to be dealt out: what is treated is float64."""
    return samples.X.dtype if treat is None else _DOUBLE
