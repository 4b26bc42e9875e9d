"""Clients of Flower's for tests, and scenarios with them."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from flwr.app import Array, ArrayRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp

import fedsim
from fedsim.flower import app

ZEROS = {"w": np.zeros((2, 3), np.float32), "b": np.zeros(2, np.float32)}
"""A model of eight numbers."""

PI = {"device": "pi-4", "radio": "wifi"}

Step = Callable[[dict[str, Any], Message, Context], dict[str, Any] | None]
"""What a client makes of the arrays of its model."""


def nothing(arrays: dict[str, Any], _: Message, __: Context) -> dict[str, Any]:
    """Leave the model as it is."""
    return arrays


def distance(arrays: dict[str, Any]) -> float:
    """Return how far a model is from one."""
    return sum(float(((array - 1) ** 2).sum()) for array in arrays.values())


def client_app(
    step: Step, judge: Callable[[dict[str, Any]], float] = distance, *mods: Any
) -> ClientApp:
    """Return an app whose clients train by a step, within mods, and judge a model."""
    made = ClientApp()

    @made.train(mods=list(mods))
    def train(msg: Message, context: Context) -> Message:
        record = msg.content["arrays"]
        assert isinstance(record, ArrayRecord)
        stepped = step({name: array.numpy() for name, array in record.items()}, msg, context)
        content = RecordDict({"metrics": MetricRecord({"num-examples": 10})})
        if stepped is not None:
            content["arrays"] = _named(stepped)
        return Message(content, reply_to=msg)

    @made.evaluate()
    def evaluate(msg: Message, context: Context) -> Message:
        record = msg.content["arrays"]
        assert isinstance(record, ArrayRecord)
        said = judge({name: array.numpy() for name, array in record.items()})
        figures = MetricRecord({"loss": said, "num-examples": 10})
        return Message(RecordDict({"metrics": figures}), reply_to=msg)

    return made


def partition(context: Context) -> int:
    """Return the number of a client."""
    return int(context.node_config["partition-id"])


def _named(arrays: Mapping[str, Any]) -> ArrayRecord:
    return ArrayRecord({name: Array(np.asarray(value)) for name, value in arrays.items()})


def scenario(
    step: Step = nothing,
    clients: int = 3,
    judge: Callable[[dict[str, Any]], float] = distance,
    **keys: Any,
) -> dict[str, Any]:
    """Return a scenario with such clients; `loss` is merged with what is here."""
    own = {
        "clients": clients,
        "cost": {"operations": 1e9},
        "initial": ZEROS,
        **keys.pop("loss", {}),
    }
    return {
        "problem": {"loss": app(client_app(step, judge), **own)},
        "algorithm": "flower",
        "fleet": [{"count": clients, **PI}],
        "stop": {"rounds": 2},
        **keys,
    }


def run(step: Step = nothing, clients: int = 3, **keys: Any) -> fedsim.Result:
    """Run such a scenario."""
    return fedsim.run(scenario(step, clients, **keys), check=False)
