"""The first minute: examples by name, a folder to start from, and what a package holds."""

import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from ruamel.yaml import YAML
from typer.testing import CliRunner, Result

import fedsim
from fedsim.cli import app, downloads
from fedsim.physics.formats.published import TRACE_SETS
from fedsim.problems import ENTRIES
from fedsim.scenario import examples
from tests.conftest import ROOT

SCENARIOS = sorted((ROOT / "scenarios").rglob("*.yaml"))
SHORT = ("--set", "stop={rounds: 2}")


@pytest.fixture(autouse=True)
def empty(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Stand in a folder that has nothing in it."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "100")
    return tmp_path


def invoke(*arguments: str) -> Result:
    return CliRunner().invoke(app, list(arguments))


def test_every_scenario_is_an_example_by_a_name_of_its_own() -> None:
    assert sorted(examples.examples().values()) == SCENARIOS


@pytest.mark.slow
def test_the_examples_are_listed_with_their_questions() -> None:
    result = invoke("examples")
    assert result.exit_code == 0, result.output
    said = " ".join(result.stdout.split())
    for file in SCENARIOS:
        question = file.read_text(encoding="utf-8").splitlines()[0].removeprefix("# ")
        assert file.stem in said
        assert question.split()[0] in said
    lines = result.stdout.splitlines()
    assert max(map(len, lines)) <= 100
    (rule,) = [number for number, line in enumerate(lines) if "───" in line]
    assert lines[rule + 1].split()[0] == "quickstart"


@pytest.mark.slow
def test_the_examples_are_listed_with_how_many_runs_they_are() -> None:
    table = downloads.examples_table()
    heads = [str(column.header) for column in table.columns]
    assert heads == ["name", "question", "runs", "data to fetch"]
    columns = dict(zip(heads, (list(column.cells) for column in table.columns), strict=True))
    runs = dict(zip(columns["name"], columns["runs"], strict=True))
    for name, file in examples.examples().items():
        plan = fedsim.load(file)
        assert runs[name] == str(sum(1 for variant in plan.variants for _ in variant.seeds))


def test_what_can_be_fetched_is_listed_with_its_licence_and_checksum() -> None:
    table = downloads.public_table()
    heads = [str(column.header) for column in table.columns]
    assert heads == ["name", "download", "licence", "checksum", "for, by"]
    columns = dict(zip(heads, (list(column.cells) for column in table.columns), strict=True))
    assert set(columns["name"]) == {*ENTRIES, *TRACE_SETS}
    checksums = dict(zip(columns["name"], map(str, columns["checksum"]), strict=True))
    known = {name: [file.known for file in entry.files] for name, entry in ENTRIES.items()}
    known |= {name: [file.known for file in found.files] for name, found in TRACE_SETS.items()}
    for name, own in known.items():
        assert all((each.partition(":")[0] or "none") in checksums[name] for each in own)


@pytest.mark.slow
def test_an_example_runs_by_its_name_from_an_empty_folder(empty: Path) -> None:
    result = invoke("run", "quickstart", *SHORT)
    assert result.exit_code == 0, result.output
    assert (empty / "runs/quickstart/chb/seed-1/summary.json").exists()
    assert [path.name for path in empty.iterdir()] == ["runs"]


@pytest.mark.slow
def test_an_example_finds_the_files_that_it_names() -> None:
    assert fedsim.load("who-dies-first").folder == ROOT / "scenarios/studies"
    result = invoke("check", "who-dies-first")
    assert result.exit_code == 0, result.output


def test_an_example_runs_by_its_name_in_python() -> None:
    file = fedsim.load(ROOT / "scenarios/quickstart.yaml")
    assert fedsim.load("quickstart").variants == file.variants
    result = fedsim.run("quickstart", overrides=["stop={rounds: 1}", "variants={}"])
    assert result.summary["rounds"].tolist() == [1]


def test_a_file_of_the_same_name_comes_first(empty: Path) -> None:
    shutil.copy(ROOT / "scenarios/peers.yaml", empty / "quickstart")
    assert fedsim.load("quickstart").name == "peers"


@pytest.mark.parametrize("command", ["run", "check"])
def test_a_name_that_there_is_not_is_answered_with_the_nearest(command: str, empty: Path) -> None:
    result = invoke(command, "quickstrat")
    assert result.exit_code == 2
    assert "no such file, and no example" in result.stderr
    assert "did you mean 'quickstart'?" in result.stderr
    assert "`fedsim examples`" in result.stderr
    assert not list(empty.iterdir())


def test_an_example_is_printed_as_it_stands() -> None:
    result = invoke("examples", "quickstart")
    assert result.stdout == (ROOT / "scenarios/quickstart.yaml").read_text(encoding="utf-8")
    wrong = invoke("examples", "quikstart")
    assert wrong.exit_code == 2
    assert "did you mean 'quickstart'?" in wrong.stderr


@pytest.mark.slow
def test_init_writes_a_folder_that_runs(empty: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    result = invoke("init", "mine/first")
    assert result.exit_code == 0, result.output
    place = empty / "mine/first"
    names = {path.name for path in place.iterdir()}
    assert names == {"quickstart.yaml", "fedsim.schema.json", "README.md", ".gitignore"}
    assert "cd mine/first && fedsim run quickstart.yaml" in result.stdout
    monkeypatch.chdir(place)
    for line in (place / "README.md").read_text(encoding="utf-8").splitlines():
        words = line.split()
        if words[:2] in (["fedsim", "check"], ["fedsim", "run"]):
            done = invoke(*words[1:3], *SHORT)
            assert done.exit_code == 0, done.output
    assert (place / "runs/quickstart/study.json").exists()


def test_init_writes_over_nothing(empty: Path) -> None:
    (empty / "README.md").write_text("mine")
    assert invoke("init").exit_code == 0
    assert (empty / "README.md").read_text() == "mine"
    (empty / "quickstart.yaml").write_text("mine, too")
    again = invoke("init")
    assert again.exit_code == 2
    assert "quickstart.yaml exists: nothing was written" in again.stderr
    assert (empty / "quickstart.yaml").read_text() == "mine, too"


@pytest.mark.slow
def test_init_into_a_file_is_one_line(empty: Path) -> None:
    (empty / "file").write_text("")
    result = invoke("init", "file")
    assert result.exit_code == 2
    assert "cannot write" in result.stderr
    assert "Traceback" not in result.output


@pytest.mark.slow
@pytest.mark.needs("dev")
def test_a_package_has_every_example_and_what_they_name(empty: Path) -> None:
    """Build it as pip does, from a copy, so that nothing is left in the checkout."""
    source = empty / "source"
    ignore = shutil.ignore_patterns(".git", "__pycache__", "runs", ".*_cache", "analysis", "tests")
    shutil.copytree(ROOT, source, ignore=ignore)
    build = "from hatchling.build import build_wheel; print(build_wheel('..'))"
    done = subprocess.run(
        [sys.executable, "-c", build], cwd=source, capture_output=True, text=True, check=True
    )
    with zipfile.ZipFile(empty / done.stdout.splitlines()[-1]) as package:
        package.extractall(empty / "installed")
    inside = empty / "installed/fedsim/examples"
    wanted = [path for path in (ROOT / "scenarios").rglob("*") if path.is_file()]
    for path in wanted:
        copy = inside / path.relative_to(ROOT / "scenarios")
        assert copy.read_bytes() == path.read_bytes()
    bench = ROOT / "fedsim/addons/bench"
    files = [
        path for path in bench.rglob("*") if path.suffix in {".yaml", ".json", ".html", ".css"}
    ]
    assert len(files) > 20
    for path in files:
        assert (empty / "installed" / path.relative_to(ROOT)).read_bytes() == path.read_bytes()
    listed = subprocess.run(
        [sys.executable, "-m", "fedsim", "examples", "who-dies-first"],
        cwd=empty / "installed",
        capture_output=True,
        text=True,
        check=True,
    )
    named = YAML(typ="safe", pure=True).load(listed.stdout)
    assert named["name"] == "who dies first"
