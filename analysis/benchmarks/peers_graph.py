"""Time and memory of runs among peers: a large ring, nodes that walk, a message beside a star's.

    python analysis/benchmarks/peers_graph.py [--nodes 10000] [--walkers 1000] [--rounds 100]

Prints the processor time that a message takes in d-psgd on a ring of 200 nodes, and in gradient
descent with a server and as many clients, with the same data, devices and radios: both event by
event, and then as they are played by default, the ring by a kernel and the star in arrays. The
two run by turns, five times, and medians are printed. Then seconds of computing and peak memory
of a ring whose nodes average, and of nodes that average while they walk in a square (random
waypoint, 100 rounds that begin every 10 s), beside as many that stand still, with as large a range.
With `--nodes 0` there is no such ring, with `--walkers 0` no node that walks or stands.
"""

import argparse
import os
import resource
import time
import warnings
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any

import pyarrow.compute as pc
import pyarrow.parquet as pq

import fedsim

FLEET = {"device": "pi-4", "radio": "wifi"}

NODES, ROUNDS, TIMES = 200, 60, 5
"""Of the two runs whose messages are compared, and how often each is made."""

RANGE = 0.06
"""Of nodes that stand, in sides of a square; a thousand have eleven neighbours on average."""

WALK = {
    "kind": "random-waypoint",
    "range": "60 m",
    "width": "1 km",
    "height": "1 km",
    "min_speed": "0.5 m/s",
    "max_speed": "2 m/s",
    "every": "10 s",
}
"""The same square and range for nodes that walk; edges change at the exact times of meetings."""


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


def spent(written: dict[str, Any]) -> tuple[float, int]:
    """Run a scenario; return its processor time in s, and its messages."""
    with TemporaryDirectory() as folder:
        begun = time.process_time()
        fedsim.run(written, out=folder)
        seconds = time.process_time() - begun
        (log,) = Path(folder).rglob("events.parquet")
        sent = pc.equal(pq.read_table(log, columns=["event"])["event"], "send")  # not all of it
        return seconds, int(pc.sum(sent).as_py())


def message_cost(written: dict[str, Any]) -> tuple[float, int]:
    """Return the microseconds that a message takes beyond a run of one round, and the messages."""
    fixed, few = spent(written | {"stop": {"rounds": 1}})
    seconds, messages = spent(written)
    return 1e6 * (seconds - fixed) / (messages - few), messages


def compare_messages(how: str) -> None:
    """Print what a message takes among peers and in a star, and the ratio."""
    runs = {
        "d-psgd": scenario(
            NODES, ROUNDS, {"kind": "d-psgd", "step_size": 0.01}, peers={"kind": "ring"}
        ),
        "star": scenario(NODES, ROUNDS, {"kind": "gd", "step_size": 0.01}),
    }
    for written in runs.values():
        spent(written | {"stop": {"rounds": 1}})  # what is imported and compiled once
    turns = [{name: message_cost(written) for name, written in runs.items()} for _ in range(TIMES)]
    for name in runs:
        each, messages = median(turn[name][0] for turn in turns), turns[0][name][1]
        print(f"{how}, {name}: {messages:,} messages, {each:.1f} us each", flush=True)
    ratios = sorted(turn["d-psgd"][0] / turn["star"][0] for turn in turns)
    print(f"ratio: {median(ratios):.2f} ({ratios[0]:.2f} to {ratios[-1]:.2f})", flush=True)


def main() -> None:
    """Measure, and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, default=10_000)
    parser.add_argument("--walkers", type=int, default=1000)
    parser.add_argument("--rounds", type=int, default=100)
    given = parser.parse_args()
    warnings.simplefilter("ignore", fedsim.RunWarning)  # drawn vectors are no models
    for how in ("events", "arrays"):
        os.environ["FEDSIM_ROUNDS"] = how
        compare_messages(how)
    graphs = {
        "standing": (given.walkers, {"kind": "geometric", "range": RANGE}),
        "walking": (given.walkers, WALK),
        "a ring": (given.nodes, {"kind": "ring"}),
    }
    for name, (nodes, peers) in graphs.items():
        if not nodes:
            continue
        seconds, sent = spent(scenario(nodes, given.rounds, {"kind": "gossip"}, peers=peers))
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
        print(
            f"{name}: {nodes:,} nodes, {given.rounds} rounds, {sent:,} messages: {seconds:.1f} s of"
            f" computing, {peak:.2f} GiB at most until now",
            flush=True,
        )


if __name__ == "__main__":
    main()
