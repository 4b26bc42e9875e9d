"""Rounds of peers: when a round is over, and which models it comprises.

If nodes exchange in rounds, a round is over when every remaining node has committed its model. If
nodes meet in pairs there are no common rounds. A round then is as many exchanges as nodes remain,
and comprises the present models of the nodes.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from fedsim.core.ports import Array, ClientId
from fedsim.protocol.aggregation.tally import COUNTS
from fedsim.results.record.rounds import Traffic
from fedsim.sim.config import PeerMethod, WorldConfig
from fedsim.sim.worlds.observer import Observer

CONSENSUS = "consensus"
"""The column of the distance of models to their mean."""


class _Committed(NamedTuple):
    """A model and the measures that a node has committed."""

    model: Array
    measures: dict[str, float]


class PeerRounds:
    """Collects the models of a round, and passes their mean to the observer.

    Nodes may be rounds apart, up to the diameter of the graph; rounds end in order.
    """

    def __init__(self, nodes: Iterable[ClientId], observer: Observer, traffic: Traffic) -> None:
        self._remaining = set(nodes)
        self._nodes = len(self._remaining)
        self._observer = observer
        self._traffic = traffic
        self._round = 1
        self._open: dict[int, dict[ClientId, _Committed]] = {}

    def commit(self, node: ClientId, number: int, model: Array, measures: dict[str, float]) -> None:
        """Store the model of a node in a round, and close the round if it is complete."""
        commits = self.take(node, number, model, measures)
        # Nodes may be rounds ahead, but rounds close in order: only the oldest open one can.
        if number == self._round and len(commits) >= len(self._remaining):
            self._look()

    def take(
        self, node: ClientId, number: int, model: Array, measures: dict[str, float]
    ) -> Mapping[ClientId, _Committed]:
        """Store the model of a node in a round; return all models of that round."""
        commits = self._open.setdefault(number, {})
        # Copied, as a node may go on to change its model in place.
        commits[node] = _Committed(model.copy(), measures)
        return commits

    def node_left(self, node: ClientId) -> None:
        """Remove a node that has left; its commits count."""
        self._remaining.discard(node)
        self._look()

    def _look(self) -> None:
        """Close the rounds that are complete."""
        # A subset, not an equality: commits of nodes that have left count. Without any commit there
        # is no mean, and the round stays open, even if all nodes have left.
        while (commits := self._open.get(self._round)) and self._remaining <= commits.keys():
            self.close()

    def close(self) -> None:
        """Close the open round, whose models are all known."""
        commits = self._open.pop(self._round)
        self._round += 1
        # In the order of nodes, so that the rounding of the mean is independent of arrivals.
        models = {node: commits[node].model for node in sorted(commits)}
        ordered = [commits[node] for node in models]
        _keep_all(models, self._nodes, self._observer)
        _close([*models.values()], ordered, self._observer, self._traffic)

    def close_with(self, models: Array) -> None:
        """Close the open round with the models of all nodes, shape (M, d)."""
        self._round += 1
        if self._observer.nodes is not None:
            self._observer.nodes.see(models.copy())
        _close(models, (), self._observer, self._traffic)


def begin_rounds(method: PeerMethod, setup: WorldConfig, observer: Observer) -> None:
    """Pass the mean of the initial models to the observer, as round 0."""
    initial = setup.initial
    streams = (setup.rng("client", number) for number in range(len(setup.fleet)))
    starts = [method.start(initial, rng) for rng in streams]
    _keep_all(dict(enumerate(starts)), len(starts), observer)
    # One shared start has distance 0; a stack would take M copies of it.
    if all(start is initial for start in starts):
        observer.begin(initial, {CONSENSUS: 0.0})
        return
    stack = np.array(starts)
    mean = stack.mean(axis=0)
    observer.begin(mean, {CONSENSUS: distance(stack, mean)})


def _keep_all(models: Mapping[ClientId, Array], nodes: int, observer: Observer) -> None:
    """Pass the models of all nodes to the observer if it keeps them; NaN for nodes that left."""
    if observer.nodes is None or not models:
        return
    rows = np.full((nodes, *next(iter(models.values())).shape), np.nan)
    for node, model in models.items():
        rows[node] = model
    observer.nodes.see(rows)


def _close(
    models: Sequence[Array] | Array,
    commits: Sequence[_Committed],
    observer: Observer,
    traffic: Traffic,
) -> None:
    """Pass the mean of the models of a round to the observer, with the measures of its commits."""
    stack = np.array(models)
    mean = stack.mean(axis=0)
    names = dict.fromkeys(name for commit in commits for name in commit.measures)
    figures = {name: _figure(name, commits) for name in names}
    # Counted before `commit`, which writes the row of the round with these totals.
    traffic.cohort += len(models)
    observer.commit(mean, figures, {CONSENSUS: distance(stack, mean)})


def distance(models: Array, mean: Array) -> float:
    """Return the root mean square distance of models, shape (M, d), to their mean.

    >>> distance(np.array([[0.0, 3.0], [0.0, -3.0]]), np.zeros(2))
    3.0
    """
    with np.errstate(over="ignore", invalid="ignore"):  # models may be infinite
        return float(np.sqrt(((models - mean) ** 2).sum(axis=1).mean()))


def _figure(name: str, commits: Sequence[_Committed]) -> float:
    values = [commit.measures[name] for commit in commits if name in commit.measures]
    return sum(values) / (1 if name in COUNTS else len(values))


class PairRounds:
    """Counts exchanges of pairs; a round is as many of them as nodes remain.

    Args:
        models: returns the models of the remaining nodes, in order.
        nodes: the number of all nodes.
        observer: receives their mean.
        traffic: counts the nodes of a round.
        begin: called with the number of each further round.
    """

    def __init__(
        self,
        models: Callable[[], Mapping[ClientId, Array]],
        nodes: int,
        observer: Observer,
        traffic: Traffic,
        begin: Callable[[int], None],
    ) -> None:
        self._models = models
        self._nodes = nodes
        self._observer = observer
        self._traffic = traffic
        self._begin = begin
        self._round = 1
        self._commits: list[_Committed] = []

    def commit(self, node: ClientId, number: int, model: Array, measures: dict[str, float]) -> None:
        """Count an exchange of a node, with its measures."""
        # Only the measures are used. The round closes with the models that nodes have then, which
        # may have changed since this commit.
        self._commits.append(_Committed(model, measures))
        self._look()

    def node_left(self, node: ClientId) -> None:
        """Compare the count with the number of remaining nodes again."""
        self._look()

    def _look(self) -> None:
        """Close the round if it is over."""
        models = self._models()
        if not self._commits or len(self._commits) < len(models):
            return
        commits, self._commits = self._commits, []
        self._round += 1
        # Before `_close`, which may end the run by an exception.
        self._begin(self._round)
        _keep_all(models, self._nodes, self._observer)
        _close([*models.values()], commits, self._observer, self._traffic)
