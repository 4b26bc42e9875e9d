"""Estimates of a mean over all clients from the replies of a sample.

The objective is F(w) = sum_m p_m f_m(w), where the weights p_m of the M clients add up to 1. A
round has the replies x_m of a sample S, and a method needs an estimate of sum_m p_m x_m. Let q_m be
client m's share of the expected draws (1/M in a uniform sample), k_m how often it was drawn (1
without replacement), and n = sum_S k_m. Then

    unbiased          sum_S k_m/(n q_m) p_m x_m    (Horvitz and Thompson, 1952)
    self-normalised   sum_S p_m x_m / sum_S p_m    (McMahan et al., AISTATS 2017)
    plain             sum_S k_m/n x_m

In a uniform sample the factor k_m/(n q_m) is M/n: scheme II of Li, Huang, Yang, Wang, Zhang, "On
the Convergence of FedAvg on Non-IID Data", ICLR 2020. With q_m = p_m the unbiased estimate is the
plain mean, as in their scheme I. Without replacement n q_m is the inclusion probability pi_m, so
that q_m is pi_m over the number of clients drawn. The self-normalised estimate is a ratio: its
expectation is sum_m p_m x_m only if all q_m and all p_m are equal, or one client replies.

The law holds for the replies that arrive if those that are missing are missing at random: n counts
the draws of the clients that reply. The same goes for clients that could not be asked: q_m is
scaled by the share of the sizes that those asked were drawn from. An estimate cannot correct for
clients that are offline or slow because of the data that they have.
"""

from collections.abc import Sequence
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fedsim.core.errors import Failed
from fedsim.core.ports import Array, ClientId, Reply
from fedsim.wire import ReplyColumns, senders

Estimate = Literal["unbiased", "self-normalised", "plain"]
"""How to estimate the mean over all clients from the replies of a sample."""

_REMEMBERED = 1_000
"""The number of rounds whose draws are kept, for late replies."""


class DrawnCohort(NamedTuple):
    """The sampled clients of a round, with the law of the draw.

    Attributes:
        clients: the clients, in ascending order, shape (k,).
        shares: q, each client's share of the expected draws, shape (k,).
        times: how often each client was drawn, shape (k,).
    """

    clients: NDArray[np.int64]
    shares: Array
    times: Array

    def numbered(self, first: ClientId) -> "DrawnCohort":
        """Return the draw with clients numbered from `first` in place of 0."""
        return self._replace(clients=self.clients + first) if first else self


def check_any(replies: Sequence[Reply], what: str) -> None:
    """Check that a round has a reply, which it has not if all of its clients are silent.

    Args:
        replies: the replies.
        what: what the method asks for, for the error.

    Raises:
        Failed: there is none.
    """
    if not replies:
        text = f"the method asks for {what} of no replies: all clients of the round were silent"
        raise Failed(f"{text}; let it ask only `if replies`")


class Estimator:
    """Weights of the replies of one server, in the rounds of one run.

    Args:
        estimate: the estimate of a mean.
        clients: M, the number of clients of the server.
    """

    def __init__(self, estimate: Estimate, clients: int) -> None:
        self._estimate: Estimate = estimate
        self._clients = clients
        self._draws: dict[
            int, DrawnCohort
        ] = {}  # by round; rounds in which all clients are equally likely have no entry

    def record(self, number: int, draw: DrawnCohort | None) -> None:
        """Keep the draw of a round; None if all clients were equally likely."""
        if draw is None:
            return
        self._draws[number] = draw
        if len(self._draws) > _REMEMBERED:
            # The oldest, as a dictionary keeps the order of insertion.
            del self._draws[next(iter(self._draws))]

    def factors(self, replies: Sequence[Reply]) -> Array | float:
        """Return the factors k_m/(n q_m) of p_m in the unbiased estimate of a sum over all clients.

        Args:
            replies: at least one.

        Returns:
            The factors, shape (n,); the number M/n if all clients were equally likely.

        Raises:
            Failed: there are no replies.
        """
        check_any(replies, "the factors")
        if not self._draws:
            return self._clients / len(replies)
        shares, times = self._law(replies)
        return np.asarray(times / (times.sum() * shares))

    def coefficients(self, replies: Sequence[Reply], weights: Array, total: float = 1.0) -> Array:
        """Return the weights of replies in the estimate of the mean over all clients, shape (n,).

        Args:
            replies: at least one.
            weights: p_m of all nodes, by their numbers.
            total: the sum of p_m over the clients of this server.

        Raises:
            Failed: there are no replies.
        """
        check_any(replies, "the coefficients")
        if self._estimate == "plain":
            times = self._law(replies)[1]
            return np.asarray(times / times.sum())
        reply_weights = weights[senders(replies)]
        if self._estimate == "self-normalised":
            return np.asarray(reply_weights / reply_weights.sum())
        return np.asarray(reply_weights * (self.factors(replies) / total))

    def _law(self, replies: Sequence[Reply]) -> tuple[Array, Array]:
        """Return q and k of each reply under the draw of its round, both of shape (n,)."""
        clients = senders(replies)
        # Clients outside a draw, such as those that a method named, count as drawn uniformly.
        shares, times = np.full(len(clients), 1 / self._clients), np.ones(len(clients))
        rounds = _rounds(replies)
        for number in np.unique(rounds).tolist():
            draw = self._draws.get(number)
            if draw is None:
                continue
            of_round = np.flatnonzero(rounds == number)
            # `draw.clients` is ascending. A client that is not in it gets a neighbour's place,
            # which the comparison below finds out.
            places = np.searchsorted(draw.clients, clients[of_round])
            places = np.minimum(places, len(draw.clients) - 1)
            drawn = draw.clients[places] == clients[of_round]
            of_round, places = of_round[drawn], places[drawn]
            shares[of_round], times[of_round] = draw.shares[places], draw.times[places]
        return shares, times


def _rounds(replies: Sequence[Reply]) -> NDArray[np.integer]:
    """Return the round of each reply, shape (n,)."""
    if isinstance(replies, ReplyColumns):
        return np.full(len(replies), replies.round)
    return np.array([reply.round for reply in replies], np.intp)


# Samples without replacement, with prescribed inclusion probabilities.
#
# Madow, "On the Theory of Systematic Sampling, II", 1949; Goodman, Kish, "Controlled Selection: A
# Technique in Probability Sampling", 1950, for the random order. Successive weighted draws
# (Efraimidis and Spirakis 2006) have no inclusion probabilities in closed form.


def inclusion_probabilities(sizes: Array, count: int) -> Array:
    """Return the inclusion probabilities of a sample of fixed size, in proportion to sizes.

    They add up to `count`. A client whose probability would exceed 1 is always drawn, and the
    others share the rest in proportion to their sizes.

    Args:
        sizes: positive sizes of the clients, shape (M,).
        count: the number of clients drawn; M or more draws all.

    >>> inclusion_probabilities(np.array([10.0, 10.0, 20.0]), 2).tolist()
    [0.5, 0.5, 1.0]
    """
    if count >= len(sizes):
        return np.ones(len(sizes))
    total = sizes.sum()
    if count * sizes.max() <= total:
        return np.asarray(count * sizes / total)
    # The certain clients are the largest ones. The k-th is certain if the share of what is left
    # would give it a probability above 1; the first one that is not ends the list.
    descending = np.sort(sizes)[::-1]
    rest = np.cumsum(descending[::-1])[::-1]  # the sum of each size and all smaller ones
    certain = int(np.argmax((count - np.arange(len(sizes))) * descending <= rest))
    scale = (count - certain) / rest[certain]
    return np.asarray(np.minimum(scale * sizes, 1.0))


def systematic_sample(
    probabilities: Array, count: int, rng: np.random.Generator
) -> NDArray[np.int64]:
    """Return a sample with prescribed inclusion probabilities, ascending, shape (count,).

    The clients are laid on a line in random order, each as an interval as long as its probability.
    The sample is the clients whose intervals hold u, u + 1, ..., with u uniform in [0, 1).

    Args:
        probabilities: at most 1 each, with the sum `count`, shape (M,).
        count: the number of clients drawn.
        rng: the stream of the draws.
    """
    certain = np.flatnonzero(probabilities >= _CERTAIN)
    order = rng.permutation(len(probabilities))
    # The certain ones are drawn without a place on the line, so that rounding cannot skip one.
    if len(certain):
        order = order[probabilities[order] < _CERTAIN]
    left = count - len(certain)
    offset = rng.random()
    if left <= 0:
        return certain[:count]
    # Rescaled to end at exactly `left`: rounding of the sum must not push the last point off it.
    ends = np.cumsum(probabilities[order])
    places = np.searchsorted(ends * (left / ends[-1]), offset + np.arange(left), side="right")
    return np.sort(np.concatenate([certain, order[places]]))


_CERTAIN = 1 - 1e-12
"""A client with at least this inclusion probability is always drawn."""


def draw_by_size(
    sizes: Array, count: int, available: float, rng: np.random.Generator
) -> DrawnCohort:
    """Return a sample without replacement, with inclusion probabilities proportional to size.

    Args:
        sizes: positive sizes of the clients that can be asked, shape (A,).
        count: the number of clients drawn.
        available: the sum of `sizes` as a share of the sizes of all clients.
        rng: the stream of the draws.
    """
    probabilities = inclusion_probabilities(sizes, count)
    clients = systematic_sample(probabilities, min(count, len(sizes)), rng)
    shares = probabilities[clients] * (available / len(clients))
    return DrawnCohort(clients, np.asarray(shares), np.ones(len(clients)))
