"""The problem of a scenario: data dealt out, or clients that have programs of their own."""

from pathlib import Path

from fedsim.errors import DataError
from fedsim.problems import Problem, ProgramLoss, load_both
from fedsim.problems.dealt import deal
from fedsim.problems.samples import Precision
from fedsim.scenario import ProblemSpec
from fedsim.streams import stream
from fedsim.under_way import doing


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
        samples, test = load_both(spec.data, spec.test, folder, *streams)
    with doing("dealing out samples to clients"):
        rows = spec.split.assign(samples, clients, stream(seed, "split"))
        samples = samples.rounded(precision)
        return Problem.of(spec.loss, deal(samples, rows), spec.penalty, test)
