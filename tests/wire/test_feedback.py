"""Error feedback: what has arrived and what is kept add up, also where messages are lost."""

import gc
import math
import pickle
import weakref
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedsim.core.ports import Array, Message, Packer
from fedsim.wire import (
    PACKERS,
    Compressor,
    ErrorFeedback,
    ErrorFeedback21,
    HardThreshold,
    Identity,
    Plain,
    PowerSGD,
    RandK,
    ScaledSign,
    TopK,
    ValueFormat,
    decode,
    encode,
    refusal,
)
from fedsim.wire.feedback import ByClient, Pending, resolve_pending
from fedsim.wire.packers import Contractive
from tests.tiers import every, examples
from tests.wire.compressors import ALL, F64, hard_vectors, of_class

DIMENSION = 12
compressors = pytest.mark.parametrize("name", ALL)
few = examples(30)
DETERMINISTIC = {name: ALL[name] for name in ("top 2", "top 30 %", "threshold", "sign", "identity")}


def rng() -> np.random.Generator:
    return np.random.default_rng(7)


def rows(count: int) -> st.SearchStrategy[Array]:
    """Return so many vectors, of many sizes, with ties and zeros among them."""

    def made(seed: int) -> Array:
        draws = np.random.default_rng(seed)
        shape = (count, DIMENSION)
        ties = draws.integers(-2, 2, shape, endpoint=True)
        free = draws.standard_normal(shape) * 10.0 ** draws.integers(-6, 3, shape)
        return np.where(draws.random(shape) < draws.random(), ties, free)

    return st.integers(0, 2**32 - 1).map(made)


def square(vector: Array) -> float:
    return float(vector @ vector)


@compressors
@few
@given(vectors=rows(5), form=st.sampled_from([ValueFormat.FLOAT64, ValueFormat.BFLOAT16]))
def test_what_arrived_and_the_error_are_all_that_was_packed(
    name: str, vectors: Array, form: ValueFormat
) -> None:
    packer = ErrorFeedback(ALL[name], form, rng())
    arrived = [packer.pack(vector).values for vector in vectors]
    assert np.sum(arrived, axis=0) + packer.error == pytest.approx(vectors.sum(axis=0), abs=1e-7)


@compressors
@few
@given(vectors=rows(5))
def test_both_sides_hold_the_same(name: str, vectors: Array) -> None:
    packer = ErrorFeedback21(ALL[name], ValueFormat.FLOAT32, rng())
    held = np.zeros(DIMENSION)
    for vector in vectors:
        update: Any = packer.pack(vector)
        data = encode(update)
        came: Any = decode(data)
        held = held + came.sent.values
        assert update.bits == 8 * len(data)
        assert update.values.tolist() == packer.held.tolist() == held.tolist()
        assert not update.values.flags.writeable


@compressors
def test_without_feedback_a_compressor_does_what_it_does(name: str) -> None:
    vector = hard_vectors(DIMENSION)["normal"]
    packer = Plain(ALL[name], F64, rng(), in_full=False)
    payload = packer.pack(vector)
    packer.take_back(payload)
    assert payload.values.tolist() == ALL[name].compress(vector, rng(), F64).values.tolist()


def packer_of(feedback: Any, compressor: Compressor) -> Any:
    """Return a packer, of whichever class."""
    return PACKERS[feedback](compressor, F64, rng())


def state(packer: Any) -> Array:
    """Return what a packer keeps."""
    kept: Array = packer.error if isinstance(packer, ErrorFeedback) else packer.held
    return kept


@pytest.mark.parametrize("feedback", ["ef", "ef21"])
@pytest.mark.parametrize("name", DETERMINISTIC)
@few
@given(vectors=rows(4))
def test_a_message_that_is_taken_back_was_never_packed(
    feedback: Any, name: str, vectors: Array
) -> None:
    packer, other = (packer_of(feedback, ALL[name]) for _ in range(2))
    for place, vector in enumerate(vectors):
        payload = packer.pack(vector)
        if place == 1:
            packer.take_back(payload)
            packer.take_back(payload)  # once is enough
        else:
            other.pack(vector)
        # A tie or a threshold may be decided by the last bit, so the states are set to be equal.
        assert state(packer) == pytest.approx(state(other), abs=1e-10)
        other._state = packer._state


@pytest.mark.parametrize("feedback", ["ef", "ef21"])
@compressors
@few
@given(vectors=rows(6), lost=st.sets(st.integers(0, 5)), order=st.randoms(use_true_random=False))
def test_the_state_is_that_of_the_messages_that_were_not_lost(
    feedback: Any, name: str, vectors: Array, lost: set[int], order: Any
) -> None:
    packer = packer_of(feedback, ALL[name])
    payloads = [packer.pack(vector) for vector in vectors]
    taken = [payloads[place] for place in sorted(lost)]
    order.shuffle(taken)
    for payload in taken:
        packer.take_back(payload)
    expected = np.zeros(DIMENSION)
    for place, (payload, vector) in enumerate(zip(payloads, vectors, strict=True)):
        if place not in lost:
            ef = isinstance(packer, ErrorFeedback)
            expected += vector - payload.values if ef else payload.sent.values
    assert state(packer) == pytest.approx(expected, abs=1e-6)


def test_what_was_not_packed_here_changes_nothing() -> None:
    packer, other = (ErrorFeedback(TopK(count=1), F64, rng()) for _ in range(2))
    packer.pack(np.arange(3.0))
    before = packer.error.tolist()
    packer.take_back(other.pack(np.arange(3.0)))
    assert packer.error.tolist() == before


@pytest.mark.slow
@pytest.mark.parametrize("feedback", ["ef", "ef21"])
def test_payloads_that_nobody_holds_are_forgotten(feedback: Any) -> None:
    packer = packer_of(feedback, TopK(count=1))
    packed = [weakref.ref(packer.pack(np.arange(3.0))) for _ in range(50)]
    gc.collect()
    assert not any(reference() for reference in packed)
    assert len(pickle.dumps(packer)) < len(pickle.dumps(packer_of(feedback, TopK(count=1)))) + 500


@pytest.mark.parametrize("feedback", ["ef", "ef21"])
def test_a_packer_that_was_pickled_takes_back_what_it_packed_before(feedback: Any) -> None:
    packer, draws = packer_of(feedback, RandK(count=2)), np.random.default_rng(1)
    payloads = [packer.pack(draws.standard_normal(DIMENSION)) for _ in range(3)]
    copy = pickle.loads(pickle.dumps(packer))
    one, two = (pickle.loads(pickle.dumps(payload)) for payload in payloads[:2])
    for each in (packer, copy):
        each.take_back(one)
        each.take_back(two)
        each.take_back(two)
    assert state(copy).tolist() == state(packer).tolist()
    again = draws.standard_normal(DIMENSION)
    assert encode(copy.pack(again)) == encode(packer.pack(again))


@every("name", [*of_class("contractive"), *of_class("unbiased")])
def test_the_error_stays_within_its_bound(name: str) -> None:
    """|e|^2 <= 4 (1 - delta)/delta^2 max |v|^2 (Karimireddy et al. 2019, lemma 3), in the mean."""
    draws = np.random.default_rng(0)
    packer = ErrorFeedback(ALL[name], F64, rng())
    delta = ALL[name].contract(DIMENSION).delta
    squares = []
    for _ in range(250):
        vector = draws.standard_normal(DIMENSION)
        packer.pack(vector / math.sqrt(square(vector)))
        squares.append(square(packer.error))
    assert np.mean(squares[100:]) <= 4 * (1 - delta) / delta**2 + 1e-20  # rounding


def test_an_absolute_compressor_s_error_is_within_its_own_bound() -> None:
    draws, compressor = np.random.default_rng(0), HardThreshold(threshold=2.0)
    packer = ErrorFeedback(compressor, F64, rng())
    for _ in range(100):
        packer.pack(draws.standard_normal(DIMENSION))
        assert square(packer.error) <= compressor.contract(DIMENSION).constant * (1 + 1e-9)


@pytest.mark.parametrize("name", ["top 2", "top 30 %", "sign", "identity"])
@given(vector=rows(1))
def test_ef21_comes_nearer_by_delta_with_every_message(name: str, vector: Array) -> None:
    packer, delta = ErrorFeedback21(ALL[name], F64, rng()), ALL[name].contract(DIMENSION).delta
    for sent in range(1, 6):
        held = packer.pack(vector[0]).values
        whole = square(vector[0])
        assert square(held - vector[0]) <= (1 - delta) ** sent * whole + 1e-9 * whole


@every("name", of_class("unbiased"))
def test_ef21_comes_nearer_in_the_mean_with_the_unbiased(name: str) -> None:
    vector, steps = hard_vectors(DIMENSION)["normal"], 10
    delta, ends = ALL[name].contract(DIMENSION).delta, []
    for seed in range(30):
        packer = ErrorFeedback21(ALL[name], F64, np.random.default_rng(seed))
        for _ in range(steps):
            held = packer.pack(vector).values
        ends.append(square(held - vector))
    doubt = 6 * np.std(ends, ddof=1) / math.sqrt(len(ends))
    assert np.mean(ends) <= (1 - delta) ** steps * square(vector) + doubt


def descent(packer: Packer, steps: int = 1500) -> float:
    """Return how far gradient descent ends from the optimum of f(w) = (w - a)' H (w - a)/2."""
    optimum, hessian = np.arange(1.0, 7.0), np.diag([1.0, 0.1, 0.5, 1.0, 0.2, 0.7])
    hessian[0, 3] = hessian[3, 0] = 0.6
    w = np.zeros(6)
    for _ in range(steps):
        w = w - 0.1 * packer.pack(hessian @ (w - optimum)).values
    return math.sqrt(square(w - optimum))


@every(
    "compressor",
    [TopK(count=1), RandK(count=1), ScaledSign(), PowerSGD(rows=2), Identity()],
)
@every("feedback", ["ef", "ef21"])
def test_with_feedback_descent_reaches_the_optimum(feedback: Any, compressor: Compressor) -> None:
    assert descent(PACKERS[feedback](compressor, ValueFormat.FLOAT32, rng())) < 1e-3


def test_without_feedback_the_scaled_sign_goes_the_wrong_way() -> None:
    """Counterexample 3 of Karimireddy et al. 2019: a direction that no sign ever points at."""
    rows = np.array([[0.5, -1.0], [-1.0, 0.5]])  # a_i = +-(1, -1) + eps (1, 1)

    def after(packer: Packer) -> float:
        w, draws = np.ones(2), np.random.default_rng(0)
        for _ in range(2000):
            row = rows[draws.integers(2)]
            w = w - 0.01 * packer.pack(2 * (row @ w) * row).values
        return square(w)

    assert after(Plain(ScaledSign(), F64, rng())) > 1.9  # w_1 + w_2 never changes
    assert after(ErrorFeedback(ScaledSign(), F64, rng())) < 1e-4


def matrix(singular: list[float]) -> Array:
    draws = np.random.default_rng(3)
    left, right = (np.linalg.qr(draws.standard_normal((6, 6))).Q for _ in range(2))
    made: Array = left * np.array(singular) @ right.T
    return made.ravel()


@pytest.mark.parametrize("rank", [1, 2, 4])
def test_a_warm_start_finds_the_best_factors(rank: int) -> None:
    singular = [32.0, 16.0, 8.0, 4.0, 2.0, 1.0]
    vector = matrix(singular)
    packer = Plain(PowerSGD(rank=rank), F64, rng(), in_full=False)
    for _ in range(30):
        payload = packer.pack(vector)
    best = sum(value**2 for value in singular[rank:])
    assert square(payload.values - vector) == pytest.approx(best)
    cold = PowerSGD(rank=rank).compress(vector, rng(), F64)
    assert square(cold.values - vector) > 1.01 * best


@pytest.mark.parametrize("rank", [1, 3])
def test_low_rank_with_feedback_says_everything_in_time(rank: int) -> None:
    """A matrix of full rank that comes again and again, of which a step sends rank r."""
    vector = matrix([6.0, 5.0, 4.0, 3.0, 2.0, 1.0])
    packer = ErrorFeedback(PowerSGD(rank=rank), F64, rng())
    squares = []
    for _ in range(600):
        packer.pack(vector)
        squares.append(square(packer.error))
    delta = rank / 6
    assert np.mean(squares[300:]) <= 4 * (1 - delta) / delta**2 * square(vector)
    assert np.mean(squares[300:]) <= 1.1 * np.mean(squares[:300])


@pytest.mark.parametrize("spoilt", [np.zeros(9), np.full(9, np.nan)])
def test_a_warm_start_outlives_what_is_no_start(spoilt: Array) -> None:
    packer, vector = Plain(PowerSGD(), F64, rng()), np.outer([1, 2, 3], [4, 5, 6]).ravel()
    for _ in range(2):
        packer.pack(spoilt)
        assert packer.pack(vector).values == pytest.approx(vector)
    assert packer.pack(np.ones(16)).values == pytest.approx(np.ones(16))


@compressors
def test_what_is_refused_is_what_has_no_contraction(name: str) -> None:
    compressor = ALL[name]
    assert refusal(compressor, "none") == refusal(compressor, "ef") == ""
    if isinstance(compressor, HardThreshold):
        assert "threshold is not contractive" in refusal(compressor, "ef21")
    else:
        assert refusal(compressor, "ef21") == ""
        assert compressor.contract(DIMENSION).delta > 0


def test_a_state_arrives_under_ef21_and_an_increment_under_ef() -> None:
    """Of a vector sent 40 times, one entry at a time: what replaces, and what adds up."""
    vector, compressor = np.array([4.0, 3.0, 2.0, 1.0]), TopK(count=1)
    kinds = (ErrorFeedback, ErrorFeedback21)
    ef, ef21 = (
        [packer.pack(vector).values for _ in range(40)]
        for packer in (
            kind(compressor, ValueFormat.FLOAT64, np.random.default_rng(1)) for kind in kinds
        )
    )
    assert ef21[-1] == pytest.approx(vector, rel=1e-12)
    off = np.linalg.norm(np.array(ef) - vector, axis=1)
    assert off.min() > 3.7  # no nearer than the best single entry, which misses sqrt(14)
    missing = np.linalg.norm(np.sum(ef, axis=0) - 40 * vector)
    assert missing < 2 * np.linalg.norm(vector) / 0.25  # (1 - delta)/delta, not growing with time


def test_a_method_that_keeps_errors_itself_gets_a_contraction() -> None:
    """Rand-k is unbiased with omega = d/k - 1; its contraction sends entries as they are."""
    vector = np.arange(1.0, DIMENSION + 1)
    arrived = Contractive(RandK(count=3), F64, rng()).pack(vector).values
    sent = arrived.nonzero()[0]
    assert len(sent) == 3
    assert arrived[sent] == pytest.approx(vector[sent], rel=1e-15)
    plain = Plain(RandK(count=3), F64, rng()).pack(vector).values
    assert plain[sent] == pytest.approx(DIMENSION / 3 * vector[sent], rel=1e-15)


@dataclass(frozen=True)
class Model(Message):
    """A message of one vector."""

    theta: Any


def test_a_message_is_encoded_for_its_receivers_if_it_holds_a_pending_vector() -> None:
    """One for all that hold the same; what is encoded already is sent as it is."""
    packer = ByClient(TopK(count=1), F64, rng())
    vector = np.array([1.0, 3.0, 2.0])
    ready = Model(theta=Plain(Identity(), F64, rng()).pack(vector))
    assert resolve_pending(ready, [0, 1]) is ready
    both = {0: ready, 1: Model(theta=packer.pack(vector))}
    mixed = resolve_pending(both, [0, 1])
    assert isinstance(mixed, dict)
    assert mixed[0] is ready
    assert mixed[1].theta.values.tolist() == [0, 3, 0]
    first = resolve_pending(Model(theta=packer.pack(vector)), [2, 3])
    assert isinstance(first, Model)
    assert first.theta.values.tolist() == [0, 3, 0]
    third = resolve_pending(Model(theta=packer.pack(vector)), [1, 0])  # one is a message behind
    assert isinstance(third, dict)
    assert {client: one.theta.values.tolist() for client, one in third.items()} == {
        1: [0, 3, 2],
        0: [0, 3, 0],
    }
    assert not any(isinstance(one.theta, Pending) for one in (first, *mixed.values()))
