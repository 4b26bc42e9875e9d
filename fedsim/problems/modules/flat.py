"""A PyTorch module whose trainable parameters are one vector, and their gradients another."""

from typing import NamedTuple

import torch
from torch import Tensor, nn


class Layer(NamedTuple):
    """Where a parameter lies in the flat model.

    Attributes:
        name: what the module calls it.
        start: its first number.
        stop: the one after its last.
        shape: that it is read in.
    """

    name: str
    start: int
    stop: int
    shape: tuple[int, ...]


def trained(module: nn.Module) -> list[tuple[str, nn.Parameter]]:
    """Return the parameters that are trained, each once, in the order of the flat model."""
    return [(name, each) for name, each in module.named_parameters() if each.requires_grad]


def layers_of(module: nn.Module) -> tuple[Layer, ...]:
    """Return where each trained parameter lies in the flat model."""
    layers, start = [], 0
    for name, each in trained(module):
        layers.append(Layer(name, start, start + each.numel(), tuple(each.shape)))
        start += each.numel()
    return tuple(layers)


class FlatModule:
    """A module in whose place two vectors are read and written.

    Its parameters are views of the one, their gradients of the other: a step of gradient descent
    on all of them is one operation, and no parameter is copied by itself.

    Args:
        module: is changed in place, and belongs to this one thread from now on.
        dtype: of parameters and of what is computed, where it is a real number.
        device: where.

    Attributes:
        module: the same module.
        model: its trained parameters, shape (d,); write into it.
        gradient: their gradients, shape (d,), to which `backward` adds.
    """

    def __init__(self, module: nn.Module, dtype: torch.dtype, device: torch.device) -> None:
        self.module = module.to(device=device, dtype=dtype)
        layers = layers_of(self.module)
        length = layers[-1].stop
        self.model = torch.empty(length, dtype=dtype, device=device)
        self.gradient = torch.zeros(length, dtype=dtype, device=device)
        for (_, parameter), layer in zip(trained(self.module), layers, strict=True):
            place = slice(layer.start, layer.stop)
            self.model[place] = parameter.detach().reshape(-1)
            parameter.data = self.model[place].view(layer.shape)
            parameter.grad = self.gradient[place].view(layer.shape)

    def add_gradient(self, value: Tensor) -> None:
        """Add the gradient of a value, shape (), to `gradient`."""
        torch.autograd.backward(value)
