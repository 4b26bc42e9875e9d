"""Methods against one of them, and ranked by rounds and by what rounds cost."""

from collections.abc import Mapping

import pandas as pd

from fedsim.analysis.carbon import with_grams
from fedsim.analysis.costs import cost_to_target

RANKED = {"round": "rounds", "bits": "bits", "t": "seconds", "joules": "joules", "grams": "CO2"}
"""The costs by which methods are ranked, and what each is counted in."""


def cost_to_end(rounds: pd.DataFrame, variant: str, measure: str = "objective") -> pd.DataFrame:
    """Return what each run had spent when it was where a variant ends, seed by seed.

    Args:
        rounds: as `Result.rounds` gives it.
        variant: whose last round sets the target, under each seed its own; seeds under which
            it did not reach the last of all rounds, for having diverged, are left out.
        measure: the column that is to reach it.

    Returns:
        A row a run, as `cost_to_target` has it.

    Raises:
        ValueError: no run of the variant came to the last round.
    """
    own = rounds[(rounds["variant"] == variant) & (rounds["round"] == rounds["round"].max())]
    ends = own.set_index("seed")[measure]
    tables = [
        cost_to_target(rounds[rounds["seed"] == seed], end, measure) for seed, end in ends.items()
    ]
    if not tables:
        raise ValueError(f"no run of {variant!r} came to round {rounds['round'].max()}")
    return pd.concat(tables, ignore_index=True)


def ranking(costs: pd.DataFrame, labels: Mapping[str, str]) -> str:
    """Say in a sentence whether the order of methods by rounds is that by other costs.

    Args:
        costs: a row a variant, with columns variant and those of `RANKED`, such as `summarised`
            gives it; variants that did not get there (NaN) are left out.
        labels: variant -> what the sentence calls it.

    >>> table = {"variant": ["a", "b"], "round": [3, 9], "bits": [8.0, 4.0], "t": [1.0, 2.0]}
    >>> ranking(pd.DataFrame(table | {"joules": [5.0, 6.0]}), {"a": "A", "b": "B"})
    'The order by rounds is A < B; by bits it is B < A; by seconds and joules it is the same.'
    """
    ranked = with_grams([cost for cost in RANKED if cost != "grams"], costs)
    there = costs.dropna(subset=ranked).set_index("variant")
    if len(there) < 2:
        return f"Only {labels[there.index[0]]} gets there." if len(there) else "None gets there."
    names: dict[str, list[str]] = {}
    for cost in ranked:
        names.setdefault(_order(there[cost], labels), []).append(RANKED[cost])
    (first, same), *others = names.items()
    parts = [f"by {_listed(own)} it is {order}" for order, own in others]
    if same[1:]:
        parts.append(f"by {_listed(same[1:])} it is the same")
    return f"The order by rounds is {first}; {'; '.join(parts)}."


def _order(costs: pd.Series, labels: Mapping[str, str]) -> str:
    """Return the variants by their cost, "A < B = C"."""
    ranked = costs.sort_values(kind="stable")
    signs = ["", *(" = " if step == 0 else " < " for step in ranked.diff().iloc[1:])]
    return "".join(f"{sign}{labels[each]}" for sign, each in zip(signs, ranked.index, strict=True))


def _listed(names: list[str]) -> str:
    return " and ".join(filter(None, (", ".join(names[:-1]), names[-1])))
