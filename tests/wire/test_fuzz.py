"""Damaged encodings: each is written again as it came, or refused by the one error."""

import numpy as np

from tests.tiers import every
from tests.wire.hostile import damaged, genuine, is_read


@every("seed", range(4), few=[0])
def test_damaged_bytes_are_read_or_refused(seed: int) -> None:
    read = sum(map(is_read, damaged(6_000, np.random.default_rng(seed))))
    assert 240 < read < 5_000  # the damage neither spares everything nor nothing


def test_what_is_damaged_is_read_whole() -> None:
    assert all(map(is_read, genuine(np.random.default_rng(0))))


def test_noise_is_read_or_refused() -> None:
    rng = np.random.default_rng(5)
    assert sum(is_read(rng.bytes(int(rng.integers(60)))) for _ in range(10_000)) < 5_000
