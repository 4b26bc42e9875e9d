"""What does a large fleet cost, from a thousand clients to a million?

A whole run through `fedsim.run`, with learning, its event log and its audit, in two forms:

    active      all clients are asked every round; 10 rows of 20 features each
    registered  1,000 are asked a round, or 100 of a fleet up to that; 2 rows of 20 features each

`--rows` gives them another number: of ten million clients 10 rows each take 16.8 GB, 2 rows 3.4 GB.

The data is read from a file, and all clients' losses are looked at after the last round only.
Each size runs in a process of its own. The table says, in seconds of processor time, what it takes
until the first round (reading, building, making the world), a round of clients that were asked
before, and the end (the last look, closing, auditing); in microseconds what a client takes more in
the round that asks it first, for what it is made of is made then (where all are active, that counts
to the start); the peak of memory, and that of a client above the imports; and what a client asked
leaves in the log. Growth is what a size takes, a client of the fleet, over what the size before it
takes: 1 is linear, and a round that costs the same for ten times as many registered 0.1.
`--csv` keeps the figures in a file, from which `scale_figure.py` draws.

    python analysis/benchmarks/scale.py
    python analysis/benchmarks/scale.py --form registered --largest 100000
    python analysis/benchmarks/scale.py --form active --only 131072
    FEDSIM_MEMORY="16 GB" python analysis/benchmarks/scale.py --form active --only 10000000 --rows 2
    python analysis/benchmarks/scale.py --csv analysis/benchmarks/scale.csv
"""

import argparse
import csv
import json
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from itertools import chain, islice, pairwise
from math import nan
from pathlib import Path
from statistics import median
from typing import Any, Literal

import numpy as np
import pandas as pd

from fedsim.core.ports import Array
from fedsim.protocol.participation import Sample, UniformParticipation

SIZES = (1_000, 10_000, 100_000, 1_000_000)
ROWS = {"active": 10, "registered": 2}
ROUNDS = {"active": 3, "registered": 12}
FEATURES = 20
FIGURES = ("start", "round", "first", "end", "peak", "client", "log")


class TwiceParticipation(Sample):
    """A uniform sample of two rounds; none of its clients was sampled before."""

    kind: Literal["twice"] = "twice"

    def order(self, samples: Array, number: int, rng: np.random.Generator) -> Iterable[int]:
        """Return a random order from a place on and around, the same in rounds 1 and 2, 3 and 4."""
        every, place = UniformParticipation(count=self.count), number // 2 * (self.count or 0)
        twice = [every.order(samples, number, np.random.default_rng(0)) for _ in range(2)]
        return chain(islice(twice[0], place, None), islice(twice[1], place))


def peak() -> int:
    """Return the peak of this process's resident memory so far, in kB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def asked(form: str, clients: int) -> int:
    """Return how many clients are sampled a round."""
    return clients if form == "active" else 1_000 if clients > 1_000 else 100


def scenario(form: str, clients: int, data: Path, rounds: int, kind: str) -> dict[str, Any]:
    """Return the scenario of a form, as it would be written, with a kind of participation."""
    some = {} if kind == "full" else {"count": asked(form, clients)}
    algorithm = {"kind": "fedavg", "step_size": 0.01, "local_steps": 1}
    policy = {"kind": kind, **some}
    blocks = fedavg(clients, data, rounds, algorithm=algorithm, participation=policy)
    return {"name": f"{form}-{clients}", **blocks}


def fedavg(clients: int, data: Path, rounds: int, **blocks: Any) -> dict[str, Any]:
    """Return a scenario of least squares on equal phones that is evaluated after its last round."""
    return {
        "problem": {
            "loss": {"kind": "squared"},
            "data": {"kind": "npz", "path": str(data)},
            "split": {"kind": "contiguous"},
            "optimum": "unknown",
        },
        "fleet": [{"count": clients, "device": "phone-mid", "radio": "lte"}],
        "observe": {"every": rounds},
        "stop": {"rounds": rounds},
        **blocks,
    }


def timed(scenario: dict[str, Any]) -> tuple[float, pd.DataFrame]:
    """Run a scenario; return the seconds of a round (the median of the later ones) and the rounds.

    The seconds are of processor time.
    """
    import fedsim.running.api  # not before the data is written

    moments = list[float]()
    with tempfile.TemporaryDirectory() as folder:
        study = fedsim.run(
            scenario, out=folder, watch=lambda _: moments.append(time.process_time())
        )
        table = pd.read_parquet(study.runs[0] / "rounds.parquet")
    return median(after - before for before, after in pairwise(moments)), table


@contextmanager
def data_of(clients: int, features: int) -> Iterator[Path]:
    """Write two rows for each client into a file that is deleted in the end."""
    with tempfile.TemporaryDirectory() as folder:
        data = Path(folder) / "data.npz"
        write_data(data, 2 * clients, features=features)
        yield data


def write_data(path: Path, rows: int, seed: int = 1, features: int = FEATURES) -> None:
    """Write rows of features from N(0, 1), and labels of a linear model with noise."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((rows, features))
    np.savez(path, X=X, y=X.sum(axis=1) + rng.standard_normal(rows))


def measured(form: str, clients: int, data: Path, kind: str) -> dict[str, float]:
    """Run a fleet of so many clients in this process, with a kind of participation.

    Returns:
        "start", "round", "end": seconds of processor time; "first": microseconds of it that a
        client takes more in its first round, where `kind` is "twice", else NaN; "peak": memory,
        MB; "client": bytes of memory a client, above what the imports took; "log": bytes of it for
        a client asked.
    """
    import fedsim.running.api  # not before the data is written

    rounds, moments = ROUNDS[form], list[float]()
    before, begun = peak(), time.process_time()
    with tempfile.TemporaryDirectory() as folder:
        fedsim.run(
            scenario(form, clients, data, rounds, kind),
            out=folder,
            blocks=[TwiceParticipation],
            watch=lambda _: moments.append(time.process_time()),
        )
        ended = time.process_time()
        log = sum(path.stat().st_size for path in Path(folder).rglob("events.parquet"))
    ends = moments[:rounds]
    # The last round is followed by the look at all clients, so it counts to the end.
    spans = [after - at for at, after in pairwise(ends[:-1])]
    few, twice = asked(form, clients), kind == "twice"
    each = median(spans[0::2] if twice else spans)
    return {
        "start": ends[0] - each - begun,
        "round": each,
        "first": 1e6 * (median(spans[1::2]) - each) / few if twice else nan,
        "end": ended - ends[-2] - each,
        "peak": peak() / 1024,
        "client": 1024 * (peak() - before) / clients,
        "log": log / (rounds * few),
    }


def child(form: str, clients: int, rows: int) -> dict[str, float]:
    """Measure in processes of their own, which read data that another one has written.

    The rounds of the registered are those of a run that asks twice; all else is that of a plain
    one, as the whole order of a custom policy is validated before it runs.
    """
    figures = dict[str, float]()
    with tempfile.TemporaryDirectory() as folder:
        data = Path(folder) / "data.npz"
        own = [sys.executable, str(Path(__file__).resolve()), "--form", form]
        own += ["--one", str(clients), "--data", str(data), "--rows", str(rows)]
        subprocess.run([*own, "--write"], check=True)
        for kind in ("full",) if form == "active" else ("twice", "uniform"):
            out = subprocess.run([*own, "--kind", kind], check=True, stdout=subprocess.PIPE).stdout
            once = figures
            figures = json.loads(out)
    return figures | {name: once[name] for name in ("round", "first") if once}


def line(clients: int, of: dict[str, float], before: tuple[int, dict[str, float]] | None) -> str:
    """Return a line of the table, with the growth since the size before."""
    text = (
        f"{clients:>9,}  {of['start']:>8.2f} s  {of['round']:>8.3f} s  {of['first']:>7.0f} us"
        f"  {of['end']:>8.2f} s  {of['peak']:>7.0f} MB  {of['client']:>8.0f} B  {of['log']:>6.0f} B"
    )
    if before is None:
        return text
    size, was = before
    more = clients / size
    growth = {key: of[key] / was[key] / more for key in ("start", "round", "end")}
    return text + "   " + ", ".join(f"{key} {ratio:.2f}" for key, ratio in growth.items())


def table(form: str, rows: int, sizes: list[int], file: Path | None) -> None:
    """Print the table of one form, and keep it in a file if there is one."""
    print(f"{form}, {rows} rows each\n  clients       start     a round", end="")
    print("   first ask         end       peak", end="")
    print("    a client       log   growth")
    before = None
    for clients in sizes:
        figures = child(form, clients, rows)
        print(line(clients, figures, before), flush=True)
        before = clients, figures
        if file is not None:
            keep(file, form, rows, clients, figures)


def keep(file: Path, form: str, rows: int, clients: int, figures: dict[str, float]) -> None:
    """Put a line into a table of figures, in the place of an older one of the same size."""
    lines = kept(file) if file.exists() else {}
    lines[form, rows, clients] = figures
    with file.open("w", newline="", encoding="utf-8") as text:
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow(("form", "rows", "clients", *FIGURES))
        for size, row in sorted(lines.items()):
            writer.writerow((*size, *(f"{row[name]:.4g}" for name in FIGURES)))


def kept(file: Path) -> dict[tuple[str, int, int], dict[str, float]]:
    """Return the figures of a table by form, number of rows of a client and number of clients."""
    with file.open(newline="", encoding="utf-8") as text:
        return {
            (row["form"], int(row["rows"]), int(row["clients"])): {
                name: float(row[name]) for name in FIGURES
            }
            for row in csv.DictReader(text)
        }


def main() -> None:
    """Print the tables, or measure one size, or write its data."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--form", choices=ROWS, help="one of the two")
    parser.add_argument("--rows", type=int, help="of each client; 10 if active, else 2")
    parser.add_argument("--largest", type=int, default=SIZES[-1])
    parser.add_argument("--only", type=int, help="this size alone")
    parser.add_argument("--csv", type=Path, help="keep the figures in this file, too")
    parser.add_argument("--one", type=int, help="measure this many clients, in this process")
    parser.add_argument("--kind", help="their participation")
    parser.add_argument("--data", type=Path, help="their rows")
    parser.add_argument("--write", action="store_true", help="write these, and no more")
    given = parser.parse_args()
    if given.write:
        write_data(given.data, (given.rows or ROWS[given.form]) * given.one)
    elif given.one:
        print(json.dumps(measured(given.form, given.one, given.data, given.kind)))
    else:
        sizes = [given.only] if given.only else [n for n in SIZES if n <= given.largest]
        for form in [given.form] if given.form else ROWS:
            table(form, given.rows or ROWS[form], sizes, given.csv)


if __name__ == "__main__":
    main()
