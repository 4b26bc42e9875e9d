"""Fast-FedDA's scenarios: settings, what methods send, and the writers that are drawn."""

import sys
from pathlib import Path

import numpy as np
import pytest

import fedsim
from fedsim.core.errors import DataError
from tests.conftest import ROOT
from tests.scripts import script
from tests.stand_ins import femnist

sys.path.insert(0, str(ROOT / "analysis/papers"))  # as for the script that is run there
script("papers/run")
writers, model = (sys.modules[f"reproduction.{name}"] for name in ("writers", "model"))
sys.path.remove(str(ROOT / "analysis/papers"))


def scenario(name: str) -> Path:
    """Return the file of a scenario of the paper."""
    return Path(model.SCENARIOS, f"fedda-{name}.yaml")


def test_the_settings_of_the_regressions_are_those_of_the_authors_code() -> None:
    for name in ("sparse", "low-rank"):
        for variant in fedsim.load(scenario(name)).variants:
            method = variant.scenario.algorithm.model_dump()
            assert (method["local_steps"], method["batch"]) == (10, 10)
            assert method.get("mu", 0.1) == 0.1
            assert method.get("step_size", 0.001) == 0.001
            gamma = 550 if method["kind"] == "fast-fedda" else 600
            assert method.get("gamma", gamma) == gamma
            assert [each["radius"] for each in method.get("stages", ())] in ([], [5000, 2500, 1250])
            assert variant.scenario.clients == 64


def test_the_settings_of_federated_emnist_differ_by_the_classes_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    femnist(tmp_path)
    monkeypatch.setenv("FEDSIM_DATA", str(tmp_path))
    ten, all_ = (fedsim.load(scenario(name)).variants for name in ("emnist-10", "emnist-62"))
    for few, many in zip(ten, all_, strict=True):
        own, other = few.scenario.model_dump(), many.scenario.model_dump()
        assert own["problem"]["data"].pop("classes") == list(range(10))
        assert other["problem"]["data"].pop("classes") is None
        for block in ("problem", "algorithm", "participation", "stop"):
            assert own[block] == other[block]
        assert own["participation"]["count"] == 36
        assert (own["algorithm"]["local_steps"], own["algorithm"]["batch"]) == (40, 25)


def test_the_stages_of_mc_fedda_say_their_centre(tmp_path: Path) -> None:
    """Three clients a round: a vector each, after two rounds a second one and a number."""
    overrides = [
        *("seeds=1", "stop.rounds=6", "fleet.0.count=4", "fleet.1.count=2"),
        *("participation.count=3", "problem.data.clients=6", "problem.data.rows=20"),
        *("problem.data.features=36", "problem.data.ones=10"),
        "variants.mc-fedda.algorithm.stages.0.rounds=2",
        "variants.mc-fedda.algorithm.stages.1.rounds=2",
    ]
    events = fedsim.run(scenario("sparse"), out=tmp_path, overrides=overrides).events
    down = events[(events["event"] == "send") & (events["node"] == "server")]
    own = down[down["variant"] == "mc-fedda"]
    first, then = own[own["round"] <= 2], own[own["round"] > 2]
    vector = 16 + 32 + 32 * 36
    assert first["payload_bits"].tolist() == [vector] * 6
    assert then["message"].unique().tolist() == ["stageddual"]
    assert then["payload_bits"].between(vector + 40 + 32, 2 * vector + 40).all()


@pytest.mark.parametrize(("name", "rows"), [("fedda-emnist-62", 48), ("fedda-emnist-10", None)])
def test_writers_are_drawn_of_those_with_enough_rows(
    name: str, rows: int | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The stand-in's last writer has eight rows, and is left out; of twelve, five are drawn."""
    femnist(tmp_path)
    monkeypatch.setenv("FEDSIM_DATA", str(tmp_path))
    (all_,) = writers.choose(name, tmp_path / "all")
    monkeypatch.setitem(writers.WRITERS, name, 5)
    (few,) = writers.choose(name, tmp_path / "few")
    whole, part = (np.load(text.rpartition("path: ")[2].removesuffix("}")) for text in (all_, few))
    assert 12 not in whole["client"]
    assert len(np.unique(part["client"])) == 5
    source = np.load(tmp_path / "femnist.npz")
    kept = np.isin(source["client"], np.unique(whole["client"]))
    if rows is None:
        kept &= source["y"] < 10
    else:
        assert set(np.unique(whole["client"], return_counts=True)[1]) == {rows}
    assert np.array_equal(whole["X"], source["X"][kept])
    assert np.array_equal(whole["y"], source["y"][kept])
    own = np.isin(whole["client"], part["client"])
    assert np.array_equal(part["X"], whole["X"][own])


def test_a_file_of_writers_with_few_rows_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    X, client = np.zeros((9, 784)), np.repeat(np.arange(3), 3)
    np.savez(tmp_path / "femnist.npz", X=X, y=np.arange(9), client=client)
    monkeypatch.setenv("FEDSIM_DATA", str(tmp_path))
    with pytest.raises(DataError, match="got 3 rows of a writer at most, expected 11"):
        writers.choose("fedda-emnist-62", tmp_path)
