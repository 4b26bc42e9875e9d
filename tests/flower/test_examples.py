"""The script that holds Flower's example apps against Flower's own simulation, on another app."""

from pathlib import Path

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
    result = FedAvg().start(grid, ArrayRecord([np.ones(3)]), num_rounds=rounds)
    np.savez("final", *result.arrays.to_numpy_ndarrays())
"""


@pytest.mark.slow
def test_an_app_writes_the_same_file_both_ways(tmp_path: Path) -> None:
    """It draws from a global generator, and reads a setting of its own and one that is given."""
    (tmp_path / "pyproject.toml").write_text(PROJECT, encoding="utf-8")
    (tmp_path / "noise.py").write_text(APP, encoding="utf-8")
    found = script("flower_examples").compare(tmp_path, {"num-server-rounds": 1})
    assert found == (True, ["final.npz"])
