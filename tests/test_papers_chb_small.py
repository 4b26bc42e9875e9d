"""CHB on small data sets and on Adult: the command on made-up files of the users' form."""

import sys
from collections.abc import Callable
from io import StringIO
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rich.console import Console

import fedsim
from fedsim.errors import DataError
from fedsim.ports import Array
from tests.algorithms import reference
from tests.scripts import script

# The scenarios censor harshly on purpose.
pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore::fedsim.TheoryWarning")]

small = script("papers/chb_small")

SHAPES = {
    "data28": (20, 6),
    "data29": (13, 7),
    "data30": (15, 5),
    "data2": (20, 5),
    "data9": (31, 9),
    "data11": (17, 6),
}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a folder with all six sets, drawn at random; labels 0 and 1 in the two first."""
    rng = np.random.default_rng(5)
    for name, (n, d) in SHAPES.items():
        own = tmp_path / "LAG-code" / name
        own.mkdir(parents=True)
        X = rng.uniform(-1, 1, (n, d))
        y = X.sum(axis=1) + rng.normal(size=n)
        if name in small.CLASSIFICATION.values():
            y = np.where(y > 0, 1.0, -1.0 if name == "data11" else 0.0)
        np.savetxt(own / "data.txt", X, fmt="%.6f")
        np.savetxt(own / "y.txt", y, fmt="%e")
    monkeypatch.setenv("FEDSIM_DATA", str(tmp_path))
    return tmp_path / "LAG-code"


def text(tables: Any) -> str:
    """Return tables as they are printed."""
    console = Console(width=200, file=StringIO(), record=True)
    console.print(*tables)
    return console.export_text()


def test_every_set_goes_to_three_workers_with_the_features_that_all_have(
    folder: Path, tmp_path: Path
) -> None:
    found = np.load(small.joined("small-linear", tmp_path))
    assert np.bincount(found["client"]).tolist() == [6, 6, 6, 4, 4, 4, 5, 5, 5]
    assert found["X"].shape == (45, 5)
    fat = np.loadtxt(folder / "data29/data.txt")
    assert np.array_equal(found["X"][found["client"] == 4], fat[4:8, :5])
    assert np.array_equal(found["y"][18:30], np.loadtxt(folder / "data29/y.txt")[:12])


@pytest.mark.usefixtures("folder")
def test_labels_are_signs_or_as_the_files_have_them(tmp_path: Path) -> None:
    signs = np.load(small.joined("small-logistic", tmp_path))["y"]
    coded = np.load(small.joined("small-labels", tmp_path))["y"]
    assert set(signs) == {-1.0, 1.0}
    assert set(coded[:48]) == {0.0, 1.0}
    assert set(coded[48:]) == {-1.0, 1.0}
    assert np.array_equal(signs > 0, coded > 0)


@pytest.mark.usefixtures("folder")
def test_transmissions_are_those_of_the_plain_loop(tmp_path: Path) -> None:
    rounds = 30
    overrides = [f"stop.rounds={rounds}", "stop.gap=null"]
    archive = small.joined("small-linear", tmp_path)
    own = f"problem.data.path={archive}"
    result = fedsim.run(small.SCENARIOS / "chb-small-linear.yaml", overrides=[own, *overrides])
    found = np.load(archive)
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


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize("part", ["small-lasso", "small-logistic"])
def test_a_part_prints_its_costs_and_draws(part: str, tmp_path: Path) -> None:
    few = ["stop.gap=1e-3", "stop.rounds=2000"]
    tables, finding = small.run(part, tmp_path / "out", few, figures=tmp_path)
    assert (tmp_path / f"chb-{part}.png").exists()
    assert all(label in text(tables) for label in small.LABELS.values())
    assert finding.startswith(f"{part}: of what HB takes, CHB takes ")


@pytest.mark.usefixtures("folder")
def test_a_target_that_is_not_reached_is_said(tmp_path: Path) -> None:
    tables, finding = small.run("small-linear", tmp_path, ["stop.rounds=2"], figures=tmp_path)
    rows = [line.split() for line in text(tables).splitlines()]
    assert [row[1:] for row in rows if row and row[0] in small.LABELS.values()] == [["-"] * 5] * 4
    assert finding == "small-linear: CHB or HB did not reach the target."


def test_the_network_takes_a_file_of_adult(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of the shape and the labels of a1a, drawn at random."""
    rng = np.random.default_rng(2)
    labels = rng.permutation(np.repeat([-1, 1], [1210, 395]))
    lines = [
        f"{label:+d} " + " ".join(f"{j}:1" for j in np.sort(rng.choice(123, 14, replace=False)) + 1)
        for label in labels
    ]
    (tmp_path / "a1a").write_text("\n".join(lines) + "\n", encoding="ascii")
    monkeypatch.setenv("FEDSIM_DATA", str(tmp_path))
    few = ["stop.rounds=5", "seeds=1"]
    tables, finding = small.run("adult-network", tmp_path / "out", few, figures=tmp_path)
    assert "45 (45 to 45)" in text(tables)  # five rounds of nine workers, under HB and GD
    assert finding.startswith("adult-network: of what HB takes, CHB takes ")
    assert (tmp_path / "chb-adult-network.png").exists()


def test_a_missing_file_is_named_with_what_would_do(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "data30/y.txt").unlink()
    monkeypatch.setattr(sys, "argv", ["chb_small", "small-lasso"])
    with pytest.raises(SystemExit) as ended:
        small.main()
    assert ended.value.code == 2
    missing, told = folder / "data30/y.txt", capsys.readouterr().err
    assert f"Abalone is not on this machine: looked for {missing}" in told
    assert "github.com/chentianyi1991/LAG-code" in told
    monkeypatch.delenv("FEDSIM_DATA")
    with pytest.raises(SystemExit):
        small.main()
    assert "FEDSIM_DATA is not set" in capsys.readouterr().err


def test_files_of_another_form_are_refused(folder: Path, tmp_path: Path) -> None:
    (folder / "data28/y.txt").write_text("1\n2\n")
    with pytest.raises(DataError, match=r"Housing: data.txt has the shape \(20, 6\), y.txt \(2,\)"):
        small.joined("small-linear", tmp_path)
    (folder / "data2/data.txt").write_text("1 2\n3 four\n")
    with pytest.raises(DataError, match="is not a table of numbers, a row a line"):
        small.joined("small-labels", tmp_path)
