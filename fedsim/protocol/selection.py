"""Client selection: the cohort of a round, from the eligible clients."""

from collections.abc import Iterable, Iterator, Sequence, Set
from dataclasses import dataclass
from math import nan
from operator import index
from typing import Protocol

import numpy as np

from fedsim.core.blocks.wording import show
from fedsim.core.errors import ClientOrderError
from fedsim.core.ports import Array, ClientId, Message
from fedsim.protocol.estimates import DrawnCohort
from fedsim.protocol.participation import (
    ExchangeOutcome,
    Informed,
    KnownFleet,
    Moment,
    Participation,
    PoissonParticipation,
    Report,
    Sent,
    WeightedParticipation,
)
from fedsim.protocol.reporting import read_reports

OFFLINE, EMPTY, LOW = "offline", "battery empty", "charge too low"
"""Reasons why a client is not eligible."""

_FEW = 5
"""Up to this number, clients missing from an order are listed."""


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
        policy: determines the size of the cohort and its order.
        eligibility: tells which clients can take part.
        clients: all nodes that the server asks, as consecutive numbers; policies count from 0.
        rng: the stream of the draws.
        samples: the number of samples of each client, shape (M,); one each by default.
        fleet: the server's knowledge of the clients, for an informed policy; by default their
            numbers of samples.

    Attributes:
        watch: the observed replies, for an informed policy; None for other policies.
        draw: the last draw with its law; None if all clients are equally likely, or if the law is
            not known.
    """

    def __init__(
        self,
        policy: Participation,
        eligibility: Eligibility,
        clients: Sequence[ClientId],
        rng: np.random.Generator,
        samples: Array | None = None,
        fleet: KnownFleet | None = None,
    ) -> None:
        self._policy = policy
        self._eligibility = eligibility
        self._clients = clients
        self._rng = rng
        self._samples = np.ones(len(clients)) if samples is None else samples
        self._number = 0  # of draws so far
        self._draws = policy.asked is not None
        self._first = clients[0] if clients else 0
        self._informed = policy if isinstance(policy, Informed) else None
        self.watch: Watch | None = None
        self.draw: DrawnCohort | None = None
        if self._informed is not None:
            self._selector = self._informed.selector(fleet or KnownFleet(self._samples))
            self.watch = Watch(self._informed.reported, self._first)

    def cohort(
        self,
        to: Sequence[ClientId] | None,
        busy: Set[ClientId],
        now: float = 0.0,
        sent: Sent | None = None,
    ) -> Cohort | None:
        """Return the cohort of a round that begins now; None if no client is eligible or busy.

        Args:
            to: the clients that the algorithm requests; None leaves the choice to the policy.
            busy: clients that are at work and must not be asked.
            now: the time, s.
            sent: the message of the round, which only an oracle reads.

        Raises:
            ClientOrderError: the policy's order is invalid; see `sampling_order`.
        """
        # The usual case without a pass over the fleet: nobody can be missing, and nothing is drawn.
        if self._eligibility.always_complete and not busy and (to is not None or not self._draws):
            return Cohort(self._clients if to is None else sorted(to))
        self.draw = None
        if to is None and isinstance(self._policy, WeightedParticipation):
            return self._drawn_by_size(self._policy)
        wanted = None if to is not None else self._room(busy)
        skipped: list[tuple[ClientId, str]] = []
        chosen: list[ClientId] = []
        possible = 0
        # The order is consumed lazily: a large fleet is sorted only as far as the cohort needs.
        for client in self._order(to, now, sent):
            if wanted is not None and len(chosen) >= wanted:
                break
            if client in busy:
                continue
            # Draws whether the client is available, so only clients that are reached in the order
            # take a draw.
            can, obstacle = self._obstacle(client)
            possible += can
            if obstacle:
                skipped.append((client, obstacle))
            else:
                chosen.append(client)
        # Nobody can take part, so the server waits for a change. With busy clients it has something
        # to wait for already: their replies.
        if not possible and not busy:
            return None
        if to is None and self._informed is not None:
            draw = self._selector.last_draw()
            self.draw = None if draw is None else draw.numbered(self._first)
        return Cohort(sorted(chosen), self._draws and to is None, skipped)

    def _drawn_by_size(self, policy: WeightedParticipation) -> Cohort | None:
        """Return a cohort drawn from all clients that can be asked now.

        Unavailable clients are removed before the draw: only then do we know its probabilities.
        """
        skipped: list[tuple[ClientId, str]] = []
        places = np.arange(len(self._clients))
        if not self._eligibility.always_complete:
            obstacles = [self._obstacle(client) for client in self._clients]
            if not any(possible for possible, _ in obstacles):
                return None
            skipped = [
                (client, why)
                for client, (_, why) in zip(self._clients, obstacles, strict=True)
                if why
            ]
            places = np.flatnonzero([not why for _, why in obstacles])
        if not len(places):
            return Cohort((), drawn=True, skipped=skipped)
        sizes = self._samples[places]
        available = float(sizes.sum() / self._samples.sum())
        draw = policy.draw(sizes, available, self._rng)
        self.draw = draw._replace(clients=places[draw.clients]).numbered(self._first)
        return Cohort(self.draw.clients.tolist(), drawn=True, skipped=skipped)

    def _obstacle(self, client: ClientId) -> tuple[bool, str]:
        """Return whether a client may take part, and why it is not asked now, if so."""
        obstacle = self._eligibility.obstacle(client)
        if obstacle:
            return False, obstacle
        return True, "" if self._eligibility.sample_available(client) else OFFLINE

    def all_gone(self, named: Sequence[ClientId]) -> Cohort:
        """Return the empty cohort of a round whose requested clients have all left for good."""
        skipped = [(client, self._eligibility.obstacle(client)) for client in named]
        return Cohort((), skipped=skipped, gone=True)

    def _room(self, busy: Set[ClientId]) -> int | None:
        asked = self._policy.asked
        if isinstance(self._policy, PoissonParticipation):
            return None  # the draw decides the number
        return None if asked is None else max(asked - len(busy), 0)

    # -- informed policies -------------------------------------------------------------

    def delay(self, now: float) -> float:
        """Return how long the server waits before the round that the policy draws, s."""
        return 0.0 if self._informed is None else self._selector.delay(now)

    @property
    def asks_candidates(self) -> bool:
        """Whether candidates first report in a separate exchange."""
        policy = self._informed
        return policy is not None and policy.candidates_asked and bool(policy.reported)

    def close(self, now: float) -> ExchangeOutcome | None:
        """Show the policy the outcome of the exchange that is over now; None if none is open."""
        if self.watch is None or not self.watch.open:
            return None
        # `_number` has counted the draw of this exchange already.
        outcome = self.watch.close(now, max(self._number - 1, 0))
        self._selector.observe(outcome)
        return outcome

    def narrow(self, outcome: ExchangeOutcome) -> Cohort:
        """Return the candidates to ask for an update.

        Raises:
            ClientOrderError: the policy chooses a client twice, or one that is no candidate.
        """
        wanted = self._policy.wanted or len(outcome.clients)
        moment = Moment(outcome.number, outcome.ended, wanted)
        chosen = self._selector.narrow(moment, outcome.in_time())
        candidates, kind = frozenset(outcome.asked.tolist()), self._policy.kind
        clients = list[ClientId]()
        for place in checked_order(chosen, len(self._samples), kind, whole=False):
            if place not in candidates:
                text = f"client {place}, which is no candidate of this round; give candidates"
                raise ClientOrderError(f"the order of {kind} has {text}")
            clients.append(self._first + place)
        return Cohort(sorted(clients), drawn=True)

    def _order(
        self, to: Sequence[ClientId] | None, now: float, sent: Sent | None
    ) -> Iterable[ClientId]:
        """Return the clients in sampling order."""
        if to is not None:
            return to
        if not self._draws:
            return self._clients
        self._number += 1
        if self._informed is not None:
            wanted = self._policy.asked or len(self._clients)
            moment = Moment(self._number - 1, now, wanted, sent)
            order = self._selector.rank(moment, self._rng)
            whole = self._informed.complete
            places = checked_order(order, len(self._samples), self._policy.kind, whole=whole)
            return map(self._clients.__getitem__, places)
        places = sampling_order(self._policy, self._samples, self._number - 1, self._rng)
        return map(self._clients.__getitem__, places)


class Watch:
    """The server's observations of the exchanges of an informed policy.

    Args:
        reports: the quantities that clients report.
        first: the number of the first client; outcomes count clients from it.

    Attributes:
        open: whether an exchange is open.
    """

    def __init__(self, reports: tuple[Report, ...], first: ClientId = 0) -> None:
        self.open = False
        self._reports, self._first = reports, first
        self._begun = list[float]()  # start times of the exchanges, from number 1
        self._asked: Sequence[ClientId] = ()
        self._seen = list[tuple[ClientId, float, tuple[float, ...], int]]()

    def begin(self, now: float, asked: Sequence[ClientId]) -> None:
        """Open an exchange."""
        self.open = True
        self._begun.append(now)
        self._asked = asked

    def see(self, client: ClientId, exchange: int, message: Message, now: float) -> None:
        """Record a reply; one to an earlier exchange counts for the open or the next outcome."""
        if not 0 < exchange <= len(self._begun):
            return  # the protocol itself refuses it
        reported = read_reports(message, self._reports)
        self._seen.append((client, now - self._begun[exchange - 1], reported, exchange))

    def close(self, now: float, number: int) -> ExchangeOutcome:
        """Return the outcome of the open exchange.

        Args:
            now: the time, s.
            number: the number of draws before the one of this exchange.
        """
        seen, self._seen, self.open = self._seen, [], False
        # Reshaped, so that an exchange without replies has the columns, too.
        reports = np.array([reply[2] for reply in seen]).reshape(len(seen), len(self._reports))
        return ExchangeOutcome(
            number,
            self._begun[-1] if self._begun else nan,
            now,
            np.array(self._asked, np.int64) - self._first,
            np.array([reply[0] for reply in seen], np.int64) - self._first,
            np.array([reply[1] for reply in seen], float),
            {name: reports[:, place] for place, name in enumerate(self._reports)},
            np.array([reply[3] < len(self._begun) for reply in seen], bool),
        )


def sampling_order(
    policy: Participation, samples: Array, number: int, rng: np.random.Generator
) -> Iterator[ClientId]:
    """Yield the clients in a policy's order, validated as it is consumed.

    Args:
        policy: determines the order.
        samples: the number of samples of each client, shape (M,).
        number: the number of earlier draws.
        rng: the stream of the draws.

    Raises:
        ClientOrderError: an entry is no client or a duplicate, or clients are missing.
    """
    drawn = isinstance(policy, PoissonParticipation)
    whole = not drawn and (not isinstance(policy, Informed) or policy.complete)
    order = policy.order(samples, number, rng)
    yield from checked_order(order, len(samples), policy.kind, whole=whole)


def checked_order(
    order: Iterable[ClientId], clients: int, kind: str, *, whole: bool
) -> Iterator[ClientId]:
    """Yield the clients of an order, validated as it is consumed.

    Args:
        order: the order of a policy.
        clients: the number of all clients.
        kind: the kind of the policy, for messages.
        whole: whether the order must hold all clients.

    Raises:
        ClientOrderError: see `sampling_order`.
    """
    seen: set[ClientId] = set()
    for entry in order:
        client = _client(entry, clients, kind)
        if client in seen:
            raise ClientOrderError(f"the order of {kind} has client {client} twice")
        seen.add(client)
        yield client
    if whole and len(seen) < clients:
        left = sorted(set(range(clients)) - seen)
        few = ", ".join(map(str, left[:_FEW])) + (", ..." if len(left) > _FEW else "")
        text = f"leaves out {len(left)} of {clients} clients ({few}); give all of them"
        raise ClientOrderError(
            f"the order of {kind} {text}: clients that cannot take part are skipped"
        )


def _client(entry: object, clients: int, kind: str) -> ClientId:
    try:
        client = index(entry)  # type: ignore[arg-type] # an entry without an index is refused
    except TypeError:
        client = -1
    if not 0 <= client < clients:
        text = f"has {show(entry)}; give the numbers of clients, 0 to {clients - 1}"
        raise ClientOrderError(f"the order of {kind} {text}")
    return client
