"""Participation: who is asked in a round, and when the round closes."""

from collections.abc import Iterable, Sequence, Set
from dataclasses import dataclass
from math import ceil, inf

import numpy as np

from fedsim.ports import Array, ClientId
from fedsim.record.log import EventLog
from fedsim.record.schema import NO_PEER, Event
from fedsim.sim.presence import OFFLINE, Presence


@dataclass(frozen=True, slots=True)
class Participation:
    """A policy.

    Attributes:
        count: k, how many replies a round is after; None for those of all.
        weights: the probability of a client to be drawn is proportional to its weight, drawn
            without replacement, shape (M,); None for a uniform draw.
        over: over-selection: this times k are asked, and the round closes with the k-th
            reply (Bonawitz et al., "Towards Federated Learning at Scale", MLSys 2019).
        deadline: the round closes so long after its broadcast, s.
        quorum: the share of those asked who must have reported before a round may close: at
            its deadline or later; or at once, where there is none. 1 without a deadline asks
            for all, 0 with one for nobody.
        give_up: a round that has not closed so long after its broadcast is given up, s: what has
            come counts as late, the model stays, and the next round asks anew (Bonawitz et al.:
            abandonment). An asynchronous server keeps what has come, and asks anew whom it has
            waited for.
        keep_late: a reply to a round that has closed counts for the next one.
        least_charge: clients with less than this state of charge are skipped.
        buffer: of an asynchronous server, the replies that close a round, whichever round
            they answer; who has not replied is not asked again (Nguyen et al., FedBuff,
            AISTATS 2022; 1 is a server that reacts to every reply). 0 for rounds.
        concurrency: of an asynchronous server, how many work at once at most; None for all.
    """

    count: int | None = None
    weights: Array | None = None
    over: float = 1.0
    deadline: float = inf
    quorum: float | None = None
    give_up: float = inf
    keep_late: bool = True
    least_charge: float = 0.0
    buffer: int = 0
    concurrency: int | None = None

    @property
    def asked(self) -> int | None:
        """How many are asked; None for all."""
        if self.buffer:
            return self.concurrency
        return None if self.count is None else _at_least(self.over * self.count)

    def goal(self, cohort: int) -> float:
        """Return the number of reports that closes a round of so many at once."""
        if self.buffer:
            return self.buffer
        if self.over > 1.0 and self.count is not None:
            return min(self.count, cohort)
        if self.quorum is not None and self.deadline == inf:
            return _at_least(self.quorum * cohort)
        return inf

    def least(self, cohort: int) -> int:
        """Return the number of reports without which not even the deadline closes a round."""
        return _at_least((self.quorum or 0.0) * cohort)


def _at_least(share: float) -> int:
    """Return the least number of clients that is a share of them; 1.1 times 10 is 11, not 12."""
    return ceil(share * (1 - 1e-12))


class Selection:
    """Draws the cohorts of a run by a policy, among those who can take part."""

    def __init__(
        self,
        policy: Participation,
        presence: Presence,
        log: EventLog,
        clients: Sequence[ClientId],
        rng: np.random.Generator,
    ) -> None:
        self.policy = policy
        self._presence = presence
        self._log = log
        self._clients = clients
        self._rng = rng
        self._draws = policy.count is not None or policy.concurrency is not None

    def cohort(
        self, to: Sequence[ClientId] | None, busy: Set[ClientId], now: float, round_number: int
    ) -> Sequence[ClientId] | None:
        """Return who is asked now, in order; None where nobody could be, whatever the draw.

        Args:
            to: whom the algorithm wants to ask; None leaves it to the policy.
            busy: who works already and must not be asked.
            now: s.
            round_number: of the rows that it writes.
        """
        if self._presence.calm and not busy and (to is not None or not self._draws):
            return self._clients if to is None else sorted(to)
        wanted = None if to is not None else self._room(busy)
        skipped: list[tuple[ClientId, str]] = []
        chosen: list[ClientId] = []
        possible = 0
        for client in self._order(to):
            if wanted is not None and len(chosen) >= wanted:
                break
            if client in busy:
                continue
            obstacle = self._presence.obstacle(client)
            possible += not obstacle
            if not obstacle and not self._presence.turns_up(client):
                obstacle = OFFLINE
            if obstacle:
                skipped.append((client, obstacle))
            else:
                chosen.append(client)
        if not possible and not busy:
            return None
        chosen.sort()
        self._write(now, round_number, chosen if self._draws and to is None else (), skipped)
        return chosen

    def _room(self, busy: Set[ClientId]) -> int | None:
        asked = self.policy.asked
        return asked if asked is None or not self.policy.buffer else max(asked - len(busy), 0)

    def _order(self, to: Sequence[ClientId] | None) -> Iterable[ClientId]:
        """Return the clients in the order in which they are drawn."""
        if to is not None:
            return to
        if not self._draws:
            return self._clients
        if self.policy.weights is None:
            return list[ClientId](self._rng.permutation(len(self._clients)).tolist())
        # Efraimidis and Spirakis 2006: the order of Exp(1)/w is that of weighted draws.
        keys = self._rng.standard_exponential(len(self._clients)) / self.policy.weights
        return list[ClientId](np.argsort(keys, kind="stable").tolist())

    def _write(
        self,
        now: float,
        round_number: int,
        sampled: Iterable[ClientId],
        skipped: Iterable[tuple[ClientId, str]],
    ) -> None:
        append, charge = self._log.append, self._presence.charge
        for client, why in skipped:
            append(
                now,
                0.0,
                Event.SKIPPED,
                client,
                NO_PEER,
                round_number,
                detail=self._log.word(why),
                state_of_charge=charge(client),
            )
        for client in sampled:
            append(
                now,
                0.0,
                Event.SAMPLED,
                client,
                NO_PEER,
                round_number,
                state_of_charge=charge(client),
            )
