"""Scores of entries: performance profiles over tasks and fleets, with probabilities of ranks.

A cell is a task on a fleet. An entry's cost of a cell is the median over its studies; a miss is
infinite. Its profile is the share of cells in which it costs at most tau times the cheapest entry
(Dolan and More, "Benchmarking optimization software with performance profiles", Math. Program.
2002). The score is the mean of the profile over tau from 1 to `REACH`.
"""

from collections.abc import Mapping, Sequence
from math import inf
from typing import Any

import numpy as np
import pandas as pd

from fedsim.addons.bench.rules import HOME, Rules
from fedsim.addons.bench.running import CLOCKS, read_summary
from fedsim.core.errors import DataError
from fedsim.core.ports import Array

REACH = 4.0
"""The largest ratio to the cheapest entry that still counts."""

DRAWS = 2000
"""Draws of the bootstrap over studies."""

SURE = 0.95
"""An entry is ranked behind those that score more in this share of the draws."""


def season(group: str = "smooth") -> list[dict[str, Any]]:
    """Return the sealed summaries of the first season's entries of a group."""
    every = [read_summary(path) for path in sorted((HOME / "season").glob("*.json"))]
    return [each for each in every if each["entry"].get("group", "smooth") == group]


def score(summaries: Sequence[Mapping[str, Any]], rules: Rules | None = None) -> pd.DataFrame:
    """Rank entries on each clock.

    Args:
        summaries: the sealed summaries of the entries.
        rules: of their season; those of the first one if None.

    Returns:
        One row per clock and entry, the best score of a clock first: clock, entry, score (from 0
        to 1), low and high (the score plus the 5 % and 95 % quantiles of its deviation from the
        mean, over draws of studies), first (the probability of the highest score, over these draws;
        entries that tie both have it), rank (1 plus the number of entries that surely score more),
        missed (the share of cells without the target).

    Raises:
        DataError: there is no summary, two have the same name, or one is of other rules.
    """
    rules = rules or Rules.first()
    entries = _entries(summaries, rules)
    rows: list[dict[str, Any]] = []
    for clock in CLOCKS:
        table = np.stack([_costs(each, clock, rules) for each in summaries])
        medians = np.median(table, axis=1)
        own = scores(medians)
        drawn = _drawn_scores(table, rules.seed)
        best = drawn >= drawn.max(axis=1, keepdims=True)
        beaten = (drawn[:, :, None] > drawn[:, None, :]).mean(axis=0) >= SURE
        spread = np.quantile(drawn - drawn.mean(axis=0), [0.05, 0.95], axis=0)
        low, high = np.clip(own + spread, 0, 1)  # a draw has more noise, and so a lower mean
        missed = np.isinf(medians).mean(axis=(1, 2))
        rows += [
            {
                "clock": clock,
                "entry": entries[index],
                "score": float(own[index]),
                "low": float(low[index]),
                "high": float(high[index]),
                "first": float(best[:, index].mean()),
                "rank": 1 + int(beaten[:, index].sum()),
                "missed": float(missed[index]),
            }
            for index in np.argsort(-own, kind="stable")
        ]
    return pd.DataFrame(rows)


def cost_table(
    summaries: Sequence[Mapping[str, Any]], clock: str, rules: Rules | None = None
) -> Array:
    """Return the cost of each entry, task and fleet: the median over studies, inf for a miss.

    Args:
        summaries: the sealed summaries of the entries.
        clock: one of `CLOCKS`.
        rules: of their season; those of the first one if None.

    Returns:
        Costs, shape (entries, tasks, fleets), in the order of the summaries and the rules.
    """
    rules = rules or Rules.first()
    _entries(summaries, rules)
    return np.stack([np.median(_costs(each, clock, rules), axis=0) for each in summaries])


def scores(costs: Array) -> Array:
    """Return the score of each entry, from 0 to 1.

    The profile's mean over tau is, cell by cell, the share of [1, `REACH`] that lies above the
    entry's ratio to the cheapest.

    Args:
        costs: of shape (entries, tasks, fleets), or with further axes in front; inf for a miss.

    >>> scores(np.array([[[1.0, 4.0]], [[2.0, 2.0]]])).round(4).tolist()
    [0.8333, 0.8333]
    """
    least = costs.min(axis=-3, keepdims=True)
    reached = np.isfinite(costs)
    ratio = np.divide(costs, least, out=np.full(costs.shape, REACH), where=reached)
    share: Array = np.clip((REACH - ratio) / (REACH - 1), 0, 1).mean(axis=(-2, -1))
    return share


def _entries(summaries: Sequence[Mapping[str, Any]], rules: Rules) -> list[str]:
    """Return the names of the entries, after a check that they can be compared."""
    if not summaries:
        raise DataError("summary", "got no summary; expected those that `fedsim bench run` wrote")
    entries = [str(each["entry"]["name"]) for each in summaries]
    for name in entries:
        if entries.count(name) > 1:
            raise DataError(
                "summary", f"got {entries.count(name)} summaries of {name}; expected one"
            )
    for each, name in zip(summaries, entries, strict=True):
        if other := [
            key for key, value in rules.hashes().items() if each["rules"].get(key) != value
        ]:
            text = f"{name} was run with other {other[0]}; run it again: fedsim bench run"
            raise DataError("summary", text)
    return entries


def _costs(summary: Mapping[str, Any], clock: str, rules: Rules) -> Array:
    """Return the costs of an entry, shape (studies, tasks, fleets); inf for a miss."""
    table = np.full((rules.studies, len(rules.tasks), len(rules.fleets)), inf)
    for place, task in enumerate(rules.tasks):
        for row in summary["rows"][task]:
            if row["fleet"] in rules.fleets and row["reached"]:
                table[row["study"], place, rules.fleets.index(row["fleet"])] = row[clock]
    return table


def _drawn_scores(table: Array, seed: int) -> Array:
    """Return scores for studies drawn with replacement, shape (draws, entries).

    All fleets of a task share its training, and so the draw.
    """
    entries, studies, tasks, _ = table.shape
    rng = np.random.default_rng(seed)
    drawn = np.empty((DRAWS, entries))
    for draw in range(DRAWS):
        picked = rng.integers(studies, size=(entries, studies, tasks, 1))
        drawn[draw] = scores(np.median(np.take_along_axis(table, picked, axis=1), axis=1))
    return drawn
