"""Suggestions of the next one or two commands."""

import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from fedsim.core.table_columns import higher_is_better
from fedsim.results.record.summary import end_of

if TYPE_CHECKING:
    import pandas as pd

    from fedsim.results.analysis import Comparison, Target
    from fedsim.results.result import Result

Steps = tuple[str, ...]


def command(name: str, *words: object) -> str:
    """Return a command line of fedsim, quoted for a shell.

    >>> command("report", "runs/my study")
    "fedsim report 'runs/my study'"
    """
    return shlex.join(["fedsim", name, *map(str, words)])


@dataclass(frozen=True)
class TypedRun:
    """The arguments of a `fedsim run` or `fedsim check`.

    Attributes:
        file: the scenario.
        overrides: the values of `--set`.
        plugins: the values of `--plugin`.
        out: the value of `--out`; None if it was omitted.
    """

    file: Path
    overrides: Sequence[str] = ()
    plugins: Sequence[Path] = ()
    out: Path | None = None

    def again(self, *changes: str, name: str = "run") -> str:
        """Return the command with further overrides, which replace overrides of the same keys."""
        keys = {text.partition("=")[0] for text in changes}
        unchanged = [text for text in self.overrides if text.partition("=")[0] not in keys]
        sets = [word for text in (*unchanged, *changes) for word in ("--set", text)]
        plugins = [word for path in self.plugins for word in ("--plugin", path)]
        out = [] if self.out is None or name != "run" else ["--out", self.out]
        return command(name, self.file, *sets, *plugins, *out)


def after_run(result: "Result", typed: TypedRun) -> Steps:
    """Return the next commands after the runs of a scenario.

    After divergence it is a run with a smaller step size; after runs that missed their target at
    the limit of rounds, one with more rounds; else a comparison of variants, or a report on one.
    """
    summary, folder = result.summary, result.folder
    if summary.empty:
        return ()
    complete = summary["status"].map(lambda status: end_of(status).complete)
    if not complete.any():
        # The reason of a diverged run states 1/L only if its method has a step size relative to it.
        if summary["reason"].str.contains("1/L = ", regex=False).all():
            return (typed.again("algorithm.step_size=1/L"),)
        return (typed.again(name="check"),)
    from fedsim.results.analysis import Target

    target = Target.usual(summary)
    limited = summary.loc[complete, "reason"].str.startswith("rounds: ").all()
    if target.measure and limited and not target.costs(result)["reached"].any():
        more = 2 * int(summary["rounds"].max())
        return typed.again(f"stop.rounds={more}"), command("report", folder)
    if len(result.shown.labels) == 1:
        return command("report", folder), command("trace", folder)
    return command("compare", folder), command("report", folder)


def after_comparison(comparison: "Comparison", place: Path, *, reported: bool = False) -> Steps:
    """Return the next commands after a comparison.

    Args:
        comparison: the comparison of the runs.
        place: the folder of the runs.
        reported: whether the report is written already.
    """
    case = comparison.cases[0]
    labels = comparison.runs.labels
    costs = case.costs[case.costs["variant"].isin(list(labels))]
    arrived = costs.loc[costs["reached"], "variant"].nunique()
    report = () if reported else (command("report", place),)
    if arrived < len(labels) and case.target.measure:
        bound = reached_by_all(comparison.runs.rounds, case.target, list(labels))
        if bound is not None:
            target = f"{case.target.measure}={bound:g}"
            return command("compare", place, "--target", target), *report
    if arrived > 1:
        return *report, command("robust", place)
    return *report, command("trace", place)


def reached_by_all(
    rounds: "pd.DataFrame", target: "Target", variants: Sequence[str]
) -> float | None:
    """Return the strictest two-digit value of a target's measure that all runs have reached.

    None if a run never evaluated the measure, or if every initial model meets the value already.
    """
    from fedsim.results.best import feasible_figure

    measure, higher = target.measure, higher_is_better(target.measure)
    selected = rounds[rounds["variant"].isin(list(variants))]
    runs = [selected["variant"], selected["seed"]]
    by_run = feasible_figure(selected, measure).groupby(runs, observed=True)
    best = (by_run.max() if higher else by_run.min()).to_numpy(np.float64)
    if not len(best) or not np.isfinite(best).all():
        return None
    worst = float(best.min() if higher else best.max())
    if worst == 0:
        return None
    exact = Decimal(worst)  # binary floats would lose a digit: 1.9 / 0.1 is not 19
    unit = Decimal(1).scaleb(exact.adjusted() - 1)
    bound = exact.quantize(unit, ROUND_FLOOR if higher else ROUND_CEILING)
    # A gap has to be below its target, so a worst gap with two exact digits needs the next value.
    if not higher and float(bound) <= worst:
        bound += unit
    starts = selected.loc[selected["round"] == 0, measure]
    free = starts >= float(bound) if higher else starts <= float(bound)
    if len(starts) and free.all():
        return None  # a target that costs nothing
    return float(bound)
