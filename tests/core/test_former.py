"""Former names of modules: the same modules, each with a warning that names its new place."""

import subprocess
import sys
from importlib import import_module
from warnings import catch_warnings, simplefilter

import pytest

import fedsim
from fedsim.core.former import FORMER
from tests.tiers import every

MODULES = [*FORMER, "analysis.compare.answer", "blocks.quantities", "blocks.spec"]


@every("former", MODULES)
def test_a_former_name_is_the_same_module_and_says_where_it_is(former: str) -> None:
    first, _, rest = former.partition(".")
    new = ".".join(filter(None, ("fedsim", FORMER[first], rest)))
    for name in [each for each in sys.modules if each.startswith(f"fedsim.{first}")]:
        del sys.modules[name]
    with catch_warnings(record=True) as said:
        simplefilter("always")
        found = import_module(f"fedsim.{former}")
    assert f"fedsim.{former} is now {new}" in [str(each.message) for each in said]
    assert found is import_module(new)
    assert found.__name__ == new
    assert found.__spec__
    assert found.__spec__.name == new


def test_a_former_name_is_an_attribute_of_fedsim() -> None:
    vars(fedsim).pop("errors", None)  # which an import under this name leaves
    with pytest.warns(DeprecationWarning, match=r"fedsim.errors is now fedsim.core.errors"):
        assert fedsim.errors.FedsimError is fedsim.FedsimError  # type: ignore[attr-defined]


@every(
    "line",
    [
        "from fedsim.errors import FedsimError",
        "from fedsim import errors",
        "import fedsim.errors",
        "fedsim.errors",
    ],
)
def test_the_warning_is_about_the_line_that_uses_the_name(line: str) -> None:
    code = f"import fedsim\n{line}\n"
    words = [sys.executable, "-W", "default", "-c", code]
    done = subprocess.run(words, capture_output=True, text=True, check=True)
    assert "<string>:2: DeprecationWarning" in done.stderr
