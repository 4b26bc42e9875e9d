"""The house: imports without circles, and pages that tell packages, files and names as they are."""

import ast
import re
import tomllib
from collections.abc import Iterator
from graphlib import CycleError, TopologicalSorter
from importlib import import_module
from pathlib import Path

import pytest
from ruamel.yaml import YAML

import fedsim
from fedsim.core.extras import DISTRIBUTION
from tests.conftest import ROOT
from tests.tiers import FILES, LIBRARIES, missing

PACKAGE = ROOT / "fedsim"
MODULES = {
    ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__"): path
    for path in sorted(PACKAGE.rglob("*.py"))
}


def page(name: str) -> str:
    return (ROOT / "docs" / name).read_text(encoding="utf-8")


def imported(module: str) -> set[str]:
    """Return the modules of fedsim that one names in its imports, also in those for checkers."""
    found = set[str]()
    for node in ast.walk(ast.parse(MODULES[module].read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            named = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert not node.level, module
            named = [f"{node.module}.{alias.name}" for alias in node.names]
        else:
            continue
        for name in named:
            found.add(name if name in MODULES else name.rpartition(".")[0])
    return (found & MODULES.keys()) - {module}


@pytest.mark.slow
def test_no_modules_import_each_other_in_a_circle() -> None:
    # The public face names what it loads when it is asked for; nothing below imports from it.
    wires = {module: imported(module) for module in MODULES if module != "fedsim"}
    assert sum(map(len, wires.values())) > 1000
    assert not [module for module, others in wires.items() if "fedsim" in others]
    try:
        TopologicalSorter(wires).prepare()
    except CycleError as circle:
        pytest.fail(" -> ".join(circle.args[1]))


def test_an_init_hands_names_on() -> None:
    for module, path in MODULES.items():
        if path.name == "__init__.py" and module != "fedsim":
            for node in ast.parse(path.read_text(encoding="utf-8")).body:
                names_only = getattr(node, "name", "__dir__") == "__dir__"  # which lists them
                assert names_only or not isinstance(node, ast.FunctionDef | ast.ClassDef), module


def test_every_file_that_a_page_names_is_there() -> None:
    for name in ("architecture.md", "contributing.md"):
        paths = re.findall(r"`((?:fedsim|tests|analysis|docs)/[\w/.]*)`", page(name))
        assert paths
        assert not [path for path in paths if not (ROOT / path).exists()], name
    named = re.findall(r"tests/[\w/.]+", page("contributing.md"))
    assert not [path for path in named if not (ROOT / path.rstrip(".")).exists()]


def test_at_the_root_stands_only_what_the_page_gives_a_reason_for() -> None:
    at_root = {f"fedsim/{path.name}" for path in PACKAGE.glob("*.py")}
    assert at_root == set(re.findall(r"`(fedsim/\w+\.py)`", page("architecture.md")))


EXTRAS = {"fedsim.flower": "flower", "fedsim.jax": "jax", "fedsim.torch": "torch"}
"""Public modules that need an extra to be imported."""


def public() -> dict[str, list[str]]:
    rows = re.findall(r"^\| `(fedsim[\w.]*)` \| (.*?) \|", page("modules.md"), re.MULTILINE)
    return {module: re.findall(r"`(\w+)`", names) for module, names in rows}


def test_every_public_name_can_be_imported() -> None:
    listed = public()
    assert listed
    for module, names in listed.items():
        if module in EXTRAS and missing(EXTRAS[module]):
            continue  # where the extra is installed it is looked at
        found = import_module(module)
        assert names
        assert not [name for name in names if not hasattr(found, name)], module
    assert set(listed["fedsim"]) == set(fedsim.__all__)


def test_examples_import_public_names_only() -> None:
    listed = public()
    given = re.compile(
        r"^from (fedsim[\w.]*) import (?:\((.*?)\)|([^(]+?))$", re.MULTILINE | re.DOTALL
    )
    examples = given.findall(page("extending.md"))
    assert examples
    for module, several, one in examples:
        assert set(re.findall(r"\w+", several or one)) <= set(listed[module]), module


def test_the_version_is_written_once() -> None:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    assert "version" in settings["project"]["dynamic"]
    assert settings["tool"]["hatch"]["version"]["path"] == "fedsim/core/extras.py"
    assert settings["project"]["name"] == DISTRIBUTION
    citation = YAML(typ="safe", pure=True).load(ROOT / "CITATION.cff")
    assert citation["version"] == fedsim.__version__


def _imports(path: Path) -> Iterator[str]:
    """Yield what a file imports as it is loaded: names of modules, and of what they are in."""
    for each in ast.parse(path.read_text(encoding="utf-8")).body:
        names = [alias.name for alias in each.names] if isinstance(each, ast.Import) else []
        if isinstance(each, ast.ImportFrom) and each.module:
            names = [each.module]
        for name in names:
            yield from (name.split(".")[0], ".".join(name.split(".")[:2]))


@pytest.mark.slow
def test_a_file_of_tests_that_loads_a_library_of_an_extra_says_so() -> None:
    """Else it fails where the extra is not installed, in place of being skipped."""
    needs = {library: extra for extra, own in LIBRARIES.items() for library in own}
    needs |= {f"fedsim.{extra}": extra for extra in ("torch", "jax", "flower")}
    tests = ROOT / "tests"
    found = {
        str(path.relative_to(tests)): extras
        for path in sorted(tests.rglob("test_*.py"))
        if (extras := {needs[name] for name in _imports(path) if name in needs})
    }
    assert {file: extras for file, extras in found.items() if file not in FILES} == {}
