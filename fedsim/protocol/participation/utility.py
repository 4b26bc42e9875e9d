"""Participation by utility: Oort's, and its combination with the clients' batteries (EAFL).

Lai, Zhu, Madhyastha, Chowdhury, "Oort: Efficient Federated Learning via Guided Participant
Selection", OSDI 2021 (Algorithm 1). A client that has been asked before has the utility

    Util(i) = U(i) + sqrt(0.1 log R / L(i)),   times (T / t(i))^alpha where t(i) > T,

with its statistical utility U(i) = |B_i| sqrt(mean of loss^2 over its samples B_i), the number R of
the round, the round L(i) in which it has last answered, and the time t(i) that it took. T is the
duration that the server prefers. A share epsilon of the cohort is explored, the rest is exploited:
sampled in proportion to utility among all whose utility is at least 95 % of the last place's.

As in the authors' implementation (FedScale), U(i) is clipped at its 95 % quantile and scaled to
[0, 1], and T is a quantile of the known times: `pace`, which the pacer raises by `pacer_step` once
the utility gathered in a window of rounds is less than in the window before. A client reports the
root mean square of the losses of its samples at the received model, one number; where its loss
knows no losses of single samples, their mean. Clients are not banned after a number of rounds.

Arouj, Abdelmoniem, "Towards Energy-Aware Federated Learning via Collaborative Computing Approach"
(EAFL), 2022: the reward f Util(i) + (1 - f) power(i), both in [0, 1], where power(i) is the charge
that is left: the one last reported, less the drop between the last two reports. In its place
`energy: harvest` takes the last report of the share of a client's power at work that its battery is
charged with, which is not of that paper.
"""

from collections.abc import Iterable, Iterator
from typing import ClassVar, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from fedsim.core.blocks.quantities import Fraction
from fedsim.core.blocks.spec import as_written
from fedsim.core.ports import Array, ClientId
from fedsim.protocol.participation.asynchronous import ascending
from fedsim.protocol.participation.informed import (
    ExchangeOutcome,
    KnownFleet,
    Moment,
    Report,
    Selector,
    WithOracle,
    descending,
)

_CLIP = 0.95
"""The quantile at which statistical utilities are clipped."""

_CUTOFF = 0.95
"""Clients with at least this share of the last place's utility may be exploited."""

_STALE = 0.1
"""The weight of staleness in the utility."""


class UtilityParticipation(WithOracle):
    """Base class of sampling by Oort's utility."""

    exploration: Fraction = as_written(
        "90 %", "epsilon in the first round: share of the cohort that was never sampled before"
    )
    decay: float = Field(default=0.98, gt=0, le=1, description="factor on epsilon per round")
    least_exploration: Fraction = as_written("20 %", "smallest epsilon")
    penalty: float = Field(
        default=2.0,
        ge=0,
        description="alpha in (T/t)^alpha for clients slower than T (stragglers); 0 for none",
    )
    pace: Fraction = as_written("30 %", "quantile of the known times of clients that is T")
    pacer_step: Fraction = as_written("10 %", "step by which the pacer raises the pace")
    pacer_window: int = Field(default=20, ge=1, description="rounds per window of the pacer")
    staleness: bool = Field(
        default=True, description="whether clients gain utility while they are not sampled"
    )

    source: ClassVar[str] = (
        "Lai et al.: Oort: Efficient Federated Learning via Guided Participant Selection, OSDI 2021"
    )

    def selector(self, fleet: KnownFleet) -> Selector:
        """Return the state before any client has been explored."""
        return UtilitySelector(self, fleet)


class OortParticipation(UtilityParticipation):
    """Oort: clients with large losses that answer fast, and a share of clients to explore.

    Clients report the root mean square of their samples' losses at the received model. The oracle
    knows all losses and mean times, and explores nothing.
    """

    kind: Literal["oort"] = Field(
        default="oort", description="clients with large losses and fast replies"
    )
    reports: ClassVar[tuple[Report, ...]] = ("rms_loss",)


class EnergyAwareParticipation(UtilityParticipation):
    """EAFL: Oort's utility weighed against the charge that is left in the clients' batteries.

    Clients report their losses as for Oort, and their state of charge; or, with `energy: harvest`,
    the share of their power at work that they harvest at that time. Both are 1 on mains.
    """

    kind: Literal["energy-aware"] = Field(
        default="energy-aware",
        description="clients with large losses, fast replies and full batteries",
    )
    reports: ClassVar[tuple[Report, ...]] = ("rms_loss", "charge")
    source: ClassVar[str] = (
        "Arouj, Abdelmoniem: Towards Energy-Aware Federated Learning via Collaborative Computing"
        " Approach, 2022 (EAFL)"
    )

    utility: Fraction = as_written("25 %", "f: the weight of Oort's utility; the rest is energy")
    energy: Literal["charge", "harvest"] = Field(
        default="charge",
        description="the energy that counts: the remaining charge, or the harvested power",
    )

    @property
    def reported(self) -> tuple[Report, ...]:
        """The loss and the energy report; nothing for the oracle."""
        return () if self.sees_all else ("rms_loss", self.energy)

    def selector(self, fleet: KnownFleet) -> Selector:
        """Return the state before any client has been explored."""
        return EnergySelector(self, fleet)


class UtilitySelector(Selector):
    """The utilities of the explored clients, and the pacer.

    Attributes:
        losses: each client's last reported loss, shape (M,); NaN for a client not yet explored.
        seconds: the time of each client's last reply, s, shape (M,).
        last: the round of each client's last reply, from 1, shape (M,); 0 for none.
        epsilon: the share of the next cohort that is explored.
        pace: the current quantile of the times that gives the preferred duration T.
    """

    def __init__(self, policy: UtilityParticipation, fleet: KnownFleet) -> None:
        self.policy, self.fleet = policy, fleet
        self.losses = np.full(fleet.count, np.nan)
        self.seconds = np.full(fleet.count, np.nan)
        self.last = np.zeros(fleet.count)
        self.epsilon = policy.exploration
        self.pace = policy.pace
        self._gathered: list[float] = []

    def rank(self, moment: Moment, rng: np.random.Generator) -> Iterable[ClientId]:
        """Return exploited clients, explored ones, and then all others by utility."""
        truth = self.fleet.truth
        if truth is not None:
            if moment.sent is not None:
                self.losses = truth.rms_losses(moment.sent)
            self.seconds = truth.seconds()
            self.last = np.maximum(self.last, 1.0)
        known = np.flatnonzero(self.last > 0)
        new = np.flatnonzero(self.last == 0)
        # The oracle knows all clients. Otherwise we explore at least the places that the explored
        # clients cannot fill.
        explore = 0 if truth is not None else round(self.epsilon * moment.wanted)
        explore = min(max(explore, moment.wanted - len(known)), len(new))
        utilities = self.utilities(known, moment.number + 1)
        exploited = self._exploit(utilities, moment.wanted - explore, rng)
        return self._order(known, utilities, exploited, new, explore, rng)

    def _order(
        self,
        known: NDArray[np.intp],
        utilities: Array,
        exploited: NDArray[np.intp],
        new: NDArray[np.intp],
        explore: int,
        rng: np.random.Generator,
    ) -> Iterator[ClientId]:
        explored = rng.permutation(len(new))
        # After the cohort's own places: clients that are asked only if some of these are not
        # available.
        rest = np.full(len(known), True)  # noqa: FBT003 - a value
        rest[exploited] = False
        others = np.flatnonzero(rest)
        yield from known[exploited].tolist()
        yield from new[explored[:explore]].tolist()
        yield from (int(known[others[place]]) for place in descending(utilities[others], rng))
        yield from new[explored[explore:]].tolist()

    def _exploit(self, utilities: Array, count: int, rng: np.random.Generator) -> NDArray[np.intp]:
        """Return the places of the exploited clients, sampled in proportion to utility."""
        count = min(count, len(utilities))
        if count <= 0:
            return np.arange(0)
        last = np.partition(utilities, len(utilities) - count)[len(utilities) - count]
        pool = np.flatnonzero(utilities >= _CUTOFF * last)
        # Above 0, so that clients with utility 0 can fill the last places.
        weights = np.maximum(utilities[pool], np.finfo(float).tiny)
        # Efraimidis and Spirakis 2006: the order of Exp(1)/w is that of weighted draws.
        keys = rng.standard_exponential(len(pool)) / weights
        order = ascending(keys)
        return pool[[next(order) for _ in range(count)]]

    def utilities(self, known: NDArray[np.intp], number: int) -> Array:
        """Return the utilities of known clients, shape (len(known),).

        Args:
            known: the explored clients.
            number: the number of the round, from 1.
        """
        policy = self.policy
        if not len(known):
            return np.zeros(0)
        raw = self.fleet.samples[known] * np.abs(self.losses[known])
        raw = np.minimum(raw, np.quantile(raw, _CLIP))
        span = raw.max() - raw.min()
        scaled = (raw - raw.min()) / span if span > 0 else np.ones(len(known))
        if policy.staleness and self.fleet.truth is None:
            scaled = scaled + np.sqrt(_STALE * np.log(number) / self.last[known])
        if policy.penalty:
            seconds = self.seconds[known]
            preferred = np.quantile(seconds, self.pace)
            slow = seconds > preferred
            scaled[slow] *= (preferred / seconds[slow]) ** policy.penalty
        return np.asarray(scaled)

    def observe(self, outcome: ExchangeOutcome) -> None:
        """Store the reports and the times; let epsilon decay and the pacer step."""
        policy = self.policy
        if self.fleet.truth is not None:
            return
        reported = outcome.where_reported("rms_loss")
        clients = reported.clients
        self.losses[clients] = reported.reports["rms_loss"]
        self.seconds[clients] = reported.seconds
        self.last[clients] = outcome.number + 1
        self.epsilon = max(policy.least_exploration, self.epsilon * policy.decay)
        gained = self.fleet.samples[clients] @ np.abs(self.losses[clients])
        self._pace(float(gained))

    def _pace(self, gained: float) -> None:
        """Raise the pace once a window of rounds has gathered less than the window before."""
        window = self.policy.pacer_window
        self._gathered.append(gained)
        # Windows do not overlap: the later one becomes the earlier one of the next comparison.
        if len(self._gathered) == 2 * window:
            before, after = sum(self._gathered[:window]), sum(self._gathered[window:])
            if after < before:
                self.pace = min(1.0, self.pace + self.policy.pacer_step)
            del self._gathered[:window]


class EnergySelector(UtilitySelector):
    """The utilities, and the charges or harvests that the clients have reported.

    Attributes:
        charges: each client's last report, shape (M,); 1 before the first one.
        used: the drop of the charge between a client's last two reports, shape (M,); 0 for
            harvests.
    """

    policy: EnergyAwareParticipation

    def __init__(self, policy: EnergyAwareParticipation, fleet: KnownFleet) -> None:
        super().__init__(policy, fleet)
        self.charges = np.ones(fleet.count)
        self.used = np.zeros(fleet.count)
        self._harvests = policy.energy == "harvest"

    def utilities(self, known: NDArray[np.intp], number: int) -> Array:
        """Return the rewards of known clients: f Util + (1 - f) power."""
        utilities = super().utilities(known, number)
        if not len(known):
            return utilities
        if self.fleet.truth is not None:
            truth = self.fleet.truth
            left = (truth.harvests() if self._harvests else truth.charges())[known]
        else:
            left = np.maximum(self.charges[known] - self.used[known], 0.0)
        most, share = utilities.max(), self.policy.utility
        scaled = utilities / most if most > 0 else utilities
        return np.asarray(share * scaled + (1 - share) * left)

    def observe(self, outcome: ExchangeOutcome) -> None:
        """Store the reports."""
        super().observe(outcome)
        if self.fleet.truth is None:
            reported = outcome.where_reported(self.policy.energy)
            clients, charges = reported.clients, reported.reports[self.policy.energy]
            if not self._harvests:  # a harvest is a rate, not a stock that rounds use up
                self.used[clients] = np.maximum(self.charges[clients] - charges, 0.0)
            self.charges[clients] = charges
