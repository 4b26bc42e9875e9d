"""Rounds of many models: complete when every present node has committed its own."""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

import numpy as np

from fedsim.ports import Array, ClientId
from fedsim.record.rounds import Traffic
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
        """Take the model of a node in a round."""
        made = self._open.setdefault(number, {})
        made[node] = _Committed(model.copy(), measures)
        if number == self._round and len(made) >= len(self._there):
            self._look()

    def node_left(self, node: ClientId) -> None:
        """Remove a node that has left; what it has committed counts."""
        self._there.discard(node)
        self._look()

    def _look(self) -> None:
        """Close the rounds that are over."""
        while (made := self._open.get(self._round)) and self._there <= made.keys():
            del self._open[self._round]
            self._round += 1
            if self._observer.nodes is not None:
                self._observer.nodes.see(self._all_models(made))
            self._close([made[node] for node in sorted(made)])

    def _all_models(self, made: Mapping[ClientId, _Committed]) -> Array:
        """Return each node's own model, shape (M, d); NaN in the rows of those that have left."""
        models = np.full((self._nodes, *next(iter(made.values())).model.shape), np.nan)
        for node, committed in made.items():
            models[node] = committed.model
        return models

    def _close(self, made: list[_Committed]) -> None:
        models = np.array([each.model for each in made])
        mean = models.mean(axis=0)
        names = dict.fromkeys(name for each in made for name in each.measures)
        figures = {name: _mean_of(name, made) for name in names}
        self._traffic.cohort += len(made)
        self._observer.commit(mean, {CONSENSUS: distance(models, mean), **figures})


def distance(models: Array, mean: Array) -> float:
    """Return how far models, shape (M, d), are apart: the root mean square distance to the mean.

    >>> distance(np.array([[0.0, 3.0], [0.0, -3.0]]), np.zeros(2))
    3.0
    """
    with np.errstate(over="ignore", invalid="ignore"):  # of models that are not finite
        return float(np.sqrt(((models - mean) ** 2).sum(axis=1).mean()))


def _mean_of(name: str, made: list[_Committed]) -> float:
    given = [each.measures[name] for each in made if name in each.measures]
    return sum(given) / len(given)
