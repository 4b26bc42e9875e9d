"""Splits into uneven parts: of each label, or of all rows."""

from collections.abc import Sequence
from heapq import heapify, heappop, heappush
from typing import ClassVar, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from fedsim.problems.samples import Samples
from fedsim.problems.splits.base import Indices, SizedSplit, blocks, grouped

_LEAST = Field(
    default=1,
    ge=1,
    description="rows that each client has: who is left with fewer takes them of who has most",
)


class Dirichlet(SizedSplit):
    """The rows of each label are dealt out in proportions from a Dirichlet distribution.

    For each label the M proportions are drawn anew; the smaller alpha, the fewer clients
    have most of a label. Clients have unlike numbers of rows; see `label-mix` for equal ones. A
    client that is left with too few rows takes them, one by one, of the client that has most.
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
    least: int = _LEAST

    def assign(
        self, samples: Samples, clients: int | None, rng: np.random.Generator
    ) -> tuple[Indices, ...]:
        """Return each client's shares of all labels."""
        count = self.count(samples.rows, clients, self.least)
        _, kinds = np.unique(samples.y, return_inverse=True)
        owners = np.empty(samples.rows, dtype=np.intp)
        ends = np.cumsum(np.bincount(kinds))
        for rows in np.split(np.argsort(kinds, kind="stable"), ends[:-1]):
            shares = rng.dirichlet(np.full(count, self.alpha))
            owners[rng.permutation(rows)] = np.repeat(np.arange(count), _whole(shares, len(rows)))
        return _filled(grouped(owners, count), self.least)


class LogNormal(SizedSplit):
    """Alike clients of unlike sizes: shuffled rows in parts whose sizes are lognormal.

    Of n rows each of M clients has the least number k, and of the n - k M others a share that is
    proportional to exp(sigma z), z standard normal; all rows are dealt out.
    """

    source: ClassVar[str] = "Li et al., FedProx, MLSys 2020: lognormal sizes of synthetic data"
    sees_features: ClassVar[bool] = False

    kind: Literal["lognormal"] = "lognormal"
    sigma: float = Field(
        default=1.0, ge=0, le=20, description="standard deviation of the logarithm of sizes"
    )
    least: int = Field(default=1, ge=1, description="rows that each client has at least")

    def assign(
        self, samples: Samples, clients: int | None, rng: np.random.Generator
    ) -> tuple[Indices, ...]:
        """Return blocks of shuffled rows."""
        count = self.count(samples.rows, clients, self.least)
        weights = np.exp(self.sigma * rng.standard_normal(count))
        others = samples.rows - count * self.least
        sizes = self.least + _whole(weights / weights.sum(), others)
        return blocks(rng.permutation(samples.rows), sizes)


def _whole(shares: NDArray[np.float64], total: int) -> NDArray[np.intp]:
    """Return whole numbers near `total` times the shares, which sum to 1; they sum to `total`.

    They are the differences of the rounded cumulative sums, so that each is off by one
    at most.
    """
    ends = np.rint(np.cumsum(shares) * total).astype(np.intp)
    ends[-1] = total
    return np.diff(ends, prepend=0)


def _filled(parts: Sequence[Indices], least: int) -> tuple[Indices, ...]:
    """Return the parts after each small one has got rows, each of what was then the largest."""
    queue = [(-len(part), m) for m, part in enumerate(parts)]
    heapify(queue)
    given = [0] * len(parts)
    got: dict[int, list[Indices]] = {}
    for client in (m for m, part in enumerate(parts) if len(part) < least):
        got[client] = [parts[client]]
        for _ in range(least - len(parts[client])):
            size, donor = heappop(queue)  # larger than the least, so none that is itself small
            given[donor] += 1
            got[client].append(parts[donor][-given[donor] :][:1])
            heappush(queue, (size + 1, donor))
    kept = [part[: len(part) - gone] for part, gone in zip(parts, given, strict=True)]
    return tuple(np.concatenate(got[m]) if m in got else part for m, part in enumerate(kept))
