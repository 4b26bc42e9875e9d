"""CHB's papers in a reduced form: what the scripts make of their runs, and the claims as laws."""

from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from tests.conftest import ROOT
from tests.scripts import script

# The synthetic scenarios censor harshly on purpose.
pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore::fedsim.TheoryWarning")]

PAPERS = ROOT / "analysis/papers"

mnist = script("papers/chb_mnist")


def text(table: Any) -> str:
    """Return a table as it is printed."""
    console = Console(width=200, file=StringIO(), record=True)
    console.print(table)
    return console.export_text()


# -- MNIST -----------------------------------------------------------------------------


def test_mnist_in_a_reduced_form(real_data: Path, tmp_path: Path) -> None:
    """Linear regression, 20 iterations: the counts are those of a computation with X^T X."""
    if not (real_data / "mnist").is_dir():
        pytest.skip(f"no mnist in {real_data}")
    tables, _ = mnist.run("mnist-linear", tmp_path, ["stop.rounds=20"], figures=tmp_path)
    assert (tmp_path / "chb-mnist-linear.png").exists()
    rows = [line.split() for line in text(tables[0]).splitlines()]
    measured = {row[0]: row[2] for row in rows if row and row[0] in mnist.LABELS.values()}
    assert measured == {"CHB": "18", "LAG": "18", "HB": "180", "GD": "180"}
