"""What does a round under secure aggregation cost to simulate, from 100 clients to 10,000?

Whole runs through `fedsim.run` with three rounds of fedavg and a model of 1,000 numbers, for each
protocol with `values: counted`, and with real cryptography at the sizes that are given. The table
has the seconds of a round (processor time, the median of the later rounds), what one client sends
and receives in it, and the server's operations.

    python analysis/benchmarks/secrecy.py
    python analysis/benchmarks/secrecy.py --exact 50 100
"""

import argparse
from typing import Any

from scale import data_of, fedavg, timed

SIZES, FEATURES, ROUNDS = (100, 1_000, 10_000), 1_000, 3
METHOD = {"kind": "fedavg", "step_size": 0.001}
PROTOCOLS: dict[str, dict[str, Any]] = {
    "none": {},
    "secagg": {"secrecy": {"kind": "secagg"}},
    "secagg+": {"secrecy": {"kind": "secagg+", "neighbours": 50}},
    "lightsecagg": {"secrecy": {"kind": "lightsecagg", "threshold": 0.7}},
}


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sizes", nargs="*", type=int, default=SIZES)
    parser.add_argument("--exact", nargs="*", type=int, default=())
    chosen = parser.parse_args()
    cases = [(size, "counted") for size in chosen.sizes] + [(n, "exact") for n in chosen.exact]
    heads = f"{'s a round':>10}{'kbit up':>12}{'down':>12}{'server op':>12}"
    print(f"{'protocol':12}{'clients':>8}  {'values':8}{heads}")
    for clients, values in cases:
        with data_of(clients, FEATURES) as data:
            for name, protocol in PROTOCOLS.items():
                block = protocol.get("secrecy")
                asked = {"secrecy": {**block, "values": values}} if block else {}
                seconds, rounds = timed(fedavg(clients, data, ROUNDS, algorithm=METHOD, **asked))
                last = rounds.iloc[-1]
                up, down = (last[f"bits_{way}"] / clients / 1e3 for way in ("up", "down"))
                figures = f"{seconds:10.2f}{up:12.1f}{down:12.1f}"
                figures += f"{last.get('secrecy_operations', 0):12.1e}"
                print(f"{name:12}{clients:8}  {values:8}{figures}", flush=True)


if __name__ == "__main__":
    main()
