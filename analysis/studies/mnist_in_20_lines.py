"""A custom network on MNIST: 100 phones, ten a round. `fedsim fetch mnist` gets the data."""

from torch import nn

import fedsim
import fedsim.torch


def network() -> nn.Module:  # noqa: D103 - 20 lines
    convolutions = nn.Conv2d(1, 8, 5, padding=2), nn.Conv2d(8, 16, 5, padding=2)
    layers = [each for one in convolutions for each in (one, nn.ReLU(), nn.MaxPool2d(2))]
    dense = nn.Flatten(), nn.Linear(784, 64), nn.ReLU(), nn.Linear(64, 10)
    return nn.Sequential(nn.Unflatten(1, (1, 28, 28)), *layers, *dense)


mnist, split = {"kind": "catalogue", "name": "mnist"}, {"kind": "dirichlet", "alpha": 0.5}
train, test = {**mnist, "preprocess": [{"divide": 255}]}, {**mnist, "part": "test"}
scenario = {
    "problem": fedsim.torch.problem(network, data=train, test=test, split=split),
    "algorithm": {"kind": "fedavg", "step_size": 0.2, "local_steps": 20, "batch": 20},
    "fleet": [{"count": 100, "device": "phone-mid", "radio": "lte"}],
    "participation": {"kind": "uniform", "count": 10},
    "measures": ["test_accuracy"],
    "observe": {"every": 10},
    "stop": {"rounds": 60, "test_accuracy": 0.97},
}
print(fedsim.run(scenario))
