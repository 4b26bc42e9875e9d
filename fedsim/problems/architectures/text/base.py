"""What networks for tokens have in common: rows of whole numbers from 0."""

from typing import ClassVar

import numpy as np
from pydantic import Field

from fedsim.errors import DataError
from fedsim.problems.architectures.base import Architecture
from fedsim.problems.features import Features


class TokenNetwork(Architecture):
    """A network for rows of tokens, which says what comes after them."""

    tokens: ClassVar[bool] = True

    vocabulary: int | None = Field(
        default=None, ge=2, description="how many tokens there are; as many as outputs if null"
    )

    def known(self, outputs: int) -> int:
        """Return how many tokens there are."""
        return self.vocabulary or outputs

    def check(self, X: Features, outputs: int) -> None:
        """See to it that all are tokens; see `Architecture.check`."""
        known = self.known(outputs)
        wrong = (np.floor(X) != X) | (X < 0) | (known <= X)
        if wrong.any():
            seen = f"{X[wrong][0]:g}"
            raise DataError(
                "loss.model",
                f"{self.kind} takes tokens, whole numbers from 0 to {known - 1}; the data has "
                f"{seen}: say how many there are (vocabulary), or how many outputs (loss.outputs)",
            )
