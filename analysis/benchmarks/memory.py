"""How much memory does a long run take?

Logs a million events, and ten million, in a process of their own each, through a whole
simulated run of 100 clients, and prints the peak of resident memory.

    python analysis/benchmarks/memory.py
"""

import importlib
import resource
import subprocess
import sys
from pathlib import Path


def main() -> None:
    """Print the peak of resident memory after runs of several lengths."""
    if len(sys.argv) > 1:
        sys.path.insert(0, str(Path(__file__).parent))
        client_round = importlib.import_module("client_round")
        client_round.client_rounds(None, int(sys.argv[1]))
        print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
        return
    for rounds in (20, 2000, 20000):
        command = [sys.executable, __file__, str(rounds)]
        out = subprocess.run(command, check=True, capture_output=True, text=True).stdout  # noqa: S603
        print(f"{rounds * 500 + rounds:>10,} events: peak {int(out) / 1024:.0f} MB")


if __name__ == "__main__":
    main()
