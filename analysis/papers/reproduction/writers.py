"""A tenth of Federated EMNIST, as Fast-FedDA's paper has it, from a user's file of all writers."""

from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np

import fedsim
from fedsim.core.errors import DataError
from reproduction.model import SCENARIOS

WRITERS = {"fedda-emnist-10": 367, "fedda-emnist-62": 379}
"""Scenario -> how many writers the paper has."""

FEWEST = 11
"""Rows of a writer that is not left out: as in the authors' code, ten to train on, one to test."""


def choose(scenario: str, folder: Path) -> list[str]:
    """Write an archive of as many writers as the paper has, and return what names it.

    They are drawn, with a seed of their own, of those with at least `FEWEST` rows of the scenario's
    classes; a file that has no more writers is taken whole.

    Args:
        scenario: of `WRITERS`.
        folder: where the archive goes.

    Raises:
        DataError: there is no file of the user's, or no writer of it has enough rows.
    """
    source = fedsim.load(SCENARIOS / f"{scenario}.yaml").variants[0].scenario.problem.data
    assert source is not None
    samples = source.plain(Path(), np.random.default_rng(0))
    assert samples.client is not None
    writers, rows = np.unique(samples.client, return_counts=True)
    known = writers[rows >= FEWEST]
    if not known.size:
        text = f"got {rows.max()} rows of a writer at most, expected {FEWEST} of one at least"
        raise DataError("data.path", f"femnist.npz: {text}")
    drawn = np.random.default_rng(0).permutation(known)[: WRITERS[scenario]]
    kept = samples.take(np.flatnonzero(np.isin(samples.client, drawn)))
    folder.mkdir(parents=True, exist_ok=True)
    file = (folder / f"{scenario}.npz").resolve()
    np.savez(file, X=np.asarray(kept.X), y=kept.y, client=np.asarray(kept.client))
    return [f"problem.data={{kind: npz, path: {file}}}"]


PREPARED: dict[str, Callable[[Path], list[str]]] = {
    scenario.removeprefix("fedda-"): partial(choose, scenario) for scenario in WRITERS
}
"""The archives that scenarios need, by name."""
