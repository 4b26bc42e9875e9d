"""The commands as a user meets them: exit codes, one readable block, no traceback."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

import fedsim
from fedsim.algorithms import ALGORITHMS
from fedsim.cli import app, describe, downloads
from fedsim.physics.devices import DEVICES
from fedsim.physics.radios import RADIOS
from fedsim.problems import LOSSES, SOURCES, SPLITS
from fedsim.scenario import load
from fedsim.wire import COMPRESSORS

SCENARIO = """\
problem:
  loss: {kind: squared, scale: sum, l2: 1}
  data: {kind: sklearn, name: diabetes}
algorithm: {kind: chb, step_size: 1/L}
fleet:
  - {count: 3, device: phone-mid, radio: lte}
stop: {rounds: 20}
variants:
  gd: {algorithm: {kind: gd, step_size: 1/L}}
"""


def invoke(*arguments: str | Path) -> Result:
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


@pytest.fixture
def scenario(tmp_path: Path) -> Path:
    path = tmp_path / "small.yaml"
    path.write_text(SCENARIO)
    return path


def check_blame(result: Result, *words: str) -> None:
    """Assert exit code 2 and one block that holds the words."""
    assert result.exit_code == 2, result.output
    assert "Traceback" not in result.output
    for word in words:
        assert word in result.stderr


def test_run_ends_with_a_table_a_figure_and_run_folders(scenario: Path, tmp_path: Path) -> None:
    result = invoke("run", scenario, "--out", tmp_path / "out")
    assert result.exit_code == 0, result.output
    lines = result.stdout.splitlines()
    assert any(line.split()[:3] == ["base", "(chb)", "20"] for line in lines)
    (gd,) = (line.split() for line in lines if line.startswith(" gd") and "kbit" in line)
    assert (gd[1], gd[-1]) == ("20", "60")  # rounds and transmissions
    for name in ("convergence.png", "base/seed-1/events.parquet", "gd/seed-1/summary.json"):
        assert (tmp_path / "out" / name).exists()
    assert (tmp_path / "out/convergence.png").read_bytes().startswith(b"\x89PNG")


def test_run_shows_a_bar_for_every_run(scenario: Path, tmp_path: Path) -> None:
    result = invoke("run", scenario, "--out", tmp_path / "out")
    assert "base (chb), seed 1" in result.stderr
    assert "gd, seed 1" in result.stderr


def test_run_says_what_it_costs_to_reach_a_target(scenario: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    result = invoke("run", scenario, "--out", out, "--set", "stop={rounds: 20, gap: 1e-9}")
    assert result.exit_code == 0
    assert "gap below 1e-09" in result.stdout
    assert "not reached" in result.stdout


def test_set_replaces_a_value(scenario: Path, tmp_path: Path) -> None:
    invoke("run", scenario, "--out", tmp_path / "out", "--set", "stop.rounds=3")
    summary = json.loads((tmp_path / "out/base/seed-1/summary.json").read_text())
    assert summary["rounds"] == 3


def test_the_default_folder_is_named_after_the_file(
    scenario: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert invoke("run", scenario).exit_code == 0
    assert (tmp_path / "runs/small/base/seed-1/summary.json").exists()


def test_a_run_that_diverges_ends_with_code_1_and_names_the_last_finite_round(
    scenario: Path, tmp_path: Path
) -> None:
    arguments = ["--set", "algorithm.step_size=1e6", "--set", "stop.rounds=500"]
    result = invoke("run", scenario, "--out", tmp_path / "out", *arguments)
    assert result.exit_code == 1
    assert "Traceback" not in result.output
    assert "diverged in round" in result.stderr
    assert "was the last finite one" in result.stderr
    assert (tmp_path / "out/base/seed-1/rounds.parquet").exists()
    assert json.loads((tmp_path / "out/gd/seed-1/summary.json").read_text())["status"] == "done"


@pytest.mark.parametrize("command", ["run", "check"])
@pytest.mark.parametrize(
    ("old", "new", "line", "words"),
    [
        ("step_size: 1/L}\nfleet", "step: 1/L}\nfleet", 4, ["algorithm.step", "'step_size'"]),
        ("radio: lte", "radio: {kind: lte, up: 5}", 6, ["fleet.0.radio.up", "5 Mbit/s"]),
        ("radio: lte", "radio: {kind: lte, up: 5 s}", 6, ["fleet.0.radio.up", "5 s"]),
        ("name: diabetes", "name: diabetis", 3, ["problem.data.name", "diabetis"]),
        ("kind: sklearn, name: diabetes", "kind: libsvm, path: no.txt", 3, ["no.txt"]),
        ("count: 3", "count: 443", 1, ["443", "442 rows"]),
        ("kind: chb", "kind: cbh", 4, ["algorithm.kind", "'chb'"]),
        ("stop: {rounds: 20}", "stop: {rounds: 20}\nstop: {gap: 1}", 8, ["stop", "small.yaml:7"]),
        ("stop: {rounds: 20}", "stop: {rounds: 20", 8, ["not YAML 1.2"]),
    ],
)
def test_a_wrong_scenario_ends_with_code_2_and_the_place(
    command: str, old: str, new: str, line: int, words: list[str], scenario: Path
) -> None:
    scenario.write_text(SCENARIO.replace(old, new, 1))
    result = invoke(command, scenario)
    check_blame(result, *words)
    assert f"small.yaml:{line}" in result.stderr
    assert not (scenario.parent / "runs").exists()


def test_all_faults_come_at_once(scenario: Path) -> None:
    wrong = SCENARIO.replace("rounds: 20", "rounds: none").replace("count: 3", "count: 0")
    scenario.write_text(wrong.replace("lte", "ltf"))
    result = invoke("check", scenario)
    check_blame(result, "3 errors", "stop.rounds", "fleet.0.count", "fleet.0.radio")


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("1 1:2.5\n1 2:x\n", ["rows.txt", "line 2", "2:x"]),
        ("1 1:2.5\n1 2:nan\n", ["NaN", "row 2"]),
        ("", ["at least one row"]),
    ],
)
def test_wrong_data_is_named_by_file_and_line(
    content: str, words: list[str], scenario: Path
) -> None:
    (scenario.parent / "rows.txt").write_text(content)
    libsvm = "kind: libsvm, path: rows.txt"
    scenario.write_text(SCENARIO.replace("kind: sklearn, name: diabetes", libsvm))
    result = invoke("check", scenario)
    assert result.exit_code == 2
    assert "Traceback" not in result.output
    for word in words:
        assert word.lower() in result.stderr.lower()


def test_a_missing_file_and_a_folder_are_no_scenarios(tmp_path: Path) -> None:
    check_blame(invoke("run", tmp_path / "none.yaml"), "none.yaml")
    check_blame(invoke("check", tmp_path), str(tmp_path))


def test_an_out_folder_that_cannot_be_is_one_line(scenario: Path) -> None:
    check_blame(invoke("run", scenario, "--out", scenario), "small.yaml")


@pytest.mark.parametrize("place", ["small.yaml", "small.yaml/deeper"])
def test_an_out_that_is_a_file_is_told_before_anything_runs(place: str, scenario: Path) -> None:
    out = scenario.parent / place
    result = invoke("run", scenario, "--out", out)
    check_blame(result, f"--out {out}: ", "it is a file, where a folder is needed")
    assert len(result.stderr.splitlines()) == 1
    assert "building" not in result.output


def test_an_out_that_nobody_can_write_into_is_told_before_anything_runs(scenario: Path) -> None:
    check_blame(invoke("run", scenario, "--out", "/proc/nowhere"), "--out /proc/nowhere: cannot")


@pytest.mark.slow
def test_other_commands_tell_of_their_out_first(scenario: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    assert invoke("run", scenario, "--out", out, "--set", "stop.rounds=2").exit_code == 0
    for command in (["compare"], ["reprice", "--set", "fleet.0.radio=nb-iot"]):
        found = invoke(command[0], out, "--out", scenario, *command[1:])
        check_blame(found, f"--out {scenario}: ", "is a file")
    check_blame(invoke("report", out, "--out", scenario / "page.html"), "--out ", "is a file")
    check_blame(invoke("report", out, "--out", tmp_path), "it is a folder; expected a file")


@pytest.mark.slow
def test_the_default_folder_is_named_after_the_scenario(
    scenario: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    scenario.write_text(f"name: Lasso, 3 ../ phones!\n{SCENARIO}")
    assert invoke("run", scenario, "--set", "stop.rounds=1").exit_code == 0
    assert [path.name for path in (tmp_path / "runs").iterdir()] == ["Lasso-3-..-phones"]


def test_missing_catalogued_data_is_offered_by_name(
    scenario: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("FEDSIM_DATA", raising=False)
    ijcnn1 = "kind: catalogue, name: ijcnn1"
    scenario.write_text(SCENARIO.replace("kind: sklearn, name: diabetes", ijcnn1))
    check_blame(invoke("run", scenario), "fedsim fetch ijcnn1", "1.4 MB")


@pytest.mark.parametrize("answer", [True, False])
def test_at_a_terminal_the_download_is_offered(
    *, answer: bool, scenario: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []
    fetched: list[str] = []

    def confirm(question: str, **_: object) -> bool:
        asked.append(question)
        return answer

    monkeypatch.delenv("FEDSIM_DATA", raising=False)
    monkeypatch.setattr("sys.stdin.isatty", lambda: True)
    monkeypatch.setattr("typer.confirm", confirm)
    monkeypatch.setattr(downloads, "fetch", fetched.append)
    ijcnn1 = "kind: catalogue, name: ijcnn1"
    scenario.write_text(SCENARIO.replace("kind: sklearn, name: diabetes", ijcnn1))
    downloads.offer_downloads(load(scenario))
    assert len(asked) == 1
    assert "1.4 MB from https://" in asked[0]
    assert fetched == (["ijcnn1"] if answer else [])


def test_check_shows_what_would_run(scenario: Path) -> None:
    result = invoke("check", scenario)
    assert result.exit_code == 0, result.output
    for word in ("phone-mid", "lte", "147", "step_size", "368 bits", "closed form"):
        assert word in result.stdout


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ([], "the observer evaluates the model of every round: 33% of all computation"),
        (["--set", "observe.every=10"], "one model in 10, and the last: 5% of all computation"),
    ],
)
def test_check_says_what_the_observer_costs(scenario: Path, given: list[str], said: str) -> None:
    result = invoke("check", scenario, "--details", *given)
    assert said in " ".join(result.stdout.split()), result.output


def test_list_shows_every_kind_and_its_source() -> None:
    result = invoke("list", "all")
    assert result.exit_code == 0
    models = (*ALGORITHMS, *LOSSES, *SOURCES, *SPLITS, *COMPRESSORS)
    kinds = [model.model_fields["kind"].default for model in models]
    for name in (*kinds, *DEVICES, *RADIOS):
        assert str(name) in result.stdout
    assert "MobiSys" in result.stdout


def test_list_shows_one_table_alone() -> None:
    result = invoke("list", "compressors")
    assert result.exit_code == 0
    assert "algorithms" not in result.stdout
    lines = result.stdout.splitlines()
    assert "compressors" in lines[0]
    for model in COMPRESSORS:
        assert any(line.split()[:1] == [model.model_fields["kind"].default] for line in lines)
    words = " ".join(result.stdout.split())
    for word in ("delta = k/d", "omega = d/k - 1", "omega = 1/8", "Alistarh"):
        assert word in words


@pytest.mark.slow
def test_every_table_can_be_named_and_all_make_the_whole_list() -> None:
    alone = [invoke("list", title.replace(" ", "-")) for title, _ in describe.listings()]
    assert all(result.exit_code == 0 for result in alone)
    assert "".join(result.stdout for result in alone) == invoke("list", "all").stdout


def test_a_table_that_there_is_not_is_one_line_with_those_there_are() -> None:
    result = invoke("list", "compresors")
    check_blame(result, "compresors", "did you mean 'compressors'?", "packet-losses", "radios")
    assert len(result.stderr.splitlines()) == 1
    assert result.stdout == ""


def test_the_version_is_that_of_the_package() -> None:
    result = invoke("--version")
    assert (result.exit_code, result.stdout) == (0, f"fedsim {fedsim.__version__}\n")


def test_schema_is_json_that_names_every_block() -> None:
    result = invoke("schema")
    assert result.exit_code == 0
    blocks = json.loads(result.stdout)["properties"]
    assert {"problem", "algorithm", "fleet", "wire", "stop", "variants"} <= set(blocks)


def test_fetch_refuses_what_the_catalogue_does_not_have() -> None:
    check_blame(invoke("fetch", "mnits"), "mnits", "ijcnn1")


@pytest.mark.slow
def test_the_module_runs_as_a_program_without_a_terminal(scenario: Path, tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "fedsim", "run", str(scenario), "--out", str(tmp_path / "out")],
        env={**os.environ, "COLUMNS": "60"},
        capture_output=True,
        text=True,
        check=False,
        stdin=subprocess.DEVNULL,
    )
    assert done.returncode == 0, done.stderr
    assert "chb" in done.stdout
