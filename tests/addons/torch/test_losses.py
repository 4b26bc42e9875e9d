"""Losses of a user's own: what is taken is a sum over rows however these are cut up, or refused.

And what training computes: always the module in training, whatever the number of rows.
"""

from collections.abc import Callable
from copy import deepcopy
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

import fedsim
import fedsim.torch
from fedsim.core.errors import DataError, Failed, FedsimError
from fedsim.core.ports import Array
from fedsim.problems import LocalLoss
from fedsim.problems.oracle import LossOracle
from fedsim.scenario import ProblemSpec
from tests.tiers import every

TRAINER = import_module("fedsim.problems.modules.trainer")  # a function has its name, too

ROWS, FEATURES, CLASSES = 600, 4, 3


def rows(labels: str = "classes") -> tuple[Array, Any]:
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((ROWS, FEATURES)), np.arange(ROWS) % CLASSES
    sorts = {"classes": y, "numbers": y + 0.5, "truth": y % 2 * 1.0, "signs": y % 2 * 2.0 - 1}
    return X, sorts[labels]


def several() -> nn.Module:
    torch.manual_seed(0)
    return nn.Linear(FEATURES, CLASSES)


def one() -> nn.Module:
    torch.manual_seed(0)
    return nn.Linear(FEATURES, 1)


def local(problem: ProblemSpec, count: int = ROWS) -> LocalLoss:
    """Return the loss of one client that has the first rows."""
    assert problem.data is not None
    samples = problem.data.load(Path(), np.random.default_rng(0))
    t = problem.loss.encode(samples.y)
    return LocalLoss(problem.loss, samples.X[:count], t[:count])


WEIGHTS = torch.tensor([1.0, 5.0, 0.2])

TAKEN: dict[str, tuple[Callable[[], nn.Module], Any, str]] = {
    "mean": (several, nn.CrossEntropyLoss(), "classes"),
    "smoothed": (several, nn.CrossEntropyLoss(label_smoothing=0.1), "classes"),
    "sum": (several, nn.CrossEntropyLoss(reduction="sum"), "classes"),
    "weights that are one": (several, nn.CrossEntropyLoss(weight=torch.ones(CLASSES)), "classes"),
    "margin": (several, nn.MultiMarginLoss(), "classes"),
    "function of a mean": (several, functional.cross_entropy, "classes"),
    "absolute": (one, nn.L1Loss(), "numbers"),
    "squares, summed": (one, nn.MSELoss(reduction="sum"), "numbers"),
    "logits": (one, nn.BCEWithLogitsLoss(), "truth"),
    "signs": (one, nn.SoftMarginLoss(), "signs"),
    "counts": (one, nn.PoissonNLLLoss(), "classes"),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", TAKEN)
def test_what_is_taken_is_what_pytorch_says_of_all_rows_however_they_are_cut_up(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    make, loss, labels = TAKEN[name]
    module, (X, y) = make(), rows(labels)
    f = local(fedsim.torch.problem(module, loss, data=(X, y), numbers="float64"))
    targets = torch.tensor(y)
    found = module.double()(torch.tensor(X))
    exact = deepcopy(loss).double() if isinstance(loss, nn.Module) else loss
    expected = exact(found if make is several else found[:, 0], targets)
    torch.autograd.backward(expected)
    slope = torch.cat(
        [each.grad.reshape(-1) for each in module.parameters() if each.grad is not None]
    )
    w = f.initial(np.random.default_rng(0))
    for size in (1, 7, 256, ROWS):
        monkeypatch.setattr(TRAINER, "AT_ONCE", size)
        assert f.value(w) == pytest.approx(expected.item(), rel=1e-12)
        np.testing.assert_allclose(f.gradient(w), slope.numpy(), rtol=1e-9, atol=1e-12)


def test_weighted_rows_count_as_they_are() -> None:
    X, y = rows()
    by_row = nn.CrossEntropyLoss(weight=WEIGHTS, ignore_index=0, reduction="none")
    module = several()
    f = local(fedsim.torch.problem(module, by_row, data=(X, y)))
    expected = by_row(module(torch.tensor(X).float()), torch.tensor(y)).mean().item()
    assert f.value(f.initial(np.random.default_rng(0))) == pytest.approx(expected, rel=1e-5)


def mean_of(outputs: Tensor, targets: Tensor) -> Tensor:
    return functional.cross_entropy(outputs, targets)


REFUSED: dict[str, tuple[Any, str]] = {
    "weights": (nn.CrossEntropyLoss(weight=WEIGHTS), "divides by something else"),
    "one weight": (
        nn.CrossEntropyLoss(weight=torch.tensor([1.0, 1.0, 3.0])),
        "divides by something else",
    ),
    "ignored": (nn.CrossEntropyLoss(ignore_index=2), "divides by something else"),
    "weights in a function": (
        partial(functional.cross_entropy, weight=WEIGHTS),
        "it is no mean of rows",
    ),
    "sum in a function": (
        partial(functional.cross_entropy, reduction="sum"),
        "it is no mean of rows",
    ),
    "rows beside each other": (lambda o, _: (o - o.mean(0)).square().sum(1), "put together"),
    "one number in a list": (lambda o, t: mean_of(o, t)[None], r"got \(1,\)"),
    "one number per output": (lambda o, _: o**2, r"got \(12, 3\)"),
    "NumPy": (lambda o, _: o.detach().numpy().sum(1), r"got a ndarray of the shape"),
    "a number of Python's": (lambda *_: 1.0, r"is to return a tensor; got 1\.0"),
    "whole numbers": (lambda _, t: t, "real number; got torch.int64"),
    "an error": (lambda o, _: o.nothing, "fails on 12 outputs of the module: 'Tensor' object"),
    "another shape": (nn.MSELoss(), "fails on 12 outputs of the module"),
    "never finite": (lambda o, _: o[:, 0] / 0, "infinite or not a number"),
}


@every("name", REFUSED)
@pytest.mark.filterwarnings("ignore:Using a target size")
def test_what_is_no_sum_of_rows_is_refused(name: str) -> None:
    loss, text = REFUSED[name]
    problem = fedsim.torch.problem(several, loss, data=rows())
    with pytest.raises(DataError, match=text) as caught:
        local(problem).value(np.zeros(15))
    assert "\n" not in str(caught.value)


class Returns(nn.Module):
    """A module that returns what a function makes of its outputs."""

    def __init__(self, found: Callable[[Tensor], Any]) -> None:
        super().__init__()
        self.layer, self.found = several(), found

    def forward(self, given: Tensor) -> Any:
        """Return it."""
        return self.found(self.layer(given))


def takes(width: int) -> nn.Module:
    return nn.Linear(FEATURES, width)


X, Y = rows()
ERRORS: dict[str, tuple[Callable[[], Any], str]] = {
    "labels of nothing": (lambda: {"data": (X, [None] * len(X))}, "labels are numbers"),
    "no rows": (lambda: {"data": (X[:0], Y[:0])}, "at least one row"),
    "rows of several lengths": (lambda: {"data": ([[1.0, 2.0], [3.0]], Y[:2])}, "inhomogeneous"),
    "numbers of clients": (
        lambda: {"data": (X, Y, np.full(ROWS, -1))},
        "from 0, one a row; got -1",
    ),
    "no data": (lambda: {"data": None}, "got nothing"),
    "sparse rows": (
        lambda: {"data": (torch.tensor(X).to_sparse(), Y)},
        "got a tensor that is sparse",
    ),
    "a function with arguments": (
        lambda: {"module": takes},
        "without arguments; it fails: TypeError",
    ),
    "a class with arguments": (
        lambda: {"module": Returns},
        "without arguments; it fails: TypeError",
    ),
    "no module": (lambda: {"module": 3}, "got 3"),
    "no loss": (lambda: {"loss": 3}, "function or module of outputs and targets; got 3"),
    "a class of losses": (lambda: {"loss": nn.L1Loss}, "make one of the class first"),
    "a loss to be trained": (
        lambda: {"loss": nn.Sequential(several())},
        "the loss Sequential has parameters",
    ),
    "a name of no loss": (
        lambda: {"loss": "nll"},
        "criterion.*'cross-entropy' or 'squared'.*'nll'",
    ),
    "a device": (lambda: {"device": "tpu"}, "loss.device.*'cpu' or 'cuda'.*'tpu'"),
    "a key": (lambda: {"lr": 0.1}, "loss.lr"),
    "one output": (lambda: {"module": one}, "needs an output for each class"),
    "nothing": (lambda: {"module": Returns(lambda _: None)}, "got a NoneType"),
    "a dictionary": (lambda: {"module": Returns(lambda o: {"a": o})}, "got a dict; wrap it"),
    "a list of numbers": (lambda: {"module": Returns(torch.flatten)}, r"got the shape \(6,\)"),
}


@every("name", ERRORS)
def test_what_cannot_be_used_is_said_in_one_sentence(name: str) -> None:
    make, text = ERRORS[name]
    keys = {"module": several, "data": rows(), **make()}
    with pytest.raises(DataError, match=text) as caught:
        local(fedsim.torch.problem(keys.pop("module"), **keys)).value(np.zeros(15))
    assert "\n" not in str(caught.value)


def of_signs(outputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    """Return the hinge loss of each row, of labels that are -1 or 1."""
    if not (targets.abs() == 1).all():
        raise ValueError("a label is -1 or 1")
    return functional.relu(1 - targets * outputs)


def of_truth(outputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    """Return the logistic loss of each row, of labels that are 0 or 1."""
    if not ((targets == 0) | (targets == 1)).all():
        raise ValueError("a label is 0 or 1")
    return functional.binary_cross_entropy_with_logits(outputs, targets, reduction="none")


@pytest.mark.parametrize(("loss", "labels"), [(of_signs, "signs"), (of_truth, "truth")])
def test_a_loss_of_labels_of_one_kind_alone_is_taken(loss: Any, labels: str) -> None:
    X, y = rows(labels)
    f = local(fedsim.torch.problem(one, loss, data=(X, y)))
    assert np.isfinite(f.value(np.zeros(FEATURES + 1)))


def test_numbers_of_16_bits_are_read_exactly() -> None:
    X, y = (torch.tensor(each).bfloat16() for each in rows("numbers"))
    f = local(fedsim.torch.problem(one, "squared", data=(X, y)))
    assert np.array_equal(f.arranged.X, X.double().numpy())
    assert np.array_equal(f.arranged.t, y.double().numpy())


def dropping() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(FEATURES, 16), nn.Dropout(0.5), nn.Linear(16, CLASSES))


def test_training_is_training_also_where_a_minibatch_has_all_rows() -> None:
    f = local(fedsim.torch.problem(dropping, data=rows()), count=8)
    w, rng = f.initial(np.random.default_rng(0)), np.random.default_rng(1)
    every = np.arange(8)
    stochastic, oracle = f.minibatch_gradient(w, every), LossOracle(f)
    for batch in (None, 8, 100):
        work = oracle.minibatch(w, batch, rng)
        found = work.kernel(f, *work.arguments)
        assert np.array_equal(found, f.minibatch_gradient(*work.arguments))
        assert np.array_equal(work.arguments[1], every)
        assert not np.allclose(found, f.gradient(w), rtol=1e-3)
        assert not np.array_equal(found, stochastic)  # each draw has noise of its own
        drawn = oracle.draws(2, batch, rng)
        steps, change = (f.sgd_steps(w, 0.1, drawn, None), f.sgd_change(w, 0.1, drawn, None))
        assert np.array_equal(steps, w + change)
        assert np.array_equal(change, change.astype(np.float32))
    assert not np.allclose(stochastic, f.gradient(w), rtol=1e-3)
    assert np.array_equal(f.gradient(w), f.gradient(w))
    plain = local(fedsim.torch.problem(several, data=rows()), count=8)
    v = plain.initial(np.random.default_rng(0))
    work = LossOracle(plain).minibatch(v, 8, rng)
    assert np.array_equal(work.kernel(plain, *work.arguments), plain.gradient(v))


def normalising() -> nn.Module:
    torch.manual_seed(0)
    norm = nn.BatchNorm1d(FEATURES, track_running_stats=False)
    return nn.Sequential(norm, nn.Linear(FEATURES, CLASSES))


def test_what_depends_on_the_rows_beside_it_is_computed_on_all_of_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    module, (X, y) = normalising(), rows()
    f = local(fedsim.torch.problem(module, data=(X, y)))
    w = f.initial(np.random.default_rng(0))
    outputs = module(torch.tensor(X).float())
    expected = functional.cross_entropy(outputs, torch.tensor(y)).item()
    found = []
    for size in (1, 256):
        monkeypatch.setattr(TRAINER, "AT_ONCE", size)
        assert f.value(w) == pytest.approx(expected, rel=1e-5)
        found += [f.gradient(w), f.loss.predict(f.arranged.X, w, np.arange(3.0))]
    assert np.array_equal(found[0], found[2])
    assert np.array_equal(found[1], outputs.argmax(1).numpy())
    assert np.array_equal(found[1], found[3])
    with pytest.raises(DataError, match="a client has one row only"):
        local(fedsim.torch.problem(module, data=(X, y)), count=1)
    with pytest.raises(Failed, match="fails on 1 row: Expected more than 1 value"):
        f.minibatch_gradient(w, np.array([3]))


def scenario(problem: ProblemSpec) -> dict[str, Any]:
    return {
        "problem": problem,
        "algorithm": {"kind": "fedavg", "step_size": 0.1, "local_steps": 1, "batch": 16},
        "fleet": [{"count": 2}],
        "stop": {"rounds": 2},
    }


class Activated(nn.Module):
    """A module with a function as its attribute."""

    def __init__(self, function: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.layer, self.function = nn.Linear(FEATURES, CLASSES), function

    def forward(self, given: Tensor) -> Tensor:
        """Return outputs."""
        return self.function(self.layer(given))


class Counting:
    """A loss that changes by what it is called."""

    def __init__(self) -> None:
        self.factor = 1.0

    def __call__(self, outputs: Tensor, targets: Tensor) -> Tensor:
        """Return each row's loss."""
        return self.factor * functional.cross_entropy(outputs, targets, reduction="none")


def last(problem: ProblemSpec, out: Path, **keys: Any) -> tuple[float, str]:
    told: list[str] = []
    result = fedsim.run(
        scenario(problem), out=out, tell=lambda note: told.append(note.text), **keys
    )
    return float(result.rounds["objective"].iloc[-1]), " ".join(told)


def test_nothing_of_another_module_is_ever_answered(tmp_path: Path) -> None:
    """As two functions of PyTorch's were one to it, whatever the folder and `fresh`."""

    def problem(function: Callable[[Tensor], Tensor]) -> ProblemSpec:
        return fedsim.torch.problem(Activated(function), data=rows())

    first = last(problem(torch.tanh), tmp_path / "one")[0]
    other = last(problem(torch.sin), tmp_path / "one")[0]
    assert other != first
    assert last(problem(torch.sin), tmp_path / "two", fresh=True)[0] == other
    assert last(problem(torch.tanh), tmp_path / "two")[0] == first


def test_an_object_that_has_changed_since_is_run_as_it_is(tmp_path: Path) -> None:
    loss = Counting()
    problem = fedsim.torch.problem(several, loss, data=rows())
    first, told = last(problem, tmp_path / "run")
    assert told == ""
    loss.factor = 2.0
    again, told = last(problem, tmp_path / "run")
    assert "1 run was made again" in told
    assert again > 1.5 * first


def test_a_failure_of_a_module_is_an_error_of_fedsims() -> None:
    problem = fedsim.torch.problem(Returns(lambda o: o[:, :2] if len(o) > 12 else o), data=rows())
    with pytest.raises(FedsimError):
        local(problem).value(np.zeros(15))
