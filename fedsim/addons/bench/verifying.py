"""Verifying a summary: its seal, its rules, and a sample of its runs, made again."""

from collections.abc import Iterator, Mapping
from math import inf
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from fedsim.addons.bench.rules import Entry, Rules
from fedsim.addons.bench.running import (
    Row,
    best_trial,
    costs,
    price,
    scenario_of,
    sealed,
    train,
)
from fedsim.addons.bench.worlds import in_worlds
from fedsim.core.extras import VERSION
from fedsim.results.record.manifest import EVENTS, read_manifest
from fedsim.results.result import Result
from fedsim.scenario.registries import blocks_in


def verify(
    summary: Mapping[str, Any], entry: Entry, rules: Rules | None = None, *, sample: int = 2
) -> list[str]:
    """Return what is wrong with a summary; an empty list if nothing was found.

    Args:
        summary: as `fedsim bench run` wrote it.
        entry: what it claims to be a summary of.
        rules: of its season; those of the first one for the entry's group if None.
        sample: number of counted runs that are trained and priced again, with every message
            encoded to bytes, and their bits counted from the log; and the trials of their studies.
            Which ones depends on the seal.

    Raises:
        DataError, RunError, OutputError: the entry cannot be run.
    """
    rules = rules or Rules.first(entry.group)
    found = [*_of_files(summary, entry, rules)]
    for task in rules.tasks:
        found += _of_rows(summary["rows"].get(task, []), entry, task, rules)
    return found or [*_of_runs(summary, entry, rules, sample)]


def recounted_bits(result: Result) -> float:
    """Return the bits that clients have sent, from the rows of the log.

    Args:
        result: one run.
    """
    events = result.events
    sent = events[(events["event"] == "send") & (events["node"] != "server")]
    return float(sent[["payload_bits", "header_bits", "transport_bits"]].sum().sum())


def _of_files(summary: Mapping[str, Any], entry: Entry, rules: Rules) -> Iterator[str]:
    """Yield hashes that do not fit."""
    if sealed(summary)["seal"] != summary["seal"]:
        yield "the seal is broken: the summary was changed after it was written"
    if summary["entry_hash"] != entry.hash() or summary["entry"] != dict(entry.content):
        yield f"{entry.path} is not the entry of this summary"
    for key, value in rules.hashes().items():
        if summary["rules"].get(key) != value:
            yield f"it was run with other {key}"
    if summary["version"] != VERSION:
        yield f"it was run with fedsim {summary['version']}; this is {VERSION}"


def _of_rows(rows: list[Row], entry: Entry, task: str, rules: Rules) -> Iterator[str]:
    """Yield rows that the rules of the season exclude, and rows that are not there."""
    for study in range(rules.studies):
        where = f"{task}, study {study}"
        own = [row for row in rows if row["study"] == study]
        tried = [row for row in own if not row["fleet"]]
        counted = [row for row in own if row["fleet"]]
        seeds = rules.seeds(study)
        for part, seed in zip((tried, counted), seeds, strict=True):
            if others := {row["seed"] for row in part} - {seed}:
                yield f"{where}: got the seed {min(others)}; the rules say {seed}"
        if [row["trial"] for row in tried] != [*range(len(entry.trials(task, study, rules)))]:
            yield f"{where}: some trials are missing, or there are further ones"
        best = best_trial(tried)
        if others := {row["trial"] for row in counted} - {best}:
            yield f"{where}: trial {min(others)} was counted; the rule selects {best}"
        fleets = [row["fleet"] for row in counted]
        if fleets != (list(rules.fleets) if best is not None else []):
            yield f"{where}: some fleets are missing, or there are further ones"


def _of_runs(summary: Mapping[str, Any], entry: Entry, rules: Rules, sample: int) -> Iterator[str]:
    """Yield differences to counted runs, and to the trials of their studies, that are repeated."""
    counted = [(task, row) for task in rules.tasks for row in summary["rows"][task] if row["fleet"]]
    rng = np.random.default_rng(int(summary["seal"][:16], 16))
    sampled = [counted[index] for index in rng.permutation(len(counted))[:sample]]
    for task, study in sorted({(task, row["study"]) for task, row in sampled}):
        tried = [row for row in summary["rows"][task] if row["study"] == study and not row["fleet"]]
        with TemporaryDirectory() as scratch:
            yield from _of_trials(task, tried, entry, rules, Path(scratch))
    for task, row in sampled:
        with TemporaryDirectory() as scratch:
            yield from _of_run(task, row, entry, rules, Path(scratch))


def _of_trials(
    task: str, tried: list[Row], entry: Entry, rules: Rules, scratch: Path
) -> Iterator[str]:
    study, seed = tried[0]["study"], tried[0]["seed"]
    source = scenario_of(entry, task, study, rules, seed, range(len(tried)))
    for row, folder in zip(tried, train(entry, source, scratch).runs, strict=True):
        where = f"{task}, study {study}, trial {row['trial']}"
        yield from _differences(where, row, costs(folder, task))


def _of_run(task: str, row: Row, entry: Entry, rules: Rules, scratch: Path) -> Iterator[str]:
    where = f"{task}, study {row['study']}, {row['fleet']}"
    source = scenario_of(entry, task, row["study"], rules, row["seed"], [row["trial"]])
    result = train(entry, source, scratch / "run", carry="bytes")
    folder = result.runs[0]
    if read_manifest(folder)[EVENTS]["sha256"][:16] != row["log"]:
        yield f"{where}: another log: the run was made from other settings or code"
    counted, stated = recounted_bits(result), costs(folder, task)["bits_up"]
    if stated not in {counted, inf}:
        yield f"{where}: {stated:.0f} bits up are stated, but the log has {counted:.0f}"
    paid = price(folder, task, row["fleet"], scratch / "priced", entry)
    yield from _differences(where, row, paid)
    if "worlds" in row:
        worlds = in_worlds(scratch / "priced", task, blocks_in(entry.plugins)).get("worlds")
        if row["worlds"] != worlds:
            yield f"{where}: the costs in worlds of uncertain constants differ from a new run"


def _differences(where: str, row: Row, paid: Mapping[str, Any]) -> Iterator[str]:
    for key, value in paid.items():
        if row[key] != (None if value == inf else value):
            yield f"{where}: {key} is {row[key]}; run again, it is {value}"
