"""Tables of a season, in Markdown, for the page of the bench."""

from collections.abc import Hashable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

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
    found = {(row["entry"], row["clock"]): row for row in ranked.to_dict("records")}
    for entry in ranked["entry"].unique():
        own = [found[entry, clock] for clock in CLOCKS]
        yield f"| `{entry}` | {' | '.join(map(_cell, own))} | {own[0]['missed']:.0%} |"


def _cell(row: Mapping[Hashable, Any]) -> str:
    interval = f"{row['low']:.2f} to {row['high']:.2f}"
    return _lines(f"{row['rank']}: {row['score']:.2f}", f"({interval})", f"{row['first']:.0%}")


def _lines(*texts: str) -> str:
    """Return the lines of a cell, which do not wrap."""
    return "<br>".join(texts).replace(" ", "\N{NO-BREAK SPACE}").replace("-", _HYPHEN)


_HYPHEN = "\N{NON-BREAKING HYPHEN}"


def _by_fleet(summaries: Sequence[Mapping[str, Any]], rules: Rules) -> Iterator[str]:
    """Yield, for each fleet, the two entries of the highest scores, and what decides."""
    causes = correlations(summaries, rules)
    yield "| fleet | bits up | seconds | joules | seconds follow | joules follow |"
    yield "|---|---|---|---|---|---|"
    cells = {clock: _best_two(summaries, clock, rules) for clock in CLOCKS}
    for fleet in rules.fleets:
        best = [cells[clock][fleet] for clock in CLOCKS]
        why = [_cause(causes[fleet, clock]) for clock in ("seconds", "joules")]
        yield f"| `{fleet}` | {' | '.join([*best, *why])} |"


def correlations(
    summaries: Sequence[Mapping[str, Any]], rules: Rules
) -> dict[tuple[str, str], dict[str, float]]:
    """Return how closely seconds and joules follow the number of rounds, and the bits up.

    They are correlations of logarithms over all counted runs that reached the target. The mean of
    each task is subtracted before, so that only differences between runs of one task count.

    Args:
        summaries: the sealed summaries of the entries.
        rules: of their season.

    Returns:
        By fleet and clock, the correlation with rounds and with bits up, from -1 to 1.
    """
    rows = pd.DataFrame(
        {"task": task, **row}
        for each in summaries
        for task in rules.tasks
        for row in each["rows"][task]
        if row["fleet"] in rules.fleets and row["reached"]
    )
    figures = ["rounds", *CLOCKS]
    rows[figures] = np.log(rows[figures].astype(float))
    rows[figures] -= rows.groupby(["fleet", "task"])[figures].transform("mean")
    return {
        (str(fleet), clock): {
            "rounds": float(own[clock].corr(own["rounds"])),
            "bits": float(own[clock].corr(own["bits_up"])),
        }
        for fleet, own in rows.groupby("fleet")
        for clock in ("seconds", "joules")
    }


def _cause(found: Mapping[str, float]) -> str:
    first, second = sorted(found, key=lambda name: -found[name])
    return _lines(f"{first} {found[first]:.2f}", f"{second} {found[second]:.2f}")


def _best_two(summaries: Sequence[Mapping[str, Any]], clock: str, rules: Rules) -> dict[str, str]:
    entries = [str(each["entry"]["name"]) for each in summaries]
    table = cost_table(summaries, clock, rules)
    found = {}
    for place, fleet in enumerate(rules.fleets):
        own = scores(table[:, :, place : place + 1])
        first = np.argsort(-own, kind="stable")[:2]
        found[fleet] = _lines(*(f"{entries[index]} {own[index]:.2f}" for index in first))
    return found
