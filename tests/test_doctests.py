"""The examples of docstrings show what they say."""

import doctest
import re
from importlib import import_module
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import fedsim
from fedsim.results.analysis import example_log
from tests.conftest import ROOT
from tests.runs import SMALL, small
from tests.tiers import missing

EXTRAS = {
    "fedsim.addons.flower": "flower",
    "fedsim.flower": "flower",
    "fedsim.addons.jax": "jax",
    "fedsim.jax": "jax",
    "fedsim.problems.pytrees": "jax",
    "fedsim.addons.torch": "torch",
    "fedsim.torch": "torch",
    "fedsim.problems.modules": "torch",
}
"""Packages that need an extra to be imported."""


def _name(path: Path) -> str:
    return ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")


MODULES = [
    _name(path)
    for path in sorted(ROOT.glob("fedsim/**/*.py"))
    if re.search(r"^ *>>> (?!.*\+SKIP)", path.read_text(encoding="utf-8"), re.MULTILINE)
]
"""The modules with examples; those that need a download or a file of the user are skipped."""


RESULT = (
    "fedsim.results.analysis.batteries",
    "fedsim.results.analysis.compare.cost_tables",
    "fedsim.results.analysis.figures",
    "fedsim.results.analysis.plots",
    "fedsim.results.analysis.saving",
    "fedsim.results.analysis.costs",
    "fedsim.addons.conformance",
    "fedsim.addons.explorer",
    "fedsim.results.report.page",
    "fedsim.addons.repricing",
    "fedsim.results",
    "fedsim.addons.robustness.result",
)
"""Where examples begin with a `result` of two variants, whose phones are on batteries.

They have the `scenario` of its problem and method, too, and a folder `out` to write into.
"""

LOGS = (
    "fedsim.results.analysis.log",
    "fedsim.results.analysis.energy",
    "fedsim.results.analysis.costs",
)
"""Modules whose examples begin with a `log`: that of `fedsim.results.analysis.example_log`."""


@pytest.fixture(scope="module")
def result(tmp_path_factory: pytest.TempPathFactory) -> fedsim.Result:
    fleet = [dict(group) for group in SMALL["fleet"]]
    fleet[0]["battery"] = {"charge": "50 %"}
    gd = {"algorithm": {"kind": "gd", "step_size": "1/L"}}
    scenario = small(fleet=fleet, variants={"gd": gd}, seeds=2, stop={"rounds": 12})
    return fedsim.run(scenario, out=tmp_path_factory.mktemp("doctests") / "out")


@pytest.mark.parametrize("name", MODULES)
def test_examples_show_what_they_say(
    name: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    for package, extra in EXTRAS.items():
        if name.startswith(package) and (reason := missing(extra)):
            pytest.skip(reason)
    given: dict[str, object] = {"log": example_log()} if name.startswith(LOGS) else {}
    if name.startswith(RESULT):
        given["result"] = request.getfixturevalue("result")
        given["out"] = tmp_path
        given["scenario"] = {key: SMALL[key] for key in ("problem", "algorithm", "stop")}
    given |= {"fedsim": fedsim, "np": np, "pd": pd}
    failed, tried = doctest.testmod(import_module(name), extraglobs=given)
    assert tried
    assert not failed


def test_an_example_that_is_not_run_says_why() -> None:
    for path in ROOT.glob("fedsim/**/*.py"):
        text = path.read_text(encoding="utf-8")
        for example in text.split("Example:\n")[1:]:
            if "+SKIP" in example.partition('"""')[0]:
                assert example.lstrip().startswith("Not run by the tests, since "), path
