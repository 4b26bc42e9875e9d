"""A study in which everything happens, and its report."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from markupsafe import Markup
from matplotlib.axes import Axes
from matplotlib.figure import Figure

import fedsim
from fedsim.results import report
from fedsim.results.analysis import Comparison
from fedsim.results.report import drawing
from fedsim.results.report.drawing import page_style
from fedsim.results.report.inline import inline
from fedsim.results.report.page import render
from fedsim.results.report.study import ReportedStudy
from tests.results.report.pages import Page
from tests.runs import small

TARGETS = ("gap=5e4", "objective=1e-9")
NAME = "a < b </script><script>alert(1)</script> & 'c'"
HARVEST = {"charge": "50 %", "charging": {"kind": "constant", "power": "1 W"}}
LOSS = {"kind": "independent", "rate": "20 %"}
FLEET = [
    {"count": 3, "device": "phone-mid", "radio": {"kind": "lte", "loss": LOSS}},
    {
        "count": 2,
        "device": "pi-4",
        "radio": "wifi",
        "battery": HARVEST,
        "availability": {"kind": "markov", "on": "1 s", "off": "300 ms"},
    },
]
VARIANTS = {
    "gd": {"algorithm": {"kind": "gd", "step_size": "1/L"}},
    "tree": {"network": {"topology": "tree", "gateways": 2}, "wire": {"values": "float32"}},
}


@pytest.fixture(scope="session")
def runs(tmp_path_factory: pytest.TempPathFactory, own_cache: Path) -> Path:
    """Return the folder of three variants under three seeds."""
    folder = tmp_path_factory.mktemp("report") / "out"
    scenario = small(name=NAME, fleet=FLEET, variants=VARIANTS, seeds=3, stop={"rounds": 25})
    fedsim.run(scenario, out=folder)
    return folder


@pytest.fixture(scope="session")
def path(runs: Path) -> Path:
    """Return the report of these runs."""
    return report.write(runs, targets=TARGETS)


@pytest.fixture(scope="session")
def page(path: Path) -> Page:
    return Page(path)


@contextmanager
def captured() -> Iterator[dict[str, Axes]]:
    """Yield the axes of the figures that are drawn for a page in the block, by their names."""
    found: dict[str, Axes] = {}

    def seen(figure: Figure, name: str, *others: Any) -> Markup:
        for axis in figure.axes:  # that of a legend's key has none
            found[name] = axis
        return inline(figure, name, *others)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(drawing, "inline", seen)
        yield found


@pytest.fixture(autouse=True)
def _as_on_a_page() -> Iterator[None]:
    with page_style():
        yield


@pytest.fixture(scope="session")
def drawn(study: ReportedStudy) -> Mapping[str, Axes]:
    """Return the axes of all figures of the page, by the name of the figure."""
    with captured() as found:
        render(study)
    return found


@pytest.fixture(scope="session")
def study(runs: Path) -> ReportedStudy:
    return ReportedStudy(Comparison.of([runs], TARGETS))
