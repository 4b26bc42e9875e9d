"""Splits by flwr-datasets' partitioners, and data sets handed over: the rows are its own."""

import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from datasets import Dataset, DatasetDict
from flwr_datasets import partitioner as partitioners

import fedsim
from fedsim.core.errors import DataError, ScenarioError
from fedsim.problems import Samples
from fedsim.problems.splits.by_partitioner import Partitioned
from tests.runs import small
from tests.tiers import every

ROWS = 400
CLIENTS = 8


def data(*, names: bool = True) -> Dataset:
    """Return rows with names or numbers as labels, and with writers, both in no order."""
    rng = np.random.default_rng(5)
    return Dataset.from_dict(
        {
            "x": rng.normal(size=(ROWS, 3)).astype(np.float32),
            "label": rng.choice(["ant", "bee", "cat", "dog"] if names else [0, 1, 2, 3], ROWS),
            "writer": rng.integers(0, CLIENTS, ROWS),
        }
    )


def samples(whole: Dataset) -> Samples:
    held = fedsim.dataset(whole, features=["x"], client="writer")
    return held.read(Path(), np.random.default_rng(0))


def rows_of(partition: Dataset, whole: Dataset) -> list[int]:
    """Return the places of a partition's rows in the whole, by their first feature."""
    place = {row[0]: number for number, row in enumerate(whole["x"])}
    return [place[row[0]] for row in partition["x"]]


CASES: list[tuple[str, str, dict[str, Any]]] = [
    ("IidPartitioner", "label", {}),
    ("DirichletPartitioner", "label", {"alpha": 0.3}),
    ("DirichletPartitioner", "label", {"alpha": 0.3, "self_balancing": True}),
    ("InnerDirichletPartitioner", "label", {"partition_sizes": [20] * CLIENTS, "alpha": 50}),
    ("PathologicalPartitioner", "label", {"num_classes_per_partition": 2}),
    (
        "PathologicalPartitioner",
        "label",
        {"num_classes_per_partition": 2, "class_assignment_mode": "first-deterministic"},
    ),
    ("ShardPartitioner", "label", {"num_shards_per_partition": 2}),
    ("ContinuousPartitioner", "client", {"strictness": 0.7}),
    ("NaturalIdPartitioner", "client", {}),
    ("GroupedNaturalIdPartitioner", "client", {"group_size": 1}),
    ("SizePartitioner", "label", {"partition_sizes": [10, 20, 30, 40, 50, 60, 70, 80]}),
    ("LinearPartitioner", "label", {}),
    ("SquarePartitioner", "label", {}),
]


@pytest.mark.slow
@every(("name", "by", "options"), CASES)
@pytest.mark.filterwarnings("ignore")  # of the partitioners, about what they were asked for
def test_each_client_has_the_rows_of_its_partition(
    name: str, by: str, options: dict[str, Any]
) -> None:
    whole = data(names=name != "InnerDirichletPartitioner")  # which fails on names as labels
    keys = {"partitioner": name, "partition_by": by, "options": options}
    split = Partitioned.model_validate(keys)
    parts = split.assign(samples(whole), CLIENTS, np.random.default_rng(0))
    column = "writer" if by == "client" else "label"
    known = {"num_partitions": CLIENTS, "partition_by": column, "seed": 42, **options}
    model = getattr(partitioners, name)
    taken = model.__init__.__code__.co_varnames
    theirs = model(**{key: value for key, value in known.items() if key in taken})
    theirs.dataset = whole
    assert len(parts) == CLIENTS
    for number, part in enumerate(parts):
        assert part.tolist() == rows_of(theirs.load_partition(number), whole)


def test_a_seed_of_null_is_that_of_the_run() -> None:
    rows, split = (
        samples(data()),
        Partitioned(partitioner="DirichletPartitioner", options={"alpha": 1}, seed=None),
    )
    drawn = [split.assign(rows, CLIENTS, np.random.default_rng(n))[0].tolist() for n in (1, 2, 1)]
    assert drawn[0] == drawn[2] != drawn[1]


def test_a_scenario_names_a_partitioner() -> None:
    split = {
        "kind": "flwr-datasets",
        "partitioner": "SizePartitioner",
        "options": {"partition_sizes": [40, 50, 60, 70, 222]},
    }
    problem = {**small()["problem"], "split": split}
    result = fedsim.run(small(problem=problem, stop={"rounds": 2}))
    assert result.clients["samples"].tolist() == [40, 50, 60, 70, 222]


@every(
    ("keys", "text"),
    [
        ({"partitioner": "DirichletPartitioner"}, "missing .* 'alpha'"),
        ({"options": {"alpha": 1}}, "IidPartitioner has no option 'alpha'; its options: none"),
        ({"clients": 3}, "3 clients, but the fleet has 8"),
        ({"partitioner": "NaturalIdPartitioner"}, "makes 4 partitions, but the fleet has 8"),
        (
            {"partitioner": "DirichletPartitioner", "options": {"alpha": 0.001}},
            "DirichletPartitioner refuses this",
        ),
    ],
)
@pytest.mark.filterwarnings("ignore")
def test_what_a_partitioner_refuses_is_one_error(keys: dict[str, Any], text: str) -> None:
    with pytest.raises(DataError, match=text):
        Partitioned(**keys).assign(samples(data()), CLIENTS, np.random.default_rng(0))


def test_the_column_of_clients_has_to_be_there(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = Samples(np.zeros((9, 1)), np.arange(9.0))
    with pytest.raises(DataError, match="numbers the client of each row; this data does not"):
        Partitioned(partition_by="client").assign(rows, 3, np.random.default_rng(0))
    with pytest.raises(DataError, match="give the number of clients, or a fleet"):
        Partitioned().assign(rows, None, np.random.default_rng(0))
    problem = {**small()["problem"], "split": {"kind": "flwr-datasets", "partitioner": "Dirichlet"}}
    with pytest.raises(ScenarioError, match="DirichletPartitioner"):
        fedsim.check(small(problem=problem))
    monkeypatch.setitem(sys.modules, "flwr_datasets", None)
    with pytest.raises(DataError, match=r"flwr-datasets, .*pip install '\.\[flwr-datasets\]'"):
        Partitioned().assign(rows, 3, np.random.default_rng(0))


def scenario(problem: dict[str, Any]) -> dict[str, Any]:
    loss = {"kind": "softmax"}
    algorithm = {"kind": "fedavg", "step_size": 0.1, "local_steps": 2}
    fleet = [{"count": CLIENTS}]
    problem = {"loss": loss, "optimum": "unknown", **problem}
    return small(problem=problem, algorithm=algorithm, fleet=fleet, stop={"rounds": 2})


def test_a_partitioner_handed_over_makes_the_clients() -> None:
    whole = data()
    partitioner = partitioners.DirichletPartitioner(CLIENTS, "label", alpha=0.5, seed=3)
    partitioner.dataset = whole
    federated = SimpleNamespace(  # a FederatedDataset downloads
        partitioners={"train": partitioner},
        load_partition=lambda number, part: {"train": partitioner}[part].load_partition(number),
    )
    for source in (partitioner, federated):
        held = fedsim.dataset(source, features=["x"])
        rows = held.read(Path(), np.random.default_rng(0))
        assert rows.client is not None
        for number in range(CLIENTS):
            there = partitioner.load_partition(number)
            np.testing.assert_array_equal(rows.X[rows.client == number], there["x"])
            names = np.array(["ant", "bee", "cat", "dog"])[
                rows.y[rows.client == number].astype(int)
            ]
            assert names.tolist() == list(there["label"])
        result = fedsim.run(scenario({"data": held, "split": "groups"}))
        sizes = [len(partitioner.load_partition(number)) for number in range(CLIENTS)]
        assert result.clients["samples"].tolist() == sizes
    with pytest.raises(DataError, match="part='test' is not partitioned; its partitioned parts: t"):
        fedsim.dataset(federated, part="test")
    with pytest.raises(DataError, match="the partitions are the clients"):
        fedsim.dataset(partitioner, client="writer")


def test_a_data_set_handed_over_is_the_one_that_is_saved(tmp_path: Path) -> None:
    whole = data().shuffle(seed=1).select(range(300))  # rows that are picked by indices
    whole.flatten_indices().save_to_disk(str(tmp_path / "saved"))
    held = fedsim.dataset(whole, features=["x"], client="writer")
    there = {"kind": "hugging-face", "path": str(tmp_path / "saved"), "features": ["x"]}
    results = [
        fedsim.run(scenario({"data": block, "split": "groups"}))
        for block in (held, {**there, "client": "writer"})
    ]
    objectives = [result.rounds["objective"].tolist() for result in results]
    assert objectives[0] == objectives[1]
    assert results[0].clients["samples"].tolist() == results[1].clients["samples"].tolist()
    with pytest.raises(DataError, match="got a DatasetDict with the parts train, test; expected a"):
        fedsim.dataset(DatasetDict(train=whole, test=whole))
    with pytest.raises(DataError, match=r"got a list; expected a datasets\.Dataset, a partitioner"):
        fedsim.dataset([1])
