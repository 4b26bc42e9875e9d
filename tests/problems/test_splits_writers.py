"""The split by writers, and whole clients that are held out: laws, and what is refused."""

from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import fedsim
from fedsim.core.errors import DataError, ScenarioError
from fedsim.core.streams import stream
from fedsim.problems import HeldOutClients, Samples, Writers
from tests.scenario.building.plans import job
from tests.tiers import examples


def rows(numbers: list[int] | None, n: int = 90) -> Samples:
    """Return rows of three labels, of writers with so many rows each where given."""
    client = None if numbers is None else np.repeat(np.arange(len(numbers)), numbers)
    n = n if client is None else len(client)
    rng = np.random.default_rng(n)
    return Samples(rng.standard_normal((n, 4)), rng.integers(0, 3, n).astype(float), client)


@given(st.integers(1, 9), st.none() | st.integers(1, 10), st.integers(0, 99))
@examples(30)
def test_made_writers_have_as_many_rows_each(clients: int, each: int | None, seed: int) -> None:
    parts = Writers(rows=each).assign(rows(None), clients, stream(seed, "split"))
    assert [len(own) for own in parts] == [each or 90 // clients] * clients
    every = np.concatenate(parts)
    assert len(np.unique(every)) == len(every)
    again = Writers(rows=each).assign(rows(None), clients, stream(seed, "split"))
    assert all(np.array_equal(*pair) for pair in zip(parts, again, strict=True))


def test_a_made_writers_rows_of_a_label_are_neighbours_in_its_direction_of_most_variance() -> None:
    """Labels are spread over all writers, and the parts of a label do not overlap."""
    rng = np.random.default_rng(0)
    y = np.tile([0.0, 1.0, 2.0], 40)
    style = rng.standard_normal(120)
    X = style[:, None] * np.eye(5)[y.astype(int)] + 10 * y[:, None]
    parts = Writers(clients=8).assign(Samples(X, y), None, rng)
    for label in range(3):
        own = [style[part[y[part] == label]] for part in parts]
        assert [len(each) for each in own] == [5] * 8
        ends = sorted((each.min(), each.max()) for each in own)
        assert all(one[1] < other[0] for one, other in pairwise(ends))


def test_writers_of_the_data_are_drawn_of_those_with_enough_rows() -> None:
    samples = rows([3, 8, 5, 9, 2, 5])
    assert samples.client is not None
    times = np.zeros(6)
    for seed in range(60):
        parts = Writers(rows=5).assign(samples, 2, stream(seed, "split"))
        owners = [set(samples.client[own].tolist()) for own in parts]
        assert [len(own) for own in parts] == [5, 5]
        assert all(len(each) == 1 for each in owners)
        chosen = [each.pop() for each in owners]
        assert len(set(chosen)) == 2
        times[chosen] += 1
    assert times[[0, 4]].tolist() == [0, 0]
    assert min(times[[1, 2, 3, 5]]) > 10
    every = Writers().assign(samples, None, stream(1, "split"))
    assert [len(own) for own in every] == [3, 8, 5, 9, 2, 5]


@pytest.mark.parametrize(
    ("split", "numbers", "told"),
    [
        (Writers(clients=3, rows=5), [3, 8, 5], "got 3 clients, but 2 writers have 5 rows or more"),
        (Writers(clients=4, rows=40), None, "each client takes at least 40 rows"),
        (Writers(), None, "give the number of clients, or a fleet"),
    ],
)
def test_too_few_writers_are_refused(split: Writers, numbers: list[int] | None, told: str) -> None:
    with pytest.raises(DataError, match=told):
        split.assign(rows(numbers), None, stream(1, "split"))


# -- whole clients that are held out ---------------------------------------------------


@given(st.integers(2, 12), st.integers(1, 15), st.integers(0, 99))
@examples(30)
def test_held_out_clients_are_whole_and_the_others_stay_as_they_are(
    clients: int, held: int, seed: int
) -> None:
    parts = tuple(np.arange(20 * m, 21 * m + 1) for m in range(clients))
    spec = HeldOutClients(clients=held)
    if held >= clients:
        with pytest.raises(DataError, match="one at least must stay"):
            spec.divide(parts, stream(seed, "test"))
        return
    kept, tested = spec.divide(parts, stream(seed, "test"))
    assert len(kept) == clients - held
    assert np.array_equal(np.sort(np.concatenate([*kept, tested])), np.concatenate(parts))
    firsts = [int(own[0]) for own in kept]
    assert firsts == sorted(firsts)
    assert not set(firsts) & set(tested.tolist())


def scenario(**problem: Any) -> dict[str, Any]:
    """Return softmax regression on digits that are dealt to the writers of a fleet of four."""
    digits = {"kind": "sklearn", "name": "digits", "preprocess": ["standardise"]}
    block = {
        "loss": {"kind": "softmax"},
        "data": digits,
        "split": {"kind": "writers", "rows": 60},
        "test": {"clients": 2},
        "optimum": "unknown",
    }
    return {
        "problem": block | problem,
        "algorithm": {"kind": "fedavg", "step_size": 0.01},
        "fleet": [{"count": 4, "device": "phone-mid", "radio": "lte"}],
        "measures": ["test_accuracy"],
        "stop": {"rounds": 2},
    }


def test_a_split_makes_the_clients_for_testing_besides_those_of_the_fleet(tmp_path: Path) -> None:
    written = scenario(split={"kind": "iid"})
    built = job(tmp_path, **written)
    test = built.problem.test
    assert test is not None
    # Of 1,797 rows over six clients the first three have 300.
    assert set(built.problem.rows.tolist()) <= {299, 300}
    assert test.rows == 1797 - built.problem.rows.sum()
    # Preprocessing is fitted on the clients that train: only their features have the mean 0.
    X = np.vstack([each.arranged.X for each in built.problem.losses])
    assert np.abs(X.mean(axis=0)).max() < 1e-12
    assert np.abs(np.asarray(test.X).mean(axis=0)).max() > 1e-3
    result = fedsim.run(scenario(), out=tmp_path)  # by writers, which sees the features
    assert result.rounds["test_accuracy"].between(0, 1).all()


def test_what_is_no_part_to_hold_out_is_refused_with_what_is() -> None:
    with pytest.raises(ScenarioError, match="without fraction, clients or kind"):
        fedsim.load(scenario(test={"share": 0.2}))
    with pytest.raises(ScenarioError, match=r"clients"):
        fedsim.load(scenario(test={"clients": 0}))
