"""The reference of public names: all are on a page, and docstrings say what signatures do."""

import inspect
import re
from importlib import import_module

from docstring_parser import DocstringStyle, parse

import fedsim
from fedsim.addons.robustness import Robustness
from tests.conftest import ROOT
from tests.test_architecture import EXTRAS, public
from tests.tiers import missing

PAGES = ROOT / "docs/reference"

METHODS = ("model", "plot", "compare", "report")
"""What a user calls on a result."""

RETURNED = {"fedsim.robust": Robustness}
"""Functions whose example is that of the class they return."""


def _functions() -> dict[str, object]:
    """Return the public functions by path, of modules whose extras are installed."""
    return {
        f"{module}.{name}": each
        for module, names in public().items()
        if module not in EXTRAS or not missing(EXTRAS[module])
        for name in names
        if inspect.isfunction(each := getattr(import_module(module), name))
    }


def test_every_public_name_is_on_a_page_of_the_reference() -> None:
    texts = [page.read_text(encoding="utf-8") for page in PAGES.glob("*.md")]
    described = {path for text in texts for path in re.findall("^::: (.*)$", text, re.MULTILINE)}
    objects = {_identity(path) for path in described if not _absent(path)}
    for module, names in public().items():
        if not _absent(f"{module}."):
            wanted = {name for name in names if _identity(f"{module}.{name}") not in objects}
            assert not wanted, module


def _absent(path: str) -> bool:
    extra = EXTRAS.get(path.rpartition(".")[0])
    return bool(extra and missing(extra))


def _identity(path: str) -> int:
    module, _, name = path.rpartition(".")
    return id(getattr(import_module(module), name))


def test_every_page_of_the_reference_is_in_the_navigation() -> None:
    settings = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    named = re.findall(r"reference/([\w.]+\.md)$", settings, re.MULTILINE)
    assert sorted(named) == sorted(page.name for page in PAGES.glob("*.md"))


def test_public_functions_describe_the_arguments_of_their_signatures() -> None:
    functions = _functions()
    assert functions
    for path, each in functions.items():
        assert callable(each)
        documented = parse(inspect.getdoc(each) or "", style=DocstringStyle.GOOGLE)
        said = [one.arg_name.lstrip("*") for one in documented.params]
        assert said == list(inspect.signature(each).parameters), path


def test_every_public_function_has_an_example() -> None:
    """`tests/test_doctests.py` runs them."""
    methods = {f"Result.{name}": getattr(fedsim.Result, name) for name in METHODS}
    lacking = [
        path
        for path, each in (_functions() | methods).items()
        if ">>>" not in (inspect.getdoc(RETURNED.get(path, each)) or "")
    ]
    assert not lacking
