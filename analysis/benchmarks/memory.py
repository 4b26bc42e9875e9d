"""How much memory does a long run take, and one with many clients that train a network?

    python analysis/benchmarks/memory.py log       # a million events, and ten million
    python analysis/benchmarks/memory.py networks  # 100 clients, 1.7 million parameters

Each line is a process of its own, whose peak of resident memory it shows. `log` counts through a
whole simulated run of 100 clients. In `networks` all of 100 clients train the CNN of McMahan et al.
in each of two rounds, by plain SGD, by Adam whose state begins anew in each round, and by Adam
whose state each client keeps: two vectors of the model's size for each of them.
"""

import argparse
import importlib
import resource
import subprocess
import sys
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

CLIENTS, ROWS = 100, 10
LENGTHS = (20, 2000, 20000)
WAYS: dict[str, dict[str, Any]] = {
    "sgd": {},
    "adam, reset": {"optimizer": {"kind": "adam"}},
    "adam, kept": {"optimizer": {"kind": "adam"}, "optimizer_state": "kept"},
}


def train_clients(way: dict[str, Any], clients: int = CLIENTS) -> None:
    """Let all clients train the network in two rounds."""
    import numpy as np  # the other processes do without

    import fedsim
    import fedsim.torch

    training = importlib.import_module("training")
    rng = np.random.default_rng(0)
    X = rng.standard_normal((clients * ROWS, 1, 28, 28)).astype(np.float32)
    y = rng.integers(0, 10, clients * ROWS)
    method = {"kind": "fedavg", "step_size": 0.001, "local_steps": 1, "batch": 5, **way}
    warnings.simplefilter("ignore", fedsim.TheoryWarning)
    fedsim.torch.run(
        training.w5,
        (X, y, np.repeat(np.arange(clients), ROWS)),
        algorithm=method,
        rounds=2,
        precision="float32",
        observe={"every": 2},
        fleet=[{"count": clients, "device": "pi-4", "radio": "wifi"}],
    )


def peak(*arguments: str) -> int:
    """Return the peak of resident memory, in bytes, of this script with other arguments."""
    command = [sys.executable, __file__, *arguments]
    out = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    return 1024 * int(out.split()[-1])


def main(given: Sequence[str] | None = None) -> None:
    """Print the peaks of resident memory of what is asked for."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("what", nargs="?", choices=["log", "networks"], default="log")
    parser.add_argument("--alone", help="one line, in this process: rounds, or a way to train")
    asked = parser.parse_args(given)
    if asked.alone:
        sys.path.insert(0, str(Path(__file__).parent))
        if asked.what == "networks":
            train_clients(WAYS[asked.alone])
        else:
            importlib.import_module("client_round").client_rounds(None, int(asked.alone))
        print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
        return
    if asked.what == "networks":
        for way in WAYS:
            found = peak("networks", "--alone", way)
            print(f"{CLIENTS} clients, {way:12} peak {found / 1e9:.2f} GB", flush=True)
        return
    for rounds in LENGTHS:
        found = peak("log", "--alone", str(rounds))
        print(f"{rounds * 500 + rounds:>10,} events: peak {found / 1e6:.0f} MB", flush=True)


if __name__ == "__main__":
    main()
