"""The distribution, installed where there is no checkout: its files, its command, and its types."""

import json
import os
import re
import subprocess
import sys
import tarfile
import tomllib
import venv
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple
from zipfile import ZipFile

import pytest
from ruamel.yaml import YAML

import fedsim
from fedsim.core.blocks.registry import kinds_of
from fedsim.core.extras import DISTRIBUTION
from fedsim.scenario.registries import REGISTRIES, blocks_in
from tests.conftest import ROOT
from tests.locks import copy_of_mypys_cache
from tests.plugins.test_examples import EXAMPLES, FILES, merged

pytestmark = [pytest.mark.slow, pytest.mark.first(3)]

PROJECT = """\
[build-system]
requires = ["hatchling"]
build-backend = "hatchling.build"

[project]
name = "outside"
version = "1"

[tool.hatch.build.targets.wheel]
only-include = ["outside"]
"""


def yaml_of(name: str) -> dict[str, Any]:
    """Return the keys that the documentation shows with an example."""
    found: dict[str, Any] = YAML(typ="safe", pure=True).load(FILES[f"{name}.yaml"])
    return found


class Installed(NamedTuple):
    """What has been built, and the Python of an environment that it is installed in."""

    sdist: Path
    wheel: Path
    python: Path


def call(*words: object, cwd: Path) -> str:
    """Run a command as outside of a checkout, and return what it prints."""
    clean = {key: value for key, value in os.environ.items() if not key.startswith("PYTHON")}
    done = subprocess.run(
        [str(word) for word in words],
        cwd=cwd,
        env=clean | {"COLUMNS": "100"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def install(python: Path, what: Path, *more: str) -> None:
    """Install a package without what it needs, which is there already."""
    pip = ("-m", "pip", "--disable-pip-version-check", "install", "-q", "--no-index", "--no-deps")
    call(python, *pip, *more, what, cwd=what.parent)


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Installed:
    """Build both, the wheel from the sdist, and install that; what it needs is borrowed."""
    made, place = tmp_path_factory.mktemp("dist"), tmp_path_factory.mktemp("environment")
    call(sys.executable, "-m", "build", "--no-isolation", "--outdir", made, ROOT, cwd=made)
    (sdist,), (wheel,) = made.glob("*.tar.gz"), made.glob("*.whl")
    venv.create(place, symlinks=True, with_pip=True)
    python = place / "bin" / "python"
    install(python, wheel)
    (site,) = place.glob("lib/python*/site-packages")
    borrowed = [each for each in sys.path if Path(each).name in {"site-packages", "dist-packages"}]
    (site / "borrowed.pth").write_text("\n".join(borrowed))
    return Installed(sdist, wheel, python)


def test_the_sdist_has_what_is_under_version_control_and_no_more(installed: Installed) -> None:
    if not (ROOT / ".git").exists():
        pytest.skip("this is no checkout, so there is nothing to compare with")
    words = ("git", "ls-files", "--cached", "--others", "--exclude-standard")
    known = set(call(*words, cwd=ROOT).split("\n"))
    with tarfile.open(installed.sdist) as archive:
        files = {each.name.partition("/")[2] for each in archive if each.isfile()}
    assert files - known == {"PKG-INFO"}
    assert known - files == {""}


def test_the_wheel_is_the_package_alone(installed: Installed) -> None:
    with ZipFile(installed.wheel) as archive:
        names = set(archive.namelist())
        (metadata,) = (name for name in names if name.endswith(".dist-info/METADATA"))
        told = archive.read(metadata).decode()
    assert {name.partition("/")[0] for name in names} == {"fedsim", metadata.partition("/")[0]}
    assert {"fedsim/py.typed", "fedsim/examples/quickstart.yaml"} <= names
    assert not [name for name in names if "__pycache__" in name]
    assert re.findall(r"^(?:Name|Version): (.*)$", told, re.MULTILINE) == [
        DISTRIBUTION,
        fedsim.__version__,
    ]


def test_the_quickstart_runs_in_an_empty_folder(installed: Installed, tmp_path: Path) -> None:
    program = installed.python.parent / "fedsim"
    assert call(program, "--version", cwd=tmp_path) == f"fedsim {fedsim.__version__}\n"
    where = call(installed.python, "-c", "import fedsim; print(fedsim.__file__)", cwd=tmp_path)
    assert Path(where).is_relative_to(installed.python.parent.parent)
    printed = call(program, "run", "quickstart", cwd=tmp_path)
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    table = re.search(r"^ variant +rounds.*?(?=\n```)", readme, re.DOTALL | re.MULTILINE)
    assert table is not None
    assert words_of(table.group()) <= words_of(printed)
    assert (tmp_path / "runs/quickstart/convergence.png").is_file()


def words_of(text: str) -> set[tuple[str, ...]]:
    """Return the rows of a table, whatever its width."""
    return {tuple(line.split()) for line in text.splitlines() if set(line) - set(" ─")}


def shown_tests() -> dict[str, str]:
    """Return the tests that the documentation shows of user-defined blocks, as modules."""
    page = (ROOT / "docs/howto/testing.md").read_text(encoding="utf-8")
    shown = re.findall(r"^```python\n(.*?)^```$", page, re.DOTALL | re.MULTILINE)
    return {f"checks_{number}": text for number, text in enumerate(shown)}


def package(place: Path, examples: Sequence[str]) -> Path:
    """Write a package of the blocks that the documentation shows, with their entry points.

    Beside them are the tests that it shows, which import from `fedsim.testing`.
    """
    folder = place / "outside"
    folder.mkdir()
    entries: dict[str, list[str]] = {}
    (folder / "__init__.py").write_text('"""Blocks of a user."""\n')
    (folder / "py.typed").touch()
    for name in examples:
        file = folder / f"{name}.py"
        file.write_text(FILES[file.name])
        for block in blocks_in([file]):
            (of,) = (each for each in REGISTRIES if each.base and each.admits(block))
            (kind,) = kinds_of(block, of.key)
            entries.setdefault(of.group, []).append(f'{kind} = "outside.{name}:{block.__name__}"')
    for name, text in shown_tests().items():
        (folder / f"{name}.py").write_text(text)
    tables = ["\n".join([f'[project.entry-points."{of}"]', *own]) for of, own in entries.items()]
    (place / "pyproject.toml").write_text("\n\n".join([PROJECT, *tables]))
    return place


USED = ("plain", "every_other", "huber", "round_robin", "peak", "by_turns", "budget")
"""Examples that one scenario names together, beside a client of the three below."""

CLIENT = {
    "count": 3,
    "device": yaml_of("roofline")["fleet"][0]["device"],
    "radio": yaml_of("free_space")["fleet"][0]["radio"],
    "availability": yaml_of("shifts")["fleet"][0]["availability"],
}


def check_types(package: Path, python: Path) -> None:
    """Check a package as `mypy --strict` does with the packages of a Python, and more strictly.

    With the project's options, and only without more of them, what its own check knows of libraries
    and of the files of fedsim, which are the same here, is taken from its cache.
    """
    file = ROOT / "pyproject.toml"
    options = tomllib.loads(file.read_text(encoding="utf-8"))["tool"]["mypy"]
    assert options["strict"]
    excused = {name.partition(".")[0] for each in options["overrides"] for name in each["module"]}
    texts = [file.read_text() for file in package.glob("*.py")]
    used = {
        name for text in texts for name in re.findall(r"^(?:from|import) (\w+)", text, re.MULTILINE)
    }
    assert not used & excused  # a user has none of these overrides
    words = ("-m", "mypy", "--config-file", file, "--python-executable", python)
    with copy_of_mypys_cache() as cache:
        call(sys.executable, *words, "--cache-dir", cache, package, cwd=package.parent)


def test_a_package_of_blocks_is_typed_and_found(installed: Installed, tmp_path: Path) -> None:
    """Every block of the documentation, installed beside fedsim: `mypy --strict`, then a run."""
    place = package(tmp_path, EXAMPLES)
    install(installed.python, place, "--no-build-isolation")
    check_types(place / "outside", installed.python)
    for name in shown_tests():
        call(installed.python, "-m", f"outside.{name}", cwd=tmp_path)

    scenario = yaml_of("scenario")
    for name in USED:
        scenario = merged(scenario, yaml_of(name))
    YAML(typ="safe", pure=True).dump({**scenario, "fleet": [CLIENT]}, tmp_path / "all.yaml")
    program = installed.python.parent / "fedsim"
    call(program, "run", "all.yaml", cwd=tmp_path)
    (summary,) = (tmp_path / "runs/all").rglob("summary.json")
    assert json.loads(summary.read_text())["rounds"] == 10
