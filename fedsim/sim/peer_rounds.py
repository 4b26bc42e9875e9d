"""Rounds of peers: when one is over, and which models it stands for.

Where nodes exchange in rounds, one is over when every node that is left has committed its model.
Where they meet in pairs there are no rounds of their own: one is as many exchanges as nodes are
left, and stands for the models that the nodes have at that moment.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from fedsim.ports import Array, ClientId
from fedsim.record.rounds import Traffic
from fedsim.sim.config import PeerMethod, WorldConfig
from fedsim.worlds.observer import Observer

CONSENSUS = "consensus"
"""The column of how far the models of a round are apart."""


class _Committed(NamedTuple):
    """A model and the measures that a node has committed."""

    model: Array
    measures: dict[str, float]


class PeerRounds:
    """Waits for the models of a round, and hands their mean to the observer.

    Nodes may be rounds apart, as far as the graph between them is wide; rounds are over in order.
    """

    def __init__(self, nodes: Iterable[ClientId], observer: Observer, traffic: Traffic) -> None:
        self._there = set(nodes)
        self._nodes = len(self._there)
        self._observer = observer
        self._traffic = traffic
        self._round = 1
        self._open: dict[int, dict[ClientId, _Committed]] = {}

    def commit(self, node: ClientId, number: int, model: Array, measures: dict[str, float]) -> None:
        """Take the model of a node in a round, and close that if it is the last one."""
        made = self.take(node, number, model, measures)
        if number == self._round and len(made) >= len(self._there):
            self._look()

    def take(
        self, node: ClientId, number: int, model: Array, measures: dict[str, float]
    ) -> Mapping[ClientId, _Committed]:
        """Take the model of a node in a round; return all models of that."""
        made = self._open.setdefault(number, {})
        made[node] = _Committed(model.copy(), measures)
        return made

    def node_left(self, node: ClientId) -> None:
        """Remove a node that has left; what it has committed counts."""
        self._there.discard(node)
        self._look()

    def _look(self) -> None:
        """Close the rounds that are over."""
        while (made := self._open.get(self._round)) and self._there <= made.keys():
            self.close()

    def close(self) -> None:
        """Close the open round, of which all models have been taken."""
        made = self._open.pop(self._round)
        self._round += 1
        models = {node: made[node].model for node in sorted(made)}
        each = [made[node] for node in models]
        _keep_all(models, self._nodes, self._observer)
        _close([*models.values()], each, self._observer, self._traffic)

    def close_with(self, models: Array) -> None:
        """Close the open round with the models of all nodes, shape (M, d)."""
        self._round += 1
        if self._observer.nodes is not None:
            self._observer.nodes.see(models.copy())
        _close(models, (), self._observer, self._traffic)


def begin_rounds(method: PeerMethod, setup: WorldConfig, observer: Observer) -> None:
    """Hand the mean of the models that the nodes begin with to the observer, as round 0."""
    initial = setup.initial
    streams = (setup.rng("client", number) for number in range(len(setup.fleet)))
    starts = [method.start(initial, rng) for rng in streams]
    _keep_all(dict(enumerate(starts)), len(starts), observer)
    if all(start is initial for start in starts):
        observer.begin(initial, {CONSENSUS: 0.0})
        return
    stack = np.array(starts)
    mean = stack.mean(axis=0)
    observer.begin(mean, {CONSENSUS: distance(stack, mean)})


def _keep_all(models: Mapping[ClientId, Array], nodes: int, observer: Observer) -> None:
    """Hand over each node's own model where these are kept; NaN for a node that has left."""
    if observer.nodes is None or not models:
        return
    rows = np.full((nodes, *next(iter(models.values())).shape), np.nan)
    for node, model in models.items():
        rows[node] = model
    observer.nodes.see(rows)


def _close(
    models: Sequence[Array] | Array,
    made: Sequence[_Committed],
    observer: Observer,
    traffic: Traffic,
) -> None:
    """Hand the mean of the models of a round to the observer, with the figures of its commits."""
    stack = np.array(models)
    mean = stack.mean(axis=0)
    names = dict.fromkeys(name for each in made for name in each.measures)
    figures = {name: _mean_of(name, made) for name in names}
    traffic.cohort += len(models)
    observer.commit(mean, figures, {CONSENSUS: distance(stack, mean)})


def distance(models: Array, mean: Array) -> float:
    """Return how far models, shape (M, d), are apart: the root mean square distance to the mean.

    >>> distance(np.array([[0.0, 3.0], [0.0, -3.0]]), np.zeros(2))
    3.0
    """
    with np.errstate(over="ignore", invalid="ignore"):  # of models that are not finite
        return float(np.sqrt(((models - mean) ** 2).sum(axis=1).mean()))


def _mean_of(name: str, made: Sequence[_Committed]) -> float:
    given = [each.measures[name] for each in made if name in each.measures]
    return sum(given) / len(given)


class PairRounds:
    """Counts exchanges of pairs; a round is over after as many of them as nodes are left.

    Args:
        models: returns the models of the nodes that are left, in order.
        nodes: the number of all nodes.
        observer: is handed their mean.
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
        self._made: list[_Committed] = []

    def commit(self, node: ClientId, number: int, model: Array, measures: dict[str, float]) -> None:  # noqa: ARG002
        """Count an exchange that a node has made, with its figures."""
        self._made.append(_Committed(model, measures))
        self._look()

    def node_left(self, node: ClientId) -> None:  # noqa: ARG002 - `models` knows
        """Count the exchanges anew where a node has left."""
        self._look()

    def _look(self) -> None:
        """Close the round if it is over."""
        models = self._models()
        if not self._made or len(self._made) < len(models):
            return
        made, self._made = self._made, []
        self._round += 1
        self._begin(self._round)
        _keep_all(models, self._nodes, self._observer)
        _close([*models.values()], made, self._observer, self._traffic)
