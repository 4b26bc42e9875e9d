"""How far is fedsim from packets?

    python analysis/reality/run.py             the errors against what ns-3 said once
    python analysis/reality/run.py simulate    the same after asking ns-3 anew (a minute)

The error of a case is that of the time at which the last of its messages has arrived, relative to
ns-3's: positive where the model is too slow. Where losses are random it is that of the median over
the seeds.
"""

import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np
import packets
import trains

Arrivals = Callable[[packets.Case, int], Sequence[float]]
"""Returns when the messages of a case arrive, under a seed, s."""

MODELS: Mapping[str, Arrivals] = {
    "fluid": lambda case, _: packets.by_fedsim(case, "fluid"),
    "lv08": lambda case, _: packets.by_fedsim(case, "lv08"),
    "trains": trains.by_trains,
}
KINDS = ("one flow", "many flows", "no losses", "random losses")


def kinds(case: packets.Case) -> tuple[str, ...]:
    """Return the rows of the table to which a case belongs."""
    if case.loss:
        return ("random losses",)
    return "one flow" if case.flows == 1 else "many flows", "no losses"


def errors(model: Arrivals) -> Iterator[tuple[str, packets.Case, float]]:
    """Yield the set, the case, and the relative error of every case."""
    runs: dict[tuple[str, packets.Case], list[tuple[float, float]]] = {}
    for name, case, seed, times in packets.read():
        runs.setdefault((name, case), []).append((max(model(case, seed)), max(times)))
    for (name, case), found in runs.items():
        ours, theirs = np.median(found, axis=0)
        yield name, case, float(ours / theirs - 1.0)


def report() -> None:
    """Print the table: by model, set and kind, the quantiles of the errors' sizes."""
    print(
        "| model | set | cases | number | median | 9 of 10 | worst |\n|---|---|---|---|---|---|---|"
    )
    for model, arrivals in MODELS.items():
        found: dict[tuple[str, str], list[float]] = {}
        for name, case, error in errors(arrivals):
            for kind in kinds(case):
                found.setdefault((name, kind), []).append(error)
        for name in packets.SETS:
            for kind in KINDS:
                off = np.array(found[name, kind])
                sizes = np.abs(off)
                worst = off[int(np.argmax(sizes))]
                print(
                    f"| `{model}` | {name} | {kind} | {len(off)} | {100 * np.median(sizes):.1f} %"
                    f" | {100 * np.quantile(sizes, 0.9):.0f} % | {100 * worst:+.0f} % |"
                )


def main(arguments: Sequence[str]) -> None:
    """Print the errors, after a simulation if that is asked for."""
    if list(arguments) == ["simulate"]:
        with tempfile.TemporaryDirectory() as folder:
            packets.write(packets.compile_ns3(Path(folder)))
    elif arguments:
        sys.exit(f"got {' '.join(arguments)}; expected nothing, or: simulate")
    report()


if __name__ == "__main__":
    main(sys.argv[1:])
