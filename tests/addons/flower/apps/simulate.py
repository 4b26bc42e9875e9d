"""Run apps under Flower's own simulation, as `python simulate.py CLIENTS APP ...`.

Each runs in the folder of its name below the current one. They share one process that works for
clients: each such process would import PyTorch by itself.
"""

import os
import sys
from importlib import import_module
from pathlib import Path

from flwr.simulation import run_simulation

if __name__ == "__main__":
    clients, *names = sys.argv[1:]
    folder = Path.cwd()
    for name in names:
        os.chdir(folder / name)
        run_simulation(
            import_module(f"{name}.server_app").app,
            import_module(f"{name}.client_app").app,
            num_supernodes=int(clients),
            backend_config={
                "init_args": {"num_cpus": 1},
                "client_resources": {"num_cpus": 1, "num_gpus": 0.0},
            },
        )
