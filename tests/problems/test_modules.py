"""Modules of users: which work as they are, and which are refused, in words of PyTorch's."""

import re
import warnings
from collections.abc import Callable
from typing import Any, ClassVar, Literal, cast

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.utils import parametrizations

from fedsim.core.errors import DataError
from fedsim.core.ports import Array
from fedsim.problems import Architecture, LocalLoss, TorchLoss
from tests.tiers import every

FEATURES, CLASSES, ROWS = 6, 3, 12

Make = Callable[[], nn.Module]


class Own(Architecture):
    """What a test makes; blocks are equal that make modules by one name."""

    source: ClassVar[str] = "nobody"
    made: ClassVar[dict[str, Make]] = {}
    kind: Literal["own"] = "own"
    name: str

    def module(self, features: int, outputs: int) -> nn.Module:
        """Return it."""
        return self.made[self.name]()


def local(make: Make, name: str, rng: np.random.Generator, **keys: Any) -> LocalLoss:
    Own.made[name] = make
    loss = TorchLoss(model=Own(name=name), **keys)
    t = np.arange(ROWS) % CLASSES
    return LocalLoss(loss, rng.standard_normal((ROWS, FEATURES)), loss.encode(t.astype(float)))


def dense(features: int = FEATURES) -> nn.Linear:
    return nn.Linear(features, CLASSES)


class Of(nn.Module):
    """A dense layer, and a function of it and of rows."""

    def __init__(self, forward: Callable[[Any, Tensor], Any], **parts: Any) -> None:
        super().__init__()
        self.layer = dense()
        self.calls = 0
        self.register_buffer("mean", torch.zeros(FEATURES))
        for name, part in parts.items():
            setattr(self, name, part)
        self._forward = forward

    def forward(self, rows: Tensor) -> Any:
        """Return what the function does."""
        return self._forward(self, rows)


class Tied(nn.Module):
    """Two layers of one weight."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(FEATURES, FEATURES)
        self.second = nn.Linear(FEATURES, FEATURES, bias=False)
        self.second.weight = self.first.weight
        self.last = dense()

    def forward(self, rows: Tensor) -> Tensor:
        """Return outputs."""
        found: Tensor = self.last(torch.relu(self.second(torch.relu(self.first(rows)))))
        return found


def expected(module: nn.Module, f: LocalLoss, w: Array, drawn: Any, step: float) -> Array:
    """Return where PyTorch's own optimiser goes, from a flat model, in float64."""
    module = module.double()
    nn.utils.vector_to_parameters(torch.tensor(w), module.parameters())
    optimiser = torch.optim.SGD(module.parameters(), lr=step)
    X, t = torch.tensor(f.arranged.X), torch.arange(ROWS) % CLASSES
    for rows in drawn:
        optimiser.zero_grad()
        torch.autograd.backward(functional.cross_entropy(module(X[rows]), t[rows]))
        optimiser.step()
    return np.asarray(nn.utils.parameters_to_vector(module.parameters()).detach().numpy())


def hooked() -> nn.Module:
    """Return a layer whose inputs a hook doubles."""
    layer = dense()
    layer.register_forward_pre_hook(_double)
    return layer


def _double(_: nn.Module, given: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
    return (2 * given[0],)


WORKS: dict[str, tuple[Make, int]] = {
    "tied weights": (Tied, 36 + 6 + 21),
    "weight norm": (lambda: parametrizations.weight_norm(dense()), 3 + 18 + 3),
    "double precision": (lambda: dense().double(), 21),
    "half precision": (lambda: dense().half(), 21),
    "hooks": (hooked, 21),
    "one matrix and no layer": (lambda: Of(lambda m, rows: rows @ m.layer.weight.T), 21),
    "lazy": (lambda: nn.LazyLinear(CLASSES), 21),
    "frozen statistics": (
        lambda: nn.Sequential(nn.BatchNorm1d(FEATURES, track_running_stats=False), dense()),
        2 * 6 + 21,
    ),
    "a sparse embedding": (
        lambda: Of(lambda m, rows: m.layer(m.table(rows.long().abs())), table=_table()),
        5 * FEATURES + 21,
    ),
}


def _table() -> nn.Module:
    return nn.Sequential(nn.Embedding(5, FEATURES, sparse=True), _Mean())


class _Mean(nn.Module):
    def forward(self, found: Tensor) -> Tensor:
        """Return the mean over tokens."""
        return found.mean(dim=1)


@every("name", WORKS)
def test_it_is_trained_as_pytorch_trains_it(name: str, rng: np.random.Generator) -> None:
    make, dimension = WORKS[name]
    f = local(make, name, rng, numbers="float64")
    w = f.initial(rng)
    assert f.dimension == dimension == len(w)
    drawn = np.array([[0, 1, 2, 3], [7, 3, 9, 10], [2, 4, 6, 8]])
    module = make()
    if name == "lazy":
        module(torch.zeros(2, FEATURES))
    found = f.sgd_steps(w, 0.1, drawn, None)
    assert not np.array_equal(found, w)
    np.testing.assert_allclose(found, expected(module, f, w, drawn, 0.1), rtol=1e-12, atol=1e-14)


def test_a_weight_that_layers_share_counts_once() -> None:
    """A product of 6 x 6 twice, one of 6 x 3; the rows themselves need no gradient."""
    Own.made["tied"] = Tied
    found = TorchLoss(model=Own(name="tied")).recipe(FEATURES, CLASSES)
    assert found.operations == 2 * (3 * (36 + 36 + 18) - 36)
    names = [layer.name for layer in found.layers]
    assert names == ["first.weight", "first.bias", "last.weight", "last.bias"]


def count_calls(module: Any, rows: Tensor) -> Tensor:
    module.calls += 1
    found: Tensor = module.layer(rows) * module.calls
    return found


def follow(module: Any, rows: Tensor) -> Tensor:
    module.mean += 0.1 * rows.detach().mean(dim=0)
    found: Tensor = module.layer(rows - module.mean)
    return found


def freeze(module: Any, rows: Tensor) -> Tensor:
    module.layer.bias.requires_grad_(requires_grad=False)
    found: Tensor = module.layer(rows)
    return found


def renew(module: Any, rows: Tensor) -> Tensor:
    module.layer.weight = nn.Parameter(module.layer.weight.detach().clone())
    found: Tensor = module.layer(rows)
    return found


def misspelt(module: Any, rows: Tensor) -> Tensor:
    found: Tensor = module.lyer(rows)
    return found


def by_numpy(module: Any, rows: Tensor) -> Tensor:
    found: Tensor = module.layer(rows) * (1 + float(NUMPY.random()))
    return found


NUMPY = np.random.default_rng(1)


class Uncopied:
    """What cannot be copied, as an open file or a lock."""

    def __deepcopy__(self, memo: object) -> "Uncopied":
        raise TypeError("cannot pickle '_thread.lock' object")


def old_weight_norm() -> nn.Module:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)
        return nn.utils.weight_norm(dense())


def compiled() -> nn.Module:
    made: Any = torch.compile(dense(), backend="eager")
    return cast("nn.Module", made)


def _scripted() -> nn.Module:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        made: Any = torch.jit.script(dense())
    return cast("nn.Module", made)


def of_two(a: Tensor, b: Tensor) -> dict[str, Tensor]:
    return {"logits": a, "hidden": b}


REFUSED: dict[str, tuple[Make, str]] = {
    "a tuple": (
        lambda: Of(lambda m, rows: (m.layer(rows), rows)),
        r"outputs of shape \(rows, 3\); of 2 rows: got a tuple; wrap it in a module that returns",
    ),
    "a dict": (lambda: Of(lambda m, rows: of_two(m.layer(rows), rows)), "got a dict; wrap it"),
    "nothing": (lambda: Of(lambda _m, _rows: None), "got a NoneType$"),
    "one row squeezed": (
        lambda: Of(lambda m, rows: m.layer(rows).squeeze()),
        r"outputs of shape \(rows, 3\); of 1 row: got the shape \(3,\)",
    ),
    "complex": (
        lambda: Of(
            lambda m, rows: m.layer(rows), c=nn.Parameter(torch.ones(2, dtype=torch.cfloat))
        ),
        "has complex numbers in c; models are real",
    ),
    "integers": (
        lambda: Of(
            lambda m, rows: m.layer.bias.detach() + rows[:, :3],
            c=nn.Parameter(torch.ones(2, dtype=torch.int64), requires_grad=False),
        ),
        "the loss does not depend on any trained parameter",
    ),
    "spectral norm": (
        lambda: parametrizations.spectral_norm(dense()),
        r"changes the buffer parametrizations.weight.0._u .* spectral normalisation",
    ),
    "a mean that follows": (lambda: Of(follow), "changes the buffer mean of the module"),
    "memory": (lambda: Of(count_calls), "another loss for the same rows .* it stores"),
    "another stream": (lambda: Of(by_numpy), "draws from another stream than PyTorch's"),
    "frozen on the way": (lambda: Of(freeze), "makes or freezes parameters in its forward pass"),
    "new on the way": (lambda: Of(renew), "makes or freezes parameters in its forward pass"),
    "an error": (lambda: Of(misspelt), "fails on 2 rows of zeros: .* no attribute 'lyer'"),
    "no forward": (nn.Module, "no parameter that is trained"),
    "a lazy error": (
        lambda: nn.Sequential(nn.LazyLinear(4), nn.Linear(5, 3)),
        "fails on 2 rows of zeros: mat1 and mat2 shapes",
    ),
    "meta": (lambda: nn.Linear(FEATURES, CLASSES, device="meta"), "is on the device meta"),
    "torch.compile": (
        compiled,
        r"is compiled \(torch.compile\)",
    ),
    "torch.jit": (_scripted, "is compiled by torch.jit"),
    "no copy": (
        lambda: Of(lambda m, rows: m.layer(rows), lock=Uncopied()),
        "cannot be copied, .* cannot pickle '_thread.lock' object",
    ),
    "old weight norm": (old_weight_norm, "take torch.nn.utils.parametrizations.weight_norm"),
    "no numbers": (lambda: nn.Linear(FEATURES, 0), "no parameter that is trained"),
}


@every("name", REFUSED)
@pytest.mark.filterwarnings("ignore:Initializing zero-element tensors is a no-op")
def test_what_cannot_be_trained_by_clients_is_refused(name: str, rng: np.random.Generator) -> None:
    make, text = REFUSED[name]
    with pytest.raises(DataError) as caught:
        local(make, name, rng).initial(rng)
    assert caught.value.key == "loss.model"
    assert "\n" not in str(caught.value)
    assert re.search(text, str(caught.value)), str(caught.value)


def test_a_module_is_tried_and_not_used(rng: np.random.Generator) -> None:
    """What is tried is a copy: the module that a user has made stays as it was."""
    made = nn.Sequential(nn.BatchNorm1d(FEATURES), dense())
    before = {name: each.clone() for name, each in made.state_dict().items()}
    with pytest.raises(DataError):
        local(lambda: made, "kept", rng).initial(rng)
    assert all(torch.equal(before[name], each) for name, each in made.state_dict().items())
