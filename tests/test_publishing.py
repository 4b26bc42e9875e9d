"""What other services read says what the code says: versions, addresses, requirements."""

import ast
import json
import os
import re
import subprocess
import sys
import tomllib
from importlib.metadata import packages_distributions
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

import fedsim
from tests.conftest import ROOT

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
ADDRESS = PROJECT["urls"]["Repository"]


def read(name: str) -> Any:
    """Return what a file of JSON or YAML holds."""
    text = (ROOT / name).read_text(encoding="utf-8")
    return json.loads(text) if name.endswith(".json") else YAML(typ="safe", pure=True).load(text)


CITATION = read("CITATION.cff")
ZENODO = read(".zenodo.json")
CODEMETA = read(".github/codemeta.json")
RECIPE = read(".github/conda/recipe.yaml")


def test_all_name_one_version_and_its_day() -> None:
    version = fedsim.__version__
    texts = [
        (ROOT / name).read_text(encoding="utf-8") for name in ("docs/changelog.md", "README.md")
    ]
    released = re.search(rf"^## \[{re.escape(version)}\] - (\S+)$", texts[0], re.MULTILINE)
    assert released is not None
    assert f"| fedsim | {version} |" in texts[1]
    assert {CITATION["version"], ZENODO["version"], CODEMETA["version"]} == {version}
    assert RECIPE["context"]["version"] == version
    days = CITATION["date-released"], ZENODO["publication_date"], CODEMETA["datePublished"]
    assert set(days) == {released[1]}


def test_all_name_one_project_licence_and_authors() -> None:
    licence, what = PROJECT["license"], PROJECT["description"]
    about = RECIPE["about"]
    assert RECIPE["package"]["name"] == CODEMETA["identifier"] == PROJECT["name"]
    assert {CITATION["license"], ZENODO["license"], about["license"]} == {licence}
    assert CODEMETA["license"] == f"https://spdx.org/licenses/{licence}"
    assert {CITATION["abstract"], f"{CODEMETA['description']}.", f"{about['summary']}."} == {
        f"{what}."
    }
    authors = [
        [each["name"] for each in many] for many in (CITATION["authors"], ZENODO["creators"])
    ]
    assert authors == [[each["name"] for each in CODEMETA["author"]]] * 2
    assert CITATION["keywords"] == ZENODO["keywords"] == CODEMETA["keywords"] == PROJECT["keywords"]


def test_the_conda_recipe_has_the_requirements_of_the_package() -> None:
    renamed = {"matplotlib": "matplotlib-base"}  # in conda, the other one brings Qt
    needed = {f"python {PROJECT['requires-python']}"}
    for requirement in PROJECT["dependencies"]:
        name, bound = re.fullmatch(r"([\w.-]+)(.*)", requirement.partition(";")[0].strip()).groups()  # type: ignore[union-attr]  # it matches
        needed.add(f"{renamed.get(name, name.lower())} {bound}".strip())
    assert set(RECIPE["requirements"]["run"]) == needed
    built = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["build-system"]
    assert {name.replace(">=", " >=") for name in built["requires"]} <= set(
        RECIPE["requirements"]["host"]
    )
    assert RECIPE["build"]["python"]["entry_points"] == [
        f"{name} = {target}" for name, target in PROJECT["scripts"].items()
    ]


def tracked() -> list[Path]:
    """Return the files of text that the repository has; without git, those that may have links."""
    if not (ROOT / ".git").exists():
        found = [
            *ROOT.rglob("*.md"),
            *ROOT.rglob("*.ipynb"),
            *ROOT.glob(".*/**/*"),
            *ROOT.glob("*.*"),
        ]
        return [path for path in found if path.is_file()]
    listed = subprocess.run(
        ["git", "grep", "-lI", "/fedsim"],  # noqa: S607 - as on the path
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    return [ROOT / name for name in listed.stdout.splitlines()]


def test_every_link_to_the_repository_has_the_address_that_is_written_once() -> None:
    """`.ci/address` changes all of them; a release from another address is refused."""
    slug = ADDRESS.removeprefix("https://github.com/")
    link = re.compile(r"(?:github\.com/|/gh/|/github/|uses: )([\w.-]+/fedsim)\b")
    seen = {
        (path.relative_to(ROOT).as_posix(), found)
        for path in tracked()
        for found in link.findall(path.read_text(encoding="utf-8"))
    }
    assert {path for path, _ in seen} >= {"CITATION.cff", ".github/codemeta.json", "README.md"}
    assert {found for _, found in seen} == {slug}


def test_the_pages_name_the_action_of_this_version() -> None:
    used = {
        version
        for path in (ROOT / "docs").rglob("*.md")
        for version in re.findall(
            r"/\.github/actions/check@(\S+)", path.read_text(encoding="utf-8")
        )
    }
    assert used == {f"v{fedsim.__version__}"}


def notes(*words: str) -> subprocess.CompletedProcess[str]:
    """Run the script that a release takes its notes from."""
    command = [sys.executable, str(ROOT / ".ci/release_notes.py"), *words]
    return subprocess.run(command, capture_output=True, text=True, encoding="utf-8", check=False)


def test_the_notes_of_a_release_are_its_section_of_the_changelog() -> None:
    done = notes(f"v{fedsim.__version__}", ADDRESS)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("\n### ") >= 1
    assert "\n## " not in done.stdout
    links = re.findall(r"\]\(([^)]*)\)", done.stdout)
    files = [
        link.partition("#")[0].removeprefix(f"{ADDRESS}/blob/v{fedsim.__version__}/")
        for link in links
    ]
    assert links
    assert [name for name in files if not (ROOT / name).is_file()] == []


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (
            ["v0.0.0"],
            f"the tag is v0.0.0, and fedsim/core/extras.py has version {fedsim.__version__}",
        ),
        (
            [f"v{fedsim.__version__}", "https://github.com/a/b"],
            "run .ci/address https://github.com/a/b",
        ),
    ],
)
def test_a_tag_that_is_no_release_is_refused(words: list[str], said: str) -> None:
    done = notes(*words)
    assert done.returncode == 1
    assert said in done.stderr
    assert not done.stdout


BAD = """\
name: bad
problem:
  loss: {kind: squared}
  data: {kind: sklearn, name: diabetes}
  split: {kind: iid, clients: 2}
algorithm: {kind: gd, step_size: 1/L}
stop: {rouns: 3}
"""


@pytest.mark.slow
@pytest.mark.skipif(os.name != "posix", reason="the action runs in bash")
def test_the_action_reports_errors_at_their_lines(tmp_path: Path) -> None:
    steps = read(".github/actions/check/action.yaml")["runs"]["steps"]
    (script,) = (step["run"] for step in steps if step.get("name") == "Check")
    (tmp_path / "good.yaml").write_text(BAD.replace("rouns", "rounds"), encoding="utf-8")
    (tmp_path / "bad.yaml").write_text(BAD, encoding="utf-8")

    def act(files: str) -> subprocess.CompletedProcess[str]:
        program = tmp_path / "bin"
        program.mkdir(exist_ok=True)
        (program / "fedsim").write_text(f'#!/bin/sh\nexec "{sys.executable}" -m fedsim "$@"\n')
        (program / "fedsim").chmod(0o755)
        path = f"{program}{os.pathsep}{os.environ['PATH']}"
        given = {"FILES": files, "OPTIONS": "--quiet", "RUNNER_TEMP": str(tmp_path), "PATH": path}
        return subprocess.run(
            ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", script],  # noqa: S607
            cwd=tmp_path,
            env=os.environ | {"PYTHONPATH": str(ROOT)} | given,
            capture_output=True,
            text=True,
            check=False,
        )

    good, both, none = act("good.yaml"), act("*.yaml"), act("no/*.yaml")
    assert good.returncode == 0, good.stdout + good.stderr
    assert "1 scenarios checked" in good.stdout
    assert "::error" not in good.stdout
    assert both.returncode == 1
    assert "::error file=bad.yaml,line=7::stop.rouns: unknown key 'rouns'" in both.stdout
    assert "2 scenarios checked" in both.stdout
    assert none.returncode == 1
    assert "::error::no file is called no/*.yaml" in none.stdout


def imported_packages() -> set[str]:
    """Return the packages that fedsim imports, other than itself and Python's own."""
    found = set[str]()
    for path in (ROOT / "fedsim").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Import):
                found |= {alias.name.partition(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom):
                found.add(str(node.module).partition(".")[0])
    return found - sys.stdlib_module_names - {"fedsim"}


def test_imported_libraries_are_declared() -> None:
    """A library that another one happens to bring may be gone with that one's next version."""
    extras = PROJECT["optional-dependencies"].values()
    required = [*PROJECT["dependencies"], *(each for many in extras for each in many)]
    declared = {re.split(r"[\[<>=]", each)[0].lower() for each in required}
    installed = packages_distributions()
    undeclared = {
        package
        for package in imported_packages() & set(installed)
        if not declared & {name.lower().replace("_", "-") for name in installed[package]}
    }
    assert undeclared <= {"IPython"}, "which is there wherever a notebook runs"
