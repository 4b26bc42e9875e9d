"""Targets: what runs are to reach, and what it costs them."""

from typing import NamedTuple, Protocol

import numpy as np
import pandas as pd
from pandas.api.types import is_numeric_dtype

from fedsim.analysis.costs import COSTS, cost_to_target, final_cost
from fedsim.blocks.wording import nearest
from fedsim.errors import DataError
from fedsim.record.directions import higher_is_better
from fedsim.record.ends import end_of
from fedsim.record.schema import GRAMS

_NO_MEASURES = frozenset({"variant", "seed", "round", "t", "cohort", *COSTS, GRAMS})


_TARGETS = "targets."
"""How the columns of a summary begin that have the bounds at which runs were to stop."""


_WHOLE = "whole-run"
"""What the end of a run is called where targets are labels."""


def heading(label: str) -> str:
    """Return how a sentence begins that is about a target, by its label.

    >>> heading("gap=0.1"), heading("whole-run")
    ('gap=0.1', 'the whole run')
    """
    return "the whole run" if label == _WHOLE else label


class Tables(Protocol):
    """Runs, as their tables."""

    @property
    def rounds(self) -> pd.DataFrame:
        """As `Result.rounds` has them."""

    @property
    def summary(self) -> pd.DataFrame:
        """As `Result.summary` has it."""


class Target(NamedTuple):
    """What is to be reached: a value of a column of the round table, or the end of the run.

    Attributes:
        measure: the column; empty for the end of the run.
        value: in the column's unit.
    """

    measure: str = ""
    value: float = np.nan

    @classmethod
    def read(cls, text: str) -> "Target":
        """Read "gap=1e-5".

        Raises:
            DataError: it is nothing of the kind, or a gap that no run can reach.
        """
        measure, _, value = text.partition("=")
        try:
            target = cls(measure.strip(), float(value))
        except ValueError:
            target = cls()
        if not target.measure or not np.isfinite(target.value):
            wanted = "give a column of the round table and a number, such as gap=1e-5"
            raise DataError("target", f"--target: got {text!r}; {wanted}")
        if target.measure == "gap" and target.value <= 0:
            wanted = "no gap is below 0; give a number above it, such as gap=1e-5"
            raise DataError("target", f"--target: got {text!r}; {wanted}")
        return target

    @classmethod
    def usual(cls, summary: pd.DataFrame) -> "Target":
        """Return what runs were to stop at: a gap, else an objective, else a measure.

        Of several bounds it is the one that is reached first. If one of the runs was to stop at
        no such thing, it is the end of the run.

        Args:
            summary: as `Result.summary` gives it.
        """
        named = {str(name) for name in summary if str(name).startswith(_TARGETS)}
        asked = {"target": "gap", **{name: name.removeprefix(_TARGETS) for name in sorted(named)}}
        first = sorted(asked, key=lambda name: (asked[name] != "gap", asked[name] != "objective"))
        for name in first:
            bounds = summary[name].to_numpy(np.float64)
            if len(bounds) and np.isfinite(bounds).all():
                loosest = bounds.min() if higher_is_better(asked[name]) else bounds.max()
                return cls(asked[name], float(loosest))
        return cls()

    def __str__(self) -> str:
        return f"{self.measure}={self.value:.12g}" if self.measure else _WHOLE

    @property
    def words(self) -> str:
        """What the costs are the costs of."""
        return f"cost to {self.goal}" if self.measure else "cost of the whole run"

    @property
    def goal(self) -> str:
        """What is to be reached, as a sentence has it; empty for the end of the run."""
        if not self.measure:
            return ""
        if self.measure == "gap":
            return f"a gap below {self.value:g}"
        side = "at least" if higher_is_better(self.measure) else "at most"
        return f"{self.measure} of {side} {self.value:g}"

    def costs(self, runs: Tables) -> pd.DataFrame:
        """Return what each run had spent when it got there, as `cost_to_target` gives it.

        A run that failed, or that no client was left for, has not cost what the whole run would.

        Raises:
            DataError: no run has evaluated the measure.
        """
        summary = runs.summary
        if not self.measure:
            complete = summary["status"].map(lambda status: end_of(status).complete)
            done = summary.loc[complete, ["variant", "seed"]]
            return final_cost(runs.rounds.merge(done), runs=summary)
        self._check(runs.rounds)
        return cost_to_target(runs.rounds, self.value, self.measure, runs=summary)

    def _check(self, rounds: pd.DataFrame) -> None:
        numbers = [str(name) for name in rounds if is_numeric_dtype(rounds[name])]
        known = [
            name for name in numbers if name not in _NO_MEASURES and rounds[name].notna().any()
        ]
        if self.measure not in known:
            near = nearest(self.measure, known)
            there = f"there are {', '.join(known)}" if known else "none has ended a round"
            raise DataError(
                "target", f"--target: no run has evaluated {self.measure!r}{near}; {there}"
            )
