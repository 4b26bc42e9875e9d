"""What does a payload's length cost, beside its encoding?

A simulation asks every message for its bits and encodes none. Each payload is asked, encoded and
decoded in turn; the first lines are a million indices, the others what each compressor makes of a
vector. The bits of a coordinate are what is charged, all sizes included.

    python analysis/benchmarks/wire.py
"""

import statistics
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from fedsim.wire import (
    QSGD,
    Compressor,
    Dithered,
    Encodable,
    HardThreshold,
    Identity,
    Natural,
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
from fedsim.wire.indices import IndexSet, entropy

DIMENSION, INDICES, REPEATS = 100_000, 1_000_000, 7
SPARSITIES = (2, 10, 100)
"""How many coordinates there are for each that is sent."""

DENSITIES = (0.001, 0.01, 0.1, 0.3)

COMPRESSORS: tuple[Compressor, ...] = (
    Identity(),
    RandK(fraction=0.01),
    TopK(fraction=0.01),
    TopK(fraction=0.1),
    HardThreshold(threshold=1.0),
    QSGD(),
    QSGD(levels=1),
    Natural(),
    TernGrad(),
    ScaledSign(),
    Dithered(bits=4),
    PowerSGD(rank=4),
)


def drawn(count: int, dimension: int) -> Sparse:
    """Return so many coordinates at random."""
    rng = np.random.default_rng(0)
    where = np.sort(rng.choice(dimension, count, replace=False))
    entries = ValueFormat.FLOAT32.round(rng.standard_normal(count))
    return Sparse(where, entries, dimension, ValueFormat.FLOAT32)


def compressed(dimension: int) -> Iterator[tuple[str, Encodable]]:
    """Yield what each compressor makes of a normal vector."""
    rng = np.random.default_rng(0)
    vector = rng.standard_normal(dimension)
    for compressor in COMPRESSORS:
        changed = compressor.model_dump(exclude_defaults=True, exclude={"kind"})
        name = " ".join([compressor.kind, *map(str, changed.values())])
        yield name, compressor.compress(vector, rng, ValueFormat.FLOAT32)


def seconds(job: Callable[[], object]) -> float:
    """Return the processor time of a job."""
    start = time.process_time()
    job()
    return time.process_time() - start


def costs(payload: Any, repeats: int = REPEATS) -> tuple[float, float, float]:
    """Return the median times of a payload's bits, its encoding and its decoding, s."""
    data = encode(payload)
    times = []
    for _ in range(repeats):
        one, other = replace(payload), replace(payload)  # which remember no length
        lengths = seconds(partial(getattr, one, "bits"))
        times.append((lengths, seconds(partial(encode, other)), seconds(partial(decode, data))))
    bits, encoding, decoding = (statistics.median(column) for column in zip(*times, strict=True))
    return bits, encoding, decoding


def report(name: str, payload: Encodable, coordinates: int) -> None:
    """Print the costs of a payload."""
    bits, encoding, decoding = costs(payload)
    print(
        f"{name}: {payload.bits / coordinates:.3f} bits each; bits in {1e3 * bits:.3f} ms, "
        f"encoded in {1e3 * encoding:.2f} ms ({encoding / bits:.0f} times as long), "
        f"decoded in {1e3 * decoding:.2f} ms"
    )


def main() -> None:
    """Print what index codes reach, and what bits, encoding and decoding cost."""
    for density in DENSITIES:
        count = round(density * DIMENSION)
        indices = IndexSet.of(drawn(count, DIMENSION).indices, DIMENSION)
        print(
            f"{100 * density:g} % of {DIMENSION}: {indices.bits / count:.2f} bits an index by "
            f"{indices.code.name}, where the entropy is {entropy(count, DIMENSION) / count:.2f}"
        )
    for ratio in SPARSITIES:
        report(f"{INDICES} of {ratio * INDICES}", drawn(INDICES, ratio * INDICES), INDICES)
    for name, payload in compressed(DIMENSION):
        report(name, payload, DIMENSION)


if __name__ == "__main__":
    main()
