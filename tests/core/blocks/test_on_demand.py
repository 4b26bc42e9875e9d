"""Blocks that a table names: it agrees with the classes, and imports only the chosen one."""

import subprocess
import sys
from collections.abc import Iterator
from importlib import import_module
from inspect import get_annotations, isabstract
from pkgutil import iter_modules, walk_packages

import pytest

from fedsim.algorithms import ALGORITHMS
from fedsim.core.blocks.catalogue import AnyRegistry
from fedsim.core.blocks.on_demand import Named
from fedsim.core.blocks.spec import Spec
from fedsim.physics.radios import RADIO_KINDS
from fedsim.scenario.registries import REGISTRIES
from fedsim.wire.compressors.layered import Layered  # of the compressors of layers: has no name
from tests.conftest import ROOT
from tests.tiers import every

TABLES = [registry for registry in REGISTRIES if isinstance(registry.classes, Named)]
PACKAGES = sorted(
    ".".join(path.relative_to(ROOT).parent.parts)
    for path in (ROOT / "fedsim").rglob("__init__.py")
    if "= exports(__name__)" in path.read_text(encoding="utf-8")
)


def below(base: type[Spec]) -> Iterator[type[Spec]]:
    for model in base.__subclasses__():
        yield model
        yield from below(model)


def names_itself(model: type[Spec]) -> bool:
    """Return whether a class has a name of its own, not that of its base."""
    return "kind" in get_annotations(model) or "presets" in vars(model)


@every("registry", TABLES)
def test_a_table_has_each_class_under_all_of_its_kinds(registry: AnyRegistry) -> None:
    own = list(registry.own.items())
    for model in registry:
        assert registry.names_of(model) == tuple(kind for kind, one in own if one is model)
        assert model in registry


@pytest.mark.slow
@pytest.mark.parametrize("registry", TABLES, ids=lambda registry: registry.name)
def test_a_table_has_every_class_of_its_package(registry: AnyRegistry) -> None:
    assert registry.base
    home = registry.base.__module__.rpartition(".")[0]
    for module in walk_packages(import_module(home).__path__, f"{home}."):
        import_module(module.name)
    models = [each for each in below(registry.base) if each.__module__.startswith(f"{home}.")]
    named = {each for each in models if not isabstract(each) and names_itself(each)}
    assert named - {Layered} == {each for each in registry if issubclass(each, registry.base)}


def test_what_is_no_class_of_a_table_is_not_in_it() -> None:
    class Radio(Spec):
        """A class with the name of one in the table."""

    for other in (Radio, Spec, "Radio", None):
        assert other not in RADIO_KINDS
        assert not RADIO_KINDS.takes(other)
    assert RADIO_KINDS.takes(RADIO_KINDS.own["lte"].model_validate({"kind": "lte"}))


CHOOSE = """
import sys
from fedsim.algorithms import ALGORITHMS
from fedsim.problems import NoPenalty

before = {*sys.modules}
assert "fedavg" in ALGORITHMS.own and "none" not in ALGORITHMS.own and len(ALGORITHMS.own) > 50
assert NoPenalty not in ALGORITHMS and not ALGORITHMS.takes(NoPenalty())
assert {*sys.modules} == before
assert ALGORITHMS.own["fedavg"] in ALGORITHMS
print(*{*sys.modules} - before)
"""


def test_only_the_chosen_class_is_imported() -> None:
    done = subprocess.run(
        [sys.executable, "-c", CHOOSE], capture_output=True, text=True, check=True
    )
    others = {each.__module__ for each in ALGORITHMS} - {"fedsim.algorithms.averaging"}
    assert "fedsim.algorithms.averaging" in done.stdout.split()
    assert not others & set(done.stdout.split())


@every("package", PACKAGES)
def test_no_name_is_that_of_a_module_of_the_package(package: str) -> None:
    """The module would take its place as soon as it is imported."""
    module = import_module(package)
    assert not {each.name for each in iter_modules(module.__path__)} & set(module.__all__)


@every("package", PACKAGES)
def test_a_package_has_the_names_that_it_lists(package: str) -> None:
    module = import_module(package)
    assert set(module.__all__) <= set(dir(module))
    assert not [name for name in module.__all__ if not hasattr(module, name)]
    with pytest.raises(AttributeError, match=f"module '{package}' has no attribute 'Nothing'"):
        module.Nothing  # noqa: B018 - it raises


def test_some_packages_import_their_names_on_first_use() -> None:
    assert {"fedsim.algorithms", "fedsim.problems", "fedsim.wire"} <= set(PACKAGES)
