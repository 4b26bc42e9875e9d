"""Blocks of an installed distribution: a folder on the path, as an installer leaves it there."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from .files import COMPRESSOR, DEVICE, NAMED, SCENARIO
from .test_commands import invoke

METADATA = "Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n"


def installed(folder: Path, name: str, points: str, code: str, group: str = "compressors") -> Path:
    """Put a distribution with one module into a folder, and return that."""
    module, info = f"{name}.py", f"{name}-1.0.dist-info"
    files = {
        module: code,
        f"{info}/METADATA": METADATA.format(name=name),
        f"{info}/entry_points.txt": f"[fedsim.{group}]\n{points}\n",
    }
    files[f"{info}/RECORD"] = "".join(f"{file},,\n" for file in (*files, f"{info}/RECORD"))
    for file, text in files.items():
        (folder / file).parent.mkdir(parents=True, exist_ok=True)
        (folder / file).write_text(text)
    return folder


def fedsim(folder: Path, *command: str | Path) -> subprocess.CompletedProcess[str]:
    """Run a command in a process of its own, with a folder on its path."""
    environment = {**os.environ, "PYTHONPATH": str(folder)}
    return subprocess.run(
        [sys.executable, "-m", "fedsim", *map(str, command)],
        capture_output=True,
        text=True,
        check=False,
        env=environment,
    )


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Yield a folder on the path of this process; what is imported from it is forgotten again."""
    folder = tmp_path / "site"
    folder.mkdir()
    monkeypatch.syspath_prepend(str(folder))
    yield folder
    for module in folder.glob("*.py"):
        sys.modules.pop(module.stem, None)


def words(text: str) -> str:
    return " ".join(text.split())


@pytest.fixture
def scenario(tmp_path: Path) -> Path:
    path = tmp_path / "small.yaml"
    path.write_text(SCENARIO.replace("rounds: 10", "rounds: 2"))
    return path


SET = ("--set", NAMED["compressor"][1])


@pytest.mark.slow
def test_its_block_is_listed_and_runs(scenario: Path, site: Path, tmp_path: Path) -> None:
    code = f"print('imported')\n{COMPRESSOR}"
    installed(site, "others", "every-other = others:EveryOther", code)
    listed = fedsim(site, "list", "compressors")
    assert listed.returncode == 0, listed.stderr
    (row,) = (line for line in listed.stdout.splitlines() if "every-other" in line)
    assert row.split()[-1] == "others"
    assert "imported" not in listed.stdout  # which is the command's alone
    assert "imported" in listed.stderr
    out = tmp_path / "out"
    ran = invoke("run", scenario, "--out", out, *SET)
    assert ran.exit_code == 0, ran.stderr
    assert "every-other" in (out / "base/seed-1/scenario.yaml").read_text()


def test_a_device_is_found_by_its_name(scenario: Path, site: Path, tmp_path: Path) -> None:
    installed(site, "others", "roofline = others:Roofline", DEVICE, "devices")
    out = tmp_path / "out"
    ran = invoke("run", scenario, "--out", out, "--set", NAMED["device"][1])
    assert ran.exit_code == 0, ran.stderr
    assert "kind: roofline" in (out / "base/seed-1/scenario.yaml").read_text()


BROKEN = "import no_such_module\n"


def test_one_that_cannot_be_imported_is_remarked_on_and_refused_where_it_is_named(
    scenario: Path, site: Path
) -> None:
    installed(site, "others", "every-other = others:EveryOther", BROKEN)
    said = "the entry point others:EveryOther (of the package others) cannot be imported"
    listed = invoke("list", "compressors")
    assert listed.exit_code == 0
    assert said in words(listed.stderr)
    assert "top-k" in listed.stdout
    assert "every-other" not in listed.stdout
    refused = invoke("check", scenario, *SET)
    assert refused.exit_code == 2
    assert said in words(refused.stderr)
    assert "Traceback" not in refused.stderr


def test_two_packages_with_one_name_are_one_error(scenario: Path, site: Path) -> None:
    for name in ("others", "another"):
        installed(site, name, f"every-other = {name}:EveryOther", COMPRESSOR)
    refused = invoke("check", scenario, *SET)
    assert refused.exit_code == 2
    said = words(refused.stderr)
    assert "'every-other' is the entry point another:EveryOther (of the package another)" in said
    assert "the entry point others:EveryOther (of the package others)" in said
    assert "Traceback" not in refused.stderr
