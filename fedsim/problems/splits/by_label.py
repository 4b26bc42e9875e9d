"""Splits that give a client rows of a few kinds only: of a few labels, or a few clusters."""

from collections.abc import Sequence
from typing import ClassVar, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field
from scipy.sparse import csr_array
from threadpoolctl import threadpool_limits

from fedsim.core.errors import DataError
from fedsim.problems.samples import Features, Samples
from fedsim.problems.splits.base import Indices, SizedSplit, group_rows

Kinds = NDArray[np.intp]
"""The kind of each row, as a number from 0, shape (n,)."""


class ByLabel(SizedSplit):
    """Each client has rows of a few labels; the clients with a label share its rows equally.

    A client gets the labels that the fewest clients before it have, with ties broken by the seed.
    So the numbers of clients with a label differ by at most one. If there are more labels than
    clients times `per_client`, the rows of the remaining labels are dropped.
    """

    source: ClassVar[str] = "Li et al., ICDE 2022: imbalance of labels by their quantity"
    sees_features: ClassVar[bool] = False

    kind: Literal["labels"] = "labels"
    per_client: int = Field(default=2, ge=1, description="number of labels per client")

    def assign(
        self, samples: Samples, clients: int | None, rng: np.random.Generator
    ) -> Sequence[Indices]:
        """Return each client's parts of its labels."""
        labels, kinds = np.unique(samples.y, return_inverse=True)
        if self.per_client > len(labels):
            raise DataError(
                "split.per_client",
                f"{self.per_client} labels per client, but the data has {len(labels)}",
            )
        return _deal(kinds, self.count(samples.rows, clients), self.per_client, rng)


class Clusters(SizedSplit):
    """The rows are clustered by k-means, and each client has parts of a few clusters.

    Clusters are dealt out like the labels in the split `labels`. They are found by k-means on
    minibatches. On the 60000 images of MNIST, this takes about a sixth of the time of Lloyd's
    algorithm, at one per cent more inertia.
    """

    source: ClassVar[str] = "Tong et al., Algorithms 2022, 15, 319; Sculley, WWW 2010"

    kind: Literal["clusters"] = "clusters"
    clusters: int = Field(default=10, ge=1, description="number of clusters")
    per_client: int = Field(default=2, ge=1, description="number of clusters per client")

    def assign(
        self, samples: Samples, clients: int | None, rng: np.random.Generator
    ) -> Sequence[Indices]:
        """Return each client's parts of its clusters."""
        if self.clusters > samples.rows:
            raise DataError(
                "split.clusters", f"{self.clusters} clusters of {samples.rows} rows; give fewer"
            )
        count = self.count(samples.rows, clients)
        kinds = self.find(samples.X, rng)
        present = int(kinds.max()) + 1
        if self.per_client > present:
            raise DataError(
                "split.per_client",
                f"got {self.per_client} clusters per client, but there are only {present}",
            )
        return _deal(kinds, count, self.per_client, rng)

    def find(self, X: Features, rng: np.random.Generator) -> Kinds:
        """Return the cluster of each row that `assign` uses, as a number from 0, shape (n,).

        Args:
            X: features, shape (n, d).
            rng: the stream of the split; one number is drawn from it.
        """
        return _cluster(X, self.clusters, int(rng.integers(2**31)))


def _cluster(X: Features, clusters: int, seed: int) -> Kinds:
    """Return the cluster of each row, as a number from 0; empty clusters get no number."""
    # scikit-learn takes most of a second to import, and few commands need it.
    from sklearn.cluster import MiniBatchKMeans

    means = MiniBatchKMeans(clusters, batch_size=4096, n_init=1, random_state=seed)
    # One thread, since the order of a sum over threads depends on their number.
    with threadpool_limits(1):
        labels = means.fit(_narrow(X)).labels_
    return np.unique(labels, return_inverse=True)[1]


def _narrow(X: Features) -> Features:
    """Return features with 32-bit indices, since scikit-learn accepts no others."""
    if isinstance(X, np.ndarray):
        return X
    indices = (array.astype(np.int32) for array in (X.indices, X.indptr))
    return csr_array((X.data, *indices), shape=X.shape)


def _deal(
    kinds: Kinds, clients: int, per_client: int, rng: np.random.Generator
) -> Sequence[Indices]:
    """Return the rows of each client: equal parts of `per_client` kinds.

    Raises:
        DataError: a client would be left without rows.
    """
    counts = np.bincount(kinds)
    holders = _holders(len(counts), clients, per_client, rng)
    owners = np.full(len(kinds), -1, dtype=np.intp)
    ends = np.cumsum(counts)
    order = np.argsort(kinds, kind="stable")
    for rows, members in zip(np.split(order, ends[:-1]), holders, strict=True):
        if members:
            # Rows are dealt in turn, so that parts differ by at most one row.
            owners[rng.permutation(rows)] = np.resize(rng.permutation(members), len(rows))
    parts = group_rows(owners, clients)
    empty = [m for m, part in enumerate(parts) if not len(part)]
    if empty:
        raise DataError(
            "split",
            f"client {empty[0]} would have no rows: too few are of the kinds it is given; "
            "give fewer clients, or more of `per_client`",
        )
    return parts


def _holders(
    kinds: int, clients: int, per_client: int, rng: np.random.Generator
) -> list[list[int]]:
    """Return the clients that have each kind; every client has `per_client` different kinds."""
    holders: list[list[int]] = [[] for _ in range(kinds)]
    taken = np.zeros(kinds)
    for client in range(clients):
        chosen = np.argsort(taken + rng.random(kinds), kind="stable")[:per_client]
        taken[chosen] += 1
        for kind in chosen:
            holders[kind].append(client)
    return holders


# The label-skewed splits of two much-cited papers.


class Shards(SizedSplit):
    """The pathological split: rows sorted by label are cut into shards, a few for each client.

    There are M times `per_client` shards of equal size, dealt out at random. So most clients have
    rows of at most `per_client` labels. Rows with the same label keep their order. Rows left over
    at the end, fewer than the number of shards, are dropped.
    """

    source: ClassVar[str] = "McMahan et al., AISTATS 2017, Section 3: the pathological split"
    sees_features: ClassVar[bool] = False

    kind: Literal["shards"] = "shards"
    per_client: int = Field(default=2, ge=1, description="number of shards per client")

    def assign(
        self, samples: Samples, clients: int | None, rng: np.random.Generator
    ) -> Sequence[Indices]:
        """Return each client's shards."""
        count = self.count(samples.rows, clients)
        shards = count * self.per_client
        size = samples.rows // shards
        if not size:
            text = f"{count} clients with {self.per_client} shards each, of {samples.rows} rows"
            raise DataError("split.per_client", f"{text}; a shard takes at least one row")
        order = np.argsort(samples.y, kind="stable")[: shards * size].reshape(shards, size)
        dealt = rng.permutation(shards).reshape(count, self.per_client)
        return tuple(order[own].reshape(-1) for own in dealt)


class LabelMix(SizedSplit):
    """Clients have equally many rows, with label mixes from a Dirichlet distribution.

    A client's mix is drawn from Dirichlet(alpha p), with p the shares of the labels in the data.
    Its rows are drawn by that mix, none twice. If a label has run out, the others take its place.
    The n mod M rows left over are dropped.
    """

    source: ClassVar[str] = "Hsu, Qi, Brown, arXiv:1909.06335, 2019"
    sees_features: ClassVar[bool] = False

    kind: Literal["label-mix"] = "label-mix"
    alpha: float = Field(
        default=0.5,
        gt=0,
        le=1e9,
        description="concentration: near 0 a client has one label, large the mix of the data",
    )

    def assign(
        self, samples: Samples, clients: int | None, rng: np.random.Generator
    ) -> Sequence[Indices]:
        """Return each client's rows, label by label."""
        count = self.count(samples.rows, clients)
        _, kinds = np.unique(samples.y, return_inverse=True)
        totals = np.bincount(kinds)
        order = np.argsort(kinds, kind="stable")
        pools = [rng.permutation(rows) for rows in np.split(order, np.cumsum(totals)[:-1])]
        taken, parts = np.zeros_like(totals), list[Indices]()
        for _ in range(count):
            mix = rng.dirichlet(self.alpha * totals / samples.rows)
            wanted = _draw_counts(mix, totals - taken, samples.rows // count, rng)
            ends = taken + wanted
            cuts = zip(pools, taken, ends, strict=True)
            parts.append(np.concatenate([pool[begin:end] for pool, begin, end in cuts]))
            taken = ends
        return tuple(parts)


def _draw_counts(
    mix: NDArray[np.float64], left: NDArray[np.intp], size: int, rng: np.random.Generator
) -> NDArray[np.intp]:
    """Return the number of rows drawn of each label: by the mix, as long as there are rows left."""
    drawn = np.zeros_like(left)
    while size:
        open_ = drawn < left
        weights = np.where(open_, mix, 0.0)
        if not weights.sum() > 0:  # the mix has no label with rows left, so the rest is taken
            weights = np.where(open_, left - drawn, 0).astype(np.float64)
        # A draw may exceed the rows left of a label; the difference is drawn again.
        more = np.minimum(rng.multinomial(size, weights / weights.sum()), left - drawn)
        drawn += more
        size -= int(more.sum())
    return drawn
