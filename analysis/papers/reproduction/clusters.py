"""What clients are dealt, and pictures of the clusters that their rows are cut from."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import numpy as np
import pandas as pd

import fedsim
from fedsim.core.ports import Array
from fedsim.core.streams import stream
from fedsim.problems.samples import Features
from fedsim.problems.splits.by_label import Clusters, Kinds
from fedsim.results.record.folder import SCENARIO
from reproduction.model import Row
from reproduction.values import Values, by_variant

SEED = 0
"""Of the picture: which rows are shown, and where t-SNE begins."""


def device_rows(result: fedsim.Result, row: Row, what: str) -> Values:
    """Return a statistic of the clients' numbers of rows.

    Args:
        result: of any runs.
        row: whose they are.
        what: a name of a method of a column of pandas: sum, count, mean, std, min or max.
    """
    counts = result.clients.groupby(["variant", "seed"], sort=False, observed=True)["samples"]
    return by_variant(counts.agg(what).reset_index(), "samples")


def features(result: fedsim.Result, row: Row) -> Values:
    """Return the number of features of the rows, as the file has them."""
    return _each(result, lambda run: float(_source(run)[0].shape[1]))


def cluster_count(result: fedsim.Result, row: Row) -> Values:
    """Return how many clusters the split has found."""
    return _each(result, lambda run: float(_clustered(run)[1].max() + 1))


def alike_neighbours(result: fedsim.Result, row: Row, most: int) -> Values:
    """Return the share of rows whose nearest neighbour in the picture is of their cluster.

    Args:
        result: of runs with the split `clusters`.
        row: whose they are.
        most: how many rows are shown.
    """

    def value(run: Path) -> float:
        from sklearn.neighbors import NearestNeighbors  # slow to import

        shown = picture(run, most)
        near = NearestNeighbors(n_neighbors=2).fit(shown.places).kneighbors(shown.places)[1][:, 1]
        return float(np.mean(shown.kinds == shown.kinds[near]))

    return _each(result, value)


def _each(result: fedsim.Result, of: Callable[[Path], float]) -> Values:
    runs = [(run.parent.name, int(run.name.removeprefix("seed-")), of(run)) for run in result.runs]
    return by_variant(pd.DataFrame(runs, columns=["variant", "seed", "value"]), "value")


@lru_cache(maxsize=2)
def _source(run: Path) -> tuple[Features, int, Clusters | None]:
    """Return the features that a run had, its seed, and its split if that finds clusters."""
    problem = fedsim.load(run / SCENARIO).variants[0].scenario.problem
    seed = int(run.name.removeprefix("seed-"))
    data, split = problem.data, problem.split
    if data is None:
        raise fedsim.DataError("data", "got none, expected a file of the catalogue")
    samples = data.load(run, stream(seed, "data"))
    return samples.X, seed, split if isinstance(split, Clusters) else None


def _clustered(run: Path) -> tuple[Features, Kinds]:
    X, seed, split = _source(run)
    if split is None:
        raise fedsim.DataError("split", "got another kind, expected clusters")
    return X, split.find(X, stream(seed, "split"))


@dataclass(frozen=True)
class Picture:
    """Rows in the plane.

    Attributes:
        places: by t-SNE, shape (m, 2).
        kinds: the clusters that they are of, shape (m,).
    """

    places: Array
    kinds: Kinds


@lru_cache(maxsize=2)
def picture(run: Path, most: int) -> Picture:
    """Return where t-SNE puts rows, `most` of them at random, from their 50 main directions."""
    from sklearn.decomposition import TruncatedSVD  # slow to import
    from sklearn.manifold import TSNE

    X, kinds = _clustered(run)
    rng = np.random.default_rng(SEED)
    shown = np.sort(rng.permutation(X.shape[0])[:most])
    main = TruncatedSVD(min(50, X.shape[1] - 1), random_state=SEED).fit_transform(X)[shown]
    near = min(30.0, (len(shown) - 1) / 3)
    places = TSNE(perplexity=near, init="pca", random_state=SEED).fit_transform(main)
    return Picture(np.asarray(places, dtype=np.float64), kinds[shown])


MEASURES: dict[str, Callable[..., Values]] = {
    "device-rows": device_rows,
    "features": features,
    "clusters": cluster_count,
    "alike-neighbours": alike_neighbours,
}
"""By name, as `functions.MEASURES`."""
