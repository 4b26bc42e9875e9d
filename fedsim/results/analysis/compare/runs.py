"""Runs from any number of folders, under names that tell them apart."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import pyarrow as pa
from rich.markup import escape
from rich.table import Table

from fedsim.core.blocks.wording import join_names
from fedsim.core.errors import DataError, VersionError
from fedsim.core.table_columns import TITLES, UNITS
from fedsim.core.tables import plain
from fedsim.core.text import quantity
from fedsim.results.analysis.costs import (
    figure,
    final_cost,
    measures_in,
    outcomes,
    with_grams,
)
from fedsim.results.record.folder import SCENARIO, SMALL, SUMMARY, RunFolder, check_run
from fedsim.results.record.manifest import MADE_FROM, check_files, read_manifest
from fedsim.results.record.parts import read_table
from fedsim.results.record.read import hold_no_runs, join_tables, missing, run_folders
from fedsim.results.record.regimes import doubt_of_sizes
from fedsim.results.record.scenarios import (
    describe_differences,
    differing,
    parse,
    read_text,
    setting_of,
)
from fedsim.results.record.studies import Study, read_study, resuming_command, study_in
from fedsim.results.record.summary import is_empty
from fedsim.results.record.variants import labels

# The missing runs of an interrupted campaign. Its folder does not show whether a process is still
# making them: they may end while this is read.

_MOST = 5
"""Variants that are named."""


class UnfinishedCampaign(NamedTuple):
    """A folder of runs that does not hold all runs of its scenario.

    Attributes:
        place: the folder.
        study: the scenario, with the seeds to run for each variant.
        lacking: the missing seeds of each variant that lacks any.
    """

    place: Path
    study: Study
    lacking: Mapping[str, list[int]]

    @property
    def folders(self) -> set[Path]:
        """The full paths of the missing runs."""
        return {
            RunFolder.place(self.place, variant, seed).resolve()
            for variant, seeds in self.lacking.items()
            for seed in seeds
        }

    @property
    def extent(self) -> str:
        """How far the campaign went, such as "4 of 6 runs"."""
        count = sum(map(len, self.study.seeds.values()))
        return f"{count - len(self.folders)} of {count} runs"

    def describe(self) -> str:
        """Return the number of missing runs by variant, and the command that makes them."""
        parts = [
            f"{len(seeds)} of {len(self.study.seeds[variant])} of {variant}"
            for variant, seeds in self.lacking.items()
        ]
        if (more := len(parts) - _MOST) > 0:
            rest = sum(map(len, [*self.lacking.values()][_MOST:]))
            parts = [*parts[:_MOST], f"{rest} of {more} more variants"]
        text = f"{self.place} is unfinished: it has {self.extent} of the scenario {self.study.name}"
        return f"{text}; missing: {', '.join(parts)}. To resume, {self._remedy()}"

    def _remedy(self) -> str:
        if self.study.priced:
            return "price the runs again"
        command = resuming_command(self.place, self.study)
        return f"repeat `{command}`" if command else f"run the scenario again into {self.place}"


def find_unfinished(place: Path, study: Study | None) -> Iterator[UnfinishedCampaign]:
    """Yield what a folder lacks, if it lacks anything and says what it should hold."""
    seeds = study.seeds if study else {}
    lacking = {variant: list(_lacking(place, variant, own)) for variant, own in seeds.items()}
    some = {variant: own for variant, own in lacking.items() if own}
    if study and some:
        yield UnfinishedCampaign(place, study, some)


def _lacking(place: Path, variant: str, seeds: list[int]) -> Iterator[int]:
    for seed in seeds:
        if not (RunFolder.place(place, variant, seed) / SUMMARY).exists():
            yield seed


# Selection of runs of one scenario in a folder, each variant from one campaign.
#
# What a scenario was before it was edited leaves runs behind. These are named and left out, so
# that nothing is averaged over seeds that were made from different things.


class RunOrigin(NamedTuple):
    """A run, and what it was made from.

    Attributes:
        path: its folder, in full.
        scenario: the hash of what it has in common with the other seeds of its variant.
        study: what the folder is of in which it was found; None where that does not say, or the run
            was asked for by itself.
    """

    path: Path
    scenario: object
    study: Study | None

    @property
    def wanted(self) -> object:
        """What the study says that its variant is made from; None where it has none such."""
        return self.study.variants.get(self.path.parent.name) if self.study else self.scenario


def apart(runs: Sequence[RunOrigin]) -> Mapping[Path, str]:
    """Return the runs that do not belong with the others, and why: one sentence a variant."""
    reasons = dict[Path, str]()
    for folder, own in _by_variant(runs):
        stale = [run for run in own if run.scenario != run.wanted]
        fresh = [run for run in own if run not in stale]
        reasons.update(dict.fromkeys((run.path for run in stale), _stale(folder, stale)))
        if len({run.scenario for run in fresh}) > 1:
            reasons.update(
                dict.fromkeys((run.path for run in fresh), _describe_mixture(folder, fresh))
            )
    return reasons


def runs_of(place: Path) -> list[Path]:
    """Return the runs in a folder that belong to the scenario that it is of; see `select_runs`."""
    return select_runs(place)[0]


def select_runs(place: Path) -> tuple[list[Path], Mapping[Path, str]]:
    """Return the runs in a folder that belong to the scenario that it is of, and the others.

    Runs that do not belong to it are reported with the reason, which is one for all of a variant.

    Args:
        place: as for `run_folders`.

    Raises:
        DataError: the seeds of a variant do not belong together, or a manifest is damaged, or, of a
            run that does not belong to the scenario, another file.
    """
    study = read_study(place) if place.is_dir() else None
    paths = run_folders(place)
    every = [RunOrigin(path.resolve(), read_manifest(path).get(MADE_FROM), study) for path in paths]
    reasons = apart(every)
    for path in reasons:
        if (path / SUMMARY).exists():  # else the run has not ended
            check_files(path, SMALL)  # a manifest of another run is no earlier state
    kept = [path for path, own in zip(paths, every, strict=True) if own.path not in reasons]
    if reasons and not kept:
        raise DataError("folder", "\n".join(dict.fromkeys(reasons.values())))
    return kept, reasons


def _by_variant(runs: Sequence[RunOrigin]) -> Iterator[tuple[Path, list[RunOrigin]]]:
    groups = dict[Path, list[RunOrigin]]()
    for run in runs:
        groups.setdefault(run.path.parent, []).append(run)
    yield from groups.items()


def _stale(folder: Path, runs: Sequence[RunOrigin]) -> str:
    """Say what is left of an earlier state of a scenario."""
    if not runs or runs[0].study is None:
        return ""
    name = runs[0].study.name
    if runs[0].wanted is None:
        text = f"{folder} ({_seeds(runs)}) is left from before: the scenario {name} has no variant"
        return f"{text} {folder.name} any more; compare that folder by itself, or delete it"
    text = f"{folder} ({_seeds(runs)}) was made from an earlier state of the scenario {name}"
    return f"{text}; run that again"


def _describe_mixture(folder: Path, runs: Sequence[RunOrigin]) -> str:
    """Say of which seeds of a variant nothing can be averaged, and what they differ in."""
    first, other = runs[0], next(run for run in runs if run.scenario != runs[0].scenario)
    try:
        one, two = (parse(read_text(run.path), run.path) for run in (first, other))
        values = describe_differences(differing(one, two), first.path.name, other.path.name)
    except DataError:
        values = ""
    text = f"the seeds in {folder} were made from different scenarios{values}"
    return f"{text}; run the scenario again, or compare seeds of one scenario"


def _seeds(runs: Sequence[RunOrigin]) -> str:
    numbers = ", ".join(run.path.name.removeprefix("seed-") for run in runs)
    return f"seed {numbers}" if len(runs) == 1 else f"seeds {numbers}"


_SHOWN = 20  # reasons in the error where nothing is left


_BEFORE = (
    "rounds are counted as in papers that plot the model before the update (counting: iterates)"
)


@dataclass(frozen=True)
class EndedRuns:
    """Runs that have ended.

    Attributes:
        folders: one a run.
        rounds: their round tables, as `Result.rounds` has them.
        summary: one row per run, as `Result.summary` has it.
        labels: what tables and figures call each variant, in the order of the folders.
        left_out: which runs and folders could not be compared, and why; a sentence each.
        extent: how far a campaign went that was cut off, "4 of 6 runs"; empty where none was.
        baseline: the variant that its scenario compares the others with; empty if it names none,
            or if several scenarios name different ones.
    """

    folders: tuple[Path, ...]
    rounds: pd.DataFrame
    summary: pd.DataFrame
    labels: Mapping[str, str]
    left_out: tuple[str, ...] = field(default=())
    extent: str = ""
    baseline: str = ""

    @property
    def by_name(self) -> dict[tuple[str, int], Path]:
        """The folder of each run, by variant and seed."""
        names = zip(self.summary["variant"], self.summary["seed"], strict=True)
        return {
            (str(variant), int(seed)): path
            for (variant, seed), path in zip(names, self.folders, strict=True)
        }

    @property
    def counting(self) -> tuple[str, ...]:
        """A note on the way in which rounds are counted, if that is not the usual one."""
        return (_BEFORE,) if (self.summary["counting"] == "iterates").all() else ()

    @property
    def doubt_of_sizes(self) -> str:
        """Why times are uncertain where messages differ in size; empty if they are not.

        See `fedsim.results.record.regimes.doubt_of_sizes`; empty for several networks or fleets.
        """
        return doubt_of_sizes_in(self.by_name, self.rounds)

    @cached_property
    def setting(self) -> str:
        """Data, fleet and seeds in a few words; of several folders, the settings of all."""
        firsts = {path.parent.parent: path for path in reversed(self.folders)}
        seeds = self.summary["seed"].unique().tolist()
        scenarios = [parse(read_text(path), path / SCENARIO) for path in firsts.values()]
        return "\n".join(dict.fromkeys(setting_of(each, seeds) for each in reversed(scenarios)))


def doubt_of_sizes_in(runs: Mapping[tuple[str, int], Path], rounds: pd.DataFrame) -> str:
    """Return why times of variants are uncertain where their messages differ in size; else nothing.

    Args:
        runs: the folder of each run, by variant and seed.
        rounds: the round tables of all runs.
    """
    firsts = {variant: path for (variant, _), path in reversed([*runs.items()])}
    if len(firsts) < 2:
        return ""
    scenarios = [parse(read_text(path), path / SCENARIO) for path in firsts.values()]
    worlds = [{key: each[key] for key in ("network", "fleet")} for each in scenarios]
    if any(world != worlds[0] for world in worlds[1:]):
        return ""
    return doubt_of_sizes(worlds[0]["network"], worlds[0]["fleet"], rounds)


class _Run(NamedTuple):
    """What is read of one run."""

    path: Path
    summary: dict[str, Any]
    rounds: pa.Table
    made: RunOrigin

    @property
    def empty(self) -> bool:
        """Whether it ended well, yet before its first round did."""
        return is_empty(self.summary)


def gather(places: Sequence[Path]) -> EndedRuns:
    """Read the runs in some folders, each of them once; leave out those that cannot be read.

    Variants of one name from different OUTs are distinguished by the names of these, as in
    "lte/base" and "wifi/base".

    Args:
        places: OUT with all its runs, one variant's folder in it, or one run's folder.

    Raises:
        DataError: there is no such folder, no run in them that can be compared, or they count
            rounds in different ways.
    """
    runs, wrong, cut_off = _sound(places)
    if not runs:
        more = [f"and {len(wrong) - _SHOWN} more"] if len(wrong) > _SHOWN else []
        raise DataError("compare", "\n".join([*wrong[:_SHOWN], *more]))
    folders = [run.path for run in runs]
    variants = _variants(folders)
    summary = pd.json_normalize([run.summary for run in runs]).assign(variant=variants)
    names = labels_of(summary)
    if mixed := mixed_counting(summary, names):
        raise DataError("counting", mixed)
    rounds = join_tables(folders, [run.rounds for run in runs], variants)
    extent = ", ".join(each.extent for each in cut_off)
    baseline = _baseline(runs, variants)
    if not baseline and len(names) > 1:
        wrong += _ignored_baselines(runs)
    return EndedRuns(tuple(folders), rounds, summary, names, tuple(wrong), extent, baseline)


def _baseline(runs: Sequence[_Run], variants: Sequence[str]) -> str:
    """Return the variant that all studies of some runs compare with; empty if there is none.

    Args:
        runs: the runs.
        variants: the name of the variant of each run, which may have that of its OUT in front.
    """
    named = {
        name
        for run, name in zip(runs, variants, strict=True)
        if run.made.study and run.made.study.baseline == run.made.path.parent.name
    }
    return named.pop() if len(named) == 1 else ""


def _ignored_baselines(runs: Sequence[_Run]) -> Iterator[str]:
    """Yield why no baseline counts, although the studies of some runs name one."""
    named = sorted({run.made.study.baseline for run in runs if run.made.study} - {""})
    if named:
        reason = "none of its runs can be compared" if len(named) == 1 else "studies name several"
        yield f"the baseline {join_names(named, 'and')} ({reason}); answers are on the two cheapest"


def mixed_counting(summary: pd.DataFrame, names: Mapping[str, str]) -> str:
    """Describe runs that count rounds in different ways; empty if all count alike.

    Args:
        summary: one row per run, as `Result.summary` has it.
        names: what to call each variant.
    """
    groups = summary.groupby("counting", sort=False)["variant"]
    if len(groups) < 2:
        return ""
    ways = [
        f"counting: {way} in {', '.join(names[each] for each in own.unique())}"
        for way, own in groups
    ]
    return (
        f"rounds are counted differently ({'; '.join(ways)}): compare runs with the same counting"
    )


def _sound(places: Sequence[Path]) -> tuple[list[_Run], list[str], list[UnfinishedCampaign]]:
    """Return the runs that can be compared, what is wrong with others, and which are to come."""
    found, wrong = dict[Path, tuple[Path, Study | None]](), list[str]()
    cut_off = list[UnfinishedCampaign]()
    for place in places:
        own, study = _find(place), _study(place, wrong)
        cut_off += find_unfinished(place, study)
        for path in own:
            asked = found.get(path.resolve(), (path, study))[1]  # by its own name, perhaps
            # Without a study as soon as one of the places names the run by itself: then it is taken
            # as it is.
            found[path.resolve()] = path, study and asked
        if not own:
            wrong.append(hold_no_runs(place))
    wrong += dict.fromkeys(each.describe() for each in cut_off)
    missing_folders = set[Path]().union(*(each.folders for each in cut_off))
    runs, refused = list[_Run](), list[DataError]()
    for path, study in (found[whole] for whole in found if whole not in missing_folders):
        try:
            runs.append(_read(path, study))
        except DataError as error:
            refused.append(error)
    wrong += _sentences(refused)
    reasons = apart([run.made for run in runs])
    wrong += dict.fromkeys(reasons.values())
    runs = [run for run in runs if run.made.path not in reasons]
    some = [run for run in runs if not run.empty]
    if not some:  # nothing to compare them with; they are described all the same
        return runs, wrong, cut_off
    return some, [*wrong, *(_nothing(run) for run in runs if run.empty)], cut_off


def _sentences(errors: Sequence[DataError]) -> Iterator[str]:
    """Yield what is wrong with runs; of those of an earlier version of the schema, one sentence."""
    old: dict[tuple[Path, str], list[VersionError]] = {}
    for error in errors:
        if isinstance(error, VersionError):
            old.setdefault((error.folder.parent.parent, error.describe_version()), []).append(error)
        else:
            yield str(error)
    for (place, said), (first, *more) in old.items():
        study = study_in(place)
        command = resuming_command(place, study) if study else ""
        helps = f"make the runs again: {command}" if command else first.helps
        count = f"the {1 + len(more)} logs in {place}" if more else f"the log in {first.folder}"
        yield f"{count} {said.replace('has', 'have', 1) if more else said}; {helps}"


def _nothing(run: _Run) -> str:
    text = f"the run in {run.path} is empty: it ended before its first round did"
    return f"{text} ({run.summary['reason']}); let it run for longer"


def _study(place: Path, wrong: list[str]) -> Study | None:
    """Return the study that a folder of runs is of; what is wrong with it goes into the list."""
    try:
        return read_study(place)
    except DataError as error:
        wrong.append(f"{error}; variants that a scenario no longer has cannot be found")
        return None


def _read(path: Path, study: Study | None) -> _Run:
    """Read one run.

    Raises:
        DataError: it cannot be compared.
    """
    summary, whole = check_run(path), path.resolve()
    manifest = read_manifest(path)
    made = RunOrigin(whole, manifest.get(MADE_FROM), study)
    return _Run(path, summary, read_table(path, "rounds"), made)


def labels_of(summary: pd.DataFrame) -> dict[str, str]:
    """Return what to call each variant of a summary, as `Result.summary` gives it."""
    return labels(dict(zip(summary["variant"], summary["algorithm"], strict=True)))


def _find(place: Path) -> list[Path]:
    if not place.is_dir():
        raise missing("compare", place)
    return run_folders(place, empty=True)


def _variants(folders: Sequence[Path]) -> list[str]:
    """Return the name of each run's variant, with that of its OUT where there is another one."""
    whole = [path.resolve() for path in folders]
    outs = _distinguish({path.parent.parent for path in whole})
    pairs = [(path.parent.name, path.parent.parent) for path in whole]
    homes: dict[str, set[Path]] = {}
    for variant, out in pairs:
        homes.setdefault(variant, set()).add(out)
    return [
        variant if len(homes[variant]) == 1 else f"{outs[out]}/{variant}" for variant, out in pairs
    ]


def _distinguish(paths: Iterable[Path]) -> dict[Path, str]:
    """Return as many of the last parts of each path as tell all of them apart."""
    every, count, names = list(paths), 0, dict[Path, str]()
    while len(set(names.values())) < len(every):
        count += 1
        names = {path: "/".join(path.parts[-count:]) for path in every}
    return names


# Progress of a campaign in which no run has ended: figures and costs of each so far.

_COSTS = ("round", "transmissions", "bits_up", "bits_down", "t", "joules")


def so_far(places: Sequence[Path]) -> Table | None:
    """Return a table of runs that have begun, a row each; None where none has, or some have ended.

    Args:
        places: as for `fedsim.results.analysis.gather`.
    """
    folders = [path for place in places if place.is_dir() for path in run_folders(place)]
    if any((path / SUMMARY).exists() for path in folders):
        return None
    read = dict(_read_tables(folders))
    if not read:
        return None
    rounds = join_tables(list(read), list(read.values()), [path.parent.name for path in read])
    shown = with_grams(_COSTS, rounds)
    reached, names = outcomes(rounds), measures_in(rounds)
    table = plain("; ".join(["so far", *_extents(places)]), keys=2)
    table.add_column("variant")
    for head in ("seed", *(TITLES.get(cost, cost) for cost in shown), *names):
        table.add_column(head, justify="right")
    rows = final_cost(rounds).merge(reached, how="left", on=["variant", "seed"])
    for row in rows.to_dict("records"):
        costs = (quantity(row[cost], UNITS.get(cost, "")) for cost in shown)
        figures = (figure(float(row.get(name, np.nan))) for name in names)
        table.add_row(escape(row["variant"]), str(row["seed"]), *costs, *figures)
    return table


def _read_tables(folders: Sequence[Path]) -> Iterator[tuple[Path, pa.Table]]:
    """Yield the round tables of those runs that have any."""
    for path in folders:
        with suppress(FileNotFoundError, DataError):
            rounds = read_table(path, "rounds")
            if len(rounds):
                yield path, rounds


def _extents(places: Sequence[Path]) -> Iterator[str]:
    for place in places:
        with suppress(DataError):
            for each in find_unfinished(place, read_study(place)):
                yield f"unfinished: {each.extent} have ended"
