"""What the doubt about constants leaves of a comparison, as `fedsim robust` has written it."""

from collections.abc import Iterator, Sequence

import numpy as np
import pandas as pd

from fedsim.analysis.comparing.dominance import seed_costs
from fedsim.analysis.comparing.gathering import Runs
from fedsim.analysis.comparing.pairwise import log_ratios, typical
from fedsim.errors import DataError

FOLDER, VERDICTS, DECIDING = "robustness", "verdicts.csv", "deciding.csv"
"""Where it writes, in the folder of the study; its tables of verdicts, and of what decides."""

SURE = 0.9
"""A verdict that holds in so many worlds, or in none but so few, is no matter of constants."""

CLOSE = 1.1
"""Costs whose ratio is below this may be told apart by constants alone, if nobody has looked."""

_MOST = 3  # pairs that are told one by one

LESS = {"t": "less time", "joules": "fewer joules"}
"""What a variant takes that costs less."""

WORDS = {"t": "time", "joules": "energy"}
"""What a cost is a cost in."""


def undecided(share: float) -> bool:
    """Return whether constants decide a verdict that holds in this share of the worlds."""
    return 1 - SURE < share < SURE


def read_doubts(runs: Runs, target: str, table: str = VERDICTS) -> pd.DataFrame | None:
    """Return a table of `fedsim robust` on runs; None where it has not been asked, or of others.

    Args:
        runs: of one study.
        target: as `str(Target)` writes it.
        table: which of its tables.

    Raises:
        DataError: the file is none of its own.
    """
    places = {folder.parent.parent for folder in runs.folders}
    path = next(iter(places)) / FOLDER / table
    if len(places) > 1 or not path.is_file():
        return None
    try:
        found = pd.read_csv(path, dtype={"variant": str, "against": str})
        own = found[found["target"] == target]
    except (ValueError, KeyError, UnicodeDecodeError) as error:
        text = f"{path} is no table of fedsim robust; give that command again"
        raise DataError("compare", text) from error
    known = set(map(str, runs.labels))
    return own if len(own) and set(own["variant"]) <= known else None


def fragile(runs: Runs, target: str, costs: pd.DataFrame) -> Iterator[str]:
    """Yield which differences in time or energy are fragile, a sentence each cost.

    Args:
        runs: that are compared.
        target: as `str(Target)` writes it.
        costs: a row a run, as `cost_to_target` gives it.
    """
    known = read_doubts(runs, target)
    for cost, words in LESS.items():
        if known is not None:
            told = list(_unsure(runs, known[known["cost"] == cost], words))
            yield from told[:_MOST]
            if len(told) > _MOST:
                yield f"{len(told) - _MOST} more pairs of which that is so: see fedsim robust"
        elif pairs := _close(costs, cost):
            named = _listed([f"{runs.labels[a]} and {runs.labels[b]}" for a, b in pairs])
            text = f"{target}: which takes {words} of {named} may depend on uncertain parameters"
            yield f"{text}, as they are within 10 %: see fedsim robust"


def _unsure(runs: Runs, rows: pd.DataFrame, words: str) -> Iterator[str]:
    for row in rows.to_dict("records"):
        if undecided(row["typical"]) and row["typical"] >= 0.5:
            one, other = runs.labels[row["variant"]], runs.labels[row["against"]]
            share = f"{100 * row['typical']:.0f} % of {row['worlds']:,.0f} worlds"
            yield f"{one} takes {words} than {other} in {share} alone: see fedsim robust"


def _close(costs: pd.DataFrame, cost: str) -> list[tuple[str, str]]:
    """Return the pairs of variants whose typical ratio is near 1, though they differ."""
    names = [str(name) for name in costs["variant"].unique()]
    (own,) = seed_costs(costs, names, [cost])
    logs = log_ratios(own[:, None], own)
    ratios, same = typical(logs), ~(np.abs(logs) > 0).any(axis=-1)
    with np.errstate(divide="ignore"):
        near = ~same & (np.abs(np.log(ratios)) < np.log(CLOSE))
    return [(names[one], names[other]) for one, other in np.argwhere(np.triu(near, 1))]


def _listed(names: Sequence[str]) -> str:
    more = [f"{len(names) - _MOST} more pairs"] if len(names) > _MOST else []
    return "; ".join([*names[:_MOST], *more])
