"""The analysis of a network before training: its parameters, its constraints, its cost.

One trial on rows of zeros finds everything, so that unusable modules are refused before a run.
"""

from contextlib import nullcontext
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from fedsim.core.blocks.in_memory import Holding
from fedsim.core.ports import Array
from fedsim.problems.architectures import Architecture
from fedsim.problems.modules.additivity import PROBED, check_loss
from fedsim.problems.modules.module import layers_of, numbers_of
from fedsim.problems.modules.recorded import dense, recordable
from fedsim.problems.modules.seeding import own_streams, single_precision, with_gradients
from fedsim.problems.modules.trial import TRIED, ModuleTrial, check_nature, copy_module, settle
from fedsim.problems.parts import ModelPart


@dataclass(frozen=True, eq=False)
class Recipe:
    """A module that has been tried, and the findings of the trial.

    Attributes:
        architecture: the architecture that built it.
        module: the module as built, which is copied and never run.
        shape: the shape in which a row is passed to the module.
        layers: the positions of its trained parameters in the flat model.
        random: whether it draws random numbers in training, as dropout does.
        operations: the floating-point operations of value and gradient on one row.
        channels_last: whether it accepts images in the channels-last layout, with which
            convolutions and pooling are faster.
        noisy: whether outputs differ between training and evaluation.
        mixes: whether the outputs of a row depend on other rows, as under batch normalisation
            without running statistics.
        statistics: whether those of batch normalisation are part of the model, after the trained
            parameters.
        kept: cached objects that compute with it.
    """

    architecture: Architecture
    module: nn.Module
    shape: tuple[int, ...]
    layers: tuple[ModelPart, ...]
    random: bool
    operations: float
    channels_last: bool
    noisy: bool
    mixes: bool
    statistics: bool = False
    kept: dict[object, Any] = field(default_factory=dict, repr=False)

    @property
    def dimension(self) -> int:
        """The length d of the model."""
        return self.layers[-1].stop

    @property
    def parameters(self) -> int:
        """The number of layers that are trained parameters; those after them are statistics."""
        return len(layers_of(self.module))

    @property
    def recordable(self) -> bool:
        """Whether module and loss perform the same operations for every batch of a given shape."""
        return self.architecture.has_own_loss and recordable(self.module)

    @property
    def dense(self) -> bool:
        """Whether the module only has dense layers; see `fedsim.problems.modules.recorded`."""
        return dense(self.module)

    def fresh(self) -> nn.Module:
        """Return a new copy of the module."""
        return copy_module(self.module)


def start(recipe: Recipe, features: int, outputs: int, seed: int) -> Array:
    """Return the initial model of a module under a seed, shape (d,)."""
    module = _build_module(recipe.architecture, features, outputs, seed)
    numbers = numbers_of(module, statistics=recipe.statistics)
    parts = [number.detach().to(torch.float64).reshape(-1) for number in numbers]
    return np.asarray(torch.cat(parts).numpy())


def recipe(
    architecture: Architecture,
    criterion: str,
    features: int,
    outputs: int,
    *,
    statistics: bool = False,
) -> Recipe:
    """Build and try the module of an architecture.

    Results are cached: for fedsim's own architectures by the block's fields, for a user's
    architecture in the block.

    Raises:
        DataError: it cannot be trained by clients that share nothing but the flat model; the
            message states the reason and the remedy.
    """
    built_in = type(architecture).__module__.startswith(_OWN) and not isinstance(
        architecture, Holding
    )
    if built_in:
        return _cached_recipe(architecture, criterion, features, outputs, statistics)
    key = criterion, features, outputs, statistics
    if key not in architecture.kept:
        architecture.kept[key] = _recipe(architecture, *key)
    found: Recipe = architecture.kept[key]
    return found


_OWN = f"{__name__.partition('.')[0]}."


@lru_cache(maxsize=16)
def _cached_recipe(
    architecture: Architecture,
    criterion: str,
    features: int,
    outputs: int,
    statistics: bool,  # noqa: FBT001 - part of the cache's key
) -> Recipe:
    return _recipe(architecture, criterion, features, outputs, statistics)


@with_gradients
@own_streams()  # trials draw random numbers, for example by dropout
def _recipe(
    architecture: Architecture,
    criterion: str,
    features: int,
    outputs: int,
    statistics: bool,  # noqa: FBT001 - as above
) -> Recipe:
    module = _build_module(architecture, features, outputs, 0)
    shape = architecture.shape(features)
    kind = torch.int64 if architecture.whole_numbers else torch.float32
    rows = torch.zeros(TRIED, *shape, dtype=kind, device="cpu")
    classes = torch.float32 if criterion == "squared" else torch.int64
    targets = torch.zeros(TRIED, dtype=classes, device="cpu")

    def row_losses(found: Tensor, count: int) -> Tensor:
        return architecture.row_losses(found, targets[:count], criterion)

    trial = ModuleTrial(module, rows, outputs, row_losses, statistics=statistics)
    trial.check_outputs()
    if type(architecture).row_losses is not Architecture.row_losses:
        # A loss may only be defined for some labels, such as -1 and 1; it is tried on those.
        targets = check_loss(architecture, criterion, trial.some_outputs(PROBED))
    random = trial.draws()
    trial.check_other_rows()
    trial.check_one_row()
    trial.check_reached()
    operations = trial.operations(architecture.sampled)
    beside = len(shape) == 3 and trial.takes_channels_last()
    noisy = random or trial.trains_otherwise()
    return Recipe(
        architecture,
        module,
        shape,
        layers_of(module, statistics=statistics),
        random,
        operations,
        beside,
        noisy,
        architecture.predicts and trial.mixes(),
        statistics,
    )


def _build_module(architecture: Architecture, features: int, outputs: int, seed: int) -> nn.Module:
    """Build a module under a seed, and restore PyTorch's own stream afterwards."""
    passed = isinstance(architecture, Holding)  # a user's module keeps its own initial values
    with own_streams(seed), nullcontext() if passed else single_precision():
        module = architecture.module(features, outputs)
        if any(nn.parameter.is_lazy(parameter) for parameter in module.parameters()):
            kind = torch.int64 if architecture.whole_numbers else torch.get_default_dtype()
            settle(module, torch.zeros(TRIED, *architecture.shape(features), dtype=kind))
    check_nature(module)
    return module.train()
