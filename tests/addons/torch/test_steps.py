"""Steps written by the user, on items of any form, and metrics of the user's own."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.utils.rnn import pad_sequence
from torch.utils.data import Dataset, TensorDataset

import fedsim
import fedsim.torch
from fedsim.core.errors import DataError, RunError, ScenarioError

METHOD = {"kind": "fedavg", "step_size": 0.5, "local_steps": 2}
FLEET = [{"count": 3}]


class Tagger(nn.Module):
    """A classifier of sequences of tokens with a mask."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(20, 4)
        self.last = nn.Linear(4, 2)

    def forward(self, tokens: Tensor, mask: Tensor) -> Tensor:
        mean = (self.embed(tokens) * mask[..., None]).sum(1) / mask.sum(1, keepdim=True)
        out: Tensor = self.last(mean)
        return out


def texts(count: int, seed: int) -> list[dict[str, Any]]:
    """Return sequences of two to eight tokens."""
    rng = np.random.default_rng(seed)
    drawn = [torch.from_numpy(rng.integers(0, 20, rng.integers(2, 9))) for _ in range(count)]
    return [{"tokens": each, "label": int(each.double().mean() > 9.5)} for each in drawn]


def collate(items: list[dict[str, Any]]) -> dict[str, Tensor]:
    tokens = [each["tokens"] for each in items]
    mask = [torch.ones(len(each)) for each in tokens]
    return {
        "tokens": pad_sequence(tokens, batch_first=True),
        "mask": pad_sequence(mask, batch_first=True),
        "label": torch.tensor([each["label"] for each in items]),
    }


def mean_loss(module: Tagger, batch: dict[str, Tensor]) -> Tensor:
    return functional.cross_entropy(module(batch["tokens"], batch["mask"]), batch["label"])


def accuracy(module: Tagger, batch: dict[str, Tensor]) -> Tensor:
    found = module(batch["tokens"], batch["mask"]).argmax(dim=1)
    share: Tensor = (found == batch["label"]).double().mean()
    return share


PARTS = [texts(8, seed) for seed in range(3)]
HELD = texts(9, 77)


def tagger(module: nn.Module | type[nn.Module] = Tagger, **more: Any) -> Any:
    given: dict[str, Any] = {"step": mean_loss, "collate": collate, "data": PARTS, "test": HELD}
    return fedsim.torch.problem(module, numbers="float64", **(given | more))


def as_double(items: list[dict[str, Any]]) -> dict[str, Tensor]:
    batch = collate(items)
    return batch | {"mask": batch["mask"].double()}


def averaged(states: list[dict[str, Tensor]]) -> dict[str, Tensor]:
    return {name: torch.stack([each[name] for each in states]).mean(0) for name in states[0]}


class Once:
    """Items of a known number that are read one after the other."""

    def __init__(self, items: list[Any]) -> None:
        self.items = items

    def __len__(self) -> int:
        return len(self.items)

    def __iter__(self) -> Iterator[Any]:
        return iter(self.items)


class Broken(Once):
    def __iter__(self) -> Iterator[Any]:
        raise OSError("no such volume")


@pytest.mark.parametrize("form", [list, Once])
def test_a_step_on_dictionaries_is_a_plain_loop(form: Callable[..., Any], tmp_path: Path) -> None:
    torch.manual_seed(4)
    begun = Tagger()
    scenario = {
        "algorithm": METHOD,
        "stop": {"rounds": 4},
        "fleet": FLEET,
        "wire": {"values": "float64"},
    }
    measures = ["test_loss", fedsim.torch.metric(accuracy, "own_accuracy")]
    data = [form(part) for part in PARTS]
    problem = tagger(begun, data=data, test=form(HELD))
    made = fedsim.run({"problem": problem, "measures": measures, **scenario}, out=tmp_path)
    seen = made.rounds.set_index("round")
    server = Tagger().double()
    server.load_state_dict(begun.double().state_dict())
    for number in range(1, 5):
        reached = []
        for part in PARTS:
            client = Tagger().double()
            client.load_state_dict(server.state_dict())
            optimizer = torch.optim.SGD(client.parameters(), lr=0.5)
            for _ in range(2):
                optimizer.zero_grad()
                torch.autograd.backward(mean_loss(client, as_double(part)))
                optimizer.step()
            reached.append(client.state_dict())
        server.load_state_dict(averaged(reached))
        loss = mean_loss(server, as_double(HELD)).item()
        assert seen["test_loss"][number] == pytest.approx(loss, rel=1e-12)
        assert seen["own_accuracy"][number] == float(accuracy(server, as_double(HELD)))
    given = fedsim.torch.load_module(begun, made)
    for name, value in server.state_dict().items():
        assert torch.allclose(given.state_dict()[name].double(), value, rtol=1e-5)


X = np.random.default_rng(5).normal(size=(60, 4))
Y = (X @ np.array([1.0, -2.0, 0.5, 0.0]) > 0).astype(np.int64)


def own_step(module: nn.Module, batch: list[Tensor]) -> Tensor:
    rows, labels = batch
    return functional.cross_entropy(module(rows), labels, reduction="none")


@pytest.mark.parametrize(
    "keys", [{"batch": 5}, {"local_epochs": 2, "local_steps": None, "batch": 7}]
)
def test_a_step_that_is_the_loss_is_the_loss_with_its_costs(
    keys: dict[str, Any], tmp_path: Path
) -> None:
    torch.manual_seed(4)
    network = nn.Sequential(nn.Linear(4, 6), nn.Tanh(), nn.Linear(6, 2))
    method = {name: each for name, each in (METHOD | keys).items() if each is not None}
    scenario: dict[str, Any] = {"algorithm": method, "stop": {"rounds": 4}}
    scenario["fleet"] = [{"count": 3, "device": "pi-4", "radio": "wifi"}]
    given: dict[str, Any] = {"numbers": "float64", "split": "contiguous"}
    plain = fedsim.torch.problem(network, data=(X[:40], Y[:40]), test=(X[40:], Y[40:]), **given)
    rows = TensorDataset(torch.from_numpy(X), torch.from_numpy(Y))
    train, test = (torch.utils.data.Subset(rows, each) for each in (range(40), range(40, 60)))
    stepped = fedsim.torch.problem(network, data=train, test=test, step=own_step, **given)
    one, other = (
        fedsim.run({"problem": each, "measures": ["test_loss"], **scenario}, out=tmp_path / name)
        for name, each in (("plain", plain), ("stepped", stepped))
    )
    for name in ("t", "bits_up", "bits_down", "joules"):
        assert one.rounds[name].tolist() == other.rounds[name].tolist()
    for name in ("objective", "test_loss"):
        assert one.rounds[name].to_numpy() == pytest.approx(
            other.rounds[name].to_numpy(), rel=1e-12
        )


def test_metrics_see_outputs_and_classes_of_the_test_rows(tmp_path: Path) -> None:
    def share(outputs: Tensor, targets: Tensor) -> float:
        assert outputs.shape == (20, 2)
        return float((outputs.argmax(dim=1) == targets).double().mean())

    result = fedsim.torch.run(
        nn.Linear(4, 2),
        (X[:40], Y[:40]),
        test=(X[40:], Y[40:]),
        algorithm=METHOD,
        fleet=FLEET,
        rounds=3,
        measures=["test_accuracy", fedsim.torch.metric(share, "share_acc")],
        models={"best": "share_acc"},
        stop={"share_acc": 0.99},
        out=tmp_path,
    )
    assert result.rounds["share_acc"].tolist() == result.rounds["test_accuracy"].tolist()


def tagged(out: Path, parts: Any = PARTS, version: str | None = None) -> fedsim.Result:
    return fedsim.torch.run(
        Tagger,
        parts,
        step=mean_loss,
        collate=collate,
        test={"fraction": 0.25},
        algorithm={"kind": "fedavg", "step_size": 0.5, "local_steps": 1, "batch": 2},
        fleet=FLEET,
        rounds=2,
        out=out,
        version=version,
    )


def test_what_holds_for_a_module_of_a_step_holds_for_the_users(tmp_path: Path) -> None:
    result, again = tagged(tmp_path), tagged(tmp_path / "again")
    assert result.rounds["test_loss"].notna().all()
    assert isinstance(fedsim.torch.load_module(Tagger, result), Tagger)
    assert again.rounds.equals(result.rounds)


def test_a_finished_run_of_a_step_is_kept_by_its_version_and_its_items(tmp_path: Path) -> None:
    log = tmp_path / "base/seed-1/events.parquet"
    tagged(tmp_path, version="a")
    before = log.stat().st_mtime_ns
    tagged(tmp_path, version="a")
    assert log.stat().st_mtime_ns == before
    tagged(tmp_path, [PARTS[0][1:], *PARTS[1:]], version="a")
    assert log.stat().st_mtime_ns != before


def test_a_metric_of_a_class_that_nobody_trains_on_is_refused() -> None:
    metric = fedsim.torch.metric(lambda outputs, targets: 0.0, "own")
    with pytest.raises(ScenarioError, match="the label 1 is among the test rows only"):
        fedsim.torch.run(
            nn.Linear(4, 2),
            (X[:40], 0 * Y[:40]),
            test=(X[40:], 0 * Y[40:] + 1),
            algorithm=METHOD,
            fleet=FLEET,
            rounds=1,
            measures=[metric],
        )


class Endless(Dataset[Any]):
    """Items without a number of them."""

    def __getitem__(self, index: int) -> Any:
        return index


def refused(text: str, **more: Any) -> None:
    with pytest.raises((DataError, ScenarioError), match=text):
        fedsim.run({"problem": tagger(**more), "algorithm": METHOD, "fleet": FLEET})


def test_what_cannot_be_used_is_named() -> None:
    refused("got step and loss; a step computes the loss", loss=functional.cross_entropy)
    refused("step is a function, step.module, batch.*; got int", step=3)
    refused("collate is a function", collate="pad")
    refused("Endless, which has no length", data=Endless())
    refused("items of the Broken cannot be read: OSError: no such", data=[Broken(PARTS[0])])
    refused("got 1 items; expected at least 2", data=[PARTS[0][:1]])
    refused("one, or a list of items, per client; got list of dict", data=PARTS[0])
    refused("fails on a batch of 2 items: KeyError", step=lambda module, batch: batch["none"])
    refused(r"shape \(2,\).*or \(\), their mean; got 1.0", step=lambda module, batch: 1.0)
    refused(
        r"got a Tensor of the shape \(2, 2\)",
        step=lambda module, batch: module(batch["tokens"], batch["mask"]),
    )


@pytest.mark.parametrize("measure", ["test_accuracy", "test_mae"])
def test_measures_of_predictions_are_refused_with_a_step(measure: str) -> None:
    with pytest.raises((DataError, ScenarioError, RunError), match=r"test_loss|no labels|classif"):
        fedsim.run({"problem": tagger(), "algorithm": METHOD, "measures": [measure]})


def test_metrics_that_cannot_be_used_are_named() -> None:
    with pytest.raises(DataError, match="a metric is a function of outputs and targets"):
        fedsim.torch.metric(nn.Linear, "own")
    with pytest.raises(DataError, match="name of a metric is one of small letters"):
        fedsim.torch.metric(accuracy, "Own F1")
    with pytest.raises(DataError, match="name of a metric is one of small letters"):
        fedsim.torch.metric(accuracy, "_f1")
    with pytest.raises(DataError, match="test_f1 is that of a measure"):
        fedsim.torch.metric(accuracy, "test_f1")


def twice(outputs: Tensor, targets: Tensor) -> Tensor:
    return outputs.sum() + torch.zeros(2) * targets.sum()


def quotient(outputs: Tensor, targets: Tensor) -> float:
    return len(outputs) / 0


@pytest.mark.parametrize(
    ("function", "said"),
    [
        (twice, r"the metric own has to return a number; got a Tensor of the shape \(2,\)"),
        (quotient, "the metric own fails: ZeroDivisionError: division by zero"),
    ],
)
@pytest.mark.parametrize("on", ["test", "clients"])
def test_a_metric_that_makes_no_number_is_refused_before_anything_runs(
    function: Any, said: str, on: Any, tmp_path: Path
) -> None:
    with pytest.raises(ScenarioError, match=said):
        fedsim.torch.run(
            nn.Linear(4, 2),
            (X[:40], Y[:40]),
            test=(X[40:], Y[40:]),
            algorithm=METHOD,
            fleet=FLEET,
            rounds=1,
            out=tmp_path,
            measures=[fedsim.torch.metric(function, "own", on=on)],
        )
    assert not list(tmp_path.iterdir())
