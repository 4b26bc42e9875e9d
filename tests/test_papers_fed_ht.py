"""The experiments of Fed-HT in a reduced form: their scenarios, tables, costs and figures."""

import bz2
import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest
from rich.console import Console

from fedsim.problems import LocalLoss
from fedsim.record.read import read_all, run_folders
from tests.scripts import script

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore::fedsim.errors.TheoryWarning")]


paper, rates = script("papers/fed_ht"), script("papers/fed_ht_rates")
spreads = script("papers/fed_ht_heterogeneity")

ROUNDS = 8
SMALL = [
    f"stop.rounds={ROUNDS}",
    "problem.data.clients=4",
    "problem.data.features=60",
    "problem.data.informative=10",
    "problem.data.rows=30",
    "fleet.0.count=4",
]


def sparsity(part: str, count: int) -> list[str]:
    """Return the overrides that let every variant have as many weights."""
    names = [name for name in paper.LABELS if name in variants(part) and name != "base"]
    keys = ["algorithm", *(f"variants.{name}.algorithm" for name in names)]
    return [f"{key}.sparsity={count}" for key in keys]


def variants(part: str) -> list[str]:
    plan = paper.fedsim.load(paper.scenario(part))
    return [variant.name for variant in plan.variants]


def shown(*parts: Any) -> str:
    """Return what a console shows."""
    console = Console(width=200)
    with console.capture() as capture:
        console.print(*parts, sep="\n")
    return capture.get()


@pytest.fixture(scope="module", params=["regression", "classification", "classification-100"])
def part(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Return a part's name, its tables and sentence, and the folder of its runs and figure."""
    folder = tmp_path_factory.mktemp(request.param)
    overrides = [*SMALL, *sparsity(request.param, 20), "seeds=1"]
    return request.param, paper.run(request.param, folder, overrides, figures=folder), folder


def test_every_variant_has_a_row_and_every_part_a_figure(part: Any) -> None:
    name, (tables, sentence), folder = part
    text = shown(*tables)
    for variant in variants(name):
        assert paper.LABELS[variant] in text
    assert paper.CLAIMS[name] in text
    assert sentence.startswith("The order by rounds is ")
    assert (folder / f"fed-ht-{name}.png").read_bytes().startswith(b"\x89PNG")


def test_local_steps_spare_rounds_and_thresholds_spare_bits(part: Any) -> None:
    """With a small step the order is that of K, and a sparse uplink is shorter than a dense one."""
    name, _, folder = part
    rounds = read_all(run_folders(folder / name), "rounds")
    took = paper.cost_to_end(rounds, "base").set_index("variant")["round"]
    local = [took[each] for each in variants(name) if each.startswith("fediter")]
    assert took["base"] == ROUNDS
    assert local == sorted(local, reverse=True)
    up = rounds.groupby("variant", observed=True)["bits_up"].sum()
    assert up["fediter-ht-10"] < up["fed-ht-10"] == up["base"]


def test_mnist_in_a_reduced_form(real_data: Path, tmp_path: Path) -> None:
    """The same images, few of them: the catalogue's test part, split by its clusters."""
    if not (real_data / "mnist").is_dir():
        pytest.skip(f"no mnist in {real_data}")
    small = ["seeds=1", "stop.rounds=2", "fleet.0.count=5", "problem.data.part=test"]
    tables, _ = paper.run("mnist", tmp_path, small, figures=tmp_path)
    assert "Distributed-IHT" in shown(*tables)
    assert (tmp_path / "fed-ht-mnist.png").exists()


def write_texts(part: str, folder: Path) -> None:
    """Write a made-up file of the size and form of the real one: ten subjects of forty words.

    Texts of a subject share a word. Odd subjects have the higher label, so that the words tell.
    """
    rng = np.random.default_rng(1)
    if part == "rcv1":
        name, features, labels = "rcv1_train.binary.bz2", 47236, [-1] * 9751 + [1] * 10491
    else:
        name, features, labels = "E2006.test.bz2", 150360, [-4, -3] * 1654
    lines = []
    for row, label in enumerate(labels):
        subject = 2 * (row // 2 % 5) + (label == max(labels))
        words = {1 + subject, *(10 + rng.integers(1, 40, 5)).tolist()}
        words |= {features} if row == 0 else set()
        lines.append(" ".join([str(label), *(f"{word}:0.4" for word in sorted(words))]))
    (folder / name).write_bytes(bz2.compress("\n".join([*lines, ""]).encode()))


@pytest.mark.parametrize("part", ["e2006", "rcv1"])
def test_texts_in_a_reduced_form_on_made_up_files(
    part: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The catalogue takes the files; sparse models are learned from them, and sent as such."""
    write_texts(part, tmp_path)
    monkeypatch.setenv("FEDSIM_DATA", str(tmp_path))
    small = ["stop.rounds=4", "fleet.0.count=10"]
    tables, _ = paper.run(part, tmp_path, small, figures=tmp_path)
    assert "FedIter-HT, K = 5" in shown(*tables)
    assert (tmp_path / f"fed-ht-{part}.png").exists()
    runs = read_all(run_folders(tmp_path / part), "rounds").groupby("variant", observed=True)
    ends = runs["objective"].last()
    assert (ends < runs["objective"].first()).all()
    assert ends["fediter-ht-5"] < ends["base"]
    up = runs["bits_up"].sum()
    assert 100 * up["fediter-ht-5"] < up["fed-ht-5"] == up["base"]


@pytest.mark.parametrize(("part", "name"), [("e2006", "e2006-tfidf"), ("rcv1", "rcv1")])
def test_where_texts_belong_is_said_where_they_are_missing(
    part: str,
    name: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("FEDSIM_DATA", str(tmp_path))
    monkeypatch.setattr("sys.argv", ["fed_ht.py", part])
    with pytest.raises(SystemExit) as ended:
        paper.main()
    assert ended.value.code == 2
    told = capsys.readouterr().err
    assert re.search(f"{name} is not on this machine: .*fedsim fetch {name}", told, re.DOTALL)


class Told:
    """A sweep whose runs are told in advance: FedIter-HT is `speed` times as fast."""

    def __init__(self, speed: int, rounds: int = 40) -> None:
        self.speed, self.last = speed, rounds
        self.asked: list[tuple[str, ...]] = []

    def rounds(self, name: str, variant: str, rate: str, *overrides: str) -> pd.DataFrame:
        self.asked.append((name, variant, rate, *overrides))
        numbers = np.arange(1, self.last + 1)
        tables = [
            pd.DataFrame({"variant": each, "seed": 1, "round": numbers, "t": 1.0 * numbers}).assign(
                objective=0.9 ** (float(rate) * speed * numbers)
            )
            for each, speed in (("base", 1), (variant, self.speed))
        ]
        if float(rate) >= 1:  # both diverge, one at once and one later
            tables = [tables[0].iloc[:0], tables[1].iloc[:3].assign(objective=9.0)]
        costs = {"transmissions": 1, "beacons": 0, "bits_up": 1, "bits_down": 1, "joules": 1.0}
        return pd.concat(tables, ignore_index=True).assign(**costs)


def test_the_sweep_over_rates_compares_at_one_rate_and_at_the_best() -> None:
    """Ten times as fast: a tenth of the rounds, at any rate; and at the best one, too."""
    sweep = Told(10)
    table, sentence = rates.rates(sweep)
    assert {rate for _, _, rate in sweep.asked} == set(rates.RATES)
    assert list(table.columns[4].cells) == ["-"] * 2 + ["4"] * 9
    assert "in 4 rounds with its best, 0.6" in sentence
    assert "with the rate 0.6" in sentence


def test_the_table_has_the_papers_rate_and_the_step_that_ran() -> None:
    table, _ = rates.rates(Told(10))
    assert [float(cell) for cell in table.columns[0].cells] == list(map(float, rates.RATES))
    assert [float(cell) for cell in table.columns[1].cells] == [
        2 * float(rate) for rate in rates.RATES
    ]


def test_a_step_is_that_of_the_papers_loss_which_has_no_half() -> None:
    """The paper's |Xw-y|^2/n falls as its own gradient says, not as ours of half of it does."""
    rng = np.random.default_rng(1)
    X, y, w = rng.standard_normal((30, 4)), rng.standard_normal(30), rng.standard_normal(4)
    (variant, *_) = paper.fedsim.load(rates.SCENARIO).variants
    ours = LocalLoss(variant.scenario.problem.loss, X, y)
    theirs = 2 * X.T @ (X @ w - y) / 30
    taken = rates.step("0.03") * ours.gradient(w)
    assert taken == pytest.approx(0.03 * theirs, rel=1e-12)


def test_the_scenario_has_the_middle_one_of_the_small_rates() -> None:
    (variant, *_) = paper.fedsim.load(rates.SCENARIO).variants
    assert variant.scenario.algorithm.step_size == rates.step(rates.SMALL[1])


def test_the_sweep_over_readings_has_a_row_a_setting() -> None:
    (table,) = rates.readings(Told(5))
    assert table.row_count == len(rates.READINGS) * len(rates.SMALL)
    assert set(table.columns[5].cells) == {"8"}


def test_the_grid_is_every_method_with_every_k_and_rate_in_the_papers_units() -> None:
    variants = {name: block["algorithm"] for name, block in rates.gridded().items()}
    assert len(variants) == (1 + 2 * 4) * 10
    assert {*rates.RATES[:9], "0.003"} == set(rates.GRID)
    block = variants["fediter-ht-8-at-0.03"]
    assert (block["kind"], block["local_steps"], block["step_size"]) == ("fediter-ht", 8, 0.06)
    assert variants["distributed-iht-at-0.03"]["local_steps"] == 1


def test_the_grid_compares_with_distributed_iht_at_its_best_rate() -> None:
    """It ends at 0.6 with 0.01; Fed-HT gets there at half of its rounds, or not; others diverge."""
    table = pd.DataFrame(
        [
            (name, 1, number, objective)
            for name, path in {
                "distributed-iht-at-0.01": (0.9, 0.8, 0.7, 0.6),
                "distributed-iht-at-0.001": (0.95, 0.9, 0.85, 0.8),
                "fed-ht-3-at-0.01": (0.7, 0.6, 0.55, 0.5),
                "fed-ht-3-at-0.001": (0.9, 0.8, 0.7, 0.65),
                "fed-ht-5-at-0.1": (0.9, 1.8),
            }.items()
            for number, objective in enumerate(path, start=1)
        ],
        columns=["variant", "seed", "round", "objective"],
    ).assign(t=1.0, transmissions=1, beacons=0, bits_up=1, bits_down=1, joules=1.0)
    (found,) = rates.grid(SimpleNamespace(grid=lambda: table))
    rows = zip(*(column.cells for column in found.columns), strict=True)
    cells = {name: values for name, *values in rows}
    assert [str(column.header) for column in found.columns[1:]] == ["0.01", "0.001"]
    assert cells["distributed-iht"] == ["0.6, 4", "0.8, never"]
    assert cells["fed-ht-3"] == ["0.5, 2", "0.65, never"]
    assert cells["fed-ht-5"] == ["diverges", "diverges"]


def test_slower_means_that_more_of_the_objective_is_left_at_every_step_of_the_spread() -> None:
    """Told shares: rising with the spread, then equal at the end, then diverging with the last."""
    rounds = pd.RangeIndex(1, 11)

    def told(*rates_: float, short: int = 10) -> Any:
        last = len(rates_) - 1
        return {
            spread: pd.Series(np.exp(-rate * (rounds - 1)), rounds)[: short if n == last else 10]
            for n, (spread, rate) in enumerate(zip(spreads.SPREADS, rates_, strict=True))
        }

    found = {"base": told(0.3, 0.2, 0.1), "fediter-ht-5": told(0.3, 0.1, 0.2)}
    said = spreads.verdict(found)
    assert "Fed-HT yes at round 5, yes at round 10; FedIter-HT no at round 5, no" in said
    cut = {"base": told(0.3, 0.2, 0.1, short=6), "fediter-ht-5": told(0.1, 0.1, 0.1)}
    assert "Fed-HT yes at round 5, yes at round 10; FedIter-HT no" in spreads.verdict(cut)
    table = spreads.share_table("regression", cut)
    assert list(table.columns[2].cells) == ["0.067", "0.165", "diverges", "0.407", "0.407", "0.407"]


@pytest.mark.parametrize("part", ["regression", "classification"])
def test_clients_that_differ_more_have_a_curve_each(part: str, tmp_path: Path) -> None:
    small = [each for each in SMALL if "features" not in each] + ["problem.data.features=220"]
    tables, said = spreads.run(part, tmp_path, [*small, "stop.rounds=10"], figures=tmp_path)
    assert tables[0].row_count == len(spreads.METHODS) * len(spreads.SPREADS)
    assert said.startswith("Published: more heterogeneity is slower. Measured: Fed-HT ")
    assert (tmp_path / f"fed-ht-heterogeneity-{part}.png").read_bytes().startswith(b"\x89PNG")
    rounds = read_all(run_folders(tmp_path / f"{part}-1"), "rounds")
    assert set(rounds["variant"]) == set(spreads.METHODS)
    last = rounds[rounds["variant"] == "fediter-ht-5"].set_index("round")["objective"]
    shown = [list(column.cells) for column in tables[0].columns]
    assert shown[2][-1] == f"{last[10] / last[1]:.3f}"


def test_a_sweep_runs_the_scenario_with_one_step_size(tmp_path: Path) -> None:
    sweep = rates.Sweep(tmp_path, (*SMALL, "algorithm.sparsity=20"))
    with pytest.raises(paper.fedsim.ScenarioError, match="got 200, but there are 60 entries"):
        sweep.rounds("rates", "fediter-ht-5", "1e-3")
    larger = [each for each in SMALL if "features" not in each]
    rounds = rates.Sweep(tmp_path, (*larger, "problem.data.features=220")).rounds(
        "rates", "fediter-ht-5", "1e-3"
    )
    assert set(rounds["variant"]) == {"base", "fediter-ht-5"}
    assert rounds["round"].max() == ROUNDS
    own = [*larger, "problem.data.features=220", "seeds=1", "variants={}"]
    alone = paper.fedsim.run(rates.SCENARIO, overrides=[*own, "algorithm.step_size=2e-3"]).rounds
    base = rounds[rounds["variant"] == "base"]["objective"].to_numpy()
    assert base == pytest.approx(alone["objective"].to_numpy(), rel=1e-12)
