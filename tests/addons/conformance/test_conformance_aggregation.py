"""Rules of aggregation and attacks keep what is promised of them; faulty ones are found."""

from collections.abc import Sequence
from typing import Any, ClassVar, Literal

import numpy as np
import pandas as pd
import pytest

from fedsim.addons.conformance import check_aggregation, check_attack, check_block
from fedsim.core.ports import Array
from fedsim.protocol.aggregation import AGGREGATIONS, Aggregation
from fedsim.protocol.attacks import ATTACKS, Attack
from fedsim.testing import assert_kept
from tests.addons.conformance.test_every_block import GIVEN

DRAWS = np.random.default_rng(5)


def broken(checks: pd.DataFrame) -> list[str]:
    """Return the checks that are broken."""
    return checks.loc[checks["outcome"] == "broken", "check"].tolist()


@pytest.mark.parametrize("kind", list(AGGREGATIONS.own))
def test_own_rules_keep_all(kind: str) -> None:
    rule: Any = AGGREGATIONS.own[kind]
    assert_kept(check_aggregation(rule.in_si(**GIVEN.get(rule.__name__, {}))))


@pytest.mark.parametrize("before", ["nnm", "bucketing"])
def test_steps_before_a_rule_keep_all(before: str) -> None:
    rule: Any = AGGREGATIONS.own["trimmed-mean"]
    assert_kept(check_aggregation(rule(byzantine=1, before=(before,))))


@pytest.mark.parametrize("kind", list(ATTACKS.own))
def test_own_attacks_keep_all(kind: str) -> None:
    attack: Any = ATTACKS.own[kind]
    assert_kept(check_block(attack.in_si(**GIVEN.get(attack.__name__, {}))))


class _Rule(Aggregation):
    kind: Literal["own"] = "own"

    def combine(self, vectors: Array, last: Array | None, rng: np.random.Generator) -> Array:
        mean: Array = vectors.mean(axis=0)
        return mean


class First(_Rule):
    def combine(self, vectors: Array, last: Array | None, rng: np.random.Generator) -> Array:
        copied: Array = vectors[0].copy()
        return copied


class Sum(_Rule):
    def combine(self, vectors: Array, last: Array | None, rng: np.random.Generator) -> Array:
        total: Array = vectors.sum(axis=0)
        return total


class Sorts(_Rule):
    def combine(self, vectors: Array, last: Array | None, rng: np.random.Generator) -> Array:
        vectors.sort(axis=0)
        middle: Array = vectors[len(vectors) // 2].copy()
        return middle


class Lends(_Rule):
    def combine(self, vectors: Array, last: Array | None, rng: np.random.Generator) -> Array:
        chosen: Array = vectors[np.abs(vectors).sum(axis=1).argmin()]
        return chosen


class Row(_Rule):
    def combine(self, vectors: Array, last: Array | None, rng: np.random.Generator) -> Array:
        mean: Array = vectors.mean(axis=0, keepdims=True)
        return mean


class Normed(_Rule):
    """Its weights are 0/0 if all vectors are zero."""

    def combine(self, vectors: Array, last: Array | None, rng: np.random.Generator) -> Array:
        weights = np.linalg.norm(vectors, axis=1)
        mean: Array = weights @ vectors / weights.sum()
        return mean


class Guesses(_Rule):
    def combine(self, vectors: Array, last: Array | None, rng: np.random.Generator) -> Array:
        chosen: Array = vectors[DRAWS.integers(len(vectors))].copy()
        return chosen


class Needy(_Rule):
    def least(self) -> int:
        return -1

    def operations(self, vectors: int, dimension: int) -> float:
        return float("nan")


AT = "at a server: "
FAULTY_RULES: list[tuple[type[Aggregation], set[str]]] = [
    (First, {AT + "the order of clients does not matter"}),
    (Sum, {AT + "equal vectors give that vector"}),
    (Sorts, {AT + "its argument stays as it is"}),
    (Lends, {AT + "its argument stays as it is"}),
    (Row, {AT + "a vector of the same length is returned"}),
    (Normed, {AT + "finite vectors give a finite one", AT + "equal vectors give that vector"}),
    (
        Guesses,
        {
            AT + "equal random streams give equal vectors",
        },
    ),
    (
        Needy,
        {
            "`least` is a whole number, and a policy says what is done with fewer",
            "`operations` is a number, or None",
        },
    ),
]


@pytest.mark.parametrize(("rule", "promises"), FAULTY_RULES)
def test_a_rule_that_breaks_a_promise_is_found(rule: Any, promises: set[str]) -> None:
    found = set(broken(check_block(rule())))
    assert promises <= found
    if rule not in {Guesses, Row}:  # which break further ones by the way
        assert found == promises


class Leans(_Rule):
    """A rule of peers that moves towards the first neighbour."""

    at_servers: ClassVar[bool] = False
    among_peers: ClassVar[bool] = True

    def mix(self, own: Array, received: Array, weights: Array) -> Array:
        own += 0.5 * (received[0] - own)
        return own


def test_a_rule_of_peers_is_tried_at_a_peer() -> None:
    assert broken(check_aggregation(Leans())) == ["at a peer: the order of clients does not matter"]


class _Attack(Attack):
    kind: Literal["own"] = "own"


class InPlace(_Attack):
    def distort(self, vector: Array, earlier: Sequence[Array], rng: np.random.Generator) -> Array:
        vector *= -1
        return vector


class Flat(_Attack):
    def distort(self, vector: Array, earlier: Sequence[Array], rng: np.random.Generator) -> Array:
        return -vector.ravel()


class Noise(_Attack):
    keeps_structure: ClassVar[bool] = True

    def distort(self, vector: Array, earlier: Sequence[Array], rng: np.random.Generator) -> Array:
        return vector + DRAWS.standard_normal(vector.shape)


class Forgets(_Attack):
    @property
    def memory(self) -> int:
        return 2

    def distort(self, vector: Array, earlier: Sequence[Array], rng: np.random.Generator) -> Array:
        return earlier[0]  # there is none in the first round


class Gang(_Attack):
    colludes: ClassVar[bool] = True

    def collude(self, true: Array, false_ones: int) -> Array:
        true -= true.mean(axis=0)
        sent: Array = true[:1]
        return sent


FAULTY_ATTACKS: list[tuple[type[Attack], set[str]]] = [
    (InPlace, {"vectors that it is given stay as they are"}),
    (Flat, {"a vector of the same shape is sent"}),
    (
        Noise,
        {
            "equal random streams give equal vectors",
            "with `keeps_structure`, zeros stay zeros",
        },
    ),
    (Forgets, {"a vector of the same shape is sent"}),
    (Gang, {"colluding clients send one vector of the same length"}),
]


@pytest.mark.parametrize(("attack", "promises"), FAULTY_ATTACKS)
def test_an_attack_that_breaks_a_promise_is_found(attack: Any, promises: set[str]) -> None:
    assert promises <= set(broken(check_attack(attack())))
