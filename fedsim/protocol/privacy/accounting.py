"""The account of epsilon, by Renyi differential privacy and the library dp-accounting.

One release of a sum with Gaussian noise has a ratio r of a client's largest contribution to the
standard deviation of the noise. Its Renyi divergence of order a is a r^2/2, and divergences of
releases add up (Mironov, "Renyi Differential Privacy", CSF 2017). Their sum becomes epsilon by
proposition 12 of Canonne, Kamath, Steinke, "The Discrete Gaussian for Differential Privacy",
NeurIPS 2020, which is what dp-accounting does.

With a tree of noise the releases are its nodes, and r is what all replies of a client change in
one of them. A client that replies once in a tree of n sums is in at most ceil(log2(n + 1)) of those
that are used: Kairouz et al., ICML 2021, and `SingleEpochTreeAggregationDpEvent` there.
"""

from dataclasses import dataclass
from functools import lru_cache
from math import inf
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from fedsim.core.errors import DataError
from fedsim.core.extras import missing
from fedsim.core.ports import Array
from fedsim.protocol.privacy.noise import Tree

CONVERSION = "Renyi divergences, converted as by Canonne, Kamath, Steinke 2020"
"""The conversion to epsilon, for people."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Bound:
    """Which bound on a round's privacy holds, given how its clients were sampled.

    Attributes:
        sampling: poisson, each client by itself; fixed, a uniform sample of fixed size; or none,
            if the sampling amplifies nothing, so that each client is charged for its own replies.
        sample: the expected number of clients in a round.
        clients: the number of all clients.
        everyone: without amplification, whether a round charges all clients, since who replied
            depends on their data.
        replaces: whether neighbours differ in the value of a reply. A sum then changes by up to
            twice a client's largest contribution, otherwise by that contribution.
        why: why sampling amplifies nothing; empty if it does, or if nothing is sampled.
        tree: the number of sums that share a tree of noise; 0 for none.
    """

    sampling: Literal["poisson", "fixed", "none"] = "none"
    sample: float
    clients: int
    everyone: bool = False
    replaces: bool = False
    why: str = ""
    tree: int = 0

    @property
    def lone(self) -> float:
        """The probability that a Poisson draw is a certain client alone, if it is not empty."""
        if self.clients == 1:
            return 1.0
        rate, others = self.sample / self.clients, self.clients - 1
        return float(rate * (1 - rate) ** others / (1 - (1 - rate) ** self.clients))

    @property
    def relation(self) -> str:
        """The neighbouring relation, for people."""
        if self.sampling == "fixed":
            return "one client is replaced by another"
        if self.replaces:
            return "a client's replies are replaced by any others"
        return "a client's replies are replaced by zeros"

    @property
    def text(self) -> str:
        """The bound, for people."""
        if self.sampling == "poisson":
            rate = self.sample / self.clients
            return f"amplified by Poisson sampling of each client with probability {rate:.4g}"
        if self.sampling == "fixed":
            count = f"{self.sample:g} of {self.clients}"
            return f"amplified by a uniform sample of {count} without replacement"
        if self.tree:
            return f"by the nodes of a tree of {self.tree} sums, without sampling (DP-FTRL)"
        return f"without amplification by sampling{f': {self.why}' if self.why else ''}"


@lru_cache
def renyi_orders() -> Array:
    """Return the orders of divergences.

    Raises:
        DataError: dp-accounting is not installed.
    """
    try:
        from dp_accounting.rdp import rdp_privacy_accountant
    except ModuleNotFoundError:
        raise DataError("privacy", missing("privacy", "dp-accounting", "privacy")) from None
    return np.array(rdp_privacy_accountant.DEFAULT_RDP_ORDERS, dtype=float)


@lru_cache(1024)
def divergences(squares: float, bound: Bound) -> Array:
    """Return the Renyi divergence of one round at each order, shape (orders,).

    Args:
        squares: the sum of r^2 over the round's releases.
        bound: which bound holds.
    """
    orders = renyi_orders()
    # Replacing a client changes a sum by up to twice its largest contribution.
    span = 2.0 if bound.sampling == "fixed" else 1.0
    whole = np.asarray(orders * (span**2 * squares / 2))
    if squares in (0.0, inf) or bound.sampling == "none":
        return whole
    import dp_accounting as dp

    relations = dp.NeighboringRelation
    noised = dp.GaussianDpEvent(squares**-0.5 / span)
    if bound.sampling == "poisson":
        event = dp.PoissonSampledDpEvent(bound.sample / bound.clients, noised)
        relation = relations.ADD_OR_REMOVE_ONE
    else:
        event = dp.SampledWithoutReplacementDpEvent(bound.clients, int(bound.sample), noised)
        relation = relations.REPLACE_ONE
    from absl import logging

    level = logging.get_verbosity()
    # It warns of each order whose series does not converge, and leaves these out.
    logging.set_verbosity(logging.ERROR)
    try:
        account = dp.rdp.RdpAccountant(orders, relation).compose(event)
    finally:
        logging.set_verbosity(level)
    sampled = account.rdp
    if bound.sampling == "poisson":
        sampled = _without_empty_draws(sampled, whole, bound.lone)
    # A sample is never worse than all clients.
    return np.asarray(np.minimum(sampled, whole))


def _without_empty_draws(sampled: Array, whole: Array, lone: float) -> Array:
    """Return the divergences of Poisson sampling whose empty draws are repeated.

    Given which others are drawn, a client is drawn with the sampling probability, but for certain
    if there are no others. So a round is a mixture over the draws of the others, with the same
    weights whether or not the client's replies are zeros: a whole release with the probability
    `lone`, and a sampled one otherwise. At an order a, exp((a - 1) D) is an f-divergence, and so
    jointly convex: that of the mixture is at most the mean of those of its parts.

    Args:
        sampled: the divergence of a sampled release at each order, shape (orders,).
        whole: that of a release that has the client for certain, shape (orders,).
        lone: see `Bound.lone`.
    """
    if lone in (0.0, 1.0):
        return whole if lone else sampled
    over = renyi_orders() - 1
    further = np.where(np.isfinite(sampled), over * (whole - sampled), 0.0)
    return np.asarray(sampled + np.logaddexp(np.log1p(-lone), np.log(lone) + further) / over)


def epsilon_of(divergence: Array, delta: float) -> float:
    """Return epsilon at a delta.

    Args:
        divergence: the Renyi divergence at each order, shape (orders,).
        delta: delta.
    """
    orders = renyi_orders()
    if not divergence.any():
        return 0.0
    if not np.isfinite(divergence).any():
        return inf
    from dp_accounting.rdp import compute_epsilon

    return float(compute_epsilon(orders, divergence, delta)[0])


class Account:
    """What a run has spent.

    Args:
        bound: which bound holds in its rounds.
        delta: delta.
    """

    def __init__(self, bound: Bound, delta: float) -> None:
        self._bound, self._delta = bound, delta
        self._amplified = bound.sampling != "none"
        self._spent = np.zeros(1 if self._amplified else bound.clients)  # sums of r^2
        self._closed: Array | None = None  # the divergence of the closed rounds, if amplified
        self._round = 0.0  # the largest sum of r^2 of a client in the last round, and in this one
        self._open = 0.0
        self._reached_all = True

    def charge(
        self,
        senders: NDArray[np.integer],
        ratios: Array,
        most: float,
        budget: float = inf,
        tree: Tree | None = None,
    ) -> bool:
        """Charge one release; return whether it keeps within a budget, or is not charged.

        Args:
            senders: the clients of the replies in it, with repetitions, shape (n,).
            ratios: r of each reply, shape (n,).
            most: the largest r that a single reply of any client could have.
            budget: the largest epsilon.
            tree: the sums of r of each client at the nodes of a tree, to which this release adds
                one. A client pays for what all of its replies change in a node together.
        """
        if self._amplified:
            sums = np.full(1, most)
        elif self._bound.everyone:
            repeated = np.bincount(senders).max(initial=1)
            sums = np.full(self._bound.clients, repeated * most)
        else:
            sums = np.bincount(senders, ratios, self._bound.clients)
        if tree is not None:
            sums = sums + tree.begin()
            tree.end(sums)
        squares = sums**2
        after = self._spent + squares
        if budget < inf and self._epsilon(after) > budget:
            return False
        self._reached_all = bool(squares.all())
        self._open += float(squares.max())
        self._spent = after
        return True

    def close(self) -> None:
        """End a round."""
        if self._amplified:
            self._closed = self._amplified_sum(self._spent)
            self._spent = np.zeros(1)
        self._round, self._open = self._open, 0.0

    def _amplified_sum(self, spent: Array) -> Array:
        of_round = divergences(float(spent[0]), self._bound)
        return of_round if self._closed is None else self._closed + of_round

    def _epsilon(self, spent: Array) -> float:
        if self._amplified:
            return epsilon_of(self._amplified_sum(spent), self._delta)
        return self._of_squares(float(spent.max()))

    def _of_squares(self, squares: float) -> float:
        return _plain_epsilon(squares, self._bound, self._delta)

    @property
    def epsilon(self) -> float:
        """Epsilon of the client that has lost most."""
        return self._epsilon(self._spent)

    def after(self, squares: float) -> float:
        """Return epsilon of that client after a further sum of r^2."""
        return self._epsilon(self._spent + squares)

    @property
    def next_epsilon(self) -> float:
        """Epsilon after one more round like the last one; 0 if it may be charged in another way."""
        return self.after(self._round) if self._reached_all and not self._bound.tree else 0.0

    @property
    def epsilons(self) -> Array:
        """Epsilon of each client, shape (M,)."""
        if self._amplified:
            return np.full(self._bound.clients, self.epsilon)
        squares, places = np.unique(self._spent, return_inverse=True)
        return np.array([self._of_squares(float(each)) for each in squares])[places]


@lru_cache(4096)
def _plain_epsilon(squares: float, bound: Bound, delta: float) -> float:
    return epsilon_of(divergences(squares, bound), delta)


def planned_epsilon(rounds: int, squares: float, bound: Bound, delta: float) -> float:
    """Return epsilon of a client that takes part in this many rounds, each with a sum of r^2."""
    return epsilon_of(rounds * divergences(squares, bound), delta)
