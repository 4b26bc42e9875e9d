"""A study's robustness, from its folder to tables, files and errors, as a user asks for it."""

import shutil
from dataclasses import replace
from math import exp
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from matplotlib.patches import Rectangle
from typer.testing import CliRunner

import fedsim
from fedsim.addons.robustness import Robustness, draw_worlds, figures, pricing
from fedsim.addons.robustness.constants import scores
from fedsim.addons.robustness.figures import robustness_figure
from fedsim.cli import app
from fedsim.core.errors import DataError
from fedsim.results.analysis import Comparison
from fedsim.results.report import overview
from fedsim.results.report.study import ReportedStudy
from tests.methods import scenario
from tests.runs import files
from tests.tiers import some

FLEET = [
    {"count": 3, "device": "phone-mid", "radio": "lte"},
    {"count": 2, "device": "pi-4", "radio": "wifi"},
]


def until_asleep(runs: Any, cost: str = "joules") -> "pd.Series[float]":
    """Return a cost of each group of rounds, and what radios take after the last round."""
    total: pd.Series[float] = runs[cost].sum() + runs[f"{cost}_after"].last()
    return total


def study(**changes: Any) -> dict[str, Any]:
    """Return a scenario of two variants and two seeds."""
    own = {
        "fleet": FLEET,
        "stop": {"rounds": 5},
        "seeds": 2,
        "variants": {
            "gd": {"algorithm": {"kind": "gd", "step_size": "0.5/L"}},
            "chb": {"algorithm": {"kind": "chb", "step_size": "0.5/L"}},
        },
    }
    return {**scenario("chb"), **own, **changes}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished study."""
    place = tmp_path_factory.mktemp("study") / "runs"
    fedsim.run(study(), out=place)
    return place


@pytest.fixture(scope="module")
def known(folder: Path) -> Robustness:
    """What survives of it."""
    return fedsim.robust(folder, worlds=60)


def command(*arguments: str | int | Path) -> Any:
    return CliRunner().invoke(app, ["robust", *map(str, arguments)])


@pytest.mark.slow
def test_every_constant_in_doubt_of_the_fleet_is_drawn_and_no_other(known: Robustness) -> None:
    table = known.constants.set_index("constant")
    blocks = {name.split(".")[0] for name in table.index}
    assert blocks == {"phone-mid", "lte", "pi-4", "wifi", "kernel"}
    assert (table["low"] <= table["value"] * (1 + 1e-12)).all()
    assert (table["value"] <= table["high"] * (1 + 1e-12)).all()
    assert table.loc["lte.tail_time", "unit"] == "s"
    assert "lte.packet" not in table.index  # a definition
    assert (table.loc["pi-4.spread", ["value", "low"]] == 0.0).all()
    assert "phone-mid.battery" not in table.index  # on mains
    assert table["source"].str.len().min() > 10


@pytest.mark.slow
def test_the_world_as_written_is_the_study_itself(known: Robustness, folder: Path) -> None:
    result = fedsim.open(folder)
    costs = until_asleep(result.rounds.groupby(["variant", "seed"], observed=True))
    for number, variant in enumerate(known.table.variants):
        for column, seed in enumerate(known.table.seeds):
            written = known.table.costs["joules"][number, column, known.design.drawn]
            assert written == pytest.approx(costs[variant, seed], rel=1e-11)


NARROW = {"server": {"uplink": "9 Mbit/s", "downlink": "20 Mbit/s", "latency": "7 ms"}}


def put(world: dict[str, float], units: dict[str, Any], client: dict[str, Any]) -> None:
    """Put the constants of a world into the blocks of a client."""
    for name in ("device", "radio", "carbon"):
        block: Any = client[name]
        for key in [key for key in world if key.startswith(f"{block['kind']}.")]:
            value = float(int(world[key])) if key.endswith(".framing") else world[key]
            block[key.partition(".")[2]] = f"{value!r} {units[key]}"


@pytest.mark.slow
def test_a_drawn_world_is_the_run_made_afresh_in_it(tmp_path: Path) -> None:
    """With every client on its own in the fleet, so that devices of a group differ."""
    groups = [{**group, "carbon": code} for group, code in zip(FLEET, ("BR", "PL"), strict=True)]
    fedsim.run(study(network=NARROW, fleet=groups), out=tmp_path)
    known = fedsim.robust(tmp_path, worlds=8)
    units = {str(row["constant"]): row["unit"] for row in known.constants.to_dict("records")}
    assert {"server.uplink", "server.downlink", "server.latency", "wifi.framing"} <= set(units)
    assert units["BR.intensity"] == units["PL.intensity"] == "g/kWh"
    number = 5
    world = {name: float(known.worlds.iloc[number][name]) for name in units}
    fleet = [
        {"count": 1, **{name: {"kind": group[name]} for name in ("device", "radio", "carbon")}}
        for group in groups
        for _ in range(int(str(group["count"])))
    ]
    places = [*scores(3), *scores(2)]
    for client, score in zip(fleet, places, strict=True):
        put(world, units, client)
        device: Any = client["device"]
        spread, flops = world[f"{device['kind']}.spread"], world["kernel.flops"]
        speed = world[f"{device['kind']}.speed"] / flops / exp(spread * score)
        device["speed"] = f"{speed!r} flop/s"
        del device["spread"]
    server = {
        key.partition(".")[2]: f"{world[key]!r} {units[key]}" for key in world if "server" in key
    }
    fresh = fedsim.run(study(network={"server": server}, fleet=fleet))
    rounds = fresh.rounds.groupby(["variant", "seed"], observed=True)
    ends: dict[str, Any] = {name: until_asleep(rounds, name) for name in ("joules", "grams")}
    ends["t"] = rounds["t"].max()
    assert set(known.table.costs) == set(ends)
    for cost, costs in ends.items():
        for place, variant in enumerate(known.table.variants):
            drawn = known.table.costs[cost][place, :, number]
            assert drawn == pytest.approx(costs[variant].to_numpy(), rel=1e-10)


@pytest.mark.slow
def test_intervals_of_what_is_of_no_preset_are_given_like_others(tmp_path: Path) -> None:
    fedsim.run(study(network=NARROW), out=tmp_path)
    doubts = {"server.uplink": "8 Mbit/s..10 Mbit/s", "kernel.flops": "0.9..1.5"}
    table = fedsim.robust(tmp_path, worlds=8, intervals=doubts).constants.set_index("constant")
    ends = table[["low", "high"]].to_dict("index")
    assert ends["server.uplink"] == {"low": 8e6, "high": 10e6}
    assert ends["kernel.flops"] == {"low": 0.9, "high": 1.5}
    assert table.loc["kernel.flops", "basis"] == "given"
    for name, text in {
        "kernel.flops": "2..1",
        "server.latency": "1 ms",
        "pi-4.spread": "x..1",
    }.items():
        with pytest.raises(DataError, match=f"--interval: got {name}="):
            fedsim.robust(tmp_path, worlds=8, intervals={name: text})


@pytest.mark.slow
def test_prices_of_another_law_are_not_taken(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fedsim.robust(folder, worlds=2, out=tmp_path)
    before = {path.name for path in (tmp_path / "prices").iterdir()}
    fedsim.robust(folder, worlds=2, out=tmp_path)
    assert {path.name for path in (tmp_path / "prices").iterdir()} == before
    monkeypatch.setattr(pricing, "_pricing_code", lambda: "another law")
    fedsim.robust(folder, worlds=2, out=tmp_path)
    assert not before & {path.name for path in (tmp_path / "prices").iterdir()}


def test_devices_differ_by_their_kind_however_they_are_grouped(tmp_path: Path) -> None:
    """Variants of one fleet that is written in other groups cost the same in every world."""
    halves = [{"count": count, "device": "pi-4", "radio": "wifi"} for count in (3, 2)]
    whole = [{"count": 5, "device": "pi-4", "radio": "wifi"}]
    ones = [{"count": 1, "device": "pi-4", "radio": "wifi"}] * 5
    variants = {"halves": {"fleet": halves}, "ones": {"fleet": ones}}
    fedsim.run(study(fleet=whole, variants=variants, seeds=1), out=tmp_path)
    known = fedsim.robust(tmp_path, worlds=16)
    assert "pi-4.spread" in set(known.constants["constant"])
    for values in known.table.costs.values():
        assert values == pytest.approx(np.broadcast_to(values[:1], values.shape), rel=1e-12)
    assert set(known.verdicts["typical"]) == {0.0}
    figure = known.figures()["robustness"]
    said = [each.get_text() for axis in figure.axes[2:] for each in axis.texts]
    assert said == ["hardly varies"] * 2


@pytest.mark.slow
def test_a_figure_that_the_scenario_gives_is_certain(tmp_path: Path) -> None:
    fleet = [{"count": 5, "device": "pi-4", "radio": {"kind": "lte", "tail_time": "2 s"}}]
    fedsim.run(study(fleet=fleet), out=tmp_path)
    names = set(fedsim.robust(tmp_path, worlds=8).constants["constant"])
    assert "lte.tail_power" in names
    assert "lte.tail_time" not in names
    doubts = {"lte.tail_time": "1 s..4 s"}
    row = fedsim.robust(tmp_path, worlds=8, intervals=doubts).constants.set_index("constant")
    (own,) = row.loc[["lte.tail_time"]].to_dict("records")
    assert (own["low"], own["value"], own["high"], own["basis"]) == (1.0, 2.0, 4.0, "given")


@pytest.mark.slow
def test_identical_worlds_give_identical_bytes_and_prices_are_kept(
    folder: Path, tmp_path: Path
) -> None:
    one, two = tmp_path / "one", tmp_path / "two"
    for out in (one, two):
        assert command(folder, "--worlds", "40", "--out", out).exit_code == 0
    assert files(one) == files(two)
    prices = {path: path.stat().st_mtime_ns for path in (one / "prices").iterdir()}
    assert len(prices) == 4  # the scenario as written is one of its variants, priced once
    assert command(folder, "--worlds", "40", "--out", one).exit_code == 0
    assert {path: path.stat().st_mtime_ns for path in (one / "prices").iterdir()} == prices
    assert command(folder, "--worlds", "40", "--seed", "2", "--out", one).exit_code == 0
    assert not set(prices) & set((one / "prices").iterdir())  # of other worlds


@pytest.mark.slow
@pytest.mark.parametrize("place", [{"jobs": 2}, {"cluster": "local:2"}])
def test_processes_and_clusters_price_as_one_does(
    place: dict[str, Any], folder: Path, known: Robustness
) -> None:
    again = fedsim.robust(folder, worlds=60, **place)
    assert again.verdicts.equals(known.verdicts)
    assert again.deciding.equals(known.deciding)


@pytest.mark.slow
def test_damaged_prices_are_found_and_priced_again(folder: Path, tmp_path: Path) -> None:
    """Any bit of any file, a file cut off, one of another run, a folder: all are priced again."""
    out = tmp_path / "out"
    whole = fedsim.robust(folder, worlds=8, out=out)
    kept = sorted((out / "prices").iterdir())
    content = [path.read_bytes() for path in kept]

    def again(count: int) -> None:
        known = fedsim.robust(folder, worlds=8, out=out)
        words = [note for note in known.notes if "re-priced" in note]
        assert len(words) == (count > 0)
        if count:
            start = "1 file was" if count == 1 else f"{count} files were"
            assert words[0].startswith(f"{start} damaged in {out / 'prices'}")
        assert known.verdicts.equals(whole.verdicts)
        assert [path.read_bytes() for path in kept] == content

    again(0)
    size = len(content[0])
    for place in (0, 31, 32, 40, size // 2, size - 1):
        changed = bytearray(content[0])
        changed[place] ^= 1 << place % 8
        kept[0].write_bytes(bytes(changed))
        again(1)
    kept[0].write_bytes(content[0][:-8])
    kept[1].write_bytes(b"")
    again(2)
    kept[0].write_bytes(content[1])  # whole, and of another run
    again(1)


def test_a_world_is_told_with_the_mean_costs_of_each_variant(known: Robustness) -> None:
    worlds, drawn = known.worlds, known.design.drawn
    assert len(worlds) == drawn
    for cost, every in known.table.costs.items():
        for name, values in zip(known.table.variants, every, strict=True):
            told = worlds[f"{name}.{cost}"].to_numpy()
            assert told == pytest.approx(values[:, :drawn].mean(axis=0), rel=1e-12)


def test_verdicts_are_numbered_rows_by_variant_in_the_order_of_the_scenario(
    known: Robustness,
) -> None:
    table, order = known.verdicts, list(known.table.variants)
    assert table.index.tolist() == list(range(len(table)))
    places = [[order.index(name) for name in table[key]] for key in ("variant", "against")]
    assert list(zip(*places, strict=True)) == sorted(zip(*places, strict=True))


def test_the_figure_shows_the_ratios_and_shares_of_the_verdicts(known: Robustness) -> None:
    figure = robustness_figure(known, "any")
    own = known.verdicts[known.verdicts["against"] == known.against]
    costs = [cost for cost in ("t", "joules", "grams") if (own["cost"] == cost).any()]
    assert len(figure.axes) == 2 * len(costs)
    for axis, cost in zip(figure.axes, costs, strict=False):
        drawn = [np.asarray(line.get_xdata(), np.float64).tolist() for line in axis.get_lines()]
        texts = {text.get_text() for text in axis.texts}
        rows = own[own["cost"] == cost].to_dict("records")
        assert {row["variant"] for row in rows} == set(known.labels) - {known.against}
        for row in rows:
            assert [row["ratio_low"], row["ratio_high"]] in drawn
            assert [row["ratio"]] in drawn
            assert f"{100 * row['typical']:.3g} %" in texts
            low, high = axis.get_xlim()
            assert low < row["ratio_low"] <= row["ratio_high"] < high
    deciding = known.deciding
    for axis, cost in zip(figure.axes[len(costs) :], costs, strict=True):
        ends = deciding[deciding["cost"] == cost][["at_low", "at_high"]].to_numpy()
        bars = [each for each in axis.patches if isinstance(each, Rectangle)]
        assert len(bars) % 2 == 0
        for bar in bars:
            assert np.isclose(ends, bar.get_x() + bar.get_width(), rtol=1e-9).any()


def test_a_verdict_is_not_called_steady_where_a_constant_has_worlds_without_a_price(
    known: Robustness,
) -> None:
    words = "no single constant reverses the verdict"
    assert any(words in note for note in known.notes)
    lost = known.flips["constant"] == known.flips["constant"].iloc[-1]
    fewer = replace(known, flips=known.flips[~lost])
    assert not any(words in note for note in fewer.notes)


def test_ratios_that_are_far_apart_are_drawn_by_their_logarithms(
    known: Robustness, monkeypatch: pytest.MonkeyPatch
) -> None:
    for far, scale in ((1.0, "log"), (1e9, "linear")):
        monkeypatch.setattr(figures, "_FAR", far)
        axes = robustness_figure(known, "any").axes
        assert {axis.get_xscale() for axis in axes[: len(axes) // 2]} == {scale}


@pytest.mark.slow
def test_the_command_prints_tables_and_writes_files(folder: Path) -> None:
    done = command(folder, "--worlds", "40")
    assert done.exit_code == 0, done.output
    told = " ".join(done.output.split())
    assert "constants that decide the ratio" in told
    assert "64 worlds are too few to find how much each constant decides" in told
    assert (
        "no single constant reverses the verdict within its interval; the ratio nearest to 1"
        in told
    )
    names = {path.name for path in (folder / "robustness").iterdir()}
    tables = {f"{name}.csv" for name in ("verdicts", "fronts", "deciding", "flips", "constants")}
    assert {*tables, "worlds.csv", "robustness.png", "robustness.svg"} <= names
    assert fedsim.open(folder).runs  # it is no run, and disturbs none
    page = ReportedStudy(Comparison.of([folder]))
    others = [label for name, label in page.labels.items() if name != page.comparison.against]
    (table,) = overview.robustness_tables(page)
    assert others
    assert {row[0].text for row in table.rows} == set(others)


@pytest.mark.slow
def test_worlds_are_drawn_for_other_questions_within_their_intervals(folder: Path) -> None:
    drawn = draw_worlds(study(), 5)
    assert drawn == draw_worlds(study(), 5)
    assert drawn[0] != draw_worlds(study(), 5, seed=2)[0]
    table = fedsim.robust(folder, worlds=8).constants.set_index("constant")
    (row,) = table.loc[["lte.tail_time"]].to_dict("records")
    plans = [fedsim.load(study(), overrides=world) for world in drawn]
    radios: list[Any] = [plan.variants[0].scenario.fleet[0].radio for plan in plans]
    assert len({radio.tail_time for radio in radios}) == 5
    assert all(row["low"] <= radio.tail_time <= row["high"] for radio in radios)


@pytest.mark.slow
def test_constants_of_gateways_are_in_doubt_as_those_of_clients(tmp_path: Path) -> None:
    device = {"device": {"kind": "pi-4"}}
    groups: list[dict[str, Any]] = [
        {"count": 5, **device, "radio": {"kind": "wifi"}, "carbon": {"kind": "BR"}},
        {"count": 2, **device, "radio": {"kind": "lte"}, "carbon": {"kind": "PL"}, "rounds": 2},
    ]
    block = study(
        fleet=groups[:1],
        tiers=groups[1:],
        seeds=1,
        stop={"rounds": 2},
        algorithm={"kind": "fedavg", "step_size": 0.01},
        variants={str(steps): {"algorithm": {"local_steps": steps}} for steps in (1, 2)},
    )
    fedsim.run(block, out=tmp_path)
    few = fedsim.robust(tmp_path, runs=2)
    units = {str(row["constant"]): row["unit"] for row in few.constants.to_dict("records")}
    assert {"wifi.up", "lte.tail_time", "PL.intensity"} <= set(units)  # two are of gateways alone
    own = [{**groups[1], "intervals": {"radio.tail_time": "1 s..4 s"}}]
    (world,) = draw_worlds(block | {"tiers": own}, 1)
    assert any(each.startswith("tiers.0.radio.tail_time=") for each in world)
    for group in groups:
        put({name: float(few.worlds.iloc[1][name]) for name in units}, units, group)
    fresh = fedsim.run(block)
    joules = until_asleep(fresh.rounds.groupby("variant", sort=False, observed=True))
    drawn = few.table.costs["joules"][:, 0, 1]
    assert drawn == pytest.approx(joules[list(few.table.variants)].to_numpy(), rel=1e-10)


def test_worlds_of_nothing_in_doubt_are_refused() -> None:
    with pytest.raises(DataError, match="no uncertain constant"):
        draw_worlds(study(fleet=[{"count": 5}]), 3)
    with pytest.raises(DataError, match="got 0 worlds"):
        draw_worlds(study(), 0)


@pytest.fixture(scope="module")
def late(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A study in which a deadline decides who is heard, with grams of CO2 by the hour."""
    folder = tmp_path_factory.mktemp("late")
    (folder / "grid.csv").write_text("0,100\n0.001,400\n0.002,50\n")
    fleet = [{**FLEET[0], "carbon": {"kind": "hourly", "path": str(folder / "grid.csv")}}, FLEET[1]]
    deadline = {"kind": "full", "deadline": "9 s"}
    fedsim.run(study(participation=deadline, seeds=1, fleet=fleet), out=folder / "runs")
    return folder / "runs"


@pytest.mark.slow
def test_where_a_deadline_decides_runs_are_made_in_few_worlds(late: Path) -> None:
    with pytest.raises(DataError, match=r"participation\.deadline[\s\S]*--runs 30"):
        fedsim.robust(late)
    doubts = {"lte.tail_time": "1 s..4 s"}
    few = fedsim.robust(late, runs=2, intervals=doubts)
    assert few.design.drawn == 2
    assert few.deciding.empty
    assert few.flips.empty
    assert any("made again" in note or "replayed" in note for note in few.notes)
    assert set(few.verdicts["worlds"]) == {2}
    written = few.table.costs["grams"][:, 0, few.design.drawn]
    rounds = fedsim.open(late).rounds.groupby("variant", sort=False, observed=True)
    grams = until_asleep(rounds, "grams")
    assert written == pytest.approx(grams[list(few.table.variants)].to_numpy(), rel=1e-9)


@pytest.mark.slow
def test_grams_by_the_hour_are_left_out_where_rounds_are_priced_and_that_is_said(
    tmp_path: Path,
) -> None:
    """Only of the variant whose clients have them: the others keep theirs."""
    (tmp_path / "grid.csv").write_text("0,100\n0.001,400\n0.002,50\n")
    hourly = {"kind": "hourly", "path": str(tmp_path / "grid.csv")}
    by_the_hour = {"algorithm": "gd", "fleet": [{**FLEET[0], "count": 5, "carbon": hourly}]}
    fleet = [{**FLEET[1], "count": 5, "carbon": "PL"}]
    gd = {"kind": "gd", "step_size": "0.5/L"}
    variants = {"gd": {"algorithm": gd}, "hourly": {**by_the_hour, "algorithm": gd}}
    fedsim.run(study(fleet=fleet, seeds=1, variants=variants), out=tmp_path / "runs")
    known = fedsim.robust(tmp_path / "runs", worlds=8)
    pairs = known.verdicts[["variant", "against", "cost"]].to_numpy().tolist()
    assert [pair for pair in pairs if pair[2] == "grams"] == [
        ["base", "gd", "grams"],
        ["gd", "base", "grams"],
    ]
    assert any(note.startswith("grams of CO2 are left out of hourly:") for note in known.notes)
    assert known.fronts.set_index("variant")["grams"].isna().tolist() == [False, False, True]
    known.write(tmp_path / "out")  # with a panel for grams
    assert "CO2" in repr(known)


@pytest.mark.slow
@pytest.mark.slow
def test_worlds_of_windows_are_runs_made_afresh_in_them(tmp_path: Path) -> None:
    """Queues of TCP have no closed form: each world is run."""
    network = {**NARROW, "model": "tcp", "tcp": {"queue": 5}}
    fleet = [
        {**group, **{name: {"kind": group[name]} for name in ("device", "radio")}, "carbon": kind}
        for group, kind in zip(FLEET, ({"kind": "BR"}, {"kind": "PL"}), strict=True)
    ]
    fedsim.run(study(network=network, fleet=fleet, seeds=1), out=tmp_path)
    with pytest.raises(DataError, match=r"--runs 30"):
        fedsim.robust(tmp_path)
    few = fedsim.robust(tmp_path, runs=3)
    units = {str(row["constant"]): row["unit"] for row in few.constants.to_dict("records")}
    assert {"lte.up", "lte.latency", "wifi.framing", "PL.intensity"} <= set(units)
    number = 2
    for group in fleet:
        put({name: float(few.worlds.iloc[number][name]) for name in units}, units, group)
    fresh = fedsim.run(study(network=network, fleet=fleet, seeds=1))
    rounds = fresh.rounds.groupby("variant", sort=False, observed=True)
    ends: dict[str, Any] = {name: until_asleep(rounds, name) for name in ("joules", "grams")}
    ends["t"] = rounds["t"].max()
    assert set(few.table.costs) == set(ends)
    for cost, costs in ends.items():
        drawn = few.table.costs[cost][:, 0, number]
        assert drawn == pytest.approx(costs[list(few.table.variants)].to_numpy(), rel=1e-10)


@pytest.mark.slow
@pytest.mark.parametrize("jobs", some([1, 2], 1))
def test_runs_that_are_made_go_on_in_processes_and_each_world_is_kept(
    jobs: int, late: Path, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    few = fedsim.robust(late, runs=2, out=out, jobs=jobs)
    prices = {path: path.stat().st_mtime_ns for path in (out / "prices").iterdir()}
    assert len(prices) == 2 * (2 + 1)  # variants, and worlds with the one as written
    lost = sorted(prices)[3]
    lost.unlink()
    again = fedsim.robust(late, runs=2, out=out)
    assert again.verdicts.equals(few.verdicts)
    made = {path for path in prices if path.stat().st_mtime_ns != prices[path]}
    assert made == {lost}


def test_runs_that_are_made_again_do_not_warn_again_of_their_theory(tmp_path: Path) -> None:
    """The run has told it; one more for each world and run would bury the tables."""
    hasty = {"kind": "gd", "step_size": "1/L"}
    variants = {"gd": {"algorithm": hasty}}
    asynchronous = study(participation={"kind": "asynchronous"}, seeds=1, variants=variants)
    with pytest.warns(fedsim.TheoryWarning, match="asynchronous"):
        fedsim.run(asynchronous, out=tmp_path)
    few = fedsim.robust(tmp_path, runs=1)  # warnings are errors here
    assert few.design.words == "1 world"
    assert "1 worlds" not in repr(few)


@pytest.mark.slow
@pytest.mark.parametrize("runs", [1, 3])
def test_the_command_writes_what_few_worlds_say(runs: int, late: Path, tmp_path: Path) -> None:
    """With one constant k + 2 is 3: three worlds are no design of Saltelli's, whatever divides."""
    doubt = ("--interval", "lte.tail_time=1 s..4 s") if runs == 1 else ()
    done = command(late, "--runs", runs, "--out", tmp_path, *doubt)
    assert done.exit_code == 0, done.output
    assert "Sobol" not in done.output
    text = (tmp_path / "deciding.csv").read_text(encoding="utf-8")
    assert text.splitlines() == [
        "target,variant,cost,constant,first,first_error,total,total_error,at_low,at_high"
    ]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["--interval", "lte.tail=1 s..2 s"], "got the constant 'lte.tail'"),
        (["--interval", "lte.tail_time"], "expected a constant and its interval"),
        (["--interval", "lte.tail_time=1 s"], "expected LOW..HIGH"),
        (["--interval", "lte.tail_time=4 s..1 s"], "expected the lower value first"),
        (["--interval", "lte.tail_time=-1 s..1 s"], 'got "-1 s"'),
        (["--interval", "lte.up=0 bit/s..1 Mbit/s"], "above 0"),
        (["--interval", "pi-4.active=0.1 W..9 W"], "less than idle"),
        (
            ["--interval", "pi-4.active=3 W..9 W", "--interval", "pi-4.idle=1 W..4 W"],
            "exclude each other",
        ),
        (["--against", "gdd"], "got the variant 'gdd'; did you mean 'gd'?"),
        (["--target", "gapp=1"], "gapp"),
        (["--jobs", "2", "--cluster", "local:2"], "runs are made in one place"),
        (["--cluster", "local:none"], "expected local:N"),
    ],
)
def test_wrong_input_is_one_readable_error(
    arguments: list[str], told: str, folder: Path, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    done = command(folder, "--out", out, *arguments)
    assert done.exit_code == 2
    assert told in " ".join(done.output.split())
    assert not out.exists()


def test_a_study_of_one_variant_has_no_verdict(folder: Path, tmp_path: Path) -> None:
    alone = tmp_path / "alone"
    shutil.copytree(folder / "gd", alone / "gd")
    done = command(alone)
    assert done.exit_code == 2
    assert "expected two or more" in " ".join(done.output.split())


def test_a_study_of_ideal_clients_has_nothing_in_doubt(tmp_path: Path) -> None:
    fedsim.run(study(fleet=[{"count": 5}]), out=tmp_path)
    with pytest.raises(DataError, match="its clients are ideal"):
        fedsim.robust(tmp_path)
