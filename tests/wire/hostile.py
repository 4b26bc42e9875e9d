"""Bytes that nobody should have sent, and what is asked of whoever reads them.

How many of so many damaged strings, from a seed, are read:

    python -m tests.wire.hostile 200000 1
"""

import contextlib
import sys
from collections.abc import Callable, Iterator

import numpy as np

from fedsim.core.errors import DecodeError
from fedsim.wire import (
    Dense,
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
    decode,
    decode_message,
    encode,
    encode_message,
)

SMALL = 10_000
"""The most coordinates whose values are looked at."""


def is_read(data: bytes) -> bool:
    """Say whether bytes are read as a payload or as a message.

    Anything but the one documented error is a defect, and so is a payload that cannot be used,
    or what is not written again as it came.
    """
    payloads: list[Encodable | Update] = []
    with contextlib.suppress(DecodeError):
        payloads.append(decode(data))
        assert encode(payloads[0]) == data
    with contextlib.suppress(DecodeError):
        header, parts = decode_message(data)
        fields = header._asdict()
        assert fields.pop("length") == sum(part.bits for part in parts) // 8
        assert encode_message(parts, **fields) == data
        payloads += parts
    for payload in payloads:
        use(payload)
    return bool(payloads)


def use(payload: Encodable | Update) -> None:
    """Do what a receiver does with a payload, and what would tell on a wrong one."""
    part = payload.sent if isinstance(payload, Update) else payload
    if getattr(part, "dimension", 0) <= SMALL:
        assert payload.values.dtype == np.float64
    assert decode(encode(payload)).bits == payload.bits == 8 * len(encode(payload))


def genuine(rng: np.random.Generator) -> list[bytes]:
    """Return encodings of every kind: payloads, and messages of two."""
    made: list[Encodable | Update] = []
    for dimension in (0, 1, 2, 7, 40):
        vector = rng.standard_normal(dimension)
        sparse = np.where(rng.random(dimension) < 0.3, vector, 0.0)
        levels = rng.integers(-3, 3, dimension, endpoint=True)
        rows = max(dimension // 3, 1) if dimension else 0
        factors = np.ones((rows, 1)), np.ones((-(-dimension // rows) if rows else 0, 1))
        form = tuple(ValueFormat)[rng.integers(4)]
        made += [
            Dense.of(vector, form),
            Scalar.of(0.5, form),
            Sparse.of(vector, form),
            Sparse.of(sparse, form),
            SeededSparse.of(int(rng.integers(2**63)), dimension // 2, vector, form),
            Quantized.of(1.5, levels, 3),
            Quantized.of(1.5, np.where(sparse, levels, 0), 1000),
            Quantized.of(1.5, np.sign(levels), 1),
            Sign(0.5, (vector < 0).astype(np.uint8)),
            Powers(rng.integers(512, size=dimension)),
            FourBits(1.5, rng.choice([*range(8), *range(9, 16)], dimension)),
            SparsePowers.of(np.where(sparse, rng.integers(512, size=dimension), 0)),
            Octets(rng.bytes(dimension)),
            PartsPayload(
                (Dense.of(vector, form), Sparse.of(sparse, form), Quantized.of(1.5, levels, 3))
            ),
            Update(Sparse.of(sparse, form), dimension % 16),
        ]
        if dimension:
            made.append(LowRank.of(*factors, dimension, form))
    messages = [
        encode_message(
            made[place : place + 2], message_type=1, sender=2, round_number=3, exchange=4
        )
        for place in range(0, len(made), 2)
    ]
    return [encode(payload) for payload in made] + messages


Damage = Callable[[bytearray, np.random.Generator], None]


def _cut(data: bytearray, rng: np.random.Generator) -> None:
    del data[rng.integers(len(data)) :]


def _flip(data: bytearray, rng: np.random.Generator) -> None:
    for place in rng.integers(8 * len(data), size=rng.integers(1, 4)):
        data[place // 8] ^= 1 << place % 8


def _overwrite(data: bytearray, rng: np.random.Generator) -> None:
    data[rng.integers(len(data))] = rng.choice([0, 1, 127, 128, 255])


def _inflate(data: bytearray, rng: np.random.Generator) -> None:
    """Put a large count somewhere near the front, where the counts are."""
    place = int(rng.integers(1, min(len(data), 8) + 1))
    data[place : place + 1] = bytes([255, 255, 255, 255, 15][rng.integers(5) :])


def _append(data: bytearray, rng: np.random.Generator) -> None:
    data += rng.bytes(int(rng.integers(1, 9)))


DAMAGES: tuple[Damage, ...] = (_cut, _flip, _overwrite, _inflate, _append)


def damaged(count: int, rng: np.random.Generator) -> Iterator[bytes]:
    """Yield so many damaged encodings, each damaged once to three times."""
    whole = [data for data in genuine(rng) if data]
    for _ in range(count):
        data = bytearray(whole[rng.integers(len(whole))])
        for damage in rng.integers(len(DAMAGES), size=rng.integers(1, 4)):
            if data:
                DAMAGES[damage](data, rng)
        yield bytes(data)


if __name__ == "__main__":
    strings, seed = map(int, sys.argv[1:])
    read = sum(map(is_read, damaged(strings, np.random.default_rng(seed))))
    told = f"{strings} damaged strings: {read} read, each written again as it came; others refused"
    sys.stdout.write(told + "\n")
