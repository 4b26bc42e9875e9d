"""The history of a folder of runs: lines of each call of `run`.

There is one at its begin, one per run that it made, and one at its end. A call that was killed has
no last line. The history is a journal, `OUT/.history.jsonl` (`fedsim.results.record.journal`). No
result depends on it.
"""

import os
import platform
from collections import Counter
from collections.abc import Hashable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from math import isnan, nan
from pathlib import Path
from secrets import token_hex
from statistics import fmean
from typing import Any

from fedsim.core.errors import DataError, FedsimError
from fedsim.core.extras import VERSION
from fedsim.core.signals import defer_signals
from fedsim.core.table_columns import JOULES_AFTER, higher_is_better
from fedsim.core.text import format_number, quantity
from fedsim.results.best import feasible_figure
from fedsim.results.record.folder import HISTORY, SUMMARY
from fedsim.results.record.journal import append_lines, read_lines
from fedsim.results.record.lock import command_line, is_held, may_run
from fedsim.results.record.read import hold_no_runs, missing, run_folders
from fedsim.results.record.studies import Study
from fedsim.results.record.summary import end_of
from fedsim.results.result import Result

DONE, STOPPED, FAILED = "done", "stopped", "failed"
"""How a call has ended: all runs have ended well, it was interrupted, or some have failed."""

RUNNING, KILLED = "running", "never ended"
"""What is shown for a call without an end: its process may be at work, or was killed."""

_LONGEST = 200  # characters of a reason


@dataclass
class OpenCall:
    """A call of `run` that is in progress.

    Attributes:
        counts: of its runs; see `Campaign.counts`.
        result: its one-line result, once it is known.
        ended: one of `DONE` and `FAILED`.
        out: the folder of all runs.
        serial: names the call in its history.
    """

    out: Path
    serial: str = field(default_factory=lambda: token_hex(8))
    counts: Counter[str] = field(default_factory=Counter)
    result: str = ""
    ended: str = DONE

    def note(self) -> None:
        """Record the runs so far, which are thereby known even if the process is killed."""
        append_lines(self.out / HISTORY, {"call": self.serial, **self.numbers})

    @property
    def numbers(self) -> dict[str, int]:
        """The numbers of runs that a history has."""
        return {name: self.counts[name] for name in ("made", "kept", "back", "failed")}

    def close(self, result: Result) -> None:
        """Register the runs of the call."""
        summary = result.summary
        if not summary.empty:
            self.result = best_at_target(result) or best_variant(summary.to_dict("records"))
            if any(end_of(status).code for status in summary["status"]):
                self.ended = FAILED


@contextmanager
def record_call(
    out: Path, study: Study, runs: int, shard: str, *, fresh: bool
) -> Iterator[OpenCall]:
    """Record a call of `run` in the history of its folder, at its begin and at its end.

    Args:
        out: the folder of all runs, whose lock is held.
        study: of the call.
        runs: the number of its runs.
        shard: as K/N; empty for all runs.
        fresh: whether existing runs are made again.
    """
    call = OpenCall(out)
    seeds = [len(seeds_of_variant) for seeds_of_variant in study.seeds.values()]
    begun = {
        "call": call.serial,
        "begun": _now(),
        "name": study.name,
        "file": study.file,
        "digest": study.digest,
        "variants": len(study.variants),
        "seeds": max(seeds, default=0),
        "runs": runs,
        "shard": shard,
        "fresh": fresh,
        "command": command_line(),
        "fedsim": VERSION,
        "host": platform.node(),
        "process": os.getpid(),
    }
    append_lines(out / HISTORY, begun)
    try:
        yield call
    except BaseException as error:
        stopped = not isinstance(error, Exception)
        reason = "" if stopped else _reason(error)
        with defer_signals():
            _end(call, STOPPED if stopped else FAILED, reason)
        raise
    _end(call, call.ended, call.result)


def _end(call: OpenCall, ended: str, result: str) -> None:
    line = {"over": _now(), "ended": ended, **call.numbers, "result": result}
    append_lines(call.out / HISTORY, {"call": call.serial, **line})


def _reason(error: BaseException) -> str:
    text = str(error) if isinstance(error, FedsimError) else f"{type(error).__name__}: {error}"
    first = text.strip().partition("\n")[0]
    return first if len(first) <= _LONGEST else f"{first[:_LONGEST]}..."


def _now() -> str:
    return f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}"


def best_at_target(result: Result) -> str:
    """Return the best variant of a study that has another target than a gap; empty without one.

    It is the one that took the least energy to the target, of the variants whose runs have all met
    it. If there is none, it is the one that came closest.
    """
    from fedsim.results.analysis import Target  # few studies need it

    target = Target.usual(result)
    if target.measure in ("", "gap") or target.measure not in result.rounds:
        return ""
    by_variant = target.costs(result).groupby("variant", observed=True)
    means = by_variant["joules"].mean()[by_variant["reached"].all()]
    spent = {str(name): float(joules) for name, joules in means.items()}
    if best := _least(spent):
        return f"{best}: {quantity(spent[best], 'J')} to {target}"
    figures = result.rounds.assign(figure=feasible_figure(result.rounds, target.measure))
    sign = -1.0 if higher_is_better(target.measure) else 1.0
    nearest = (sign * figures["figure"]).groupby([figures["variant"], figures["seed"]]).min()
    means = nearest.groupby("variant").mean()
    best = _least({str(name): float(figure) for name, figure in means.items()})
    if not best:
        return ""
    return f"{best}: {target.measure} {format_number(sign * means[best], '.3g')}"


def best_variant(rows: Sequence[Mapping[Hashable, Any]]) -> str:
    """Return the best variant of a study in a few words.

    If all runs were to stop at a gap, it is the one that took the least energy, of the variants
    whose runs have all reached it. Else it is the one with the least gap at the end, or the least
    objective where no gap is known.

    A run whose last model breaks its constraint has reached nothing, and is not the best.

    Args:
        rows: the summaries of the runs.
    """
    by_variant: dict[str, list[Mapping[Hashable, Any]]] = {}
    for row in rows:
        by_variant.setdefault(row["variant"], []).append(row)
    target = max(_number(row, "target") for row in rows)  # NaN if one has none
    reached = {
        name: fmean(_number(row, "joules") + _joules_after(row) for row in rows_of_variant)
        for name, rows_of_variant in by_variant.items()
        if all(_at_end(row, "gap") <= _number(row, "target") for row in rows_of_variant)
    }
    if best := _least(reached):
        return f"{best}: {quantity(reached[best], 'J')} to gap={target:g}"
    measure = "objective" if any(isnan(_number(row, "gap")) for row in rows) else "gap"
    ends = {
        name: fmean(_at_end(row, measure) for row in rows_of_variant)
        for name, rows_of_variant in by_variant.items()
    }
    best = _least(ends)
    return f"{best}: {measure} {format_number(ends[best], '.3g')}" if best else ""


def _number(row: Mapping[Hashable, Any], name: str) -> float:
    value = row.get(name)
    return nan if value is None else float(value)


def _joules_after(row: Mapping[Hashable, Any]) -> float:
    """Return what radios take after a run until they sleep, J; 0 if that is not known."""
    joules = _number(row, JOULES_AFTER)
    return 0.0 if isnan(joules) else joules


def _at_end(row: Mapping[Hashable, Any], name: str) -> float:
    """Return a figure of the last model; NaN if that breaks its constraint."""
    return nan if _number(row, "feasible") == 0 else _number(row, name)


def _least(values: Mapping[str, float]) -> str:
    """Return the name of the least value; empty if none is a number."""
    finite = {name: value for name, value in values.items() if not isnan(value)}
    return min(finite, key=lambda name: finite[name]) if finite else ""


@dataclass(frozen=True)
class PastCall:
    """A call of `run`, as a history has it.

    Attributes:
        begun, over: times, in UTC; over is empty if it has not ended.
        name, file, digest: of its scenario; the digest is of all variants.
        variants, seeds, runs: their numbers.
        shard: as K/N; empty for all runs.
        fresh: whether existing runs were made again.
        fedsim: the version.
        ended: one of `DONE`, `STOPPED`, `FAILED`, `RUNNING` and `KILLED`.
        made, kept, back, failed: numbers of runs; `back` came back from `.earlier`.
        result: its best variant, or why it failed.
    """

    begun: str = ""
    over: str = ""
    name: str = ""
    file: str = ""
    digest: str = ""
    variants: int = 0
    seeds: int = 0
    runs: int = 0
    shard: str = ""
    fresh: bool = False
    fedsim: str = ""
    ended: str = KILLED
    made: int = 0
    kept: int = 0
    back: int = 0
    failed: int = 0
    result: str = ""


def read_history(out: Path) -> list[PastCall]:
    """Return the calls of `run` that a folder's history has, the oldest first."""
    calls: dict[str, dict[str, Any]] = {}
    for line in read_lines(out / HISTORY):
        serial = line.get("call")
        if isinstance(serial, str):
            calls.setdefault(serial, {}).update(line)
    held = is_held(out)
    return [_past_call(each, held=held) for each in calls.values()]


def runs_without_history(out: Path) -> str:
    """Describe a folder whose history has no call.

    Raises:
        DataError: it holds no runs either.
    """
    runs = run_folders(out) if out.is_dir() else []
    if not runs:
        raise (
            missing("history", out) if not out.is_dir() else DataError("history", hold_no_runs(out))
        )
    dates = [summary.stat().st_mtime for path in runs for summary in path.glob(SUMMARY)]
    spans = [f"{datetime.fromtimestamp(date, UTC):%Y-%m-%d %H:%M}" for date in sorted(dates)]
    when = f", ended from {spans[0]} to {spans[-1]} (UTC)" if spans else ""
    counted = "1 run" if len(runs) == 1 else f"{len(runs)} runs"
    text = (
        "has no history: earlier versions of fedsim recorded none, and a part of a study has none"
    )
    return f"{out} {text}; it holds {counted}{when}"


def _past_call(held_line: Mapping[str, Any], *, held: bool) -> PastCall:
    """Return a call from its lines; an entry of another type counts as missing."""
    entries = {
        name: held_line[name]
        for name, kind in PastCall.__annotations__.items()
        if type(held_line.get(name)) is kind
    }
    running = held and may_run(held_line.get("host"), held_line.get("process"))
    entries.setdefault("ended", RUNNING if running else KILLED)
    return PastCall(**entries)
