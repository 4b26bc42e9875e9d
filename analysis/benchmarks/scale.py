"""What does a large fleet cost, from a thousand clients to a million?

A whole run through `fedsim.run`, with learning, its event log and its audit, in two forms:

    active      all clients are asked every round; 10 rows of 20 features each
    registered  1,000 are asked a round, or 100 of a fleet up to that; 2 rows of 20 features each

The data is read from a file, and all clients' losses are looked at after the last round only.
Each size runs in a process of its own. The table says, in seconds of processor time, what it takes
until the first round (reading, building, making the world), a round, and the end (the last look,
closing, auditing); the peak of memory, and that of a client above the imports; and what a client
asked leaves in the log. Growth is what a size takes, a client of the fleet, over what the size
before it takes: 1 is linear, and a round that costs the same for ten times as many registered 0.1.

    python analysis/benchmarks/scale.py
    python analysis/benchmarks/scale.py --form registered --largest 100000
    python analysis/benchmarks/scale.py --form active --only 131072
"""

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import Any

SIZES = (1_000, 10_000, 100_000, 1_000_000)
ROWS = {"active": 10, "registered": 2}
ROUNDS = {"active": 3, "registered": 11}
FEATURES = 20


def peak() -> int:
    """Return the peak of this process's resident memory so far, in kB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def asked(form: str, clients: int) -> int:
    """Return how many clients are asked a round."""
    return clients if form == "active" else 1_000 if clients > 1_000 else 100


def scenario(form: str, clients: int, data: Path, rounds: int) -> dict[str, Any]:
    """Return the scenario of a form, as it would be written."""
    some = {"kind": "uniform", "count": asked(form, clients)}
    return {
        "name": f"{form}-{clients}",
        "problem": {
            "loss": {"kind": "squared"},
            "data": {"kind": "npz", "path": str(data)},
            "split": {"kind": "contiguous"},
            "optimum": "unknown",
        },
        "fleet": [{"count": clients, "device": "phone-mid", "radio": "lte"}],
        "algorithm": {"kind": "fedavg", "step_size": 0.01, "local_steps": 1},
        "participation": {"kind": "full"} if form == "active" else some,
        "observe": {"every": rounds},
        "stop": {"rounds": rounds},
    }


def write_data(path: Path, rows: int, seed: int = 1) -> None:
    """Write rows of features from N(0, 1), and labels of a linear model with noise."""
    import numpy as np  # noqa: PLC0415 - in a process that ends before the run

    rng = np.random.default_rng(seed)
    X = rng.standard_normal((rows, FEATURES))
    np.savez(path, X=X, y=X.sum(axis=1) + rng.standard_normal(rows))


def measured(form: str, clients: int, data: Path) -> dict[str, float]:
    """Run a fleet of so many clients in this process.

    Returns:
        "start", "round", "end": seconds of processor time; "peak": memory, MB; "client": bytes
        of memory a client, above what the imports took; "log": bytes of it for a client asked.
    """
    import fedsim.running.api  # noqa: PLC0415 - not before the data is written

    rounds, moments = ROUNDS[form], list[float]()
    before, begun = peak(), time.process_time()
    with tempfile.TemporaryDirectory() as folder:
        fedsim.run(
            scenario(form, clients, data, rounds),
            out=folder,
            watch=lambda _: moments.append(time.process_time()),
        )
        ended = time.process_time()
        log = sum(path.stat().st_size for path in Path(folder).rglob("events.parquet"))
    ends = moments[:rounds]
    # The last round is followed by the look at all clients, so it counts to the end.
    each = median(after - at for at, after in pairwise(ends[:-1]))
    return {
        "start": ends[0] - each - begun,
        "round": each,
        "end": ended - ends[-2] - each,
        "peak": peak() / 1024,
        "client": 1024 * (peak() - before) / clients,
        "log": log / (rounds * asked(form, clients)),
    }


def child(form: str, clients: int) -> dict[str, float]:
    """Measure in a process of its own, which reads data that another one has written."""
    with tempfile.TemporaryDirectory() as folder:
        data = Path(folder) / "data.npz"
        own = [sys.executable, str(Path(__file__).resolve()), "--form", form]
        own += ["--one", str(clients), "--data", str(data)]
        subprocess.run([*own, "--write"], check=True)  # noqa: S603
        out = subprocess.run(own, check=True, capture_output=True, text=True).stdout  # noqa: S603
    figures: dict[str, float] = json.loads(out)
    return figures


def line(clients: int, of: dict[str, float], before: tuple[int, dict[str, float]] | None) -> str:
    """Return a line of the table, with the growth since the size before."""
    text = (
        f"{clients:>9,}  {of['start']:>8.2f} s  {of['round']:>8.3f} s  {of['end']:>8.2f} s"
        f"  {of['peak']:>7.0f} MB  {of['client']:>8.0f} B  {of['log']:>6.0f} B"
    )
    if before is None:
        return text
    size, was = before
    more = clients / size
    growth = {key: of[key] / was[key] / more for key in ("start", "round", "end")}
    return text + "   " + ", ".join(f"{key} {ratio:.2f}" for key, ratio in growth.items())


def table(form: str, sizes: list[int]) -> None:
    """Print the table of one form."""
    print(f"{form}\n  clients       start     a round         end       peak    a client     log")
    before = None
    for clients in sizes:
        figures = child(form, clients)
        print(line(clients, figures, before), flush=True)
        before = clients, figures


def main() -> None:
    """Print the tables, or measure one size, or write its data."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--form", choices=ROWS, help="one of the two")
    parser.add_argument("--largest", type=int, default=SIZES[-1])
    parser.add_argument("--only", type=int, help="this size alone")
    parser.add_argument("--one", type=int, help="measure this many clients, in this process")
    parser.add_argument("--data", type=Path, help="their rows")
    parser.add_argument("--write", action="store_true", help="write these, and no more")
    given = parser.parse_args()
    if given.write:
        write_data(given.data, ROWS[given.form] * given.one)
    elif given.one:
        print(json.dumps(measured(given.form, given.one, given.data)))
    else:
        sizes = [given.only] if given.only else [n for n in SIZES if n <= given.largest]
        for form in [given.form] if given.form else ROWS:
            table(form, sizes)


if __name__ == "__main__":
    main()
