"""How long batteries last: closed forms, and a second computation from the log."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

import fedsim
from fedsim.cli import app
from fedsim.results.analysis import Comparison, Target, battery_figures, battery_lives
from fedsim.results.analysis.batteries import ALL, LOSSES, PARTS, BatterySummary
from fedsim.results.result import Result
from tests.runs import small

NO_POWER = ", if the devices take no power in between"

POWER = 3.0
"""W, of a device that draws as much at work as at rest."""

EFFICIENCY, CUTOFF, THRESHOLD = 0.8, 0.1, 0.25

STEADY = {
    "kind": "custom",
    "speed": "1 Mflop/s",
    "active": f"{POWER} W",
    "idle": f"{POWER} W",
    "battery": "1 Wh",
}


def steady(count: int, capacity: str, threshold: float, charge: float = 1.0) -> dict[str, Any]:
    """Return clients whose power is constant, on a battery without a charger."""
    shares = {"charge": charge, "cutoff": CUTOFF, "threshold": threshold}
    battery = {"capacity": capacity, "discharge_efficiency": EFFICIENCY, **shares}
    return {"count": count, "device": STEADY, "radio": "ideal", "battery": battery}


MAINS = {"count": 1, "device": {**STEADY, "battery": "mains"}, "radio": "ideal"}


@pytest.fixture(scope="module")
def known(tmp_path_factory: pytest.TempPathFactory) -> Result:
    """Return a run with clients of one power: two that die, one that leaves, three that last."""
    fleet = [
        *(steady(1, f"{joules} J", CUTOFF) for joules in (1.0, 2.0)),
        steady(1, "4.2 J", THRESHOLD),
        steady(3, "1 kWh", THRESHOLD, 0.5),
        MAINS,
    ]
    return fedsim.run(
        small(fleet=fleet, stop={"time": "1 s", "rounds": 10_000}),
        out=tmp_path_factory.mktemp("known") / "out",
    )


def lasting(**hours: list[float]) -> BatterySummary:
    """Return figures in which half of each variant's batteries last this long, by seed."""
    rows = [
        {
            "variant": name,
            "seed": seed,
            "kind": ALL,
            "lasts_half_s": 3600 * time,
            "run_s": 60,
            "lasts_half_runs": 60 * time,
            "lasts_half_idle_s": np.nan,
        }
        for name, times in hours.items()
        for seed, time in enumerate(times, 1)
    ]
    return BatterySummary(pd.DataFrame(rows), {name: f"{name} (gd)" for name in hours})


LONGEST = "batteries last longest with"


@pytest.mark.parametrize(
    ("hours", "answer"),
    [
        (
            {"a": [4.0], "b": [6.0], "c": [5.0]},
            f"{LONGEST} b (gd): half of them last 6 h, and 5 h with c (gd), the next (one seed)",
        ),
        (
            # Of three seeds, a has the longest time in one, and the lower median.
            {"a": [9.0, 4.0, 4.0], "b": [5.0, 6.0, 7.0]},
            (
                f"{LONGEST} b (gd): half of them last 6 h, and 4 h with a (gd), the next"
                " (longest in 2 of 3 seeds)"
            ),
        ),
        (
            {"a": [5.0, 5.0], "b": [4.0, 4.0], "c": [5.01, 5.01]},
            (
                f"{LONGEST} c (gd) and a (gd): half of them last 5.01 h, and 4 h with b (gd), the"
                " next (longest in 2 of 2 seeds)"
            ),
        ),
        (
            {"a": [np.inf], "b": [4.0]},
            (
                f"{LONGEST} a (gd): half of them last for ever, and 4 h with b (gd), the next (one"
                " seed)"
            ),
        ),
        (
            {"a": [5.0, 3.0, 4.0], "b": [5.0, 3.0, 4.0]},
            "half of the batteries last 4 h with every variant (median over 3 seeds)",
        ),
        (
            # Only seed 1 is one of both.
            {"a": [5.0], "b": [4.0, 9.0, 9.0]},
            f"{LONGEST} a (gd): half of them last 5 h, and 4 h with b (gd), the next (one seed)",
        ),
        ({"a": [4.0, 5.0]}, ""),
    ],
)
def test_one_sentence_names_the_variant_whose_batteries_last_longest(
    hours: dict[str, list[float]], answer: str
) -> None:
    assert lasting(**hours).answer() == answer


def test_batteries_that_outlive_unlike_runs_are_compared_by_the_runs_they_last_for() -> None:
    """With b they last longer in time, and with a for more runs, which are shorter."""
    summary = lasting(a=[4.0], b=[5.0])
    lengths = summary.figures["variant"].map({"a": 60.0, "b": 120.0})
    repeats = summary.figures["lasts_half_s"] / lengths
    figures = summary.figures.assign(run_s=lengths, lasts_half_runs=repeats)
    by_runs = BatterySummary(figures, summary.labels)
    assert by_runs.answer() == (
        "one charge is enough for 240 trainings with a (gd), and 150 with b (gd) (one seed), if the"
        " devices take no power in between"
    )
    within = lengths.where(lengths < 100, 5 * 3600)  # those of b are empty at the end of its run
    by_time = BatterySummary(summary.figures.assign(run_s=within), summary.labels)
    assert by_time.answer() == (
        f"{LONGEST} b (gd): half of them last 5 h, and 4 h with a (gd), the next (one seed)"
    )


@pytest.mark.slow
def test_run_and_compare_print_which_batteries_last_longest(tmp_path: Path) -> None:
    fleet = [steady(2, "1 kJ", THRESHOLD)]
    twice = {"fleet": [steady(2, "2 kJ", THRESHOLD)]}
    stop = {"time": "1 s", "rounds": 10_000}
    result = fedsim.run(
        small(fleet=fleet, stop=stop, seeds=3, variants={"twice": twice}), out=tmp_path / "out"
    )
    lives = battery_lives(result).groupby(["seed", "variant"], observed=True)["lasts_s"].median()
    assert all(lives[seed, "twice"] > lives[seed, "base"] for seed in (1, 2, 3))
    printed = CliRunner().invoke(app, ["compare", str(tmp_path / "out")]).stdout
    words = " ".join(printed.split())
    assert "batteries last longest with twice" in words
    assert "the next (longest in 3 of 3 seeds)" in words


def test_a_battery_of_known_power_is_empty_when_its_energy_is_used(known: Result) -> None:
    lives = battery_lives(known)
    usable = EFFICIENCY * (1 - CUTOFF) / POWER
    assert lives["empty_s"].tolist()[:2] == pytest.approx([1.0 * usable, 2.0 * usable], rel=1e-9)
    assert lives["empty"].tolist() == [True, True, False, False, False, False]
    committed = known.rounds.loc[known.rounds["round"] > 0, "t"].to_numpy()
    for _, row in lives.head(2).iterrows():
        assert row["empty_round"] == 1 + np.count_nonzero(committed <= row["empty_s"])
    assert np.isinf(lives["empty_s"][2:]).all()


def test_runs_per_charge_have_the_last_tails(tmp_path: Path) -> None:
    """Energy per run is what left the battery, and the tails that tables of costs add to it."""
    battery = {"capacity": "1 Wh", "discharge_efficiency": "80 %"}
    fleet = [{"count": 4, "device": "phone-mid", "radio": "lte", "battery": battery}]
    result = fedsim.run(small(fleet=fleet, stop={"rounds": 8}), out=tmp_path)
    lives, after = battery_lives(result), result.summary["joules_after"].iloc[0]
    usable = lives["initial_joules"] - 0.2 * lives["capacity_joules"]
    lost = lives["initial_joules"] - lives["final_joules"]
    assert 0.8 * (usable / lives["lasts_runs"] - lost).sum() == pytest.approx(after)
    assert after > 0.1 * result.summary["joules"].iloc[0]
    printed = result.shown.batteries
    assert printed is not None
    assert lives["lasts_runs"].median() == pytest.approx(
        printed.figures["lasts_half_runs"].iloc[0], rel=0.01
    )


def test_it_lasts_until_its_client_takes_no_part(known: Result) -> None:
    """Extrapolation is exact at a constant power, and what the run shows is not extrapolated."""
    lives = battery_lives(known)
    watts = POWER / EFFICIENCY
    thresholds = np.array([CUTOFF, CUTOFF, *[THRESHOLD] * 4])
    usable = lives["initial_joules"] - thresholds * lives["capacity_joules"]
    assert lives["lasts_s"].tolist() == pytest.approx((usable / watts).tolist(), rel=1e-9)
    assert lives["lasts_s"].iloc[-1] == pytest.approx(0.25 * 3.6e6 / watts, rel=1e-9)
    assert lives["low"].tolist() == [False, False, True, False, False, False]


def test_a_client_that_idles_lasts_its_usable_energy_by_its_idle_power(tmp_path: Path) -> None:
    """Idle power behind the efficiency of discharge, and self-discharge, whatever a run takes."""
    capacity, idle, efficiency, share = 3600.0, 0.35 + 0.025, 0.8, 0.5 - 0.3
    leak = {"self_discharge": "50 %/month"}
    battery = {"capacity": "1 Wh", "charge": "50 %", "threshold": "30 %", **leak}
    device = {"kind": "phone-mid", "idle": "0.35 W"}
    radio = {"kind": "lte", "idle": "25 mW"}
    group = {"device": device, "battery": battery | {"discharge_efficiency": "80 %"}}
    fleet = [{"count": 2, **group, "radio": radio}, {"count": 1, **group, "radio": "ideal"}]
    lives = battery_lives(fedsim.run(small(fleet=fleet, stop={"rounds": 4}), out=tmp_path))
    month = 30 * 24 * 3600.0
    for watts, lasting in zip([idle, idle, 0.35], lives["lasts_idle_s"], strict=True):
        drain = watts / efficiency + 0.5 * capacity / month
        assert lasting == pytest.approx(share * capacity / drain, rel=1e-9)
    charger = {"charging": {"kind": "constant", "power": "1 W"}}
    charged = [{"count": 1, "device": device, "radio": "lte", "battery": battery | charger}]
    lives = battery_lives(fedsim.run(small(fleet=charged, stop={"rounds": 4})))
    assert lives["lasts_idle_s"].isna().all()


def test_idle_life_is_known_of_batteries_that_were_not_empty(known: Result) -> None:
    """A client of constant power lasts as long at work as at rest."""
    lives = battery_lives(known)
    assert lives["lasts_idle_s"].isna().tolist() == [True, True, *[False] * 4]
    assert lives["lasts_idle_s"][2:].to_numpy() == pytest.approx(lives["lasts_s"][2:].to_numpy())


@pytest.mark.parametrize(
    ("hours", "clause"),
    [
        ([5.0, 5.0], f"{NO_POWER}; without training, a charge lasts 5 h"),
        ([5.0, 9.0], NO_POWER),
        ([5.0, np.nan], NO_POWER),
        ([np.inf, np.inf], ""),
    ],
)
def test_the_sentence_on_runs_says_what_idle_power_does_alone(
    hours: list[float], clause: str
) -> None:
    summary = lasting(a=[4.0], b=[5.0])
    lengths = summary.figures["variant"].map({"a": 60.0, "b": 120.0})
    idle = [3600 * each for each in hours]
    figures = summary.figures.assign(run_s=lengths, lasts_half_idle_s=idle)
    assert BatterySummary(figures, summary.labels).answer().endswith(f"(one seed){clause}")


def test_the_first_and_the_half_are_of_all_batteries(known: Result) -> None:
    figures = battery_figures(battery_lives(known)).set_index("kind")
    every = figures.loc[ALL]
    usable = EFFICIENCY * (1 - CUTOFF) / POWER
    assert (every["batteries"], every["empty"], every["low"], every["emptied"]) == (6, 2, 1, 2)
    assert every["first_s"] == pytest.approx(usable, rel=1e-9)
    assert np.isinf(every["half_s"])  # the third of six was not empty
    assert every["lasts_half_s"] == pytest.approx(4.2 * (1 - THRESHOLD) * EFFICIENCY / POWER)
    assert figures["batteries"].drop(ALL).tolist() == [1, 1, 1, 3]
    assert every["idle"] == pytest.approx(EFFICIENCY, abs=0.2)
    assert every[LOSSES] == pytest.approx(1 - EFFICIENCY, rel=1e-9)


@pytest.fixture(scope="module")
def mixed(tmp_path_factory: pytest.TempPathFactory) -> Result:
    """Return two variants under three seeds: phones of two radios, a charged board, and mains."""
    sun = {"kind": "daily", "power": "40 W", "start": "0 h", "end": "0.001 h"}
    fleet = [
        {"count": 3, "device": "phone-mid", "radio": "lte", "battery": {"capacity": "8 J"}},
        {"count": 2, "device": "phone-mid", "radio": "wifi", "battery": {"charge": "60 %"}},
        {
            "count": 1,
            "device": "pi-4",
            "radio": "wifi",
            "battery": {"capacity": "6 J", "charging": sun},
        },
        {"count": 2, "device": "pi-4", "radio": "wifi"},
    ]
    scenario = small(
        fleet=fleet,
        variants={"gd": {"algorithm": {"kind": "gd", "step_size": "1/L"}}},
        stop={"time": "6 s", "rounds": 300},
        seeds=3,
    )
    return fedsim.run(scenario, out=tmp_path_factory.mktemp("mixed") / "out")


_COLUMNS = {  # events of the log, and the part that has their joules
    "promotion": "promotion",
    "tail": "tail",
    "receive": "receiving",
    "send": "sending",
    "retransmit": "sending again",
    "compute": "computing",
}


@pytest.mark.slow
def test_every_figure_is_that_of_the_log(mixed: Result) -> None:
    """A second computation, client by client: log, client table and scenario as plain values."""
    capacity = {0: 8.0, 1: 54000.0, 2: 6.0}
    lives = battery_lives(mixed).set_index(["variant", "seed", "client"])
    by_client = dict(lives.iterrows())
    owners = mixed.clients.dropna(subset=["initial_joules"])
    assert len(lives) == len(owners) == 6 * 6
    assert lives["empty_s"].lt(np.inf).any()
    for _, own in owners.iterrows():
        life = by_client[own["variant"], own["seed"], own["client"]]
        log = mixed.events[
            (mixed.events["variant"] == own["variant"]) & (mixed.events["seed"] == own["seed"])
        ]
        mine = log[log["node"] == own["client"]]
        full = capacity[own["group"]]
        assert life["capacity_joules"] == full
        assert life["charge"] == pytest.approx(own["final_joules"] / full)
        changes = mine[mine["event"].isin(["depleted", "charged"])]
        assert life["empty"] == (len(changes) > 0 and changes["event"].iloc[-1] == "depleted")
        depleted = mine.loc[mine["event"] == "depleted"]
        if depleted.empty:
            assert np.isinf(life["empty_s"])
        else:
            first = depleted.index[0]
            assert life["empty_s"] == depleted["t"].iloc[0]
            assert life["empty_round"] == 1 + (log.loc[:first, "event"] == "round").sum()
        joules = mine.groupby(mine["event"].astype(str))["joules"].sum()
        for event, part in _COLUMNS.items():
            assert life[part] == pytest.approx(joules.get(event, 0.0), abs=1e-9 * own["joules"])
        parts = [name for name in PARTS if name in life]
        assert life[parts].sum() == pytest.approx(own["drained_joules"])


def test_figures_of_groups_add_up_to_those_of_all(mixed: Result) -> None:
    figures = battery_figures(battery_lives(mixed))
    groups = figures[figures["kind"] != ALL].groupby(["variant", "seed"])
    every = figures[figures["kind"] == ALL].set_index(["variant", "seed"])
    for count in ("batteries", "empty", "low", "emptied"):
        assert groups[count].sum().to_dict() == every[count].to_dict()
    assert groups["first_s"].min().to_dict() == every["first_s"].to_dict()
    assert groups["charge_lowest"].min().to_dict() == every["charge_lowest"].to_dict()
    shares = every[[name for name in PARTS if name in every]].sum(axis=1)
    assert shares.to_numpy() == pytest.approx(np.ones(6))


def test_tables_have_medians_over_seeds_that_all_variants_have(mixed: Result) -> None:
    figures = battery_figures(battery_lives(mixed))
    lacking = figures[(figures["variant"] != "gd") | (figures["seed"] != 3)]
    labels = {"base": "chb", "gd": "gd"}
    table = BatterySummary(lacking, labels).lasting()
    own = figures[(figures["kind"] == ALL) & figures["seed"].isin([1, 2])]
    for row in table.rows:
        if row[1].text == ALL:
            name = "base" if row[0].text == "chb" else "gd"
            lasts = own.loc[own["variant"] == name, "lasts_first_s"]
            assert row[table.heads.index("shortest life")].value == lasts.median()
    assert any("2 seeds" in note for note in table.notes)


@pytest.mark.slow
def test_the_tables_are_those_of_all_commands(mixed: Result) -> None:
    comparison = Comparison.of([mixed.folder])
    figures = comparison.frames()["batteries"]
    pd.testing.assert_frame_equal(figures, battery_figures(battery_lives(mixed)))
    printed = repr(mixed)
    for text in ("batteries at the end of the run", "what took the charge of batteries"):
        assert text in printed
        assert text in repr(comparison)
        assert text in mixed._repr_html_()


def test_a_fleet_on_mains_has_no_tables(tmp_path: Path) -> None:
    result = fedsim.run(small(stop={"rounds": 2}), out=tmp_path / "out")
    assert battery_lives(result).empty
    assert "batter" not in repr(result)
    assert "batteries" not in Comparison.of([result.folder]).frames()


# Runs that end at unlike points.


@pytest.mark.slow
def test_runs_that_batteries_end_are_compared_at_what_all_reached(tmp_path: Path) -> None:
    """The method whose clients die sooner is not the cheaper one for that."""
    battery = {"capacity": "30 J", "threshold": "5 %"}
    fleet = [{"count": 5, "device": "phone-mid", "radio": "lte", "battery": battery}]
    result = fedsim.run(
        small(
            fleet=fleet,
            variants={"slow": {"algorithm": {"kind": "gd", "step_size": "0.1/L"}}},
            stop={"batteries": 1, "rounds": 4000},
        ),
        out=tmp_path / "out",
    )
    ends = result.summary.set_index("variant")["rounds"]
    assert ends["base"] != ends["slow"]
    target = Target.usual(result)
    assert (target.measure, target.common) == ("gap", True)
    best = result.rounds.groupby("variant", observed=True)["gap"].min()
    assert best.max() < target.value <= 1.1 * best.max()
    costs = target.costs(result)
    assert costs["reached"].all()
    by_hand = []
    for _, own in result.rounds.groupby("variant", sort=False, observed=True):
        first = int((own["gap"] < target.value).to_numpy().argmax())
        after = own["joules_after"].to_numpy()[first]  # until the radios sleep
        by_hand.append(own["joules"].to_numpy()[: first + 1].sum() + after)
    assert costs["joules"].tolist() == pytest.approx(by_hand)
    said = CliRunner().invoke(app, ["compare", str(result.folder)]).output
    assert "which all runs reached" in said
    assert "whole run" not in said


def test_runs_of_equal_length_keep_their_whole_costs(tmp_path: Path) -> None:
    result = fedsim.run(
        small(variants={"gd": {"algorithm": {"kind": "gd"}}}, stop={"rounds": 3}),
        out=tmp_path / "out",
    )
    assert Target.usual(result) == Target()
