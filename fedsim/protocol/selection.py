"""Client selection: the cohort of a round, from the eligible clients."""

from collections.abc import Iterable, Iterator, Sequence, Set
from dataclasses import dataclass
from operator import index
from typing import Protocol

import numpy as np

from fedsim.blocks.wording import show
from fedsim.errors import ClientOrderError
from fedsim.ports import Array, ClientId
from fedsim.protocol.participation import Participation

OFFLINE, EMPTY, LOW = "offline", "battery empty", "charge too low"
"""Reasons why a client is not eligible."""

_FEW = 5
"""Left-out clients are listed up to this number."""


class Eligibility(Protocol):
    """Which clients are eligible in a round that begins now."""

    @property
    def always_complete(self) -> bool:
        """Whether every client is always eligible."""
        ...

    def obstacle(self, client: ClientId) -> str:
        """Return why a client is not eligible; empty if it is."""
        ...

    def sample_available(self, client: ClientId) -> bool:
        """Sample whether an eligible client is available this round."""
        ...


@dataclass(frozen=True, slots=True)
class Cohort:
    """The selected and the skipped clients of a round.

    Attributes:
        clients: the recipients, in order.
        drawn: whether the policy sampled them.
        skipped: ineligible clients, each with the reason.
        gone: whether all explicitly requested clients have left for good.
    """

    clients: Sequence[ClientId]
    drawn: bool = False
    skipped: Sequence[tuple[ClientId, str]] = ()
    gone: bool = False


class Selection:
    """Samples the cohorts of a run by a policy.

    Args:
        policy: gives the cohort size and the order.
        eligibility: eligibility of the clients.
        clients: all clients, in order.
        rng: the stream of the draws.
        samples: the number of samples of each client, shape (M,); one each if omitted.
    """

    def __init__(
        self,
        policy: Participation,
        eligibility: Eligibility,
        clients: Sequence[ClientId],
        rng: np.random.Generator,
        samples: Array | None = None,
    ) -> None:
        self._policy = policy
        self._eligibility = eligibility
        self._clients = clients
        self._rng = rng
        self._samples = np.ones(len(clients)) if samples is None else samples
        self._number = 0  # of draws
        self._draws = policy.asked is not None

    def cohort(self, to: Sequence[ClientId] | None, busy: Set[ClientId]) -> Cohort | None:
        """Return the cohort of a round that begins now; None if no client is eligible or busy.

        Args:
            to: the clients that the algorithm requests; None leaves the choice to the policy.
            busy: clients that are at work and must not be asked.

        Raises:
            ClientOrderError: the policy's order is invalid; see `sampling_order`.
        """
        if self._eligibility.always_complete and not busy and (to is not None or not self._draws):
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
            obstacle = self._eligibility.obstacle(client)
            possible += not obstacle
            if not obstacle and not self._eligibility.sample_available(client):
                obstacle = OFFLINE
            if obstacle:
                skipped.append((client, obstacle))
            else:
                chosen.append(client)
        if not possible and not busy:
            return None
        return Cohort(sorted(chosen), self._draws and to is None, skipped)

    def all_gone(self, named: Sequence[ClientId]) -> Cohort:
        """Return the empty cohort of a round whose requested clients have all left for good."""
        skipped = [(client, self._eligibility.obstacle(client)) for client in named]
        return Cohort((), skipped=skipped, gone=True)

    def _room(self, busy: Set[ClientId]) -> int | None:
        asked = self._policy.asked
        return None if asked is None else max(asked - len(busy), 0)

    def _order(self, to: Sequence[ClientId] | None) -> Iterable[ClientId]:
        """Return the clients in sampling order."""
        if to is not None:
            return to
        if not self._draws:
            return self._clients
        self._number += 1
        places = sampling_order(self._policy, self._samples, self._number - 1, self._rng)
        return map(self._clients.__getitem__, places)


def sampling_order(
    policy: Participation, samples: Array, number: int, rng: np.random.Generator
) -> Iterator[ClientId]:
    """Yield the clients in a policy's order, validated as it is consumed.

    Args:
        policy: gives the order.
        samples: how many each client has, shape (M,).
        number: how many draws there were before.
        rng: the stream of the draws.

    Raises:
        ClientOrderError: an entry is no client or a duplicate, or clients are missing.
    """
    seen: set[ClientId] = set()
    for each in policy.order(samples, number, rng):
        client = _client(each, len(samples), policy.kind)
        if client in seen:
            raise ClientOrderError(f"the order of {policy.kind} has client {client} twice")
        seen.add(client)
        yield client
    if len(seen) < len(samples):
        left = sorted(set(range(len(samples))) - seen)
        few = ", ".join(map(str, left[:_FEW])) + (", ..." if len(left) > _FEW else "")
        text = f"leaves out {len(left)} of {len(samples)} clients ({few}); give all of them"
        raise ClientOrderError(
            f"the order of {policy.kind} {text}: clients that cannot take part are passed over"
        )


def _client(each: object, clients: int, kind: str) -> ClientId:
    try:
        client = index(each)  # type: ignore[arg-type] # what has none is refused
    except TypeError:
        client = -1
    if not 0 <= client < clients:
        text = f"has {show(each)}; give the numbers of clients, 0 to {clients - 1}"
        raise ClientOrderError(f"the order of {kind} {text}")
    return client
