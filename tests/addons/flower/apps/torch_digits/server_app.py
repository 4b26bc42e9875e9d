"""The server: federated averaging from one network, which is written down in the end."""

import numpy as np
import torch
from flwr.app import ArrayRecord, ConfigRecord, Context
from flwr.serverapp import Grid, ServerApp
from flwr.serverapp.strategy import FedAvg

from torch_digits.task import Net

ROUNDS, LR = 2, 0.1

app = ServerApp()


def initial() -> ArrayRecord:
    """Return the network that all start from."""
    torch.manual_seed(0)
    return ArrayRecord(Net().state_dict())


@app.main()
def main(grid: Grid, context: Context) -> None:
    """Run the rounds."""
    # Flower counts who is there before it waits for others, so that each count is needed.
    strategy = FedAvg(min_available_nodes=3, min_train_nodes=3, min_evaluate_nodes=3)
    result = strategy.start(
        grid=grid,
        initial_arrays=initial(),
        train_config=ConfigRecord({"lr": LR}),
        num_rounds=ROUNDS,
    )
    final = {name: array.numpy() for name, array in result.arrays.items()}
    accuracy = result.evaluate_metrics_clientapp[ROUNDS]["eval_accuracy"]
    np.savez("final_model.npz", accuracy=accuracy, **final)
