"""Layers that are compressed by themselves: what each costs, promises, and what is remembered."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedsim.addons.conformance import check_compressor
from fedsim.core.errors import DecodeError
from fedsim.core.ports import Array
from fedsim.wire import (
    E3M0,
    QSGD,
    Compressor,
    Dense,
    Dithered,
    ErrorFeedback,
    ErrorFeedback21,
    HardThreshold,
    Identity,
    Layered,
    Natural,
    Octets,
    PartsPayload,
    PowerSGD,
    RandK,
    ScaledSign,
    Sparse,
    TernGrad,
    TopK,
    ValueFormat,
    decode,
    encode,
)
from fedsim.wire.bitstream import varint
from tests.wire.strategies import vectors_of

F32, F64 = ValueFormat.FLOAT32, ValueFormat.FLOAT64
SHAPES = (4, 5), (12,), (8,)
PLACES = slice(0, 20), slice(20, 32), slice(32, 40)

EVERY: list[Compressor] = [
    Identity(),
    RandK(fraction=0.5),
    RandK(count=3, indices="explicit"),
    TopK(count=2),
    HardThreshold(threshold=0.5),
    QSGD(),
    Natural(),
    TernGrad(),
    ScaledSign(),
    E3M0(),
    Dithered(bits=4),
    PowerSGD(),
]
every = pytest.mark.parametrize("of", EVERY, ids=lambda each: each.kind)


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(7)


def scaled(rng: np.random.Generator) -> Array:
    """Return a model whose layers differ a thousandfold in scale."""
    v = rng.standard_normal(40)
    for place, scale in zip(PLACES, (1.0, 1e-3, 30.0), strict=True):
        v[place] *= scale
    return v


@every
def test_it_keeps_what_a_compressor_promises(of: Compressor) -> None:
    found = check_compressor(Layered(of=of, shapes=SHAPES), draws=400)
    assert set(found.outcome) == {"kept"}, found.to_string()


@every
def test_each_layer_is_what_the_compressor_makes_of_it_alone(
    of: Compressor, rng: np.random.Generator
) -> None:
    v = scaled(rng)
    sent = Layered(of=of, shapes=SHAPES).compress(v, np.random.default_rng(1), F32)
    assert isinstance(sent, PartsPayload)
    draws = np.random.default_rng(1)
    for place, shape, part in zip(PLACES, SHAPES, sent.parts, strict=True):
        alone = of.for_layer(shape).compress(v[place], draws, F32)
        kept = Dense.of(v[place], F32) if isinstance(part, Dense) else alone
        assert encode(part) == encode(kept)
    assert sent.bits == 8 * 2 + sum(part.bits for part in sent.parts)
    assert sent.bits == 8 * len(encode(sent))


def test_quantisation_errs_by_the_scale_of_each_layer(rng: np.random.Generator) -> None:
    """Every error is below norm/s, and its norm is that of the layer; whole vectors have one."""
    v, of = 1e-2 * scaled(rng).repeat(50), Dithered(bits=8)
    shapes, places = (
        ((20, 50), (600,), (400,)),
        (slice(0, 1000), slice(1000, 1600), slice(1600, 2000)),
    )
    draws = np.random.default_rng(1)
    each = Layered(of=of, shapes=shapes).compress(v, draws, F32)
    whole = of.compress(v, draws, F32)
    for place in places:
        bound = np.abs(v[place]).max() / 127
        assert np.abs(each.values - v)[place].max() <= bound * (1 + 1e-6)
    small = places[1]
    assert np.linalg.norm((whole.values - v)[small]) > np.linalg.norm(v[small])
    # A byte a coordinate, and of each layer its kind, sizes, norm and code.
    assert each.bits == 8 * (2000 + 2 + 3 * (1 + 2 + 1 + 4 + 1))


def test_top_k_keeps_a_share_of_each_layer(rng: np.random.Generator) -> None:
    v = scaled(rng)
    sent = Layered(of=TopK(fraction=0.25), shapes=SHAPES).compress(v, rng, F64).values
    assert [np.count_nonzero(sent[place]) for place in PLACES] == [5, 3, 2]
    whole = TopK(fraction=0.25).compress(v, rng, F64).values
    assert np.count_nonzero(whole[PLACES[1]]) == 0


def test_low_rank_factors_are_those_of_each_layers_matrix(rng: np.random.Generator) -> None:
    """A layer of rank 1, read in its own shape, arrives as it is, and so do biases."""
    matrix = np.outer(rng.standard_normal(30), rng.standard_normal(20))
    v = np.concatenate([matrix.ravel(), rng.standard_normal(5)])
    layered = Layered(of=PowerSGD(rank=1), shapes=((30, 4, 5), (5,)))
    sent = layered.compress(v, rng, F64)
    np.testing.assert_allclose(sent.values, v, rtol=1e-9, atol=1e-12)
    assert sent.bits < 64 * 70


def test_a_warm_start_is_that_of_each_layer(rng: np.random.Generator) -> None:
    layered = Layered(of=PowerSGD(rank=1), shapes=((12, 12), (15, 10)))
    v = rng.standard_normal(294)
    send, draws = layered.sender(), np.random.default_rng(1)
    errors = [float(np.linalg.norm(send(v, draws, F64).values - v)) for _ in range(30)]
    best = 0.0
    for place, shape in ((slice(0, 144), (12, 12)), (slice(144, 294), (15, 10))):
        best += float((np.linalg.svd(v[place].reshape(shape))[1][1:] ** 2).sum())
    assert errors[-1] == pytest.approx(best**0.5, rel=0.01)
    assert errors[0] > 1.02 * best**0.5


def test_a_vector_of_another_length_is_compressed_as_a_whole(rng: np.random.Generator) -> None:
    v = rng.standard_normal(39)
    layered = Layered(of=TopK(count=3), shapes=SHAPES)
    assert isinstance(layered.compress(v, rng, F32), Sparse)
    assert isinstance(layered.sender()(v, rng, F32), Sparse)
    assert layered.contract(39) == TopK(count=3).contract(39)


def test_what_all_layers_promise() -> None:
    """The worst of the layers' constants; an absolute error adds up."""
    sizes = 20, 12, 8
    dithered, top = Dithered(bits=3), TopK(count=3)
    assert Layered(of=dithered, shapes=SHAPES).contract(40).constant == max(
        dithered.contract(size).constant for size in sizes
    )
    assert Layered(of=top, shapes=SHAPES).contract(40).constant == pytest.approx(3 / 20)
    threshold = HardThreshold(threshold=2.0)
    assert Layered(of=threshold, shapes=SHAPES).contract(40) == threshold.contract(40)


@pytest.mark.parametrize("feedback", [ErrorFeedback, ErrorFeedback21])
def test_error_feedback_loses_nothing_of_any_layer(
    feedback: type[ErrorFeedback | ErrorFeedback21], rng: np.random.Generator
) -> None:
    """Of a vector that stays, the mean of what arrives (EF) or what is held (EF21) becomes it."""
    v = scaled(rng)
    packer = feedback(Layered(of=TopK(fraction=0.25), shapes=SHAPES), F64, rng)
    arrived = [packer.pack(v).values for _ in range(200)]
    found = np.mean(arrived, axis=0) if feedback is ErrorFeedback else arrived[-1]
    for place in PLACES:
        assert np.linalg.norm((found - v)[place]) < 0.1 * np.linalg.norm(v[place])


def test_what_was_sent_and_what_is_left_is_all_there_was(rng: np.random.Generator) -> None:
    packer = ErrorFeedback(Layered(of=Dithered(bits=3), shapes=SHAPES), F64, rng)
    vectors = rng.standard_normal((20, 40))
    total = sum(packer.pack(v).values for v in vectors)
    np.testing.assert_allclose(total + packer.error, vectors.sum(axis=0), rtol=1e-9, atol=1e-9)


@given(st.lists(vectors_of(), max_size=5).map(tuple))
def test_vectors_in_a_row_arrive_as_they_were(parts: tuple[Dense, ...]) -> None:
    sent = PartsPayload(parts)
    found = decode(encode(sent))
    assert isinstance(found, PartsPayload)
    assert found.bits == sent.bits == 8 * len(encode(sent))
    numbers = ~np.isnan(sent.values)
    assert found.values[numbers].tobytes() == sent.values[numbers].tobytes()
    assert np.isnan(found.values[~numbers]).all()  # of NaNs there is one
    assert sent.dimension == sum(part.values.size for part in parts)


def test_what_is_no_vector_is_no_part() -> None:
    dense = Dense.of(np.ones((2, 2)), F32)
    for part in (dense, Octets(b"x"), PartsPayload(())):
        data = encode(PartsPayload((part,)))
        with pytest.raises(DecodeError, match=r"no (vector|part starts)"):
            decode(data)


def test_parts_are_together_no_larger_than_a_vector_may_be() -> None:
    """A few bytes may say that a sparse vector is long; many of them may not."""
    largest = Sparse(np.zeros(0, np.intp), np.zeros(0), 2**28, F32)
    assert decode(encode(PartsPayload((largest,)))).bits < 200
    with pytest.raises(DecodeError, match="parts of 536870912 coordinates; at most 268435456"):
        decode(encode(PartsPayload((largest, largest))))
    with pytest.raises(DecodeError, match="bits are announced"):
        decode(encode(PartsPayload(()))[:1] + varint(2**30))
