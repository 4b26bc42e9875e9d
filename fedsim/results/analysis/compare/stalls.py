"""Runs that stopped making progress short of their target, which further seeds do not change.

A run is stalled if the second half of its rounds brought its best value less than a tenth of what
the target still takes: at this pace it would need more than ten times as many rounds.
"""

from collections.abc import Iterator, Mapping
from typing import NamedTuple

import numpy as np
import pandas as pd

from fedsim.core.table_columns import higher_is_better
from fedsim.core.text import format_number
from fedsim.results.analysis.compare.cost_tables import Target
from fedsim.results.best import feasible_figure

_PROGRESS = 0.1
"""Share of the distance to the target; with less in half of a run, the run is stalled."""

_EVALUATIONS = 5
"""Fewest evaluations in the second half of a run that show how it goes on."""


class Stall(NamedTuple):
    """How a run ended that made no progress.

    Attributes:
        seed: of the run.
        last: its last value of the target's measure.
        rounds: number of last rounds without progress.
        progress: of the best value in these; 0, or little beside the distance to the target.
    """

    seed: int
    last: float
    rounds: int
    progress: float


def stalls(rounds: pd.DataFrame, missed: pd.DataFrame, target: Target) -> Iterator[Stall]:
    """Yield the runs of a variant that are stalled short of a target.

    Args:
        rounds: the round tables of the variant.
        missed: one row per run that did not reach the target, with its seed.
        target: what was to be reached.
    """
    if target.measure not in rounds:
        return
    sign = 1.0 if higher_is_better(target.measure) else -1.0
    for seed in missed["seed"]:
        own = rounds[rounds["seed"] == seed]
        values = sign * feasible_figure(own, target.measure).to_numpy(np.float64)
        known = np.isfinite(values)
        values, numbers = values[known], own["round"].to_numpy()[known]
        if len(values) < 2 * _EVALUATIONS:
            continue
        best = np.maximum.accumulate(values)
        distance = sign * target.value - best[-1]
        middle = len(best) // 2
        progress = float(best[-1] - best[middle])
        if progress >= _PROGRESS * distance:
            continue
        first = numbers[int(np.argmax(values))] if progress == 0 else numbers[middle]
        yield Stall(int(seed), float(sign * values[-1]), int(numbers[-1] - first), progress)


def stalled_clause(
    rounds: pd.DataFrame | None,
    costs: pd.DataFrame,
    target: Target,
    names: Mapping[str, str],
) -> str:
    """Return which runs of some variants further seeds would not help; empty if there are none.

    Args:
        rounds: the round tables; None if they are not known.
        costs: one row per run, as `Target.costs` returns it.
        target: what was to be reached.
        names: what to call each of the variants.
    """
    if rounds is None or not target.measure:
        return ""
    parts = []
    for variant, name in names.items():
        own = costs[(costs["variant"] == variant) & ~costs["reached"]]
        found = list(stalls(rounds[rounds["variant"] == variant], own, target))
        if found:
            parts.append(f"{name} ended {_describe(found)}")
    if not parts:
        return ""
    return f"more seeds will not change that {' and '.join(parts)}: lower the target or run longer"


def _describe(found: list[Stall]) -> str:
    """Return where stalled runs of one variant ended, and for how long they made no progress."""
    low, high = (format_number(end([each.last for each in found]), ".3g") for end in (min, max))
    at = f"at {low}" if low == high else f"at {low} to {high}"
    seeds = ", ".join(str(each.seed) for each in found)
    named = f"seed{'s' * (len(found) > 1)} {seeds}"
    most, least = max(each.progress for each in found), min(each.rounds for each in found)
    progress = f"progress of at most {format_number(most, '.2g')}" if most else "no progress"
    return f"{at} ({named}) with {progress} in the last {least} rounds"
