"""Encodings by hand: the bytes of small payloads, written out."""

import numpy as np
import pytest

from fedsim.core.errors import DecodeError
from fedsim.wire import (
    Dense,
    Empty,
    Encodable,
    FourBits,
    LowRank,
    Octets,
    Powers,
    Quantized,
    Scalar,
    SeededSparse,
    Sign,
    Sparse,
    SparsePowers,
    Update,
    ValueFormat,
    decode,
    encode,
)
from tests.tiers import every

F64, F32, B16, F16 = ValueFormat


def vector(*values: float) -> np.ndarray:
    return np.array(values, dtype=np.float64)


def levels(dimension: int, **at: int) -> np.ndarray:
    made = np.zeros(dimension, dtype=np.intp)
    for place, level in at.items():
        made[int(place[1:])] = level
    return made


def spread(dimension: int, *indices: int) -> np.ndarray:
    made = np.zeros(dimension)
    made[list(indices)] = 1.0
    return made


CASES: dict[str, tuple[Encodable | Update, str]] = {
    "nothing": (Empty(), ""),
    "an update": (Update(Dense.of(vector(1.0), F16), 3), "a3 13 01 01000000 003c"),
    "dense": (Dense.of(vector(1.0, -2.0), F32), "11 01 02000000 0000803f 000000c0"),
    "a matrix": (
        Dense.of(np.array([[1.0], [0.5]]), B16),
        "12 02 02000000 01000000 803f 003f",
    ),
    "scalar": (Scalar.of(-1.5, F64), "30 000000000000f8bf"),
    # d = 8, k = 1, code FIXED: 5 in three bits.
    "sparse, fixed": (Sparse.of(vector(0, 0, 0, 0, 0, 1, 0, 0), F16), "23 08 01 01 05 003c"),
    # 0, 2, 5, 7 of 8: 10100101, lowest bit first.
    "sparse, bitmap": (
        Sparse.of(spread(8, 0, 2, 5, 7), F16),
        "23 08 04 00 a5 003c 003c 003c 003c",
    ),
    # Gaps 1 1 1 98 1: w = 0 0 0 6 0 in unary 1110 0000 011, then 98 - 64 = 34 = 010001.
    "sparse, gamma": (
        Sparse.of(spread(128, 0, 1, 2, 100, 101), F16),
        "23 8001 05 02 07 16 01" + 5 * " 003c",
    ),
    # r = 4 (tag 3 + 4 * 4); gaps less one 10 19 29 29 9: 0 1 1 1 0 in unary 10101011,
    # rests 10 3 13 13 9 in four bits: 0101 1100 1011 1011 1001.
    "sparse, rice": (
        Sparse.of(spread(128, 10, 30, 60, 90, 100), F16),
        "23 8001 05 13 d5 3a dd 09" + 5 * " 003c",
    ),
    # Five of six are there: the one that is not is written, 4 in three bits.
    "sparse, absent": (
        Sparse.of(vector(1, 1, 1, 1, 0, 1), F16),
        "23 06 05 01 04" + 5 * " 003c",
    ),
    "sparse, none": (Sparse.of(np.zeros(300), F32), "21 ac02 00 01"),
    "seeded": (
        SeededSparse.of(0x0123456789ABCDEF, 1, vector(2.0, 2.0, 2.0), F32),
        "41 03 01 efcdab8967452301 00000040",
    ),
    # s = 1, so two bits a level plus one: 2 0 1 1.
    "quantized, fixed": (
        Quantized.of(1.0, np.array([1, -1, 0, 0]), 1),
        "51 04 01 0000803f 80 52",
    ),
    # s = 5; code FIXED, 60 in six bits: 001111, negative: 1, gamma of 5: 001 10.
    "quantized, elias": (
        Quantized.of(0.5, levels(64, i60=-5), 5),
        "51 40 05 0000003f 01 01 7c 06",
    ),
    "quantized, nothing": (Quantized.of(0.0, levels(64), 5), "51 40 05 00000000 01 00"),
    "sign": (Sign(0.25, np.array([1, 0, 0, 1], dtype=np.uint8)), "61 04 0000803e 09"),
    # 1/2, -1/2, and 1/2 2^-6: 1110 1111, 1000 and padding.
    "four bits": (FourBits(0.5, np.array([7, 15, 1])), "d1 03 0000003f f7 01"),
    # 1 is exponent 127, -2 is 256 + 128: 1111 1110 0 and 0000 0001 1.
    "powers": (Powers(np.array([127, 384])), "71 02 7f 00 03"),
    # Coordinate 3 of 8 in three bits, and the nine bits of a 1: 110 and 1111 1110 0.
    "sparse powers": (SparsePowers.of(levels(8, i3=127)), "91 08 01 01 fb 03"),
    # A 2 x 2 matrix of which three entries count: U = (1, 2), V = (1, -1).
    "low rank": (
        LowRank.of(np.array([[1.0], [2.0]]), np.array([[1.0], [-1.0]]), 3, F16),
        "83 03 02 01 003c 0040 003c 00bc",
    ),
    "octets": (Octets(b"abc"), "b0 03 616263"),
    "octets, none": (Octets(b""), "b0 00"),
}


@every("case", CASES)
def test_the_bytes_are_those_written_by_hand(case: str) -> None:
    payload, data = CASES[case]
    assert encode(payload).hex(" ") == bytes.fromhex(data).hex(" ")
    arrived = decode(bytes.fromhex(data))
    assert type(arrived) is type(payload)
    assert arrived.values.tolist() == payload.values.tolist()


@every(("case", "values"), [
    ("a matrix", [[1.0], [0.5]]),
    ("sparse, absent", [1, 1, 1, 1, 0, 1]),
    ("quantized, fixed", [1, -1, 0, 0]),
    ("sign", [-0.25, 0.25, 0.25, -0.25]),
    ("powers", [1, -2]),
    ("low rank", [1, -1, 2]),
])  # fmt: skip
def test_what_arrives_is_what_was_meant(case: str, values: list[float]) -> None:
    assert CASES[case][0].values.tolist() == values


def test_a_level_is_so_many_steps_of_the_norm() -> None:
    payload = Quantized.of(3.0, levels(10, i2=4, i7=-1), 4)
    assert payload.values.tolist() == [0, 0, 3, 0, 0, 0, 0, -0.75, 0, 0]
    assert np.isnan(Quantized.of(np.inf, levels(3), 4).values).all()


def test_floats_of_four_bits_are_halves_of_halves_of_the_scale() -> None:
    values = FourBits(64.0, np.arange(16)).values
    assert values.tolist() == [0, 1, 2, 4, 8, 16, 32, 64, 0, -1, -2, -4, -8, -16, -32, -64]
    with pytest.raises(DecodeError, match="a negative zero"):
        decode(bytes.fromhex("d1 01 0000003f 08"))
    with pytest.raises(DecodeError, match=r"a scale of -0\.5"):
        decode(bytes.fromhex("d1 01 000000bf 07"))


def test_exponents_reach_from_zero_to_infinity() -> None:
    values = Powers(np.array([0, 1, 254, 255, 256, 511])).values
    assert values.tolist() == [0.0, 2.0**-126, 2.0**127, np.inf, -0.0, -np.inf]
    assert np.signbit(values[4])
