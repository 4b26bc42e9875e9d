"""The odd computations that files of papers name: measures, files that are made, figures."""

from collections.abc import Callable
from functools import cache
from pathlib import Path

import numpy as np
import pandas as pd

import fedsim
from fedsim.core.ports import Array
from fedsim.problems.data import PlantedSmoothness
from reproduction import clusters, small_sets, video, writers
from reproduction.model import SCENARIOS, Row
from reproduction.values import Values, by_variant


def transmitting(result: fedsim.Result, variant: str, seed: int) -> Array:
    """Return the transmissions of a censoring method, shape (iterations, M) of 0 and 1."""
    runs, events = result.summary, result.events
    own = runs[(runs["variant"] == variant) & (runs["seed"] == seed)]
    sent = events[(events["seed"] == seed) & (events["variant"] == variant)]
    sent = sent[(sent["event"] == "send") & (sent["message"] == "innovation")]
    workers = sent["node"].astype(str).str.removeprefix("client-").astype(int)
    table = np.zeros((int(own["rounds"].iloc[0]), int(own["clients"].iloc[0])))
    table[sent["round"].to_numpy() - 1, workers.to_numpy()] = 1
    return table


def constants(row: Row) -> Array:
    """Return the smoothness constants L_m of a row's data, shape (M,)."""
    (setting, *_) = row.settings()
    data = fedsim.load(setting.scenario).variants[0].scenario.problem.data
    assert isinstance(data, PlantedSmoothness)
    return data.smoothness()


def _each(result: fedsim.Result, row: Row, of: Callable[[Array, Array, float], float]) -> Values:
    """Return of each run a value of (which client transmits when, L_m, eps1)."""
    steep, found = constants(row), Values()
    for variant, runs in result.summary.groupby("variant", sort=False, observed=True):
        eps1 = runs.get("parameters.eps1", pd.Series(np.nan, runs.index))
        values = [
            of(transmitting(result, str(variant), int(seed)), steep, float(own))
            for seed, own in zip(runs["seed"], eps1, strict=True)
        ]
        found[str(variant)] = pd.Series(values, index=runs["seed"].to_list())
    return found


def worker_sent(result: fedsim.Result, row: Row, worker: int, first: int) -> Values:
    """Return how often a worker transmits in the first iterations."""
    return _each(result, row, lambda sent, *_: float(sent[:first, worker].sum()))


def in_order(result: fedsim.Result, row: Row, first: int) -> Values:
    """Return 1 where no worker transmits less than a flatter one in the first iterations."""

    def value(sent: Array, steep: Array, _: float) -> float:
        return float((np.diff(sent[:first].sum(axis=0)[np.argsort(steep)]) >= 0).all())

    return _each(result, row, value)


def _flat(sent: Array, steep: Array, eps1: float) -> Array:
    return sent[:, steep**2 <= eps1]


def flat_workers(result: fedsim.Result, row: Row) -> Values:
    """Return how many workers have L_m^2 <= eps1, of which CHB's Lemma 2 speaks."""
    return _each(result, row, lambda *run: float(_flat(*run).shape[1]))


def most_of_half(result: fedsim.Result, row: Row) -> Values:
    """Return by how much, at most, a flat worker's transmissions pass half of the iterations.

    Lemma 2 of CHB: a worker with L_m^2 <= eps1 transmits in at most half of k iterations, the odd
    one rounded up, so that the value is at most 0; NaN without such a worker.
    """

    def value(sent: Array, steep: Array, eps1: float) -> float:
        own = _flat(sent, steep, eps1).cumsum(axis=0)
        half = (np.arange(len(own)) + 2) // 2
        return float((own - half[:, None]).max()) if own.size else np.nan

    return _each(result, row, value)


def descent(result: fedsim.Result, row: Row, gap: float) -> Values:
    """Return the mean descent per transmission, (f(0) - f(k)) / transmissions, at a gap.

    A round's row has the objective of the model that it begins with, so that f(k) is set against
    the transmissions of the rounds before.
    """
    rounds = result.rounds.merge(result.summary[["variant", "seed", "start"]])
    runs = rounds.groupby(["variant", "seed"], sort=False, observed=True)
    sent = (runs["transmissions"].cumsum() - rounds["transmissions"]).astype(float)
    rounds = rounds.assign(value=(rounds["start"] - rounds["objective"]) / sent)
    there = rounds[rounds["gap"] <= gap].drop_duplicates(["variant", "seed"])
    return by_variant(there, "value")


def value_at(
    result: fedsim.Result,
    row: Row,
    column: str = "objective",
    at: int | None = None,
    *,
    of_start: bool = False,
) -> Values:
    """Return a column in a round; infinity if the run had diverged by then.

    Args:
        result: of any runs.
        row: whose they are.
        column: of the round table.
        at: the round; the last one of the longest run if None.
        of_start: whether the value is a share of the objective of the initial model.
    """
    last = int(result.rounds["round"].max()) if at is None else at
    rounds = result.rounds[result.rounds["round"] == last]
    found = Values()
    for variant, runs in result.summary.groupby("variant", sort=False, observed=True):
        own = rounds[rounds["variant"] == variant].set_index("seed")[column].astype(float)
        runs = runs.set_index("seed")  # noqa: PLW2901 - the same runs
        values = own.reindex(runs.index)
        values = values.mask(values.isna() & (runs["status"] == "diverged"), np.inf)
        found[str(variant)] = values / runs["start"].astype(float) if of_start else values
    return found


def parameter(result: fedsim.Result, row: Row, name: str) -> Values:
    """Return a parameter of the method as it was resolved, such as a step size of "1/L"."""
    return by_variant(result.summary, f"parameters.{name}")


def first_above(
    result: fedsim.Result,
    row: Row,
    column: str,
    level: float,
) -> Values:
    """Return the round in which a column is first above a level, or not finite; NaN if never."""
    rounds = result.rounds
    over = rounds[~(rounds[column] <= level)].drop_duplicates(["variant", "seed"])
    return by_variant(over, "round")


MEASURES: dict[str, Callable[..., Values]] = {
    "worker-sent": worker_sent,
    "in-order": in_order,
    "flat-workers": flat_workers,
    "most-of-half": most_of_half,
    "descent": descent,
    "parameter": parameter,
    "first-above": first_above,
    "value": value_at,
    **clusters.MEASURES,
}
"""Measures that are more than a column in some round: (result, row, given) -> values."""

MNIST = "chb-mnist-linear"
"""The scenario whose workers' rows are replaced."""


def triangles(folder: Path) -> list[str]:
    """Write MNIST's rows, each worker's replaced by few with the same squared loss."""
    client, every = _factors()
    folder.mkdir(parents=True, exist_ok=True)
    file = (folder / "mnist-triangles.npz").resolve()
    np.savez(file, X=every[:, :-1], y=every[:, -1], client=client)
    data = f"problem.data={{kind: npz, path: {file}}}"
    return [data, "problem.split={kind: groups}"]


@cache
def _factors() -> tuple[Array, Array]:
    """Return R of [X y] = Q R, and whose its rows are: seconds of work, once for all of a paper.

    The loss |Xw - y|^2 is |R_1 w - r|^2, where R_1 are all columns of R but the last one, r, and R
    has as many rows as columns.
    """
    scenario = fedsim.load(SCENARIOS / f"{MNIST}.yaml").variants[0].scenario
    source, split = scenario.problem.data, scenario.problem.split
    assert source is not None
    assert split is not None
    rng = np.random.default_rng(0)
    samples = source.load(Path(), rng)
    made = [
        np.linalg.qr(np.column_stack((samples.X[rows], samples.y[rows])), mode="r")
        for rows in split.assign(samples, None, rng)
    ]
    return np.repeat(np.arange(len(made)), [len(each) for each in made]), np.vstack(made)


PREPARED: dict[str, Callable[[Path], list[str]]] = {
    "mnist-triangles": triangles,
    **small_sets.PREPARED,
    **video.PREPARED,
    **writers.PREPARED,
}
"""What a scenario needs and no file has: (folder) -> overrides, such as the path of a made file."""
