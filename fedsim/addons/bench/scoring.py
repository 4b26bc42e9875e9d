"""Scores of entries: performance profiles over tasks and fleets, with probabilities of ranks.

A cell is a task on a fleet. An entry's cost of a cell is the median over its studies; a miss is
infinite. Its profile is the share of cells in which it costs at most tau times the cheapest entry
(Dolan and More, "Benchmarking optimization software with performance profiles", Math. Program.
2002). The score is the mean of the profile over tau from 1 to `REACH`.
"""

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from math import inf, nan
from typing import Any

import numpy as np
import pandas as pd

from fedsim.addons.bench.rules import HOME, SMOOTH, Rules, group_in
from fedsim.addons.bench.running import CLOCKS, best_trial, read_summary
from fedsim.addons.bench.worlds import DRAWN, constants_on
from fedsim.core.errors import DataError
from fedsim.core.ports import Array

REACH = 4.0
"""The largest ratio to the cheapest entry that still counts."""

DRAWS = 2000
"""Draws of studies, and of worlds."""

_AT_ONCE = 100
"""Draws that are scored together: their costs fit into memory."""

SURE = 0.95
"""An entry is ranked behind those that score more in this share of the draws."""


def season(group: str = SMOOTH) -> list[dict[str, Any]]:
    """Return the sealed summaries of the first season's entries of a group."""
    every = [read_summary(path) for path in sorted((HOME / "season").glob("*.json"))]
    return [each for each in every if group_in(each["entry"]) == group]


def score(summaries: Sequence[Mapping[str, Any]], rules: Rules | None = None) -> pd.DataFrame:
    """Rank entries on each clock.

    Args:
        summaries: the sealed summaries of the entries.
        rules: of their season; those of the first one if None.

    Returns:
        One row per clock and entry, the best score of a clock first: clock, entry, score (from 0
        to 1), low and high (the score plus the 5 % and 95 % quantiles of its deviation from the
        mean, over draws of studies and worlds), first (the probability of the highest score, over
        these draws; entries that tie both have it), rank (1 plus the number of entries that surely
        score more), missed (the share of cells without the target), tuning (the cost of a study's
        trials that reached the target over that of the best of them, the median over tasks and
        studies; NaN without trials).

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
        drawn = _drawn_scores(table, rules.seed, _in_worlds(summaries, clock, rules, table))
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
                "tuning": _tuning(summaries[index], clock, rules),
            }
            for index in np.argsort(-own, kind="stable")
        ]
    return pd.DataFrame(rows)


def orders(summaries: Sequence[Mapping[str, Any]], rules: Rules | None = None) -> pd.DataFrame:
    """Return with what probability one entry is ahead of another, and what reverses it.

    The pairs are neighbours in the ranking over all fleets, and the two first ones on each fleet.

    Args:
        summaries: the sealed summaries of the entries.
        rules: of their season; those of the first one if None.

    Returns:
        One row per clock and pair with different scores: clock, fleet (empty for all of them),
        entry, behind, holds (the share of draws of studies and worlds in which the first one scores
        more, and half of those in which both score the same), worlds (whether uncertain constants
        vary in them, on some fleet), reversed (the constants that reverse the order if they are at
        one end of their interval, and all others are as written).
    """
    rules = rules or Rules.first()
    entries = _entries(summaries, rules)
    rows: list[dict[str, Any]] = []
    for clock in CLOCKS:
        table = np.stack([_costs(each, clock, rules) for each in summaries])
        worlds = _in_worlds(summaries, clock, rules, table)
        every = range(len(rules.fleets))
        for fleet, places in [("", [*every]), *((rules.fleets[each], [each]) for each in every)]:
            own = {places.index(place): worlds[place] for place in places if place in worlds}
            part = table[..., places]
            written = scores(np.median(part, axis=1))
            drawn = _drawn_scores(part, rules.seed, own)
            ends = [*_ends(part, own, [rules.fleets[place] for place in places])]
            order = np.argsort(-written, kind="stable")[: 2 if fleet else None]
            for one, other in pairwise(order):
                if written[one] > written[other]:
                    ahead = drawn[:, one] - drawn[:, other]
                    rows.append(
                        {
                            "clock": clock,
                            "fleet": fleet,
                            "entry": entries[one],
                            "behind": entries[other],
                            "holds": float(((ahead > 0) + (ahead == 0) / 2).mean()),
                            "worlds": bool(own),
                            "reversed": [name for name, end in ends if end[one] < end[other]],
                        }
                    )
    columns = ["clock", "fleet", "entry", "behind", "holds", "worlds", "reversed"]
    return pd.DataFrame(rows, columns=columns)  # without a pair, there are no rows


def sentences(found: pd.DataFrame) -> list[str]:
    """Return a sentence for each order that a constant reverses.

    Args:
        found: see `orders`.
    """
    return [
        f"By {row['clock'].replace('_', ' ')}{' on ' + row['fleet'] if row['fleet'] else ''},"
        f" {row['entry']} is ahead of {row['behind']} with a probability of {row['holds']:.0%};"
        f" reversed with {' or '.join(row['reversed'])}."
        for row in found.to_dict("records")
        if row["reversed"]
    ]


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
        for row in summary["rows"].get(task, []):
            if row["fleet"] in rules.fleets and row["reached"]:
                table[row["study"], place, rules.fleets.index(row["fleet"])] = row[clock]
    return table


def _in_worlds(
    summaries: Sequence[Mapping[str, Any]], clock: str, rules: Rules, table: Array
) -> dict[int, Array]:
    """Return costs in worlds by the place of a fleet, shape (entries, studies, tasks, worlds).

    A fleet is left out unless all entries have costs in its worlds.
    """
    found = {}
    for place, fleet in enumerate(rules.fleets):
        count = DRAWN + 2 * len(constants_on(fleet))
        costs = np.repeat(table[..., place, None], count, axis=-1)
        known = [
            (entry, row["study"], number, row.get("worlds", {}).get(clock, []))
            for entry, each in enumerate(summaries)
            for number, task in enumerate(rules.tasks)
            for row in each["rows"].get(task, [])
            if row["fleet"] == fleet and row["reached"]
        ]
        if known and all(len(own) == count for *_, own in known):
            for *cell, own in known:
                costs[tuple(cell)] = own
            found[place] = costs
    return found


def _ends(
    table: Array, worlds: Mapping[int, Array], fleets: Sequence[str]
) -> Iterator[tuple[str, Array]]:
    """Yield each end of each constant, with the scores there."""
    constants = {place: constants_on(fleets[place]) for place in worlds}
    for name in dict.fromkeys(name for own in constants.values() for name in own):
        for end, word in enumerate(("low", "high")):
            changed = table.copy()
            for place, own in constants.items():
                if name in own:
                    changed[..., place] = worlds[place][..., DRAWN + 2 * own.index(name) + end]
            yield f"{name} at its {word} end", scores(np.median(changed, axis=1))


def _tuning(summary: Mapping[str, Any], clock: str, rules: Rules) -> float:
    """Return what a study's trials cost together, over the cost of the best of them."""
    found = []
    for task in rules.tasks:
        rows = [row for row in summary["rows"].get(task, []) if not row["fleet"] and row["reached"]]
        for study in range(rules.studies):
            own = [row for row in rows if row["study"] == study]
            if own:
                best = next(row for row in own if row["trial"] == best_trial(own))
                found.append(sum(row[clock] for row in own) / best[clock])
    return float(np.median(found)) if found else nan


def _drawn_scores(table: Array, seed: int, worlds: Mapping[int, Array]) -> Array:
    """Return scores for studies and worlds drawn with replacement, shape (draws, entries).

    All fleets of a task share its training, and so the draw. All entries on a fleet share its
    world.
    """
    entries, studies, tasks, fleets = table.shape
    rng = np.random.default_rng(seed)
    worlds_drawn = np.random.default_rng([seed, 1]).integers(DRAWN, size=(DRAWS, fleets))
    parts = []
    for first in range(0, DRAWS, _AT_ONCE):
        size = min(_AT_ONCE, DRAWS - first)
        picked = rng.integers(studies, size=(size, entries, studies, tasks, 1))
        own = np.broadcast_to(table, (size, *table.shape)).copy()
        for place, costs in worlds.items():
            chosen = costs[..., worlds_drawn[first : first + size, place]]
            own[..., place] = np.moveaxis(chosen, -1, 0)
        parts.append(scores(np.median(np.take_along_axis(own, picked, axis=2), axis=2)))
    return np.concatenate(parts)
