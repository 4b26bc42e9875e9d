"""What a reader has to know before believing a comparison."""

from collections.abc import Iterable, Iterator, Mapping

import pandas as pd

from fedsim.analysis.carbon import with_grams
from fedsim.analysis.comparing.doubts import fragile, unusable
from fedsim.analysis.comparing.gathering import Runs
from fedsim.analysis.comparing.pairs import COMPARED
from fedsim.analysis.comparing.targets import heading
from fedsim.record.ends import Ending, end_of

_MOST = 5  # failures that are told one by one, and names in a sentence
_ROUNDING = 1e-12  # relative; sums in another order differ by less


def caveats(runs: Runs, costs: Mapping[str, pd.DataFrame]) -> list[str]:
    """Return what limits a comparison, a sentence each.

    Args:
        runs: that are compared.
        costs: target -> a row a run, as `cost_to_target` gives it.
    """
    parts = [[f"left out: {text}" for text in runs.left_out]]
    parts += [list(failures(runs)), list(_risen(runs)), list(_problems(runs))]
    parts.append(list(unusable(runs)))
    for target, table in costs.items():
        parts += [list(_repeats(runs, target, table)), list(_survivors(runs, target, table))]
        parts.append(list(fragile(runs, target, table)))
    return [text for part in parts for text in part]


def failures(runs: Runs) -> Iterator[str]:
    """Yield how the runs ended that no stop rule has ended."""
    failed = runs.summary[~runs.summary["status"].map(lambda status: end_of(status).complete)]
    for row in failed.head(_MOST).to_dict("records"):
        name = f"{runs.labels[row['variant']]}, seed {row['seed']}"
        yield f"{name}: {Ending(row['status'], row['reason'])}"
    if len(failed) > _MOST:
        yield f"{len(failed) - _MOST} more runs did not end by a stop rule"
    if runs.rounds.empty and failed.empty:
        yield "no run has got as far as the end of its first round: let them run for longer"


def _risen(runs: Runs) -> Iterator[str]:
    """Tell which runs have ended above where they began."""
    for row in runs.summary.to_dict("records"):
        notes = row["notes"] if isinstance(row.get("notes"), list) else ()
        for text in notes:
            key, _, said = text.partition(": ")
            if key == "objective":
                yield f"{runs.labels[row['variant']]}, seed {row['seed']}: the objective: {said}"


def _problems(runs: Runs) -> Iterator[str]:
    """Tell where runs of one seed have solved different problems."""
    kinds = runs.summary.drop_duplicates(["seed", "problem"])["seed"]
    several = kinds[kinds.duplicated()]
    if len(several):
        first = runs.summary[runs.summary["seed"] == several.iloc[0]]
        groups = [_listed(runs, own["variant"]) for _, own in first.groupby("problem", sort=False)]
        yield (
            f"not all variants solve the same problem ({'; '.join(groups)}): their targets and "
            "costs answer different questions"
        )


def _repeats(runs: Runs, target: str, costs: pd.DataFrame) -> Iterator[str]:
    """Yield which variants cost the same under every seed, so that a mean has no interval."""
    columns = [cost for cost in with_grams(COMPARED, costs) if cost in costs]
    arrived = costs[costs["reached"]].groupby("variant", sort=False)
    figures = arrived[columns]
    alike = figures.max() - figures.min() <= _ROUNDING * figures.max()
    same = alike.all(axis=1) & (arrived.size() > 1)
    if same.any():
        names = _listed(runs, same.index[same])
        use = "so that the intervals of their means say nothing"
        yield f"{heading(target)}: seeds make no difference to the costs of {names}, {use}"


def _survivors(runs: Runs, target: str, costs: pd.DataFrame) -> Iterator[str]:
    """Tell of which variants only some runs got there: their means leave out the worst ones."""
    shares = costs.groupby("variant", sort=False)["reached"].mean()
    some = shares[(shares > 0) & (shares < 1)]
    if len(some):
        names = _listed(runs, some.index)
        yield (
            f"{heading(target)}: not all runs of {names} reached it: the means are of those that"
            " did; a run that did not counts as costlier than any that did"
        )


def _listed(runs: Runs, variants: Iterable[object]) -> str:
    labels = [runs.labels[str(name)] for name in variants]
    more = [f"{len(labels) - _MOST} more"] if len(labels) > _MOST else []
    return ", ".join([*labels[:_MOST], *more])
