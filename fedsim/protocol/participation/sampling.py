"""Client sampling: how many clients a round samples, and how."""

from abc import abstractmethod
from collections.abc import Iterable, Iterator, Mapping
from math import floor
from typing import Any, ClassVar, Literal, Self

import numpy as np
from pydantic import Field, model_validator

from fedsim.core.blocks.choice import failure
from fedsim.core.blocks.quantities import ShareOrNone
from fedsim.core.blocks.spec import as_written
from fedsim.core.ports import Array
from fedsim.protocol.estimates import DrawnCohort, Estimate, draw_by_size, inclusion_probabilities
from fedsim.protocol.participation.asynchronous import ascending, permutation
from fedsim.protocol.participation.rounds import FIRST, Early, Rounds, at_least

Chances = Literal["equal", "by-size", "recorded", "unknown"]
"""The probabilities with which a policy asks each client, as far as they are known.

equal: the same for all clients.
by-size: inclusion probabilities proportional to the clients' numbers of samples.
recorded: the policy records the law of each draw.
unknown: the policy chooses clients by what it has seen, so no estimate is unbiased.
"""


def estimate_by(default: Estimate) -> Any:
    """Return the field of `participation.estimate` with a default."""
    return Field(
        default=default,
        description="how the server estimates the mean over all clients from the replies x_m of a"
        " sample, with weights p_m and probabilities pi_m: unbiased, the sum of p_m/pi_m x_m;"
        " self-normalised, the sum of p_m x_m over that of p_m; or plain, the mean of x_m",
    )


class Sample(Rounds):
    """Base class of client sampling: target number of replies, over-selection and order.

    Of a share the nearest whole number of clients is wanted, and at least one. Where more are
    asked than are wanted, the round closes with as many replies as are wanted (Bonawitz et al.).
    """

    count: int | None = Field(default=None, ge=1, description="clients per round")
    share: ShareOrNone = as_written(None, "clients per round as a share of all, in place of count")
    over: float = Field(
        default=1.0,
        ge=1,
        description="over-selection: sample `over` x `count` clients, use the first `count`",
    )
    estimate: Estimate = estimate_by("self-normalised")

    chances: ClassVar[Chances] = "unknown"
    """What is known of the clients' probabilities; `estimate: unbiased` needs to know them."""

    @model_validator(mode="after")
    def _one_size(self) -> Self:
        if self.count is None and self.share is None:
            raise failure(("count", "missing: give count or share", None))
        if self.count is not None and self.share is not None:
            raise failure(("share", "given beside count; give one of the two", self.share))
        return self

    @model_validator(mode="after")
    def _known_chances(self) -> Self:
        if self.estimate == "unbiased" and self.chances == "unknown":
            text = (
                f"got unbiased, but the probabilities with which {self.kind} chooses clients are"
                " not known; give self-normalised or plain"
            )
            raise failure(("estimate", text, self.estimate))
        return self

    def among(self, clients: int) -> Self:
        """Return the policy with a count in place of a share."""
        if self.share is None:
            return self
        # Half rounds up: `round` would round half to even, and give 2 for 0.5 x 5 clients.
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
        """Return the target number of replies if it over-selects, else that of the base class."""
        if self.over_selects and self.count is not None:
            return min(self.count, cohort)
        return super().goal(cohort)

    def expected_shares(self, sizes: Array) -> Array:
        """Return q, each client's share of the expected draws if all can be asked, shape (M,).

        Equal by default. Policies whose chances are recorded or unknown do not use it.

        Args:
            sizes: the number of samples of each client, shape (M,).
        """
        return np.full(len(sizes), 1 / len(sizes))

    @abstractmethod
    def order(self, samples: Array, number: int, rng: np.random.Generator) -> Iterable[int]:
        """Return all clients, from 0, in the order in which the cohort is filled.

        Unavailable clients are passed over.

        Args:
            samples: the number of samples of each client, shape (M,).
            number: the number of earlier draws.
            rng: the stream of the draws.
        """


class UniformParticipation(Sample):
    """A sample without replacement, every client as likely as any other."""

    kind: Literal["uniform"] = Field(default="uniform", description="a sample of all clients")
    chances: ClassVar[Chances] = "equal"

    def order(self, samples: Array, number: int, rng: np.random.Generator) -> Iterable[int]:
        """Return a random permutation."""
        return permutation(len(samples), rng)


class PoissonParticipation(Sample):
    """Each client takes part independently, with one probability: the cohort's size varies.

    A round without any client is drawn again. Privacy is amplified most by this sampling; see
    `fedsim.protocol.privacy`.
    """

    kind: Literal["poisson"] = Field(
        default="poisson",
        description="each client independently, with the same probability (Poisson sampling)",
    )
    count: int | None = Field(default=None, ge=1, description="expected clients per round")
    over: Literal[1] = Field(default=1, description="fixed: the size of a cohort varies")
    chances: ClassVar[Chances] = "equal"

    def order(self, samples: Array, number: int, rng: np.random.Generator) -> Iterable[int]:
        """Return the clients of a round, ascending; at least one."""
        probability = min((self.asked or len(samples)) / len(samples), 1.0)
        drawn = np.zeros(0, np.int64)
        while not len(drawn):
            drawn = np.flatnonzero(rng.random(len(samples)) < probability)
        return list(map(int, drawn))


def weighted_order(weights: Array, rng: np.random.Generator) -> Iterable[int]:
    """Return an order of weighted draws without replacement; the weights are above 0."""
    # Efraimidis and Spirakis 2006: the order of Exp(1)/w is that of weighted draws.
    return ascending(rng.standard_exponential(len(weights)) / weights)


class WeightedParticipation(Sample):
    """A sample without replacement, with probabilities in proportion to clients' samples.

    The inclusion probabilities are those of the clients that can be asked: K n_m/sum n_j for a
    sample of K, and 1 for a client with more than a share of 1/K (systematic sampling in random
    order, Goodman and Kish 1950). The unbiased estimate is then the plain mean over the replies,
    where no client has so many samples.
    """

    kind: Literal["weighted"] = Field(default="weighted", description="clients weighted by samples")
    by: Literal["samples"] = Field(
        default="samples", description="what the probability of a client is proportional to"
    )
    estimate: Estimate = estimate_by("unbiased")
    chances: ClassVar[Chances] = "by-size"

    def draw(self, sizes: Array, available: float, rng: np.random.Generator) -> DrawnCohort:
        """Return the cohort of a round.

        Args:
            sizes: the number of samples of each client that can be asked, shape (A,).
            available: the share of all samples that these clients hold.
            rng: the stream of the draws.
        """
        return draw_by_size(sizes, self._asked_of(sizes), available, rng)

    def expected_shares(self, sizes: Array) -> Array:
        """Return q; see `Sample.expected_shares`."""
        count = self._asked_of(sizes)
        return inclusion_probabilities(sizes, count) / count

    def _asked_of(self, sizes: Array) -> int:
        return len(sizes) if self.asked is None else min(self.asked, len(sizes))

    def order(self, samples: Array, number: int, rng: np.random.Generator) -> Iterable[int]:
        """Return the cohort of a round in which all can be asked, then the others by weight."""
        cohort = self.draw(samples, 1.0, rng).clients
        yield from cohort.tolist()
        others = np.delete(np.arange(len(samples)), cohort)
        if len(others):  # a stream of its own, since the caller may not need these draws
            order = weighted_order(samples[others], rng.spawn(1)[0])
            yield from (int(others[place]) for place in order)
