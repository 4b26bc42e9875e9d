"""The loss `torch`: against PyTorch used by hand, differences of values, and counts on paper."""

import re
from typing import Any, ClassVar, Literal

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional

from fedsim.addons.conformance import check_loss
from fedsim.core.errors import DataError
from fedsim.core.ports import Array
from fedsim.problems import Architecture, LocalLoss, Problem, Samples, TorchLoss
from fedsim.problems.architectures import Convolutional, DenseLayers
from fedsim.problems.modules.trainer import Numbers
from tests.tiers import every

SIDE, CLASSES, ROWS = 8, 3, 12


def local(loss: TorchLoss, rng: np.random.Generator, features: int = SIDE * SIDE) -> LocalLoss:
    labels = (np.arange(ROWS) % CLASSES).astype(np.float64)
    return LocalLoss(loss, rng.standard_normal((ROWS, features)), loss.encode(labels))


def small(**keys: Any) -> TorchLoss:
    return TorchLoss(model=Convolutional(channels=(2, 3), hidden=5), **keys)


def by_hand(module: nn.Module, w: Array) -> nn.Module:
    """Return a module of any kind with the parameters of a flat model."""
    nn.utils.vector_to_parameters(torch.tensor(w, dtype=torch.float32), module.parameters())
    return module


def network() -> nn.Module:
    return nn.Sequential(
        nn.Unflatten(1, (1, SIDE, SIDE)),
        nn.Conv2d(1, 2, 5, padding=2),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(2, 3, 5, padding=2),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(12, 5),
        nn.ReLU(),
        nn.Linear(5, CLASSES),
    )


def test_the_gradient_is_that_of_differences_of_the_value(rng: np.random.Generator) -> None:
    loss = TorchLoss(model=DenseLayers(hidden=(3,)), numbers="float64", l2=0.1)
    found = check_loss(loss)
    kept = dict(zip(found.check, found.outcome, strict=True))
    assert kept["the gradient agrees with finite differences of the value"] == "kept"
    assert kept["the mean over all minibatches is the full gradient"] == "kept"


def test_value_and_gradient_are_those_of_pytorch(rng: np.random.Generator) -> None:
    f = local(small(l2=0.3), rng)
    w = f.initial(rng)
    module = by_hand(network(), w)
    X, t = torch.tensor(f.arranged.X, dtype=torch.float32), torch.arange(ROWS) % CLASSES
    value = functional.cross_entropy(module(X), t)
    torch.autograd.backward(value)
    gradient = torch.cat([each.grad.reshape(-1) for each in module.parameters()])  # type: ignore[union-attr]
    assert f.value(w) == pytest.approx(value.item() + 0.15 * w @ w, rel=1e-6)
    np.testing.assert_allclose(f.gradient(w), gradient.numpy() + 0.3 * w, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("pull", [None, 0.5])
def test_steps_are_those_of_pytorchs_own_optimiser(
    pull: float | None, rng: np.random.Generator
) -> None:
    f = local(small(l2=0.01), rng)
    w = f.initial(rng)
    drawn = np.array([[0, 3, 5], [1, 2, 7], [8, 3, 4]])
    module = by_hand(network(), w)
    start = [each.detach().clone() for each in module.parameters()]
    optimiser = torch.optim.SGD(module.parameters(), lr=0.2, weight_decay=0.01)
    X, t = torch.tensor(f.arranged.X, dtype=torch.float32), torch.arange(ROWS) % CLASSES
    for rows in drawn:
        optimiser.zero_grad()
        value = functional.cross_entropy(module(X[rows]), t[rows])
        if pull:
            apart = zip(module.parameters(), start, strict=True)
            value = value + pull / 2 * sum((p - q).square().sum() for p, q in apart)
        torch.autograd.backward(value)
        optimiser.step()
    expected = nn.utils.parameters_to_vector(module.parameters()).detach().numpy()
    np.testing.assert_allclose(f.sgd_steps(w, 0.2, drawn, pull), expected, rtol=1e-5, atol=1e-6)


def test_a_gradient_of_the_network_of_mcmahan_costs_what_paper_and_pencil_say() -> None:
    """Each product or convolution is done forwards, for its weights, and for its input if asked."""
    loss = TorchLoss(model=Convolutional(), outputs=62)
    first, second = 2 * 28 * 28 * 25 * 1 * 32, 2 * 14 * 14 * 25 * 32 * 64
    dense, last = 2 * 7 * 7 * 64 * 512, 2 * 512 * 62
    assert loss.operations(10, 784, 62) == 10 * (2 * first + 3 * (second + dense + last))
    weights = 25 * 32 + 25 * 32 * 64 + 7 * 7 * 64 * 512 + 512 * 62
    assert loss.dimension(784, 62) == weights + 32 + 64 + 512 + 62


def test_a_start_is_drawn_by_the_client_that_begins_and_pytorchs_stream_is_left_alone() -> None:
    loss = small()
    before = torch.random.get_rng_state()
    one = loss.initial(SIDE * SIDE, CLASSES, np.random.default_rng(1))
    same = loss.initial(SIDE * SIDE, CLASSES, np.random.default_rng(1))
    other = loss.initial(SIDE * SIDE, CLASSES, np.random.default_rng(2))
    assert np.array_equal(one, same)
    assert not np.array_equal(one, other)
    assert torch.equal(before, torch.random.get_rng_state())


class Noisy(Architecture):
    """A layer behind dropout."""

    source: ClassVar[str] = "nobody"
    kind: Literal["noisy"] = "noisy"

    def module(self, features: int, outputs: int) -> nn.Module:
        """Return it."""
        return nn.Sequential(nn.Dropout(0.5), nn.Linear(features, outputs))


def test_noise_follows_from_the_rows_that_are_drawn(rng: np.random.Generator) -> None:
    f = local(TorchLoss(model=Noisy()), rng)
    w = f.initial(rng)
    one, other = np.array([0, 1, 2]), np.array([0, 1, 3])
    assert np.array_equal(f.minibatch_gradient(w, one), f.minibatch_gradient(w, one))
    assert f.value(w) == f.value(w)
    assert np.array_equal(f.gradient(w), f.gradient(w))
    dropped = [f.minibatch_gradient(w, rows) == 0 for rows in (one, other)]
    assert dropped[0].any()
    assert not np.array_equal(dropped[0], dropped[1])
    twice = f.sgd_steps(w, 0.1, np.array([one, one]), None)  # with other noise in the second step
    alone = f.sgd_steps(w, 0.1, np.array([one]), None)
    again = f.sgd_steps(alone, 0.1, np.array([one]), None)
    assert not np.array_equal(twice, again)


class Odd(Architecture):
    """A module of any sort."""

    source: ClassVar[str] = "nobody"
    kind: Literal["odd"] = "odd"
    what: str

    def module(self, features: int, outputs: int) -> nn.Module:
        """Return it."""
        module: nn.Module = ODD[self.what](features, outputs)
        return module


class Growing(nn.Module):
    """Makes its parameter while it runs."""

    def __init__(self, features: int, outputs: int) -> None:
        super().__init__()
        self.layer = nn.Linear(features, outputs)

    def forward(self, rows: torch.Tensor) -> torch.Tensor:
        self.late = nn.Parameter(torch.zeros(1))
        found: torch.Tensor = self.layer(rows)
        return found


ODD: dict[str, Any] = {
    "batch norm": lambda d, c: nn.Sequential(nn.BatchNorm1d(d), nn.Linear(d, c)),
    "other outputs": lambda d, c: nn.Linear(d, c + 1),
    "other inputs": lambda d, c: nn.Linear(d + 1, c),
    "nothing trained": lambda d, c: nn.Linear(d, c).requires_grad_(requires_grad=False),
    "new keys": Growing,
}


@every(
    ("what", "text"),
    [
        ("batch norm", "changes the buffer 0.running_var .* take group norm"),
        ("other outputs", r"outputs of shape \(rows, 3\); .* got the shape \(2, 4\)"),
        ("other inputs", "fails on 2 rows of zeros: mat1 and mat2 shapes"),
        ("nothing trained", "no parameter that is trained"),
        ("new keys", "other keys after a forward pass: late; make all parameters when it is made"),
    ],
)
def test_a_module_that_cannot_be_trained_by_clients_is_refused(
    what: str, text: str, rng: np.random.Generator
) -> None:
    f = local(TorchLoss(model=Odd(what=what)), rng)
    with pytest.raises(DataError) as caught:
        f.initial(rng)
    assert caught.value.key == "loss.model"
    assert re.search(text, str(caught.value)), str(caught.value)


class Viewing(nn.Module):
    """Reads the outputs of a convolution by `view`, as many modules do."""

    def __init__(self) -> None:
        super().__init__()
        self.conv, self.last = nn.Conv2d(1, 4, 3), nn.Linear(4 * 6 * 6, CLASSES)

    def forward(self, rows: torch.Tensor) -> torch.Tensor:
        images = rows.view(-1, 1, SIDE, SIDE) if rows.ndim == 2 else rows
        found: torch.Tensor = self.last(self.conv(images).view(len(rows), -1))
        return found


class Images(Architecture):
    """Takes images."""

    source: ClassVar[str] = "nobody"
    kind: Literal["images"] = "images"

    def shape(self, features: int) -> tuple[int, ...]:
        """Return it."""
        return (1, SIDE, SIDE)

    def module(self, features: int, outputs: int) -> nn.Module:
        """Return it."""
        return Viewing()


def test_a_module_that_looks_at_images_by_view_is_taken_as_it_is(rng: np.random.Generator) -> None:
    f = local(TorchLoss(model=Images()), rng)
    w = f.initial(rng)
    module = by_hand(Viewing(), w)
    X, t = torch.tensor(f.arranged.X, dtype=torch.float32), torch.arange(ROWS) % CLASSES
    assert f.value(w) == pytest.approx(functional.cross_entropy(module(X), t).item(), rel=1e-6)


def test_frozen_parameters_are_no_part_of_the_model(rng: np.random.Generator) -> None:
    def half(features: int, outputs: int) -> nn.Module:
        frozen = nn.Linear(features, 4).requires_grad_(requires_grad=False)
        return nn.Sequential(frozen, nn.Linear(4, outputs))

    ODD["half"] = half
    f = local(TorchLoss(model=Odd(what="half")), rng)
    assert f.dimension == 4 * CLASSES + CLASSES
    assert f.gradient(f.initial(rng)).shape == (f.dimension,)


def test_labels_are_classes_in_their_order_or_their_own_numbers() -> None:
    labels = np.array([2.0, 7.0, 2.0])
    assert small().encode(labels).argmax(axis=1).tolist() == [0, 1, 0]
    assert small(outputs=8).encode(labels).argmax(axis=1).tolist() == [2, 7, 2]
    with pytest.raises(DataError, match="labels are 0 to 3; the data has 7"):
        small(outputs=4).encode(labels)


def test_predictions_and_a_regression(rng: np.random.Generator) -> None:
    X = rng.standard_normal((30, 4))
    y = X @ np.array([1.0, -2.0, 0.5, 3.0])
    loss = TorchLoss(model=DenseLayers(hidden=(6,)), criterion="squared", numbers="float64")
    problem = Problem.of(loss, [Samples(X[:10], y[:10]), Samples(X[10:], y[10:])])
    w = problem.initial(rng)
    for _ in range(400):
        w = w - 0.05 * problem.gradient(w)
    assert problem.value(w) < 0.05 * np.square(y).mean() / 2
    with pytest.raises(DataError, match="does not classify"):
        loss.classes(y)


def test_one_module_is_computed_with_in_the_numbers_that_are_asked_for(
    rng: np.random.Generator,
) -> None:
    """Losses in float32 and in float64 of one block, in turn, each as PyTorch has it."""
    model = DenseLayers(hidden=(3,))
    w = local(TorchLoss(model=model), rng).initial(rng)
    kinds: tuple[tuple[Numbers, torch.dtype], ...]
    kinds = (("float32", torch.float32), ("float64", torch.float64))
    t = torch.arange(ROWS) % CLASSES
    for numbers, kind in kinds * 2:
        f = local(TorchLoss(model=model, numbers=numbers), rng)
        X = torch.tensor(f.arranged.X, dtype=kind)
        hand = nn.Sequential(nn.Linear(SIDE * SIDE, 3), nn.ReLU(), nn.Linear(3, CLASSES)).to(kind)
        nn.utils.vector_to_parameters(torch.tensor(w, dtype=kind), hand.parameters())
        value = functional.cross_entropy(hand(X), t).item()
        assert f.value(w) == pytest.approx(value, rel=1e-14 if numbers == "float64" else 1e-6)


def test_steps_of_no_length_leave_the_model_as_it_is_to_the_last_bit(
    rng: np.random.Generator,
) -> None:
    """A model in float64 is moved by what was computed in float32, not rounded to it."""
    f = local(small(), rng)
    w = f.initial(rng) + 1e-12 * rng.standard_normal(f.dimension)
    assert not np.array_equal(w, w.astype(np.float32))
    assert np.array_equal(f.sgd_steps(w, 0.0, np.array([[0, 1], [2, 3]]), None), w)


def test_every_step_varies_its_images_anew(rng: np.random.Generator) -> None:
    """Two steps on the same rows are not two runs of one step on them."""
    f = local(small(augment=({"crop": 2}, "flip")), rng)
    w = f.initial(rng)
    one = np.arange(ROWS)
    once = f.sgd_steps(w, 0.1, np.array([one]), None)
    twice = f.sgd_steps(w, 0.1, np.array([one, one]), None)
    assert not np.allclose(twice, f.sgd_steps(once, 0.1, np.array([one]), None), atol=1e-6)


def test_training_leaves_pytorchs_stream_alone(rng: np.random.Generator) -> None:
    f = local(TorchLoss(model=Noisy()), rng)
    w = f.initial(rng)
    torch.manual_seed(7)
    before = torch.random.get_rng_state()
    f.sgd_steps(w, 0.1, np.array([[0, 1, 2]]), None)
    f.minibatch_gradient(w, np.array([0, 1]))
    assert torch.equal(before, torch.random.get_rng_state())


def test_the_losses_of_rows_are_those_of_pytorch(rng: np.random.Generator) -> None:
    loss = small(l2=0.1)
    one = local(loss, rng)
    w = one.initial(rng)
    X = torch.tensor(one.arranged.X, dtype=torch.float32)
    outputs = by_hand(network(), w)(X).detach()
    labels = torch.tensor(np.arange(ROWS) % CLASSES)
    due = functional.cross_entropy(outputs, labels, reduction="none").double().numpy()
    found = loss.row_losses(one.arranged, w, ())
    assert found == pytest.approx(due, rel=1e-5)
    assert one.root_mean_square(w) == pytest.approx(np.sqrt((due**2).mean()), rel=1e-5)
