"""Aggregation: how a server combines the vectors of its clients, as scenario blocks.

A method asks for a weighted sum of a field of replies (`Server.aggregate`), and the block decides
how that sum is formed. `mean` adds up. A rule that withstands Byzantine replies takes the sum of
the weights times one vector that stands for all replies, such as their median; each reply counts
the same, whatever its weight. If the server keeps a running sum of changes, as in CHB, the rule is
applied to the sum of all that each client has sent so far. A silent client then counts with its
last state.
"""

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import ClassVar, Literal, NamedTuple

import numpy as np
from pydantic import Field

from fedsim.core.blocks.spec import Spec
from fedsim.core.ports import Array, ClientId, Reply
from fedsim.protocol.aggregation.tally import COUNTS, Tally
from fedsim.protocol.attacks.base import Attack
from fedsim.protocol.estimates import check_any
from fedsim.protocol.stopping import RunStopped
from fedsim.wire import field_payloads, weighted_sum


class Aggregation(Spec):
    """Base class of rules by which a server combines the vectors of its clients."""

    adds_up: ClassVar[bool] = False
    """Whether the rule is the weighted sum itself."""

    at_servers: ClassVar[bool] = True
    """Whether a server can use it."""

    among_peers: ClassVar[bool] = False
    """Whether peers can use it; see `mix`."""

    condition: ClassVar[str] = ""
    """`least` as a formula, such as "2f + 3"; empty if there is none."""

    kind: str

    @abstractmethod
    def combine(self, vectors: Array, last: Array | None, rng: np.random.Generator) -> Array:
        """Return the vector that stands for all replies, shape (d,).

        Args:
            vectors: the vectors of the replies, one per row, in the order of the clients, shape
                (n, d) with n >= 1. They must not be changed.
            last: what it has returned before for the same field of messages; None at first.
            rng: the stream of the rule's random draws.
        """

    def least(self) -> int:
        """Return the smallest n for which the rule is defined; by default 1."""
        return 1

    @property
    def least_in_words(self) -> str:
        """`least`, with its formula."""
        return f"{self.condition} = {self.least()}" if self.condition else f"{self.least()}"

    @property
    def with_fewer(self) -> Literal["median", "skip", "end"]:
        """What happens to a round with fewer replies; see `RobustRule.otherwise`."""
        return "median"

    def mix(self, own: Array, received: Array, weights: Array) -> Array:
        """Return the vector that a peer goes on with, shape (d,).

        Args:
            own: its vector, shape (d,).
            received: the vectors of neighbours, one per row, shape (n, d) with n >= `least()`.
            weights: their weights in the mixing matrix, shape (n,).
        """
        raise NotImplementedError(type(self).__name__)

    def operations(self, vectors: int, dimension: int) -> float | None:
        """Return the approximate operations of `combine`; None if they are not known.

        A server computes in no simulated time, so they are reported and not charged.

        Args:
            vectors: n, their number.
            dimension: d, their length.
        """
        return None

    def clipped(self, vectors: Array, last: Array | None) -> tuple[float, Array] | None:
        """Return the length that it clips to, and the lengths before, for a note of the run.

        By default None: the rule clips nothing. Arguments as for `combine`.
        """
        return None


class Mean(Aggregation):
    """The weighted sum that the method asks for: a weighted mean if its weights add up to 1."""

    adds_up: ClassVar[bool] = True
    also_called: ClassVar[tuple[str, ...]] = ("average", "sum")

    kind: Literal["mean"] = Field(default="mean", description="replies are added up")

    def combine(self, vectors: Array, last: Array | None, rng: np.random.Generator) -> Array:
        """Return the mean of the vectors."""
        mean: Array = vectors.mean(axis=0)
        return mean


class Aggregator:
    """One server's use of a rule in a run.

    Args:
        rule: the rule.
        rng: returns the stream of its draws; called if it is needed.
        attacks: the attack of each malicious client.
        tally: counts what the rule does beside combining; servers of one world may share it.

    Attributes:
        unreadable: the clients whose replies the server leaves out.
        least: the number of reports without which a round is abandoned; 0 for any.
        tally: see the argument.
    """

    def __init__(
        self,
        rule: Aggregation,
        rng: Callable[[], np.random.Generator],
        attacks: Mapping[ClientId, Attack] = MappingProxyType({}),
        tally: Tally | None = None,
    ) -> None:
        self._rule, self._make_rng, self._attacks = rule, rng, attacks
        self._colluding = {m: attack for m, attack in attacks.items() if attack.colludes}
        self._rng: np.random.Generator | None = None
        self._kept: dict[str, _RunningSum] = {}
        self._last: dict[str, Array] = {}
        self.unreadable = frozenset(m for m, attack in attacks.items() if attack.unreadable)
        self.least = rule.least() if rule.with_fewer == "skip" else 0
        self.tally = Tally() if tally is None else tally
        self._asked = self._handed = False

    def hand_over(self, replies: Sequence[Reply]) -> Sequence[Reply]:
        """Register that the method receives some replies; return those that can be read."""
        self._handed = self._handed or bool(replies)
        if not self.unreadable:
            return replies
        readable = [reply for reply in replies if reply.client not in self.unreadable]
        self.tally.count("unreadable", len(replies) - len(readable))
        return readable

    def skip(self) -> None:
        """Register that a round is abandoned, as it has fewer than `least` reports."""
        self.tally.count("skipped")
        self._register_shortage()

    def repeat(self, counts: Mapping[str, float]) -> None:
        """Register what a recorded round counted, in place of combining its vectors again."""
        self._asked = True
        for name in COUNTS:
            self.tally.count(name, int(counts.get(name) or 0))
        if counts.get("replaced"):
            self._register_shortage()

    def _register_shortage(self) -> None:
        self.tally.short = f"{self._rule.kind} had fewer than {self._rule.least_in_words} vectors"

    @property
    def unused(self) -> bool:
        """Whether the method has received replies, and has never asked for a sum of them.

        It is False where a sum is no more than that: methods may then add up as they like.
        """
        matters = not self._rule.adds_up or self._colluding
        return bool(matters) and self._handed and not self._asked

    def reset(self) -> None:
        """Forget what earlier rounds have left: the method's server begins anew."""
        self._kept.clear()
        self._last.clear()

    def sum(
        self,
        replies: Sequence[Reply],
        field: str,
        weights: Array | None = None,
        *,
        changes: bool = False,
    ) -> Array:
        """Return what stands for a weighted sum; see `fedsim.core.ports.Server.aggregate`.

        Raises:
            Failed: there are no replies.
        """
        check_any(replies, f"the sum of `{field}`")
        self._asked = True
        payloads = field_payloads(replies, field)
        if self._rule.adds_up and not self._colluding:
            return weighted_sum(payloads, weights)
        clients = [reply.client for reply in replies]
        factors = [1.0] * len(payloads) if weights is None else weights.tolist()
        vectors = self._collude(clients, [payload.values for payload in payloads])
        sent = [_Sent(*one) for one in zip(clients, factors, vectors, strict=True)]
        shape = vectors[0].shape
        if self._rule.adds_up:
            total = np.zeros(shape)
            for one in sent:
                total += one.weight * one.vector
            return total
        if not changes:
            weight = sum(one.weight for one in sent)
            return weight * self._combine(field, sent).reshape(shape)
        kept = self._kept.setdefault(field, _RunningSum())
        kept.add(sent)
        return kept.change(self._combine(field, kept.all).reshape(shape))

    def _collude(self, clients: Sequence[ClientId], vectors: Sequence[Array]) -> Sequence[Array]:
        """Return the vectors with those of malicious clients that collude."""
        true = [v.ravel() for m, v in zip(clients, vectors, strict=True) if m not in self._attacks]
        attacks = {
            repr(each): each for m in clients if (each := self._colluding.get(m)) is not None
        }
        if not attacks or not true:
            return vectors
        # All that have the same block send the same.
        rows, false_ones = np.array(true), len(clients) - len(true)
        sent = {key: attack.collude(rows, false_ones) for key, attack in attacks.items()}
        return [
            sent[repr(self._colluding[m])].reshape(v.shape) if m in self._colluding else v
            for m, v in zip(clients, vectors, strict=True)
        ]

    def _combine(self, field: str, sent: Sequence["_Sent"]) -> Array:
        """Return the vector that stands for all finite ones; zero if there is none."""
        if self._rng is None:
            self._rng = self._make_rng()
        rows = self._finite(np.array([one.vector.ravel() for one in sent]))
        one = self._of_rows(rows, self._last.get(field), self._rng)
        self._last[field] = one
        return one

    def _of_rows(self, rows: Array, last: Array | None, rng: np.random.Generator) -> Array:
        if len(rows) >= self._rule.least():
            if (clip := self._rule.clipped(rows, last)) is not None:
                self.tally.clip(*clip)
            return self._rule.combine(rows, last, rng)
        self._end_if_wanted(len(rows))
        self.tally.count("replaced")
        median: Array = np.median(rows, axis=0) if len(rows) else np.zeros(rows.shape[1])
        return median

    def _finite(self, rows: Array) -> Array:
        """Return the finite ones of some vectors: a receiver sees that, and leaves others out."""
        finite = np.isfinite(rows).all(axis=1)
        if finite.all():
            return rows
        self.tally.count("dropped", len(rows) - int(finite.sum()))
        return rows[finite]

    def _end_if_wanted(self, vectors: int) -> None:
        """Register that there are too few vectors, and end the run if that is the policy."""
        rule = self._rule
        if rule.with_fewer == "end":
            raise RunStopped(f"{rule.kind} needs {rule.least_in_words} vectors, and got {vectors}")
        self._register_shortage()

    def mix(
        self,
        own: Array,
        received: Sequence[tuple[ClientId, Array]],
        weights: Mapping[ClientId, float],
    ) -> Array:
        """Return a peer's next vector by the rule; see `fedsim.core.ports.Node.mix`."""
        vectors = np.array([vector for _, vector in received]).reshape(-1, own.size)
        finite = np.isfinite(vectors).all(axis=1)
        rows, rule = self._finite(vectors), self._rule
        if len(rows) < rule.least():
            self._end_if_wanted(len(rows))
            if rule.with_fewer == "skip":
                self.tally.count("skipped")
                return own
            self.tally.count("replaced")
            median: Array = np.median(np.vstack([own, rows]), axis=0)
            return median
        factors = np.array([weights[sender] for sender, _ in received])
        return rule.mix(own, rows, factors[finite])


ADDS_UP = Aggregator(Mean(), np.random.default_rng)
"""Adds up, and so keeps nothing: it serves any number of servers."""


class _Sent(NamedTuple):
    """What a client has sent, with its weight in the sum that the method asks for."""

    client: ClientId
    weight: float
    vector: Array


class _RunningSum:
    """What every client has sent so far, and the value of its sum under a rule."""

    def __init__(self) -> None:
        self._sent: dict[ClientId, _Sent] = {}
        self._value: Array | float = 0.0

    def add(self, changes: Sequence[_Sent]) -> None:
        for client, weight, vector in changes:
            before = self._sent.get(client)
            after = vector if before is None else before.vector + vector
            self._sent[client] = _Sent(client, weight, after)

    @property
    def all(self) -> list[_Sent]:
        """The sums of the clients' changes, in the order of the clients."""
        return [self._sent[client] for client in sorted(self._sent)]

    def change(self, one: Array) -> Array:
        """Set the value of the sum by the vector that stands for all; return its change."""
        value = sum(sent.weight for sent in self._sent.values()) * one
        change, self._value = value - self._value, value
        return change
