"""CHB on small data sets: the archives that are made of made-up files of the users' form."""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fedsim
from fedsim.errors import DataError
from fedsim.ports import Array
from tests.algorithms import reference
from tests.conftest import ROOT
from tests.scripts import script
from tests.stand_ins import small_sets

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
        assert table["transmissions"].cumsum().tolist() == sent.tolist()
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
    with pytest.raises(DataError, match="is not a table of numbers, a row a line"):
        small.join(small.CLASSIFICATION, tmp_path)
