"""How far is fedsim from packets?

    python analysis/reality/run.py             the errors against what ns-3 said once
    python analysis/reality/run.py simulate    the same after asking ns-3 anew (minutes)

The error of a run is that of the time at which the last of its messages has arrived, relative to
ns-3's: positive where fedsim is too slow.
"""

import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import packets

from fedsim.sim.network.transmission import Sharing

MODELS: tuple[Sharing, ...] = ("fluid", "lv08")
KINDS = ("one flow", "many flows", "random losses")


def kind(case: packets.Case) -> str:
    """Return the row of the table to which a case belongs."""
    if case.loss:
        return "random losses"
    return "one flow" if case.flows == 1 else "many flows"


def errors(model: Sharing) -> dict[tuple[str, str], list[float]]:
    """Return the relative errors of all runs, by set and kind of case."""
    found: dict[tuple[str, str], list[float]] = {}
    for name, case, times in packets.read():
        error = max(packets.by_fedsim(case, model)) / max(times) - 1.0
        found.setdefault((name, kind(case)), []).append(error)
    return found


def report() -> None:
    """Print the table: by model, set and kind, the quantiles of the errors' sizes."""
    print(
        f"{'model':6} {'set':9} {'cases':14} {'runs':>4} {'median':>7} {'9 of 10':>8} {'worst':>7}"
    )
    for model in MODELS:
        found = errors(model)
        for name in packets.SETS:
            for row in KINDS:
                off = found[name, row]
                sizes = np.abs(off)
                worst = off[int(np.argmax(sizes))]
                print(
                    f"{model:6} {name:9} {row:14} {len(off):4}"
                    f" {np.median(sizes):7.0%} {np.quantile(sizes, 0.9):8.0%} {worst:+7.0%}"
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
