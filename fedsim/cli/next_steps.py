"""Suggestions of the next one or two commands."""

import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from fedsim.results.record.summary import end_of

if TYPE_CHECKING:
    from fedsim.results.analysis import Comparison
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

    target = Target.usual(result)
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
    from fedsim.results.analysis.compare.cost_tables import reached_by_all

    case = comparison.cases[0]
    labels = comparison.runs.labels
    costs = case.costs[case.costs["variant"].isin(list(labels))]
    arrived = costs.loc[costs["reached"], "variant"].nunique()
    report = () if reported else (command("report", place),)
    if arrived < len(labels) and case.target.measure:
        bound = reached_by_all(comparison.runs.rounds, case.target.measure, list(labels))
        if bound is not None:
            target = f"{case.target.measure}={bound:g}"
            return command("compare", place, "--target", target), *report
    if arrived > 1:
        return *report, command("robust", place)
    return *report, command("trace", place)
