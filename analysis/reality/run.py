"""How far is fedsim from packets?

    python analysis/reality/run.py             the errors against what ns-3 said once
    python analysis/reality/run.py simulate    the same after asking ns-3 anew (a minute)

The error of a case is that of the time at which the last of its messages has arrived, relative to
ns-3's: positive where the model is too slow. Where losses are random there are two: of the median
over the seeds, and of the time that nine of ten stay below.
"""

import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import packets

from fedsim.sim.network.transmission import Sharing

MODELS: Sequence[Sharing] = ("fluid", "lv08", "tcp")
KINDS = ("one flow", "many flows", "no losses", "random losses: median", "random losses: 9 of 10")


def errors(model: Sharing) -> Iterator[tuple[str, str, packets.Case, float]]:
    """Yield the set, the row of the table, the case, and the relative error."""
    runs: dict[tuple[str, packets.Case], list[tuple[float, float]]] = {}
    for name, case, seed, times in packets.read():
        ours = max(packets.by_fedsim(case, model, seed))
        runs.setdefault((name, case), []).append((ours, max(times)))
    for (name, case), found in runs.items():
        if not case.loss:
            ours, theirs = found[0]
            yield name, KINDS[case.flows > 1], case, ours / theirs - 1.0
            yield name, KINDS[2], case, ours / theirs - 1.0
            continue
        for kind, share in zip(KINDS[3:], (0.5, 0.9), strict=True):
            ours, theirs = np.quantile(found, share, axis=0)
            yield name, kind, case, float(ours / theirs - 1.0)


def report() -> None:
    """Print the table: by model, set and kind, the mean and the quantiles of the errors' sizes."""
    print("| model | set | cases | number | mean | median | 9 of 10 | worst |")
    print("|---|---|---|---|---|---|---|---|")
    for model in MODELS:
        found: dict[tuple[str, str], list[float]] = {}
        for name, kind, _, error in errors(model):
            found.setdefault((name, kind), []).append(error)
        for name in packets.SETS:
            for kind in KINDS:
                print(f"| `{model}` | {name} | {kind} | {_row(found[name, kind])} |")


def _row(found: Sequence[float]) -> str:
    """Return the cells of some errors."""
    sizes = np.abs(found)
    return (
        f"{len(found)} | {100 * sizes.mean():.1f} % | {100 * np.median(sizes):.1f} %"
        f" | {100 * np.quantile(sizes, 0.9):.0f} % | {100 * found[int(sizes.argmax())]:+.0f} %"
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
