"""Random payloads of every kind."""

import numpy as np
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from fedsim.wire import Dense, Empty, Encodable, Scalar, Sparse, ValueFormat

formats = st.sampled_from(ValueFormat)
numbers = st.floats(width=64, allow_nan=True, allow_infinity=True)
shapes = hnp.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=9)


@st.composite
def dense(draw: st.DrawFn) -> Dense:
    values = draw(hnp.arrays(np.float64, draw(shapes), elements=numbers))
    return Dense.of(values, draw(formats))


@st.composite
def sparse(draw: st.DrawFn) -> Sparse:
    dimension = draw(st.integers(0, 300))
    values = np.zeros(dimension)
    where = draw(st.sets(st.integers(0, dimension - 1))) if dimension else set()
    for index in where:
        values[index] = draw(st.floats(0.5, 2.0))
    return Sparse.of(values, draw(formats))


@st.composite
def scalar(draw: st.DrawFn) -> Scalar:
    return Scalar.of(draw(numbers), draw(formats))


payloads: st.SearchStrategy[Encodable] = st.one_of(dense(), sparse(), scalar(), st.just(Empty()))
