"""The rounds that count, and the best round of a run among those with a stored model."""

from pathlib import Path
from typing import Any, Protocol

import pandas as pd

from fedsim.core.errors import DataError
from fedsim.core.table_columns import CONSTRAINT, FEASIBLE, higher_is_better
from fedsim.results.record.folder import SCENARIO
from fedsim.results.record.models import folder_of, read_rounds
from fedsim.results.record.scenarios import parse, read_text


class HasRounds(Protocol):
    """The part of a `Result` that is read here."""

    @property
    def runs(self) -> tuple[Path, ...]:
        """The folders of the runs."""
        ...

    @property
    def rounds(self) -> pd.DataFrame:
        """The round tables."""
        ...


def feasible_figure(rounds: pd.DataFrame, measure: str) -> "pd.Series[Any]":
    """Return a column of rounds; NaN where the model violates the method's constraint.

    A run whose method has a constraint has the column `feasible`, with a value in each round that
    was evaluated; in other runs every round counts.

    Args:
        rounds: see `Result.rounds`.
        measure: the column.
    """
    if not {CONSTRAINT, FEASIBLE} <= set(rounds):
        return rounds[measure]
    runs = [rounds["variant"], rounds["seed"]]
    constrained = rounds[FEASIBLE].notna().groupby(runs, observed=True).transform("any")
    return rounds[measure].where(rounds[FEASIBLE].eq(1) | ~constrained)


def best_round(
    result: HasRounds, variant: str | None, seed: int | None, measure: str | None
) -> int:
    """Return the round with the best value of a measure, among rounds with a stored model.

    Of several equal values the first counts. Rounds whose model violates the constraint do not.

    Args:
        result: the result of the runs.
        variant: the variant of the run; the first one if None.
        seed: the seed of the run.
        measure: a column of `result.rounds`; if None, that of `models.best` of the scenario, and
            test_accuracy where it has none.

    Raises:
        DataError: `result.rounds` lacks the measure, or no round with a stored model has a value.
        ValueError: there is no such run.
    """
    rounds, name = result.rounds, variant or result.runs[0].parent.name
    folder = folder_of(result.runs, name, seed)
    named = measure or _measure_of(folder)
    if named not in rounds:
        raise DataError("measure", f"got {named!r}; expected one of {', '.join(rounds.columns)}")
    of_run = (rounds["variant"] == name) & (
        rounds["seed"] == int(folder.name.removeprefix("seed-"))
    )
    stored = rounds[of_run & rounds["round"].isin(read_rounds(folder))]
    values = feasible_figure(stored, named).set_axis(stored["round"]).dropna()
    if values.empty:
        text = f"no round of {name} whose model was kept has a value of {named}"
        raise DataError("measure", f"{text}; models: {{best: {named}}} keeps the best one's")
    place = int(values.argmax() if higher_is_better(named) else values.argmin())
    return int(values.index[place])


def _measure_of(folder: Path) -> str:
    """Return the figure that selects the best model of a run."""
    models = parse(read_text(folder), folder / SCENARIO).get("models")
    best = models.get("best") if isinstance(models, dict) else None
    return str(best or "test_accuracy")
