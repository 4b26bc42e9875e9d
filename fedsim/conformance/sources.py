"""Does a source of data give the same samples for the same stream, fit to compute with?

from fedsim.conformance import check_source
print(check_source(Rings(rows=100)))
"""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pandas as pd

from fedsim.conformance.findings import Promises, table
from fedsim.errors import DataError
from fedsim.problems import Samples, Source
from fedsim.problems.samples import check


def check_source(source: Source, folder: Path = Path(), seed: int = 0) -> pd.DataFrame:
    """Check a source of data.

    Args:
        source: of any kind, with its parameters.
        folder: what its paths are relative to.
        seed: of its stream.

    Returns:
        A row a check: check, outcome (kept or broken), and the reason.

    Raises:
        DataError: the data cannot be had.
    """
    return table(type(source), _promises(source, folder, seed))


def _promises(source: Source, folder: Path, seed: int) -> Promises:
    one, other = (source.read(folder, np.random.default_rng(seed)) for _ in range(2))
    yield "its samples can be computed with", _sound(one)
    yield "the same stream gives the same samples", _repeats(one, other)


def _sound(samples: Samples) -> Iterator[str]:
    try:
        check(samples)
    except DataError as error:
        yield str(error)


def _repeats(one: Samples, other: Samples) -> Iterator[str]:
    if list(map(bytes, one.blocks())) != list(map(bytes, other.blocks())):
        yield "two draws from streams of one seed differ; draw from rng alone"
