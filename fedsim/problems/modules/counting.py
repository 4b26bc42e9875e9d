"""Counting the operations of a loss and its gradient.

PyTorch's counter knows matrix products, convolutions and most kernels of attention. What it does
not know of the kernels that run on a CPU has a formula here, by the counter's own rules: a product
and an addition are two operations, and what is done forwards is done twice as often backwards.
"""

from collections.abc import Callable
from math import prod
from typing import Any

import torch
from torch import Tensor
from torch.utils.flop_counter import FlopCounterMode

Shape = torch.Size


def operations_of(loss: Callable[[], Tensor]) -> float:
    """Return the operations of a loss and its gradient, as `backward` finds it.

    Elementwise operations, normalisations, pooling and look-ups are not counted.
    """
    with FlopCounterMode(display=False, custom_mapping=_FORMULAS) as counter:
        torch.autograd.backward(loss())
    return float(counter.get_total_flops())


def _product(matrix: Shape, _vector: Shape, **_: Any) -> int:
    """Return those of a matrix times a vector."""
    return 2 * prod(matrix)


def _added_product(_added: Shape, matrix: Shape, _vector: Shape, **_: Any) -> int:
    return 2 * prod(matrix)


def _inner(first: Shape, _second: Shape, **_: Any) -> int:
    """Return those of an inner product."""
    return 2 * prod(first)


def _recurrent(rows: Shape, into: Shape, back: Shape, *_: Any, **__: Any) -> int:
    """Return those of a layer of long short-term memory.

    Args:
        rows: shape of what goes in, (steps, b, inputs).
        into: of the weights of what goes in, (4 units, inputs).
        back: of the weights of what comes back, (4 units, units).
    """
    return 2 * rows[0] * rows[1] * (prod(into) + prod(back))


def _recurrent_backward(rows: Shape, into: Shape, back: Shape, *_: Any, **__: Any) -> int:
    return 2 * _recurrent(rows, into, back)


def _attention(queries: Shape, keys: Shape, values: Shape, *_: Any, **__: Any) -> int:
    """Return those of attention: scores, and what they weigh."""
    return 2 * _scores(queries, keys) * (queries[-1] + values[-1])


def _attention_backward(
    _gradient: Shape, queries: Shape, keys: Shape, values: Shape, *_: Any, **__: Any
) -> int:
    """Return those of its gradients: scores anew, theirs, and those of queries, keys and values."""
    return 2 * _scores(queries, keys) * (3 * queries[-1] + 2 * values[-1])


def _scores(queries: Shape, keys: Shape) -> int:
    """Return how many scores there are for queries (b, heads, t, width)."""
    return prod(queries[:-1]) * keys[-2]


def _known(formulas: dict[str, Callable[..., int]]) -> dict[Any, Callable[..., int]]:
    """Return formulas by operations of PyTorch; one that a build has not is left out."""
    every = torch.ops.aten
    return {getattr(every, name): each for name, each in formulas.items() if hasattr(every, name)}


_FORMULAS = _known(
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
