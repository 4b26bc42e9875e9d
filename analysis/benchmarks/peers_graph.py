"""Time and memory of runs among peers: a large ring, and a message's cost against a star's.

    python analysis/benchmarks/peers_graph.py [--nodes 10000] [--rounds 100]

Prints seconds of computing and peak memory of a ring whose nodes average; and the time that a
message takes in d-psgd on a ring of 200 nodes and in gradient descent with a server and as many
clients, event by event, with the same data, devices and radios.
"""

import argparse
import os
import resource
import time
import warnings
from typing import Any

import fedsim

FLEET = {"device": "pi-4", "radio": "wifi"}

NODES, ROUNDS = 200, 200
"""Of the two runs whose messages are compared."""


def scenario(nodes: int, rounds: int, algorithm: dict[str, Any], **network: Any) -> dict[str, Any]:
    """Return a scenario of a model of ten numbers."""
    return {
        "problem": {
            "loss": {"kind": "logistic", "l2": 0.1, "labels": "plus-minus"},
            "data": {
                "kind": "smoothness",
                "clients": nodes,
                "rows": 10,
                "features": 10,
                "growth": 1.0001,
            },
            "split": {"kind": "groups"},
        },
        "algorithm": algorithm,
        "fleet": [{"count": nodes, **FLEET}],
        "network": network,
        "observe": {"every": rounds},
        "stop": {"rounds": rounds},
    }


def timed(written: dict[str, Any]) -> tuple[float, int]:
    """Run a scenario; return the seconds of computing that its rounds took, and its messages."""
    short = written | {"stop": {"rounds": 1}}
    fedsim.run(short)  # what is imported and compiled once
    begun = time.process_time()
    fedsim.run(short)
    fixed = time.process_time() - begun
    begun = time.process_time()
    result = fedsim.run(written)
    spent = time.process_time() - begun
    return spent - fixed, int(result.events["event"].eq("send").sum())


def main() -> None:
    """Measure, and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, default=10_000)
    parser.add_argument("--rounds", type=int, default=100)
    given = parser.parse_args()
    os.environ["FEDSIM_ROUNDS"] = "events"
    warnings.simplefilter("ignore", fedsim.RunWarning)  # drawn vectors are no models
    costs = {}
    for name, written in {
        "d-psgd": scenario(
            NODES, ROUNDS, {"kind": "d-psgd", "step_size": 0.01}, peers={"kind": "ring"}
        ),
        "star": scenario(NODES, ROUNDS, {"kind": "gd", "step_size": 0.01}),
    }.items():
        seconds, messages = timed(written)
        costs[name] = 1e6 * seconds / messages
        print(f"{name}: {messages:,} messages, {costs[name]:.1f} us each", flush=True)
    print(f"ratio: {costs['d-psgd'] / costs['star']:.2f}", flush=True)
    begun = time.process_time()
    ring = scenario(given.nodes, given.rounds, {"kind": "gossip"}, peers={"kind": "ring"})
    result = fedsim.run(ring)
    spent = time.process_time() - begun
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    sent = int(result.events["event"].eq("send").sum())
    print(
        f"ring of {given.nodes:,} nodes, {given.rounds} rounds, {sent:,} messages:"
        f" {spent:.0f} s of computing, {peak:.2f} GiB at most"
    )


if __name__ == "__main__":
    main()
