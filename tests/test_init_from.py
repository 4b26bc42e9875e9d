"""`fedsim init --from`: what is seen in a table, and a scenario that runs on it as it stands."""

from pathlib import Path

import pytest

import fedsim
from fedsim.cli.from_table import name_of, scenario_text
from fedsim.errors import DataError
from fedsim.problems.tables.guess import guess
from tests.problems import messy


def written(path: Path, folder: Path, **given: str) -> Path:
    """Write the scenario that follows from a table, and return its path."""
    folder.mkdir()
    place = folder / f"{name_of(path)}.yaml"
    place.write_text(scenario_text(guess(path, **given), path, folder), encoding="utf-8")
    return place


def test_the_table_with_everything_wrong_becomes_a_scenario_that_runs(tmp_path: Path) -> None:
    path = tmp_path / "Patienten 2021.csv"
    messy.write_wrong(path)
    scenario = written(path, tmp_path / "study")
    assert scenario.name == "patienten-2021.yaml"
    text = scenario.read_text(encoding="utf-8")
    assert "label: outcome  # at risk -> -1, healthy -> +1" in text
    assert "client: hospital  # 4 clients" in text
    assert "drop: [patient_id]" in text
    plan = fedsim.load(scenario)
    assert [variant.name for variant in plan.variants] == ["fedavg", "one-step", "qsgd"]
    assert plan.variants[0].scenario.clients == 4
    result = fedsim.run(scenario, overrides=["stop.rounds=2"])
    assert (result.rounds["test_accuracy"] > 0.5).all()


@pytest.mark.slow
def test_tables_of_scikit_learn_and_openml_become_scenarios_that_run(tmp_path: Path) -> None:
    messy.with_hospitals(messy.sklearn_frame("diabetes")).to_csv(
        tmp_path / "diabetes.tsv", sep="\t", index=False
    )
    messy.openml_like().to_csv(tmp_path / "credit.csv", index=False)
    messy.with_hospitals(messy.sklearn_frame("wine")).to_csv(tmp_path / "wine.csv", index=False)
    for name, loss, clients in (
        ("diabetes.tsv", "squared", 6),
        ("credit.csv", "logistic", 10),
        ("wine.csv", "softmax", 6),
    ):
        scenario = written(tmp_path / name, tmp_path / name.split(".")[0])
        plan = fedsim.load(scenario, overrides=["stop.rounds=2"])
        assert plan.variants[0].scenario.problem.loss.kind == loss
        assert plan.variants[0].scenario.clients == clients
        assert len(fedsim.run(scenario, overrides=["stop.rounds=2"]).rounds) == 3 * 5 * 2


def test_the_columns_of_labels_and_clients_can_be_given(tmp_path: Path) -> None:
    path = tmp_path / "credit.csv"
    messy.openml_like().to_csv(path, index=False)
    seen = guess(path, label="purpose", client="checking_status")
    assert (seen.label, seen.client) == ("purpose", "checking_status")
    with pytest.raises(DataError, match="no column 'purpos'; did you mean 'purpose'"):
        guess(path, label="purpos")


def test_a_column_can_be_left_out(tmp_path: Path) -> None:
    path = tmp_path / "credit.csv"
    messy.openml_like().to_csv(path, index=False)
    seen = guess(path, drop=("purpose",))
    assert "purpose" in seen.drop
    text = scenario_text(seen, path, tmp_path)
    plan = tmp_path / "credit.yaml"
    plan.write_text(text, encoding="utf-8")
    fedsim.load(plan)
    described = seen.samples.described
    assert described is not None
    assert "purpose" not in [each.name for each in described.features]
    with pytest.raises(DataError, match="no column 'purpos'; did you mean 'purpose'"):
        guess(path, drop=("purpos",))
