"""What an experiment tracker stores of a run, and the base class of trackers."""

from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from math import isfinite
from pathlib import Path
from typing import Any, ClassVar

import pandas as pd

from fedsim.core.blocks.spec import Spec
from fedsim.core.errors import DataError
from fedsim.core.extras import VERSION, missing
from fedsim.core.table_columns import AFTER
from fedsim.results.record.folder import SUMMARY, read_json
from fedsim.results.record.manifest import SEAL, read_manifest
from fedsim.results.record.read import read_run
from fedsim.results.record.rounds import Traffic
from fedsim.results.record.scenarios import parse, read_text
from fedsim.results.record.summary import end_of

KEY = "track"
"""The key of errors about trackers."""

_PER_ROUND = (*Traffic(grams=0).as_dict(),)
"""Columns of the round table that are costs of one round; a tracker gets their running totals."""


@dataclass(frozen=True)
class TrackedRun:
    """A run that has ended, as an experiment tracker stores it.

    Attributes:
        study: the name of the scenario.
        variant, seed: of the run.
        folder: the run's files; `scenario.yaml` in it is the whole scenario.
        params: the run's scenario: dotted key -> value; keys without a value are left out.
        rounds: one row per round, the index; objective, gap and measures as evaluated, costs as
            running totals, `seconds` is the simulated time at its end. What was not evaluated is
            NaN.
        tags: texts: variant, seed, algorithm, status, reason, version of fedsim, seal of the run.
        complete: whether the run ended without an error.
    """

    study: str
    variant: str
    seed: int
    folder: Path
    params: Mapping[str, str | float | bool]
    rounds: pd.DataFrame
    tags: Mapping[str, str]
    complete: bool

    @classmethod
    def of(cls, folder: Path, study: str) -> "TrackedRun":
        """Read the run in a folder.

        Args:
            folder: of a run that has ended.
            study: the name of the scenario.

        Raises:
            DataError: a file is missing or damaged.
        """
        summary = read_json(folder / SUMMARY)
        variant, seed, status = summary["variant"], int(summary["seed"]), summary["status"]
        scenario = parse(read_text(folder), folder)
        tags = {
            "study": study,
            "variant": variant,
            "seed": str(seed),
            "algorithm": str(summary["algorithm"]),
            "status": status,
            "reason": str(summary["reason"]),
            "version": VERSION,
            "seal": str(read_manifest(folder)[SEAL]),
        }
        params = dict(_flatten(scenario))
        rounds = _so_far(read_run(folder, "rounds"))
        return cls(study, variant, seed, folder, params, rounds, tags, end_of(status).complete)

    @property
    def name(self) -> str:
        """The name of the run: its variant and its seed."""
        return f"{self.variant}, seed {self.seed}"

    def points(self) -> Iterator[tuple[int, dict[str, float]]]:
        """Yield each round with its numbers by name; what was not evaluated is left out."""
        names = [str(name) for name in self.rounds.columns]
        for number, *row in self.rounds.itertuples():
            values = zip(names, map(float, row), strict=True)
            yield int(number), {name: value for name, value in values if isfinite(value)}


def _flatten(value: object, key: str = "") -> Iterator[tuple[str, str | float | bool]]:
    """Yield the values in nested mappings and lists, with their dotted keys."""
    items: Sequence[tuple[Any, Any]] = ()
    match value:
        case Mapping():
            items = list(value.items())
        case list():
            items = list(enumerate(value))
        case None:
            pass
        case bool() | int() | float():
            yield key, value
        case _:
            yield key, str(value)
    for name, inner in items:
        yield from _flatten(inner, f"{key}.{name}" if key else str(name))


def _so_far(rounds: pd.DataFrame) -> pd.DataFrame:
    """Return the round table, indexed by round, with running totals of the costs.

    As in `fedsim.results.analysis`, energy and emissions are those until radios sleep.
    """
    table = rounds.drop(columns=["variant", "seed"], errors="ignore").set_index("round")
    costs = [name for name in _PER_ROUND if name in table.columns]
    table[costs] = table[costs].cumsum()
    for cost, after in AFTER.items():
        if after in table:
            table[cost] += table[after]
    return table.rename(columns={"t": "seconds"}).select_dtypes("number")


class Tracker(Spec):
    """An experiment tracker: it stores every run that ends.

    A user-defined one is a subclass with `kind` and `open`: `fedsim run FILE --plugin mine.py
    --track KIND`, or `fedsim.run(..., track=Mine())`.
    """

    library: ClassVar[tuple[str, str, str]] = ("", "", "")
    """The module that it imports, the library's name for people, and the extra that installs it."""

    kind: str

    @abstractmethod
    def open(self, folder: Path, study: str) -> Callable[[TrackedRun], None]:
        """Return the function that stores a run; it is called when a run has ended.

        What it raises becomes one note, and no further run is stored: a tracker never ends a run.

        Args:
            folder: for the tracker's files, OUT/KIND; it exists.
            study: the name of the scenario.
        """

    def check(self) -> None:
        """Check that the library is installed.

        Raises:
            DataError: it is not; the text has the command that installs it.
        """
        module, name, extra = self.library
        if module and not _is_installed(module):
            raise DataError(KEY, missing(f"the tracker {self.kind}", name, extra))


def _is_installed(module: str) -> bool:
    try:
        return find_spec(module) is not None
    except ValueError:  # sys.modules blocks its import
        return False
