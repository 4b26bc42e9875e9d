"""The script that compares Flower's example apps with Flower's own simulation, on another app."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.scripts import script

PROJECT = """
[project]
name = "noise"
version = "1.0.0"
description = ""
license = "Apache-2.0"
[tool.flwr.app]
publisher = "nobody"
[tool.flwr.app.components]
serverapp = "noise:server"
clientapp = "noise:client"
[tool.flwr.app.config]
num-server-rounds = 2
scale = 3.0
"""
APP = """
import numpy as np
from flwr.app import ArrayRecord, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp import ServerApp
from flwr.serverapp.strategy import FedAvg

client, server = ClientApp(), ServerApp()


@client.train()
def train(message, context):
    (array,) = message.content["arrays"].to_numpy_ndarrays()
    array = array + context.run_config["scale"] * np.random.rand(*array.shape)
    content = {"arrays": ArrayRecord([array]), "metrics": MetricRecord({"num-examples": 1})}
    return Message(RecordDict(content), reply_to=message)


@client.evaluate()
def evaluate(message, context):
    metrics = MetricRecord({"loss": 1.0, "num-examples": 1})
    return Message(RecordDict({"metrics": metrics}), reply_to=message)


@server.main()
def main(grid, context):
    rounds = context.run_config["num-server-rounds"]
    strategy = FedAvg()
    result = strategy.start(grid, ArrayRecord([np.ones(300)]), num_rounds=rounds)
    np.save("final.npy", *result.arrays.to_numpy_ndarrays())
"""
"""It draws from a global generator. It reads a setting of its own and one that is given."""

GIVEN = {"num-server-rounds": 1}


@pytest.fixture
def app(tmp_path: Path) -> Path:
    """Return the folder of the app."""
    (tmp_path / "pyproject.toml").write_text(PROJECT, encoding="utf-8")
    (tmp_path / "noise.py").write_text(APP, encoding="utf-8")
    return tmp_path


def final(examples: Any) -> np.ndarray[Any, Any]:
    """Return the model after a round: the mean of the clients' models, summed in their order."""
    total = np.zeros(300)
    for client in range(examples.CLIENTS):
        examples.seed(client, "1", "train")
        total += (1.0 + 3.0 * np.random.rand(300)) * (1 / examples.CLIENTS)
    return total


@pytest.mark.slow
@pytest.mark.needs("flower")
def test_an_app_in_fedsim_draws_by_client_and_round_and_is_summed_in_the_order_of_clients(
    app: Path, tmp_path: Path
) -> None:
    examples = script("flower_examples")
    with examples.files_of("fedsim", app, GIVEN) as written:
        (tmp_path / "final.npy").write_bytes(written["final.npy"])
    assert np.load(tmp_path / "final.npy").tobytes() == final(examples).tobytes()


@pytest.mark.slow
@pytest.mark.needs("flower")
def test_an_app_writes_the_same_file_both_ways(app: Path) -> None:
    """With so many numbers, two orders of the replies would hardly have the same sums."""
    pytest.importorskip("ray", reason="Flower's simulation takes Ray")
    assert script("flower_examples").compare(app, GIVEN) == (True, ["final.npy"])
