"""Importance sampling: some clients are drawn more often, and their updates get less weight.

In a round n draws with replacement are made, client i with probability q_i. If it is drawn k_i
times, its update Delta_i counts k_i/(n q_i) times (`fedsim.protocol.estimates`), so that the step

    sum_i k_i/(n q_i) p_i Delta_i

has the expectation sum_i p_i Delta_i, the step of all clients. Its variance is least for q_i in
proportion to p_i |Delta_i| (Chen, Horvath, Richtarik, "Optimal Client Sampling for Federated
Learning", TMLR 2022; Zhao, Zhang, ICML 2015). The norms are those that clients have last reported;
a client without a report takes the mean of the others'. A share of the draws is by p_i only, which
bounds the factors: a norm that was reported long ago may be too small.

The estimate is unbiased as long as the clients that are drawn and do not reply, since they are
offline or miss a deadline, are missing at random: n counts the draws of those that reply.
"""

from collections.abc import Iterable
from typing import ClassVar, Literal, Self

import numpy as np
from pydantic import Field, model_validator

from fedsim.core.blocks.choice import failure
from fedsim.core.blocks.quantities import Fraction
from fedsim.core.blocks.spec import as_written
from fedsim.core.ports import Array, ClientId
from fedsim.protocol.estimates import DrawnCohort, Estimate
from fedsim.protocol.participation.informed import (
    ExchangeOutcome,
    KnownFleet,
    Moment,
    Report,
    Selector,
    WithOracle,
)
from fedsim.protocol.participation.sampling import Chances, estimate_by


class ImportanceParticipation(WithOracle):
    """Importance sampling with weights that keep the step unbiased.

    Draws are with replacement, so that a round asks at most `count` different clients. The oracle
    knows the norms of all clients' gradients at the model.
    """

    kind: Literal["importance"] = Field(
        default="importance", description="unequal probabilities, unbiased weights"
    )
    by: Literal["norm", "samples"] = Field(
        default="norm",
        description="probabilities in proportion to the clients' weights times the norms of their"
        " last updates, which they report; or to the weights alone",
    )
    plain: Fraction = as_written("10 %", "share of draws by weights alone")
    estimate: Estimate = estimate_by("unbiased")

    chances: ClassVar[Chances] = "recorded"
    complete: ClassVar[bool] = False
    source: ClassVar[str] = (
        "Chen, Horvath, Richtarik: Optimal Client Sampling for Federated Learning, TMLR 2022"
    )

    @model_validator(mode="after")
    def _no_over(self) -> Self:
        if self.over_selects:
            text = (
                f"got {self.over:g}, but a step without some of those drawn is biased; leave it out"
            )
            raise failure(("over", text, self.over))
        return self

    @property
    def reports(self) -> tuple[Report, ...]:  # type: ignore[override]  # a class variable elsewhere
        """The norm, if the probabilities depend on it."""
        return ("norm",) if self.by == "norm" else ()

    @property
    def by_schedule(self) -> bool:  # type: ignore[override]  # a class variable elsewhere
        """Whether choices depend on no report."""
        return self.by == "samples"

    def selector(self, fleet: KnownFleet) -> Selector:
        """Return the state before any norm is known."""
        return ImportanceSelector(self, fleet)


class ImportanceSelector(Selector):
    """The last reported norms, and the last draw.

    Attributes:
        norms: each client's last reported norm, shape (M,); NaN before its first report.
    """

    def __init__(self, policy: ImportanceParticipation, fleet: KnownFleet) -> None:
        self._policy, self._fleet = policy, fleet
        self.norms = np.full(fleet.count, np.nan)
        self._draw: DrawnCohort | None = None

    @property
    def probabilities(self) -> Array:
        """q, shape (M,)."""
        weights = np.asarray(self._fleet.weights / self._fleet.weights.sum())
        known = ~np.isnan(self.norms)
        if not known.any():
            return weights
        scaled = weights * np.where(known, self.norms, self.norms[known].mean())
        total, plain = scaled.sum(), self._policy.plain
        if not total > 0:
            return weights
        return np.asarray((1 - plain) * scaled / total + plain * weights)

    def rank(self, moment: Moment, rng: np.random.Generator) -> Iterable[ClientId]:
        """Return the drawn clients, each once."""
        truth = self._fleet.truth
        if truth is not None and moment.sent is not None and self._policy.by == "norm":
            self.norms = truth.norms(moment.sent)
        q = self.probabilities
        # With replacement, so that each draw has the law q, and the weights k/(n q) are exact.
        drawn = rng.choice(len(q), size=moment.wanted, p=q)
        clients, times = np.unique(drawn, return_counts=True)
        self._draw = DrawnCohort(clients, q[clients], times.astype(float))
        return [int(client) for client in clients]

    def observe(self, outcome: ExchangeOutcome) -> None:
        """Store the reports."""
        if self._fleet.truth is None and self._policy.by == "norm":
            reported = outcome.where_reported("norm")
            self.norms[reported.clients] = reported.reports["norm"]

    def last_draw(self) -> DrawnCohort | None:
        """Return the clients of the last draw, with their q_i and k_i."""
        return self._draw
