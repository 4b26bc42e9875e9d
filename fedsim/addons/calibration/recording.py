"""A recording: when messages, work and pings began and ended, as one table of observations.

| column | type | meaning |
|---|---|---|
| run | int | times of different runs are not comparable |
| client | text | the client; `*` if the recording holds for all of them |
| round | int | from 1; 0 if the recording has no rounds |
| kind | text | see `KINDS` |
| start, end | float, s | since any origin, the same for one run |
| bytes | float | of the message, without headers of the transport; 0 for work and pings |
| operations, samples | float | of work; NaN if the recording does not say |
| unseen | float | bytes of the message that passed before `start` or after `end`; NaN for none |
| handshake | float, s | part of a message's time that is its handshake's; NaN if all was timed |
| least | float, s | the shortest time that a stated bound allows, such as `<1ms`; NaN if exact |
"""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple, NoReturn

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from fedsim.core.atomic import write_whole
from fedsim.core.blocks.wording import printable
from fedsim.core.errors import DataError

ALL = "*"
"""The client of an observation that holds for all clients."""

MESSAGES = ("upload", "download")
RATES = ("upload-rate", "download-rate")
CAPACITIES = ("upload-capacity", "download-capacity")
MEAN = "compute-mean"
WORK = ("compute", MEAN)
KINDS = (*MESSAGES, *WORK, "ping", *RATES, *CAPACITIES, "round")
"""The kinds of observations: `upload` and `download` are whole messages, from the call that sends
to the last byte; `compute-mean` is the mean time of work over the clients of a round; a `ping` is a
round trip; `upload-rate` and `download-rate` are bytes of an application within a longer transfer,
so that latency has no effect; a capacity is the same, with packet headers included; a `round` is a
whole round, without information on single clients."""


class Observation(NamedTuple):
    """One row of the table; see the module's description."""

    run: int
    client: str
    round: int
    kind: str
    start: float
    end: float
    bytes: float = 0.0
    operations: float = float("nan")
    samples: float = float("nan")
    unseen: float = float("nan")
    handshake: float = float("nan")
    least: float = float("nan")


def as_table(rows: Iterable[Observation]) -> pd.DataFrame:
    """Return observations as a table, in their order."""
    return pd.DataFrame(list(rows), columns=list(Observation._fields))


def refuse(path: Path, line: int, accepted: str, seen: str) -> NoReturn:
    """Raise the error for a line of a file, with what is accepted and what was seen."""
    raise DataError("log", f"{path}, line {line}: {accepted}; got {printable(seen, 60)!r}")


def write_recording(table: pd.DataFrame, path: Path) -> None:
    """Write a recording as CSV, of the form that `fedsim calibrate` reads.

    Raises:
        OutputError: it cannot be written.
    """
    absent = [name for name in ("unseen", "handshake", "least") if table[name].isna().all()]
    text = table.drop(columns=absent).to_csv(index=False, lineterminator="\n")
    write_whole(path, text.encode())


def join(recordings: Sequence[pd.DataFrame]) -> pd.DataFrame:
    """Return several recordings as one; their runs are numbered anew."""
    # Times of different recordings have different origins, so they are different runs.
    joined, first = [], 0
    for recording in recordings:
        joined.append(recording.assign(run=recording["run"] + first))
        first += int(recording["run"].max()) + 1 if len(recording) else 0
    return pd.concat(joined, ignore_index=True)


def in_rounds(recording: pd.DataFrame, first: int, last: int) -> pd.DataFrame:
    """Return the observations of some rounds, and those without a round.

    Raises:
        DataError: no round of the recording is among them.
    """
    of_round = recording["round"].between(first, last)
    if not of_round.any():
        known = recording.loc[recording["round"] > 0, "round"]
        there = f"has rounds {known.min()} to {known.max()}" if len(known) else "has no rounds"
        raise DataError("rounds", f"--rounds: got {first}..{last}, but the recording {there}")
    return recording[of_round | (recording["round"] == 0)].reset_index(drop=True)


def number_clients(recording: pd.DataFrame, count: int) -> NDArray[np.intp]:
    """Return the number of each observation's client, from 0; -1 for all clients.

    A client of the name `client-3`, or of the name `3`, has the number 3. If any client has
    another name, such as an address, all are numbered by their first observation.

    Args:
        recording: the observations.
        count: the number of clients of the fleet.

    Raises:
        DataError: the recording has more clients than the fleet.
    """
    names = [str(name) for name in recording["client"].unique() if name != ALL]
    bare = [name.removeprefix("client-") for name in names]
    if all(name.isascii() and name.isdecimal() for name in bare):
        numbers = {name: int(number) for name, number in zip(names, bare, strict=True)}
    else:
        numbers = {name: number for number, name in enumerate(names)}
    if numbers and (most := max(numbers.values())) >= count:
        name = next(name for name, number in numbers.items() if number == most)
        text = f"the recording has the client {name!r}, but the fleet has {count} clients"
        raise DataError("fleet", f"{text}; expected a fleet of {most + 1} or more")
    numbers[ALL] = -1
    return np.array([numbers[str(name)] for name in recording["client"]], np.intp)
