"""Recorded operations without those whose results are known already.

What vmap and autograd leave behind: views of the shape that a tensor has, products with one, the
same operation twice, and the loss, of which gradients need the shape alone. Two thirds of the
operations of a small network are such. Each costs a call, and the others compute the same bits.
"""

from collections.abc import Hashable

import torch
from torch._ops import OpOverload
from torch.fx import Graph, Node

_aten = torch.ops.aten

_VIEWS = (_aten.view.default, _aten._unsafe_view.default, _aten.expand.default)  # noqa: SLF001
"""Operations that do nothing where shape and strides stay."""

_ONES = _aten.ones_like.default

_TRANSPOSE = _aten.transpose.int


def shorten(graph: Graph) -> None:
    """Remove operations whose results are known, and those whose results are not used.

    A graph that writes into its tensors keeps all that are used.

    Args:
        graph: the graph of operations of ATen, with the shapes that `make_fx` notes.
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
    """Return whether an operation changes what it is given, or may be another one."""
    if node.op != "call_function":
        return False
    target = node.target
    return not isinstance(target, OpOverload) or target._schema.is_mutable  # noqa: SLF001


def _find_known(node: Node) -> Node | None:
    """Return the tensor that an operation returns as it is, if it does."""
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
    """Return an earlier node of the same operation on the same tensors; else note this one."""
    target = node.target
    if not isinstance(target, OpOverload) or torch.Tag.nondeterministic_seeded in target.tags:
        return None
    key = (target, _hashable(node.args), _hashable(node.kwargs))
    found = seen.setdefault(key, node)
    return None if found is node else found


def _hashable(value: object) -> Hashable:
    """Return an argument, or several, as a key; numbers of different types differ."""
    if isinstance(value, dict):
        return tuple((name, _hashable(each)) for name, each in value.items())
    if isinstance(value, list | tuple):
        return tuple(_hashable(item) for item in value)
    return value if isinstance(value, Node) else (type(value), value)
