"""The best round of a run, of those whose model was kept."""

from pathlib import Path
from typing import Protocol

import pandas as pd

from fedsim.core.errors import DataError
from fedsim.core.table_columns import higher_is_better
from fedsim.results.record.folder import SCENARIO
from fedsim.results.record.models import folder_of, read_rounds
from fedsim.results.record.scenarios import parse, read_text


class HasRounds(Protocol):
    """What a `Result` has of its runs' rounds."""

    @property
    def runs(self) -> tuple[Path, ...]:
        """The folders of the runs."""
        ...

    @property
    def rounds(self) -> pd.DataFrame:
        """The round tables."""
        ...


def best_round(
    result: HasRounds, variant: str | None, seed: int | None, measure: str | None
) -> int:
    """Return the round with the best value of a measure, of those whose model was kept.

    It is the first of several equal ones. A model that breaks its constraint is not the best one.

    Args:
        result: of the runs.
        variant: of the run; the first one if None.
        seed: of the run.
        measure: a column of `result.rounds`; if None, that of `models.best` of the scenario, and
            test_accuracy where it has none.

    Raises:
        DataError: the measure is no column of `result.rounds`, or no kept round has a value of it.
        ValueError: there is no such run.
    """
    from fedsim.results.analysis.costs import feasible_figure  # loads rich

    rounds, own = result.rounds, variant or result.runs[0].parent.name
    folder = folder_of(result.runs, own, seed)
    named = measure or _measure_of(folder)
    if named not in rounds:
        raise DataError("measure", f"got {named!r}; expected one of {', '.join(rounds.columns)}")
    of_run = (rounds["variant"] == own) & (rounds["seed"] == int(folder.name.removeprefix("seed-")))
    kept = rounds[of_run & rounds["round"].isin(read_rounds(folder))]
    values = feasible_figure(kept, named).set_axis(kept["round"]).dropna()
    if values.empty:
        text = f"no round of {own} whose model was kept has a value of {named}"
        raise DataError("measure", f"{text}; models: {{best: {named}}} keeps the best one's")
    place = int(values.argmax() if higher_is_better(named) else values.argmin())
    return int(values.index[place])


def _measure_of(folder: Path) -> str:
    """Return the figure by which a run has kept its best model."""
    models = parse(read_text(folder), folder / SCENARIO).get("models")
    best = models.get("best") if isinstance(models, dict) else None
    return str(best or "test_accuracy")
