"""Extremes of what users give: numbers, seeds, and files made to take long."""

import pickle
import sys
from pathlib import Path

import numpy as np
import pytest

import fedsim
from fedsim.physics.formats.pickles import loads_plain
from fedsim.scenario.registries import BlockReader
from tests.runs import small

RNG = np.random.default_rng(1)
X, Y = RNG.normal(size=(20, 3)), np.where(RNG.random(20) > 0.5, 1.0, -1.0)
LARGEST = 1e152  # of which sixty squares can be summed


@pytest.mark.slow
@pytest.mark.parametrize(
    ("of", "loss"),
    [*(("features", loss) for loss in ("squared", "logistic", "softmax")), ("labels", "squared")],
)
def test_numbers_of_any_size_are_computed_with_or_refused(of: str, loss: str) -> None:
    largest = max(np.abs(X).max(), 1.0)
    block = {"kind": loss} | ({} if loss == "softmax" else {"scale": "sum"})
    for size in (LARGEST, 1e154, 1e200, 1e308):
        rows = X / largest * size if of == "features" else X
        labels = Y * size if of == "labels" else Y
        if size > LARGEST:
            with pytest.raises(fedsim.DataError, match="the squares of all of them are summed"):
                fedsim.arrays(rows, labels)
            continue
        data = {"data": fedsim.arrays(rows, labels), "split": {"kind": "iid"}}
        problem = {"loss": block, **data}
        fedsim.check(small(problem=problem, algorithm={"kind": "gd", "step_size": 1e-9}))


@pytest.mark.parametrize(("seed", "seeds"), [(2**63, 1), (2**63 - 1, 2), (2**130, 1)])
def test_a_seed_that_no_table_holds_is_refused_at_once(seed: int, seeds: int) -> None:
    with pytest.raises(fedsim.ScenarioError, match=r"seeds up to 2\^63 - 1 are accepted"):
        fedsim.load(small(seed=seed, seeds=seeds))


def test_the_largest_seed_can_be_read_again(tmp_path: Path) -> None:
    result = fedsim.run(small(seed=2**63 - 1, stop={"rounds": 1}), out=tmp_path)
    assert fedsim.open(tmp_path).summary["seed"].tolist() == [2**63 - 1]
    assert result.model(seed=2**63 - 1).shape == (10,)


def test_keys_of_one_hash_are_refused_and_others_are_not() -> None:
    modulus = sys.hash_info.modulus
    alike = {modulus * number: 0 for number in range(1, 2000)}
    assert len({*map(hash, alike)}) == 1
    with pytest.raises(fedsim.DataError, match="whole numbers of one hash"):
        loads_plain(pickle.dumps(alike), Path("file"), "data")
    for plain in ({2**64 + number: 0 for number in range(2000)}, [modulus + 1] * 2000):
        assert loads_plain(pickle.dumps(plain), Path("file"), "data") == plain


def test_places_of_keys_are_collected_once_for_all_faults(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    walks, walk = [], BlockReader._paths

    def counted(self: BlockReader, *given: object) -> object:
        walks.append(given[-1])
        return walk(self, *given)  # type: ignore[arg-type]

    monkeypatch.setattr(BlockReader, "_paths", counted)
    for keys in (1, 50):
        walks.clear()
        with pytest.raises(fedsim.ScenarioError):
            fedsim.load(small(**{f"key{number}": number for number in range(keys)}))
        assert walks.count(()) == 1
