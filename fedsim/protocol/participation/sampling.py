"""Client sampling: how many clients a round samples, and how."""

# ruff: noqa: ARG002 - an order may need less than its base hands over

from abc import abstractmethod
from collections.abc import Iterable, Iterator, Mapping
from math import floor
from typing import Literal, Self

import numpy as np
from pydantic import Field, model_validator

from fedsim.blocks.choice import failure
from fedsim.blocks.quantities import ShareOrNone
from fedsim.blocks.spec import as_written
from fedsim.ports import Array
from fedsim.protocol.participation.asynchronous import ascending, permutation
from fedsim.protocol.participation.rounds import FIRST, Early, Rounds, at_least


class Sample(Rounds):
    """Base class of client sampling: target number of replies, over-selection and order.

    Of a share the nearest whole number of clients is wanted, and at least one. Where more are
    asked than are wanted, the round closes with as many replies as are wanted (Bonawitz et al.).
    """

    count: int | None = Field(default=None, ge=1, description="how many clients a round")
    share: ShareOrNone = as_written(None, "how many, as a share of all, in place of count")
    over: float = Field(
        default=1.0, ge=1, description="so many times as many are asked, the first ones count"
    )

    @model_validator(mode="after")
    def _one_size(self) -> Self:
        if self.count is None and self.share is None:
            raise failure(("count", "missing: give count or share", None))
        if self.count is not None and self.share is not None:
            raise failure(("share", "given beside count; give one of the two", self.share))
        return self

    def among(self, clients: int) -> Self:
        """Return the policy with a count, where it has a share."""
        if self.share is None:
            return self
        count = max(1, floor(self.share * clients + 0.5))
        return self.model_copy(update={"count": count, "share": None})

    @property
    def asks_all(self) -> bool:
        """False: it samples clients."""
        return False

    @property
    def counts(self) -> Mapping[str, int]:
        """The count, if there is one."""
        return {} if self.count is None else {"count": self.count}

    @property
    def over_selects(self) -> bool:
        """Whether `over` exceeds 1."""
        return self.over > 1.0

    def early(self) -> Iterator[Early]:
        """Yield the rules that may close a round before every recipient has replied."""
        yield from super().early()
        if self.over_selects:
            yield Early("over", f"{self.over:g}", FIRST)

    @property
    def wanted(self) -> int | None:
        """The count; None before the size of the fleet is known."""
        return self.count

    @property
    def asked(self) -> int | None:
        """The cohort size: `over` times the count."""
        return None if self.count is None else at_least(self.over * self.count)

    def goal(self, cohort: int) -> float:
        """Return the target number of replies when over-selecting; otherwise as the base class."""
        if self.over_selects and self.count is not None:
            return min(self.count, cohort)
        return super().goal(cohort)

    @abstractmethod
    def order(self, samples: Array, number: int, rng: np.random.Generator) -> Iterable[int]:
        """Return all clients, from 0, in the order in which the cohort is filled.

        Unavailable clients are passed over.

        Args:
            samples: how many each client has, shape (M,).
            number: how many draws there were before.
            rng: the stream of the draws.
        """


class UniformParticipation(Sample):
    """A sample without replacement, every client as likely as any other."""

    kind: Literal["uniform"] = Field(default="uniform", description="a sample of all clients")

    def order(self, samples: Array, number: int, rng: np.random.Generator) -> Iterable[int]:
        """Return a random permutation."""
        return permutation(len(samples), rng)


def weighted_order(weights: Array, rng: np.random.Generator) -> Iterable[int]:
    """Return an order in which each next client is drawn in proportion to its weight, above 0."""
    # Efraimidis and Spirakis 2006: the order of Exp(1)/w is that of weighted draws.
    return ascending(rng.standard_exponential(len(weights)) / weights)


class WeightedParticipation(Sample):
    """A sample without replacement, clients of more weight more likely."""

    kind: Literal["weighted"] = Field(default="weighted", description="a weighted sample")
    by: Literal["samples"] = Field(default="samples", description="what a client weighs")

    def order(self, samples: Array, number: int, rng: np.random.Generator) -> Iterable[int]:
        """Return an order in which each next client is sampled in proportion to its samples."""
        return weighted_order(samples, rng)
