"""Identity of PyTorch's tensors, types and generators. This module loads PyTorch."""

from typing import Any

import torch
from torch import Tensor, nn

from fedsim.blocks.identity.containers import memory
from fedsim.blocks.identity.walker import Content, Parts, Unknown, Walk, WalkedNode

_NAMED = (torch.dtype, torch.device, torch.layout, torch.memory_format)
_HOOKS = "_backward_hooks", "_post_accumulate_grad_hooks"


def open_node(value: object, walk: Walk) -> WalkedNode | None:
    """Return the node of a tensor, type, size or generator of PyTorch; None for other objects."""
    if isinstance(value, Tensor) and type(value) is Tensor:
        return WalkedNode("tensor", _whole(value, walk))
    if isinstance(value, _NAMED):
        return WalkedNode(type(value).__name__, iter([("", str(value))]), kept=False)
    if type(value) is torch.Size:
        return WalkedNode("size", iter([("", tuple(value))]), kept=False)
    if type(value) is torch.Generator:
        parts = ("device", str(value.device)), ("state", value.get_state())
        return WalkedNode("generator", iter(parts))
    return None


def _whole(value: Tensor, walk: Walk) -> Parts:
    yield from _tensor(value, walk)
    yield from vars(value).items()


def _tensor(value: Tensor, walk: Walk) -> Parts:
    """Yield the parts of a tensor.

    Raises:
        Unknown: it is sparse, quantised or on the meta device, or part of a computation graph.
    """
    if value.layout is not torch.strided or value.is_quantized or value.is_meta:
        raise Unknown("a tensor that is sparse, quantised or without numbers")
    if value.grad_fn is not None:
        raise Unknown("a tensor that was computed from others, with its gradient")
    yield "dtype", str(value.dtype)
    yield "device", str(value.device)
    yield "shape", tuple(value.shape)
    yield "strides", tuple(value.stride())
    yield "view", (value.requires_grad, value.is_conj(), value.is_neg())
    storage = value.untyped_storage()
    yield from memory(("tensor", storage.data_ptr()), storage, int(value.storage_offset()), walk)
    plain = value.detach().resolve_conj().resolve_neg().cpu().contiguous().reshape(-1)
    yield "bytes", plain.view(torch.uint8).numpy().tobytes()
    yield "grad", value.grad if value.is_leaf else None
    for name in _HOOKS:
        yield name, list((getattr(value, name) or {}).values())


def attributes_of(value: object, attributes: dict[str, object]) -> dict[str, object]:
    """Return the attributes of an instance; the hooks of a module are renumbered from 0.

    PyTorch numbers the hooks of all modules of a process by one counter. Without renumbering, a
    module would have another digest if an unrelated module with hooks had been created before it.
    """
    if not isinstance(value, nn.Module):
        return attributes
    hooks = {
        name: dict(each)
        for name, each in attributes.items()
        if "_hooks" in name and name in _OF_MODULES and isinstance(each, dict)
    }
    numbers = sorted({number for each in hooks.values() for number in each})
    ranks = {number: rank for rank, number in enumerate(numbers)}
    own: dict[str, object] = {
        name: {ranks[number]: hook for number, hook in each.items()} for name, each in hooks.items()
    }
    return {**attributes, **own}


_OF_MODULES = frozenset(vars(nn.Module()))
"""The attributes of every module."""

_TENSOR: Any = Tensor.__base__
BASES: dict[type, Content] = {_TENSOR: _tensor}
