"""The split that the data brings with it."""

# ruff: noqa: ARG002 - nothing is drawn

from typing import ClassVar, Literal

import numpy as np

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
        distinct, inverse = np.unique(samples.client, return_inverse=True)
        if clients is not None and clients != len(distinct):
            raise DataError(
                "split", f"the data is of {len(distinct)} clients, but the fleet has {clients}"
            )
        return grouped(inverse, len(distinct))
