"""The PyTorch operations of a function, recorded once and repeated.

Repeating them computes the same bits (nearly so for recurrent layers), without the cost of modules,
autograd and `torch.func.vmap`. For small networks this cost exceeds that of the computation.
Decisions in Python code are fixed at the time of recording, so only modules with known code are
recorded.
"""

from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.fx.experimental.proxy_tensor import make_fx

from fedsim.problems.modules import layers
from fedsim.problems.modules.shortened import shorten

_KNOWN = ("torch.nn.modules.", layers.__name__)
"""The modules with layers whose operations do not depend on the values in a batch."""

_DENSE = (
    *(f"torch.nn.modules.{name}" for name in ("activation", "container", "dropout", "flatten")),
    *(f"torch.nn.modules.{name}" for name in ("linear", "normalization", "sparse")),
    layers.__name__,
)
"""The modules with dense layers, and with layers that take little time beside them."""

_COPIES = (torch.ops.aten.detach.default, torch.ops.aten.alias.default)
"""Operations without effect if no gradient is needed."""


def recordable(module: nn.Module) -> bool:
    """Return whether a module performs the same operations for every batch of a given shape.

    It has to consist of PyTorch's and fedsim's own layers, without hooks, and without layers that
    change their inputs in place.
    """
    return all(_is_known(part) for part in module.modules())


def dense(module: nn.Module) -> bool:
    """Return whether a module only has dense layers: batched convolutions are slower, not faster.

    Normalisations over features, embeddings, dropout and fedsim's attention are allowed, too.
    """
    return all(type(part).__module__.startswith(_DENSE) for part in module.modules())


def _is_known(layer: nn.Module) -> bool:
    """Return whether the code of a layer is known; see `recordable`."""
    hooks = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")
    return (
        type(layer).__module__.startswith(_KNOWN)
        and "forward" not in vars(layer)
        and not getattr(layer, "inplace", False)
        and not any(getattr(layer, name, None) for name in hooks)
    )


def record(
    function: Callable[..., list[Tensor]], *arguments: Tensor
) -> Callable[..., tuple[Tensor, ...]]:
    """Return a function that repeats the operations of another function.

    Args:
        function: a function of tensors that returns a list of tensors.
        arguments: tensors with the shapes for which it is recorded.
    """
    graph = make_fx(function)(*arguments)
    for node in list(graph.graph.nodes):
        if node.op == "call_function" and node.target in _COPIES:
            node.replace_all_uses_with(node.args[0])
            graph.graph.erase_node(node)
    shorten(graph.graph)
    graph.recompile()

    def repeat(*tensors: Tensor) -> tuple[Tensor, ...]:
        with torch.no_grad():
            return tuple(graph.forward(*tensors))

    return repeat
