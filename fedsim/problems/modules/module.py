"""A PyTorch module whose trainable parameters are one vector, and the cost of its loss."""

from collections.abc import Callable, Mapping
from math import prod
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _NormBase
from torch.utils.flop_counter import FlopCounterMode

from fedsim.problems.modules.schedules import SchedulePlaces
from fedsim.problems.parts import ModelPart, parts_of


def trained_parameters(module: nn.Module) -> list[tuple[str, nn.Parameter]]:
    """Return the trained parameters, each once, in the order of the flat model."""
    return [(name, each) for name, each in module.named_parameters() if each.requires_grad]


def statistics_of(module: nn.Module) -> list[tuple[str, Tensor]]:
    """Return the running means and variances of batch normalisation, in the order of the model.

    Only those with a momentum are included. Without one they are plain means over all batches,
    which depend on the number of batches and cannot be averaged between clients.
    """
    layers = []
    for prefix, each in module.named_modules():
        if isinstance(each, _NormBase) and each.track_running_stats and each.momentum is not None:
            layers += [
                (f"{prefix}.{name}".lstrip("."), buffer)
                for name, buffer in each.named_buffers(recurse=False)
                if buffer.is_floating_point()
            ]
    return layers


def layers_of(module: nn.Module, *, statistics: bool = False) -> tuple[ModelPart, ...]:
    """Return the position of each trained parameter, and then statistic, in the flat model."""
    named = [*trained_parameters(module), *(statistics_of(module) if statistics else [])]
    return parts_of([name for name, _ in named], [tuple(each.shape) for _, each in named])


def numbers_of(module: nn.Module, *, statistics: bool = False) -> list[Tensor]:
    """Return the tensors that the flat model consists of; see `layers_of`."""
    buffers = statistics_of(module) if statistics else []
    return [each for _, each in [*trained_parameters(module), *buffers]]


class FlatModule:
    """A module whose trained parameters are views of one flat vector.

    A model is loaded and read as one array, and the steps of an optimizer are operations on it.
    Gradients are PyTorch's own, one tensor per parameter: adding them to a vector would take longer
    than a gradient step.

    Args:
        module: modified in place; only to be used by this thread afterwards.
        dtype: the number type of real parameters and results.
        device: the device to compute on.
        statistics: whether those of batch normalisation are included; see `statistics_of`.

    Attributes:
        module: the same module.
        whole: its trained parameters, and statistics after them, shape (d,); may be written to.
        model: its trained parameters, a view, shape (p,).
        parts: the same, one view per parameter.
        schedules: the schedules of optimizers for this module.
    """

    def __init__(
        self,
        module: nn.Module,
        dtype: torch.dtype,
        device: torch.device,
        *,
        statistics: bool = False,
    ) -> None:
        self.module = module.to(device=device, dtype=dtype)
        layers = layers_of(self.module, statistics=statistics)
        trained = layers_of(self.module)[-1].stop
        self.whole = torch.empty(layers[-1].stop, dtype=dtype, device=device)
        self.model = self.whole[:trained]
        for each, layer in zip(numbers_of(self.module, statistics=statistics), layers, strict=True):
            # As a view, the parameter follows every change of the flat vector.
            each.data = self.whole[layer.start : layer.stop].view(layer.shape)
            if each.requires_grad:
                each.grad = None
        self._parameters = [each for _, each in trained_parameters(self.module)]
        self.parts = [parameter.detach() for parameter in self._parameters]
        self._layers = layers[: len(self.parts)]
        self._modules = list(self.module.modules())
        self.schedules = SchedulePlaces()

    def train(self, *, training: bool) -> None:
        """Set the module to training mode, or to evaluation mode."""
        if any(module.training is not training for module in self._modules):
            self.module.train(training)

    def clear(self) -> None:
        """Drop the gradients."""
        for parameter in self._parameters:
            parameter.grad = None

    def add_gradient(self, value: Tensor, factor: float = 1.0) -> None:
        """Add the gradient of a value, shape (), times a factor to the gradients."""
        torch.autograd.backward(value, torch.full_like(value, factor))

    def gradients(self) -> list[Tensor]:
        """Return the gradients, one per parameter; 0 if a value does not depend on it."""
        gradients = []
        for each in self._parameters:
            if each.grad is None:
                each.grad = torch.zeros_like(each)
            gradients.append(each.grad)
        return gradients

    def set_gradients(self, gradients: list[Tensor]) -> None:
        """Set the gradients, one tensor per parameter."""
        for each, gradient in zip(self._parameters, gradients, strict=True):
            each.grad = gradient

    def cut(self, vector: Tensor) -> list[Tensor]:
        """Split a vector, shape (p,), into views with the parameters' shapes."""
        return [vector[layer.start : layer.stop].view(layer.shape) for layer in self._layers]


def join(gradients: list[Tensor]) -> Tensor:
    """Concatenate gradients, one per parameter, to a new vector, shape (p,)."""
    return torch.cat([gradient.reshape(-1) for gradient in gradients])


def add(first: list[Tensor], second: list[Tensor], factor: float) -> list[Tensor]:
    """Return first + factor * second for each pair of tensors, as new tensors."""
    return list(torch._foreach_add(first, second, alpha=factor))  # noqa: SLF001 - it is documented


# The number of operations of a loss and its gradient.
# PyTorch's counter covers matrix products, convolutions and most attention kernels. The CPU kernels
# that it lacks have a formula here, by the counter's own rules: a multiplication and an addition
# are two operations, and the backward pass costs twice as much as the forward pass.

Shape = torch.Size


def operations_of(loss: Callable[[], Tensor]) -> float:
    """Return the operations of a loss and its gradient by `backward`.

    Elementwise operations, normalisations, pooling and look-ups are not counted.
    """
    with FlopCounterMode(display=False, custom_mapping=_FORMULAS) as counter:
        torch.autograd.backward(loss())
    return float(counter.get_total_flops())


def _product(matrix: Shape, _vector: Shape, **_: Any) -> int:
    """Return the operations of a matrix times a vector."""
    return 2 * prod(matrix)


def _added_product(_added: Shape, matrix: Shape, _vector: Shape, **_: Any) -> int:
    return 2 * prod(matrix)


def _inner(first: Shape, _second: Shape, **_: Any) -> int:
    """Return the operations of an inner product."""
    return 2 * prod(first)


def _recurrent(rows: Shape, into: Shape, back: Shape, *_: Any, **__: Any) -> int:
    """Return the operations of a layer of long short-term memory.

    Args:
        rows: the shape of the input, (steps, b, inputs).
        into: the shape of the input weights, (4 units, inputs).
        back: the shape of the recurrent weights, (4 units, units).
    """
    return 2 * rows[0] * rows[1] * (prod(into) + prod(back))


def _recurrent_backward(rows: Shape, into: Shape, back: Shape, *_: Any, **__: Any) -> int:
    return 2 * _recurrent(rows, into, back)


def _attention(queries: Shape, keys: Shape, values: Shape, *_: Any, **__: Any) -> int:
    """Return the operations of attention: of the scores, and of the weighted sums of values."""
    return 2 * _scores(queries, keys) * (queries[-1] + values[-1])


def _attention_backward(
    _gradient: Shape, queries: Shape, keys: Shape, values: Shape, *_: Any, **__: Any
) -> int:
    """Return the operations of its gradients: the scores again, and the gradients of all inputs."""
    return 2 * _scores(queries, keys) * (3 * queries[-1] + 2 * values[-1])


def _scores(queries: Shape, keys: Shape) -> int:
    """Return the number of scores of queries (b, heads, t, width)."""
    return prod(queries[:-1]) * keys[-2]


def _check_supported(formulas: dict[str, Callable[..., int]]) -> dict[Any, Callable[..., int]]:
    """Return the formulas by PyTorch operation, without operations that this build lacks."""
    every = torch.ops.aten
    return {getattr(every, name): each for name, each in formulas.items() if hasattr(every, name)}


_FORMULAS = _check_supported(
    {
        "mv": _product,
        "addmv": _added_product,
        "dot": _inner,
        "mkldnn_rnn_layer": _recurrent,
        "mkldnn_rnn_layer_backward": _recurrent_backward,
        "_scaled_dot_product_flash_attention_for_cpu": _attention,
        "_scaled_dot_product_flash_attention_for_cpu_backward": _attention_backward,
    }
)


# The platform on which PyTorch computes.


def platform(device: str) -> Mapping[str, str]:
    """Return PyTorch's version and compute backend, which determine the last bits of results.

    Args:
        device: the device of the loss, which has to exist.
    """
    if device == "cpu":
        name = f"cpu, {torch.backends.cpu.get_cpu_capability()}"
    else:
        name = f"{device}, {torch.cuda.get_device_name()}"
    return {"torch": torch.__version__, "device": name}
