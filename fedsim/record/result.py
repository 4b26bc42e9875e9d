"""What runs have written, as pandas tables: `Result`."""

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import pandas as pd

from fedsim.ports import Array
from fedsim.record import read
from fedsim.record.notes import Note
from fedsim.record.read_models import model_of, read_models


@dataclass(frozen=True)
class Result:
    """What a scenario's runs have written, as pandas tables; see `fedsim.record.schema`.

    Attributes:
        folder: OUT, with a folder `<variant>/seed-<n>` per run.
        runs: the folders of the runs, in the order of the scenario and of all tables.
        foreseen: what was to be said before anything ran: of runs that the folder had from an
            earlier state of the scenario, or that were not priced as they are of such a one, and
            of the scenario.
    """

    folder: Path
    runs: tuple[Path, ...]
    foreseen: tuple[Note, ...] = ()

    @cached_property
    def events(self) -> pd.DataFrame:
        """The event logs, one row a span."""
        return read.read_all(self.runs, "events")

    @cached_property
    def rounds(self) -> pd.DataFrame:
        """The round tables, one row a round; costs are those of the round."""
        return read.read_all(self.runs, "rounds")

    @cached_property
    def clients(self) -> pd.DataFrame:
        """The client tables, one row a client and run."""
        return read.read_all(self.runs, "clients")

    @cached_property
    def models(self) -> pd.DataFrame:
        """The models that were kept, one row each, in the column model as arrays in their shape."""
        return read_models(self.runs)

    def model(
        self,
        variant: str = "base",
        seed: int | None = None,
        round: int | None = None,  # noqa: A002 - as the column is called
    ) -> Array:
        """Return one model in its shape, (d,) or a matrix, and read no other run's.

        Args:
            variant: of the run.
            seed: of the run; may be left out where the variant has one only.
            round: after which; the last one if None.

        Raises:
            ValueError: there is no such run, or the model was not kept; the text says which are.
            DataError: a file is damaged.
        """
        return model_of(self.runs, variant, seed, round)

    @cached_property
    def summary(self) -> pd.DataFrame:
        """One row a run: how it ended, what it reached and what it cost."""
        return read.read_summaries(self.runs)

    @property
    def notes(self) -> tuple[Note, ...]:
        """What has no effect, or not the one that is meant: of the scenario, then of its runs."""
        return *self.foreseen, *self.seen

    @cached_property
    def seen(self) -> tuple[Note, ...]:
        """What is to be said of the runs, now that they have ended."""
        return tuple(
            Note(f"{row['variant']}, seed {row['seed']}", *text.split(": ", 1))
            for row in self.summary.to_dict("records")
            for text in (row["notes"] if isinstance(row.get("notes"), list) else ())
        )
