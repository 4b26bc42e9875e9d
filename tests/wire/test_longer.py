"""No compressor makes a vector longer than it is in full, unless it is asked to."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedsim.core.ports import DENSE, SIGNS, SPARSE, Array, Structure
from fedsim.wire import (
    PACKERS,
    QSGD,
    Compressor,
    Contractive,
    Dithered,
    ErrorFeedback,
    ErrorFeedback21,
    Natural,
    Plain,
    RandK,
    ScaledSign,
    SparsePowers,
    TernGrad,
    Update,
    ValueFormat,
    decode,
    encode,
)
from fedsim.wire.payloads.dense import natural
from tests.tiers import every, examples
from tests.wire.compressors import ALL, F64, of_class

F32 = ValueFormat.FLOAT32
compressors = pytest.mark.parametrize("name", ALL)
unbiased = pytest.mark.parametrize("name", of_class("unbiased"))


@dataclass(frozen=True)
class Sent:
    """A vector, and what its sender knows of it."""

    vector: Array
    structure: Structure


def made(structure: Structure, dimension: int, share: float, seed: int) -> Array:
    """Return a vector of a structure, with entries from 1e-3 to 1e3."""
    rng = np.random.default_rng(seed)
    free = rng.choice([-1, 1], dimension) * 10.0 ** rng.uniform(-3, 3, dimension)
    if structure.kind == "sparse":
        return np.where(rng.random(dimension) < share, free, 0.0)
    if structure.kind == "sign":
        return np.copysign(0.5, free)
    if structure.kind == "low-rank":
        left, right = rng.standard_normal((structure.rows, 1)), rng.standard_normal((1, dimension))
        return (left * right[:, : dimension // structure.rows]).ravel()
    return free


@st.composite
def sent(draw: st.DrawFn) -> Sent:
    rows = draw(st.integers(1, 6))
    structure = draw(st.sampled_from([DENSE, SPARSE, SIGNS, Structure("low-rank", rows)]))
    dimension = draw(st.one_of(st.integers(0, 3), st.integers(0, 250)))
    if structure.kind == "low-rank":
        dimension = rows * draw(st.integers(1, 40))
    seed, share = draw(st.integers(0, 2**32 - 1)), draw(st.sampled_from([0.0, 0.02, 0.1, 0.9]))
    return Sent(made(structure, dimension, share, seed), structure)


@compressors
@examples(50)
@given(each=sent(), form=st.sampled_from(ValueFormat), kind=st.sampled_from([Plain, Contractive]))
def test_no_vector_gets_longer(name: str, each: Sent, form: ValueFormat, kind: type[Plain]) -> None:
    payload = kind(ALL[name], form, np.random.default_rng(0)).pack(each.vector, each.structure)
    assert payload.bits <= natural(each.vector, each.structure, form).bits
    assert payload.bits == 8 * len(encode(payload))
    assert decode(encode(payload)).values.tolist() == payload.values.tolist()


@compressors
@examples(20)
@given(
    share=st.sampled_from([0.02, 0.3]),
    structure=st.sampled_from([DENSE, SPARSE, Structure("low-rank", 3)]),
    dimension=st.sampled_from([0, 3, 6, 90]),
    form=st.sampled_from([F64, F32, ValueFormat.BFLOAT16]),  # errors get below a float16
    seed=st.integers(0, 2**32 - 1),
)
def test_nor_does_what_feedback_makes_of_it(
    name: str, structure: Structure, dimension: int, share: float, form: ValueFormat, seed: int
) -> None:
    ef = ErrorFeedback(ALL[name], form, np.random.default_rng(0))
    ef21 = ErrorFeedback21(ALL[name], form, np.random.default_rng(0))
    for place in range(4):
        vector = made(structure, dimension, share, seed + place)
        due = ef.error + vector, vector - ef21.held
        for packer, whole in zip((ef, ef21), due, strict=True):
            payload = packer.pack(vector, structure)
            named = 8 * isinstance(payload, Update)  # which vector it is added to
            assert payload.bits <= natural(whole, structure, form).bits + named


@compressors
def test_a_longer_payload_is_sent_where_it_is_asked_for(name: str) -> None:
    vector = made(SPARSE, 100, 0.02, 3)
    for feedback in PACKERS.values():
        packer: Any = feedback(ALL[name], F32, np.random.default_rng(1), in_full=False)
        payload = packer.pack(vector, SPARSE)
        seen = getattr(payload, "sent", payload)
        kept = ALL[name].contract(vector.size)
        whole = vector if feedback is Plain else vector * kept.shrink
        if name == "identity" and feedback is Plain:
            continue
        made_of_it = ALL[name].compress(whole, np.random.default_rng(1), F32)
        assert encode(seen) == encode(made_of_it)


@unbiased
@examples(40)
@given(seed=st.integers(0, 2**32 - 1), form=st.sampled_from(ValueFormat))
def test_whether_a_vector_goes_in_full_is_not_for_the_draw_to_decide(
    name: str, seed: int, form: ValueFormat
) -> None:
    """Else an unbiased compressor would be biased towards what happens to be short."""
    rng = np.random.default_rng(seed)
    vector = made(SPARSE, int(rng.integers(1, 60)), rng.random() ** 2, seed)
    compressor, whole = ALL[name], natural(vector, SPARSE, form)
    payloads = [
        Plain(compressor, form, np.random.default_rng(i)).pack(vector, SPARSE) for i in range(8)
    ]
    exact = [p.values.tolist() == whole.values.tolist() and p.bits == whole.bits for p in payloads]
    drawn = [compressor.compress(vector, np.random.default_rng(i), form) for i in range(8)]
    longest = {compressor.longest(vector, payload) for payload in drawn}
    assert len(longest) == 1
    assert max(payload.bits for payload in drawn) <= longest.pop()
    as_drawn = [encode(p) == encode(d) for p, d in zip(payloads, drawn, strict=True)]
    assert all(exact) or all(as_drawn)


@pytest.mark.parametrize("size", [1.0, 1e-38, 2.0**-127])
@unbiased
def test_vectors_between_short_and_long_arrive_without_bias(name: str, size: float) -> None:
    """Where one draw is longer than the vector in full, and another one is not."""
    vector = size * np.array([0, 0, 1.3, 0, 0.1, 0, 0, -0.7, 0, 0, 0, 0.05])
    draws = 2000
    packer = Plain(ALL[name], F32, np.random.default_rng(5))
    arrived = np.array([packer.pack(vector, SPARSE).values for _ in range(draws)])
    spread = arrived.std(axis=0) / np.sqrt(draws)
    rounding = 2.0**-24 * np.abs(vector) + 2.0**-150
    assert (np.abs(arrived.mean(axis=0) - vector) <= 5 * spread + rounding).all()


@every("compressor", [Natural(), QSGD(), TernGrad(), Dithered(bits=4)])
def test_what_is_sparse_is_compressed_and_not_only_sent_in_full(compressor: Compressor) -> None:
    """Ten of 1072 coordinates, 9 bits each and no more than 11 to say where they are."""
    vector = np.zeros(1072)
    vector[np.random.default_rng(0).permutation(1072)[:10]] = np.linspace(-1, 2, 10)
    payload = Plain(compressor, F64, np.random.default_rng(1)).pack(vector, SPARSE)
    assert payload.bits <= 10 * 20 + 8 * 11
    assert payload.bits < natural(vector, SPARSE, F64).bits / 3


@pytest.mark.parametrize("compressor", [ScaledSign(), RandK(fraction=0.3)], ids=str)
def test_what_would_be_longer_arrives_exactly(compressor: Compressor) -> None:
    vector = made(SPARSE, 1000, 0.01, 4)
    ef = ErrorFeedback(compressor, F64, np.random.default_rng(1))
    payload = ef.pack(vector, SPARSE)
    assert payload.values.tolist() == vector.tolist()
    assert not ef.error.any()


def test_the_draws_of_what_follows_stay_in_step() -> None:
    """A vector that goes in full takes as many draws as it did compressed."""
    short, long = np.array([0.0, 2.0, 0.0, 0.0]), np.linspace(-1, 1, 500)
    one, other = (Plain(RandK(count=3), F64, np.random.default_rng(9)) for _ in range(2))
    other._in_full = False
    assert one.pack(short, SPARSE).bits < other.pack(short, SPARSE).bits
    assert one.pack(long).values.tolist() == other.pack(long).values.tolist()


@pytest.mark.parametrize("size", [1e6, 1e-9])
def test_what_the_format_cannot_hold_goes_compressed(size: float) -> None:
    """A float16 is infinite above 65504 and zero below 3e-8; a norm is a float32."""
    vector = size * np.array([0.0, 1.0])
    payload = Plain(Dithered(bits=24), ValueFormat.FLOAT16, np.random.default_rng(0)).pack(vector)
    assert payload.values == pytest.approx(vector)


@given(st.integers(0, 300), st.floats(0, 1), st.integers(0, 99))
def test_a_sparse_vector_of_powers_says_the_same(dimension: int, share: float, seed: int) -> None:
    vector = made(SPARSE, dimension, share, seed)
    payload = Natural().compress(vector, np.random.default_rng(seed), F32)
    assert payload.values[vector == 0].tolist() == [0.0] * int((vector == 0).sum())
    assert payload.bits <= 8 * (1 + 2 + -(-9 * dimension // 8))
    if isinstance(payload, SparsePowers):
        assert payload.codes.size == np.count_nonzero(vector)
        ratio = payload.values[vector != 0] / vector[vector != 0]
        assert ((ratio > 0.5) & (ratio <= 2)).all()


def test_equal_magnitudes_are_looked_at_before_they_are_left_out() -> None:
    unequal = np.array([1.0, -2.0, 3.0] * 30)
    assert natural(unequal, SIGNS, F32).values.tolist() == unequal.tolist()
