"""Methods compared with one of them, and ranked by rounds and by other costs."""

from collections.abc import Mapping
from itertools import pairwise

import pandas as pd

from fedsim.core.table_columns import MEASURED_IN, RANKED
from fedsim.results.analysis.compare.dominance import Decisions
from fedsim.results.analysis.costs import cost_to_target, with_bits, with_grams
from fedsim.results.record.schema import GRAMS


def cost_to_end(rounds: pd.DataFrame, variant: str, measure: str = "objective") -> pd.DataFrame:
    """Return the cost of each run to reach the final value of one variant, seed by seed.

    Args:
        rounds: as `Result.rounds` gives it.
        variant: its last round sets the target of each seed; seeds under which it ended before the
            last of all rounds, because it diverged, are left out.
        measure: the column that has to reach the target.

    Returns:
        One row per run, as `cost_to_target` has it.

    Raises:
        ValueError: no run of the variant reached the last round.
    """
    last = rounds[(rounds["variant"] == variant) & (rounds["round"] == rounds["round"].max())]
    ends = last.set_index("seed")[measure]
    tables = [
        cost_to_target(rounds[rounds["seed"] == seed], end, measure) for seed, end in ends.items()
    ]
    if not tables:
        raise ValueError(f"no run of {variant!r} came to round {rounds['round'].max()}")
    return pd.concat(tables, ignore_index=True)


def ranking(costs: pd.DataFrame, labels: Mapping[str, str], confidence: float = 0.95) -> str:
    """Return a sentence that compares the order of methods by rounds with the order by other costs.

    Methods are ordered by their typical costs. Between neighbours, "<" means that the first is
    cheaper, "=" that both cost the same, and "~" that the seeds do not decide, by the rule of
    `fedsim.results.analysis.compare.pairwise`.

    Args:
        costs: one row per run, as `cost_to_target` gives it.
        labels: variant -> its name in the sentence; other variants, and variants that never
            reached the target, are left out.
        confidence: confidence level of the tests.

    >>> own = {"variant": ["a", "b"], "seed": [1, 1], "reached": [True, True], "round": [3, 9]}
    >>> own |= {"bits_up": [6.0, 3.0], "bits_down": [2.0, 1.0], "t": [1.0, 2.0]}
    >>> ranking(pd.DataFrame(own | {"joules": [5.0, 6.0]}), {"a": "A", "b": "B"})
    'The order by rounds is A < B; by bits it is B < A; by seconds and joules it is the same.'
    """
    own = with_bits(costs[costs["variant"].isin(list(labels))])
    ranked = with_grams([cost for cost in RANKED if cost != GRAMS], own)
    decisions = Decisions.of(own, ranked, confidence)
    there = [
        name for name, count in zip(decisions.variants, decisions.reached, strict=True) if count
    ]
    if len(there) < 2:
        return f"Only {labels[there[0]]} gets there." if there else "None gets there."
    names: dict[str, list[str]] = {}
    for cost in ranked:
        names.setdefault(_order(decisions, cost, labels), []).append(MEASURED_IN[cost])
    (first, same), *others = names.items()
    parts = [f"by {_list(own)} it is {order}" for order, own in others]
    if same[1:]:
        parts.append(f"by {_list(same[1:])} it is the same")
    unsure = " (~: not decided by the seeds)" if "~" in "".join(names) else ""
    return f"The order by rounds is {first}; {'; '.join(parts)}{unsure}."


def _order(decisions: Decisions, cost: str, labels: Mapping[str, str]) -> str:
    """Return the variants by their cost, "A < B ~ C"."""
    ranked = decisions.rank(cost)
    words = labels[ranked[0]]
    for one, other in pairwise(ranked):
        pair = decisions.pair(one, other, cost)
        words += f" {'=' if pair.same else '<~>'[pair.order + 1]} {labels[other]}"
    return words


def _list(names: list[str]) -> str:
    return " and ".join(filter(None, (", ".join(names[:-1]), names[-1])))
