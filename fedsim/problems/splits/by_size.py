"""Splits into equal parts, into the data's own clients, and into uneven parts."""

from collections.abc import Sequence
from heapq import heapify, heappop, heappush
from typing import ClassVar, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from fedsim.core.blocks.registry import kinds_where
from fedsim.core.blocks.wording import join_names
from fedsim.core.errors import DataError
from fedsim.problems.data.base import Source
from fedsim.problems.samples import Samples
from fedsim.problems.splits.base import Indices, SizedSplit, Split, blocks, group_rows


class _EqualParts(SizedSplit):
    """Blocks of ordered rows, whose lengths differ by at most one."""

    remainder: Literal["spread", "drop"] = Field(
        default="spread",
        description="treatment of the n mod M rows left over: spread, one each over the first "
        "clients, or dropped, so that all parts are equal; a note counts dropped rows",
    )

    def sizes(self, rows: int, clients: int | None) -> NDArray[np.intp]:
        """Return the number of rows of each client, shape (M,).

        Raises:
            DataError: the number of clients is not known, contradicts the fleet's, or is larger
                than the number of rows.
        """
        count = self.count(rows, clients)
        equal = np.full(1, rows // count, dtype=np.intp)
        if self.remainder == "drop" or rows % count == 0:
            return np.broadcast_to(equal, count)  # a view of one number, to save memory
        sizes = np.repeat(equal, count)
        sizes[: rows % count] += 1
        return sizes


class Contiguous(_EqualParts):
    """Equal blocks of consecutive rows, in the order of the data."""

    source: ClassVar[str] = "as in CHB and LAG"
    sees_features: ClassVar[bool] = False

    kind: Literal["contiguous"] = "contiguous"

    def assign(
        self, samples: Samples, clients: int | None, rng: np.random.Generator
    ) -> Sequence[Indices]:
        """Return consecutive blocks of rows."""
        return blocks(range(samples.rows), self.sizes(samples.rows, clients))


class IID(_EqualParts):
    """Equal blocks after a seeded shuffle, so that clients are alike."""

    source: ClassVar[str] = "McMahan et al., AISTATS 2017, Section 3"
    sees_features: ClassVar[bool] = False

    kind: Literal["iid"] = "iid"
    stratify: bool = Field(
        default=False,
        description=(
            "whether each label is dealt out evenly: the numbers of rows with a label"
            " differ by at most one between clients"
        ),
    )

    def assign(
        self, samples: Samples, clients: int | None, rng: np.random.Generator
    ) -> Sequence[Indices]:
        """Return blocks of shuffled rows."""
        sizes, shuffled = self.sizes(samples.rows, clients), rng.permutation(samples.rows)
        if not self.stratify:
            return blocks(shuffled, sizes)
        # Rows are dealt in turn from a list sorted by label; the dropped rows are put aside.
        kept = shuffled[: sizes.sum()]
        deck = kept[np.argsort(samples.y[kept], kind="stable")]
        return tuple(deck[m :: len(sizes)] for m in range(len(sizes)))


# The split given by the data's own client numbers.


class Groups(Split):
    """Each client has the rows that carry its number; clients are in ascending order."""

    source: ClassVar[str] = "Caldas et al., LEAF, 2018: data that is divided by nature"
    sees_features: ClassVar[bool] = False

    kind: Literal["groups"] = "groups"
    least: int = Field(
        default=1,
        ge=1,
        description="fewest rows of a client; clients of the data with fewer are left out",
    )

    def assign(
        self, samples: Samples, clients: int | None, rng: np.random.Generator
    ) -> Sequence[Indices]:
        """Return the rows of each number."""
        if samples.client is None:
            those = join_names(kinds_where(Source, lambda source: source.numbers_clients), "or")
            raise DataError(
                "split",
                f"groups takes data that numbers the client of each row: {those}; this data"
                " does not",
            )
        _, inverse, sizes = np.unique(samples.client, return_inverse=True, return_counts=True)
        large = sizes >= self.least
        if not large.any():
            text = f"got {self.least}, but the largest client of the data has {sizes.max()} rows"
            raise DataError("split.least", text)
        count = int(large.sum())
        if clients is not None and clients != count:
            which = f" with {self.least} rows or more" if self.least > 1 else ""
            raise DataError(
                "split", f"the data is of {count} clients{which}, but the fleet has {clients}"
            )
        owners = np.where(large, np.cumsum(large) - 1, -1)
        return group_rows(owners[inverse], count)


# Splits into uneven parts: of each label, or of all rows.

_LEAST = Field(
    default=1,
    ge=1,
    description="rows that each client has: one left with fewer takes from the client with most",
)


class Dirichlet(SizedSplit):
    """The rows of each label are dealt out in proportions from a Dirichlet distribution.

    For each label, the M proportions are drawn independently. The smaller alpha is, the fewer
    clients have most of a label. Clients have different numbers of rows; for equal numbers, see
    `label-mix`. A client left with too few rows takes rows, one by one, from the client that has
    the most.
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
    ) -> Sequence[Indices]:
        """Return each client's shares of all labels."""
        count = self.count(samples.rows, clients, self.least)
        _, kinds = np.unique(samples.y, return_inverse=True)
        owners = np.empty(samples.rows, dtype=np.intp)
        ends = np.cumsum(np.bincount(kinds))
        for rows in np.split(np.argsort(kinds, kind="stable"), ends[:-1]):
            shares = rng.dirichlet(np.full(count, self.alpha))
            owners[rng.permutation(rows)] = np.repeat(np.arange(count), _whole(shares, len(rows)))
        return _fill(group_rows(owners, count), self.least)


class LogNormal(SizedSplit):
    """Clients with alike data but different sizes: shuffled rows, in parts of lognormal sizes.

    Each of the M clients has the least number k of the n rows, and a share of the other n - k M
    rows that is proportional to exp(sigma z), z standard normal. All rows are dealt out.
    """

    source: ClassVar[str] = "Li et al., FedProx, MLSys 2020: lognormal sizes of synthetic data"
    sees_features: ClassVar[bool] = False

    kind: Literal["lognormal"] = "lognormal"
    sigma: float = Field(
        default=1.0, ge=0, le=20, description="standard deviation of the logarithm of sizes"
    )
    least: int = Field(default=1, ge=1, description="fewest rows of a client")

    def assign(
        self, samples: Samples, clients: int | None, rng: np.random.Generator
    ) -> Sequence[Indices]:
        """Return blocks of shuffled rows."""
        count = self.count(samples.rows, clients, self.least)
        weights = np.exp(self.sigma * rng.standard_normal(count))
        others = samples.rows - count * self.least
        sizes = self.least + _whole(weights / weights.sum(), others)
        return blocks(rng.permutation(samples.rows), sizes)


def _whole(shares: NDArray[np.float64], total: int) -> NDArray[np.intp]:
    """Return whole numbers close to `total` times the shares (summing to 1), summing to `total`.

    They are differences of rounded cumulative sums, so each is off by at most one.
    """
    ends = np.rint(np.cumsum(shares) * total).astype(np.intp)
    ends[-1] = total
    return np.diff(ends, prepend=0)


def _fill(parts: Sequence[Indices], least: int) -> Sequence[Indices]:
    """Return the parts after each small one took rows, one by one, from the currently largest."""
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
