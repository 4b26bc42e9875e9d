"""The notebooks of the documentation: each asks a question, runs, and shows what is in its file."""

import sys
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import ROOT
from tests.tiers import every

FOLDER = ROOT / "docs/tutorials"
NAMES = sorted(path.stem for path in FOLDER.glob("*.ipynb"))


@pytest.fixture(scope="module")
def notebooks() -> Any:
    sys.path.insert(0, str(ROOT / "docs"))
    try:
        return import_module("notebooks")
    finally:
        sys.path.remove(str(ROOT / "docs"))


@pytest.mark.slow
@every("name", NAMES, few=["event-log"])
def test_a_notebook_shows_what_its_cells_do(name: str, notebooks: Any) -> None:
    path = FOLDER / f"{name}.ipynb"
    said = f"stale: run `python docs/notebooks.py {name}`, and read whether its words still hold"
    assert notebooks.shown(notebooks.read(path)) == notebooks.shown(notebooks.executed(path)), said


@every("name", NAMES)
def test_a_notebook_asks_a_question_and_answers_it(name: str, notebooks: Any) -> None:
    words = [cell.source for cell in notebooks.read(FOLDER / f"{name}.ipynb").cells]
    title = words[0].splitlines()[0]
    assert title.startswith("# ")
    assert title.endswith("?")
    assert "## The answer\n" in words[-1]
    assert (FOLDER / f"{name}.ipynb").stat().st_size < 500_000


@every("name", NAMES)
def test_a_notebook_opens_elsewhere_and_installs_fedsim_there(name: str, notebooks: Any) -> None:
    path = FOLDER / f"{name}.ipynb"
    sources = [
        [cell.source for cell in found.cells]
        for found in (notebooks.read(path), notebooks.headed(path))
    ]
    assert sources[0] == sources[1], f"run `python docs/notebooks.py {name}`"
    assert sources[0][0].count(f"docs/tutorials/{name}.ipynb") == 2


def test_there_are_seven() -> None:
    assert len(NAMES) == 7


KERNEL = """
import fedsim
from fedsim.running.api import in_notebook
assert in_notebook()
result = fedsim.run({
    "name": "seen",
    "problem": {
        "loss": {"kind": "squared"},
        "data": {"kind": "sklearn", "name": "diabetes"},
        "split": {"kind": "iid", "clients": 2},
    },
    "algorithm": {"kind": "gd", "step_size": "1/L"},
    "stop": {"rounds": 3},
})
"""


@pytest.mark.slow
def test_in_a_kernel_a_result_and_a_figure_show_themselves_after_a_bar(
    notebooks: Any, tmp_path: Path
) -> None:
    path = tmp_path / "seen.ipynb"
    cells = [KERNEL, "result", "result.plot()", "fedsim.check('quickstart')"]
    version = import_module("nbformat.v4")
    notebook = version.new_notebook(cells=[version.new_code_cell(cell) for cell in cells])
    notebooks.write(notebook, path)
    bars, result, figure, check = notebooks.shown(notebooks.executed(path))
    assert not bars  # it has gone when all runs have ended
    assert [sorted(each) for each in (*result, *figure)] == [
        ["text/html", "text/plain"],
        ["image/png", "text/plain"],
    ]
    assert "<table>" in result[0]["text/html"]
    assert "3 variants x 1 seed = 3 runs" in check[0]["text/html"]


HANDED_OVER = """
from typing import Literal
import fedsim
from fedsim.algorithms.censored import GradientDescent

class Mine(GradientDescent):
    "A method of a cell."

    kind: Literal["mine"] = "mine"

scenario = {
    "problem": {
        "loss": {"kind": "squared"},
        "data": {"kind": "sklearn", "name": "diabetes"},
        "split": {"kind": "iid", "clients": 2},
    },
    "algorithm": Mine(step_size=0.1),
    "stop": {"rounds": 3},
}
result = fedsim.run(scenario, out="runs")
"""


@pytest.mark.slow
def test_a_cell_that_is_run_again_says_what_its_code_needs(notebooks: Any, tmp_path: Path) -> None:
    path = tmp_path / "again.ipynb"
    version = import_module("nbformat.v4")
    cells = [version.new_code_cell(HANDED_OVER) for _ in range(2)]
    notebooks.write(version.new_notebook(cells=cells), path)
    first, again = notebooks.shown(notebooks.executed(path))
    assert not first
    (said,) = again
    assert said["name"] == "stderr"
    assert (
        "RunWarning: 1 run was made again, as Python objects in the scenario (Mine)" in said["text"]
    )
    assert "version='1'" in said["text"]
