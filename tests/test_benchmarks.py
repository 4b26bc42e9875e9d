"""The benchmarks run, in a reduced form, and compare like with like. No time is judged."""

import importlib
import json
import subprocess
import sys
from math import inf, isnan, nan
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from numba import njit

from fedsim.physics.topology import Topology, star
from fedsim.problems import Logistic, Problem, Softmax
from fedsim.problems.kernels import sgd_steps
from fedsim.running.run import execute
from fedsim.scenario import load
from fedsim.scenario.building import Builder
from fedsim.wire import encode
from tests.conftest import ROOT
from tests.problems.examples import samples
from tests.scripts import script
from tests.tiers import every

BENCHMARKS = ROOT / "analysis/benchmarks"


def module(name: str) -> Any:
    """Return a benchmark's script as a module."""
    return script(f"benchmarks/{name}")


@pytest.mark.parametrize("server", [None, star(100, downlink=5e7, uplink=5e7)])
def test_a_client_round_passes_the_audit(server: Topology | None) -> None:
    assert module("client_round").client_rounds(server, 3) is None


@pytest.mark.parametrize("tails", [True, False])
def test_a_client_round_of_a_fleet_costs_something(
    *, tails: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(BENCHMARKS)
    module("scale").write_data(tmp_path / "data.npz", 200)
    every, own = module("client_round").active(20, 4, tmp_path / "data.npz", tails=tails)
    assert 0 < own <= every


@pytest.mark.slow
@pytest.mark.usefixtures("real_data")
def test_the_plain_loop_sends_what_the_simulated_run_sends(tmp_path: Path) -> None:
    benchmark = module("table_one")
    plan = load(
        benchmark.SCENARIO, overrides=["variants={}", "fleet=[]", "network={}", "stop.rounds=60"]
    )
    folder = execute(Builder(plan).build(plan.variants[0], 1), tmp_path)
    summary = json.loads((folder / "summary.json").read_text())
    assert benchmark.plain(benchmark.parts_of(plan), 60) == summary["transmissions"]


@pytest.mark.parametrize("case", ["fair link", "fluid network", "fluid network, watched"])
def test_a_star_ends_in_the_order_of_sizes(case: str) -> None:
    benchmark = module("star_scaling")
    assert benchmark.star(benchmark.CASES[case], 20) == list(range(20))[::-1]


@pytest.mark.slow
def test_messages_of_peers_are_counted_against_those_of_a_star(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    benchmark = module("peers_graph")
    monkeypatch.setenv("FEDSIM_ROUNDS", "events")  # which it sets
    monkeypatch.setattr(benchmark, "NODES", 4)
    monkeypatch.setattr(benchmark, "ROUNDS", 5)
    monkeypatch.setattr(
        sys, "argv", ["peers_graph.py", "--nodes", "6", "--walkers", "9", "--rounds", "3"]
    )
    monkeypatch.setattr(benchmark, "RANGE", 1.0)
    monkeypatch.setitem(benchmark.WALK, "range", "1.5 km")
    benchmark.main()
    *both, standing, walking, ring = capsys.readouterr().out.splitlines()
    for how, lines in (("events", both[:3]), ("arrays", both[3:])):
        # 4 nodes, two neighbours, 5 rounds; and down and up.
        assert lines[0].startswith(f"{how}, d-psgd: 40 messages")
        assert lines[1].startswith(f"{how}, star: 40 messages")
    assert standing.startswith("standing: 9 nodes, 3 rounds, ")
    assert walking.startswith("walking: 9 nodes, 3 rounds, 216 messages")  # all are in range
    assert ring.startswith("a ring: 6 nodes, 3 rounds, 36 messages")


@pytest.mark.slow
def test_messages_of_both_models_arrive(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    benchmark = module("tcp_messages")
    for name in ("REPEATS", "AGAIN", "RUNS"):
        monkeypatch.setattr(benchmark, name, 1)
    monkeypatch.setattr(benchmark, "ROUNDS", 2)
    monkeypatch.setattr(benchmark, "SIZES", {"10 kB": 8e4})
    worlds = benchmark.worlds
    monkeypatch.setattr(worlds, "COMPILED_FROM", worlds.COMPILED_FROM)  # which it sets
    benchmark.main()
    head, *rows = capsys.readouterr().out.splitlines()
    forms = ["objects", "ratio", "kernels", "ratio"]
    assert head.split() == ["queue", "message", "fluid", *forms, "again", "ratio"]
    queues, runs = rows[: len(benchmark.QUEUES)], rows[len(benchmark.QUEUES) :]
    assert [row[:22].strip() for row in queues] == list(benchmark.QUEUES)
    assert runs[0].split() == ["whole", "run", "message", "fluid", *forms]
    assert [row[:22].strip() for row in runs[1:]] == ["rounds recur", "no round recurs"]


def test_the_live_benchmark_counts_rounds(monkeypatch: pytest.MonkeyPatch) -> None:
    benchmark = module("live")
    monkeypatch.setattr(benchmark, "SHORT", 2)
    found = benchmark.rates(6, 60, 0)
    assert found.keys() == {"wall clock", "processor", "all processors"}
    assert found["all processors"] <= found["processor"]
    assert all(rate > 0 for rate in found.values())


def test_the_live_benchmark_has_no_rate_where_the_longer_run_took_no_longer(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As on a busy machine, where clocks of processes stand still, or a short run has waited."""
    benchmark = module("live")
    costs = iter([benchmark.Cost(2.0, 0.5, 0.25), benchmark.Cost(1.0, 0.5, 0.25)])
    monkeypatch.setattr(benchmark, "measure", lambda *_: next(costs))
    assert set(benchmark.rates(6, 60, 0).values()) == {inf}
    costs = iter([benchmark.Cost(2.0, 0.5, 0.25), benchmark.Cost(4.0, 0.75, 1.25)])
    found = benchmark.rates(6, benchmark.SHORT + 10, 0)
    assert found == {"wall clock": 300, "processor": 600, "all processors": 600 / 1.25}


def test_kernels_of_tcp_have_one_version_each_by_their_benchmark() -> None:
    """Counts alone: of modules that have a function that is twice here, and once there."""
    benchmark = module("compiling")
    twice, once = njit(_same), njit(_same)
    for types in ("int64(int64)", "float64(float64)"):
        twice.compile(types)
    once.compile("int64(int64)")
    made = ModuleType(f"{benchmark.PACKAGE}.made")
    for name, each in {"twice": twice, "once": once}.items():
        each.py_func.__module__ = made.__name__
        vars(made)[name] = each
    other = ModuleType("fedsim.other")
    vars(other)["twice"] = twice
    found = dict(benchmark.versions({made.__name__: made, other.__name__: other}))
    assert found == {"made.twice": 2, "made.once": 1}


@pytest.mark.slow
def test_no_function_of_tcp_s_kernels_is_compiled_for_several_types(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A second version takes time, and none of them is called: Numba may only guess at it.

    Which there are is known before the code is optimised.
    """
    monkeypatch.setenv("NUMBA_OPT", "0")
    module("compiling").main()
    assert capfd.readouterr().out.endswith("; several: none\n")


def _same(number: float) -> float:
    return number


def test_the_wire_benchmark_prices_payloads_of_true_length() -> None:
    benchmark = module("wire")
    payloads = [*benchmark.compressed(1000), ("drawn", benchmark.drawn(100, 1000))]
    for name, payload in payloads:
        assert payload.bits == 8 * len(encode(payload)), name
        assert len(benchmark.costs(payload, 1)) == 3


@pytest.mark.slow
def test_the_memory_benchmark_s_child_prints_a_peak() -> None:
    command = [sys.executable, str(BENCHMARKS / "memory.py"), "log", "--alone", "2"]
    out = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    assert int(out) > 10_000  # kB


@pytest.mark.needs("secrecy")
def test_the_benchmark_of_secrecy_has_a_row_for_each_protocol(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Counted and exact, with the same bits: SecAgg has 7 n - 4 keys and shares of 256 bits."""
    monkeypatch.syspath_prepend(BENCHMARKS)
    benchmark = module("secrecy")
    monkeypatch.setattr(benchmark, "FEATURES", 20)
    monkeypatch.setattr(sys, "argv", ["secrecy.py", "--sizes", "6", "--exact", "6"])
    benchmark.main()
    rows = [line.split() for line in capsys.readouterr().out.splitlines()[1:]]
    assert [row[0] for row in rows] == 2 * list(benchmark.PROTOCOLS)
    bits = [[row[0], row[1], *row[4:]] for row in rows]
    assert bits[:4] == bits[4:]
    plain, secret = (float(row[3]) + float(row[2]) for row in bits[:2])
    assert secret - plain > 256 * (7 * 6 - 4) / 1e3


@pytest.mark.slow
@pytest.mark.needs("torch")
def test_the_memory_benchmark_trains_networks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(BENCHMARKS)
    training = importlib.import_module("training")
    monkeypatch.setattr(training, "w5", training.mlp)
    memory = module("memory")
    for way in memory.WAYS.values():
        memory.train_clients(way, clients=2)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("form", "kind"), [("active", "full"), ("registered", "uniform"), ("registered", "twice")]
)
def test_the_benchmark_of_scale_measures_both_forms(form: str, kind: str, tmp_path: Path) -> None:
    command = [sys.executable, str(BENCHMARKS / "scale.py"), "--form", form, "--one", "600"]
    command += ["--rows", "3", "--kind", kind, "--data", str(tmp_path / "data.npz")]
    subprocess.run([*command, "--write"], check=True)
    out = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    figures = json.loads(out)
    assert set(figures) == {"start", "round", "first", "end", "peak", "client", "log"}
    assert isnan(figures["first"]) == (kind != "twice")
    assert 0 < figures["log"] < 1000  # bytes


def test_figures_of_scale_are_kept_by_form_rows_and_size(tmp_path: Path) -> None:
    scale, file = module("scale"), tmp_path / "scale.csv"
    figures = dict.fromkeys(scale.FIGURES, 0.25)
    scale.keep(file, "registered", 2, 1000, figures)
    scale.keep(file, "active", 10, 10_000, figures | {"first": nan})
    scale.keep(file, "active", 2, 10_000, figures)
    scale.keep(file, "registered", 2, 1000, figures | {"round": 0.5})
    kept = scale.kept(file)
    assert list(kept) == [("active", 2, 10_000), ("active", 10, 10_000), ("registered", 2, 1000)]
    assert kept["registered", 2, 1000] == figures | {"round": 0.5}
    assert isnan(kept["active", 10, 10_000]["first"])


@pytest.mark.slow
def test_the_figure_of_scale_is_drawn_from_its_table(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    drawing = module("scale_figure")
    monkeypatch.setattr(drawing, "FIGURE", tmp_path / "scale.png")
    drawing.main()
    assert (tmp_path / "scale.png").read_bytes().startswith(b"\x89PNG")
    rows = capsys.readouterr().out.splitlines()[2:]
    assert len(rows) == len(module("scale").kept(drawing.TABLE))
    assert "\n".join(rows) in (ROOT / "docs/explanation/speed.md").read_text(encoding="utf-8")
    assert drawing.row("active", 1000, dict.fromkeys(module("scale").FIGURES, 0.5)) == (
        "| 1,000 active | 0.50 s | 0.50 s | 0.50 s | 0 us | 0 MB | 0 B |"
    )


@every("workload", ["w1", "w2", "w3", "w4"])
def test_each_workload_is_run_as_it_comes_in_both_precisions_compiled_and_by_the_reference(
    workload: str,
) -> None:
    plan = load(BENCHMARKS / f"peers/{workload}.yaml")
    made = [(each.scenario.evaluator, each.scenario.precision) for each in plan.variants]
    assert made == [
        (None, "float64"),
        (None, "float32"),
        ("compiled", "float64"),
        ("one-by-one", "float64"),
    ]


def test_the_plain_loops_compute_what_the_clients_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(BENCHMARKS / "peers"))
    loops = module("peers/contestant_numpy")
    rng, same = np.random.default_rng(1), np.random.default_rng(1)
    (local,) = Problem.of(Softmax(), [samples(rows=100, features=5)]).losses
    rows, labels = local.arranged.X, local.arranged.t.argmax(axis=1)
    steps = loops.softmax_steps(rows, labels, np.zeros((5, 2)), 3, rng)
    drawn = tuple(same.choice(100, 50, replace=False, shuffle=False) for _ in range(3))
    np.testing.assert_allclose(
        steps.ravel(), sgd_steps(local, np.zeros(10), 0.01, drawn, None), rtol=1e-10, atol=1e-14
    )
    data = samples(rows=30, features=5)
    (local,) = Problem.of(Logistic(), [data]).losses
    steps = loops.logistic_steps(data.X, data.y, np.zeros(5), 3)
    np.testing.assert_allclose(steps, sgd_steps(local, np.zeros(5), 1.0, (None,) * 3, None))


@pytest.mark.parametrize("power", [0.5, 1.0, 1.5])
def test_the_exponent_of_growth_is_that_of_a_power(power: float) -> None:
    growth = module("growth")
    costs = {size: 3.0 + 0.01 * (size - 10) ** power for size in (10, 1000, 10_000, 100_000)}
    assert growth.exponent(costs) == pytest.approx(power)


def test_the_exponent_of_what_does_not_grow_is_nothing_and_of_one_step_unknown() -> None:
    growth = module("growth")
    assert growth.exponent({10: 1.0, 100: 1.05, 1000: 0.9}) == 0.0
    assert isnan(growth.exponent({10: 1.0, 100: 1.05, 1000: 9.0}))


def test_the_table_of_growth_marks_what_grows_faster_than_its_size() -> None:
    growth = module("growth")
    slow = {n: {"processor": 1e-3 * n, "memory": 200.0, "log": n**1.2} for n in (10, 100, 1000)}
    row = growth.table({"rounds": slow}).splitlines()[-1]
    assert row.startswith("| rounds | 10 | 1,000 | 0.01 to 1 s | 200 to 200 MB |")
    assert row.endswith("| 1.00, 0.00, **1.18** |")


@pytest.mark.slow
def test_every_axis_of_growth_runs_at_a_small_size_and_keeps_its_figures(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    growth = module("growth")
    sizes = {"registered": 1200, "rows": 200, "dimension": 30}
    found: dict[str, dict[int, Any]] = {}
    for axis in growth.AXES:
        found[axis] = {sizes.get(axis, 20): growth.child(axis, sizes.get(axis, 20))}
        assert all(value > 0 for value in found[axis][sizes.get(axis, 20)].values())
    growth.keep(tmp_path / "growth.csv", found)
    kept = growth.kept(tmp_path / "growth.csv")
    assert kept.keys() == found.keys()
    growth.draw(kept, tmp_path / "growth.png")
    assert (tmp_path / "growth.png").read_bytes().startswith(b"\x89PNG")


def test_the_page_on_speed_has_the_table_of_growth() -> None:
    growth = module("growth")
    page = (ROOT / "docs/explanation/speed.md").read_text(encoding="utf-8")
    assert growth.table(growth.kept(growth.TABLE)) in page


def test_a_ratio_that_doubled_is_slower(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    bench = module("regression")
    assert bench.slower({"a": 2.0, "b": 0.1, "c": 1.0}, {"a": 1.0, "b": 1.0}) == ["c"]
    assert bench.slower({"a": 2.1, "b": nan}, {"a": 1.0, "b": 1.0}) == ["a", "b"]
    bench.store({"a": 1.234}, tmp_path / "ratios.csv")
    assert bench.stored(tmp_path / "ratios.csv") == {"a": 1.23}
    assert bench.stored().keys() == bench.RATIOS.keys()


def test_what_is_chosen_is_held_against_what_may_be_named(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Twelve kinds of work, of which one takes twice as long as it might."""
    bench = module("evaluators")
    small = {name: work._replace(rows=20) for name, work in bench.WORKS.items()}
    monkeypatch.setattr(bench, "WORKS", small)
    monkeypatch.setattr(bench, "chosen", lambda _: "compiled")
    monkeypatch.setattr(bench, "LOADING", 0.0)
    monkeypatch.setattr(sys, "argv", ["evaluators.py", "--turns", "1"])

    def seconds(scenario: dict[str, Any], rounds: int, evaluator: str) -> float:
        wide = (
            scenario["algorithm"]["kind"] == "gd" and "wide" in scenario["problem"]["data"]["path"]
        )
        slow = evaluator == "compiled" and wide and scenario["problem"]["loss"]["kind"] == "mlp"
        return 0.5 + rounds * (0.02 if slow else 0.01)

    monkeypatch.setattr(bench, "seconds", seconds)
    assert bench.main() == 1
    out, err = capsys.readouterr()
    rows = out.splitlines()[2:]
    assert len(rows) == 12
    assert "| squared, narrow rows | 15.50 s | 15.50 s | compiled |" in rows
    assert err == "slower than what may be named: perceptron, wide rows\n"


@pytest.mark.slow
def test_a_kind_of_work_runs_with_either_evaluator(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    bench = module("evaluators")
    small = {name: work._replace(rows=40, features=3) for name, work in bench.WORKS.items()}
    monkeypatch.setattr(bench, "WORKS", small)
    for name, _, scenario in bench.scenarios(tmp_path):
        assert bench.chosen(scenario) in bench.EVALUATORS, name
        if name.startswith("softmax"):
            found = bench.costs(scenario, 2, 1)
            assert found.keys() == set(bench.EVALUATORS)


@pytest.mark.needs("privacy")
@pytest.mark.needs("secrecy")
def test_private_rounds_are_compared_with_open_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ratios are to the first row of each table, and each private row has spent something."""
    monkeypatch.syspath_prepend(BENCHMARKS)
    benchmark = module("privacy")
    table = benchmark.compared(clients=8, rounds=3).set_index("privacy")
    assert [*table.index] == [*benchmark.WAYS, *benchmark.SECRET]
    assert (table["s_a_round"] > 0).all()
    open_rows = ["none", "secagg alone"]
    assert table.loc[open_rows, "ratio"].tolist() == [1.0, 1.0]
    assert (table.loc[open_rows, "epsilon"] == 0).all()
    assert (table.drop(open_rows)["epsilon"] > 0).all()
