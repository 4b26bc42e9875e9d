"""Costs: what each method of a claim has needed until where its row measures it."""

import pandas as pd
from reproduction import measures, model

import fedsim
from claim_checks.papers import COSTS, Claim
from claim_checks.settings import Setting

_KEYS = ["variant", "seed"]


def costs(claim: Claim, setting: Setting, result: fedsim.Result) -> pd.DataFrame:
    """Return what each run of a claim's methods has needed: NaN if it never got there.

    Returns:
        A row a run, indexed by label and seed, with the columns of `COSTS`.
    """
    measure = setting.row.measures[claim.measure]
    if measure.total:
        table = _while_above(result.rounds, measure.column)
    else:
        at = measure.at
        if isinstance(at, model.At):
            at = at.of(setting.case.fields)
        table = measures.rows_at(at, result, result.rounds)
    table = table.assign(bits=table["bits_up"] + table["bits_down"])
    runs = result.summary[_KEYS].astype({"variant": object})
    every = runs.merge(table.astype({"variant": object}), on=_KEYS, how="left")
    every["variant"] = every["variant"].map(setting.labels)
    own = every[every["variant"].isin(claim.labels)]
    return own.set_index(_KEYS)[list(COSTS)].astype(float)


def spans(
    claim: Claim, setting: Setting, result: fedsim.Result
) -> dict[tuple[str, int], list[int]]:
    """Return the rounds of each run whose costs count: ends of those before, and of those.

    Runs that never get there are left out.
    """
    measure = setting.row.measures[claim.measure]
    if not measure.total:
        ends = costs(claim, setting, result)["round"].dropna().reset_index()
        rows = ends.to_dict("records")
        return {(str(row["variant"]), int(row["seed"])): [0, int(row["round"])] for row in rows}
    found = dict[tuple[str, int], list[int]]()
    marked = (result.rounds["round"] > 0) & (result.rounds[measure.column] > 0)
    rounds = result.rounds[marked]
    for row in rounds[[*_KEYS, "round"]].to_dict("records"):
        label, number = setting.labels.get(str(row["variant"])), int(row["round"])
        if label in claim.labels:
            found.setdefault((label, int(row["seed"])), []).extend((number - 1, number))
    return found


def _while_above(rounds: pd.DataFrame, column: str) -> pd.DataFrame:
    """Return what was spent in the rounds that a column of 0 and 1 marks, added up by run."""
    runs = rounds.groupby(_KEYS, sort=False, observed=True)
    each = rounds.assign(t=runs["t"].diff().fillna(rounds["t"]), round=1)
    columns = ["round", "transmissions", "bits_up", "bits_down", "t", "joules"]
    each[columns] = each[columns].mul(rounds[column], axis=0)
    each = each[rounds["round"] > 0]
    return each.groupby(_KEYS, sort=False, observed=True)[columns].sum().reset_index()
