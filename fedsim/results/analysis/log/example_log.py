"""The tables of a small study, for examples of questions."""

from pathlib import Path

import pandas as pd
import pyarrow.parquet as pq

from fedsim.results.analysis.log.frames import Table
from fedsim.results.analysis.trace import Log
from fedsim.results.record.parts import as_frame

EXAMPLE = Path(__file__).parent / "example"
"""The folder of the tables of `example_log`."""


def example_log() -> Log:
    """Return the tables of a small study, for examples: two variants, two seeds, four clients.

    Two phones on LTE that loses packets, a Raspberry Pi on a small battery, and a slow
    microcontroller, for eight rounds with a deadline of 1 s: `gd`, and `chb`, whose clients are
    silent where their gradients have hardly changed.

    Example:
        >>> log = example_log()
        >>> log.clients["client"].astype(str).unique().tolist()
        ['client-0', 'client-1', 'client-2', 'client-3']
    """
    names: tuple[Table, ...] = ("events", "rounds", "clients")
    return Log(**{name: _read(name) for name in names})


def _read(name: Table) -> pd.DataFrame:
    frame: pd.DataFrame = as_frame(pq.read_table(EXAMPLE / f"{name}.parquet"))
    return frame
