"""How long do the questions of a log take, and how much memory?

Makes a log of so many rows of the example's run: its rows again and again, each time later and with
other rounds, as ten runs and as a single one. Every question is asked once in a process of its own;
seconds are of processor time.

    python analysis/benchmarks/log_questions.py [ROWS ...]
"""

import json
import resource
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from fedsim.results import analysis
from fedsim.results.analysis import Log

_OF_EVENTS = (
    "bits_by_message",
    "bits_by_layer",
    "lost_messages",
    "server_queue",
    "battery_deaths",
    "round_outcomes",
    "participation",
    "silences",
    "staleness",
    "stragglers",
    "deciding_clients",
    "critical_path",
    "client_utilisation",
    "link_utilisation",
    "waiting_by_cause",
)


def _of_events(name: str) -> Callable[[Log], object]:
    return lambda log: getattr(analysis, name)(log.events)


QUESTIONS: dict[str, Callable[[Log], object]] = {
    **{name: _of_events(name) for name in _OF_EVENTS},
    "idle_and_tail": lambda log: analysis.idle_and_tail(log.events, log.clients),
}
"""The questions that read the event log."""

RUNS = (10, 1)
"""Runs of the log, as seeds."""


def replicated(rows: int, runs: int) -> Log:
    """Return tables of about so many rows in so many runs, made of the example's `chb`, seed 1.

    Column by column, so that making it needs no more memory than the log has.
    """
    example = analysis.example_log()
    events, clients = (
        table[(table["variant"] == "chb") & (table["seed"] == 1)].reset_index(drop=True)
        for table in (example.events, example.clients)
    )
    times = max(-(-rows // len(events)), runs)
    per_run = -(-times // runs)
    copy = np.repeat(np.arange(times, dtype=np.int32), len(events))
    columns = {name: _repeated(events[name], times) for name in events}
    columns["seed"] = pd.Series(copy // per_run + np.int64(1))
    copy %= per_run
    columns["t"] += copy * float(events["t"].max())
    columns["round"] += copy * np.int32(events["round"].max())
    several = pd.concat([clients.assign(seed=number + 1) for number in range(runs)])
    return Log(pd.DataFrame(columns, copy=False), example.rounds, several)


def _repeated(column: "pd.Series[Any]", times: int) -> "pd.Series[Any]":
    """Return a column again and again, with its type."""
    if isinstance(column.dtype, pd.CategoricalDtype):
        codes = np.tile(column.cat.codes.to_numpy(), times)
        return pd.Series(pd.Categorical.from_codes(codes, dtype=column.dtype))
    return pd.Series(np.tile(column.to_numpy(), times))


def ask(name: str, rows: int, runs: int) -> dict[str, float]:
    """Return what a question takes on a log: its rows, seconds, and megabytes of log and more.

    More is the highest of the process's resident memory while the question is answered, less what
    it was before.
    """
    log = replicated(rows, runs)
    before = _peak(anew=True)
    start = time.process_time()
    QUESTIONS[name](log)
    seconds = time.process_time() - start
    more = _peak() - before
    held = float(log.events.memory_usage(deep=False).sum()) / 1e6
    return {"rows": len(log.events), "seconds": seconds, "log": held, "more": more}


def _peak(*, anew: bool = False) -> float:
    """Return the highest resident memory of this process, MB; anew: from now on.

    Only Linux starts anew; elsewhere what making the log needed beside it stays hidden in the peak.
    """
    if anew:
        with suppress(OSError):
            Path("/proc/self/clear_refs").write_text("5", encoding="ascii")
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def main() -> None:
    """Print a row a question, size and number of runs."""
    if sys.argv[1:2] == ["--one"]:
        print(json.dumps(ask(sys.argv[2], int(sys.argv[3]), int(sys.argv[4]))))
        return
    print(f"{'question':20} {'rows':>12} {'runs':>5} {'s':>8} {'log, MB':>8} {'more, MB':>9}")
    for rows in map(int, sys.argv[1:] or ("1_000_000", "10_000_000")):
        for runs in RUNS:
            for name in QUESTIONS:
                command = [sys.executable, __file__, "--one", name, str(rows), str(runs)]
                said = subprocess.run(command, check=True, capture_output=True, text=True)
                found = json.loads(said.stdout)
                print(
                    f"{name:20} {found['rows']:12,} {runs:5} {found['seconds']:8.2f}"
                    f" {found['log']:8.0f} {found['more']:9.0f}",
                    flush=True,
                )


if __name__ == "__main__":
    main()
