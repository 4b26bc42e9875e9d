"""Participation by loss: power-of-choice.

Cho, Wang, Joshi, "Towards Understanding Biased Client Selection in Federated Learning", AISTATS
2022 (Algorithm 1, pow-d): d candidates are drawn without replacement, in proportion to their
samples; they are sent the model and report their loss at it; the m with the largest losses are
asked for an update. The reports take a round trip of their own, which is charged: the model goes to
all d candidates, and those that are chosen get an empty message then.

The server takes the plain mean over the m. It is biased towards clients with large losses, which is
the point of the method.

The variant rpow-d has no such round trip: a client reports its loss with each update, and the last
report counts. A client without one goes first.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import ClassVar, Literal, Self

import numpy as np
from pydantic import Field, model_validator

from fedsim.core.blocks.choice import failure
from fedsim.core.ports import Array, ClientId
from fedsim.protocol.estimates import Estimate
from fedsim.protocol.participation.informed import (
    ExchangeOutcome,
    KnownFleet,
    Moment,
    Report,
    Selector,
    WithOracle,
)
from fedsim.protocol.participation.sampling import WeightedParticipation, estimate_by


class PowerOfChoiceParticipation(WithOracle):
    """Power-of-choice: the clients with the largest losses among some candidates.

    Candidates are drawn in proportion to their samples. The oracle knows the losses of all.
    """

    kind: Literal["power-of-choice"] = Field(
        default="power-of-choice", description="clients with the largest losses among candidates"
    )
    candidates: int = Field(ge=1, description="d: number of candidates")
    losses: Literal["asked", "last"] = Field(
        default="asked",
        description=(
            "asked: candidates are asked for their loss first, which is charged; last: the"
            " loss that each reported with its last update"
        ),
    )
    estimate: Estimate = estimate_by("plain")

    reports: ClassVar[tuple[Report, ...]] = ("loss",)
    source: ClassVar[str] = (
        "Cho, Wang, Joshi: Towards Understanding Biased Client Selection in Federated Learning,"
        " AISTATS 2022"
    )

    @model_validator(mode="after")
    def _enough(self) -> Self:
        if self.over_selects:
            text = f"got {self.over:g}, but candidates take its place; leave it out"
            raise failure(("over", text, self.over))
        if self.count is not None and self.candidates < self.count:
            text = f"got {self.candidates}, fewer than count, {self.count}; give as many or more"
            raise failure(("candidates", text, self.candidates))
        return self

    @property
    def candidates_asked(self) -> bool:  # type: ignore[override]  # a class variable elsewhere
        """Whether candidates report in a separate exchange."""
        return self.losses == "asked"

    @property
    def counts(self) -> Mapping[str, int]:
        """The count and the candidates."""
        return {**super().counts, "candidates": self.candidates}

    @property
    def asked(self) -> int | None:
        """The number of candidates if these are asked first, else the count."""
        return self.candidates if self.candidates_asked and self.reported else super().asked

    def selector(self, fleet: KnownFleet) -> Selector:
        """Return the state before any loss is known."""
        return LossSelector(self, fleet)


class LossSelector(Selector):
    """The last reported losses.

    Attributes:
        losses: each client's last reported loss, shape (M,); infinite before its first report.
    """

    def __init__(self, policy: PowerOfChoiceParticipation, fleet: KnownFleet) -> None:
        self._policy, self._fleet = policy, fleet
        self._draws = WeightedParticipation(count=policy.candidates)
        self.losses = np.full(fleet.count, np.inf)

    def rank(self, moment: Moment, rng: np.random.Generator) -> Iterable[ClientId]:
        """Return the candidates, then all others in the order of the draw."""
        order = iter(self._draws.order(self._fleet.samples, moment.number, rng))
        truth = self._fleet.truth
        # The candidates report first; `narrow` chooses among them.
        if truth is None and self._policy.candidates_asked:
            return order
        if truth is not None and moment.sent is not None:
            self.losses = truth.losses(moment.sent)
        return self._sort_candidates(order)

    def _sort_candidates(self, order: Iterator[ClientId]) -> Iterator[ClientId]:
        candidates = list(islice(order, self._policy.candidates))
        yield from _largest(candidates, self.losses[candidates])
        yield from order

    def narrow(self, moment: Moment, outcome: ExchangeOutcome) -> Sequence[ClientId]:
        """Return the candidates with the largest reported losses."""
        reported = outcome.where_reported("loss")
        return _largest(reported.clients.tolist(), reported.reports["loss"])[: moment.wanted]

    def observe(self, outcome: ExchangeOutcome) -> None:
        """Store the reports."""
        if self._fleet.truth is None:
            reported = outcome.where_reported("loss")
            self.losses[reported.clients] = reported.reports["loss"]


def _largest(clients: Sequence[ClientId], losses: Array) -> list[ClientId]:
    """Return the clients by loss, the largest first; ties stay in order."""
    return [clients[place] for place in np.argsort(-losses, kind="stable").tolist()]
