"""CHB on small data sets: the archives that are made of made-up files of the users' form."""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.preprocessing import MinMaxScaler, StandardScaler

import fedsim
from fedsim.core.errors import DataError
from fedsim.core.ports import Array
from tests.algorithms import reference
from tests.conftest import ROOT
from tests.scripts import script
from tests.stand_ins import original_sets, small_sets

# The scenarios censor harshly on purpose.
pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore::fedsim.TheoryWarning")]

sys.path.insert(0, str(ROOT / "analysis/papers"))  # as for the script that is run there
command = script("papers/run")
small, model = (sys.modules[f"reproduction.{name}"] for name in ("small_sets", "model"))
sys.path.remove(str(ROOT / "analysis/papers"))


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a folder with all six sets, drawn at random; labels 0 and 1 in the two first."""
    small_sets(tmp_path)
    monkeypatch.setenv("FEDSIM_DATA", str(tmp_path))
    return tmp_path / "LAG-code"


def joined(sets: Any, folder: Path) -> Any:
    """Return the archive of some sets."""
    (text,) = small.join(sets, folder)
    return np.load(text.partition("=")[2])


def test_every_set_goes_to_three_workers_with_the_features_that_all_have(
    folder: Path, tmp_path: Path
) -> None:
    found = joined(small.REGRESSION, tmp_path)
    assert np.bincount(found["client"]).tolist() == [6, 6, 6, 4, 4, 4, 5, 5, 5]
    assert found["X"].shape == (45, 5)
    fat = np.loadtxt(folder / "data29/data.txt")
    assert np.array_equal(found["X"][found["client"] == 4], fat[4:8, :5])
    assert np.array_equal(found["y"][18:30], np.loadtxt(folder / "data29/y.txt")[:12])


@pytest.mark.usefixtures("folder")
def test_labels_are_as_the_files_have_them(tmp_path: Path) -> None:
    y = joined(small.CLASSIFICATION, tmp_path)["y"]
    assert set(y[:48]) == {0.0, 1.0}
    assert set(y[48:]) == {-1.0, 1.0}


@pytest.mark.usefixtures("folder")
def test_transmissions_are_those_of_the_plain_loop(tmp_path: Path) -> None:
    rounds = 30
    (own,) = small.join(small.REGRESSION, tmp_path)
    overrides = [own, f"stop.rounds={rounds}", "stop.gap=null"]
    result = fedsim.run(model.SCENARIOS / "chb-small-linear.yaml", overrides=overrides)
    found = np.load(own.partition("=")[2])
    step = 1 / float(np.linalg.eigvalsh(found["X"].T @ found["X"])[-1])

    def gradient_of(m: int) -> Callable[[Array], Array]:
        X, y = (found[name][found["client"] == m] for name in ("X", "y"))
        return lambda w: X.T @ (X @ w - y)

    for variant, beta in {"base": 0.4, "lag": 0.0}.items():
        _, sent = reference.censored(
            [gradient_of(m) for m in range(9)],
            np.zeros(5),
            alpha=step,
            beta=beta,
            eps1=0.1 / (step * 9) ** 2,
            rounds=rounds,
        )
        table = result.rounds[result.rounds["variant"] == variant]
        assert table["transmissions"].cumsum().tolist() == [0, *sent.tolist()]
        assert sent[-1] < 9 * rounds


def test_a_missing_file_is_named_with_what_would_do(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    missing = folder / "data30/y.txt"
    missing.unlink()
    with pytest.raises(SystemExit) as ended:
        command.main(["chb", "table-2-linear"])
    assert f"Abalone is not on this machine: looked for {missing}" in str(ended.value.code)
    assert "github.com/chentianyi1991/LAG-code" in str(ended.value.code)
    monkeypatch.delenv("FEDSIM_DATA")
    with pytest.raises(SystemExit, match="FEDSIM_DATA is not set"):
        command.main(["chb", "table-2-linear"])


def test_files_of_another_form_are_refused(folder: Path, tmp_path: Path) -> None:
    (folder / "data28/y.txt").write_text("1\n2\n")
    with pytest.raises(DataError, match=r"Housing: data.txt has the shape \(20, 6\), y.txt \(2,\)"):
        small.join(small.REGRESSION, tmp_path)
    (folder / "data2/data.txt").write_text("1 2\n3 four\n")
    with pytest.raises(DataError, match="is not a table of numbers, one row per line"):
        small.join(small.CLASSIFICATION, tmp_path)


# -- the original files ----------------------------------------------------------------


@pytest.fixture
def originals(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a folder with the six sets in their original formats."""
    original_sets(tmp_path)
    monkeypatch.setenv("FEDSIM_DATA", str(tmp_path))
    return tmp_path


def sets() -> dict[str, Any]:
    """Return what is read of each set, by name."""
    return {each.name: small.read(each) for each in (*small.REGRESSION, *small.CLASSIFICATION)}


def test_original_files_of_numbers_are_scaled_as_lag_s_are(originals: Path) -> None:
    """By scikit-learn's scalers, on what a plain reader finds in the files."""
    found, unit = sets(), MinMaxScaler((-1, 1))
    houses = np.loadtxt(originals / "housing.data")
    assert found["Housing"][0] == pytest.approx(unit.fit_transform(houses[:, :13]), abs=1e-12)
    assert np.array_equal(found["Housing"][1], houses[:, 13])
    people = np.loadtxt(originals / "bodyfat", skiprows=2)
    assert found["Body fat"][0] == pytest.approx(unit.fit_transform(people[:, 1:]), abs=1e-12)
    assert np.array_equal(found["Body fat"][1], people[:, 0])
    shells = np.loadtxt(originals / "abalone.data", delimiter=",", usecols=range(1, 9))
    shells = np.column_stack([np.resize([1.0, 2, 3], len(shells)), shells])
    X, y = found["Abalone"]
    assert pytest.approx(unit.fit_transform(shells[:, :8])[[9, 19, 29, 39, 49]], abs=1e-12) == X
    assert y.tolist() == shells[[9, 19, 29, 39, 49], 8].tolist()


def test_original_files_of_classes_are_standardised_as_lag_s_are(originals: Path) -> None:
    found = sets()
    radar = np.genfromtxt(originals / "ionosphere.data", delimiter=",", usecols=range(34))
    assert np.array_equal(found["Ionosphere"][0], radar)
    assert found["Ionosphere"][1].tolist() == [0.0, 1.0] * 10 + [0.0]
    skin = np.genfromtxt(originals / "dermatology.data", delimiter=",", missing_values="?")
    skin = skin[~np.isnan(skin).any(axis=1)]
    assert len(skin) == 18
    X, y = found["Derm"]
    assert pytest.approx(StandardScaler().fit_transform(skin[:, :-1]), abs=1e-12) == X
    assert y.tolist() == [-1.0 if kind == 1 else 1.0 for kind in skin[:, -1]]
    X, y = found["Adult"]
    assert X.shape == (1605, 123)
    assert np.sum(y) == 395
    assert set(y) == {0.0, 1.0}
    assert pytest.approx(np.zeros(123), abs=1e-12) == X.mean(axis=0)
    assert pytest.approx(np.ones(123), abs=1e-12) == X.std(axis=0)
    assert all(len(np.unique(column)) == 2 for column in X.T)


def test_constant_columns_are_left_out_as_in_lag_s_adult() -> None:
    X = np.array([[1.0, 0.0, 3.0], [1.0, 1.0, 5.0], [1.0, 0.0, 4.0]])
    assert small.standardised(X) == pytest.approx(StandardScaler().fit_transform(X[:, 1:]))


def test_lag_s_files_go_before_the_originals(
    originals: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = sets()["Housing"][0]
    small_sets(originals)
    assert sets()["Housing"][0].shape == (20, 6) != first.shape
    monkeypatch.setenv("FEDSIM_DATA", str(originals / "LAG-code"))  # neither is there
    with pytest.raises(DataError, match=r"in its place housing\.data is read"):
        sets()


def test_an_original_of_another_form_is_refused(originals: Path) -> None:
    (originals / "ionosphere.data").write_text(",".join(["1"] * 34) + ",x\n")
    with pytest.raises(DataError, match=r"ionosphere\.data is not a table of 35 fields a line"):
        sets()


@pytest.mark.usefixtures("folder")
def test_the_logistic_step_takes_all_labels_for_signs(tmp_path: Path) -> None:
    own, *steps = small.logistic(tmp_path)
    X = np.load(own.partition("=")[2])["X"]
    expected = 1 / (np.linalg.norm(X, 2) ** 2 / 4 + 0.001)
    assert [text.partition("=")[0] for text in steps] == [
        "algorithm.step_size",
        "variants.hb.algorithm.step_size",
        "variants.lag.algorithm.step_size",
        "variants.gd.algorithm.step_size",
    ]
    for text in steps:
        assert float(text.partition("=")[2]) == pytest.approx(expected, rel=1e-12)


@pytest.mark.usefixtures("originals")
def test_the_network_has_all_of_adult(tmp_path: Path) -> None:
    (text,) = small.whole_adult(tmp_path)
    found = np.load(text.rpartition("path: ")[2].removesuffix("}"))
    X, y = sets()["Adult"]
    assert np.array_equal(found["X"], X)
    assert np.array_equal(found["y"], y)
