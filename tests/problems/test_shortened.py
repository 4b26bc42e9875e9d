"""Recorded operations without those that do nothing: fewer, and the same bits."""

from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.func import grad, vmap
from torch.fx.experimental.proxy_tensor import make_fx

from fedsim.problems.modules.recorded import record
from fedsim.problems.modules.shortened import shorten
from tests.tiers import every

CLIENTS, ROWS, FEATURES = 3, 4, 5


def operations(function: Callable[..., list[Tensor]], *given: Tensor) -> list[str]:
    """Return the names of the operations that are left of a function."""
    made = make_fx(function)(*given)
    shorten(made.graph)
    made.recompile()
    for one, other in zip(made.forward(*given), function(*given), strict=True):
        assert torch.equal(one, other)
        assert one.stride() == other.stride()
    return [node.name for node in made.graph.nodes if node.op == "call_function"]


@every(
    ("function", "left"),
    [
        (lambda x: [x.view(2, 3) + 1], ["add"]),
        (lambda x: [x.view(3, 2) + 1], ["view", "add"]),
        (lambda x: [x.expand(2, 3) + 1], ["add"]),
        (lambda x: [x.expand(2, 2, 3) + 1], ["expand", "add"]),
        (lambda x: [x * 1 + 1], ["mul", "add"]),  # a tensor of one number, not a number
        (lambda x: [torch.ones_like(x) * x + 1], ["add"]),
        (lambda x: [x * torch.ones_like(x) + 1], ["add"]),
        (lambda x: [x[:1] * torch.ones_like(x) + 1], ["slice_1", "ones_like", "mul", "add"]),
        (lambda x: [x.transpose(0, 1).transpose(0, 1) + 1], ["add"]),
        (lambda x: [x.exp() + x.exp()], ["exp", "add"]),
        (lambda x: [x + 1, x + 1.0], ["add", "add_1"]),
        (lambda x: [x.exp(), x.log() * 0], ["exp", "log", "mul"]),
    ],
)
def test_what_is_known_is_left_out(function: Callable[..., list[Tensor]], left: list[str]) -> None:
    assert operations(function, torch.arange(1.0, 7.0).reshape(2, 3)) == left


def test_nothing_is_merged_where_something_is_written() -> None:
    def writing(x: Tensor) -> list[Tensor]:
        one, other = x + 1, x + 1
        return [one.add_(2), other]

    assert operations(writing, torch.ones(2, 3)) == ["add", "add_1", "add_"]


def test_draws_are_not_merged() -> None:
    def drawing(x: Tensor) -> list[Tensor]:
        return [torch.rand_like(x), torch.rand_like(x)]

    one, other = record(drawing, torch.ones(100))(torch.ones(100))
    assert not torch.equal(one, other)


def test_the_loss_itself_is_not_computed() -> None:
    layer = nn.Linear(FEATURES, 2)

    def loss(weight: Tensor, rows: Tensor, targets: Tensor, factor: Tensor) -> Tensor:
        outputs = nn.functional.linear(rows, weight, layer.bias.detach())
        return factor * nn.functional.cross_entropy(outputs, targets, reduction="sum")

    weights = torch.randn(CLIENTS, 2, FEATURES)
    rows, targets = torch.randn(CLIENTS, ROWS, FEATURES), torch.zeros(CLIENTS, ROWS).long()
    factors = torch.rand(CLIENTS)
    left = operations(lambda *given: [vmap(grad(loss))(*given)], weights, rows, targets, factors)
    assert sum("gather" in each for each in left) == 0
    assert sum("bmm" in each for each in left) == 2
