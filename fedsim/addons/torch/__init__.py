"""Custom PyTorch modules and datasets in a scenario written in Python.

`fedsim.torch` hands its names on, and has an example.
"""

try:
    import torch as _torch  # noqa: F401 - whether it is there
except ModuleNotFoundError as error:
    if error.name != "torch":
        raise
    from fedsim.core.extras import missing

    raise ModuleNotFoundError(missing("fedsim.torch", "PyTorch", "torch"), name="torch") from None

from fedsim.addons.torch.datasets import dataset
from fedsim.addons.torch.metrics import metric
from fedsim.addons.torch.optimizers import optimizer
from fedsim.addons.torch.problems import problem
from fedsim.addons.torch.running import TorchResult, load_module, run
from fedsim.problems.architectures import Architecture

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
