"""Participation that depends on what the server has seen: replies, their times, and reports.

Such a policy has two parts. The block of the scenario is frozen, like any other. Its `selector`
returns the state of one run: it ranks the clients of each round, and observes the outcome of each
exchange. A reported quantity is a part of the reply, so it is encoded and charged.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, Literal, NamedTuple, Protocol, Self

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from fedsim.core.blocks.nature import Nature
from fedsim.core.ports import Array, ClientId, Message
from fedsim.protocol.estimates import DrawnCohort
from fedsim.protocol.participation.asynchronous import ascending
from fedsim.protocol.participation.sampling import Chances, Sample, weighted_order

Report = Literal["loss", "rms_loss", "charge", "harvest", "norm"]
"""A quantity that a client may report with its reply.

loss: its loss at the received model.
rms_loss: the root mean square of its samples' losses there.
charge: its state of charge in [0, 1]; 1 on mains power.
harvest: the share of its power at work that charges its battery, at most 1; 1 on mains power.
norm: the Euclidean norm of the first vector of its reply.
"""

Sent = Message | Mapping[ClientId, Message]
"""The message of an exchange: one for all, or one for each client."""


class Truth(Protocol):
    """The true state of the world, which no server sees. Oracles use it, as upper bounds."""

    def losses(self, sent: Sent) -> Array:
        """Return every client's loss at the model in a message, shape (M,)."""
        ...

    def rms_losses(self, sent: Sent) -> Array:
        """Return the root mean square of every client's losses of samples, shape (M,)."""
        ...

    def norms(self, sent: Sent) -> Array:
        """Return the norm of every client's gradient at the model in a message, shape (M,)."""
        ...

    def charges(self) -> Array:
        """Return every client's state of charge, 1 on mains, shape (M,)."""
        ...

    def harvests(self) -> Array:
        """Return the share of each client's power at work that it harvests, 1 on mains, (M,)."""
        ...

    def seconds(self) -> Array:
        """Return the mean time of a round with that client alone, s, shape (M,)."""
        ...


class Intensities(Protocol):
    """The carbon intensity of the clients' electricity, which grid operators publish."""

    def at(self, now: float) -> Array:
        """Return the intensity of each client at a time, g/kWh, shape (M,)."""
        ...

    def next_change(self, now: float) -> float:
        """Return the first time after `now` at which an intensity changes, s; inf for never."""
        ...


@dataclass(frozen=True, eq=False)
class KnownFleet:
    """What a server knows of its clients from the start.

    Attributes:
        samples: the number of samples of each client, shape (M,).
        shares: the weights of their updates, shape (M,); by default the numbers of samples.
        grid: the carbon intensity of their electricity; None if not tracked.
        truth: the true state of the world, for an oracle; else None.
    """

    samples: Array
    shares: Array | None = None
    grid: Intensities | None = None
    truth: Truth | None = None

    @property
    def weights(self) -> Array:
        """The weights p_i of the clients' updates up to a factor, shape (M,)."""
        return self.samples if self.shares is None else self.shares

    @property
    def count(self) -> int:
        """The number of clients, M."""
        return len(self.samples)


class Moment(NamedTuple):
    """The beginning of a round.

    Attributes:
        number: the number of earlier draws.
        now: the time, s.
        wanted: the number of clients to ask.
        sent: the message of the round, which only an oracle may read; None if there is none yet.
    """

    number: int
    now: float
    wanted: int
    sent: Sent | None = None


@dataclass(frozen=True, eq=False)
class ExchangeOutcome:
    """What the server has seen of an exchange, once it is over.

    Attributes:
        number: the number of draws before that of this exchange.
        begun, ended: the times of its begin and end, s.
        asked: the clients that were asked, shape (k,).
        clients: the clients whose reply has arrived since the last outcome, in the order of
            arrival, shape (n,). Some may be late replies to earlier exchanges; see `late`.
        seconds: the time from the request to the arrival of each reply, s, shape (n,).
        reports: each reported quantity, shape (n,); NaN for a client that kept silent.
        late: whether each reply is one to an earlier exchange, whose model was another, shape (n,);
            None if none is.
    """

    number: int
    begun: float
    ended: float
    asked: NDArray[np.int64]
    clients: NDArray[np.int64]
    seconds: Array
    reports: Mapping[str, Array]
    late: NDArray[np.bool_] | None = None

    def in_time(self) -> Self:
        """Return the outcome of only the replies to this exchange itself."""
        return self if self.late is None else self._where(~self.late)

    def where_reported(self, report: Report) -> Self:
        """Return the outcome of only those clients that have reported a quantity."""
        return self._where(~np.isnan(self.reports[report]))

    def _where(self, kept: NDArray[np.bool_]) -> Self:
        return replace(
            self,
            clients=self.clients[kept],
            seconds=self.seconds[kept],
            reports={name: values[kept] for name, values in self.reports.items()},
            late=None if self.late is None else self.late[kept],
        )


class Selector(ABC):
    """The state of an informed policy in one run."""

    @abstractmethod
    def rank(self, moment: Moment, rng: np.random.Generator) -> Iterable[ClientId]:
        """Return the clients in the order in which the cohort is filled.

        Unavailable clients are skipped. So the order must hold all clients, unless the policy is
        not `complete`.
        """

    def observe(self, outcome: ExchangeOutcome) -> None:  # noqa: B027 - a policy may learn nothing
        """Learn from an exchange that is over."""

    def narrow(self, moment: Moment, outcome: ExchangeOutcome) -> Sequence[ClientId]:
        """Return the candidates to ask for an update, after their reports.

        The outcome has only replies to this exchange: a late one is about an older model, and its
        client need not be a candidate. Only candidates have the model, so only they can be chosen.
        """
        return [int(client) for client in outcome.clients]

    def last_draw(self) -> DrawnCohort | None:
        """Return the last draw with its law; None if that is uniform, or not known."""
        return None

    def delay(self, now: float) -> float:
        """Return how long the server waits before a round, s."""
        return 0.0


class Informed(Sample):
    """Base class of client sampling by what the server has seen and what clients have reported."""

    reports: ClassVar[tuple[Report, ...]] = ()
    """The quantities that clients report with each reply; they are encoded and charged."""

    complete: ClassVar[bool] = True
    """Whether an order holds all clients; if not, a round asks only those that it holds."""

    candidates_asked: ClassVar[bool] = False
    """Whether candidates first report in a separate exchange; see `Selector.narrow`."""

    by_schedule: ClassVar[bool] = False
    """Whether no choice depends on times, reports or batteries, so that a run can be re-priced."""

    def natures(self) -> Iterator[tuple[str, Nature]]:
        """Yield the natures of choices that depend on times, reports or batteries."""
        yield from super().natures()
        if not self.by_schedule:
            text = (
                f"got {self.kind}: replies, their times or reports decide which clients are asked"
            )
            yield "kind", Nature(reacts=text)
        if self.sees_all:
            text = "a live server does not see the state of its clients"
            yield "oracle", Nature(simulated=text)
        if {"charge", "harvest"} & {*self.reports}:
            text = f"got {self.kind}: a live client has no battery whose charge it could report"
            yield "kind", Nature(simulated=text)

    @property
    def sees_all(self) -> bool:
        """Whether the policy is an oracle, which sees the true state of the world."""
        return False

    @property
    def reported(self) -> tuple[Report, ...]:
        """The quantities that clients report under this configuration."""
        return () if self.sees_all else self.reports

    @property
    def of_losses(self) -> bool:
        """Whether it uses losses; for this, clients need samples and a model."""
        return not {"loss", "rms_loss"}.isdisjoint(self.reports)

    @abstractmethod
    def selector(self, fleet: KnownFleet) -> Selector:
        """Return the state of a run before its first round."""

    def order(self, samples: Array, number: int, rng: np.random.Generator) -> Iterable[int]:
        """Return the order of the first round, before anything has been seen."""
        fleet = KnownFleet(samples)
        return self.selector(fleet).rank(Moment(number, 0.0, self.asked or len(samples)), rng)


class WithOracle(Informed):
    """A policy with an oracle: the same rule, applied to the true state of the world."""

    oracle: bool = Field(
        default=False,
        description=(
            "whether the server selects by the true state of the world, which no real"
            " server sees, in place of reports: an upper bound"
        ),
    )

    @property
    def sees_all(self) -> bool:
        """Whether it is the oracle."""
        return self.oracle


def descending(keys: Array, rng: np.random.Generator) -> Iterable[ClientId]:
    """Return the positions of keys in descending order, ties in random order, lazily.

    >>> list(descending(np.array([1.0, 3.0, 2.0]), np.random.default_rng(1)))
    [1, 2, 0]
    """
    shuffled = rng.permutation(len(keys))
    return (int(shuffled[place]) for place in ascending(-keys[shuffled]))


# Age: the time since the model last got an update of a client.


class AgeParticipation(Informed):
    """The clients whose last update is the oldest, or a sample in proportion to its age.

    The age is the number of draws since a client's last reply, or since the start if it has not
    replied yet. It grows by one each round, and a reply resets it to zero.
    """

    kind: Literal["age"] = Field(default="age", description="the oldest updates")
    draw: Literal["oldest", "weighted"] = Field(
        default="oldest",
        description=(
            "the clients with the oldest updates, ties in random order; or a sample without"
            " replacement in proportion to age + 1"
        ),
    )

    by_schedule: ClassVar[bool] = True
    # Clients take turns: over all orders of a run, each is as likely as any other in every round.
    chances: ClassVar[Chances] = "equal"
    source: ClassVar[str] = (
        "Yang, Arafa, Quek, Poor: Age-Based Scheduling Policy for Federated Learning in Mobile Edge"
        " Networks, ICASSP 2020"
    )

    def selector(self, fleet: KnownFleet) -> Selector:
        """Return the ages at the start, which are equal."""
        return AgeSelector(self, fleet)


class AgeSelector(Selector):
    """The ages of the clients' updates.

    Attributes:
        since: the number of draws at each client's last reply, shape (M,).
    """

    def __init__(self, policy: AgeParticipation, fleet: KnownFleet) -> None:
        self._weighted = policy.draw == "weighted"
        self.since = np.zeros(fleet.count)

    def rank(self, moment: Moment, rng: np.random.Generator) -> Iterable[ClientId]:
        """Return the clients by age."""
        if not self._weighted:
            return descending(-self.since, rng)
        age = moment.number - self.since
        return weighted_order(age + 1, rng)

    def observe(self, outcome: ExchangeOutcome) -> None:
        """Reset the ages of the clients that have replied."""
        self.since[outcome.clients] = outcome.number + 1
