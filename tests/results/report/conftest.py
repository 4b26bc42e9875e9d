"""A study in which everything happens, and its report."""

from pathlib import Path

import pytest

import fedsim
from fedsim.results import report
from fedsim.results.analysis import Comparison
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


@pytest.fixture(scope="session")
def study(runs: Path) -> ReportedStudy:
    return ReportedStudy(Comparison.of([runs], TARGETS))
