"""Hints to install name an extra that there is, in fedsim's sources and never on the index."""

import importlib
import re
import sys
import tomllib
from importlib import import_module
from pathlib import Path

import pytest

from fedsim.core import extras
from tests.conftest import ROOT

_FOLDERS = (".ci", "fedsim", "docs", "scenarios", "analysis", "tests")
_FILES = ("README.md", "CITATION.cff", "pyproject.toml", "mkdocs.yml", ".pre-commit-config.yaml")
_KINDS = {".py", ".md", ".ipynb", ".yaml", ".toml", ".html", ""}
_OWN = "tests/core/test_extras.py"


def texts() -> dict[str, str]:
    """Return the texts of the code and of all pages, by their paths."""
    found = {name: ROOT / name for name in _FILES}
    for folder in _FOLDERS:
        for path in sorted((ROOT / folder).rglob("*")):
            hidden = any(part.startswith(".") for part in path.relative_to(ROOT / folder).parts)
            if path.suffix in _KINDS and path.is_file() and not hidden:  # caches of tools
                found[str(path.relative_to(ROOT))] = path
    found.pop(_OWN)
    return {name: path.read_text(encoding="utf-8") for name, path in found.items()}


@pytest.mark.slow
def test_no_page_and_no_message_names_the_project_of_that_name_on_the_index() -> None:
    """`fedsim` there is another project, which would be installed in place of this one."""
    wrong = re.compile(
        r"\bfedsim\\?\[[a-z]|\b(pipx?|uvx?|conda|poetry) [^\n`&;]*\b(install|add|run)\b"
        r"[^\n`&;]* ['\"]?fedsim(?![\w./-])"
    )
    assert wrong.search("pip install -q 'fedsim'")
    assert wrong.search("python -m pip install --upgrade fedsim==0.1")
    assert not wrong.search(f"pip install {extras.DISTRIBUTION}")
    assert not wrong.search("pip install . && fedsim run quickstart")
    assert [name for name, text in texts().items() if wrong.search(text)] == []


@pytest.mark.slow
def test_every_extra_that_is_named_is_one() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    named = re.compile(r"(?:pip\s+install\s+(?:-e\s+)?'\.\[|missing\([^()]*, \")(\w+)[\]\"]")
    seen = {extra for text in texts().values() for extra in named.findall(text)}
    assert seen >= {"torch", "flower", "dask"}
    assert seen <= set(project["optional-dependencies"])


@pytest.mark.parametrize("extra", ["torch", "dask"])
def test_the_hint_is_one_sentence(extra: str) -> None:
    said = extras.missing("it", "A library", extra)
    assert said == (
        f"it takes A library, which is not installed here: pip install '.[{extra}]' in the folder"
        " of fedsim's sources"
    )


def test_without_flower_its_part_of_fedsim_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    own = "fedsim.flower.", "fedsim.addons.flower."
    for name in [each for each in sys.modules if f"{each}.".startswith(own)]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "flwr", None)
    with pytest.raises(ModuleNotFoundError) as raised:
        importlib.import_module("fedsim.flower")
    assert str(raised.value) == extras.missing("fedsim.flower", "Flower", "flower")
    assert raised.value.name == "flwr"


def test_without_pytorch_its_package_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("fedsim.torch", "fedsim.addons.torch"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    monkeypatch.setitem(sys.modules, "torch", None)  # as where it is not installed
    with pytest.raises(ModuleNotFoundError) as caught:
        import_module("fedsim.torch")
    assert caught.value.name == "torch"
    assert str(caught.value) == extras.missing("fedsim.torch", "PyTorch", "torch")


def test_what_pytorch_itself_lacks_is_named_as_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "torch.py").write_text("import a_part_that_is_missing", encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    for name in ("fedsim.torch", "fedsim.addons.torch", "torch"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    with pytest.raises(ModuleNotFoundError, match="No module named 'a_part_that_is_missing'"):
        import_module("fedsim.torch")
