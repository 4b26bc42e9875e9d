"""`fedsim init --from`: what is seen in a table, and a scenario that runs on it as it stands."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import fedsim
from fedsim.cli.from_table import name_of, notes, scenario_text
from fedsim.core.errors import DataError
from fedsim.problems.tables.guess import guess
from fedsim.results.analysis.compare.pairwise import fewest_seeds
from tests.problems import messy


def written(path: Path, folder: Path) -> Path:
    """Write the scenario that follows from a table, and return its path."""
    folder.mkdir()
    place = folder / f"{name_of(path)}.yaml"
    place.write_text(scenario_text(guess(path), path, folder), encoding="utf-8")
    return place


@pytest.mark.slow
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
    assert (result.rounds["test_accuracy"][result.rounds["round"] > 0] > 0.5).all()


def test_a_classification_has_a_target_accuracy_as_a_comment(tmp_path: Path) -> None:
    path = tmp_path / "patients.csv"
    messy.write_wrong(path)
    text = written(path, tmp_path / "study").read_text(encoding="utf-8")
    (gap,) = (line for line in text.splitlines() if line.startswith("stop:"))
    (target,) = (line for line in text.splitlines() if line.startswith("# stop:"))
    assert target == "# stop: {test_accuracy: 80 %, rounds: 500}"
    changed = tmp_path / "study" / "changed.yaml"
    changed.write_text(text.replace(gap, "").replace(target, target.removeprefix("# ")))
    assert "test_accuracy" in fedsim.load(changed).variants[0].scenario.stop.model_dump_json()
    numbers = pd.DataFrame({"x": np.arange(60.0) ** 0.5, "y": np.arange(60.0) ** 0.3})
    numbers.to_csv(tmp_path / "numbers.csv", index=False)
    regression = written(tmp_path / "numbers.csv", tmp_path / "other").read_text(encoding="utf-8")
    assert "test_accuracy" not in regression


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
        assert len(fedsim.run(scenario, overrides=["stop.rounds=2"]).rounds) == 3 * 6 * 3


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


ROWS = 120


def ordinary(seed: int = 0) -> pd.DataFrame:
    """Return a table without clients: two numbers, two categories, and a label at its end."""
    rng = np.random.default_rng(seed)
    age = rng.integers(20, 90, ROWS)
    return pd.DataFrame(
        {
            "age": age,
            "crp": rng.exponential(3.0, ROWS).round(1).astype(object),
            "sex": rng.choice(["M", "W"], ROWS),
            "smoker": rng.choice(["yes", "no", "before"], ROWS),
            "outcome": np.where(rng.random(ROWS) < age / 110, "ill", "well"),
        }
    )


@pytest.mark.parametrize(
    ("name", "values", "why"),
    [
        *((name, ["North", "South", "West"], "by its name") for name in ("Klinik", "Krankenhaus")),
        *((name, ["a", "b", "c"], "by its name") for name in ("hôpital", "site", "KlinikName")),
        ("center", [1, 2, 3, 4], "by its name"),
        ("house", ["H07", "H11", "H12"], "codes such as 'H07'"),
        ("source", ["Klinikum Nord", "Uniklinik Ulm", "Ost"], "names such as 'Klinikum Nord'"),
        ("where", ["Ulm", "Bonn", "Kiel", "Jena"], "names such as 'Ulm'"),
    ],
)
def test_clients_are_seen_by_their_cells_and_by_names_of_several_languages(
    tmp_path: Path, name: str, values: list[object], why: str
) -> None:
    path = tmp_path / "table.csv"
    ordinary().assign(**{name: pd.Series((values * ROWS)[:ROWS])}).iloc[:, [5, *range(5)]].to_csv(
        path, index=False
    )
    seen = guess(path)
    assert (seen.label, seen.client, seen.why_client) == ("outcome", name, why)
    assert f"client: {name}  # {len(values)} clients" in scenario_text(seen, path, tmp_path)


def test_clients_are_seen_by_rows_that_lie_together(tmp_path: Path) -> None:
    path = tmp_path / "table.csv"
    ordinary().assign(group=np.repeat(["x", "y", "z"], ROWS // 3)).iloc[:, [5, *range(5)]].to_csv(
        path, index=False
    )
    seen = guess(path)
    assert (seen.client, seen.why_client) == ("group", "the rows of each text lie together")


def test_ordinary_categories_are_no_clients_and_of_several_likely_columns_none_is_taken(
    tmp_path: Path,
) -> None:
    path = tmp_path / "table.csv"
    ordinary().to_csv(path, index=False)
    seen = guess(path)
    assert (seen.client, seen.doubtful, seen.marks) == ("", (), {})
    assert "no column of clients was found" in list(notes(seen))[-1]
    codes = [f"A{n % 5}" for n in range(ROWS)], [f"B{n % 3}" for n in range(ROWS)]
    ordinary().assign(one=codes[0], two=codes[1]).iloc[:, [5, 6, *range(5)]].to_csv(
        path, index=False
    )
    seen = guess(path)
    assert (seen.client, seen.doubtful) == ("", ("one", "two"))
    assert "any of one, two could hold the clients" in list(notes(seen))[-1]


@pytest.mark.parametrize("marks", [["k.A."], ["<0.1"], ["k.A.", "<0.1", "it's"]])
def test_marks_among_numbers_are_written_into_the_scenario_and_said(
    tmp_path: Path, marks: list[str]
) -> None:
    frame = ordinary()
    frame.loc[: 4 * len(marks) - 1, "crp"] = marks * 4
    path = tmp_path / "table.csv"
    frame.to_csv(path, index=False)
    seen = guess(path)
    assert seen.marks == {"crp": tuple(marks)}
    assert "crp" not in seen.drop
    assert "among the numbers of 'crp'" in next(iter(notes(seen)))
    scenario = written(path, tmp_path / "study")
    data = fedsim.load(scenario).variants[0].scenario.problem.data
    assert list(data.missing_marks) == marks  # type: ignore[union-attr] # of the kind table
    assert len(fedsim.run(scenario, overrides=["stop.rounds=1", "seeds=1"]).rounds) == 6


def test_a_text_that_another_column_has_as_a_value_is_no_mark(tmp_path: Path) -> None:
    frame = ordinary()
    frame.loc[:3, "crp"] = "no"
    path = tmp_path / "table.csv"
    frame.to_csv(path, index=False)
    seen = guess(path)
    assert seen.marks == {}
    assert seen.drop == ("crp",)


STATES = ["fine", "worn", "broken"]


def machines(places: list[str], *, blocks: bool = False) -> pd.DataFrame:
    """Return numbers of machines, their state and their place, whose names say nothing."""
    rng = np.random.default_rng(3)
    where = np.repeat(places, ROWS // len(places))
    rows = len(where)
    frame = pd.DataFrame({"temp": rng.normal(size=rows), "humidity": rng.normal(size=rows)})
    frame["state"] = rng.choice(STATES, rows)
    frame["plant"] = where if blocks else rng.permutation(where)
    return frame


PLANTS = [f"plant {letter}" for letter in "ABCDEF"]


@pytest.mark.parametrize(
    ("places", "blocks"),
    [
        ([f"P{number}" for number in range(6)], False),
        (["Bank Nord", "Bank West", "Bank Ost"], False),
        (PLANTS, True),
        (PLANTS, False),
        (["Berlin", "Hamburg", "Wien", "Bonn"], False),
    ],
)
def test_a_last_column_that_may_hold_clients_is_not_the_label_in_silence(
    places: list[str], blocks: bool, tmp_path: Path
) -> None:
    frame, path = machines(places, blocks=blocks), tmp_path / "machines.csv"
    frame.to_csv(path, index=False)
    with pytest.raises(DataError, match=r"two columns may be the label \(state, plant\): give --t"):
        guess(path)
    assert (guess(path, "state").label, guess(path, "plant").label) == ("state", "plant")
    assert guess(path, drop=("plant",)).label == "state"


def test_codes_alone_are_not_the_label_in_silence(tmp_path: Path) -> None:
    path = tmp_path / "sites.csv"
    machines(["M1", "M2", "M3"]).drop(columns="state").to_csv(path, index=False)
    with pytest.raises(DataError, match=r"the last column, plant, may hold clients .*--target"):
        guess(path)


def test_classes_in_the_last_column_and_labels_by_name_are_found(tmp_path: Path) -> None:
    frame = machines(PLANTS)
    for number, (columns, label) in enumerate(
        (
            (["temp", "humidity", "plant", "state"], "state"),  # classes in the last column
            (["temp", "plant", "humidity"], "humidity"),  # a regression
            (["outcome", "temp", "humidity", "plant"], "outcome"),  # named, and first
        )
    ):
        path = tmp_path / f"{number}.csv"
        frame.assign(outcome=frame["state"])[columns].to_csv(path, index=False)
        assert guess(path).label == label
    iris = machines(["setosa", "versicolor", "virginica"], blocks=True).drop(columns="state")
    iris.to_csv(tmp_path / "iris.csv", index=False)  # sorted classes, the only texts
    assert guess(tmp_path / "iris.csv").label == "plant"


def test_a_last_column_of_numbers_beside_a_column_of_classes_is_not_the_label_in_silence(
    tmp_path: Path,
) -> None:
    path, frame = tmp_path / "hives.csv", machines(PLANTS)
    frame = frame.assign(brood_temp=np.linspace(30, 36, len(frame)))
    frame[["state", "humidity", "plant", "brood_temp"]].to_csv(path, index=False)
    (note,) = [note for note in notes(guess(path)) if "label" in note]
    assert "the last column, brood_temp" in note
    assert "--target state" in note
    for given in (guess(path, "brood_temp"), guess(path, "state")):
        assert not any("label" in note for note in notes(given))
    frame[["humidity", "temp", "brood_temp"]].to_csv(path, index=False)  # numbers alone
    assert not any("label" in note for note in notes(guess(path)))
    named = frame[["state", "humidity", "temp"]].assign(target=frame["brood_temp"])
    named.to_csv(path, index=False)  # a column with a name of labels
    assert not any("label" in note for note in notes(guess(path)))


def test_a_scenario_from_a_table_has_seeds_enough_for_the_sign_test(tmp_path: Path) -> None:
    """With fewer `compare` prints that they are too few."""
    path = tmp_path / "table.csv"
    ordinary().to_csv(path, index=False)
    variants = fedsim.load(written(path, tmp_path / "study")).variants
    assert {len(variant.seeds) for variant in variants} == {fewest_seeds(0.95)}


@pytest.mark.slow
@pytest.mark.parametrize("owners", [False, True], ids=["no clients", "clients"])
def test_a_table_of_few_rows_becomes_a_scenario_that_runs_or_is_refused(
    tmp_path: Path, *, owners: bool
) -> None:
    refused = dict[int, str]()
    for rows in range(1, 15):
        table = pd.DataFrame({"x": np.arange(rows) ** 2.0, "y": np.arange(rows) % 3.0})
        table["label"] = np.where(np.arange(rows) % 2, "healthy", "at risk")
        if owners:
            table.insert(0, "client", ["one", *["two"] * 4, *["one"] * 9][:rows])
        path = tmp_path / f"rows-{rows}.csv"
        table.to_csv(path, index=False)
        try:
            scenario = written(path, tmp_path / f"study-{rows}")
        except DataError as error:
            refused[rows] = str(error)
        else:
            fedsim.check(scenario)
    assert list(refused) == [*range(1, len(refused) + 1)]
    assert 1 < len(refused) < 14
    assert all(f"has {rows} row" in text for rows, text in refused.items())
