"""The server: federated averaging, whose last model is written down."""

from typing import Any

import numpy as np
from flwr.common import Context, Parameters, ndarrays_to_parameters, parameters_to_ndarrays
from flwr.server import ServerApp, ServerAppComponents, ServerConfig
from flwr.server.strategy import FedAvg

from sklearn_digits.task import create, get_params

ROUNDS = 2


def weighted(metrics: list[tuple[int, dict[str, Any]]]) -> dict[str, Any]:
    """Return the mean accuracy of clients."""
    total = sum(count for count, _ in metrics)
    return {"accuracy": sum(count * each["accuracy"] for count, each in metrics) / total}


class Saving(FedAvg):
    """Federated averaging that writes down what it ends with."""

    last: Parameters

    def aggregate_fit(self, server_round: int, results: Any, failures: Any) -> Any:
        """Average, and keep the mean."""
        parameters, metrics = super().aggregate_fit(server_round, results, failures)
        self.last = parameters
        return parameters, metrics

    def aggregate_evaluate(self, server_round: int, results: Any, failures: Any) -> Any:
        """Average, and write down the last model."""
        loss, metrics = super().aggregate_evaluate(server_round, results, failures)
        if server_round == ROUNDS:
            coef, intercept = parameters_to_ndarrays(self.last)
            np.savez("final_model.npz", coef, intercept, accuracy=metrics["accuracy"])
        return loss, metrics


def strategy() -> FedAvg:
    """Return federated averaging from a model that is zero."""
    return Saving(
        initial_parameters=ndarrays_to_parameters(get_params(create())),
        evaluate_metrics_aggregation_fn=weighted,
        # Flower counts who is there before it waits for others, so that each count is needed.
        min_fit_clients=3,
        min_evaluate_clients=3,
        min_available_clients=3,
    )


def server_fn(context: Context) -> ServerAppComponents:
    """Return what a server is made of."""
    return ServerAppComponents(strategy=strategy(), config=ServerConfig(num_rounds=ROUNDS))


app = ServerApp(server_fn=server_fn)
