"""Recorded operations without those whose results are already known.

Vmap and autograd leave such operations behind: views with the shape that a tensor already has,
products with one, repeated operations, and the value of the loss, of which gradients only need the
shape. These are two thirds of the operations of a small network, and each of them costs a call. The
remaining operations compute the same bits.
"""

from collections.abc import Hashable

import torch
from torch._ops import OpOverload
from torch.fx import Graph, Node

_aten = torch.ops.aten

_VIEWS = (_aten.view.default, _aten._unsafe_view.default, _aten.expand.default)  # noqa: SLF001
"""Operations without effect if shape and strides stay the same."""

_ONES = _aten.ones_like.default

_TRANSPOSE = _aten.transpose.int


def shorten(graph: Graph) -> None:
    """Remove operations whose results are known, and those whose results are not used.

    A graph that modifies its tensors only loses unused operations.

    Args:
        graph: the graph of ATen operations, with the shapes that `make_fx` records.
    """
    if not any(_writes(node) for node in graph.nodes):
        seen: dict[Hashable, Node] = {}
        for node in list(graph.nodes):
            if node.op != "call_function":
                continue
            known = _find_known(node) or _seen_before(node, seen)
            if known is not None:
                node.replace_all_uses_with(known)
                graph.erase_node(node)
    graph.eliminate_dead_code()


def _writes(node: Node) -> bool:
    """Return whether an operation may modify its arguments."""
    if node.op != "call_function":
        return False
    target = node.target
    return not isinstance(target, OpOverload) or target._schema.is_mutable  # noqa: SLF001


def _find_known(node: Node) -> Node | None:
    """Return the argument that an operation returns unchanged, if it does so."""
    target, given = node.target, node.args
    first = given[0] if given and isinstance(given[0], Node) else None
    found = None
    if first is None:
        return None
    if target in _VIEWS or (target is _aten.mul.Scalar and given[1] == 1):
        found = first
    elif target is _aten.mul.Tensor and isinstance(given[1], Node):
        if first.target is _ONES:
            found = given[1]
        elif given[1].target is _ONES:
            found = first
    elif target is _TRANSPOSE and first.target is _TRANSPOSE and given[1:] == first.args[1:]:
        before = first.args[0]
        found = before if isinstance(before, Node) else None
    return found if found is not None and _form(found) == _form(node) else None


def _form(node: Node) -> Hashable:
    """Return shape, strides and number type of a tensor."""
    known = node.meta.get("tensor_meta")
    return node if known is None else (known.shape, known.stride, known.dtype)


def _seen_before(node: Node, seen: dict[Hashable, Node]) -> Node | None:
    """Return an earlier node with the same operation and arguments; else record this one."""
    target = node.target
    if not isinstance(target, OpOverload) or torch.Tag.nondeterministic_seeded in target.tags:
        return None
    key = (target, _hashable(node.args), _hashable(node.kwargs))
    found = seen.setdefault(key, node)
    return None if found is node else found


def _hashable(value: object) -> Hashable:
    """Return one or several arguments as a key; equal numbers of different types differ."""
    if isinstance(value, dict):
        return tuple((name, _hashable(item)) for name, item in value.items())
    if isinstance(value, list | tuple):
        return tuple(_hashable(item) for item in value)
    return value if isinstance(value, Node) else (type(value), value)
