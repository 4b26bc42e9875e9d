"""fedsim.torch: custom PyTorch modules and datasets in a scenario written in Python.

    import fedsim, fedsim.torch

    result = fedsim.torch.run(Net, train, test=test, algorithm={"kind": "fedavg", ...}, rounds=100)
    network = result.module()

    problem = fedsim.torch.problem(Net, data=train, test=test, split={"kind": "dirichlet"})
    fedsim.run({"problem": problem, "algorithm": {"kind": "fedavg", ...}})  # the same, in parts

It needs PyTorch: pip install '.[torch]'.
"""

from fedsim.addons.torch import (
    Architecture,
    TorchResult,
    dataset,
    load_module,
    metric,
    optimizer,
    problem,
    run,
)

__all__ = [
    "Architecture",
    "TorchResult",
    "dataset",
    "load_module",
    "metric",
    "optimizer",
    "problem",
    "run",
]
