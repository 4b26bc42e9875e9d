"""Random payloads of every kind."""

import numpy as np
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from fedsim.wire import (
    Dense,
    Empty,
    Encodable,
    FourBits,
    LowRank,
    Octets,
    PartsPayload,
    Powers,
    Quantized,
    Scalar,
    SeededSparse,
    Sign,
    Sparse,
    SparsePowers,
    Update,
    ValueFormat,
)

formats = st.sampled_from(ValueFormat)
numbers = st.floats(width=64, allow_nan=True, allow_infinity=True)
singles = st.floats(width=32, allow_nan=True, allow_infinity=True)
shapes = hnp.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=9)
dimensions = st.one_of(st.integers(0, 2), st.integers(0, 300))


@st.composite
def dense(draw: st.DrawFn) -> Dense:
    values = draw(hnp.arrays(np.float64, draw(shapes), elements=numbers))
    return Dense.of(values, draw(formats))


@st.composite
def masks(draw: st.DrawFn, dimension: int) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    """Return which coordinates are there: by chance, at any density, or in a block."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    present = rng.random(dimension) < draw(st.floats(0, 1)) ** 2
    if draw(st.booleans()):
        present[:] = False
        first = draw(st.integers(0, dimension))
        present[first : draw(st.integers(first, dimension))] = True
    return present


@st.composite
def sparse(draw: st.DrawFn) -> Sparse:
    present = draw(masks(draw(dimensions)))
    return Sparse.of(np.where(present, 1.0 + np.arange(present.size), 0.0), draw(formats))


@st.composite
def seeded(draw: st.DrawFn) -> SeededSparse:
    values = draw(hnp.arrays(np.float64, draw(dimensions), elements=numbers, fill=numbers))
    count = draw(st.integers(0, values.size))
    return SeededSparse.of(draw(st.integers(0, 2**64 - 1)), count, values, draw(formats))


@st.composite
def scalar(draw: st.DrawFn) -> Scalar:
    return Scalar.of(draw(numbers), draw(formats))


@st.composite
def quantized(draw: st.DrawFn) -> Quantized:
    present = draw(masks(draw(dimensions)))
    steps = draw(st.one_of(st.integers(1, 3), st.integers(1, 2**24)))
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    levels = np.where(present, rng.integers(-steps, steps, present.size, endpoint=True), 0)
    return Quantized.of(abs(draw(singles)), levels, steps)


@st.composite
def sign(draw: st.DrawFn) -> Sign:
    return Sign(draw(singles), draw(masks(draw(dimensions))).astype(np.uint8))


@st.composite
def powers(draw: st.DrawFn) -> Powers:
    codes = hnp.arrays(np.intp, draw(dimensions), elements=st.integers(0, 511))
    return Powers(draw(codes))


@st.composite
def sparse_powers(draw: st.DrawFn) -> SparsePowers:
    present = draw(masks(draw(dimensions)))
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    return SparsePowers.of(np.where(present, rng.integers(1, 512, present.size), 0))


@st.composite
def four_bits(draw: st.DrawFn) -> FourBits:
    codes = st.sampled_from([code for code in range(16) if code != 8])
    scale = draw(st.floats(0, 2**99, width=32) | st.sampled_from([np.inf, np.nan]))
    return FourBits(abs(scale), draw(hnp.arrays(np.intp, draw(dimensions), elements=codes)))


@st.composite
def low_rank(draw: st.DrawFn) -> LowRank:
    dimension = draw(st.integers(0, 60))
    rows = draw(st.integers(1, dimension)) if dimension else 0
    columns = -(-dimension // rows) if rows else 0
    rank = draw(st.integers(0, min(rows, columns)))
    left, right = (
        draw(hnp.arrays(np.float64, (side, rank), elements=st.floats(-9, 9, width=16)))
        for side in (rows, columns)
    )
    return LowRank.of(left, right, dimension, draw(formats))


def vectors_of() -> st.SearchStrategy[Encodable]:
    """Return payloads of vectors, of which several may be in a row."""
    flat = dense().filter(lambda payload: payload.values.ndim == 1)
    short = sign(), powers(), sparse_powers(), four_bits()
    others = sparse(), seeded(), quantized(), *short, low_rank()
    return st.one_of(flat, *others)


payloads: st.SearchStrategy[Encodable] = st.one_of(
    dense(),
    sparse(),
    scalar(),
    st.just(Empty()),
    seeded(),
    quantized(),
    sign(),
    powers(),
    sparse_powers(),
    low_rank(),
    four_bits(),
    st.builds(Octets, st.binary(max_size=300)),
    st.builds(PartsPayload, st.lists(vectors_of(), max_size=4).map(tuple)),
)


def updates() -> st.SearchStrategy[Update]:
    """Return updates of anything but nothing."""
    parts = payloads.filter(lambda payload: payload.bits > 0)
    return st.builds(Update, parts, st.integers(0, 15))
