"""What users get wrong in their first calls: one block of text each, and nothing has happened."""

import os
import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from traceback import format_exception
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy
from torch.optim import SGD, Adam
from torch.optim.lr_scheduler import LambdaLR, StepLR
from torch.utils.data import DataLoader, Dataset, TensorDataset

import fedsim
import fedsim.torch
from fedsim.core.errors import DataError, Failed, ScenarioError

RNG = np.random.default_rng(0)
X = RNG.normal(size=(60, 4)).astype(np.float32)
Y = (X.sum(axis=1) > 0).astype(np.int64)
ROWS = TensorDataset(torch.from_numpy(X), torch.from_numpy(Y))
ITEMS = [(torch.from_numpy(x), int(y)) for x, y in zip(X, Y, strict=True)]
PARTS = [ITEMS[:20], ITEMS[20:40], ITEMS[40:]]
METHOD = {"kind": "fedavg", "step_size": 0.1, "local_steps": 2, "batch": 5}
WORDS = np.array(["dog", "cat"])[Y]


def network() -> nn.Module:
    return nn.Linear(4, 2)


def step(module: nn.Module, batch: list[Tensor]) -> Tensor:
    return cross_entropy(module(batch[0]), batch[1])


def run(module: Any = network, data: Any = (X, Y), **keys: Any) -> fedsim.torch.TorchResult:
    given: dict[str, Any] = {"algorithm": METHOD, "fleet": [{"count": 3}], "rounds": 2, **keys}
    return fedsim.torch.run(module, data, **given)


class Half(nn.Module):
    """A module in another precision than its rows."""

    def __init__(self) -> None:
        super().__init__()
        self.last = nn.Linear(4, 2).half()

    def forward(self, rows: Tensor) -> Tensor:
        found: Tensor = self.last(rows.half())
        return found


class Tokens(nn.Module):
    """A module of five tokens."""

    def __init__(self) -> None:
        super().__init__()
        self.embed, self.last = nn.Embedding(5, 4), nn.Linear(8, 2)

    def forward(self, rows: Tensor) -> Tensor:
        found: Tensor = self.last(self.embed(rows).flatten(1))
        return found


class Torn(Dataset[Any]):
    """Rows of which one cannot be read."""

    def __len__(self) -> int:
        return 60

    def __getitem__(self, place: int) -> Any:
        if place == 7:
            raise OSError("file is gone")
        return ITEMS[place]


def trains(module: nn.Module, batch: list[Tensor]) -> Tensor:
    loss = step(module, batch)
    torch.autograd.backward(loss)
    return loss


def without_gradient(module: nn.Module, batch: list[Tensor]) -> Tensor:
    with torch.no_grad():
        return step(module, batch)


def broken(items: list[Any]) -> Any:
    raise RuntimeError("no batch of these")


def falling(optimizer: Any) -> Any:
    return LambdaLR(optimizer, lambda t: 1 / (t - 1))


def made(**options: Any) -> Any:
    return METHOD | {"optimizer": fedsim.torch.optimizer(SGD, **options)}


def two(lengths: tuple[int, int], width: int = 4) -> Any:
    first, second = (torch.zeros(each, 4) for each in lengths)
    pairs = (first, torch.zeros(lengths[0])), (second[:, :width], torch.zeros(lengths[1]))
    return {"data": [TensorDataset(*each) for each in pairs], "fleet": [{"count": 2}]}


EVERYTHING: dict[str, tuple[Callable[[], dict[str, Any]], str]] = {
    "labels between classes": (lambda: {"data": (X, Y + 0.5)}, "classes have whole numbers"),
    "a column of labels": (lambda: {"data": (X, Y[:, None])}, r"and \(60, 1\); give y\[:, 0\]$"),
    "indicators": (
        lambda: {"data": (X, torch.eye(2)[Y])},
        r"and \(60, 2\); give y.argmax\(axis=1\), the class of each row$",
    ),
    "texts to be learned": (
        lambda: {"data": (X, [f"sentence {i}" for i in range(60)])},
        "y has 60 distinct texts, such as 'sentence 0', and the outputs of Linear are 2, one per",
    ),
    "texts for a number": (
        lambda: {"module": nn.Linear(4, 1), "loss": "squared", "data": (X, [*"abc"] * 20)},
        "3 distinct texts, such as 'a', and the outputs of Linear are one, for a number",
    ),
    "an unknown test label": (
        lambda: {"data": (X, WORDS), "test": (X, ["cow"] * 60)},
        "the label 'cow' is among the test rows only; those of the clients are texts",
    ),
    "test labels as texts alone": (
        lambda: {"test": (X, WORDS)},
        "the label 'cat' is among the test rows only; those of the clients are numbers",
    ),
    "texts as rows": (lambda: {"data": (WORDS, Y)}, "features are numbers; got an array of <U3"),
    "a text as test": (lambda: {"test": "yes"}, 'rows are .X, y., .*; got "yes"$'),
    "too few outputs": (
        lambda: {"data": (X, np.arange(60) % 3)},
        "labels are 0 to 1; the data has 2, and the network 2 outputs, one a class",
    ),
    "another width": (
        lambda: {"module": nn.Linear(5, 2)},
        r"the module Linear fails on 2 rows of zeros: mat1.*; it is given the shape \(2, 4\)",
    ),
    "another precision": (
        lambda: {"module": Half},
        r"Half and Float \(test_refusals.py, line \d+\); it is given the shape .*, torch.float32",
    ),
    "too few tokens": (
        lambda: {"module": Tokens, "data": (np.arange(120).reshape(60, 2) % 9, Y)},
        "Tokens fails on 2 rows: index out of range.*; the rows are whole numbers from 0 to 8",
    ),
    "parameters in place of a module": (
        lambda: {"module": network().state_dict()},
        "torch.nn.Module, or a class or function that makes one; got an OrderedDict$",
    ),
    "an optimizer of its own": (
        lambda: {"algorithm": METHOD | {"optimizer": Adam(network().parameters())}},
        "got an Adam of parameters of its own.*give the class, torch.optim.Adam",
    ),
    "an optimizer with a closure": (
        lambda: {"algorithm": METHOD | {"optimizer": torch.optim.LBFGS}},
        "it fails in a trial: TypeError: LBFGS.step",
    ),
    "a class at the server": (
        lambda: {"algorithm": METHOD | {"kind": "fedopt", "server_optimizer": Adam}},
        "server_optimizer: got the class Adam; give a block, such as {kind: adam}",
    ),
    "a class as schedule": (
        lambda: {"algorithm": METHOD | {"schedule": StepLR}},
        "schedule: got the class StepLR; give a block, such as .* fedsim.torch.optimizer",
    ),
    "a function as schedule": (
        lambda: {"algorithm": METHOD | {"schedule": lambda steps: 0.9**steps}},
        "schedule: got a function; give a block, such as .* fedsim.torch.optimizer",
    ),
    "an object as schedule": (
        lambda: {"algorithm": METHOD | {"schedule": StepLR(SGD(network().parameters()), 1)}},
        "schedule: got a StepLR; give a block",
    ),
    "a schedule that lacks an argument": (
        lambda: {"algorithm": made(schedule=StepLR)},
        "fails in a trial: TypeError: StepLR",
    ),
    "a schedule that fails": (
        lambda: {"algorithm": made(schedule=falling)},
        r"SGD has a schedule that fails: ZeroDivisionError: .*\(test_refusals.py, line \d+\)",
    ),
    "a class in a scenario": (
        lambda: {"network": {"topology": nn.Linear}},
        "network.topology: a scenario cannot hold the class Linear",
    ),
    "a metric of each row": (
        lambda: {"test": (X, Y), "metrics": {"own": lambda o, t: (o.argmax(1) == t).float()}},
        r"own has to return a number; got a Tensor of the shape \(60,\), torch.float32",
    ),
    "a metric of something else": (
        lambda: {"test": (X, Y), "metrics": {"own": lambda o, t: o @ t}},
        r"own fails: RuntimeError: .*; it is given a Tensor of the shape \(60, 2\), torch.float64",
    ),
    "no test rows": (lambda: {"measures": ["test_accuracy"]}, "needs test rows; give problem.test"),
    "rows without labels": (
        lambda: {"data": torch.from_numpy(X)},
        r"rows are .*; got a Tensor of the shape \(60, 4\), torch.float32$",
    ),
    "pairs of clients": (
        lambda: {"data": [(X[:30], Y[:30]), (X[30:], Y[30:])]},
        r"got 2 pairs \(X, y\), as of clients; give .* with the client of each: \(X, y, clients\)",
    ),
    "a loader": (lambda: {"data": DataLoader(ROWS)}, "got a DataLoader.*give its dataset"),
    "loaders": (lambda: {"data": [DataLoader(ROWS)] * 3}, "got a DataLoader.*give its dataset"),
    "a client without rows": (lambda: two((30, 0)), "client 1: the TensorDataset has no items"),
    "clients of two widths": (
        lambda: two((30, 20), width=3),
        r"features are of one shape; got rows of \(4,\) and of \(3,\)",
    ),
    "more clients than rows": (lambda: {"fleet": [{"count": 99}]}, "99 clients for 60 rows"),
    "not a number": (
        lambda: {"data": (np.full_like(X, np.nan), Y)},
        "row 1, column 1 of the features is",
    ),
    "a torn dataset": (
        lambda: {"data": Torn()},
        r"an item of the Torn cannot be read: OSError: file is gone \(test_refusals.py, line \d+",
    ),
    "a torn dataset with a step": (
        lambda: {"data": Torn(), "step": step},
        "item 7, counted from 0 through all clients, cannot be read: OSError: file is gone",
    ),
    "a step of several numbers": (
        lambda: {"data": PARTS, "step": lambda module, batch: module(batch[0])},
        r"shape \(2,\), the loss of each, or \(\), their mean; got a Tensor of the shape \(2, 2\)",
    ),
    "a step without a gradient": (
        lambda: {"data": PARTS, "step": without_gradient},
        "the loss does not depend on any trained parameter",
    ),
    "a step that trains": (
        lambda: {"data": PARTS, "step": trains},
        "does not require grad.*; backward.. and the optimizer's step are the method's",
    ),
    "a collate that fails": (
        lambda: {"data": PARTS, "step": step, "collate": broken},
        r"2 items, of a tuple of 2 things \(Tensor, int\): RuntimeError: no batch of these",
    ),
    "a key of another loss": (lambda: {"numbers": "float16"}, "numbers: .*'float16'"),
}


def whole_state() -> list[object]:
    """Return what a process shares, and a run may not change."""
    return [
        torch.get_default_dtype(),
        torch.get_default_device(),
        torch.get_num_threads(),
        torch.random.get_rng_state().numpy().tobytes(),
        torch.is_grad_enabled(),
        torch.are_deterministic_algorithms_enabled(),
        torch.get_float32_matmul_precision(),
        torch.backends.cudnn.enabled,
        torch.backends.cudnn.benchmark,
        torch.backends.cudnn.deterministic,
        torch.backends.mkldnn.enabled,
        random.getstate(),
        str(np.random.get_state()),
        np.geterr(),
        {name for name in os.environ if not name.startswith("TORCH")},  # its import sets some
        Path.cwd(),
    ]


@pytest.mark.parametrize(("keys", "text"), EVERYTHING.values(), ids=EVERYTHING)
def test_a_refusal_is_one_block_and_nothing_has_happened(
    keys: Callable[[], dict[str, Any]], text: str, tmp_path: Path
) -> None:
    before: list[object] = []

    def attempt() -> None:
        given = keys()  # which may be refused itself
        before.extend(whole_state())
        run(out=tmp_path / "run", **given)

    with pytest.raises((DataError, ScenarioError), match=text) as raised:
        attempt()
    assert "\n" not in str(raised.value)
    assert "site-packages/torch" not in "".join(format_exception(raised.value))
    assert not (tmp_path / "run").exists()
    assert not before or whole_state() == before


class Noisy(nn.Module):
    """A module that draws random numbers while it is trained, and fails when it is asked to."""

    def __init__(self) -> None:
        super().__init__()
        self.last, self.drop, self.calls = nn.Linear(4, 2), nn.Dropout(0.3), 0

    def forward(self, rows: Tensor) -> Tensor:
        if len(rows) == FATAL:
            raise ValueError("too many at once")
        found: Tensor = self.drop(self.last(rows))
        return found


FATAL = 6


@pytest.mark.parametrize("threads", ["1", "3"])
@pytest.mark.parametrize("batch", [5, FATAL])
def test_a_run_leaves_what_a_process_shares_and_so_does_one_that_fails(
    batch: int, threads: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FEDSIM_THREADS", threads)
    torch.manual_seed(3)
    module = Noisy()
    begun = {name: each.clone() for name, each in module.state_dict().items()}
    keys: dict[str, Any] = {"algorithm": METHOD | {"batch": batch, "optimizer": "adam"}}
    monkeypatch.setattr(torch.backends.cudnn, "benchmark", True)
    own_threads = torch.get_num_threads()
    torch.set_num_threads(own_threads + 1)
    torch.set_default_dtype(torch.float64)
    try:
        before = whole_state()
        if batch == FATAL:
            with pytest.raises(Failed, match=r"too many at once \(test_refusals.py, line \d+\)$"):
                run(module, test=(X, Y), out=tmp_path, **keys)
        else:
            result = run(module, test=(X, Y), out=tmp_path, **keys)
            result.module(round="best", measure="test_accuracy")
        assert whole_state() == before
    finally:
        torch.set_default_dtype(torch.float32)
        torch.set_num_threads(own_threads)
    assert module.training
    assert all(torch.equal(begun[name], each) for name, each in module.state_dict().items())


@contextmanager
def in_double() -> Iterator[None]:
    torch.set_default_dtype(torch.float64)
    try:
        yield
        assert torch.get_default_dtype() is torch.float64
    finally:
        torch.set_default_dtype(torch.float32)


KEPT = {"optimizer": "adam", "optimizer_state": "kept"}


@pytest.mark.parametrize(("threads", "more"), [("1", KEPT), ("3", KEPT), ("1", {})])
@pytest.mark.parametrize("around", [in_double, torch.no_grad, torch.inference_mode])
@pytest.mark.parametrize("model", [{"kind": "mlp", "hidden": [5]}, nn.Linear(4, 2)])
def test_what_is_set_around_a_run_changes_no_result(
    model: Any,
    around: Any,
    threads: str,
    more: dict[str, Any],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("FEDSIM_THREADS", threads)
    data: Any = fedsim.arrays(X, Y)

    def objectives(folder: Path) -> list[float]:
        problem: Any = {"loss": {"kind": "torch", "model": model}, "data": data}
        if isinstance(model, nn.Module):
            problem = fedsim.torch.problem(model, data=data)
        whole = {"problem": problem, "algorithm": METHOD | more, "fleet": [{"count": 3}]}
        result = fedsim.run(whole | {"stop": {"rounds": 3}}, out=folder)
        found: list[float] = result.rounds["objective"].tolist()
        return found

    plain = objectives(tmp_path / "one")
    with around():
        assert objectives(tmp_path / "two") == plain


@pytest.mark.parametrize("names", [2, 3])
def test_labels_that_are_texts_are_classes_in_their_order(names: int, tmp_path: Path) -> None:
    words = np.array(["ant", "bee", "cat"])
    y = np.arange(60) % names
    torch.manual_seed(0)
    module = nn.Linear(4, names)
    keys: dict[str, Any] = {"test": (X[50:], y[50:])}
    numbers = run(module, (X[:50], y[:50]), out=tmp_path / "numbers", **keys).rounds
    some = np.flatnonzero(y == names - 1)  # of which the test rows have no other
    for place, rows in enumerate((np.arange(50, 60), some)):
        keys = {"test": (X[rows], words[y[rows]])}
        texts = run(module, (X[:50], words[y[:50]]), out=tmp_path / f"texts{place}", **keys)
        assert texts.rounds["objective"].tolist() == numbers["objective"].tolist()
        with torch.no_grad():
            found = texts.module()(torch.from_numpy(X[rows])).argmax(1).numpy()
        share = (found == y[rows]).mean()
        assert texts.rounds["test_accuracy"].iloc[-1] == pytest.approx(share)


def test_two_texts_of_a_source_are_two_outputs(tmp_path: Path) -> None:
    """They are -1 and +1 in fedsim's own sources of rows."""
    torch.manual_seed(0)
    module = nn.Linear(4, 2)
    numbers = run(module, (X, Y), test=(X, Y), out=tmp_path / "numbers").rounds
    given = fedsim.arrays(X, np.array(["no", "yes"])[Y])
    texts = run(module, given, test=given, out=tmp_path / "texts").rounds
    for column in ("objective", "test_accuracy"):
        assert texts[column].tolist() == numbers[column].tolist()


def test_keys_of_the_loss_are_those_of_the_problem(tmp_path: Path) -> None:
    torch.manual_seed(0)
    module = nn.Sequential(nn.BatchNorm1d(4), nn.Linear(4, 2))
    own: dict[str, Any] = {"numbers": "float64", "l2": 0.1, "statistics": "averaged"}
    result = run(module, (X, Y), out=tmp_path / "one", **own)
    problem = fedsim.torch.problem(module, data=(X, Y), **own)
    scenario = {"problem": problem, "algorithm": METHOD, "fleet": [{"count": 3}]}
    other = fedsim.run({**scenario, "stop": {"rounds": 2}}, out=tmp_path / "two")
    assert result.rounds["objective"].tolist() == other.rounds["objective"].tolist()
