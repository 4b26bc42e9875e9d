"""The numbers of a row, taken from the rounds of its runs."""

import json
import math
import re
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from hashlib import sha256
from pathlib import Path
from typing import Any

import pandas as pd

import fedsim
from fedsim.results.analysis import cost_to_end, cost_to_target, cumulative
from reproduction import functions
from reproduction.model import (
    END,
    FOLDER,
    SEPARATOR,
    TARGET,
    WORST,
    At,
    Measure,
    Row,
    Setting,
)
from reproduction.states import Numbers, mean
from reproduction.values import Values, by_variant

RESULTS = FOLDER / "results"
"""Where what was measured is kept, a file a paper."""

BASE = "base"
"""The variant of a scenario that is not among its `variants`."""

DIGITS = 7
"""Significant digits of a number that is kept."""

_LIST = re.compile(r"\[[^\[\]]*\]")


@dataclass(frozen=True)
class Found:
    """What was measured of a row.

    Attributes:
        numbers: by name, a value a seed.
        setting: data, fleet and seeds, in words.
        tried: line of the table -> which of what was tried is the best, where several were.
        seconds: how long its runs took; NaN if that is not known.
    """

    numbers: Numbers
    setting: str = ""
    tried: Mapping[str, str] = field(default_factory=dict)
    seconds: float = math.nan


def load(paper: str, folder: Path = RESULTS) -> dict[str, Found]:
    """Return what is kept of a paper, by row; nothing if there is no file."""
    file = folder / f"{paper}.json"
    if not file.exists():
        return {}
    kept = json.loads(file.read_text(encoding="utf-8"))
    return {
        row: Found(
            {
                name: [math.nan if value is None else float(value) for value in values]
                for name, values in own["numbers"].items()
            },
            own["setting"],
            own.get("tried", {}),
            own.get("seconds", math.nan),
        )
        for row, own in kept.items()
    }


def store(paper: str, found: Mapping[str, Found], folder: Path = RESULTS) -> None:
    """Write what was measured of a paper, all of its rows, a number a line."""
    kept = {row: _plain(own) for row, own in found.items()}
    text = json.dumps(kept, indent=1)
    lines = _LIST.sub(lambda seen: " ".join(seen[0].split()), text)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{paper}.json").write_text(lines + "\n", encoding="utf-8")


def _plain(found: Found) -> dict[str, Any]:
    seconds = {"seconds": round(found.seconds)} if math.isfinite(found.seconds) else {}
    tried = {"tried": dict(found.tried)} if found.tried else {}
    numbers = {name: [_short(value) for value in own] for name, own in found.numbers.items()}
    return {"setting": found.setting, **seconds, **tried, "numbers": numbers}


def _short(value: float) -> float | None:
    if math.isnan(value):
        return None
    return float(f"{value:.{DIGITS}g}")


def folder(setting: Setting) -> str:
    """Return the name of a case's run folders, the same for rows that have it in common."""
    searched = (str(values) for values in setting.search)
    given = "\n".join((*setting.overrides, *setting.tried, *searched))
    name: str = setting.scenario.stem
    return name + (f"-{sha256(given.encode()).hexdigest()[:8]}" if given else "")


def run(setting: Setting, out: Path, overrides: Sequence[str]) -> list[fedsim.Result]:
    """Run a case, once for each of what it tries.

    Args:
        setting: the case.
        out: its run folders go here; what is there is resumed.
        overrides: of the caller; they take the place of the case's.
    """
    results = []
    for number, tried in enumerate(setting.tried or ("",)):
        texts = (*setting.overrides, tried, *overrides)
        every = {text.partition("=")[0]: text for text in texts if text}
        if setting.search:
            blocks = searched(setting, list(every.values()))
            every = {key: text for key, text in every.items() if key.split(".")[0] not in blocks}
            every |= blocks
        folder = out / str(number) if setting.tried else out
        with warnings.catch_warnings():
            # Papers censor more, and step further, than theory covers, and some runs diverge.
            warnings.simplefilter("ignore", fedsim.TheoryWarning)
            warnings.simplefilter("ignore", fedsim.RunWarning)
            results.append(fedsim.run(setting.scenario, out=folder, overrides=list(every.values())))
    return results


def searched(setting: Setting, overrides: Sequence[str]) -> dict[str, str]:
    """Return overrides by key that run each variant with each combination of the search.

    They are variants of one run, which share its samples; base has the first combination itself.
    """
    plan = fedsim.load(setting.scenario, overrides=overrides)
    blocks = {
        each.name: each.scenario.algorithm.model_dump(mode="json", exclude_none=True)
        for each in plan.variants
        if each.name in setting.labels
    }
    every = {
        _point(setting, name, number): {"algorithm": block | dict(values)}
        for name, block in blocks.items()
        for number, values in enumerate(setting.search)
    }
    own = every.pop(BASE, None)  # without a label it runs as the scenario has it
    named = {"variants": f"variants={json.dumps(every)}"}
    return (
        named
        if own is None
        else {"algorithm": f"algorithm={json.dumps(own['algorithm'])}", **named}
    )


def _point(setting: Setting, variant: str, number: int) -> str:
    """Return the variant of the run that has a combination of the search."""
    alone = not setting.search or (variant == BASE and not number)
    return variant if alone else f"{variant}-{number}"


@dataclass(frozen=True, repr=False)
class Chosen(fedsim.Result):
    """The best of what was tried, under the names that the row has for its variants.

    Attributes:
        names: variant of a run -> variant of the row.
    """

    names: Mapping[str, str] = field(default_factory=dict)

    def _renamed(self, table: pd.DataFrame) -> pd.DataFrame:
        return table.assign(variant=table["variant"].astype(str).replace(dict(self.names)))

    @cached_property
    def rounds(self) -> pd.DataFrame:
        """The round tables of these runs."""
        return self._renamed(super().rounds)

    @cached_property
    def summary(self) -> pd.DataFrame:
        """A row a run."""
        return self._renamed(super().summary)

    @cached_property
    def events(self) -> pd.DataFrame:
        """The event logs of these runs."""
        return self._renamed(super().events)

    @cached_property
    def clients(self) -> pd.DataFrame:
        """The client tables of these runs."""
        return self._renamed(super().clients)


def take(
    row: Row, setting: Setting, results: Sequence[fedsim.Result]
) -> tuple[fedsim.Result, Numbers, dict[str, str]]:
    """Return the runs of a case that count, their numbers, and what the best of a search is.

    Args:
        row: whose case it is.
        setting: the case.
        results: of each of what is tried.
    """
    labels = setting.labels
    alone = len(set(labels.values())) == len(labels)
    if len(results) == 1 and alone and not setting.search:
        return results[0], _numbers(row, setting, results[0]), {}
    tables = [_values(row.measures[row.best], result, row, setting.fields) for result in results]
    seeds = list(results[0].summary["seed"].unique())
    runs: list[Path] = []
    names, best = dict[str, str](), dict[str, str]()
    for label in dict.fromkeys(labels.values()):
        own = [name for name, called in labels.items() if called == label]
        size, place, name, number = min(
            (_size(table, _point(setting, name, number), seeds), place, name, number)
            for place, table in enumerate(tables)
            for name in own
            for number in range(len(setting.search) or 1)
        )
        run = _point(setting, name, number)
        names[run] = name
        runs += [each for each in results[place].runs if each.parent.name == run]
        said = [name] if len(own) > 1 else []
        said += [setting.tried[place].partition("=")[2]] if setting.tried else []
        if setting.search:
            said += [f"{key} {value}" for key, value in setting.search[number].items()]
        line = SEPARATOR.join(filter(None, (setting.name, label)))
        if said:
            best[line] = ", ".join(said) if math.isfinite(size) else "none"
    first = results[0]
    chosen = Chosen(first.folder, tuple(runs), names=names)
    return chosen, _numbers(row, setting, chosen), best


def _by_seed(table: Values, variant: str, seeds: Sequence[int]) -> list[float]:
    own = table.get(variant, pd.Series(dtype=float)).reindex(list(seeds)).astype(float)
    values: list[float] = own.tolist()
    return values


def _size(table: Values, variant: str, seeds: Sequence[int]) -> float:
    """Return the mean over seeds; infinity if one is missing."""
    own = mean(_by_seed(table, variant, seeds))
    return math.inf if math.isnan(own) else own


def _numbers(row: Row, setting: Setting, result: fedsim.Result) -> dict[str, Sequence[float]]:
    seeds = list(result.summary["seed"].unique())
    there = set(result.summary["variant"])
    found = dict[str, Sequence[float]]()
    tables = {
        name: _values(measure, result, row, setting.fields)
        for name, measure in row.measures.items()
    }
    for variant, label in setting.labels.items():
        if variant not in there:
            continue
        for name, table in tables.items():
            key = SEPARATOR.join(filter(None, (setting.name, label, name)))
            found[key] = _by_seed(table, variant, seeds)
    return found


def _values(measure: Measure, result: fedsim.Result, row: Row, fields: Mapping[str, Any]) -> Values:
    """Return a measure's values: variant -> a series by seed."""
    if measure.function:
        calculate: Callable[..., Values] = functions.MEASURES[measure.function]
        return calculate(result, row, **measure.given)
    rounds = result.rounds
    column = measure.column
    if measure.total:
        rounds = rounds[rounds["round"] > 0]  # a total is over rounds: the start is none
        groups = rounds.groupby(["variant", "seed"], sort=False, observed=True)
        rounds = rounds.assign(**{column: groups[column].cumsum()})
    at = measure.at.of(fields) if isinstance(measure.at, At) else measure.at
    at_rows = rows_at(at, result, rounds)
    values = at_rows[column] ** measure.power - measure.minus
    return by_variant(at_rows[["variant", "seed"]].assign(value=values), "value")


def rows_at(at: str | int | At, result: fedsim.Result, rounds: pd.DataFrame) -> pd.DataFrame:
    """Return the rows of the round table at which a measure is taken, costs added up."""
    totals = cumulative(rounds)
    totals["bits"] = totals["bits_up"] + totals["bits_down"]
    if at == END:
        return totals.drop_duplicates(["variant", "seed"], keep="last")
    if isinstance(at, int):
        return totals[totals["round"] == at]
    if at == TARGET:
        at = At(level=float(result.summary["target"].max()))
    assert isinstance(at, At)
    reached = _reached(at, rounds)
    keys = ["variant", "seed", "round"]
    return reached[reached["reached"]][keys].merge(totals, on=keys)


def _reached(at: At, rounds: pd.DataFrame) -> pd.DataFrame:
    if at.level is not None:
        return cost_to_target(rounds, float(at.level), at.column)
    if at.end_of == WORST:
        ends = rounds.drop_duplicates(["variant", "seed"], keep="last")
        return cost_to_target(rounds, float(ends[at.column].max()), at.column)
    return cost_to_end(rounds, at.end_of, at.column)
