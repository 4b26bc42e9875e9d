"""Splits by label as two much-cited papers make them."""

from typing import ClassVar, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from fedsim.errors import DataError
from fedsim.problems.samples import Samples
from fedsim.problems.splits.base import Indices, SizedSplit


class Shards(SizedSplit):
    """The pathological split: rows sorted by label are cut into shards, a few for each client.

    There are M times `per_client` shards of one size, dealt out at random, so that most clients
    have rows of at most `per_client` labels. Rows of one label keep their order. The rows that are
    left over at the end, fewer than there are shards, are dropped.
    """

    source: ClassVar[str] = "McMahan et al., AISTATS 2017, Section 3: the pathological split"
    sees_features: ClassVar[bool] = False

    kind: Literal["shards"] = "shards"
    per_client: int = Field(default=2, ge=1, description="how many shards each client has")

    def assign(
        self, samples: Samples, clients: int | None, rng: np.random.Generator
    ) -> tuple[Indices, ...]:
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
    """Each client has a mix of labels from a Dirichlet distribution, all as many rows.

    A client's mix is drawn around the shares p of the labels in the data, Dirichlet(alpha p), and
    its rows by that mix, none twice: of a label that has run out, the others take its place. The
    n mod M rows that are left over are dropped.
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
    ) -> tuple[Indices, ...]:
        """Return each client's rows, label by label."""
        count = self.count(samples.rows, clients)
        _, kinds = np.unique(samples.y, return_inverse=True)
        totals = np.bincount(kinds)
        order = np.argsort(kinds, kind="stable")
        pools = [rng.permutation(rows) for rows in np.split(order, np.cumsum(totals)[:-1])]
        taken, parts = np.zeros_like(totals), list[Indices]()
        for _ in range(count):
            mix = rng.dirichlet(self.alpha * totals / samples.rows)
            wanted = _drawn(mix, totals - taken, samples.rows // count, rng)
            ends = taken + wanted
            cuts = zip(pools, taken, ends, strict=True)
            parts.append(np.concatenate([pool[begin:end] for pool, begin, end in cuts]))
            taken = ends
        return tuple(parts)


def _drawn(
    mix: NDArray[np.float64], left: NDArray[np.intp], size: int, rng: np.random.Generator
) -> NDArray[np.intp]:
    """Return how many rows of each label are drawn: by a mix, as long as there are any left."""
    drawn = np.zeros_like(left)
    while size:
        open_ = drawn < left
        weights = np.where(open_, mix, 0.0)
        if not weights.sum() > 0:  # the mix is of labels that have run out: all others alike
            weights = np.where(open_, left - drawn, 0).astype(np.float64)
        more = np.minimum(rng.multinomial(size, weights / weights.sum()), left - drawn)
        drawn += more
        size -= int(more.sum())
    return drawn
