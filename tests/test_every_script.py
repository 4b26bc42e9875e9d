"""Every script under analysis/ runs in a test, in a reduced form; those without a file are here."""

import ast
import csv
import importlib
import json
import logging
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from io import StringIO
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from tests.conftest import ROOT
from tests.scripts import script

ANALYSIS = ROOT / "analysis"
PEERS = ANALYSIS / "benchmarks/peers"

TESTED = {
    "adapters/fine_tuning": "addons/torch/test_adapters",
    "adapters/low_rank": "addons/torch/test_adapters",
    "benchmarks/client_round": "test_benchmarks",
    "benchmarks/compiling": "test_benchmarks",
    "benchmarks/evaluators": "test_benchmarks",
    "benchmarks/growth": "test_benchmarks",
    "benchmarks/live": "test_benchmarks",
    "benchmarks/memory": "test_benchmarks",
    "benchmarks/peers_graph": "test_benchmarks",
    "benchmarks/privacy": "test_benchmarks",
    "benchmarks/regression": "test_benchmarks",
    "benchmarks/scale": "test_benchmarks",
    "benchmarks/scale_figure": "test_benchmarks",
    "benchmarks/secrecy": "test_benchmarks",
    "benchmarks/star_scaling": "test_benchmarks",
    "benchmarks/table_one": "test_benchmarks",
    "benchmarks/tcp_messages": "test_benchmarks",
    "benchmarks/wire": "test_benchmarks",
    "claims": "test_claims",
    "claim_stages": "test_claims",
    "designing": "addons/robustness/test_told",
    "flower_examples": "addons/flower/test_examples",
    "live/fuzz": "addons/live/test_fuzz",
    "live/hostile": "addons/live/test_hostile",
    "papers/run": "test_papers",
    "reality/calibrating": "test_reality",
    "reality/energy": "test_reality_energy",
    "reality/meters": "test_reality_meters",
    "reality/kept": "test_reality_kept",
    "reality/kernel": "test_reality_linux",
    "reality/live_links": "test_reality_live",
    "reality/lora": "addons/lorawan/test_lora_network",
    "reality/packets": "test_reality",
    "reality/transfers": "test_reality",
    "reality/regimes": "test_reality_table",
    "reality/run": "test_reality_table",
    "reality/stored": "test_reality_table",
    "reality/wifi": "test_reality_wifi",
    "reality/worst": "test_reality",
    "studies/best_by_radio": "addons/repricing/test_study",
    "studies/censoring_and_tails": "test_studies",
    "studies/compression_and_shared_uplink": "test_studies",
    "studies/conducting": "test_studies",
    "studies/honest_bits": "test_studies",
    "studies/language_model": "test_studies",
    "studies/mnist_in_20_lines": "test_studies",
    "studies/networks_on_mnist": "test_studies",
    "studies/price_of_privacy": "test_studies",
    "studies/rules_and_attacks": "test_studies",
    "studies/savings_under_secrecy": "test_studies",
    "studies/selection": "test_studies",
    "studies/who_dies_first": "test_studies",
    "reality/mrg": "test_reality",
    "claim_robustness": "addons/robustness/test_told",
    "walkthrough": "test_walkthrough",
}
"""Script -> the file of tests that runs it; those of this file are marked with `reduced`."""

IMPORTED = {
    "robustness_questions": "claim_robustness",
    "claim_checks": "claims",
    "reproduction": "papers/run",
    "linux": "reality/kernel",
}
"""Packages that a script imports, and the script."""

HERE: set[str] = set()
"""Scripts that a test of this file runs."""

Test = Callable[..., None]


def reduced(*names: str) -> Callable[[Test], Test]:
    """Say which scripts a test of this file runs."""
    HERE.update(names)
    return lambda test: test


@pytest.mark.slow
def test_every_script_runs_in_some_test() -> None:
    every = {
        path.relative_to(ANALYSIS).with_suffix("").as_posix()
        for path in ANALYSIS.rglob("*.py")
        if path.name != "__init__.py" and path.parent.name not in IMPORTED
    }
    for package, name in IMPORTED.items():
        assert f"from {package}" in (ANALYSIS / f"{name}.py").read_text(encoding="utf-8")
    missing, gone = every - HERE - TESTED.keys(), (HERE | TESTED.keys()) - every
    assert not missing, f"in no test: {', '.join(sorted(missing))}"
    assert not gone, f"no such script: {', '.join(sorted(gone))}"
    for name, file in TESTED.items():
        text = (ROOT / f"tests/{file}.py").read_text(encoding="utf-8")
        words = {part.value for part in ast.walk(ast.parse(text)) if isinstance(part, ast.Constant)}
        names = {alias.name for part in ast.walk(ast.parse(text)) for alias in _imported(part)}
        own = name.rpartition("/")[2]
        known = {own, own.replace("_", "-"), name, name.replace("/", "."), f"{own}.py"}
        said = any(isinstance(word, str) and any(each in word for each in known) for word in words)
        assert said or known & names, f"tests/{file}.py does not name {name}"


@pytest.mark.slow
@reduced("ten_minutes")
def test_the_ten_minutes_begin_on_each_table(tmp_path: Path) -> None:
    walk = script("ten_minutes")
    found = {}
    for table in walk.TABLES:
        folder = tmp_path / table.name
        folder.mkdir()
        found[table.name] = walk.study(table, folder, most=2)
    seen = {name: "\n".join(step.output for step in steps) for name, steps in found.items()}
    assert "569,30,malignant,benign" in seen["breast-cancer"]
    assert "1045 samples" in seen["titanic"].replace(",", "")
    assert "2 rows without a client are left out" in seen["titanic"]
    spoiled = seen["pinguine-2009"]
    assert "semicolons, Latin-1, after 2 lines of another form" in spoiled
    assert "3 repeated rows are left out" in spoiled
    assert "275 samples over 3 clients" in spoiled  # one for each island
    written = walk.page(found)
    assert written.count("$ fedsim check") == 3
    assert "| `fedsim init` |" in written


def _imported(part: ast.AST) -> list[ast.alias]:
    if isinstance(part, ast.ImportFrom):
        return [ast.alias(part.module or ""), *part.names]
    return part.names if isinstance(part, ast.Import) else []


# SimGrid


@pytest.fixture
def simgrid(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Any:
    """Return the comparison with SimGrid over four platforms, its table elsewhere."""
    monkeypatch.syspath_prepend(str(ANALYSIS / "simgrid"))
    monkeypatch.delitem(sys.modules, "compare", raising=False)
    study = importlib.import_module("compare")
    monkeypatch.setattr(study, "PLATFORMS", 4)
    monkeypatch.setattr(study, "TABLE", tmp_path / "arrivals.csv")
    yield study
    sys.modules.pop("compare", None)


def recorded(platforms: int) -> list[list[str]]:
    """Return the first rows of the table in the repository, with its head."""
    with (ANALYSIS / "simgrid/arrivals.csv").open(encoding="utf-8") as file:
        head, *rows = csv.reader(file)
    return [head, *(row for row in rows if int(row[0]) < platforms)]


@pytest.mark.slow
@reduced("simgrid/compare")
def test_the_comparison_with_simgrid_asks_it_and_writes_what_it_says(
    simgrid: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """SimGrid's part is what it said once; what it is asked has all that it needs."""
    rows = recorded(4)[1:]

    def said(command: list[str], **options: Any) -> subprocess.CompletedProcess[str]:
        job = json.loads(options["input"])
        assert Path(command[1]).name == "reference.py"
        assert all(rate > 0 and latency >= 0 for rate, latency in job["links"])
        assert all(0 <= link < len(job["links"]) for route in job["routes"] for link in route)
        own = [float(row[4]) for row in rows[: len(job["messages"])]]
        assert {(row[0], row[2]) for row in rows[: len(own)]} == {(rows[0][0], job["model"])}
        del rows[: len(own)]
        return subprocess.CompletedProcess(command, 0, json.dumps({"arrivals": own}), "")

    monkeypatch.setattr(simgrid.subprocess, "run", said)
    simgrid.main(["python"])
    assert not rows
    with simgrid.TABLE.open(encoding="utf-8") as file:
        written = list(csv.reader(file))
    assert [row[:6] for row in written] == [row[:6] for row in recorded(4)]
    assert "held up by others" in capsys.readouterr().out


def with_simgrid() -> str:
    """Return an interpreter that has SimGrid's module: this one, or the system's."""
    for python in (sys.executable, "/usr/bin/python3"):
        command = [python, "-c", "import simgrid"]
        if Path(python).exists():
            tried = subprocess.run(command, check=False, capture_output=True)
            if not tried.returncode:
                return python
    pytest.skip("no interpreter has SimGrid's module (Debian's python3-simgrid)")


@pytest.mark.slow
@reduced("simgrid/reference")
def test_simgrid_itself_says_when_messages_arrive(simgrid: Any) -> None:
    for number, model in ((0, "fluid"), (1, "lv08")):
        one = simgrid.platform(number)
        theirs = simgrid.by_simgrid(one, model, with_simgrid())
        assert simgrid.by_fedsim(one, model) == pytest.approx(theirs, rel=1e-8)


# The hashes of logs


@pytest.mark.slow
@reduced("log_hashes")
def test_hashes_of_logs_are_recorded_and_compared(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    hashes = script("log_hashes")
    (tmp_path / "scenarios").mkdir()
    shutil.copy(ROOT / "scenarios/censoring.yaml", tmp_path / "scenarios")
    monkeypatch.setattr(hashes, "ROOT", tmp_path)
    file = tmp_path / "hashes.json"
    monkeypatch.setattr(sys, "argv", ["log_hashes.py", "record", str(file)])
    hashes.main()
    monkeypatch.setattr(sys, "argv", ["log_hashes.py", "compare", str(file)])
    with pytest.raises(SystemExit) as same:
        hashes.main()
    assert (same.value.code, capsys.readouterr().out) == (0, "every log is what it was\n")
    known = json.loads(file.read_text(encoding="utf-8"))
    assert list(known["scenarios/censoring.yaml"]) == ["chb/seed-1", "hb/seed-1", "gd/seed-1"]
    known["scenarios/censoring.yaml"]["gd/seed-1"] = "another"
    file.write_text(json.dumps(known), encoding="utf-8")
    with pytest.raises(SystemExit) as other:
        hashes.main()
    assert other.value.code == 1
    assert "censoring.yaml gd/seed-1: another before" in capsys.readouterr().out


# Coverage


@pytest.mark.slow
@reduced("interval_coverage")
@pytest.mark.filterwarnings("ignore::fedsim.TheoryWarning")  # it censors harshly on purpose
def test_the_coverage_of_intervals_is_counted_over_a_pool(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    coverage = script("interval_coverage")
    quick, second = coverage.STUDIES
    fewer = quick.overrides[0], "stop={rounds: 4, gap: 60}", *quick.overrides[2:]
    monkeypatch.setattr(coverage, "STUDIES", (replace(quick, overrides=fewer), second))
    few = ["--seeds", "2", "--worlds", "16", "--draws", "10", "--out", str(tmp_path)]
    coverage.main(few)
    rows = capsys.readouterr().out.splitlines()[4:]
    assert len(rows) == 2 * sum(len(study.pairs) for study in coverage.STUDIES)
    shares = [float(share) for row in rows for share in re.findall(r"([\d.]+)%", row)]
    assert all(0 <= share <= 100 for share in shares)
    constant = np.log(np.full((3, 50), 0.5))  # one is cheaper by half in every seed and world
    for covered in (coverage.typical_coverage, coverage.run_coverage):
        truth, held, width, _ = covered(constant, 5, np.random.default_rng(1))
        assert (truth, held) == (1.0, 1.0)
        assert width < 0.05
    coverage.main(["--ratios", "--draws", "20"])
    tables = [line.split("|")[1:-1] for line in capsys.readouterr().out.splitlines() if line]
    laws = {row[0].strip() for row in tables[2:] if len(row) == 8}
    assert laws == set(coverage.LAWS)


# Benchmarks that need others' packages


def run_benchmark(
    name: str, monkeypatch: pytest.MonkeyPatch, folder: Path, *arguments: str, **constants: object
) -> None:
    """Run a benchmark's main with arguments, in a folder of its own."""
    benchmark = script(f"benchmarks/{name}")
    for key, value in constants.items():
        monkeypatch.setattr(benchmark, key, value)
    monkeypatch.chdir(folder)
    monkeypatch.setattr(sys, "argv", [name, *arguments])
    benchmark.main()


@pytest.mark.slow
@reduced("benchmarks/robustness")
def test_the_benchmark_of_robustness_prints_its_ratios(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    few = "--rounds", "2", "--worlds", "8"
    two = {"gd": {"kind": "gd", "step_size": "1/L"}, "hb": {"kind": "hb", "step_size": "1/L"}}
    run_benchmark("robustness", monkeypatch, tmp_path, *few, METHODS=two)
    said = capsys.readouterr().out
    assert said.count("; ratio ") == 2
    assert said.startswith("open")


@pytest.mark.slow
@reduced("benchmarks/log_questions")
def test_the_benchmark_of_questions_prints_a_row_a_question(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    two = dict.fromkeys(("silences", "staleness"))
    run_benchmark("log_questions", monkeypatch, tmp_path, "3000", QUESTIONS=two)
    lines = capsys.readouterr().out.splitlines()[1:]
    assert [line.split()[0] for line in lines] == [*two, *two]  # ten runs, one run


@pytest.mark.slow
@reduced("benchmarks/log_engines")
def test_pandas_arrow_and_polars_give_the_same_answers(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("polars", reason="polars is not installed")
    run_benchmark("log_engines", monkeypatch, tmp_path, "3000")
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines[2:]] == ["bits_by_message", "round_outcomes"]


@pytest.mark.slow
@pytest.mark.needs("torch")
@pytest.mark.needs("flower")
@reduced("benchmarks/flower_bridge")
def test_the_benchmark_of_the_bridge_prints_its_ratio(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    few = ("--clients", "2", "--rounds", "1", "--repeats", "1")
    run_benchmark("flower_bridge", monkeypatch, tmp_path, *few)
    direct, simulated, ratio = capsys.readouterr().out.splitlines()[-3:]
    assert direct.startswith("direct: ")
    assert simulated.startswith("fedsim: ")
    assert float(ratio.removeprefix("ratio: ")) > 0


@pytest.mark.slow
@pytest.mark.needs("dask")
@reduced("benchmarks/cluster_overhead")
def test_the_benchmark_of_the_cluster_prints_a_row_a_way(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    few = ("--runs", "5", "--rounds", "1", "--repeats", "2")
    run_benchmark("cluster_overhead", monkeypatch, tmp_path, *few)
    rows = capsys.readouterr().out.splitlines()[-2:]
    assert [row.split("  ")[0] for row in rows] == ["one process", "cluster"]


@pytest.mark.slow
@reduced("benchmarks/watching")
def test_the_benchmark_of_the_live_page_prints_a_ratio(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run_benchmark("watching", monkeypatch, tmp_path, "--rounds", "2", "--turns", "2")
    rows = [line.split("|") for line in capsys.readouterr().out.splitlines()[-2:]]
    assert [row[1].strip(" `") for row in rows] == ["run", "run --watch"]
    assert all(float(row[3].split()[0]) > 0 for row in rows)


@pytest.mark.slow
@pytest.mark.needs("torch")
@reduced("benchmarks/training")
def test_the_benchmark_of_training_prints_a_plain_loop_and_fedsim(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("FEDSIM_THREADS", "1")  # put back afterwards: the script sets it
    few = ("--networks", "small", "--ways", "adam", "--turns", "1", "--threads", "1")
    run_benchmark("training", monkeypatch, tmp_path, *few)
    first, own = capsys.readouterr().out.splitlines()[-2:]
    assert first.split()[-2:] == ["1.00", "1.00"]
    assert own.startswith("  fedsim ")
    assert all(float(each) > 0 for each in own.split()[1:])


# Contestants


@pytest.fixture
def peers(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """Return a folder with the workloads w1 and w5, of few clients."""
    monkeypatch.syspath_prepend(str(PEERS))
    for name in ("workloads", "turns", "networks"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    workloads = importlib.import_module("workloads")
    for name, clients in (("w1", 12), ("w5", 4)):
        few = workloads.WORKLOADS[name]._replace(clients=clients)
        monkeypatch.setitem(workloads.WORKLOADS, name, few)
        file = workloads.prepare(name, tmp_path)
        text = file.read_text(encoding="utf-8").replace(
            f"count: {500 if name == 'w1' else 100}, device", f"count: {clients}, device"
        )
        file.write_text(text, encoding="utf-8")
    return tmp_path


def a_turn(
    name: str,
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    *arguments: str,
    **constants: object,
) -> tuple[int, float]:
    """Let a contestant get ready and take a turn; return its updates and seconds."""
    contestant = script(f"benchmarks/peers/contestant_{name}")
    for key, value in constants.items():
        monkeypatch.setattr(contestant, key, value)
    monkeypatch.setattr(sys, "argv", [name, *arguments[:1], str(folder), *arguments[1:]])
    monkeypatch.setattr(sys, "stdin", StringIO("go\n"))
    contestant.main()
    ready, done = capsys.readouterr().out.splitlines()[-2:]
    assert ready == "ready"
    updates, seconds, _ = done.split()
    return int(updates), float(seconds)


@pytest.mark.slow
@reduced(
    "benchmarks/peers/contestant_fedsim",
    "benchmarks/peers/contestant_limit",
    "benchmarks/peers/contestant_numpy",
)
@pytest.mark.parametrize(
    ("name", "given", "constants", "updates"),
    [
        ("fedsim", ("reference", "stop.rounds=4", "algorithm.local_steps=2"), {}, 2 * 10),
        ("limit", (), {"UPDATES": {"w1": 4}}, 4),
        ("numpy", (), {"UPDATES": {"w1": 3}}, 3),
    ],
)
def test_contestants_at_the_dense_workload_take_turns(
    name: str,
    given: tuple[str, ...],
    constants: dict[str, object],
    updates: int,
    peers: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    done, seconds = a_turn(name, peers, monkeypatch, capsys, "w1", *given, **constants)
    assert done == updates
    assert seconds > 0


@pytest.mark.slow
@pytest.mark.needs("torch")
@reduced(
    "benchmarks/peers/contestant_torch",
    "benchmarks/peers/networks",
    "benchmarks/peers/turns",
    "benchmarks/peers/workloads",
)
def test_the_plain_loop_trains_a_network_in_turns(
    peers: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    torch = importlib.import_module("torch")
    threads = torch.get_num_threads()
    networks = importlib.import_module("networks")
    for key, value in {"CLIENTS": 4, "ASKED": 2, "ROUNDS": 1}.items():
        monkeypatch.setattr(networks, key, value)
    try:
        done, _ = a_turn("torch", peers, monkeypatch, capsys, "w5", "1")
    finally:
        torch.set_num_threads(threads)
    assert done == 2


@pytest.mark.slow
@pytest.mark.peers
@reduced("benchmarks/peers/contestant_fedjax", "benchmarks/peers/contestant_pfl")
@pytest.mark.parametrize(("name", "workload"), [("fedjax", "w1"), ("pfl", "w5")])
def test_other_simulators_take_turns_where_they_are_installed(
    name: str,
    workload: str,
    peers: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    pytest.importorskip(name, reason=f"{name} is not installed")
    few: dict[str, object] = {"ASKED": {workload: 2}, "ROUNDS": {workload: 1}}
    if name == "pfl":
        few = {"CLIENTS": 4, "ASKED": 2, "ROUNDS": 1}
    assert a_turn(name, peers, monkeypatch, capsys, workload, **few)[0] == 2


@pytest.mark.slow
@pytest.mark.needs("torch")
@pytest.mark.needs("flower")
@reduced("benchmarks/peers/contestant_flwr")
@pytest.mark.parametrize("workload", ["w1", "w5"])
def test_flower_s_contestant_trains_and_averages_in_turns(
    workload: str,
    peers: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Its engine, which starts processes for minutes, is a loop here; all else is Flower's."""
    common = importlib.import_module("flwr.common")

    def simulate(server_app: Any, client_app: Any, num_supernodes: int, **_: object) -> None:
        strategy, config = server_app.strategy, server_app.config
        parameters = strategy.initial_parameters
        for number in range(1, config.num_rounds + 1):
            results = []
            for client in range(round(strategy.fraction_fit * num_supernodes)):
                context = SimpleNamespace(node_config={"partition-id": client})
                fitted = client_app(context).fit(common.FitIns(parameters, {}))
                results.append((None, fitted))
            parameters, _figures = strategy.aggregate_fit(number, results, [])

    clients = {"w1": 12, "w5": 4}[workload]
    parts = {
        "ServerApp": lambda server_fn: server_fn(None),
        "ClientApp": lambda client_fn: client_fn,
        "run_simulation": simulate,
        "CLIENTS": {workload: clients},
        "ASKED": {workload: 2},
        "ROUNDS": {workload: 2},
    }
    torch = importlib.import_module("torch")
    threads = torch.get_num_threads()
    try:
        done, seconds = a_turn("flwr", peers, monkeypatch, capsys, workload, **parts)
    finally:
        torch.set_num_threads(threads)
        logging.disable(logging.NOTSET)
    assert done == 2
    assert seconds > 0


@pytest.mark.slow
@reduced("benchmarks/kernels")
def test_kernels_are_compared_with_numpy_and_stacks(
    peers: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kernels = script("benchmarks/kernels")
    monkeypatch.setattr(kernels, "UPDATES", {"w1": kernels.STACK})
    monkeypatch.setattr(kernels, "prepare", lambda *_: None)  # it is prepared, with fewer clients
    found = kernels.measure("w1", peers, 1)
    assert len(found) == 3
    assert min(found) > 0


@pytest.mark.slow
def test_the_table_of_gradients_has_a_row_for_each_number_of_features(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    kernels = script("benchmarks/kernels")
    monkeypatch.setattr(kernels, "FEATURES", (3, 5))
    monkeypatch.setattr(kernels, "SIZES", (20, 30))
    kernels.gradients(1)
    _, _, *rows = capsys.readouterr().out.splitlines()
    ratios = [
        float(each) for row in rows for cell in row.split("|")[2:-1] for each in cell.split(",")
    ]
    assert len(ratios) == 2 * len(kernels.LOSSES) * 2
    assert min(ratios) > 0


@reduced("benchmarks/peers/compare")
def test_contestants_are_compared_by_their_medians(
    peers: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delitem(sys.modules, "compare", raising=False)
    comparison = script("benchmarks/peers/compare")
    stand_in = "from turns import Turn, take_turns\ntake_turns(lambda: Turn(6, {seconds}))\n"
    for name, seconds in {"limit": 1.0, "numpy": 2.0, "fedsim": 3.0}.items():
        text = stand_in.format(seconds=seconds)
        (peers / f"contestant_{name}.py").write_text(text, encoding="utf-8")
    shutil.copy(PEERS / "turns.py", peers)
    monkeypatch.setattr(comparison, "HERE", peers)
    monkeypatch.setattr(comparison, "prepare", lambda *_: None)
    arguments = ["--workloads", "w1", "--turns", "2", "--folder", str(peers)]
    monkeypatch.setattr(sys, "argv", ["compare.py", *arguments])
    comparison.main()
    rows = [line.split() for line in capsys.readouterr().out.splitlines()[3:]]
    assert [(row[-2], row[-1]) for row in rows] == [("6", "1.00"), ("3", "0.50")] + [
        ("2", "0.33")
    ] * len(comparison.FEDSIM)
    others = {name: set(able) for name, able in comparison.ABLE.items()}
    assert others.keys() == comparison.OTHERS.keys()
    assert all(able <= set(_workloads()) for able in others.values())


def _workloads() -> list[str]:
    return [path.stem for path in PEERS.glob("w*.yaml")]
