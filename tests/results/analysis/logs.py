"""Logs of random scenarios, and tables as the plain loops of tests read them."""

import tempfile
import warnings
from collections.abc import Iterable, Iterator
from contextlib import chdir
from pathlib import Path
from typing import Any

import pandas as pd

import fedsim
from fedsim.core.errors import ScenarioError
from fedsim.results.analysis import Log
from tests.campaigns.worlds.campaign import prepared
from tests.campaigns.worlds.drawing import world


def random_logs(numbers: Iterable[int]) -> Iterator[Log]:
    """Yield the tables of random scenarios, of those that are accepted."""
    with prepared() as files, chdir(files), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for number in numbers:
            with tempfile.TemporaryDirectory() as out:
                try:
                    run = fedsim.run(world(number), out=Path(out) / "out", check=False)
                except ScenarioError:
                    continue
                yield Log(run.events, run.rounds, run.clients)


def runs(frame: pd.DataFrame) -> Iterator[tuple[Any, pd.DataFrame]]:
    """Yield the rows of each run, with its variant and seed."""
    yield from frame.groupby(["variant", "seed"], sort=False, observed=True)


def rows(frame: pd.DataFrame) -> list[dict[str, Any]]:
    """Return a table's rows, None for what is missing."""
    plain = frame.astype(object)
    known: list[dict[str, Any]] = plain.where(plain.notna(), None).to_dict("records")  # type: ignore[assignment]
    return known
