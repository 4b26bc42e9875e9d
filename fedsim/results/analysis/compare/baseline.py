"""The answer against a baseline: one clause per variant, the cheapest one first."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import groupby

import pandas as pd

from fedsim.core.blocks.wording import join_names
from fedsim.results.analysis.compare.dominance import Decisions
from fedsim.results.analysis.compare.verdict import TOO_FEW, bare, find_worlds, judge

_CLAUSES = 12  # variants that the sentence is about; tables have the others

_LONGEST = 200  # characters of a text on one line; a longer one has a line per clause

_NAMES = 5  # variants without the target that are named


def against_baseline(
    decisions: Decisions,
    cost: str,
    baseline: str,
    names: Mapping[str, str],
    words: tuple[str, str],
    worlds: pd.DataFrame | None = None,
    stalled: Callable[[Mapping[str, str]], str] = lambda _: "",
) -> str:
    """Return what each variant costs beside the baseline, without a full stop.

    A long text has one line per clause.

    Args:
        decisions: of all variants.
        cost: column of costs.
        baseline: the variant that the others are compared with, which reached the target.
        names: what to call each variant.
        words: the name of the cost, such as "energy", and what was to be reached; empty for the
            whole run.
        worlds: the verdicts of `fedsim robust` on these runs, where it sampled worlds.
        stalled: returns which runs of some variants further seeds would not help.
    """
    what, goal = words
    ranked = [name for name in decisions.rank(cost) if name != baseline and name in names]
    never = [bare(names[name]) for name in names if name != baseline and name not in ranked]
    verdicts = [
        judge(decisions.pair(name, baseline, cost), find_worlds(worlds, name, baseline, cost))
        for name in ranked[:_CLAUSES]
    ]
    labels = [names[name] for name in ranked]
    known = [
        verdict.evidence(bare(label), bare(names[baseline]))
        for label, verdict in zip(labels, verdicts, strict=False)
    ]
    common = len(set(known)) == 1  # such as "one seed", which is stated once
    clauses = [
        (label, verdict.beside, "" if common else f" ({evidence})" * bool(evidence))
        for label, verdict, evidence in zip(labels, verdicts, known, strict=False)
    ]
    parts = [*_grouped(clauses)]
    if (more := len(ranked) - _CLAUSES) > 0:
        parts.append(f"the tables have {more} more variants")
    if never:
        one = len(never) == 1
        missed = f"never reach{'es' if one else ''} it"
        ended = f"{'was' if one else 'were'} ended by no stop rule"
        parts.append(f"{_named(never)} {missed if goal else ended}")
    few = [name for name, each in zip(ranked, verdicts, strict=False) if each.reason == TOO_FEW]
    if few and (text := stalled({name: bare(names[name]) for name in [*few, baseline]})):
        parts.append(text)
    to = f"to {goal}" if goal else "over the whole run"
    evidence = f" ({known[0]})" if common and known[0] else ""
    head = f"Against {bare(names[baseline])} (baseline), {what} {to}{evidence}:"
    line = f"{head} {'; '.join(parts)}"
    if len(line) <= _LONGEST:
        return line
    return "\n  ".join([head, *(f"{part};" for part in parts[:-1]), parts[-1]])


def _grouped(clauses: Sequence[tuple[str, tuple[str, str], str]]) -> Iterator[str]:
    """Yield clauses; neighbours of which the same is said share one."""
    for (singular_plural, evidence), group in groupby(clauses, key=lambda clause: clause[1:]):
        labels = [label for label, *_ in group]
        yield f"{join_names(labels, 'and')} {singular_plural[len(labels) > 1]}{evidence}"


def _named(labels: Sequence[str]) -> str:
    more = [f"{len(labels) - _NAMES} more"] if len(labels) > _NAMES else []
    return join_names([*labels[:_NAMES], *more], "and")
