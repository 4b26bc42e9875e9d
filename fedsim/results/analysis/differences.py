"""Differences between two scenarios, runs or studies: keys, versions, data and results."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import isnan, nan
from pathlib import Path
from statistics import fmean
from typing import Any, NamedTuple, Self

import pandas as pd
import pyarrow as pa

from fedsim.core.errors import DataError
from fedsim.core.table_columns import GRAMS_AFTER, JOULES_AFTER
from fedsim.core.text import format_number, quantity
from fedsim.results.record.folder import MODELS, SUMMARY
from fedsim.results.record.manifest import (
    CODE_VERSION,
    COMPUTING,
    EVENTS,
    FILES,
    INPUTS,
    read_manifest,
)
from fedsim.results.record.parts import read_table
from fedsim.results.record.read import hold_no_runs, missing, run_folders, summary_of, variants_in
from fedsim.results.record.rounds import OWN
from fedsim.results.record.scenarios import NOTHING, differing, flat, format_value, parse, read_text

SCENARIO, SEEDS, VERSIONS, DATA, RESULTS = "scenario", "seeds", "versions", "data", "results"
"""The parts in which two sides may differ, in the order in which they are reported."""

_ALL = "all variants"
_DIGITS = 12  # of a digest, in hexadecimal

_FIGURES: Mapping[str, tuple[tuple[str, ...], str]] = {
    "rounds": (("rounds",), ""),
    "objective": (("objective",), ""),
    "gap": (("gap",), ""),
    "bits": (("bits_up", "bits_down"), "bit"),
    "seconds": (("t",), "s"),
    "joules": (("joules", JOULES_AFTER), "J"),
    "grams": (("grams", GRAMS_AFTER), "g"),
}
"""The results that are compared: the columns of a summary that are added up, and their unit.

The scenario's measures and the method's figures are compared as well, as of the last round.
"""

_NO_RESULTS = frozenset({"variant", "seed"})
"""Columns of tables that name the run."""


@dataclass(frozen=True)
class Side:
    """One of the two sides of a comparison.

    Attributes:
        name: as the caller named it.
        scenarios: the scenario of each variant, as plain data.
        seeds: of each variant.
        runs: the folders of the runs that have ended, by variant and seed.
    """

    name: str
    scenarios: Mapping[str, Mapping[str, Any]]
    seeds: Mapping[str, Sequence[int]]
    runs: Mapping[tuple[str, int], Path] = field(default_factory=dict)

    @classmethod
    def of_folder(cls, folder: Path) -> Self:
        """Return a side from a folder of runs, from a variant's folder, or from one run.

        Variants that the scenario no longer has are left out.

        Raises:
            DataError: there are no runs, or the scenario of one is damaged.
        """
        if not folder.is_dir():
            raise missing("diff", folder)
        variants, seeds = variants_in(folder), dict[str, list[int]]()
        scenarios, runs = dict[str, Mapping[str, Any]](), dict[tuple[str, int], Path]()
        for path in run_folders(folder):
            variant, seed = path.parent.name, int(path.name.removeprefix("seed-"))
            if variants and variant not in variants:
                continue
            if variant not in scenarios:
                scenarios[variant] = parse(read_text(path), path)
            seeds.setdefault(variant, []).append(seed)
            if (path / SUMMARY).exists():
                runs[variant, seed] = path
        if not scenarios:
            raise DataError("diff", hold_no_runs(folder))
        return cls(str(folder), scenarios, seeds, runs)


class DifferingValue(NamedTuple):
    """A difference.

    Attributes:
        part: one of `SCENARIO`, `SEEDS`, `VERSIONS`, `DATA` and `RESULTS`.
        variant: the name of one variant or of several; empty if it concerns all.
        key: the key that differs.
        one, other: both values.
        ratio: the second result divided by the first; NaN for other values.
    """

    part: str
    variant: str
    key: str
    one: Any
    other: Any
    ratio: float = nan


class _Pair(NamedTuple):
    """A variant of each side, which are compared."""

    name: str
    one: str
    other: str


def differences(one: Side, other: Side) -> list[DifferingValue]:
    """Return the differences between two sides; an empty list if they are equal.

    Variants are paired by name; if each side has one variant, these two are paired in any case.
    Without any pair, the values that all variants of a side share are compared. The names of
    scenarios are not compared. Results are means over the seeds that have ended on both.

    Raises:
        DataError: a manifest, a summary or a table is damaged.
    """
    pairs = _pairs(one, other)
    values = [*_lone_variants(one, other, pairs), *_scenarios(one, other, pairs)]
    values += _seeds(one, other, pairs)
    if one.runs and other.runs:
        values += _versions(one, other, pairs)
        values += [value for pair in pairs for value in _results(one, other, pair)]
    order = {part: number for number, part in enumerate((SCENARIO, SEEDS, VERSIONS, DATA, RESULTS))}
    return sorted(values, key=lambda value: order[value.part])


def _pairs(one: Side, other: Side) -> list[_Pair]:
    if len(one.scenarios) == len(other.scenarios) == 1:
        ours, theirs = next(iter(one.scenarios)), next(iter(other.scenarios))
        return [_Pair(ours if ours == theirs else f"{ours} and {theirs}", ours, theirs)]
    return [_Pair(name, name, name) for name in one.scenarios if name in other.scenarios]


def _lone_variants(one: Side, other: Side, pairs: Sequence[_Pair]) -> Iterator[DifferingValue]:
    """Yield the variants that exist on one side only."""
    for name in one.scenarios:
        if all(pair.one != name for pair in pairs):
            yield DifferingValue(SCENARIO, name, "variants", name, NOTHING)
    for name in other.scenarios:
        if all(pair.other != name for pair in pairs):
            yield DifferingValue(SCENARIO, name, "variants", NOTHING, name)


def _scenarios(one: Side, other: Side, pairs: Sequence[_Pair]) -> Iterator[DifferingValue]:
    """Yield the keys that differ; equal differences of several variants are merged."""
    alike: dict[tuple[str, str, str], list[str]] = {}
    values: dict[tuple[str, str, str], tuple[Any, Any]] = {}
    for pair in pairs:
        for key, ours, theirs in differing(one.scenarios[pair.one], other.scenarios[pair.other]):
            same = key, repr(ours), repr(theirs)
            alike.setdefault(same, []).append(pair.name)
            values[same] = ours, theirs
    for same, variants in alike.items():
        several = len(pairs) > 1 and len(variants) == len(pairs)
        yield DifferingValue(
            SCENARIO, _ALL if several else ", ".join(variants), same[0], *values[same]
        )
    if not pairs:  # two studies of different methods: what do the studies differ in?
        for key, ours, theirs in differing(_common(one), _common(other)):
            yield DifferingValue(SCENARIO, _ALL, key, ours, theirs)


def _common(side: Side) -> dict[str, Any]:
    """Return the values that all variants of a side have, by their keys."""
    first, *rest = (dict(flat(scenario)) for scenario in side.scenarios.values())
    return {
        key: value
        for key, value in first.items()
        if all(key in other and other[key] == value for other in rest)
    }


def _seeds(one: Side, other: Side, pairs: Sequence[_Pair]) -> Iterator[DifferingValue]:
    alike: dict[tuple[str, str], list[str]] = {}
    for pair in pairs:
        ours, theirs = (
            ", ".join(map(str, sorted(seeds)))
            for seeds in (one.seeds[pair.one], other.seeds[pair.other])
        )
        if ours != theirs:
            alike.setdefault((ours, theirs), []).append(pair.name)
    for (ours, theirs), variants in alike.items():
        several = len(pairs) > 1 and len(variants) == len(pairs)
        yield DifferingValue(SEEDS, _ALL if several else ", ".join(variants), "seeds", ours, theirs)


def _versions(one: Side, other: Side, pairs: Sequence[_Pair]) -> Iterator[DifferingValue]:
    """Yield the versions that differ, of the runs of all paired variants."""
    ours = _made_with(one, {pair.one for pair in pairs})
    theirs = _made_with(other, {pair.other for pair in pairs})
    for key in dict.fromkeys([*ours, *theirs]):
        if ours.get(key) != theirs.get(key):
            yield DifferingValue(VERSIONS, "", key, _join(ours.get(key)), _join(theirs.get(key)))


def _made_with(side: Side, variants: set[str]) -> dict[str, set[str]]:
    """Return the versions that runs were made with, by name; several values if runs differ."""
    versions: dict[str, set[str]] = {}
    for (variant, _), path in side.runs.items():
        if variant in variants:
            manifest = read_manifest(path)
            facts = {
                **manifest["versions"],
                "python": manifest["python"],
                "machine": manifest["machine"],
            }
            facts |= {
                "code": manifest["code"][:_DIGITS],
                **dict(flat(manifest[COMPUTING], COMPUTING)),
            }
            if CODE_VERSION in manifest:
                facts["version of the code"] = manifest[CODE_VERSION] or NOTHING
            for key, value in facts.items():
                versions.setdefault(key, set()).add(str(value))
    return versions


def _join(values: set[str] | None) -> str:
    return ", ".join(sorted(values)) if values else NOTHING


def _results(one: Side, other: Side, pair: _Pair) -> Iterator[DifferingValue]:
    """Yield the differences in data and results of a variant, over the seeds of both."""
    seeds = [seed for seed in one.seeds[pair.one] if (pair.one, seed) in one.runs]
    seeds = [seed for seed in seeds if (pair.other, seed) in other.runs]
    if not seeds:
        return
    ours = [one.runs[pair.one, seed] for seed in seeds]
    theirs = [other.runs[pair.other, seed] for seed in seeds]
    yield from _data(pair.name, seeds, ours, theirs)
    # The log has times, bits and joules, but no value of a model. Two runs that differ in a step
    # size alone have equal logs, so the other tables and the figures are compared in any case.
    yield from _digests(pair.name, seeds, ours, theirs)
    means = [_means(side) for side in (ours, theirs)]
    for name in dict.fromkeys([*means[0], *means[1]]):
        a, b = (side.get(name, nan) for side in means)
        if a != b and not (isnan(a) and isnan(b)):
            yield DifferingValue(RESULTS, pair.name, name, a, b, b / a if a else nan)


def _digests(
    variant: str, seeds: Sequence[int], ours: Sequence[Path], theirs: Sequence[Path]
) -> Iterator[DifferingValue]:
    """Yield the first table that differs, in the first seed where it does.

    The round table follows from the log and the models: one that differs says nothing new beside a
    log that differs.
    """
    for name, key in (("events", "log"), ("rounds", "rounds"), (MODELS, "models")):
        for seed, *paths in zip(seeds, ours, theirs, strict=True):
            one, other = (_digest(path, name) for path in paths)
            if one == other or (name != "events" and _hold_same_values(name, *paths)):
                continue
            several = f", seed {seed}" if len(seeds) > 1 else ""
            texts = one[:_DIGITS], other[:_DIGITS]
            yield DifferingValue(RESULTS, variant, f"digest of the {key}{several}", *texts)
            return


def _digest(run: Path, table: str) -> str:
    """Return the digest of the log's rows, or of the file of another table."""
    manifest = read_manifest(run)
    found = manifest[EVENTS]["sha256"] if table == "events" else manifest[FILES][f"{table}.parquet"]
    return str(found)


def _hold_same_values(name: str, one: Path, other: Path) -> bool:
    """Return whether two tables have the same values; another pyarrow may write other bytes."""
    ours, theirs = (read_table(run, name) for run in (one, other))
    columns, others = (
        [column for column in table.column_names if column not in _NO_RESULTS]
        for table in (ours, theirs)
    )
    return columns == others and all(
        _flat(ours[column]).equals(_flat(theirs[column])) for column in columns
    )


def _flat(column: pa.ChunkedArray) -> pd.Series:
    """Return the values of a column, those of lists one after the other; NaN equals NaN there."""
    values = column.combine_chunks()
    while pa.types.is_list(values.type):
        values = values.flatten()
    series: pd.Series = values.to_pandas()
    return series


def _data(
    variant: str, seeds: Sequence[int], ours: Sequence[Path], theirs: Sequence[Path]
) -> Iterator[DifferingValue]:
    """Yield the first seed whose data differ, and the input files that differ."""
    for seed, *paths in zip(seeds, ours, theirs, strict=True):
        one, other = (str(summary_of(path)["problem"]) for path in paths)
        if one != other:
            key = f"digest of data and loss, seed {seed}"
            yield DifferingValue(DATA, variant, key, one[:_DIGITS], other[:_DIGITS])
            break
    inputs = [{**read_manifest(each[0]).get(INPUTS, {})} for each in (ours, theirs)]
    for name in dict.fromkeys([*inputs[0], *inputs[1]]):
        one, other = (str(each.get(name, NOTHING)) for each in inputs)
        if one != other:
            yield DifferingValue(DATA, variant, f"digest of {name}", one[:_DIGITS], other[:_DIGITS])


def _means(runs: Sequence[Path]) -> dict[str, float]:
    """Return the mean of each result over runs; NaN if it is unknown in one."""
    summaries = [summary_of(path) for path in runs]
    means = {
        name: fmean(sum(_number(row, column) for column in columns) for row in summaries)
        for name, (columns, _) in _FIGURES.items()
    }
    last = [_last_measures(path) for path in runs]
    names = dict.fromkeys(name for row in last for name in row)
    return {**means, **{name: fmean(row.get(name, nan) for row in last) for name in names}}


def _last_measures(run: Path) -> dict[str, float]:
    """Return the measures and the figures of the method in a run's last round."""
    table = read_table(run, "rounds")
    wanted = [name for name in table.column_names if name not in OWN | _NO_RESULTS | {*_FIGURES}]
    rows = table.select(wanted).slice(max(len(table) - 1, 0)).to_pylist()
    return {name: _number(row, name) for row in rows for name in wanted}


def _number(row: Mapping[str, Any], name: str) -> float:
    value = row.get(name)
    return nan if value is None else float(value)


def describe_values(difference: DifferingValue) -> tuple[str, str, str]:
    """Return both values and their ratio as the cells of a table."""
    _, _, key, one, other, ratio = difference
    if difference.part != RESULTS or isinstance(one, str):
        return format_value(one), format_value(other), ""
    unit = _FIGURES.get(key, ((), ""))[1]
    texts = [
        quantity(value, unit) if unit else format_number(value, ".6g") for value in (one, other)
    ]
    for form in (".6g", ""):  # where they differ in later digits
        if texts[0] == texts[1]:
            texts = [f"{value:{form}} {unit}".strip() for value in (one, other)]
    return texts[0], texts[1], "" if isnan(ratio) else format_number(ratio, ".4g")
