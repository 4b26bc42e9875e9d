"""pfl-research: its simulated backend and federated averaging; W5.

python contestant_pfl.py WORKLOAD FOLDER
"""

import sys
import time
from typing import Any

import numpy as np
import torch
from networks import ASKED, BATCH, CLIENTS, RATE, ROUNDS, network, rows
from pfl.aggregate.simulate import SimulatedBackend
from pfl.algorithm.base import NNAlgorithmParams
from pfl.algorithm.federated_averaging import FederatedAveraging
from pfl.callback.base import TrainingProcessCallback
from pfl.data.dataset import Dataset
from pfl.data.federated_dataset import FederatedDataset
from pfl.data.sampling import get_user_sampler
from pfl.hyperparam import NNEvalHyperParams, NNTrainHyperParams
from pfl.metrics import Metrics, Weighted
from pfl.model.pytorch import PyTorchModel
from torch import Tensor, nn
from turns import Turn, take_turns


class Network(nn.Module):
    """The network, with what pfl-research asks of one."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = network()

    def loss(self, x: Tensor, t: Tensor, eval: bool = False) -> Tensor:  # noqa: A002, FBT001, FBT002
        """Return the mean over the rows."""
        return nn.functional.cross_entropy(self.layers(x), t.long())

    def metrics(self, x: Tensor, t: Tensor, eval: bool = True) -> Any:  # noqa: A002, FBT001, FBT002
        """Return the loss of the rows."""
        return {"loss": Weighted(float(self.loss(x, t, eval)), len(x))}


class Clock(TrainingProcessCallback):  # type: ignore[misc]  # not installed here
    """Notes when each round ends."""

    def __init__(self) -> None:
        self.ends: list[float] = []

    def after_central_iteration(self, *_: Any, **__: Any) -> Any:
        """Look at the clock, and go on."""
        self.ends.append(time.perf_counter())
        return False, Metrics()


def main() -> None:
    """Take turns: each is a training of some rounds, timed from the end of its first one."""
    _, folder = sys.argv[1:]
    data = rows(folder)
    module = Network()
    model = PyTorchModel(module, torch.optim.SGD, torch.optim.SGD(module.parameters(), lr=1.0))
    users = {
        client: Dataset((data.X[client].numpy(), data.t[client].numpy()))
        for client in range(CLIENTS)
    }
    dataset = FederatedDataset(users.__getitem__, get_user_sampler("random", list(users)))
    backend = SimulatedBackend(training_data=dataset, val_data=dataset)
    train = NNTrainHyperParams(local_num_epochs=1, local_learning_rate=RATE, local_batch_size=BATCH)
    rounds = NNAlgorithmParams(
        central_num_iterations=ROUNDS + 1,
        evaluation_frequency=10**6,
        train_cohort_size=ASKED,
        val_cohort_size=None,
    )

    def turn() -> Turn:
        np.random.seed(1)  # noqa: NPY002 - it draws from there
        clock = Clock()
        FederatedAveraging().run(
            backend=backend,
            model=model,
            algorithm_params=rounds,
            model_train_params=train,
            model_eval_params=NNEvalHyperParams(local_batch_size=None),
            callbacks=[clock],
        )
        return Turn(ROUNDS * ASKED, clock.ends[-1] - clock.ends[0])

    take_turns(turn)


if __name__ == "__main__":
    main()
