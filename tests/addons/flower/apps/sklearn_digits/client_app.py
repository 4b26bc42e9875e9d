"""The clients: each fits the model to its own digits."""

from typing import Any

from flwr.client import Client, ClientApp, NumPyClient
from flwr.common import Context
from sklearn.metrics import log_loss

from sklearn_digits.task import Arrays, create, fit, get_params, load_data, set_params


class FlowerClient(NumPyClient):
    """A logistic regression on a part of the digits."""

    def __init__(self, partition: int, partitions: int) -> None:
        self.model = create()
        self.X, self.X_test, self.y, self.y_test = load_data(partition, partitions)

    def get_parameters(self, config: dict[str, Any]) -> Arrays:
        """Return the parameters."""
        return get_params(self.model)

    def fit(self, parameters: Arrays, config: dict[str, Any]) -> tuple[Arrays, int, dict[str, Any]]:
        """Go on from parameters."""
        set_params(self.model, parameters)
        fit(self.model, self.X, self.y)
        return get_params(self.model), len(self.y), {}

    def evaluate(
        self, parameters: Arrays, config: dict[str, Any]
    ) -> tuple[float, int, dict[str, Any]]:
        """Say how good parameters are."""
        set_params(self.model, parameters)
        loss = log_loss(self.y_test, self.model.predict_proba(self.X_test), labels=range(10))
        accuracy = float(self.model.score(self.X_test, self.y_test))
        return float(loss), len(self.y_test), {"accuracy": accuracy}


def client_fn(context: Context) -> Client:
    """Return the client of a partition."""
    config = context.node_config
    return FlowerClient(int(config["partition-id"]), int(config["num-partitions"])).to_client()


app = ClientApp(client_fn=client_fn)
