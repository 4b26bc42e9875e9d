"""Runs that count rounds in different ways: never compared, and named where all count iterates."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import fedsim
from fedsim.addons.paper import write_paper
from fedsim.core.errors import DataError
from fedsim.results.analysis import Comparison
from fedsim.results.report import write
from tests.addons.repricing.prices import small
from tests.tiers import every

GD: dict[str, Any] = {"algorithm": {"kind": "gd", "step_size": "1/L"}}
NOTE = "rounds are counted as in papers that plot the model before the update (counting: iterates)"
READERS: dict[str, Callable[[Path], object]] = {
    "compare": lambda folder: Comparison.of([folder]),
    "report": write,
    "robust": fedsim.robust,
    "explore": fedsim.explore,
    "paper": write_paper,
}


@pytest.fixture(scope="module")
def mixed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("counting")
    variants = {"gd": GD, "before": GD | {"counting": "iterates"}}
    fedsim.run(small(variants=variants), out=folder)
    return folder


@every("reader", READERS)
def test_runs_that_count_rounds_in_two_ways_are_refused_by_name(reader: str, mixed: Path) -> None:
    with pytest.raises(DataError) as caught:
        READERS[reader](mixed)
    assert str(caught.value) == (
        "rounds are counted differently (counting: rounds in base (chb), gd; counting: iterates in"
        " before (gd)): compare runs with the same counting"
    )


def test_the_result_of_such_runs_names_no_winner(mixed: Path) -> None:
    assert fedsim.open(mixed).shown.answer().startswith("rounds are counted differently")


@pytest.mark.slow
def test_runs_that_all_count_iterates_say_so(tmp_path: Path) -> None:
    out = tmp_path / "out"
    fedsim.run(small(counting="iterates", variants={"gd": GD}), out=out)
    assert Comparison.of([out]).notes.count(NOTE) == 1
    assert fedsim.robust(out, worlds=16).notes.count(NOTE) == 1
    for page in (write(out), fedsim.explore(out)):
        assert NOTE[1:] in page.read_text(encoding="utf-8")
    methods = (write_paper(out, formats=("svg",)) / "methods.md").read_text(encoding="utf-8")
    assert "The figures of a round are those of the model before its update." in methods


def test_of_usual_runs_nothing_is_said(mixed: Path) -> None:
    assert NOTE not in Comparison.of([mixed / "base", mixed / "gd"]).notes
