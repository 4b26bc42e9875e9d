"""FedJAX: its federated averaging, in float32; its W2 is one full gradient, then a threshold.

python contestant_fedjax.py WORKLOAD FOLDER
"""

import sys
import time
from pathlib import Path
from typing import Any

import fedjax
import jax
import jax.numpy as jnp
import numpy as np
from turns import Turn, take_turns
from workloads import CLASSES, read

ROUNDS = {"w1": 3, "w2": 1, "w3": 1}
ASKED = {"w1": 10, "w2": 1000, "w3": 1000}
STEPS = {"w1": 40, "w2": 1, "w3": 1}


def cross_entropy(w: Any, batch: Any, _: Any) -> Any:
    """Return the mean cross entropy of a batch."""
    scores = jax.nn.log_softmax(batch["x"] @ w)
    return -jnp.take_along_axis(scores, batch["y"][:, None], axis=1).mean()


def squared(w: Any, batch: Any, _: Any) -> Any:
    """Return half the mean squared error of a batch."""
    return 0.5 * jnp.square(batch["x"] @ w - batch["y"]).mean()


def main() -> None:
    """Take turns of some rounds each."""
    name, folder = sys.argv[1:]
    X, y = read(name, Path(folder))
    kind = np.float32 if name == "w2" else np.int32
    data = fedjax.InMemoryFederatedData(
        {
            f"{i:04d}".encode(): {"x": x.astype(np.float32), "y": t.astype(kind)}
            for i, (x, t) in enumerate(zip(X, y, strict=True))
        }
    )
    loss, batch = (squared, 100) if name == "w2" else (cross_entropy, 50)
    algorithm = fedjax.algorithms.fed_avg.federated_averaging(
        jax.grad(loss),
        fedjax.optimizers.sgd(0.1 if name == "w2" else 0.01),
        fedjax.optimizers.sgd(1.0),
        fedjax.ShuffleRepeatBatchHParams(batch_size=batch, num_epochs=None, num_steps=STEPS[name]),
    )
    start = jnp.zeros(X[0].shape[1] if name == "w2" else (X[0].shape[1], CLASSES))
    sampler = fedjax.client_samplers.UniformGetClientSampler(data, ASKED[name], seed=0)
    state = algorithm.init(start)

    def turn() -> Turn:
        nonlocal state
        begin = time.perf_counter()
        for _ in range(ROUNDS[name]):
            state, _ = algorithm.apply(state, sampler.sample())
        jax.tree_util.tree_map(np.asarray, state.params)  # waits until they are computed
        return Turn(ROUNDS[name] * ASKED[name], time.perf_counter() - begin)

    take_turns(turn)


if __name__ == "__main__":
    main()
