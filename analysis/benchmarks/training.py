"""What does training cost in fedsim, beside a plain PyTorch loop with the same step?

    python analysis/benchmarks/training.py [--networks w5 lenet mlp small transformer resnet]
        [--ways sgd adam epochs] [--turns 5] [--threads N] [--device cuda]

A plain loop trains one client after the other and averages the models; fedsim's figures are those
of whole runs, their rounds alone, with messages over radios, devices, energy and the log, on as
many threads. Both take turns in one process, so that what else the machine does falls on both
alike; on a busy machine take one thread, as threads that wait for each other measure the others.
On a GPU the plain loop has all rows there before it begins, and fedsim trains one client after the
other (`one-by-one`), or those that begin at once together (`vmap`).
Printed are medians over turns of the milliseconds that a client's whole work of a round takes, by
the clock and of processor time over all threads, and speeds as multiples of the plain loop's.
"""

import argparse
import os
import statistics
import tempfile
import time
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

import fedsim
import fedsim.torch
from fedsim.core.threads import VARIABLE
from fedsim.problems.modules.layers import Decoder, Residual
from fedsim.running.run import RunProgress, execute
from fedsim.scenario import Plan
from fedsim.scenario.building import Builder

CLIENTS, ASKED, ROWS, BATCH, STEPS, EPOCHS = 20, 10, 100, 20, 5, 1
RATE = {"sgd": 0.01, "adam": 0.001, "epochs": 0.01}


class Network(NamedTuple):
    """A network and the shape of its data.

    Attributes:
        make: makes the module.
        shape: of a row.
        classes: of labels.
        tokens: how many there are, where rows are tokens; 0 where they are real numbers.
        rounds: of a turn; 4 or more.
    """

    make: Callable[[], nn.Module]
    shape: tuple[int, ...]
    classes: int = 10
    tokens: int = 0
    rounds: int = 4


def w5() -> nn.Module:
    """Return the CNN of McMahan et al., AISTATS 2017, section 3: 1.7 million parameters."""
    first = (nn.Conv2d(1, 32, 5, padding=2), nn.ReLU(), nn.MaxPool2d(2))
    second = (nn.Conv2d(32, 64, 5, padding=2), nn.ReLU(), nn.MaxPool2d(2))
    dense = (nn.Flatten(), nn.Linear(3136, 512), nn.ReLU(), nn.Linear(512, 10))
    return nn.Sequential(*first, *second, *dense)


def lenet() -> nn.Module:
    """Return LeNet-5 with maxima and rectifiers: 62,000 parameters."""
    first = (nn.Conv2d(1, 6, 5, padding=2), nn.ReLU(), nn.MaxPool2d(2))
    second = (nn.Conv2d(6, 16, 5), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten())
    dense = (nn.Linear(400, 120), nn.ReLU(), nn.Linear(120, 84), nn.ReLU(), nn.Linear(84, 10))
    return nn.Sequential(*first, *second, *dense)


def mlp() -> nn.Module:
    """Return the perceptron of McMahan et al.: 199,000 parameters."""
    hidden = (nn.Linear(784, 200), nn.ReLU(), nn.Linear(200, 200), nn.ReLU())
    return nn.Sequential(nn.Flatten(), *hidden, nn.Linear(200, 10))


def small() -> nn.Module:
    """Return a perceptron of 25,000 parameters."""
    return nn.Sequential(nn.Flatten(), nn.Linear(784, 32), nn.ReLU(), nn.Linear(32, 10))


def transformer() -> nn.Module:
    """Return a decoder of two layers for 32 of 64 tokens: 110,000 parameters."""
    return Decoder(64, 32, 64, 2, 4, 64)


def resnet() -> nn.Module:
    """Return the residual network of 8 layers for CIFAR, with group normalisation: 78,000."""
    return Residual(3, [16, 32, 64], 1, 2, 10)


NETWORKS = {
    "w5": Network(w5, (1, 28, 28)),
    "lenet": Network(lenet, (1, 28, 28), rounds=6),
    "mlp": Network(mlp, (1, 28, 28), rounds=40),
    "small": Network(small, (1, 28, 28), rounds=40),
    "transformer": Network(transformer, (32,), 64, 64),
    "resnet": Network(resnet, (3, 32, 32)),
}


class Cost(NamedTuple):
    """What a client's work of a round took.

    Attributes:
        wall: seconds by the clock.
        processor: seconds of processor time, over all threads.
    """

    wall: float
    processor: float


Turn = Callable[[], Cost]


def draw_rows(network: Network) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """Return rows (clients * rows, ...) and their labels."""
    rng = np.random.default_rng(0)
    size = (CLIENTS * ROWS, *network.shape)
    tokens = rng.integers(0, max(network.tokens, 1), size)
    X = tokens if network.tokens else rng.standard_normal(size).astype(np.float32)
    return X, rng.integers(0, network.classes, CLIENTS * ROWS)


def now() -> Cost:
    """Return both clocks."""
    return Cost(time.perf_counter(), time.process_time())


def cost(begin: Cost, end: Cost, updates: int) -> Cost:
    """Return what one of some updates took between two times."""
    wall, processor = ((b - a) / updates for a, b in zip(begin, end, strict=True))
    return Cost(wall, processor)


def train(module: nn.Module, X: Tensor, t: Tensor, way: str) -> None:
    """Take a client's steps, as any tutorial has them."""
    make = torch.optim.Adam if way == "adam" else torch.optim.SGD
    optimizer, criterion = make(module.parameters(), lr=RATE[way]), nn.CrossEntropyLoss()
    order = torch.randperm(ROWS)
    for some in torch.split(order, BATCH)[:STEPS]:
        optimizer.zero_grad()
        criterion(module(X[some]), t[some]).backward()
        optimizer.step()


def plain(network: Network, way: str, threads: int, device: str) -> Turn:
    """Return turns of a plain loop on that many threads, or on a GPU."""
    X, y = draw_rows(network)
    rows = torch.from_numpy(X.reshape(CLIENTS, ROWS, *network.shape)).to(device)
    labels = torch.from_numpy(y.reshape(CLIENTS, ROWS)).to(device)
    module = network.make().to(device)
    shared = {name: each.clone() for name, each in module.state_dict().items()}

    def turn() -> Cost:
        torch.set_num_threads(threads)
        begin = now()
        for _ in range(network.rounds):
            models = []
            for client in torch.randperm(CLIENTS)[:ASKED].tolist():
                module.load_state_dict(shared)
                train(module, rows[client], labels[client], way)
                models.append({name: each.clone() for name, each in module.state_dict().items()})
            for name in shared:
                shared[name] = torch.stack([each[name] for each in models]).mean(dim=0)
        _ = [each.cpu() for each in shared.values()]  # until a GPU has ended, too
        return cost(begin, now(), network.rounds * ASKED)

    return turn


def scenario(network: Network, way: str, device: str, evaluator: str | None) -> Plan:
    """Return the same as a scenario of fedsim, with a world around it."""
    X, y = draw_rows(network)
    owners = np.repeat(np.arange(CLIENTS), ROWS)
    work = {"local_epochs": EPOCHS} if way == "epochs" else {"local_steps": STEPS}
    method = {"kind": "fedavg", "step_size": RATE[way], "batch": BATCH, **work}
    if way == "adam":
        method["optimizer"] = {"kind": "adam"}
    known: dict[str, Any] = {"outputs": network.classes, "device": device}
    problem = fedsim.torch.problem(network.make, data=(X, y, owners), **known)
    return fedsim.load(
        {
            "name": "training",
            "problem": problem,
            "algorithm": method,
            "precision": "float32",
            "observe": {"every": 1_000_000},
            "fleet": [{"count": CLIENTS, "device": "pi-4", "radio": "wifi"}],
            "participation": {"kind": "uniform", "count": ASKED},
            "stop": {"rounds": network.rounds + 2},
            **({"evaluator": evaluator} if evaluator else {}),
        }
    )


def simulation(network: Network, way: str, device: str, evaluator: str | None = None) -> Turn:
    """Return turns of fedsim: each is a run, timed from its first round to its last but one."""
    plan = scenario(network, way, device, evaluator)
    builder = Builder(plan)
    (chosen,) = plan.variants

    def turn() -> Cost:
        ends: list[Cost] = []

        def watch(_: RunProgress) -> None:
            ends.append(now())

        torch.set_num_threads(1)
        with tempfile.TemporaryDirectory() as out:
            execute(builder.build(chosen, 1), Path(out), watch)
        return cost(ends[0], ends[-2], ASKED * (len(ends) - 2))

    return turn


def compare(name: str, way: str, turns: int, threads: int, device: str) -> None:
    """Let both take turns, and print what they came to."""
    network, own = NETWORKS[name], torch.get_num_threads()
    os.environ[VARIABLE] = str(threads)
    taking_part = {
        "plain PyTorch loop": plain(network, way, threads, device),
        "fedsim": simulation(network, way, device),
    }
    if device != "cpu":
        for evaluator in ("one-by-one", "vmap"):
            taking_part[f"fedsim, {evaluator}"] = simulation(network, way, device, evaluator)
    found: dict[str, list[Cost]] = {each: [] for each in taking_part}
    for number in range(turns + 1):
        for each, turn in taking_part.items():
            made = turn()
            if number:  # the first one warms up
                found[each].append(made)
    torch.set_num_threads(own)
    report(f"{name}, {way}", found)


def report(title: str, found: dict[str, list[Cost]]) -> None:
    """Print the medians of all turns."""
    print(
        f"\n{title}: ms of a client's round by the clock and of processor time; speeds to the first"
    )
    medians = {
        name: Cost(*(statistics.median(each) for each in zip(*costs, strict=True)))
        for name, costs in found.items()
    }
    first = next(iter(medians.values()))
    for name, own in medians.items():
        ratios = f"{first.wall / own.wall:6.2f} {first.processor / own.processor:6.2f}"
        print(f"  {name:32} {1e3 * own.wall:9.2f} {1e3 * own.processor:9.2f}  {ratios}", flush=True)


def main(arguments: Sequence[str] | None = None) -> None:
    """Compare all networks and ways that are asked for."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--networks", nargs="+", default=list(NETWORKS), choices=NETWORKS)
    parser.add_argument("--ways", nargs="+", default=list(RATE), choices=RATE)
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--device", default="cpu", choices=["cpu", "cuda"])
    given = parser.parse_args(arguments)
    warnings.simplefilter("ignore", fedsim.TheoryWarning)
    for name in given.networks:
        for way in given.ways:
            compare(name, way, given.turns, given.threads, given.device)


if __name__ == "__main__":
    main()
