"""Run an app under Flower's own simulation, as `python simulate.py APP CLIENTS`."""

import sys
from importlib import import_module

from flwr.simulation import run_simulation

if __name__ == "__main__":
    name, clients = sys.argv[1:]
    run_simulation(
        import_module(f"{name}.server_app").app,
        import_module(f"{name}.client_app").app,
        num_supernodes=int(clients),
        backend_config={"client_resources": {"num_cpus": 1, "num_gpus": 0.0}},
    )
