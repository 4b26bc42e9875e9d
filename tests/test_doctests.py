"""The examples of docstrings show what they say."""

import doctest
from importlib import import_module
from pathlib import Path

import pytest

from tests.conftest import ROOT
from tests.tiers import missing

EXTRAS = {
    "fedsim.flower": "flower",
    "fedsim.torch": "torch",
    "fedsim.problems.modules": "torch",
    "fedsim.problems.modules.layers": "torch",
    "fedsim.computing.compiled": "compiled",
}
"""Packages that need an extra to be imported."""


def _name(path: Path) -> str:
    return ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")


MODULES = [_name(path) for path in sorted(ROOT.glob("fedsim/**/*.py")) if ">>>" in path.read_text()]


@pytest.mark.parametrize("name", MODULES)
def test_examples_show_what_they_say(name: str) -> None:
    for package, extra in EXTRAS.items():
        if name.startswith(package) and (reason := missing(extra)):
            pytest.skip(reason)
    failed, tried = doctest.testmod(import_module(name))
    assert tried
    assert not failed
