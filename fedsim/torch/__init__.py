"""fedsim.torch: custom PyTorch modules and datasets in a scenario written in Python.

    import fedsim, fedsim.torch

    result = fedsim.torch.run(Net, train, test=test, algorithm={"kind": "fedavg", ...}, rounds=100)
    network = result.module()

    problem = fedsim.torch.problem(Net, data=train, test=test, split={"kind": "dirichlet"})
    fedsim.run({"problem": problem, "algorithm": {"kind": "fedavg", ...}})  # the same, in parts

It needs PyTorch: pip install '.[torch]'.
"""

try:
    import torch as _torch  # noqa: F401 - whether it is there
except ModuleNotFoundError as error:
    if error.name != "torch":
        raise
    from fedsim.extras import missing

    raise ModuleNotFoundError(missing("fedsim.torch", "PyTorch", "torch"), name="torch") from None

from fedsim.problems.architectures import Architecture
from fedsim.torch.datasets import dataset
from fedsim.torch.metrics import metric
from fedsim.torch.optimizers import optimizer
from fedsim.torch.problems import problem
from fedsim.torch.running import TorchResult, load_module, run

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
