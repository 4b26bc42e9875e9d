"""What compressors send, and what the listing tells of each."""

import json
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter, ValidationError

from fedsim.core.ports import Array
from fedsim.wire import (
    COMPRESSORS,
    E3M0,
    QSGD,
    Compressor,
    Dithered,
    HardThreshold,
    Identity,
    LowRank,
    Natural,
    PowerSGD,
    RandK,
    ScaledSign,
    SeededSparse,
    Sparse,
    TernGrad,
    TopK,
    ValueFormat,
    decode,
    encode,
)
from fedsim.wire.compressors.base import Contract
from fedsim.wire.compressors.quantized import float32_above
from tests.tiers import every
from tests.wire.compressors import ALL, F64, vectors

each = every("spec", COMPRESSORS)
compressors = pytest.mark.parametrize("name", ALL)


def sent(compressor: Compressor, vector: Array, form: ValueFormat = F64, seed: int = 0) -> Any:
    return compressor.compress(vector, np.random.default_rng(seed), form)


@compressors
@given(vector=vectors(), form=st.sampled_from(ValueFormat), seed=st.integers(0, 99))
def test_what_arrives_is_what_is_charged(
    name: str, vector: Array, form: ValueFormat, seed: int
) -> None:
    payload = sent(ALL[name], vector, form, seed)
    data = encode(payload)
    assert payload.bits == 8 * len(data)
    assert payload.values.shape == vector.shape
    assert decode(data).values.tobytes() == payload.values.tobytes()
    assert sent(ALL[name], vector, form, seed).values.tobytes() == payload.values.tobytes()


@pytest.mark.parametrize("name", [name for name, each in ALL.items() if not each.lengthens])
@given(vector=vectors(), seed=st.integers(0, 99))
def test_what_does_not_lengthen_a_vector_sends_a_part_of_it(
    name: str, vector: Array, seed: int
) -> None:
    values = sent(ALL[name], vector, seed=seed).values
    assert np.all((values == 0) | (values == vector))


@compressors
def test_minus_zero_is_sent_as_zero(name: str) -> None:
    vector = np.array([0.0, -2.0, 0.0, 0.0, 1.5, 0.0, 0.0, 0.0])
    negative = np.where(vector == 0, -0.0, vector)
    one, other = sent(ALL[name], vector), sent(ALL[name], negative)
    assert one.bits == other.bits
    assert np.array_equal(one.values, other.values)


@compressors
@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("dimension", [1, 2, 30])
def test_what_is_not_finite_does_not_arrive_as_finite(
    name: str, bad: float, dimension: int
) -> None:
    vector = np.ones(dimension)
    vector[0] = bad
    for seed in range(20):
        payload = sent(ALL[name], vector, ValueFormat.FLOAT32, seed)
        if name.startswith("rand") and 0 not in payload.indices:
            continue
        assert not np.isfinite(payload.values).all()
        assert payload.bits == 8 * len(encode(payload))


@compressors
def test_a_vector_of_zeros_arrives_as_zeros(name: str) -> None:
    assert sent(ALL[name], np.zeros(7)).values.tolist() == [0] * 7


@compressors
@pytest.mark.parametrize("size", [1e-300, 1e-45, 1e30])
def test_vectors_far_from_one_keep_their_directions(name: str, size: float) -> None:
    values = sent(ALL[name], np.array([size, 0.5 * size, 0, -size])).values
    assert np.isfinite(values).all()
    assert values[0] >= 0 >= values[3]


@every(("compressor", "vector", "values"), [
    (TopK(count=2), [1, -3, 2, 0.5], [0, -3, 2, 0]),
    (TopK(count=2), [1, 2, -2, 2], [0, 2, -2, 0]),          # ties: the lowest index
    (TopK(count=3), [0, 5, 0, 0], [0, 5, 0, 0]),
    (TopK(count=9), [1, 2], [1, 2]),
    (HardThreshold(threshold=2), [1, -2, 1.9, 3], [0, -2, 0, 3]),
    (ScaledSign(), [1, -3, 0, 0], [1, -1, 1, 1]),
    (RandK(fraction=1), [1, -3], [1, -3]),
    (Identity(), [1, -3], [1, -3]),
    (QSGD(levels=5), [3, -4, 0], [3, -4, 0]),
    (Dithered(bits=3), [3, -1, 2], [3, -1, 2]),
    (Natural(), [1, -0.25, 2.0**-126, 0], [1, -0.25, 2.0**-126, 0]),
    (TernGrad(), [2, -2, 0], [2, -2, 0]),
    (E3M0(), [8, -3, 2.9, 0.1, -0.0626, 0.06], [8, -4, 2, 0.125, -0.125, 0]),
    (E3M0(), [1, 0.75, 0.74, -0.375, 2**-7, 0], [1, 1, 0.5, -0.5, 2**-6, 0]),
])  # fmt: skip
def test_what_arrives_by_hand(
    compressor: Compressor, vector: list[float], values: list[float]
) -> None:
    assert sent(compressor, np.array(vector, dtype=np.float64)).values == pytest.approx(values)


@given(vectors(), st.integers(1, 9))
def test_top_k_is_the_head_of_a_stable_sort(vector: Array, count: int) -> None:
    order = sorted(range(vector.size), key=lambda i: (-abs(vector[i]), i))[:count]
    expected = [vector[i] if i in order else 0.0 for i in range(vector.size)]
    assert sent(TopK(count=count), vector).values.tolist() == expected


@given(vectors(), st.integers(0, 99))
def test_random_coordinates_are_the_same_whether_their_indices_are_sent_or_not(
    vector: Array, seed: int
) -> None:
    by_seed = sent(RandK(count=3), vector, seed=seed)
    written = sent(RandK(count=3, indices="explicit"), vector, seed=seed)
    assert (type(by_seed), type(written)) == (SeededSparse, Sparse)
    assert by_seed.values.tolist() == written.values.tolist()
    count = min(3, vector.size)
    assert by_seed.entries.tolist() == pytest.approx(
        (vector[by_seed.indices] * (vector.size / max(count, 1))).tolist()
    )


@every(("spec", "dimension", "count"), [
    (TopK(fraction=0.1), 30, 3), (TopK(fraction=0.1), 38, 4), (TopK(fraction=0.1), 34, 3),
    (TopK(fraction=0.01), 30, 1), (TopK(fraction=1), 30, 30),
    (TopK(count=4), 30, 4), (TopK(count=40), 30, 30), (TopK(fraction=0.5), 0, 0),
    (RandK(fraction=0.07), 100, 7), (RandK(count=1), 1, 1),
])  # fmt: skip
def test_sizes_are_shares_or_numbers(spec: TopK, dimension: int, count: int) -> None:
    assert spec.size(dimension) == count
    assert sent(spec, np.ones(dimension)).indices.size == count


@every(("spec", "dimension", "shape"), [
    (PowerSGD(), 30, (5, 6)), (PowerSGD(), 31, (5, 7)), (PowerSGD(rows=4), 31, (4, 8)),
    (PowerSGD(rows=40), 31, (31, 1)), (PowerSGD(), 1, (1, 1)), (PowerSGD(), 0, (0, 0)),
])  # fmt: skip
def test_a_vector_is_read_as_a_matrix(
    spec: PowerSGD, dimension: int, shape: tuple[int, int]
) -> None:
    assert spec.shape(dimension) == shape
    payload = sent(spec, np.arange(float(dimension)))
    assert isinstance(payload, LowRank)
    assert (payload.left.shape[0], payload.right.shape[0]) == shape
    assert payload.values.shape == (dimension,)


def test_a_matrix_of_low_rank_arrives_whole() -> None:
    rng = np.random.default_rng(0)
    matrix = rng.standard_normal((6, 3)) @ rng.standard_normal((3, 8))
    assert sent(PowerSGD(rank=3), matrix.ravel()).values == pytest.approx(matrix.ravel())


@given(st.floats(0, allow_nan=False))
def test_a_norm_is_rounded_up_to_the_next_float32(value: float) -> None:
    above = float32_above(value)
    assert above >= value
    assert float(np.float64(above).astype(np.float32)) == above
    below = float(np.nextafter(np.float32(above), np.float32(-1)))
    assert not 0 <= value <= below


@pytest.mark.parametrize("name", ["qsgd", "qsgd 20", "terngrad", "dithered 2"])
@given(vector=vectors())
def test_no_coordinate_is_beyond_the_norm_that_is_sent(name: str, vector: Array) -> None:
    assert sent(ALL[name], vector).norm >= np.abs(vector).max(initial=0.0)


def test_kinds_tell_the_compressors_apart() -> None:
    kinds = [spec.model_fields["kind"].default for spec in COMPRESSORS]
    assert len(set(kinds)) == len(kinds)
    assert {type(compressor) for compressor in ALL.values()} == set(COMPRESSORS)


@each
def test_a_compressor_says_what_it_is_and_what_it_promises(spec: type[Compressor]) -> None:
    assert spec.__doc__ is not None
    first = spec.__doc__.splitlines()[0]
    assert 20 < len(first) <= 90
    assert first.endswith(".")
    assert len(spec.source) > 10
    kind = next(value for value in ALL.values() if type(value) is spec).contract(9).kind
    assert spec.law.startswith(kind)
    assert spec.unbiased() == (kind == "unbiased")
    undescribed = [name for name, field in spec.model_fields.items() if not field.description]
    assert undescribed == ["kind"]
    schema = spec.model_json_schema()
    assert json.loads(json.dumps(schema)) == schema


@compressors
def test_what_is_written_is_read_back(name: str) -> None:
    written = ALL[name].model_dump_json()
    assert TypeAdapter(type(ALL[name])).validate_json(written) == ALL[name]


@every(("spec", "fields"), [
    (TopK, {}), (TopK, {"fraction": 0.1, "count": 3}), (TopK, {"fraction": 0}),
    (TopK, {"fraction": 1.5}), (RandK, {"count": 0}), (RandK, {"count": 1, "indices": "none"}),
    (HardThreshold, {}), (HardThreshold, {"threshold": 0}), (QSGD, {"levels": 0}),
    (QSGD, {"levels": 2**24 + 1}), (QSGD, {"levels": "square"}), (Dithered, {"bits": 1}),
    (Dithered, {"bits": 25}), (PowerSGD, {"rank": 0}), (PowerSGD, {"rows": 0}),
])  # fmt: skip
def test_parameters_out_of_bounds_are_refused(
    spec: type[Compressor], fields: dict[str, object]
) -> None:
    with pytest.raises(ValidationError):
        spec.model_validate(fields)


def test_a_vector_of_zeros_loses_nothing() -> None:
    """delta = 1, as for a vector whose magnitudes are all the same; it is at most that."""
    for vector in (np.zeros(3), np.full(3, -2.0)):
        assert ScaledSign().contract_for(vector) == Contract("contractive", 1.0)
