"""How many times as long does a round with differential privacy take to simulate as one without?

Whole runs through `fedsim.run` with a few rounds of fedavg and a model of 1,000 numbers, without
privacy and with each place and law of the noise. Ways that need secure aggregation are compared
with secure aggregation alone, which they run on. The table has the seconds of a round (processor
time, the median of the later rounds), its ratio to that without privacy, and epsilon.

    python analysis/benchmarks/privacy.py
    python analysis/benchmarks/privacy.py --sizes 100 --rounds 9
"""

import argparse
import tempfile
import time
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import pandas as pd

import fedsim

SIZES, FEATURES, ROUNDS = (100, 1_000, 10_000), 1_000, 7

NOISED: dict[str, Any] = {"clip": 1.0, "noise": 4.0, "delta": 1e-6}
ADAPTIVE = {"kind": "adaptive", "start": 1.0, "count_noise": 10.0}
PARTS = {**NOISED, "where": "distributed"}
WAYS: dict[str, dict[str, Any]] = {
    "none": {},
    "server": {"privacy": NOISED},
    "adaptive": {"privacy": {**NOISED, "clip": ADAPTIVE}},
    "tree": {"privacy": {**NOISED, "tree": 4}},
    "clients": {"privacy": {**NOISED, "where": "clients"}},
}
SECRET: dict[str, dict[str, Any]] = {
    "secagg alone": {},
    "skellam": {"privacy": PARTS},
    "discrete-gaussian": {"privacy": {**PARTS, "law": "discrete-gaussian"}},
}


def round_of(blocks: dict[str, Any], clients: int, data: Path, rounds: int) -> tuple[float, float]:
    """Return the seconds of a round, and epsilon of the run; 0 without privacy."""
    moments = list[float]()
    with tempfile.TemporaryDirectory() as folder:
        study = fedsim.run(
            {
                "problem": {
                    "loss": {"kind": "squared"},
                    "data": {"kind": "npz", "path": str(data)},
                    "split": {"kind": "contiguous"},
                    "optimum": "unknown",
                },
                "fleet": [{"count": clients, "device": "phone-mid", "radio": "lte"}],
                "algorithm": {"kind": "fedavg", "step_size": 1e-4},
                "observe": {"every": rounds},
                "stop": {"rounds": rounds},
                **blocks,
            },
            out=folder,
            watch=lambda _: moments.append(time.process_time()),
        )
        table = pd.read_parquet(study.runs[0] / "rounds.parquet")
    epsilon = float(table["epsilon"].iloc[-1]) if "epsilon" in table else 0.0
    return median(after - before for before, after in pairwise(moments)), epsilon


def compared(clients: int, rounds: int) -> pd.DataFrame:
    """Return the seconds of a round, the ratio and epsilon of each way, with as many clients."""
    rows = list[dict[str, Any]]()
    with tempfile.TemporaryDirectory() as folder:
        data, rng = Path(folder) / "data.npz", np.random.default_rng(1)
        X = rng.standard_normal((2 * clients, FEATURES))
        np.savez(data, X=X, y=X.sum(axis=1))
        for ways, common in ((WAYS, {}), (SECRET, {"secrecy": {"kind": "secagg"}})):
            open_seconds = 0.0
            for name, blocks in ways.items():
                seconds, epsilon = round_of({**common, **blocks}, clients, data, rounds)
                open_seconds = open_seconds or seconds
                ratio = seconds / open_seconds
                row = {"clients": clients, "s_a_round": seconds, "ratio": ratio, "epsilon": epsilon}
                rows.append({"privacy": name, **row})
    return pd.DataFrame(rows)


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sizes", nargs="*", type=int, default=SIZES)
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    chosen = parser.parse_args(arguments)
    for clients in chosen.sizes:
        print(compared(clients, chosen.rounds).round(4).to_string(index=False), flush=True)


if __name__ == "__main__":
    main()
