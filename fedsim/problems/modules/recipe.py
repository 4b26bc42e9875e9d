"""What is known of a network before it is trained: its parameters, its rules, its price.

All is found by one trial on rows of zeros, so that what cannot be used is said before a run.
"""

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import torch
from torch import Tensor, nn

from fedsim.ports import Array
from fedsim.problems.architectures import Architecture
from fedsim.problems.modules.counting import operations_of
from fedsim.problems.modules.flat import Layer, layers_of, trained
from fedsim.problems.modules.trial import TRIED, Trial, check_nature, copied, settle


@dataclass(frozen=True, eq=False)
class Recipe:
    """A module that has been tried, and what the trial has shown.

    Attributes:
        architecture: what it was made by.
        module: as it was made; copied, never run.
        shape: that a row is given in.
        layers: where its trained parameters lie in the flat model.
        random: whether it draws random numbers while it is trained, as dropout does.
        operations: floating-point operations of value and gradient on one row.
        channels_last: whether it takes images whose channels lie side by side, which convolutions
            and pooling are faster with.
    """

    architecture: Architecture
    module: nn.Module
    shape: tuple[int, ...]
    layers: tuple[Layer, ...]
    random: bool
    operations: float
    channels_last: bool

    @property
    def dimension(self) -> int:
        """The length d of the model."""
        return self.layers[-1].stop

    def fresh(self) -> nn.Module:
        """Return a module of one's own."""
        return copied(self.module)


def start(architecture: Architecture, features: int, outputs: int, seed: int) -> Array:
    """Return the parameters that a module begins with under a seed, shape (d,)."""
    return _flat(_made(architecture, features, outputs, seed))


@lru_cache(maxsize=32)
def recipe(architecture: Architecture, criterion: str, features: int, outputs: int) -> Recipe:
    """Make and try the module of an architecture.

    Raises:
        DataError: it cannot be trained by clients that share nothing but the flat model; the
            text says why, and what would do.
    """
    module = _made(architecture, features, outputs, 0)
    shape = architecture.shape(features)
    rows = torch.zeros(TRIED, *shape, dtype=torch.int64 if architecture.whole_numbers else None)
    kind = None if criterion == "squared" else torch.int64

    def row_losses(found: Tensor, count: int) -> Tensor:
        return architecture.row_losses(found, torch.zeros(count, dtype=kind), criterion)

    trial = Trial(module, rows, outputs, row_losses)
    random = trial.draws()
    trial.check_other_rows()
    trial.check_one_row()
    trial.check_reached()
    operations = operations_of(trial.loss) / TRIED
    beside = len(shape) == 3 and trial.takes_channels_last()
    return Recipe(architecture, module, shape, layers_of(module), random, operations, beside)


def _made(architecture: Architecture, features: int, outputs: int, seed: int) -> nn.Module:
    """Make a module under a seed, which leaves PyTorch's own stream as it was."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        module = architecture.module(features, outputs)
        if any(nn.parameter.is_lazy(each) for each in module.parameters()):
            kind = torch.int64 if architecture.whole_numbers else None
            settle(module, torch.zeros(TRIED, *architecture.shape(features), dtype=kind))
    check_nature(module)
    return module.train()


def _flat(module: nn.Module) -> Array:
    """Return the trained parameters as one vector."""
    parts = [each.detach().to(torch.float64).reshape(-1) for _, each in trained(module)]
    return np.asarray(torch.cat(parts).numpy())
