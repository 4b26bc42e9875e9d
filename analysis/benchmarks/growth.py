"""How does the cost of a run grow with clients, rounds, dimension, rows and messages in flight?

Each axis is a scenario in which one number grows and all others stay:

    active      clients that are all asked in each of three rounds, over radios of their own
    registered  clients, 1,000 of which are asked a round, three rounds
    in flight   active clients whose messages share the server's link, all at once
    rounds      of ten clients on the ideal network
    dimension   of the model, four clients, two rows each
    rows        of ten clients together, full gradients of 20 features, three rounds

Each size runs through `fedsim.run` in a process of its own. A table gives its processor time, its
peak of memory and the bytes of its log, and the exponent of each: that of the power of the size
by which the cost above the smallest size's grows, fitted by least squares to the larger sizes in
logarithms. An exponent of 1 is proportional growth, 0 none. What is above 1.05 is marked.

    python analysis/benchmarks/growth.py                      to the usual sizes, some 10 minutes
    python analysis/benchmarks/growth.py --axis rounds --least 1e6 --largest 1e6
    FEDSIM_MEMORY="30 GB" python analysis/benchmarks/growth.py --axis dimension --largest 1e8
    python analysis/benchmarks/growth.py --page               writes the table and the figure
"""

import argparse
import csv
import json
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import inf, isnan, log, nan
from pathlib import Path
from typing import Any

import numpy as np

HERE = Path(__file__).resolve().parent
TABLE = HERE / "growth.csv"
FIGURE = HERE.parent / "figures" / "growth.png"
FIGURES = {"processor": "s", "memory": "MB", "log": "kB"}
"""What is measured, and in which unit."""

LIMIT = 1.05
"""The exponent above which a growth is marked."""

Figures = Mapping[str, float]


def study(data: Path, **keys: Any) -> dict[str, Any]:
    """Return a scenario of federated averaging that looks at its objective at the end only."""
    rounds = keys.pop("rounds", 3)
    return {
        "name": "growth",
        "problem": {
            "loss": {"kind": "squared"},
            "data": {"kind": "npz", "path": str(data)},
            "split": {"kind": "contiguous", **keys.pop("split", {})},
            "optimum": "unknown",
        },
        "algorithm": {"kind": "fedavg", "step_size": 1e-9, "local_steps": 1},
        "observe": {"every": rounds},
        "stop": {"rounds": rounds},
        **keys,
    }


def fleet(clients: int) -> list[dict[str, Any]]:
    """Return a fleet of phones whose tasks take distinct times."""
    device = {"kind": "phone-mid", "slowdown": {"kind": "lognormal", "sigma": 0.5}}
    return [{"count": clients, "device": device, "radio": "lte"}]


@dataclass(frozen=True)
class Axis:
    """A number that grows: its sizes, the shape of the data, and the scenario of a size."""

    sizes: tuple[int, ...]
    shape: Callable[[int], tuple[int, int]]
    scenario: Callable[[int, Path], dict[str, Any]]


AXES = {
    "active": Axis(
        (100, 1_000, 10_000, 100_000),
        lambda clients: (2 * clients, 20),
        lambda clients, data: study(data, fleet=fleet(clients)),
    ),
    "registered": Axis(
        (2_000, 10_000, 100_000, 1_000_000),
        lambda clients: (2 * clients, 20),
        lambda clients, data: study(
            data, fleet=fleet(clients), participation={"kind": "uniform", "count": 1000}
        ),
    ),
    "in flight": Axis(
        (100, 1_000, 10_000, 100_000),
        lambda clients: (2 * clients, 20),
        lambda clients, data: study(
            data,
            fleet=fleet(clients),
            network={"server": {"uplink": "10 Mbit/s", "downlink": "10 Mbit/s"}},
        ),
    ),
    "rounds": Axis(
        (100, 1_000, 10_000, 100_000),
        lambda _: (100, 20),
        lambda rounds, data: study(data, rounds=rounds, split={"clients": 10}),
    ),
    "dimension": Axis(
        (1_000, 100_000, 1_000_000, 10_000_000),
        lambda dimension: (8, dimension),
        lambda _, data: study(data, split={"clients": 4}),
    ),
    "rows": Axis(
        (1_000, 10_000, 100_000, 1_000_000, 5_000_000),
        lambda rows: (rows, 20),
        lambda _, data: study(data, split={"clients": 10}),
    ),
}


def write_data(path: Path, rows: int, features: int) -> None:
    """Write rows of features from N(0, 1), with labels."""
    rng = np.random.default_rng(1)
    np.savez(path, X=rng.standard_normal((rows, features)), y=rng.standard_normal(rows))


def measured(axis: str, size: int, data: Path) -> dict[str, float]:
    """Run one size in this process.

    Returns:
        "processor": of the run, s; "memory": the peak of this process, MB; "log": kB.
    """
    import fedsim.running.api  # its time and memory are not the run's

    begun = time.process_time()
    with tempfile.TemporaryDirectory() as folder:
        fedsim.run(AXES[axis].scenario(size, data), out=folder)
        spent = time.process_time() - begun
        written = sum(path.stat().st_size for path in Path(folder).rglob("events.parquet"))
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return {"processor": spent, "memory": peak / 1024, "log": written / 1e3}


def child(axis: str, size: int) -> dict[str, float]:
    """Measure one size in a process of its own, which reads what another one has written."""
    with tempfile.TemporaryDirectory() as folder:
        own = [sys.executable, str(Path(__file__).resolve()), "--axis", axis]
        own += ["--one", str(size), "--data", str(Path(folder) / "data.npz")]
        subprocess.run([*own, "--write"], check=True)
        out = subprocess.run(own, check=True, stdout=subprocess.PIPE).stdout
    return dict(json.loads(out))


def exponent(costs: Mapping[int, float]) -> float:
    """Return the power of the size by which what a size costs above the smallest one grows.

    Args:
        costs: by size, at least three; the smallest one is what is there without growth.

    Returns:
        The slope of a least-squares line through log(cost - least cost) over log(size - least
        size), of those sizes that cost a tenth more than the smallest one; 0 if none of them does,
        and not a number where one alone does.
    """
    (least, base), *others = sorted(costs.items())
    grown = [(log(size - least), log(cost - base)) for size, cost in others if cost > 1.1 * base]
    if not grown:
        return 0.0
    if len(grown) == 1:
        return nan
    x, y = np.array(grown).T
    return float(np.polyfit(x, y, 1)[0])


def exponents(sizes: Mapping[int, Figures]) -> dict[str, float]:
    """Return the exponent of each figure."""
    return {name: exponent({size: of[name] for size, of in sizes.items()}) for name in FIGURES}


def told(power: float) -> str:
    """Return an exponent as the table has it, in bold above the limit."""
    if isnan(power):
        return "-"
    return f"**{power:.2f}**" if power > LIMIT else f"{power:.2f}"


def table(axes: Mapping[str, Mapping[int, Figures]]) -> str:
    """Return the table of all sizes and exponents, in Markdown."""
    lines = [
        "| what grows | from | to | processor time | memory | log | exponents of the three |",
        "|---|---|---|---|---|---|---|",
    ]
    for axis, sizes in axes.items():
        powers = ", ".join(map(told, exponents(sizes).values()))
        ends = min(sizes), max(sizes)
        spans = [
            " to ".join(f"{float(f'{sizes[end][name]:.3g}'):,g}" for end in ends) + f" {unit}"
            for name, unit in FIGURES.items()
        ]
        lines.append(f"| {axis} | {ends[0]:,} | {ends[1]:,} | {' | '.join(spans)} | {powers} |")
    return "\n".join(lines)


def keep(file: Path, axes: Mapping[str, Mapping[int, Figures]]) -> None:
    """Write the figures of all axes and sizes."""
    with file.open("w", newline="", encoding="utf-8") as text:
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow(("axis", "size", *FIGURES))
        for axis, sizes in axes.items():
            for size, of in sorted(sizes.items()):
                writer.writerow((axis, size, *(f"{of[name]:.4g}" for name in FIGURES)))


def kept(file: Path) -> dict[str, dict[int, Figures]]:
    """Return the figures of a file by axis and size."""
    axes: dict[str, dict[int, Figures]] = {}
    with file.open(newline="", encoding="utf-8") as text:
        for row in csv.DictReader(text):
            of = {name: float(row[name]) for name in FIGURES}
            axes.setdefault(row["axis"], {})[int(row["size"])] = of
    return axes


def draw(axes: Mapping[str, Mapping[int, Figures]], file: Path) -> None:
    """Draw what each axis costs above its smallest size."""
    from fedsim.results.analysis import COLOURS, label_axis, name_variants, panels, save
    from fedsim.results.analysis.style import entitle

    figure, plots = panels(len(FIGURES), 3, 3.0)
    for (axis, sizes), colour in zip(axes.items(), COLOURS * 2, strict=False):
        ordered = sorted(sizes)
        for plot, name in zip(plots, FIGURES, strict=True):
            values = [sizes[size][name] for size in ordered]
            plot.plot(ordered, values, marker=".", color=colour, label=axis)
    for plot, (name, unit) in zip(plots, FIGURES.items(), strict=True):
        label_axis(plot.xaxis, "size", log=True)
        label_axis(plot.yaxis, f"{name}, {unit}", log=True)
    name_variants(figure)
    entitle(figure, "How the cost of a run grows")
    save(figure, file)


def joined(
    kept: Mapping[str, Mapping[int, Figures]], found: Mapping[str, Mapping[int, Figures]]
) -> dict[str, dict[int, Figures]]:
    """Return the figures of all sizes that were measured, now or before; new ones count."""
    return {axis: {**kept.get(axis, {}), **found.get(axis, {})} for axis in {**kept, **found}}


def measure(axes: list[str], least: float, largest: float) -> dict[str, dict[int, Figures]]:
    """Measure the sizes of some axes, and print each as it comes."""
    found: dict[str, dict[int, Figures]] = {}
    for axis in axes:
        own = AXES[axis].sizes
        further = [] if largest in (*own, inf) or largest < own[-1] else [int(largest)]
        for size in [n for n in (*own, *further) if least <= n <= largest]:
            found.setdefault(axis, {})[size] = of = child(axis, size)
            line = "  ".join(f"{of[name]:10.4g} {unit}" for name, unit in FIGURES.items())
            print(f"{axis:<11} {size:>12,}  {line}", flush=True)
        if axis in found:
            powers = ", ".join(map(told, exponents(found[axis]).values()))
            print(f"{axis:<11} exponents: {powers}")
    return found


def main() -> None:
    """Measure and print, or measure one size, or write its data."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--axis", choices=AXES, help="this one alone")
    parser.add_argument("--least", type=float, default=0, help="no smaller sizes")
    parser.add_argument("--largest", type=float, default=inf, help="no larger sizes, or one more")
    parser.add_argument("--page", action="store_true", help="keep the figures, draw, and print")
    parser.add_argument("--one", type=int, help="measure this size, in this process")
    parser.add_argument("--data", type=Path, help="its rows")
    parser.add_argument("--write", action="store_true", help="write these, and no more")
    given = parser.parse_args()
    if given.write:
        write_data(given.data, *AXES[given.axis].shape(given.one))
    elif given.one:
        print(json.dumps(measured(given.axis, given.one, given.data)))
    else:
        found = measure([given.axis] if given.axis else [*AXES], given.least, given.largest)
        if given.page:
            found = joined(kept(TABLE) if TABLE.exists() else {}, found)
            keep(TABLE, found)
            draw(found, FIGURE)
        print(table(found))


if __name__ == "__main__":
    main()
