"""Caveats of a comparison: what limits its conclusions, in sentences beside the results."""

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from io import BytesIO
from math import comb
from pathlib import Path

import numpy as np
import pandas as pd

from fedsim.core.atomic import write_whole
from fedsim.core.blocks.wording import join_names
from fedsim.core.errors import DataError
from fedsim.core.files import read_file
from fedsim.core.text import format_number
from fedsim.results.analysis.compare.cost_tables import COMPARED, Target, heading, misses
from fedsim.results.analysis.compare.dominance import seed_costs
from fedsim.results.analysis.compare.pairwise import PRACTICAL, log_ratios, typical
from fedsim.results.analysis.compare.runs import EndedRuns
from fedsim.results.analysis.compare.verdict import SURE
from fedsim.results.analysis.costs import with_grams, without_start
from fedsim.results.record.folder import SCENARIO
from fedsim.results.record.manifest import (
    EVENTS,
    FILES,
    as_json,
    hash_of,
    read_manifest,
    read_sealed,
    seal,
)
from fedsim.results.record.summary import Ending, end_of, is_empty

# The robustness of a comparison to parameter uncertainty, as written by `fedsim robust`.
#
# `compare` and the report read its tables again. They are sealed: a file beside them has the hash
# of each table and of the runs that it is about. So a table that was damaged or edited, or whose
# runs were made again, is not used, and a note gives the reason.

FOLDER, VERDICTS, DECIDING = "robustness", "verdicts.csv", "deciding.csv"
"""Its folder in that of the study, and its tables of verdicts and of deciding constants."""

HEADS: Mapping[str, str] = {
    "verdict": "verdict",
    "ratio": "ratio",
    "typical": "P(mean cheaper)",
    "probability": "P(run cheaper)",
    "noise": "noise",
}
"""Heads of the columns of verdicts, in the terminal, in the report and in the documentation."""

SEALED = "sealed.json"
"""The file with the hashes of both tables and of their runs."""

_RUNS = "runs"

CLOSE = 1.1
"""Costs with a ratio below this may differ by uncertain constants alone, if not analysed."""

_MOST_PAIRS = 3  # pairs that are listed

LESS = {"t": "less time", "joules": "fewer joules", "grams": "fewer grams of CO2"}
"""The words for a lower cost."""

WORDS = {"t": "time", "joules": "energy", "grams": "CO2"}
"""The words for costs."""


def is_undecided(share: float) -> bool:
    """Return whether constants decide a verdict that holds in this share of the worlds."""
    return 1 - SURE < share < SURE


def run_hashes(folders: Sequence[Path]) -> dict[str, str]:
    """Return a hash of each run, by variant and seed: of its scenario and its log.

    Args:
        folders: of the runs of one study.

    Raises:
        DataError: the manifest of one is missing or damaged.
    """
    found = {}
    for folder in folders:
        own = f"{read_manifest(folder)[EVENTS]['sha256']} {hash_of(folder / SCENARIO)}"
        found[f"{folder.parent.name}/{folder.name}"] = hashlib.sha256(own.encode()).hexdigest()
    return found


def seal_tables(folder: Path, runs: Mapping[str, str]) -> None:
    """Write the seal of a folder's tables: their hashes, and those of their runs.

    Args:
        folder: in which `VERDICTS` and `DECIDING` have been written.
        runs: the runs that the tables are about, as `run_hashes` returns them.

    Raises:
        OutputError: the seal cannot be written.
    """
    files = {name: hash_of(folder / name) for name in (VERDICTS, DECIDING)}
    content = as_json(seal({FILES: files, _RUNS: dict(runs)}))
    write_whole(folder / SEALED, content.encode())


def read_doubts(runs: EndedRuns, target: str, table: str = VERDICTS) -> pd.DataFrame | None:
    """Return a table of `fedsim robust` about runs; None if there is none about these.

    None, too, if the table was modified, or the runs were made again since; `unusable` then yields
    the reason.

    Args:
        runs: of one study.
        target: as `str(Target)` writes it.
        table: which of its tables.
    """
    for folder in _tables_of(runs):
        try:
            # Hashed and parsed from one read, so that a file that is replaced in between is not
            # trusted.
            content = read_file(folder / table)
            digest = read_sealed(folder / SEALED)[FILES].get(table)
        except (OSError, DataError):  # changed since it was checked
            continue
        if _fault(runs, folder) or hashlib.sha256(content).hexdigest() != digest:
            continue
        found = pd.read_csv(BytesIO(content), dtype={"variant": str, "against": str})
        own = found[found["target"] == target]
        if len(own) and set(own["variant"]) <= set(map(str, runs.labels)):
            return own
    return None


def unusable(runs: EndedRuns) -> Iterator[str]:
    """Yield why the tables of `fedsim robust` on runs are not used, if none of them can be."""
    faults = {folder: _fault(runs, folder) for folder in _tables_of(runs)}
    if faults and all(faults.values()):
        folder, fault = next(iter(faults.items()))
        yield f"{folder} {fault}: repeat fedsim robust"


def _tables_of(runs: EndedRuns) -> list[Path]:
    """Return the folders of tables about runs, the latest first; none for several studies.

    Each call of `fedsim robust` with other options has one; see `fedsim.results.record.outputs`.
    """
    places = {folder.parent.parent for folder in runs.folders}
    if len(places) > 1:
        return []
    out = min(places)
    every = [out / FOLDER, *out.glob(f"{FOLDER}-*")]
    own = [folder for folder in every if (folder / VERDICTS).is_file()]
    return sorted(own, key=lambda folder: (folder / VERDICTS).stat().st_mtime_ns, reverse=True)


def _fault(runs: EndedRuns, folder: Path) -> str:
    """Return the fault of tables about runs; empty if they are valid.

    Tables that cover more runs than these are valid.
    """
    try:
        content = read_sealed(folder / SEALED)
        known, files = dict(content[_RUNS]), dict(content[FILES])
        sound = all(hash_of(folder / name) == files.get(name) for name in (VERDICTS, DECIDING))
    except (OSError, DataError, KeyError, TypeError, ValueError):
        sound = False
    if not sound:
        return "has tables that are damaged, or of another version"
    own = run_hashes(runs.folders)
    if any(known.get(name) != digest for name, digest in own.items()):
        return "is about runs that have been repeated since"
    return ""


def fragile(runs: EndedRuns, target: str, costs: pd.DataFrame) -> Iterator[str]:
    """Yield differences in time or energy that may depend on constants, one sentence per cost.

    Args:
        runs: that are compared.
        target: as `str(Target)` writes it.
        costs: one row per run, as `cost_to_target` gives it.
    """
    known = read_doubts(runs, target)
    for cost, words in LESS.items():
        if known is not None:
            pairs_undecided = list(_unsure(runs, known[known["cost"] == cost], words))
            yield from pairs_undecided[:_MOST_PAIRS]
            if (more := len(pairs_undecided) - _MOST_PAIRS) > 0:
                yield f"likewise for {more} more pairs: see fedsim robust"
        elif cost in costs and (pairs := _close(costs, cost)):
            named = _pairs([(runs.labels[a], runs.labels[b]) for a, b in pairs])
            text = f"{named} differ by less than 10 % in {WORDS[cost]}"
            doubt = "the constants are less certain than that: see fedsim robust"
            yield f"{heading(target)}: {text}; {doubt}"


def _pairs(pairs: Sequence[tuple[str, str]]) -> str:
    """Return the names of variants that differ little; pair by pair unless each two of them do."""
    names = list(dict.fromkeys(name for pair in pairs for name in pair))
    if len(pairs) == comb(len(names), 2) and len(names) <= _MOST_NAMES:
        return join_names(names, "and")
    return _list([f"{one} and {other}" for one, other in pairs])


def _unsure(runs: EndedRuns, rows: pd.DataFrame, words: str) -> Iterator[str]:
    for row in rows.to_dict("records"):
        if is_undecided(row["typical"]) and row["typical"] >= 0.5:
            one, other = runs.labels[row["variant"]], runs.labels[row["against"]]
            share = f"{format_number(100 * row['typical'], '.0f')} % of {row['worlds']:,.0f} worlds"
            yield f"{one} takes {words} than {other} in only {share}: see fedsim robust"


def _close(costs: pd.DataFrame, cost: str) -> list[tuple[str, str]]:
    """Return the pairs of variants whose typical ratio is near 1, but beyond `PRACTICAL`."""
    names = [str(name) for name in costs["variant"].unique()]
    (own,) = seed_costs(costs, names, [cost])
    with np.errstate(divide="ignore"):
        logs = np.abs(np.log(typical(log_ratios(own[:, None], own))))
    near = (logs > np.log1p(PRACTICAL)) & (logs < np.log(CLOSE))
    return [(names[one], names[other]) for one, other in np.argwhere(np.triu(near, 1))]


def _list(names: Sequence[str]) -> str:
    more = [f"{len(names) - _MOST_PAIRS} more pairs"] if len(names) > _MOST_PAIRS else []
    return "; ".join([*names[:_MOST_PAIRS], *more])


_MOST_NAMES = 5  # failures that are listed, and names in a sentence
_ROUNDING = 1e-12  # relative; sums in another order differ by less


def caveats(runs: EndedRuns, costs: Mapping[Target, pd.DataFrame]) -> list[str]:
    """Return the caveats of a comparison, one sentence each.

    Args:
        runs: that are compared.
        costs: target -> one row per run, as `cost_to_target` gives it.
    """
    parts: list[Sequence[str]] = [[f"left out: {text}" for text in runs.left_out]]
    parts += [runs.counting, list(failures(runs)), list(_list_risen(runs)), list(_problems(runs))]
    parts += [list(unusable(runs)), list(_alike(runs)), [*filter(None, [runs.doubt_of_sizes])]]
    for target, table in costs.items():
        label = str(target)
        parts += [list(_repeats(runs, label, table)), list(_survivors(runs, target, table))]
        parts.append(list(fragile(runs, label, table)))
    return [text for part in parts for text in part]


def failures(runs: EndedRuns) -> Iterator[str]:
    """Yield the ends of runs that ended before a stop rule applied."""
    failed = runs.summary[~runs.summary["status"].map(lambda status: end_of(status).complete)]
    for row in failed.head(_MOST_NAMES).to_dict("records"):
        name = f"{runs.labels[row['variant']]}, seed {row['seed']}"
        yield f"{name}: {Ending(row['status'], row['reason'])}"
    if len(failed) > _MOST_NAMES:
        yield f"{len(failed) - _MOST_NAMES} more runs did not end by a stop rule"
    if failed.empty and runs.summary.apply(is_empty, axis=1).all():
        yield "no run has completed a round: let them run for longer"


def _list_risen(runs: EndedRuns) -> Iterator[str]:
    """Yield runs that ended above their initial objective."""
    for row in runs.summary.to_dict("records"):
        notes = row["notes"] if isinstance(row.get("notes"), list) else ()
        for text in notes:
            key, _, said = text.partition(": ")
            if key == "objective":
                yield f"{runs.labels[row['variant']]}, seed {row['seed']}: the objective: {said}"


def _alike(runs: EndedRuns) -> Iterator[str]:
    """Yield variants whose rounds are equal, such as a censoring method that never was silent."""
    columns = [name for name in runs.rounds.columns if name != "variant"]
    may = {
        str(row["variant"])
        for row in runs.summary.to_dict("records")
        if row.get("may_be_silent") is True
    }
    groups: dict[str, list[str]] = {}
    could_be_silent, silent = set[str](), set[str]()
    for name, own in without_start(runs.rounds).groupby("variant", observed=True, sort=False):
        if (variant := str(name)) in runs.labels:
            rows = own[columns].sort_values(["seed", "round"])
            hashes = pd.util.hash_pandas_object(rows, index=False).to_numpy()
            key = hashlib.sha256(hashes.tobytes()).hexdigest()
            groups.setdefault(key, []).append(runs.labels[variant])
            if variant in may:
                could_be_silent.add(key)
            if (own["transmissions"] < own["cohort"]).any():
                silent.add(key)
    for key, names in groups.items():
        if len(names) > 1:
            why = ": no client was ever silent" if key in could_be_silent - silent else ""
            yield f"{', '.join(names[:-1])} and {names[-1]} are equal in every round{why}"


def _problems(runs: EndedRuns) -> Iterator[str]:
    """Yield a caveat if runs of one seed have solved different problems."""
    kinds = runs.summary.drop_duplicates(["seed", "problem"])["seed"]
    several = kinds[kinds.duplicated()]
    if len(several):
        first = runs.summary[runs.summary["seed"] == several.iloc[0]]
        groups = [
            _with_runs(runs, own["variant"]) for _, own in first.groupby("problem", sort=False)
        ]
        yield (
            f"not all variants solve the same problem ({'; '.join(groups)}): their targets and "
            "costs answer different questions"
        )


def _repeats(runs: EndedRuns, target: str, costs: pd.DataFrame) -> Iterator[str]:
    """Yield variants whose costs are equal under all seeds, so that means have no interval."""
    columns = [cost for cost in with_grams(COMPARED, costs) if cost in costs]
    arrived = costs[costs["reached"]].groupby("variant", sort=False)
    figures = arrived[columns]
    alike = figures.max() - figures.min() <= _ROUNDING * figures.max()
    same = alike.all(axis=1) & (arrived.size() > 1)
    if same.any():
        names = _with_runs(runs, same.index[same])
        yield f"{heading(target)}: all seeds cost the same for {names}: no interval"


def _survivors(runs: EndedRuns, target: Target, costs: pd.DataFrame) -> Iterator[str]:
    """Yield what was spent by runs that did not reach the target."""
    said = list(misses(runs, costs, target, runs.labels))
    yield from (f"{heading(str(target))}: {text}" for text in said[:_MOST_NAMES])
    if len(said) > _MOST_NAMES:
        rest = f"{len(said) - _MOST_NAMES} more variants have runs that did not reach the target"
        yield f"{heading(str(target))}: {rest}"


def _with_runs(runs: EndedRuns, variants: Iterable[object]) -> str:
    labels = [runs.labels[str(name)] for name in variants]
    more = [f"{len(labels) - _MOST_NAMES} more"] if len(labels) > _MOST_NAMES else []
    *names, last = [*labels[:_MOST_NAMES], *more]
    return " and ".join(filter(None, (", ".join(names), last)))
