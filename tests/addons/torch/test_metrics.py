"""Classes of torchmetrics as measures, on test rows and client by client."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torchmetrics
from sklearn.metrics import cohen_kappa_score, f1_score
from torch import Tensor, nn

import fedsim
import fedsim.torch
from fedsim.core.errors import DataError, ScenarioError
from fedsim.torch import metric
from tests.tiers import every

RNG = np.random.default_rng(0)
X = RNG.normal(size=(95, 5)).astype(np.float32)
Y = (X @ RNG.normal(size=(5, 3))).argmax(axis=1)
OWNERS = np.arange(65) % 11
KEYS: dict[str, Any] = {
    "algorithm": {"kind": "fedavg", "step_size": 0.1, "local_steps": 2},
    "test": (X[65:], Y[65:]),
    "rounds": 2,
}


def trained(folder: Path, **keys: Any) -> fedsim.torch.TorchResult:
    torch.manual_seed(1)
    return fedsim.torch.run(nn.Linear(5, 3), (X[:65], Y[:65], OWNERS), out=folder, **KEYS, **keys)


def predicted(result: fedsim.torch.TorchResult, rows: Any) -> Any:
    with torch.no_grad():
        return result.module()(torch.tensor(rows)).argmax(dim=1).numpy()


def test_a_class_by_name_or_itself_is_made_for_the_classes_of_the_data(tmp_path: Path) -> None:
    made = torchmetrics.classification.MulticlassCohenKappa
    result = trained(
        tmp_path,
        metrics={
            "macro_f1": "MulticlassF1Score",
            "kappa": made,
            "given_kappa": made(num_classes=3),
        },
        measures=[metric("MulticlassF1Score", average="micro")],
    )
    last, found = result.rounds.iloc[-1], predicted(result, X[65:])
    assert last["macro_f1"] == pytest.approx(f1_score(Y[65:], found, average="macro"), abs=1e-6)
    micro = f1_score(Y[65:], found, average="micro")
    assert last["multiclass_f1_score"] == pytest.approx(micro, abs=1e-6)
    kappa = cohen_kappa_score(Y[65:], found)
    assert last["kappa"] == last["given_kappa"] == pytest.approx(kappa, abs=1e-6)


def test_over_clients_there_are_the_worst_its_tenth_the_median_and_the_mean(
    tmp_path: Path,
) -> None:
    def error(outputs: Tensor, targets: Tensor) -> Tensor:
        return (outputs.argmax(dim=1) != targets).double().mean()

    measures = [
        metric("MulticlassAccuracy", "own_accuracy", on="clients", average="micro"),
        metric(error, "own_error", on="clients"),
    ]
    result = trained(tmp_path, measures=measures)
    last, right = result.rounds.iloc[-1], predicted(result, X[:65]) == Y[:65]
    shares = np.sort([right[m == OWNERS].mean() for m in range(11)])
    expected = shares[0], shares[:2].mean(), np.median(shares), shares.mean()
    for which, share in zip(("worst", "tenth", "median", "mean"), expected, strict=True):
        assert last[f"{which}_own_accuracy"] == pytest.approx(share, abs=1e-6)
        assert last[f"{which}_own_error"] == pytest.approx(1 - share, abs=1e-12)


class Noisy(nn.Module):
    """A module that computes otherwise while it is trained: dropout, statistics of the batch."""

    def __init__(self) -> None:
        super().__init__()
        self.norm, self.drop, self.last = nn.BatchNorm1d(5), nn.Dropout(0.5), nn.Linear(5, 3)

    def forward(self, rows: Tensor) -> Tensor:
        found: Tensor = self.last(self.drop(self.norm(rows)))
        return found


KEPT: dict[str, Any] = {
    "algorithm": {"kind": "fedavg", "step_size": 0.3, "local_steps": 3, "batch": 4},
    "statistics": "averaged",
    "rounds": 3,
}


@pytest.mark.parametrize("sizes", [(2, 5, 30), (2, 2, 2)])
def test_a_metric_sees_each_client_in_evaluation_whatever_its_size(
    sizes: tuple[int, ...], tmp_path: Path
) -> None:
    owners = np.repeat(np.arange(3), sizes)
    rows, labels = X[: len(owners)], Y[: len(owners)]
    labels = np.concatenate([[0, 1, 2], labels[3:]])  # all classes
    measures = [
        metric("MulticlassAccuracy", "acc", on="clients", average="micro"),
        metric("MulticlassAccuracy", "one_acc", average="micro"),
    ]
    test = X[94:], Y[94:]  # one row
    given: dict[str, Any] = KEPT | {"measures": measures, "test": test, "out": tmp_path}
    result = fedsim.torch.run(Noisy, (rows, labels, owners), **given)
    last, right = result.rounds.iloc[-1], predicted(result, rows) == labels
    shares = [right[owners == m].mean() for m in range(3)]
    assert last["worst_acc"] == last["tenth_acc"] == pytest.approx(min(shares), abs=1e-6)
    assert last["mean_acc"] == pytest.approx(np.mean(shares), abs=1e-6)
    assert last["one_acc"] == float((predicted(result, test[0]) == test[1]).all())


def test_held_out_clients_are_seen_whole(tmp_path: Path) -> None:
    given: list[Tensor] = []

    def count(outputs: Tensor, targets: Tensor) -> float:
        given.append(outputs)
        return float(len(targets))

    metrics = {"kappa": "MulticlassCohenKappa", "held": count}
    keys: dict[str, Any] = KEPT | {"test": {"clients": 2}, "metrics": metrics, "out": tmp_path}
    result = fedsim.torch.run(Noisy, (X[:65], Y[:65], OWNERS), **keys)
    with torch.no_grad():
        outputs = result.module()(torch.from_numpy(X[:65]))
    tested = (torch.cdist(outputs.double(), given[-1].double()).min(dim=1).values < 1e-5).numpy()
    held = [m for m in range(11) if tested[m == OWNERS].all()]
    assert len(held) == 2
    assert tested.sum() == np.isin(OWNERS, held).sum() == len(given[-1])
    assert result.clients["samples"].sum() == 65 - len(given[-1])
    kappa = cohen_kappa_score(Y[:65][tested], outputs.argmax(dim=1).numpy()[tested])
    last = result.rounds.iloc[-1]
    assert last["kappa"] == pytest.approx(kappa, abs=1e-6)
    assert last["held"] == len(given[-1])


@every(
    ("name", "options", "said"),
    [
        ("MultiClassF1Score", {}, "did you mean 'MulticlassF1Score'"),
        ("MulticlassF1Score", {"classes": 3}, "MulticlassF1Score has no option classes; it has"),
        (
            "MulticlassAccuracy",
            {"name": "share", "on": "clients"},
            "larger values of MulticlassAccuracy are better, but the name share stands for smaller",
        ),
        (
            torchmetrics.MeanSquaredError(),
            {"name": "own_score"},
            "smaller values of MeanSquaredError are better, but the name own_score stands for",
        ),
        (len, {"top_k": 3}, "options are those of a class of torchmetrics; got top_k"),
    ],
)
def test_what_torchmetrics_does_not_have_is_named(
    name: Any, options: dict[str, Any], said: str
) -> None:
    with pytest.raises(DataError, match=said):
        metric(name, **options)


def test_every_class_has_a_name_that_says_which_values_are_better() -> None:
    places = torchmetrics.classification, torchmetrics.regression
    classes = [getattr(place, name) for place in places for name in place.__all__]
    known = [each for each in classes if isinstance(getattr(each, "higher_is_better", None), bool)]
    assert len(known) > 50
    for each in known:
        made = metric(each)
        assert made.higher == (frozenset(made.columns) if each.higher_is_better else frozenset())


def test_a_class_that_cannot_be_made_is_refused_before_anything_runs(tmp_path: Path) -> None:
    with pytest.raises(ScenarioError, match="cannot be made with average='x', num_classes=3"):
        trained(tmp_path, measures=[metric("MulticlassF1Score", average="x")])
    assert not list(tmp_path.iterdir())


def test_metrics_have_names(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="metrics are given by their names"):
        trained(tmp_path, metrics=["MulticlassF1Score"])


def test_a_class_by_its_name_is_a_value_and_an_object_is_code() -> None:
    named = "MulticlassF1Score"
    digests = [metric(named).digest, metric(named, average="micro").digest]
    assert [metric(named).digest, metric(named, average="micro").digest] == digests
    assert len({*digests}) == 2
    weighted = metric(named, compute_on_cpu=print)
    given = metric(torchmetrics.classification.MulticlassF1Score), weighted
    assert [each.is_code for each in given] == [True, True]
    assert not metric(named).is_code
