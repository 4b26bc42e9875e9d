"""The numbers of a row, taken from the rounds of its runs."""

import json
import math
import re
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

import fedsim
from fedsim.analysis import cost_to_end, cost_to_target, cumulative
from reproduction import functions
from reproduction.model import END, FOLDER, SEPARATOR, TARGET, WORST, At, Measure, Row, Setting
from reproduction.states import Numbers, mean

RESULTS = FOLDER / "results"
"""Where what was measured is kept, a file a paper."""

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
    given = "\n".join((*setting.overrides, *setting.tried))
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
        every = {
            text.partition("=")[0]: text for text in (*setting.overrides, tried, *overrides) if text
        }
        folder = out / str(number) if setting.tried else out
        with warnings.catch_warnings():
            # Papers censor more, and step further, than theory covers, and some runs diverge.
            warnings.simplefilter("ignore", fedsim.TheoryWarning)
            warnings.simplefilter("ignore", fedsim.RunWarning)
            results.append(fedsim.run(setting.scenario, out=folder, overrides=list(every.values())))
    return results


def take(
    row: Row, setting: Setting, results: Sequence[fedsim.Result]
) -> tuple[Numbers, dict[str, str]]:
    """Return the numbers of a case, and which of what was tried is the best of each variant."""
    every = [_numbers(row, setting, result) for result in results]
    if len(every) == 1:
        return every[0]
    each = [own for own, _ in every]
    found, best = dict[str, Sequence[float]](), dict[str, str]()
    for label in setting.labels.values():
        line = SEPARATOR.join(filter(None, (setting.name, label)))
        key = f"{line}{SEPARATOR}{row.best}"
        sizes = [_size(own.get(key, (math.nan,))) for own in each]
        place = int(np.argmin(sizes))
        mine = {name: own for name, own in each[place].items() if name.startswith(line + SEPARATOR)}
        found.update(mine)
        best[line] = setting.tried[place].partition("=")[2]
    return found, best


def _numbers(
    row: Row, setting: Setting, result: fedsim.Result
) -> tuple[dict[str, Sequence[float]], dict[str, str]]:
    """Return the numbers of a result, and what a star in the name of a variant stands for."""
    seeds = list(result.summary["seed"].unique())
    there = list(result.summary["variant"].unique())
    found, best = dict[str, Sequence[float]](), dict[str, str]()
    tables = {
        name: _values(measure, result, row, setting.fields)
        for name, measure in row.measures.items()
    }

    def values(name: str, variant: str) -> list[float]:
        own = tables[name].get(variant, pd.Series(dtype=float)).reindex(seeds)
        return [float(value) for value in own]

    for pattern, label in setting.labels.items():
        named = [variant for variant in there if fnmatchcase(variant, pattern)]
        if not named:
            continue
        line = SEPARATOR.join(filter(None, (setting.name, label)))
        variant = named[0]
        if "*" in pattern:
            variant = min(named, key=lambda each: _size(values(row.best, each)))
            best[line] = variant.removeprefix(pattern.partition("*")[0])
        for name in tables:
            found[f"{line}{SEPARATOR}{name}"] = values(name, variant)
    return found, best


def _size(values: Sequence[float]) -> float:
    """Return the mean of values; infinity if one is missing."""
    middle = mean(values)
    return math.inf if math.isnan(middle) else middle


def choose(setting: Setting, found: Found) -> dict[str, str]:
    """Return the variants of a case by what they are called, the best for a name with a star."""
    chosen = {}
    for pattern, label in setting.labels.items():
        line = SEPARATOR.join(filter(None, (setting.name, label)))
        head, star, _ = pattern.partition("*")
        if not star:
            chosen[pattern] = label
        elif line in found.tried:
            chosen[head + found.tried[line]] = label
    return chosen


def _values(
    measure: Measure, result: fedsim.Result, row: Row, fields: Mapping[str, Any]
) -> dict[str, pd.Series]:
    """Return a measure's values: variant -> a series by seed."""
    if measure.function:
        calculate: Callable[..., dict[str, pd.Series]] = functions.MEASURES[measure.function]
        return calculate(result, row, **measure.given)
    rounds = result.rounds
    column = measure.column
    if measure.total:
        groups = rounds.groupby(["variant", "seed"], sort=False, observed=True)
        rounds = rounds.assign(**{column: groups[column].cumsum()})
    at = measure.at.of(fields) if isinstance(measure.at, At) else measure.at
    at_rows = _rows(at, result, rounds)
    values = (at_rows[column] ** measure.power - measure.minus).astype(float)
    table = at_rows[["variant", "seed"]].assign(value=values)
    return {
        str(name): own.set_index("seed")["value"]
        for name, own in table.groupby("variant", observed=True)
    }


def _rows(at: str | int | At, result: fedsim.Result, rounds: pd.DataFrame) -> pd.DataFrame:
    """Return the rows of the round table at which a measure is taken, costs added up."""
    totals = cumulative(rounds)
    totals["bits"] = totals["bits_up"] + totals["bits_down"]
    if at == END:
        return totals.drop_duplicates(["variant", "seed"], keep="last")
    if isinstance(at, int):
        return totals[totals["round"] == at]
    if at == TARGET:
        at = At(level=float(result.summary["target"].max()))
    assert isinstance(at, At)  # noqa: S101 - the file was checked
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
