"""Tables of a season, in Markdown, for the page of the bench."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from fedsim.addons.bench.rules import Rules
from fedsim.addons.bench.running import CLOCKS
from fedsim.addons.bench.scoring import cost_table, score, scores

_HEADS = {"bits_up": "bits up", "seconds": "seconds", "joules": "joules"}


def markdown(summaries: Sequence[Mapping[str, Any]], rules: Rules | None = None) -> str:
    """Return the scores by clock, and the two best entries of each fleet.

    Args:
        summaries: the sealed summaries of the entries.
        rules: of their season; those of the first one if None.
    """
    rules = rules or Rules.first()
    return "\n".join([*_ranks(summaries, rules), "", *_by_fleet(summaries, rules)])


def _ranks(summaries: Sequence[Mapping[str, Any]], rules: Rules) -> Iterator[str]:
    """Yield a line per entry with its rank, score and interval by each clock."""
    ranked = score(summaries, rules)
    yield f"| entry | {' | '.join(_HEADS.values())} | missed |"
    yield f"|---|{'---|' * len(CLOCKS)}---|"
    for entry, rows in ranked.groupby("entry", sort=False):
        own = rows.set_index("clock")
        cells = [_cell(own.loc[clock].to_dict()) for clock in CLOCKS]
        yield f"| {entry} | {' | '.join(cells)} | {own['missed'].iloc[0]:.0%} |"


def _cell(row: Mapping[str, Any]) -> str:
    interval = f"{row['low']:.2f} to {row['high']:.2f}"
    return f"{row['rank']}: {row['score']:.2f} ({interval}), {row['first']:.0%}"


def _by_fleet(summaries: Sequence[Mapping[str, Any]], rules: Rules) -> Iterator[str]:
    """Yield, for each fleet and clock, the two entries with the highest scores on that fleet."""
    yield f"| fleet | {' | '.join(_HEADS.values())} |"
    yield f"|---|{'---|' * len(CLOCKS)}"
    cells = {clock: _best_two(summaries, clock, rules) for clock in CLOCKS}
    for fleet in rules.fleets:
        yield f"| {fleet} | {' | '.join(cells[clock][fleet] for clock in CLOCKS)} |"


def _best_two(summaries: Sequence[Mapping[str, Any]], clock: str, rules: Rules) -> dict[str, str]:
    entries = [str(each["entry"]["name"]) for each in summaries]
    table = cost_table(summaries, clock, rules)
    found = {}
    for place, fleet in enumerate(rules.fleets):
        own = scores(table[:, :, place : place + 1])
        first = np.argsort(-own, kind="stable")[:2]
        found[fleet] = ", ".join(f"{entries[index]} {own[index]:.2f}" for index in first)
    return found
