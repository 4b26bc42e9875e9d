"""What is known of a network before it is trained: its parameters, its rules, its price.

All is found by one trial on rows of zeros, so that what cannot be used is said before a run.
"""

from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from fedsim.blocks.held import Holding
from fedsim.ports import Array
from fedsim.problems.architectures import Architecture
from fedsim.problems.modules.additive import PROBED, check_loss
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
        noisy: whether outputs are others in training than in use.
        mixes: whether the outputs of a row depend on the rows beside it, as under batch
            normalisation without running statistics.
        kept: what computes with it, for as long as there is it.
    """

    architecture: Architecture
    module: nn.Module
    shape: tuple[int, ...]
    layers: tuple[Layer, ...]
    random: bool
    operations: float
    channels_last: bool
    noisy: bool
    mixes: bool
    kept: dict[object, Any] = field(default_factory=dict, repr=False)

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


def recipe(architecture: Architecture, criterion: str, features: int, outputs: int) -> Recipe:
    """Make and try the module of an architecture.

    What was found is kept: of fedsim's own by what the block says, of a user's with the block.

    Raises:
        DataError: it cannot be trained by clients that share nothing but the flat model; the
            text says why, and what would do.
    """
    own = type(architecture).__module__.startswith(_OWN) and not isinstance(architecture, Holding)
    if own:
        return _known(architecture, criterion, features, outputs)
    key = criterion, features, outputs
    if key not in architecture.kept:
        architecture.kept[key] = _recipe(architecture, *key)
    found: Recipe = architecture.kept[key]
    return found


_OWN = f"{__name__.partition('.')[0]}."


@lru_cache(maxsize=16)
def _known(architecture: Architecture, criterion: str, features: int, outputs: int) -> Recipe:
    return _recipe(architecture, criterion, features, outputs)


def _recipe(architecture: Architecture, criterion: str, features: int, outputs: int) -> Recipe:
    module = _made(architecture, features, outputs, 0)
    shape = architecture.shape(features)
    rows = torch.zeros(TRIED, *shape, dtype=torch.int64 if architecture.whole_numbers else None)
    kind = None if criterion == "squared" else torch.int64

    def row_losses(found: Tensor, count: int) -> Tensor:
        return architecture.row_losses(found, torch.zeros(count, dtype=kind), criterion)

    trial = Trial(module, rows, outputs, row_losses)
    trial.check_outputs()
    if type(architecture).row_losses is not Architecture.row_losses:
        check_loss(architecture, criterion, trial.some_outputs(PROBED))
    random = trial.draws()
    trial.check_other_rows()
    trial.check_one_row()
    trial.check_reached()
    operations = operations_of(trial.loss) / TRIED
    beside = len(shape) == 3 and trial.takes_channels_last()
    noisy = random or trial.trains_otherwise()
    layers = layers_of(module)
    return Recipe(
        architecture, module, shape, layers, random, operations, beside, noisy, trial.mixes()
    )


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
