"""When fifty clients share one narrow uplink, what buys time: fewer bits, or fewer messages?

    python analysis/studies/compression_and_shared_uplink.py [--out DIR]

Runs scenarios/studies/compression-and-shared-uplink.yaml over what the server can receive and
over the discipline of that link, and once without a target, to see where the rounding of each
format stops it. Prints the costs to the gap at a narrow and at a wide uplink, and draws
floors, times and energies as analysis/figures/compression-and-shared-uplink.png.
"""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from textwrap import fill
from typing import Any, Literal

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from rich.console import Console
from rich.progress import track
from rich.table import Table

import fedsim
from fedsim.results.analysis import (
    COLOURS,
    cost_to_target,
    label_axis,
    listing,
    name_variants,
    panels,
    quantity,
    save,
)
from fedsim.results.analysis.style import entitle, words

ROOT = Path(__file__).resolve().parents[2]
SCENARIO = ROOT / "scenarios/studies/compression-and-shared-uplink.yaml"
FIGURE = ROOT / "analysis/figures/compression-and-shared-uplink.png"

CAPACITIES = (1e5, 3e5, 1e6, 3e6, 1e7, 3e7)
"""What the server can receive, bit/s; one client's radio sends 20 Mbit/s."""

DISCIPLINES = {"fair": "o", "fifo": "x"}
"""How the link is shared, and the mark of that in the figure."""

FORMATS = dict(zip(("float64", "float32", "float16", "bfloat16"), COLOURS, strict=False))
METHODS: dict[str, Literal["-", "--"]] = {"hb": "-", "chb": "--"}
RADIO = ("promotion_joules", "tail_joules", "receive_joules", "send_joules")

TAIL = 50
"""A floor is the median gap of so many last rounds."""


def names(frame: pd.DataFrame) -> pd.DataFrame:
    """Return a frame with the columns method and format in place of variant."""
    variant = frame["variant"].astype(str).replace("base", "hb-float64")
    parts = variant.str.split("-", n=1, expand=True)
    return frame.drop(columns="variant").assign(method=parts[0], format=parts[1])


def swept(
    capacities: Sequence[float] = CAPACITIES,
    out: Path | None = None,
    overrides: Sequence[str] = (),
) -> pd.DataFrame:
    """Run the scenario for every capacity and discipline.

    Returns:
        A row a run: capacity (bit/s), discipline, method, format, what it took to the gap as
        `cost_to_target` has it, and radio_joules, the energy of all radios until then.
    """
    cases = [(capacity, way) for way in DISCIPLINES for capacity in capacities]
    tables = []
    for capacity, way in track(cases, console=Console(stderr=True)):
        result = fedsim.run(
            SCENARIO,
            out=out and out / f"{way}-{capacity:.0f}",
            overrides=[
                f"network.server.uplink={capacity:.0f} bit/s",
                f"network.server.discipline={way}",
                *overrides,
            ],
        )
        costs = cost_to_target(result.rounds, result.summary["target"].max())
        clients = result.clients.groupby("variant", sort=False, observed=True)
        radio = clients[list(RADIO)].sum().sum(axis=1)
        costs["radio_joules"] = radio.to_numpy()
        costs.loc[~costs["reached"], "radio_joules"] = np.nan
        tables.append(names(costs).assign(capacity=capacity, discipline=way))
    return pd.concat(tables, ignore_index=True)


def unending(out: Path | None = None, overrides: Sequence[str] = ()) -> pd.DataFrame:
    """Run the scenario without a target and return its rounds with method and format."""
    overrides = ["stop.gap=null", "stop.rounds=500", "network.server.uplink=unlimited", *overrides]
    return names(fedsim.run(SCENARIO, out=out and out / "floors", overrides=overrides).rounds)


def floors(rounds: pd.DataFrame) -> "pd.Series[float]":
    """Return the gap that each method and format does not get below."""
    last = rounds[rounds["round"] > rounds["round"].max() - TAIL]
    medians: pd.Series[float] = last.groupby(["method", "format"], sort=False)["gap"].median()
    return medians


def table(costs: pd.DataFrame) -> Table:
    """Return what the gap took at the narrowest and the widest uplink."""
    rows = []
    ends = costs["capacity"].isin([costs["capacity"].min(), costs["capacity"].max()])
    for row in costs[ends].to_dict("records"):
        head = (quantity(row["capacity"], "bit/s"), row["discipline"], row["method"], row["format"])
        figures = (
            *(quantity(row["round"]), quantity(row["transmissions"])),
            *(quantity(row["bits_up"], "bit"), quantity(row["t"], "s")),
            *(quantity(row["radio_joules"], "J"), quantity(row["joules"], "J")),
        )
        rows.append((*head, *figures))
    heads = ("uplink", "shared", "method", "values", "rounds", "messages", "bits up", "time")
    return listing("Costs to the gap; - where it is out of reach", (*heads, "radios", "all"), rows)


def finding(costs: pd.DataFrame, rounds: pd.DataFrame) -> str:
    """Return the answer in the numbers of these runs."""
    index = ["discipline", "method", "format"]
    narrow, wide = (
        costs[costs["capacity"] == capacity].set_index(index).sort_index()
        for capacity in (costs["capacity"].min(), costs["capacity"].max())
    )
    fair, fifo = narrow.loc["fair"], narrow.loc["fifo"]
    t, sent, floor = fair["t"], fair["transmissions"], floors(rounds)
    saved = 1 - fifo["radio_joules"] / fair["radio_joules"]
    hb, chb, half, both = (
        ("hb", "float32"),
        ("chb", "float32"),
        ("hb", "float16"),
        ("chb", "float16"),
    )
    narrowest, widest = (quantity(costs["capacity"].agg(end), "bit/s") for end in ("min", "max"))
    return fill(
        f"Over {narrowest} and in float32, censoring makes heavy ball {t[hb] / t[chb]:.1f} times "
        f"as fast, float16 makes it {t[hb] / t[half]:.1f} times as fast, and both together "
        f"{t[hb] / t[both]:.1f} times: a model that is rounded on its way down moves the "
        f"gradients, and CHB sends {sent[both]:,.0f} messages in place of {sent[chb]:,.0f}. "
        f"Rounding also sets a floor: a gap of {floor[half]:.0e} for float16 and "
        f"{floor['hb', 'bfloat16']:.0e} for bfloat16 under HB, {floor[both]:.0e} and "
        f"{floor['chb', 'bfloat16']:.0e} under CHB. "
        f"One transfer at a time (fifo) takes {fifo['t'][hb] / t[hb]:.3f} of the time of fair "
        f"shares, but a waiting client need not keep its radio up: HB's radios spend "
        f"{saved[hb]:.0%} less in float32, CHB's {saved[both]:.0%} less in float16. Over {widest} "
        f"one radio "
        f"cannot fill the link, and fifo takes "
        f"{wide['t']['fifo', *hb] / wide['t']['fair', *hb]:.1f} times as long.",
        88,
    )


def draw(costs: pd.DataFrame, rounds: pd.DataFrame) -> Figure:
    """Draw the floors, the time to the gap, and the energy of the radios until then."""
    figure, every = panels(3, 2, 2.8)
    left, right, below = every
    for (method, form), run in rounds.groupby(["method", "format"], sort=False):
        left.plot(run["round"], run["gap"].where(run["gap"] > 0), **_style(str(method), str(form)))
    left.set(ylim=(1e-7, None), xlabel="rounds")
    label_axis(left.yaxis, words("gap"), log=True)
    _against_capacity(right, costs[costs["discipline"] == "fair"], "t")
    label_axis(right.yaxis, "time to the gap,\nlink shared fairly", "s", log=True)
    few = costs[(costs["format"] == "float32") | (costs["format"] == "float16")]
    _against_capacity(below, few, "radio_joules")
    label_axis(below.yaxis, "energy of all radios\nto the gap", "J", log=True)
    name_variants(figure, handles=_keys())
    setting = f"smoothness; 50 phone-mid over wifi; seed {costs['seed'].min()}"
    entitle(figure, f"Compression and a shared uplink\n{setting}")
    return figure


def _style(method: str, form: str) -> dict[str, Any]:
    return {"color": FORMATS[form], "linestyle": METHODS[method], "linewidth": 1.3}


def _against_capacity(axis: Axes, costs: pd.DataFrame, column: str) -> None:
    for (method, form, way), line in costs.groupby(["method", "format", "discipline"], sort=False):
        style = _style(str(method), str(form))
        axis.plot(line["capacity"], line[column], marker=DISCIPLINES[str(way)], ms=5, **style)
    label_axis(axis.xaxis, "server's uplink", "bit/s", log=True)


def _keys() -> list[Line2D]:
    formats = [Line2D([], [], color=colour, label=form) for form, colour in FORMATS.items()]
    methods = [
        Line2D([], [], color="black", linestyle=dash, label=method.upper())
        for method, dash in METHODS.items()
    ]
    ways = [
        Line2D([], [], color="black", linestyle="", marker=marker, label=way)
        for way, marker in DISCIPLINES.items()
    ]
    return [*formats, *methods, *ways]


def main() -> None:
    """Run the study, print its table and its finding, and draw its figure."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--out", type=Path, help="keep the run folders here")
    out = parser.parse_args().out
    costs, rounds = swept(out=out), unending(out)
    Console(width=None if sys.stdout.isatty() else 150).print(table(costs))
    print(finding(costs, rounds))
    save(draw(costs, rounds), FIGURE)


if __name__ == "__main__":
    main()
