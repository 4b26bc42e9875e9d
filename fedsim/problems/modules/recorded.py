"""The operations of PyTorch that a function consists of, recorded once and repeated.

To repeat them computes the same bits (of recurrent layers, nearly) without the cost of modules,
of autograd and of `torch.func.vmap`, which for small networks take longer than the numbers do. What
a function decides in Python is decided when it is recorded, so only modules are recorded whose code
is known.
"""

from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.fx.experimental.proxy_tensor import make_fx

from fedsim.problems.modules import layers
from fedsim.problems.modules.shortened import shorten

_KNOWN = ("torch.nn.modules.", layers.__name__)
"""Where the code of layers is that do the same for every batch of a shape."""

_DENSE = (
    *(f"torch.nn.modules.{name}" for name in ("activation", "container", "dropout", "flatten")),
    *(f"torch.nn.modules.{name}" for name in ("linear", "normalization", "sparse")),
    layers.__name__,
)
"""Where dense layers are, and what takes little time beside them."""

_COPIES = (torch.ops.aten.detach.default, torch.ops.aten.alias.default)
"""Operations that do nothing where no gradient is asked for."""


def recordable(module: nn.Module) -> bool:
    """Return whether a module takes the same operations for every batch of a shape.

    It is built of PyTorch's own layers and of fedsim's, without hooks, and without layers that
    change their inputs in place.
    """
    return all(_is_known(part) for part in module.modules())


def dense(module: nn.Module) -> bool:
    """Return whether a module has dense layers alone: batched convolutions are slower, not faster.

    Normalisations over features, embeddings, dropout and fedsim's attention are beside them.
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
    """Return a function that repeats the operations of another one.

    Args:
        function: a function of tensors; it returns a list of tensors.
        arguments: tensors of the shapes for which it is recorded.
    """
    graph = make_fx(function)(*arguments)
    for node in list(graph.graph.nodes):
        if node.op == "call_function" and node.target in _COPIES:
            node.replace_all_uses_with(node.args[0])
            graph.graph.erase_node(node)
    shorten(graph.graph)
    graph.recompile()

    def repeat(*given: Tensor) -> tuple[Tensor, ...]:
        with torch.no_grad():
            return tuple(graph.forward(*given))

    return repeat
