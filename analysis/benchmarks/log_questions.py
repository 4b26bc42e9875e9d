"""How long do the questions of a log take, and how much memory?

Makes a log of a million rows, and one of ten million, of the example's run: its rows again and
again, each time later and with other rounds. Every question is asked in a process of its own,
once for its time and once for the peak of what Python and NumPy allocate beside the log.

    python analysis/benchmarks/log_questions.py [ROWS ...]
"""

import json
import subprocess
import sys
import time
import tracemalloc
from collections.abc import Callable

import numpy as np
import pandas as pd

from fedsim import analysis

QUESTIONS: dict[str, Callable[[pd.DataFrame], object]] = {
    name: getattr(analysis, name)
    for name in (
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
    )
}
"""The questions that take an event log alone."""

RUNS = 10
"""Runs of the log, as seeds."""


def replicated(rows: int) -> pd.DataFrame:
    """Return a log of about so many rows in `RUNS` runs, made of the example's `chb`, seed 1."""
    events = analysis.example_log().events
    own = events[(events["variant"] == "chb") & (events["seed"] == 1)]
    times = max(rows // len(own), RUNS)
    copy = np.repeat(np.arange(times), len(own))
    log = own.take(np.tile(np.arange(len(own)), times)).reset_index(drop=True)
    per_run = -(-times // RUNS)
    later = copy % per_run
    log["seed"] = copy // per_run + 1
    log["t"] += later * float(own["t"].max())
    log["round"] += later * int(own["round"].max())
    return log


def ask(name: str, rows: int) -> dict[str, float]:
    """Return what a question takes on a log: its rows, seconds, and megabytes of log and more."""
    log = replicated(rows)
    start = time.perf_counter()
    QUESTIONS[name](log)
    seconds = time.perf_counter() - start
    tracemalloc.start()
    QUESTIONS[name](log)
    more = tracemalloc.get_traced_memory()[1] / 1e6
    held = float(log.memory_usage(deep=False).sum()) / 1e6
    return {"rows": len(log), "seconds": seconds, "log": held, "more": more}


def main() -> None:
    """Print a row a question and size."""
    if sys.argv[1:2] == ["--one"]:
        print(json.dumps(ask(sys.argv[2], int(sys.argv[3]))))
        return
    print(f"{'question':20} {'rows':>12} {'s':>8} {'rows/s':>12} {'log, MB':>8} {'more, MB':>9}")
    for rows in map(int, sys.argv[1:] or ("1_000_000", "10_000_000")):
        for name in QUESTIONS:
            command = [sys.executable, __file__, "--one", name, str(rows)]
            said = subprocess.run(command, check=True, capture_output=True, text=True)  # noqa: S603
            found = json.loads(said.stdout)
            speed = found["rows"] / found["seconds"]
            print(
                f"{name:20} {found['rows']:12,} {found['seconds']:8.2f} {speed:12,.0f}"
                f" {found['log']:8.0f} {found['more']:9.0f}",
                flush=True,
            )


if __name__ == "__main__":
    main()
