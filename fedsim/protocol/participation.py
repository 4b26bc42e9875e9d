"""Participation: how many are asked in a round, and when the round closes."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from math import ceil, inf

import numpy as np

from fedsim.ports import Array

Order = Callable[[int, np.random.Generator], Iterable[int]]
"""Draws the order in which clients are asked, as far as they can take part: each client once,
given how many draws there were before and the stream of the draws."""


def by_weight(weights: Array, number: int, rng: np.random.Generator) -> list[int]:  # noqa: ARG001
    """Draw an order in which the next client is drawn in proportion to its weight, shape (M,)."""
    # Efraimidis and Spirakis 2006: the order of Exp(1)/w is that of weighted draws.
    keys = rng.standard_exponential(len(weights)) / weights
    return list[int](np.argsort(keys, kind="stable").tolist())


@dataclass(frozen=True, slots=True)
class Participation:
    """A policy.

    Attributes:
        count: k, how many replies a round is after; None for those of all.
        order: draws the order in which so many are taken; None for a uniform draw.
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
    order: Order | None = None
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
