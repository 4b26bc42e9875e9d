"""Strings of the wire that nobody should have sent, some thousands a case."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np

from tests.guarded import FAULT, Tried
from tests.wire.hostile import damaged, is_read

EACH = 1000
"""The strings of a case."""


class Strings:
    """Plays cases.

    Args:
        folder: of its own; nothing is written.
        seed: of the campaign.
    """

    def __init__(self, folder: Path, seed: int) -> None:
        del folder
        self._seed = seed

    def __call__(self, number: int) -> Iterator[Tried]:
        """Play a case: damaged strings, and one in ten of noise."""
        rng = np.random.default_rng([self._seed, number])
        noise = (rng.bytes(int(rng.integers(80))) for _ in range(EACH // 10))
        for kind, strings in (("damaged", damaged(EACH - EACH // 10, rng)), ("noise", noise)):
            for data in strings:
                yield tried(kind, data)


def tried(kind: str, data: bytes) -> Tried:
    """Return what the decoders make of a string."""
    try:
        return Tried(kind, "read" if is_read(data) else "refused")
    except Exception as error:
        return Tried(kind, FAULT, f"{data.hex()}: {type(error).__name__}: {error}"[:400])
