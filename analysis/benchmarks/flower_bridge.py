"""What the bridge to Flower costs: processor time of a run against that of its clients alone.

    python analysis/benchmarks/flower_bridge.py [--clients 10] [--rounds 5] [--repeats 5]

The clients are of Flower's older interface and train a small network with PyTorch. The same fits
are done twice in one process, turn about: by calling `fit` of the clients with the strategy's
aggregation, and by `fedsim.run`, with its log, network, radios and batteries. What is printed is
the ratio of the least of each; the observer evaluates nothing, as in a plain call of `fit`.
"""

import argparse
import logging
import tempfile
from collections.abc import Callable
from time import process_time
from typing import Any

import numpy as np
import torch
from flwr.client import NumPyClient
from flwr.common import FitRes, ndarrays_to_parameters, parameters_to_ndarrays
from flwr.common.typing import Code, Status
from flwr.server.strategy import FedAvg
from numpy.typing import NDArray
from torch import nn

import fedsim
from fedsim.flower import app, method
from fedsim.problems.evaluators.serial import one_thread

Arrays = list[NDArray[Any]]

SAMPLES, FEATURES, HIDDEN, CLASSES, EPOCHS = 2048, 64, 256, 10, 3


class Client(NumPyClient):
    """Trains two layers on samples of its own for a few epochs."""

    def __init__(self, partition: int) -> None:
        generator = torch.Generator().manual_seed(partition)
        self.X = torch.randn(SAMPLES, FEATURES, generator=generator)
        self.y = torch.randint(CLASSES, (SAMPLES,), generator=generator)
        self.net = nn.Sequential(nn.Linear(FEATURES, HIDDEN), nn.ReLU(), nn.Linear(HIDDEN, CLASSES))

    def fit(self, parameters: Arrays, config: dict[str, Any]) -> tuple[Arrays, int, dict[str, Any]]:
        """Take a step for every 32 samples."""
        state = zip(self.net.state_dict(), map(torch.from_numpy, parameters), strict=True)
        self.net.load_state_dict(dict(state))
        optimizer = torch.optim.SGD(self.net.parameters(), lr=0.1)
        for first in EPOCHS * list(range(0, SAMPLES, 32)):
            optimizer.zero_grad()
            own = slice(first, first + 32)
            loss = nn.functional.cross_entropy(self.net(self.X[own]), self.y[own])
            loss.backward()  # type: ignore[no-untyped-call]  # it says so itself
            optimizer.step()
        return [each.numpy() for each in self.net.state_dict().values()], SAMPLES, {}


def directly(clients: list[Client], start: Arrays, rounds: int) -> float:
    """Return the processor seconds of calling the clients one after the other, and averaging."""
    strategy, arrays = FedAvg(), start
    begun = process_time()
    with one_thread():
        for number in range(1, rounds + 1):
            results: list[Any] = []
            for client in clients:
                fitted, count, figures = client.fit([each.copy() for each in arrays], {})
                packed = ndarrays_to_parameters(fitted)
                results.append((None, FitRes(Status(Code.OK, ""), packed, count, figures)))
            mean, _ = strategy.aggregate_fit(number, results, [])
            assert mean is not None
            arrays = [each.astype(np.float32) for each in parameters_to_ndarrays(mean)]
    return process_time() - begun


def simulated(clients: list[Client], start: Arrays, rounds: int) -> float:
    """Return the processor seconds of the same under fedsim, from the scenario to the tables."""
    block = app(
        lambda context: clients[context.node_config["partition-id"]].to_client(),
        initial=start,
        clients=len(clients),
        cost={"operations": 1e8},
        evaluated_by="nobody",
    )
    scenario = {
        "problem": {"loss": block},
        "algorithm": method(FedAvg()),
        "fleet": [{"count": len(clients), "device": "phone-mid", "radio": "lte"}],
        "stop": {"rounds": rounds},
    }
    begun = process_time()
    with tempfile.TemporaryDirectory() as folder:
        fedsim.run(scenario, out=folder)
    return process_time() - begun


def main() -> None:
    """Print the least of both and their ratio."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--clients", type=int, default=10)
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--repeats", type=int, default=5)
    options = parser.parse_args()
    logging.getLogger("flwr").setLevel(logging.ERROR)
    clients = [Client(number) for number in range(options.clients)]
    start = [each.numpy().copy() for each in clients[0].net.state_dict().values()]
    ways: dict[str, Callable[..., float]] = {"direct": directly, "fedsim": simulated}
    taken: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(options.repeats):
        for name, way in ways.items():
            taken[name].append(way(clients, start, options.rounds))
    least = {name: min(each) for name, each in taken.items()}
    fits = options.clients * options.rounds
    for name, seconds in least.items():
        print(f"{name}: {seconds:.3f} s for {fits} fits, {1e3 * seconds / fits:.2f} ms each")
    print(f"ratio: {least['fedsim'] / least['direct']:.3f}")


if __name__ == "__main__":
    main()
