"""Running an entry: training once per task and seed, prices on every fleet, a sealed summary."""

import json
import shutil
import warnings
from collections.abc import Callable, Mapping, Sequence
from math import inf
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

from fedsim.addons.bench.rules import WORLD, Entry, Rules, digest, group_of, named, nested
from fedsim.addons.bench.worlds import in_worlds
from fedsim.addons.repricing.api import reprice
from fedsim.core.atomic import write_whole
from fedsim.core.errors import DataError, RepricingError, RunWarning, TheoryWarning
from fedsim.core.extras import VERSION
from fedsim.core.files import read_file
from fedsim.protocol.transport import Carry
from fedsim.results.analysis.compare.cost_tables import Target
from fedsim.results.analysis.compare.runs import gather
from fedsim.results.record.manifest import EVENTS, read_manifest
from fedsim.results.result import Result
from fedsim.running.api import run
from fedsim.scenario.registries import blocks_in

CLOCKS = ("bits_up", "seconds", "joules")
"""What an entry pays until the target, in bits, seconds and joules."""

Row = dict[str, Any]
"""The costs of one run on one fleet: study, seed, trial, fleet, reached, rounds, clocks, log."""

Say = Callable[[str], None]


def silent(text: str) -> None:
    """Say nothing."""


def run_entry(
    entry: Entry,
    out: str | Path,
    rules: Rules | None = None,
    *,
    jobs: int = 1,
    cluster: str | None = None,
    say: Say = silent,
) -> Path:
    """Train an entry, price it on the fleets, and write its sealed summary.

    Finished tasks are read, not run again, if the entry and the rules are the same.

    Args:
        entry: the method with its settings.
        out: the folder of logs and summaries.
        rules: of the season; those of the first one for the entry's group if None.
        jobs: number of training runs at a time.
        cluster: a Dask cluster that trains.
        say: called with a line for every finished task.

    Returns:
        The sealed summary, `OUT/NAME.json`.

    Raises:
        DataError, ScenarioError: the entry is invalid.
        RunError, OutputError: training failed, or a file cannot be written.
    """
    rules = rules or Rules.first(entry.group)
    for task in rules.tasks:
        if (group := group_of(task)) != entry.group:
            text = f"{entry.name} is of the group {entry.group}, but the task {task} of {group}"
            raise DataError("entry", f"{text}: it does not apply; see `fedsim bench list`")
    place = Path(out)
    place.mkdir(parents=True, exist_ok=True)
    rows: dict[str, list[Row]] = {}
    for number, task in enumerate(rules.tasks, 1):
        made_from = digest([entry.hash(), rules.hash(), VERSION])
        kept = place / entry.name / f"{task}.json"
        known = json.loads(read_file(kept)) if kept.is_file() else {}
        if known.get("made_from") != made_from:
            found = _run_task(entry, task, rules, place / entry.name, jobs=jobs, cluster=cluster)
            known = {"made_from": made_from, "rows": found}
            write_whole(kept, json.dumps(known).encode())
        rows[task] = known["rows"]
        say(f"{entry.name}: task {number} of {len(rules.tasks)}, {task}")
    summary = {
        "entry": dict(entry.content),
        "entry_hash": entry.hash(),
        "season": rules.name,
        "rules": rules.hashes(),
        "version": VERSION,
        "rows": rows,
    }
    target = place / f"{entry.name}.json"
    write_whole(target, text_of(sealed(summary)).encode())
    return target


def sealed(summary: Mapping[str, Any]) -> dict[str, Any]:
    """Return a summary with its seal, the hash of everything else."""
    inner = {key: value for key, value in summary.items() if key != "seal"}
    return {**inner, "seal": digest(inner)}


def text_of(summary: Mapping[str, Any]) -> str:
    """Return a summary as a file holds it, one row a line."""
    plain = json.dumps(summary, separators=(",", ":"))
    return plain.replace('},{"study"', '},\n{"study"') + "\n"


def read_summary(path: str | Path) -> dict[str, Any]:
    """Return the summary in a file.

    Raises:
        DataError: the file holds no summary.
    """
    try:
        summary: dict[str, Any] = json.loads(read_file(Path(path)))
        rows = [row for own in summary["rows"].values() for row in own]
        _ = summary["seal"], summary["entry"]["name"], [row["fleet"] for row in rows]
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        text = f"{path}: got {error!r}; expected a summary of `fedsim bench run`"
        raise DataError("summary", text) from error
    return summary


def scenario_of(
    entry: Entry, task: str, study: int, rules: Rules, seed: int, chosen: Sequence[int]
) -> dict[str, Any]:
    """Return the scenario that trains some of a study's trials with one seed.

    Args:
        entry: the method with its settings.
        task: its name.
        study: the number of the study.
        rules: of the season.
        seed: of training.
        chosen: the numbers of the trials.
    """
    own = named("tasks", task)
    trials = entry.trials(task, study, rules)
    # The first trial is the base of the variants: fedsim would run another base in addition.
    first = _merged(entry.block(task)["scenario"], nested(trials[chosen[0]]))
    return {
        **own["scenario"],
        **WORLD,
        **first,
        "name": f"{entry.name} on {task}",
        "stop": {"rounds": own["limit"], **own["target"]},
        "seed": seed,
        "variants": {
            f"trial-{number}": nested(trials[number]) if number != chosen[0] else {}
            for number in chosen
        },
    }


def _merged(below: Mapping[str, Any], above: Mapping[str, Any]) -> dict[str, Any]:
    """Return blocks with those above in place of those below, key by key."""
    both = {**below, **above}
    for key in below.keys() & above.keys():
        if isinstance(below[key], Mapping) and isinstance(above[key], Mapping):
            both[key] = _merged(below[key], above[key])
    return both


def train(
    entry: Entry,
    source: Mapping[str, Any],
    out: Path,
    *,
    jobs: int = 1,
    cluster: str | None = None,
    carry: Carry = "values",
) -> Result:
    """Train, with divergence as a missed target rather than an error."""
    blocks = blocks_in(entry.plugins)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RunWarning)
        warnings.simplefilter("ignore", TheoryWarning)
        return run(
            source, out=out, jobs=jobs, cluster=cluster, blocks=blocks, carry=carry, check=False
        )


def costs(folder: Path, task: str) -> dict[str, Any]:
    """Return what one run paid until the task's target.

    Args:
        folder: of one run.
        task: its name.

    Returns:
        reached, rounds and the clocks, which are infinite for a run that missed the target.
    """
    ((column, value),) = named("tasks", task)["target"].items()
    paid = Target.read(f"{column}={value}").costs(gather([folder])).iloc[0]
    reached = bool(paid["reached"])
    clocks = zip(CLOCKS, ("bits_up", "t", "joules"), strict=True)
    own = {clock: float(paid[name]) if reached else inf for clock, name in clocks}
    return {"reached": reached, "rounds": int(paid["round"]) if reached else None, **own}


def price(run_folder: Path, task: str, fleet: str, out: Path, entry: Entry) -> dict[str, Any]:
    """Return what a run pays on a fleet: re-priced, or trained again where that is not exact."""
    block = named("fleets", fleet)
    overrides = [f"{key}={json.dumps(block[key])}" for key in ("fleet", "network") if key in block]
    blocks = blocks_in(entry.plugins)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RunWarning)
            result = reprice(run_folder, overrides, out, blocks=blocks)
    except RepricingError:
        source = run_folder / "scenario.yaml"
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RunWarning)
            warnings.simplefilter("ignore", TheoryWarning)
            result = run(source, out=out, overrides=overrides, blocks=blocks, check=False)
    return costs(result.runs[0], task)


def best_trial(rows: Sequence[Row]) -> int | None:
    """Return the trial that reached the target in the fewest seconds; None if none did."""
    there = [row for row in rows if row["reached"]]
    first = min(there, key=lambda row: (row["seconds"], row["trial"]), default=None)
    return None if first is None else int(first["trial"])


def _run_task(
    entry: Entry, task: str, rules: Rules, place: Path, *, jobs: int, cluster: str | None
) -> list[Row]:
    rows: list[Row] = []
    for study in range(rules.studies):
        tuning, counting = rules.seeds(study)
        home = place / task / f"study-{study}"
        every = range(len(entry.trials(task, study, rules)))
        source = scenario_of(entry, task, study, rules, tuning, every)
        result = train(entry, source, home / "trials", jobs=jobs, cluster=cluster)
        tried = [
            _row(study, tuning, number, "", folder, costs(folder, task))
            for number, folder in zip(every, result.runs, strict=True)
        ]
        rows += tried
        best = best_trial(tried)
        if best is None:  # a miss on every fleet, with no further training
            continue
        source = scenario_of(entry, task, study, rules, counting, [best])
        folder = train(entry, source, home / "counted").runs[0]
        for fleet in rules.fleets:
            paid = price(folder, task, fleet, scratch := Path(mkdtemp()), entry)
            worlds = in_worlds(scratch, task, blocks_in(entry.plugins))
            shutil.rmtree(scratch)
            rows.append({**_row(study, counting, best, fleet, folder, paid), **worlds})
    return rows


def _row(
    study: int, seed: int, trial: int, fleet: str, folder: Path, paid: Mapping[str, Any]
) -> Row:
    place = {"study": study, "seed": seed, "trial": trial, "fleet": fleet}
    own = {key: None if value == inf else value for key, value in paid.items()}
    return {**place, **own, "log": read_manifest(folder)[EVENTS]["sha256"][:16]}
