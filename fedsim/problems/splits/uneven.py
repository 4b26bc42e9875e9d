"""Splits into uneven parts: of each label, or of all rows."""

from collections.abc import Sequence
from heapq import heapify, heappop, heappush
from typing import ClassVar, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from fedsim.problems.samples import Samples
from fedsim.problems.splits.base import Indices, SizedSplit, blocks, grouped


class Dirichlet(SizedSplit):
    """The rows of each label are dealt out in proportions from a Dirichlet distribution.

    For each label the M proportions are drawn anew; the smaller alpha, the fewer clients
    have most of a label. A client that is left without rows takes one of the client that
    has most.
    """

    source: ClassVar[str] = "Yurochkin et al., ICML 2019; Li et al., ICDE 2022"
    sees_features: ClassVar[bool] = False

    kind: Literal["dirichlet"] = "dirichlet"
    alpha: float = Field(
        default=0.5,
        gt=0,
        le=1e9,
        description="concentration: near 0 a label is one client's, large it is evenly dealt",
    )

    def assign(
        self, samples: Samples, clients: int | None, rng: np.random.Generator
    ) -> tuple[Indices, ...]:
        """Return each client's shares of all labels."""
        count = self.count(samples.rows, clients)
        _, kinds = np.unique(samples.y, return_inverse=True)
        owners = np.empty(samples.rows, dtype=np.intp)
        ends = np.cumsum(np.bincount(kinds))
        for rows in np.split(np.argsort(kinds, kind="stable"), ends[:-1]):
            shares = rng.dirichlet(np.full(count, self.alpha))
            owners[rng.permutation(rows)] = np.repeat(np.arange(count), _whole(shares, len(rows)))
        return _without_empty(grouped(owners, count))


class LogNormal(SizedSplit):
    """Alike clients of unlike sizes: shuffled rows in parts whose sizes are lognormal.

    Of n rows each of M clients has one, and of the n - M others a share that is
    proportional to exp(sigma z), z standard normal; all rows are dealt out.
    """

    source: ClassVar[str] = "Li et al., FedProx, MLSys 2020: lognormal sizes of synthetic data"
    sees_features: ClassVar[bool] = False

    kind: Literal["lognormal"] = "lognormal"
    sigma: float = Field(
        default=1.0, ge=0, le=20, description="standard deviation of the logarithm of sizes"
    )

    def assign(
        self, samples: Samples, clients: int | None, rng: np.random.Generator
    ) -> tuple[Indices, ...]:
        """Return blocks of shuffled rows."""
        count = self.count(samples.rows, clients)
        weights = np.exp(self.sigma * rng.standard_normal(count))
        sizes = 1 + _whole(weights / weights.sum(), samples.rows - count)
        return blocks(rng.permutation(samples.rows), sizes)


def _whole(shares: NDArray[np.float64], total: int) -> NDArray[np.intp]:
    """Return whole numbers near `total` times the shares, which sum to 1; they sum to `total`.

    They are the differences of the rounded cumulative sums, so that each is off by one
    at most.
    """
    ends = np.rint(np.cumsum(shares) * total).astype(np.intp)
    ends[-1] = total
    return np.diff(ends, prepend=0)


def _without_empty(parts: Sequence[Indices]) -> tuple[Indices, ...]:
    """Return the parts after each empty one has got a row of what was then the largest."""
    queue = [(-len(part), m) for m, part in enumerate(parts)]
    heapify(queue)
    given = [0] * len(parts)
    filled = list(parts)
    for client in (m for m, part in enumerate(parts) if not len(part)):
        size, donor = heappop(queue)
        given[donor] += 1
        filled[client] = parts[donor][-given[donor] :][:1]
        heappush(queue, (size + 1, donor))
    return tuple(part[: len(part) - gone] for part, gone in zip(filled, given, strict=True))
