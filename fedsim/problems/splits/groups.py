"""The split that the data brings with it."""

# ruff: noqa: ARG002 - nothing is drawn

from typing import ClassVar, Literal

import numpy as np
from pydantic import Field

from fedsim.blocks.registry import kinds_where
from fedsim.blocks.wording import joined
from fedsim.errors import DataError
from fedsim.problems.data.base import Source
from fedsim.problems.samples import Samples
from fedsim.problems.splits.base import Indices, Split, grouped


class Groups(Split):
    """Each client has the rows that carry its number, clients by rising number."""

    source: ClassVar[str] = "Caldas et al., LEAF, 2018: data that is divided by nature"
    sees_features: ClassVar[bool] = False

    kind: Literal["groups"] = "groups"
    least: int = Field(
        default=1, ge=1, description="rows: clients of the data that have fewer are left out"
    )

    def assign(
        self, samples: Samples, clients: int | None, rng: np.random.Generator
    ) -> tuple[Indices, ...]:
        """Return the rows of each number."""
        if samples.client is None:
            those = joined(kinds_where(Source, lambda source: source.numbers_clients), "or")
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
        return grouped(owners[inverse], count)
