"""`fedsim.torch.problem`: modules, losses and rows of one's own in a scenario."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from torch.utils.data import Dataset, IterableDataset, Subset, TensorDataset

import fedsim
import fedsim.torch
from fedsim.core.blocks.in_memory import Holding
from fedsim.core.errors import DataError, FedsimError
from fedsim.problems import LocalLoss
from fedsim.problems.architectures.networks import GivenModule
from fedsim.scenario import ProblemSpec
from tests.tiers import every

ROWS, FEATURES, CLASSES = 60, 6, 3


def rows(seed: int = 0) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    rng = np.random.default_rng(seed)
    y = np.arange(ROWS) % CLASSES
    return rng.standard_normal((ROWS, 2, 3)) + 2 * y[:, None, None], y


def network() -> nn.Module:
    return nn.Sequential(nn.Flatten(), nn.Linear(FEATURES, 4), nn.ReLU(), nn.Linear(4, CLASSES))


def scenario(problem: ProblemSpec, **keys: Any) -> dict[str, Any]:
    return {
        "problem": problem,
        "algorithm": {"kind": "fedavg", "step_size": 0.3, "local_steps": 3, "batch": 5},
        "fleet": [{"count": 4, "device": "pi-4", "radio": "wifi"}],
        "measures": ["train_accuracy"],
        "stop": {"rounds": 15},
        **keys,
    }


def local(problem: ProblemSpec) -> LocalLoss:
    """Return the loss of one client that has all rows."""
    data = problem.data
    assert data is not None
    samples = data.load(Path(), np.random.default_rng(0))
    return LocalLoss(problem.loss, samples.X, problem.loss.encode(samples.y))


def log(folder: Path) -> bytes:
    return (folder / "base" / "seed-1" / "events.parquet").read_bytes()


def test_a_module_learns(tmp_path: Path) -> None:
    problem = fedsim.torch.problem(network, data=rows(), test=rows(1))
    result = fedsim.run(scenario(problem, measures=["test_accuracy"]), out=tmp_path / "run")
    accuracy = result.rounds["test_accuracy"]
    assert accuracy.iloc[-1] > 0.6
    assert accuracy.iloc[-1] > accuracy.iloc[0]


class Scaled(nn.Module):
    """A module whose code depends on a number."""

    def __init__(self, factor: float) -> None:
        super().__init__()
        self.layer, self.factor = nn.Linear(FEATURES, CLASSES, bias=False), factor

    def forward(self, rows: torch.Tensor) -> torch.Tensor:
        found: torch.Tensor = self.factor * self.layer(rows.flatten(1))
        return found


@pytest.mark.slow
def test_a_module_is_made_again_but_for_its_version_and_its_numbers_are_values(
    tmp_path: Path,
) -> None:
    told: list[str] = []

    def again(problem: ProblemSpec, version: str | None) -> bool:
        log, before = tmp_path / "run/base/seed-1/events.parquet", 0
        before = log.stat().st_mtime_ns if log.exists() else 0
        fedsim.run(
            scenario(problem, stop={"rounds": 1}),
            out=tmp_path / "run",
            version=version,
            tell=lambda note: told.append(note.text),
        )
        return log.stat().st_mtime_ns != before

    def problem(module: Any, seed: int = 0, loss: Any = "cross-entropy") -> ProblemSpec:
        return fedsim.torch.problem(module, loss, data=rows(seed))

    one, other = Scaled(1.0), Scaled(2.0)
    weighted, equally = nn.CrossEntropyLoss(torch.arange(1.0, 4.0)), nn.CrossEntropyLoss()
    for loss in (weighted, equally):
        loss.reduction = "none"
    assert again(problem(one), None)
    assert not told
    assert again(problem(one), None)
    assert "1 run was made again" in told[-1]
    assert "(Scaled)" in told[-1]
    assert again(problem(one), "a")
    assert not again(problem(one), "a")
    assert again(problem(one, seed=1), "a")  # other rows
    assert again(problem(other), "a")  # other numbers: those that it begins with
    assert again(problem(lambda: Scaled(1.0)), "a")
    assert not again(problem(lambda: Scaled(2.0)), "a")  # code: the caller is trusted
    assert again(problem(one, loss=weighted), "a")
    assert again(problem(one, loss=equally), "a")
    assert not again(problem(one, loss=equally), "a")
    assert len(told) == 1 + sum("runs with other values" in text for text in told)


def test_a_module_whose_numbers_have_changed_since_is_refused(tmp_path: Path) -> None:
    module = network()
    made = scenario(fedsim.torch.problem(module, data=rows()), stop={"rounds": 1})
    fedsim.run(made, out=tmp_path)
    with torch.no_grad():
        next(module.parameters()).add_(1.0)
    with pytest.raises(DataError, match="Sequential has changed since it was handed over"):
        fedsim.run(made, out=tmp_path)


@pytest.mark.slow
def test_a_log_depends_neither_on_processes_nor_on_threads(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def typed_in() -> nn.Module:  # which no other process could import
        return network()

    keys = {"seeds": 2, "stop": {"rounds": 3}}
    made = scenario(fedsim.torch.problem(typed_in, data=rows()), **keys)
    fedsim.run(made, out=tmp_path / "one")
    fedsim.run(made, out=tmp_path / "two", jobs=2)
    monkeypatch.setenv("FEDSIM_THREADS", "1")
    fedsim.run(made, out=tmp_path / "alone")
    assert log(tmp_path / "one") == log(tmp_path / "two") == log(tmp_path / "alone")


def test_a_module_begins_with_its_parameters_and_a_class_under_the_seed() -> None:
    module = network()
    flat = nn.utils.parameters_to_vector(module.parameters()).detach().numpy()
    given, made = (local(fedsim.torch.problem(each, data=rows())) for each in (module, network))
    seeds = [np.random.default_rng(seed) for seed in (1, 2)]
    np.testing.assert_array_equal(given.initial(seeds[0]), flat)
    np.testing.assert_array_equal(given.initial(seeds[1]), flat)
    assert not np.array_equal(made.initial(seeds[0]), made.initial(seeds[1]))


def test_a_loss_of_ones_own_is_what_is_minimised() -> None:
    module, (X, y) = network(), rows()
    smooth = nn.CrossEntropyLoss(label_smoothing=0.2)
    f = local(fedsim.torch.problem(module, smooth, data=(X, y)))
    w = f.initial(np.random.default_rng(0))
    expected = smooth(module(torch.tensor(X, dtype=torch.float32)), torch.tensor(y)).item()
    assert f.value(w) == pytest.approx(expected, rel=1e-6)


def test_one_output_is_a_number() -> None:
    X, y = rows()
    module = nn.Sequential(nn.Flatten(), nn.Linear(FEATURES, 1))
    f = local(fedsim.torch.problem(module, nn.L1Loss(), data=(X, y + 0.5)))
    w = f.initial(np.random.default_rng(0))
    found = module(torch.tensor(X, dtype=torch.float32)).detach().numpy()[:, 0]
    assert f.value(w) == pytest.approx(np.abs(found - y - 0.5).mean(), rel=1e-6)


def test_a_module_of_any_precision_has_its_outputs() -> None:
    module = nn.Sequential(nn.Flatten(), nn.Linear(FEATURES, 5)).double()
    X, y = rows()
    loss = fedsim.torch.problem(module, data=(X, y)).loss
    assert loss.encode(y.astype(np.float64)).shape == (ROWS, 5)


def test_tokens_are_whole_numbers() -> None:
    module = nn.Sequential(nn.Embedding(5, 4), nn.Flatten(), nn.Linear(12, CLASSES))
    tokens = torch.randint(0, 5, (ROWS, 3), generator=torch.Generator().manual_seed(0))
    problem = fedsim.torch.problem(module, data=(tokens, rows()[1]))
    f = local(problem)
    expected = nn.functional.cross_entropy(module(tokens), torch.tensor(rows()[1])).item()
    assert f.value(f.initial(np.random.default_rng(0))) == pytest.approx(expected, rel=1e-6)


class Pairs(Dataset[Any]):
    """A map-style dataset of pairs."""

    def __init__(self, items: list[Any]) -> None:
        self.items = items

    def __len__(self) -> int:
        return len(self.items)

    def __getitem__(self, place: int) -> Any:
        return self.items[place]


class Stream(IterableDataset[Any]):
    """A dataset without a length."""

    def __iter__(self) -> Iterator[Any]:
        return iter(())


class Once:
    """Items of a known number that are read one after the other."""

    def __init__(self, items: Dataset[Any], count: int) -> None:
        self.items, self.count = items, count

    def __len__(self) -> int:
        return self.count

    def __iter__(self) -> Iterator[Any]:
        return (self.items[place] for place in range(self.count))


class Counted(Stream):
    """A stream of a known length."""

    def __len__(self) -> int:
        return ROWS

    def __iter__(self) -> Iterator[Any]:
        return iter(Once(as_pairs(), ROWS))


def as_pairs(labels_are_tensors: bool = False) -> Pairs:
    X, y = rows()
    convert = torch.tensor if labels_are_tensors else int
    return Pairs([(torch.tensor(x), convert(label)) for x, label in zip(X, y, strict=True)])


@every(
    "data",
    [
        as_pairs(),
        as_pairs(labels_are_tensors=True),
        TensorDataset(*map(torch.tensor, rows())),
        Subset(TensorDataset(*map(torch.tensor, rows())), range(ROWS)),
        tuple(map(torch.tensor, rows())),
        Once(as_pairs(), ROWS),
        Counted(),
    ],
)
def test_datasets_are_read_as_the_arrays_they_are(data: Any) -> None:
    X, y = rows()
    found = fedsim.torch.problem(network, data=data).data
    assert found is not None
    samples = found.load(Path(), np.random.default_rng(0))
    np.testing.assert_array_equal(samples.X, X.reshape(ROWS, FEATURES))
    np.testing.assert_array_equal(samples.y, y)


def test_a_dataset_each_is_the_natural_split(tmp_path: Path) -> None:
    X, y = map(torch.tensor, rows())
    whole = TensorDataset(X, y)
    last = Subset(whole, range(40, 60))
    parts = [Subset(whole, range(10)), Subset(whole, range(10, 40)), Once(last, 20)]
    problem = fedsim.torch.problem(network, data=parts)
    keys = {"fleet": [{"count": 3}], "stop": {"rounds": 1}}
    result = fedsim.run(scenario(problem, **keys), out=tmp_path / "run")
    assert result.clients["samples"].tolist() == [10, 30, 20]
    assert problem.split.kind == "groups"


def test_arrays_are_not_copied() -> None:
    X = np.zeros((ROWS, FEATURES), np.float32)
    block = fedsim.arrays(X, np.zeros(ROWS))
    assert np.shares_memory(block.read(Path(), np.random.default_rng(0)).X, X)


@every(
    ("data", "text"),
    [
        (Stream(), "got Stream, which has no length"),
        (Pairs([]), "the Pairs has no items"),
        (Pairs([(np.zeros(3), 0), (np.zeros(4), 0)]), "all of one shape"),
        (Pairs([np.zeros(3)]), "pairs: features"),
        (Pairs([(np.zeros(3), "cat")]), "a number as the label"),
        (Subset(Pairs([(np.zeros(3), 0)]), [0, 7]), "the Subset cannot be read: IndexError"),
        ((np.zeros((3, 2)), np.zeros(4)), "3 rows of features, but 4 labels"),
        ((np.zeros((3, 2)), np.zeros((3, 1))), r"X takes the shape .* got \(3, 2\) and \(3, 1\)"),
        ((np.full((3, 2), np.nan), np.zeros(3)), "row 1, column 1 of the features is nan"),
        ((np.array([["a"]]), np.zeros(1)), "features are numbers; got an array of <U1"),
        ((np.zeros((3, 2)), np.zeros(3), np.zeros(3)), "clients are whole numbers"),
        ((np.zeros((3, 2)),), r"got a tuple of 1 things \(ndarray\)"),
        ([], "got a list of 0 things"),
    ],
)
def test_rows_that_cannot_be_used_are_refused(data: Any, text: str) -> None:
    with pytest.raises(DataError, match=text):
        fedsim.torch.problem(network, data=data)


@every("shape", ["ab", 5, (0,), (4.0,), (-4,)])
def test_a_shape_is_one_of_whole_numbers_or_refused(shape: Any) -> None:
    with pytest.raises(DataError, match=r"the shape is that of one row's features.*; got "):
        fedsim.torch.problem(network, data=rows(), shape=shape)


def test_what_is_no_module_is_refused() -> None:
    with pytest.raises(DataError, match=r"torch.nn.Module; got int"):
        fedsim.torch.problem(lambda: 3, data=rows())  # type: ignore[arg-type, return-value]


def test_a_file_alone_says_that_something_is_missing(tmp_path: Path) -> None:
    data = (np.random.default_rng(5).standard_normal((9, 2)), np.arange(9) % 3)
    fedsim.run(
        scenario(fedsim.torch.problem(lambda: nn.Linear(2, 3), data=data), stop={"rounds": 1}),
        out=tmp_path / "run",
    )
    del data
    with pytest.raises(FedsimError, match="passed in Python"):
        fedsim.run(tmp_path / "run" / "base" / "seed-1" / "scenario.yaml")


def test_what_is_held_is_found_again_as_long_as_a_block_holds_it() -> None:
    block = Holding.of_values([1, 2], lambda: "f" * 64)
    assert Holding.model_validate(block.model_dump()).value("data") == [1, 2]
    assert Holding.model_validate(block.model_dump()) == block
    del block
    with pytest.raises(DataError, match="ffffffffffff"):
        Holding(digest="f" * 64).value("data")


def test_a_module_that_this_process_does_not_have_is_missed_by_its_key() -> None:
    block = GivenModule(digest="0" * 64, name="Net")
    with pytest.raises(DataError, match="this object was passed in Python") as raised:
        block.module(2, 3)
    assert raised.value.key == "loss.model"
