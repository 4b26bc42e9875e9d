"""Flower: its simulation on Ray, its FedAvg, clients that compute with NumPy (W1) or PyTorch (W5).

python contestant_flwr.py WORKLOAD FOLDER
"""

import logging
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
from flwr.client import ClientApp, NumPyClient
from flwr.common import ndarrays_to_parameters
from flwr.server import ServerApp, ServerAppComponents, ServerConfig
from flwr.server.strategy import FedAvg
from flwr.simulation import run_simulation
from turns import Turn, take_turns
from workloads import CLASSES, ROWS

CLIENTS = {"w1": 500, "w5": 100}
ASKED = {"w1": 10, "w5": 10}
STEPS = {"w1": 40}
ROUNDS = {"w1": 4, "w5": 5}


class Client(NumPyClient):  # type: ignore[misc]  # not installed here
    """A client whose rows lie in a file that all processes share."""

    def __init__(self, name: str, folder: str, number: int) -> None:
        rows = slice(number * ROWS, (number + 1) * ROWS)
        self._X = np.load(Path(folder) / f"{name}-X.npy", mmap_mode="r")[rows]
        self._y = np.load(Path(folder) / f"{name}-y.npy", mmap_mode="r")[rows].astype(int)
        self._steps = STEPS[name]

    def fit(self, parameters: Any, _: Any) -> Any:
        """Take the local steps."""
        w, rng = parameters[0], np.random.default_rng(1)
        for _ in range(self._steps):
            drawn = rng.choice(ROWS, 50, replace=False, shuffle=False)
            x = self._X[drawn].astype(np.float32)
            P = np.exp(x @ w)
            P /= P.sum(axis=1, keepdims=True)
            P[np.arange(50), self._y[drawn]] -= 1.0
            w = w - np.float32(0.01 / 50) * (x.T @ P)
        return [w], ROWS, {}


class NetworkClient(NumPyClient):  # type: ignore[misc]  # not installed here
    """A client that trains the network of W5, on one thread of its process."""

    def __init__(self, folder: str, number: int) -> None:
        import networks  # takes PyTorch
        import torch

        torch.set_num_threads(1)
        self._module, self._train = networks.network(), networks.train
        rows = slice(number * ROWS, (number + 1) * ROWS)
        X = np.load(Path(folder) / "w5-X.npy", mmap_mode="r")[rows].reshape(-1, 1, 28, 28)
        y = np.load(Path(folder) / "w5-y.npy", mmap_mode="r")[rows]
        self._X = torch.tensor(X, dtype=torch.float32)
        self._t = torch.tensor(y, dtype=torch.int64)

    def fit(self, parameters: Any, _: Any) -> Any:
        """Take the local steps."""
        import torch

        names = self._module.state_dict()
        given = {name: torch.tensor(each) for name, each in zip(names, parameters, strict=True)}
        self._module.load_state_dict(given)
        self._train(self._module, self._X, self._t)
        return [each.numpy() for each in self._module.state_dict().values()], ROWS, {}


def client(name: str, folder: str, number: int) -> NumPyClient:
    """Return the client of a number."""
    return Client(name, folder, number) if name == "w1" else NetworkClient(folder, number)


def start(name: str) -> Any:
    """Return the arrays to begin with."""
    if name == "w1":
        return [np.zeros((784, CLASSES), np.float32)]
    import networks  # takes PyTorch

    return [each.numpy() for each in networks.network().state_dict().values()]


class Timed(FedAvg):  # type: ignore[misc]  # not installed here
    """Notes when each round ends."""

    ends: list[float]

    def aggregate_fit(self, *arguments: Any) -> Any:
        """Average, and look at the clock."""
        made = super().aggregate_fit(*arguments)
        self.ends.append(time.perf_counter())
        return made


def main() -> None:
    """Take turns: each is a simulation of some rounds, timed from the end of its first one."""
    name, folder = sys.argv[1:]
    logging.disable(logging.WARNING)
    with np.load(Path(folder) / f"{name}.npz") as archive:
        for part in ("X", "y"):
            np.save(Path(folder) / f"{name}-{part}.npy", archive[part])
    begin = ndarrays_to_parameters(start(name))

    def turn() -> Turn:
        strategy = Timed(
            fraction_fit=ASKED[name] / CLIENTS[name],
            fraction_evaluate=0.0,
            min_fit_clients=ASKED[name],
            min_available_clients=CLIENTS[name],
            initial_parameters=begin,
        )
        strategy.ends = []
        config = ServerConfig(num_rounds=ROUNDS[name])
        components = ServerAppComponents(strategy=strategy, config=config)
        run_simulation(
            server_app=ServerApp(server_fn=lambda _: components),
            client_app=ClientApp(
                client_fn=lambda context: client(
                    name, folder, int(context.node_config["partition-id"])
                ).to_client()
            ),
            num_supernodes=CLIENTS[name],
            backend_config={"client_resources": {"num_cpus": 1, "num_gpus": 0.0}},
        )
        ends = strategy.ends
        return Turn((len(ends) - 1) * ASKED[name], ends[-1] - ends[0])

    take_turns(turn)


if __name__ == "__main__":
    main()
