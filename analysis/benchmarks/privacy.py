"""How many times as long does a round with differential privacy take to simulate as one without?

Whole runs through `fedsim.run` with a few rounds of fedavg and a model of 1,000 numbers, without
privacy and with each place and law of the noise. Ways that need secure aggregation are compared
with secure aggregation alone, which they run on. The table has the seconds of a round (processor
time, the median of the later rounds), its ratio to that without privacy, and epsilon.

    python analysis/benchmarks/privacy.py
    python analysis/benchmarks/privacy.py --sizes 100 --rounds 9
"""

import argparse
from collections.abc import Sequence
from typing import Any

import pandas as pd
from scale import data_of, fedavg, timed

SIZES, FEATURES, ROUNDS = (100, 1_000, 10_000), 1_000, 7
METHOD = {"kind": "fedavg", "step_size": 1e-4}

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


def compared(clients: int, rounds: int) -> pd.DataFrame:
    """Return the seconds of a round, the ratio and epsilon of each way, with as many clients."""
    rows = list[dict[str, Any]]()
    with data_of(clients, FEATURES) as data:
        for ways, common in ((WAYS, {}), (SECRET, {"secrecy": {"kind": "secagg"}})):
            open_seconds = 0.0
            for name, blocks in ways.items():
                run = fedavg(clients, data, rounds, algorithm=METHOD, **common, **blocks)
                seconds, table = timed(run)
                epsilon = table["epsilon"].iloc[-1] if "epsilon" in table else 0.0
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
