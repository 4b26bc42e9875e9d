"""On harvested energy, which clients run empty first, and what does censoring change?

    python analysis/studies/who_dies_first.py [--out DIR] [--worlds N]

Runs scenarios/studies/who-dies-first.yaml, and once more with the whole fleet on mains, to
see what the model loses. Prints which clients left and what they spent, and draws charges,
cohorts and gaps over the days as analysis/figures/who-dies-first.png. With --worlds it
counts instead the worlds, sampled from the intervals of the constants, in which its statements on
HB and CHB hold.
"""

import argparse
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from textwrap import fill
from typing import Any, Literal

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import PercentFormatter
from rich.console import Console
from rich.progress import track
from rich.table import Table

import fedsim
from fedsim.addons.robustness import draw_worlds
from fedsim.results.analysis import (
    COLOURS,
    ENERGY_PARTS,
    cost_to_target,
    energy_parts,
    label_axis,
    listing,
    name_variants,
    panels,
    quantity,
    save,
    state_of_charge,
)
from fedsim.results.analysis.style import entitle

ROOT = Path(__file__).resolve().parents[2]
SCENARIO = ROOT / "scenarios/studies/who-dies-first.yaml"
FIGURE = ROOT / "analysis/figures/who-dies-first.png"

DAY, HOUR = 86400.0, 3600.0

KINDS = {"cortex-m4": "sensor", "phone-low": "phone", "pi-zero-2w": "Pi Zero"}
PLACES = ("in the sun", "in the shade")

METHODS = {
    "base": "HB",
    "hb-fast": "HB, momentum 0.9",
    "chb": "CHB",
    "chb-charge": "CHB by charge",
    "chb-triple": "CHB, triple threshold",
}
TARGET = 1e-6

ASKED = ("base", "chb")
"""The variants that are asked about in many worlds."""

CHB_ALONE = "variants={chb: {algorithm: {kind: chb, step_size: 1/L, momentum: 0.4, censor: 0.1}}}"

ON_MAINS = [f"fleet.{group}.battery=null" for group in range(1, 7)]


def runs(
    out: Path | None = None, overrides: Sequence[str] = (), harvest: Sequence[str] = ()
) -> tuple[fedsim.Result, fedsim.Result]:
    """Run the scenario as it is, and on mains; `harvest` overrides the first alone."""
    return (
        fedsim.run(SCENARIO, out=out and out / "harvest", overrides=[*overrides, *harvest]),
        fedsim.run(SCENARIO, out=out and out / "mains", overrides=[*ON_MAINS, *overrides]),
    )


def fates_by_client(clients: pd.DataFrame) -> pd.DataFrame:
    """Return a client table with the columns kind and place; the first group is on mains."""
    places = np.where(clients["group"] % 2 == 1, *PLACES)
    kinds = clients["device"].map(KINDS)
    return clients[clients["group"] > 0].assign(kind=kinds, place=places[clients["group"] > 0])


def fates(result: fedsim.Result) -> pd.DataFrame:
    """Return how each variant's clients fared, by kind and place: means over clients and seeds.

    The columns are missed (the share of rounds), falls_out (h, when it was first left out),
    dies (h, when it first was empty; NaN for never), depletions, off (h), and the parts of
    the energy, J.
    """
    key = ["variant", "seed", "client"]
    events = result.events.rename(columns={"node": "client"})
    first = {
        name: events[events["event"] == event].groupby(key, observed=True)["t"].min() / HOUR
        for name, event in (("falls_out", "skipped"), ("dies", "depleted"))
    }
    clients = fates_by_client(result.clients)
    clients = clients.join(pd.DataFrame(first), on=key)
    asked = clients["transmissions"] + clients["silent"]
    clients["missed"] = clients["skipped"] / (asked + clients["skipped"])
    clients["off"] = clients["off_s"] / HOUR
    by = ["variant", "kind", "place"]
    columns = ["missed", "falls_out", "dies", "depletions", "off"]
    means = clients.groupby(by, sort=False, observed=True)[columns].mean()
    members = clients.groupby(by, sort=False, observed=True).size()
    return means.join(energy_parts(clients, by).div(members, axis="index"))


def gaps(result: fedsim.Result) -> "pd.Series[float]":
    """Return each variant's gap at the end, the median over the seeds."""
    medians: pd.Series[float] = result.summary.groupby("variant", sort=False)["gap"].median()
    return medians


def table(fate: pd.DataFrame) -> Table:
    """Return the fates as a table for reading."""
    rows = [
        (
            *(METHODS[str(row["variant"])], row["kind"], row["place"]),
            *(f"{row['missed']:.0%}", _hours(row["falls_out"]), _hours(row["dies"])),
            *(f"{row['depletions']:.1f}", _hours(row["off"])),
            *(quantity(row[part], "J") for part in ("sending", "receiving", "tail", "idle")),
        )
        for row in fate.reset_index().to_dict("records")
    ]
    heads = ("method", "kind", "place", "missed", "first out", "first dead", "deaths", "dead for")
    parts = ("sending", "receiving", "tail", "idle")
    return listing("A client in three days, on average", (*heads, *parts), rows)


def at_rest(fate: pd.DataFrame) -> "pd.Series[Any]":
    """Return the share of the energy that was drawn at rest; not every part is in every fleet."""
    parts = [part for part in ENERGY_PARTS.values() if part in fate]
    return fate["idle"] / fate[parts].sum(axis=1)


def _hours(hours: float) -> str:
    return "-" if np.isnan(hours) else f"{hours:.1f} h"


def hours_to(rounds: pd.DataFrame, target: float) -> "pd.Series[float]":
    """Return when each variant's gap was first below a target, h, the median over the seeds."""
    costs = cost_to_target(rounds, target)
    medians: pd.Series[float] = costs.groupby("variant", sort=False, observed=True)["t"].median()
    return medians / HOUR


def finding(run: fedsim.Result, mains: fedsim.Result) -> str:
    """Return the answer in the numbers of these runs."""
    fate, gap = fates(run), gaps(run)
    fate = fate[fate.index.get_level_values("place") == PLACES[1]].droplevel("place")
    dies, missed, rest = fate["dies"], fate["missed"], at_rest(fate)
    sensor = fate.loc[[("chb", "sensor")]].iloc[0]
    sent = run.summary.groupby("variant")["transmissions"].mean()
    mine, theirs = hours_to(run.rounds, TARGET), hours_to(mains.rounds, TARGET)
    return fill(
        "With the presets' figures Pis and phones in the shade die first, "
        f"{dies['base', 'Pi Zero']:.1f} and "
        f"{dies['base', 'phone']:.1f} h after the start, and under CHB at "
        f"{dies['chb', 'Pi Zero']:.1f} and {dies['chb', 'phone']:.1f} h: "
        f"{rest['chb', 'Pi Zero']:.0%} and {rest['chb', 'phone']:.0%} of what they draw they draw "
        f"at rest. Sensors, whose energy goes into LoRa frames, do not die, but those in the shade "
        f"miss {missed['base', 'sensor']:.0%} of the rounds with HB and "
        f"{missed['chb', 'sensor']:.0%} with CHB. A threshold that rises as the charge falls "
        f"saves no client, since under CHB a sensor's sending takes {sensor['sending']:.1f} J in "
        f"three days and its receiving {sensor['receiving']:.1f} J; it ends at a gap of "
        f"{gap['chb-charge']:.1e} with {sent['chb-charge']:.0f} messages, and a triple threshold "
        f"for all at {gap['chb-triple']:.1e} with {sent['chb-triple']:.0f}. The model is affected "
        f"where it learns fast: momentum 0.9 takes {mine['hb-fast']:.1f} h to a gap of "
        f"{TARGET:g}, and {theirs['hb-fast']:.1f} h on mains; momentum 0.4 takes "
        f"{mine['base']:.1f} h, and {theirs['base']:.1f} h on mains, as the last gradients of "
        f"absent clients stay in the server's sum.",
        88,
    )


def draw(run: fedsim.Result, mains: fedsim.Result) -> Figure:
    """Draw charges under HB and CHB, the cohorts, and the gap, over the days."""
    figure, every = panels(4, 2, 2.6, sharex=True)
    hb, chb, part, gap = every
    seed = run.summary["seed"].min()
    for axis, variant in ((hb, "base"), (chb, "chb")):
        _charges(axis, run, variant, seed)
        axis.set_title(f"{METHODS[variant]}: charge; crosses: empty", fontsize=10)
    _taking_part(part, run.rounds)
    part.set_title("clients asked in a round, of 15", fontsize=10)
    _gaps(gap, run.rounds, "-")
    _gaps(gap, mains.rounds, ":")
    gap.set_title("learning; dotted: all on mains", fontsize=10)
    label_axis(gap.yaxis, "gap $f - f^\\star$", log=True)
    gap.legend(loc="upper right", fontsize=7, frameon=False, labelspacing=0.2)
    days = run.rounds["t"].max() / DAY
    for axis in every:
        for night in np.arange(0, days + 1):
            axis.axvspan(night - 0.25, night + 0.25, color="0.92", zorder=0)
        axis.set(xlim=(0, days), xticks=np.arange(0, days + 0.01, 0.5))
    for axis in (part, gap):
        axis.set_xlabel("days")
    name_variants(figure, chb)
    setting = f"breast-cancer; 15 sensors, phones and Pis; seed {seed}"
    said = "nights are grey; below the dotted line a client takes no part"
    entitle(figure, f"First depleted batteries, on harvested energy\n{setting}; {said}", apart=True)
    return figure


def _charges(axis: Axes, run: fedsim.Result, variant: str, seed: int) -> None:
    """Draw the charge of the first client of every kind and place, and mark its deaths."""
    clients = fates_by_client(run.clients)
    clients = clients[(clients["variant"] == variant) & (clients["seed"] == seed)]
    events = run.events[(run.events["variant"] == variant) & (run.events["seed"] == seed)]
    times = np.arange(0, events["t"].max(), 300.0)
    charge = state_of_charge(events, times).droplevel(["variant", "seed"], axis="columns")
    for row in clients.drop_duplicates("group").to_dict("records"):
        colour = COLOURS[list(KINDS.values()).index(row["kind"])]
        dash = "-" if row["place"] == PLACES[0] else "--"
        own = charge[row["client"]]
        label = f"{row['kind']} {row['place']}"
        axis.plot(times / DAY, own, color=colour, linestyle=dash, linewidth=1.2, label=label)
        deaths = events[(events["node"] == row["client"]) & (events["event"] == "depleted")]
        axis.plot(deaths["t"] / DAY, deaths["state_of_charge"], "X", color=colour, ms=8)
    axis.set_ylim(0, 1.02)
    axis.yaxis.set_major_formatter(PercentFormatter(1))
    axis.axhline(0.2, color="black", linewidth=0.8, linestyle=":")  # below it, none takes part


def _taking_part(axis: Axes, rounds: pd.DataFrame) -> None:
    for variant in ("base", "chb"):
        number = list(METHODS).index(variant)
        own = rounds[(rounds["variant"] == variant) & (rounds["seed"] == rounds["seed"].min())]
        own = own[own["round"] > 0]  # nobody is asked before the first one
        axis.step(own["t"] / DAY, own["cohort"], color=COLOURS[number], label=METHODS[variant])
    axis.set_ylim(0, None)


def _gaps(axis: Axes, rounds: pd.DataFrame, dash: Literal["-", ":"]) -> None:
    """Draw the gaps of the first seed."""
    own = rounds[rounds["seed"] == rounds["seed"].min()]
    for number, (variant, label) in enumerate(METHODS.items()):
        run = own[own["variant"] == variant]
        axis.plot(
            run["t"] / DAY,
            run["gap"].where(run["gap"] > 0),
            color=COLOURS[number],
            linestyle=dash,
            linewidth=1.2,
            label=label if dash == "-" else "_nolegend_",
        )
    axis.set_ylim(1e-10, None)


def said(result: fedsim.Result) -> dict[str, bool]:
    """Return the statements of the finding on HB and CHB, and whether each holds in these runs."""
    fate = fates(result)
    dies = fate["dies"].fillna(np.inf)
    shade = [(kind, PLACES[1]) for kind in ("Pi Zero", "phone")]
    first = {name: dies[name].drop(shade).min() > dies[name][shade].max() for name in ASKED}
    shifts = [abs(_between(dies["base"][own], dies["chb"][own])) for own in shade]
    sun, own = (dies.xs(place, level="place") for place in PLACES)
    later = (own <= sun + 0.01).all()  # h, as one death may follow another at once
    missed = fate["missed"].xs(("sensor", PLACES[1]), level=("kind", "place"))
    rest = at_rest(fate)["chb"][shade]
    return {
        "under HB Pis and phones in the shade die first": bool(first["base"]),
        "under CHB, too": bool(first["chb"]),
        "no client in the shade dies after those of its kind in the sun": bool(later),
        "CHB moves their deaths by less than half an hour": bool(max(shifts) < 0.5),
        "under CHB they draw more than half at rest": bool((rest > 0.5).all()),
        "sensors never die": bool(np.isinf(dies.xs("sensor", level="kind")).all()),
        "a sensor in the shade misses more rounds under HB": bool(missed["base"] > missed["chb"]),
    }


def _between(one: float, other: float) -> float:
    return 0.0 if one == other else other - one  # both may be never


def in_worlds(count: int, overrides: Sequence[str] = ()) -> pd.DataFrame:
    """Return which statements hold in each world: a row a world, a column a statement.

    Args:
        count: worlds; each takes a run of HB and one of CHB, under the first seed.
        overrides: of the scenario.
    """
    asked = [CHB_ALONE, "seeds=1", *overrides]
    rows = []
    for world in track(draw_worlds(SCENARIO, count, overrides=asked), console=Console(stderr=True)):
        with tempfile.TemporaryDirectory() as folder:
            rows.append(said(fedsim.run(SCENARIO, out=folder, overrides=[*asked, *world])))
    return pd.DataFrame(rows)


def main() -> None:
    """Run the study, print its table and its finding, and draw its figure."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--out", type=Path, help="keep the run folders here")
    parser.add_argument("--worlds", type=int, help="in how many does it hold?")
    given = parser.parse_args()
    if given.worlds:
        for sentence, so in in_worlds(given.worlds).items():
            print(f"{sentence}: {so.sum()} of {given.worlds}")
        return
    run, mains = runs(given.out)
    Console(width=None if sys.stdout.isatty() else 150).print(table(fates(run)))
    print(finding(run, mains))
    save(draw(run, mains), FIGURE)


if __name__ == "__main__":
    main()
