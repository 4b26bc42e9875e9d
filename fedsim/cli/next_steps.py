"""The one or two commands that make sense after another one, as they would be typed."""

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
    """Return a command of fedsim as it is typed.

    >>> command("report", "runs/my study")
    "fedsim report 'runs/my study'"
    """
    return shlex.join(["fedsim", name, *map(str, words)])


@dataclass(frozen=True)
class TypedRun:
    """What was typed after `fedsim run` or `fedsim check`.

    Attributes:
        file: the scenario.
        overrides: those of `--set`.
        plugins: those of `--plugin`.
        out: that of `--out`; None where it was not given.
    """

    file: Path
    overrides: Sequence[str] = ()
    plugins: Sequence[Path] = ()
    out: Path | None = None

    def again(self, *changes: str, name: str = "run") -> str:
        """Return the command, with further overrides in place of those of the same keys."""
        keys = {each.partition("=")[0] for each in changes}
        kept = [each for each in self.overrides if each.partition("=")[0] not in keys]
        sets = [word for each in (*kept, *changes) for word in ("--set", each)]
        plugins = [word for each in self.plugins for word in ("--plugin", each)]
        out = [] if self.out is None or name != "run" else ["--out", self.out]
        return command(name, self.file, *sets, *plugins, *out)


def after_run(result: "Result", typed: TypedRun) -> Steps:
    """Return what makes sense once the runs of a scenario have ended.

    Runs that diverged ask for a smaller step, runs that ended before they reached their target for
    more rounds; of results, several variants are compared, and one is looked at.
    """
    summary, folder = result.summary, result.folder
    if summary.empty:
        return ()
    complete = summary["status"].map(lambda status: end_of(status).complete)
    if not complete.any():
        # The reason of a run that diverged states 1/L, where its method has a step by it.
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
    """Return what makes sense once costs to the first target are known.

    Args:
        comparison: of the runs.
        place: where they are.
        reported: whether the page on them is written already.
    """
    case = comparison.cases[0]
    labels = comparison.runs.labels
    own = case.costs[case.costs["variant"].isin(list(labels))]
    arrived = own.loc[own["reached"], "variant"].nunique()
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
    """Return the strictest value of a target's measure that all runs have reached, in two digits.

    None where some run has never evaluated it, or all starts have reached it at no cost.
    """
    from fedsim.results.analysis.costs import feasible_figure

    measure, higher = target.measure, higher_is_better(target.measure)
    own = rounds[rounds["variant"].isin(list(variants))]
    runs = [own["variant"], own["seed"]]
    by_run = feasible_figure(own, measure).groupby(runs, observed=True)
    best = (by_run.max() if higher else by_run.min()).to_numpy(np.float64)
    if not len(best) or not np.isfinite(best).all():
        return None
    worst = float(best.min() if higher else best.max())
    if worst == 0:
        return None
    exact = Decimal(worst)  # in binary 1.9 / 0.1 is not 19, and a digit would be lost
    unit = Decimal(1).scaleb(exact.adjusted() - 1)
    bound = exact.quantize(unit, ROUND_FLOOR if higher else ROUND_CEILING)
    # A gap has to be below its target; so a value that is one already in two digits goes up.
    if not higher and float(bound) <= worst:
        bound += unit
    starts = own.loc[own["round"] == 0, measure]
    free = starts >= float(bound) if higher else starts <= float(bound)
    if len(starts) and free.all():
        return None  # a target that costs nothing
    return float(bound)
