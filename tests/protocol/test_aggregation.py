"""Rules of aggregation: ByzFL's results, and what they promise about false vectors."""

import json
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

from fedsim.cli import app
from fedsim.core.errors import ParameterError
from fedsim.core.ports import Array, Reply
from fedsim.protocol.aggregation import (
    ADDS_UP,
    AGGREGATIONS,
    Aggregator,
    CoordinateMedian,
    RobustRule,
)
from fedsim.protocol.aggregation.robust import distance_operations, nearest_neighbour_means
from fedsim.protocol.stopping import RunStopped
from fedsim.wire import Dense, ValueFormat
from tests.protocol.vectors_of_byzfl import cases

RNG = np.random.default_rng(0)
STORED = json.loads((Path(__file__).parent / "byzfl.json").read_text(encoding="utf-8"))
"""By case and kind; see `vectors_of_byzfl.py`."""

SETTINGS: dict[str, dict[str, Any]] = {"centred-clipping": {"radius": 0.5, "steps": 2}}


def rule(kind: str, byzantine: int, **settings: Any) -> RobustRule:
    model: Any = AGGREGATIONS.own[kind]
    made = model(byzantine=byzantine, **SETTINGS.get(kind, {}), **settings)
    assert isinstance(made, RobustRule)
    return made


KINDS = [kind for kind, rule in AGGREGATIONS.own.items() if rule.at_servers and kind != "mean"]


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "bulyan"])
def test_it_returns_what_byzfl_returns(kind: str) -> None:
    compared = 0
    for (f, vectors), stored in zip(cases(), STORED, strict=True):
        if kind in stored:
            mine = rule(kind, f).combine(vectors, None, RNG)
            assert mine == pytest.approx(np.array(stored[kind]), rel=1e-12, abs=1e-12)
            compared += 1
    assert compared > 60


def test_medians_of_nearest_neighbours_are_those_of_byzfl() -> None:
    for (f, vectors), stored in zip(cases(), STORED, strict=True):
        mine = np.median(nearest_neighbour_means(vectors, f), axis=0)
        assert mine == pytest.approx(np.array(stored["nnm"]), rel=1e-12, abs=1e-12)


def test_bulyan_takes_the_values_around_the_median_of_what_krum_chooses() -> None:
    """El Mhamdi et al. 2018, by hand: f = 1, n = 7, and one vector far off."""
    vectors = np.array([[0.0], [1.0], [2.0], [3.0], [4.0], [5.0], [1000.0]])
    # Krum adds up the squared distances to the 5 nearest others (then 4, 3, ...): by turns it takes
    # 2 (15 = 4 + 1 + 1 + 4 + 9 less 4), 3, 1, 4 and 0. Of 0, 1, 2, 3, 4 the three next to their
    # median 2 are 1, 2, 3.
    assert rule("bulyan", 1).combine(vectors, None, RNG).tolist() == [2.0]


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "mda"])  # which has ties
@given(st.integers(0, 2**32 - 1))
def test_the_order_of_vectors_does_not_matter(kind: str, seed: int) -> None:
    rng = np.random.default_rng(seed)
    vectors = rng.standard_normal((11, 3))
    one = rule(kind, 2).combine(vectors, None, RNG)
    other = rule(kind, 2).combine(vectors[rng.permutation(11)], None, RNG)
    assert other == pytest.approx(one, rel=1e-12, abs=1e-12)


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "centred-clipping"])
@pytest.mark.parametrize("before", [(), ("nnm",), ("bucketing",)])
@given(st.integers(0, 2**32 - 1), st.floats(10, 1e9))
def test_far_vectors_do_not_carry_it_away(
    kind: str, before: tuple[str, ...], seed: int, distance: float
) -> None:
    """With f = 2 of 19 vectors anywhere, the result stays near the true ones, all within 1."""
    rng = np.random.default_rng(seed)
    vectors = rng.uniform(-1, 1, (19, 3))
    vectors[:2] = distance * rng.choice([-1.0, 1.0], (2, 3))
    # Two false vectors spoil two buckets of two at most, and f counts buckets then.
    assert np.abs(rule(kind, 2, before=before).combine(vectors, None, rng)).max() < 3


def test_clipping_moves_by_the_radius_at_most() -> None:
    block = rule("centred-clipping", 0)
    vectors = np.full((5, 4), 1e6)
    first = block.combine(vectors, None, RNG)
    assert np.linalg.norm(first) == pytest.approx(2 * 0.5)  # two steps
    second = block.combine(vectors, first, RNG)
    assert np.linalg.norm(second - first) == pytest.approx(2 * 0.5)


@pytest.mark.parametrize(
    ("kind", "least"), [("trimmed-mean", 7), ("krum", 9), ("multi-krum", 9), ("bulyan", 15)]
)
def test_conditions_of_the_papers(kind: str, least: int) -> None:
    assert rule(kind, 3).least() == least


def test_too_many_subsets_are_refused() -> None:
    with pytest.raises(ParameterError, match="multi-krum"):
        rule("mda", 12).combine(np.zeros((40, 1)), None, RNG)


def test_nearest_neighbours_need_a_number_of_false_ones() -> None:
    with pytest.raises(ValueError, match="byzantine"):
        CoordinateMedian(before=("nnm",))


# A server's aggregator.


def replies(vectors: Array, clients: list[int] | None = None) -> list[Reply]:
    numbers = range(len(vectors)) if clients is None else clients
    return [
        Reply(m, 1, _Sent(Dense(vector, ValueFormat.FLOAT64)))
        for m, vector in zip(numbers, vectors, strict=True)
    ]


class _Sent:
    def __init__(self, x: Dense) -> None:
        self.x = x


def aggregator(block: RobustRule) -> Aggregator:
    return Aggregator(block, lambda: np.random.default_rng(1))


def test_a_sum_is_its_weights_times_the_vector_that_stands_for_all() -> None:
    vectors = np.array([[1.0, 0], [2, 5], [9, 7]])
    weights = np.array([0.2, 0.5, 0.1])
    assert ADDS_UP.sum(replies(vectors), "x", weights) == pytest.approx(weights @ vectors)
    median = aggregator(rule("median", 0)).sum(replies(vectors), "x", weights)
    assert median == pytest.approx([0.8 * 2, 0.8 * 5])


@given(st.integers(0, 2**32 - 1))
def test_changes_add_up_to_the_rule_s_value_of_all_that_was_sent(seed: int) -> None:
    rng = np.random.default_rng(seed)
    server, held, total = aggregator(rule("trimmed-mean", 1)), np.zeros((6, 2)), np.zeros(2)
    spoken: set[int] = set()
    for _ in range(5):
        clients = sorted(rng.choice(6, rng.integers(1, 7), replace=False).tolist())
        changes = rng.standard_normal((len(clients), 2))
        held[clients] += changes
        spoken |= set(clients)
        total += server.sum(replies(changes, clients), "x", changes=True)
        known = held[sorted(spoken)]
        middle = np.sort(known, axis=0)[1:-1] if len(known) >= 3 else np.median(known, axis=0)[None]
        assert total == pytest.approx(len(known) * middle.mean(axis=0), abs=1e-12)


def test_vectors_that_are_not_finite_are_left_out() -> None:
    server = aggregator(rule("median", 0))
    vectors = np.array([[1.0], [np.nan], [3.0], [np.inf]])
    assert server.sum(replies(vectors), "x", np.full(4, 0.25)).tolist() == [2.0]
    assert server.tally.totals == {"dropped": 2}


@pytest.mark.parametrize("otherwise", ["median", "end"])
def test_with_too_few_vectors(otherwise: str) -> None:
    server = aggregator(rule("krum", 2, otherwise=otherwise))
    few = replies(np.array([[0.0], [1.0], [5.0]]))
    if otherwise == "end":
        with pytest.raises(RunStopped, match=r"krum needs 2f \+ 3 = 7 vectors, and got 3"):
            server.sum(few, "x")
    else:
        assert server.sum(few, "x").tolist() == [3.0]  # 3 times the median
        assert server.tally.totals == {"replaced": 1}


@pytest.mark.parametrize(("bucket", "least"), [(1, 3), (2, 5), (4, 9)])
def test_buckets_ask_for_more_vectors(bucket: int, least: int) -> None:
    """A trimmed mean of f = 1 needs three buckets, of which the last may have one vector."""
    block = rule("trimmed-mean", 1, before=("bucketing",), bucket=bucket)
    assert block.least() == least
    assert np.isfinite(block.combine(np.ones((least, 2)), None, RNG)).all()


class Counting(float):
    """A number that counts the operations on it."""

    done: ClassVar[int] = 0

    def _with(self, result: float) -> "Counting":
        Counting.done += 1
        return Counting(result)

    def __add__(self, other: float) -> "Counting":
        return self._with(float(self) + float(other))

    def __sub__(self, other: float) -> "Counting":
        return self._with(float(self) - float(other))

    def __mul__(self, other: float) -> "Counting":
        return self._with(float(self) * float(other))


def test_distances_cost_what_a_loop_over_pairs_does() -> None:
    n, d = 7, 11
    vectors = [[Counting(k * m) for k in range(d)] for m in range(n)]
    Counting.done = 0
    for m in range(n):
        for other in vectors[:m]:
            total = Counting(0)
            for one, two in zip(vectors[m], other, strict=True):
                apart = one - two
                total = total + apart * apart
    assert distance_operations(n, d) == Counting.done


@pytest.mark.parametrize("kind", ["krum", "multi-krum", "bulyan", "mda"])
def test_rules_of_distances_cost_n_squared_d(kind: str) -> None:
    block = rule(kind, 1)
    one, wider, more = (block.operations(n, d) or 0 for n, d in [(8, 1e7), (8, 2e7), (16, 1e7)])  # type: ignore[arg-type]
    assert wider / one == pytest.approx(2, rel=1e-3)
    assert 3 < more / one < 5


KRUM = "aggregation={kind: krum, byzantine: 4}"


def test_check_says_what_a_rule_costs_the_server() -> None:
    seen = CliRunner().invoke(
        app, ["check", "malicious-clients", "--details", "--set", "variants={}", "--set", KRUM]
    )
    assert "krum of 20 vectors takes" in seen.output
    assert "is not charged" in seen.output
