"""Selection: who is asked in a round, among those who can take part."""

from collections.abc import Iterable, Sequence, Set
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from fedsim.ports import ClientId
from fedsim.protocol.participation import Participation

OFFLINE, EMPTY, LOW = "offline", "battery empty", "charge too low"
"""Why a client cannot take part."""


class Roll(Protocol):
    """Who can take part in a round that begins now."""

    @property
    def calm(self) -> bool:
        """Whether all clients always can."""
        ...

    def obstacle(self, client: ClientId) -> str:
        """Return why a client cannot; empty if it can."""
        ...

    def turns_up(self, client: ClientId) -> bool:
        """Draw whether a client that can is there in this round."""
        ...


@dataclass(frozen=True, slots=True)
class Cohort:
    """Who is asked, and who is not.

    Attributes:
        clients: who is asked, in order.
        drawn: whether they were drawn, by the policy.
        skipped: who could not take part, and why.
    """

    clients: Sequence[ClientId]
    drawn: bool = False
    skipped: Sequence[tuple[ClientId, str]] = ()


class Selection:
    """Draws the cohorts of a run by a policy."""

    def __init__(
        self,
        policy: Participation,
        roll: Roll,
        clients: Sequence[ClientId],
        rng: np.random.Generator,
    ) -> None:
        self._policy = policy
        self._roll = roll
        self._clients = clients
        self._rng = rng
        self._number = 0  # of draws
        self._draws = policy.count is not None or policy.concurrency is not None

    def cohort(self, to: Sequence[ClientId] | None, busy: Set[ClientId]) -> Cohort | None:
        """Return who is asked now; None where nobody could be, whatever the draw.

        Args:
            to: whom the algorithm wants to ask; None leaves it to the policy.
            busy: who works already and must not be asked.
        """
        if self._roll.calm and not busy and (to is not None or not self._draws):
            return Cohort(self._clients if to is None else sorted(to))
        wanted = None if to is not None else self._room(busy)
        skipped: list[tuple[ClientId, str]] = []
        chosen: list[ClientId] = []
        possible = 0
        for client in self._order(to):
            if wanted is not None and len(chosen) >= wanted:
                break
            if client in busy:
                continue
            obstacle = self._roll.obstacle(client)
            possible += not obstacle
            if not obstacle and not self._roll.turns_up(client):
                obstacle = OFFLINE
            if obstacle:
                skipped.append((client, obstacle))
            else:
                chosen.append(client)
        if not possible and not busy:
            return None
        return Cohort(sorted(chosen), self._draws and to is None, skipped)

    def _room(self, busy: Set[ClientId]) -> int | None:
        asked = self._policy.asked
        return asked if asked is None or not self._policy.buffer else max(asked - len(busy), 0)

    def _order(self, to: Sequence[ClientId] | None) -> Iterable[ClientId]:
        """Return the clients in the order in which they are drawn."""
        if to is not None:
            return to
        if not self._draws:
            return self._clients
        self._number += 1
        # The first few of a million are all that is looked at.
        if self._policy.order is None:
            return map(int, self._rng.permutation(len(self._clients)))
        return map(int, self._policy.order(self._number - 1, self._rng))
