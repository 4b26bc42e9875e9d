"""What is known of a network before it is trained: its parameters, its rules, its price.

All is found by one trial on rows of zeros, so that what cannot be used is said before a run.
"""

from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from fedsim.errors import DataError
from fedsim.ports import Array
from fedsim.problems.architectures import Architecture
from fedsim.problems.modules.counting import operations_of
from fedsim.problems.modules.flat import Layer, layers_of, trained

_TRIED = 2
"""So many rows a trial takes: one alone would hide what mixes rows up."""


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
        return deepcopy(self.module)


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
    tried = deepcopy(module)
    rows = torch.zeros(_TRIED, *shape, dtype=torch.int64 if architecture.whole_numbers else None)
    targets = torch.zeros(_TRIED, dtype=None if criterion == "squared" else torch.int64)

    def loss(rows: Tensor = rows) -> Tensor:
        return architecture.row_losses(_outputs(tried(rows), outputs), targets, criterion).mean()

    random = _draws(loss)
    _check_unchanged(module, tried)
    _check_reached(tried, loss)
    return Recipe(
        architecture,
        module,
        shape,
        layers_of(module),
        random,
        operations_of(loss) / _TRIED,
        len(shape) == 3 and _takes_channels_last(rows, loss),
    )


def _made(architecture: Architecture, features: int, outputs: int, seed: int) -> nn.Module:
    """Make a module under a seed, which leaves PyTorch's own stream as it was."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        module = architecture.module(features, outputs)
        if any(nn.parameter.is_lazy(each) for each in module.parameters()):
            kind = torch.int64 if architecture.whole_numbers else None
            module(torch.zeros(_TRIED, *architecture.shape(features), dtype=kind))
    if not trained(module):
        text = f"the module {type(module).__name__} has no parameter that is trained"
        raise DataError("loss.model", text)
    return module.train()


def _flat(module: nn.Module) -> Array:
    """Return the trained parameters as one vector."""
    parts = [each.detach().to(torch.float64).reshape(-1) for _, each in trained(module)]
    return np.asarray(torch.cat(parts).numpy())


def _outputs(found: Any, outputs: int) -> Tensor:  # noqa: ANN401 - a module returns anything
    """Return what a module has returned, which is to be outputs, shape (b, outputs)."""
    shape = tuple(found.shape) if isinstance(found, Tensor) else None
    allowed = {(_TRIED, outputs)} | ({(_TRIED,)} if outputs == 1 else set())
    if not isinstance(found, Tensor) or shape not in allowed:
        seen = type(found).__name__ if shape is None else f"the shape {shape}"
        text = f"the module is to return outputs of shape (rows, {outputs}); of {_TRIED} rows: seen"
        raise DataError("loss.model", f"{text} {seen}")
    return found


def _draws(loss: Callable[[], Tensor]) -> bool:
    """Say whether random numbers are drawn for a loss."""
    with torch.random.fork_rng(devices=[]):
        before = torch.random.get_rng_state()
        try:
            loss()
        except (RuntimeError, ValueError, TypeError, IndexError) as error:
            text = f"the module fails on {_TRIED} rows of zeros: {error}"
            raise DataError("loss.model", text) from error
        return not torch.equal(before, torch.random.get_rng_state())


def _takes_channels_last(rows: Tensor, loss: Callable[[Tensor], Tensor]) -> bool:
    """Say whether images may lie so; a module that looks at them by `view` may not take them."""
    try:
        with torch.random.fork_rng(devices=[]):
            torch.autograd.backward(loss(rows.to(memory_format=torch.channels_last)))
    except RuntimeError:
        return False
    return True


def _check_unchanged(module: nn.Module, tried: nn.Module) -> None:
    """See to it that a forward pass has changed neither buffers nor the names of parameters."""
    before, after = module.state_dict(), tried.state_dict()
    if before.keys() != after.keys():
        other = sorted(before.keys() ^ after.keys())
        text = f"the module's state has other keys after a forward pass: {', '.join(other[:5])}"
        raise DataError("loss.model", f"{text}; make all parameters when it is made")
    changed = [name for name in before if not torch.equal(before[name], after[name])]
    if changed:
        raise DataError(
            "loss.model",
            f"a forward pass changes the buffer {changed[0]} of the module, as batch "
            "normalisation does with its running statistics: clients share parameters only; take "
            "group norm, or track_running_stats=False",
        )


def _check_reached(tried: nn.Module, loss: Callable[[], Tensor]) -> None:
    """See to it that there is a gradient."""
    value = loss()
    if not value.requires_grad:
        text = "the loss does not depend on any trained parameter of the module"
        raise DataError("loss.model", text)
    tried.zero_grad()
