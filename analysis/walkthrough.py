"""A walk through the event log in pandas: what was every client doing, and what did it cost?

    python analysis/walkthrough.py [--out DIR]

Runs scenarios/walkthrough.yaml, asks its log one question after the other, and draws what the
clients did as analysis/figures/walkthrough.png. The functions below are the questions; any of
them can be asked of the log of another run.
"""

import argparse
from collections.abc import Sequence
from pathlib import Path
from textwrap import fill

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import PercentFormatter

import fedsim
from fedsim.results.analysis import (
    PART_COLOURS,
    label_axis,
    name_variants,
    panels,
    save,
    spans,
    stacked_bars,
    time_in_states,
)
from fedsim.results.analysis.style import entitle

ROOT = Path(__file__).resolve().parents[1]
SCENARIO = ROOT / "scenarios/walkthrough.yaml"
FIGURE = ROOT / "analysis/figures/walkthrough.png"

BITS = ["payload_bits", "header_bits", "transport_bits"]
RADIOS = ("lte", "wifi")  # of phones, of boards
COLOURS = {
    "compute": PART_COLOURS["computing"],
    "upload": PART_COLOURS["sending"],
    "retransmit": PART_COLOURS["sending again"],
    "download": PART_COLOURS["receiving"],
    "promotion": PART_COLOURS["promotion"],
    "tail": PART_COLOURS["tail"],
    "idle": "#DDDDDD",
    "offline": "#777777",
    "empty": "#000000",
}
"""The colours of the energy's parts, and greys for idle clients."""


def bits(log: pd.DataFrame) -> pd.DataFrame:
    """How many bits did each client send and receive, and how many once more?"""
    own = log[log["node"] != "server"].assign(bits=log[BITS].sum(axis=1))
    moved = own[own["event"].isin(["send", "receive", "retransmit"])]
    table = moved.pivot_table("bits", "node", "event", "sum", observed=True).fillna(0)
    return table.astype(int)


def stragglers(log: pd.DataFrame) -> pd.DataFrame:
    """Return in how many rounds each client was last, and how far behind the one before."""
    arrivals = log[(log["event"] == "receive") & (log["node"] == "server")]
    behind = arrivals.groupby("round")["t"].agg(lambda t: t.iloc[-1] - t.iloc[:-1].max())
    last = arrivals.groupby("round").last().assign(behind=behind)
    table = last.groupby("peer", observed=True)["behind"].agg(["size", "median", "max"])
    return table.set_axis(["rounds", "median, s", "most, s"], axis="columns")


def missing(log: pd.DataFrame) -> pd.DataFrame:
    """Return the skipped clients, with counts and reasons."""
    skipped = log[log["event"] == "skipped"]
    return pd.crosstab(skipped["node"].astype(str), skipped["detail"].astype(str))


def energy(log: pd.DataFrame) -> pd.DataFrame:
    """Where did each client's energy go, in joules, and what share of it is radio tails?

    Without what devices draw at rest, which stands in the rows of rounds, for all together.
    """
    own = log[(log["node"] != "server") & (log["joules"] > 0)]
    table = own.pivot_table("joules", "node", "event", "sum", observed=True).fillna(0)
    return table.assign(**{"tail share": table.get("tail", 0) / table.sum(axis=1)})


def states(log: pd.DataFrame) -> pd.DataFrame:
    """How long was each client in each state, as a share of the run?"""
    table = time_in_states(log).set_index("node")[list(COLOURS)]
    return table.div(table.sum(axis=1), axis="index")


def outages(log: pd.DataFrame) -> pd.DataFrame:
    """When does a battery first run empty, how often, and for how long is its client off?"""
    own = spans(log)
    empty = own[own["state"] == "empty"].assign(off=lambda own: own["end"] - own["begin"])
    table = empty.groupby("node", observed=True).agg({"begin": "min", "off": ["size", "mean"]})
    return table.set_axis(["first, s", "times", "each, s"], axis="columns")


QUESTIONS = (bits, stragglers, missing, energy, states, outages)


def run(out: Path | None = None, overrides: Sequence[str] = ()) -> fedsim.Result:
    """Run the scenario."""
    return fedsim.run(SCENARIO, out=out, overrides=overrides)


def log_of(result: fedsim.Result) -> pd.DataFrame:
    """Return the log of the only run of a result."""
    return result.events.drop(columns=["variant", "seed"])


def finding(result: fedsim.Result) -> str:
    """Return the answer in the numbers of this run."""
    log, radio = log_of(result), result.clients.set_index("client")["radio"]
    time, last = states(log), stragglers(log)
    phones, boards = (list(radio.index[radio == kind]) for kind in RADIOS)
    spent = energy(log).loc[phones].drop(columns="tail share").sum()
    slowest = str(last["rounds"].idxmax())
    return fill(
        f"Radio tails are {spent['tail'] / spent.sum():.0%} of what phones spend beyond what "
        f"they draw at rest, and bits are {(spent['send'] + spent['receive']) / spent.sum():.2%}. "
        f"{slowest} comes last most often, in {last['rounds'][slowest]} of "
        f"{last['rounds'].sum()} rounds, {last['median, s'][slowest]:.2f} s behind the one before. "
        f"Boards compute for {time['compute'][boards].mean():.0%} of the time, rest or wait for "
        f"charge for {time['idle'][boards].mean():.0%}, and are off, their batteries empty, for "
        f"{time['empty'][boards].mean():.0%}.",
        88,
    )


def draw(log: pd.DataFrame, setting: str = "", seconds: float = 8.0) -> Figure:
    """Draw the time in each state, and the moment at which a battery first runs empty."""
    figure, (shares, timeline) = panels(2, 2, 3.6)
    stacked_bars(shares, states(log), COLOURS)
    shares.xaxis.set_major_formatter(PercentFormatter(1))
    shares.set(xlim=(0, 1), xlabel="of the run")
    shares.set_title("time in each state", fontsize=10)
    first = outages(log)["first, s"].min()
    end = log["t"].max() if np.isnan(first) else first + seconds / 2
    _timeline(timeline, spans(log), (max(end - seconds, 0.0), end), list(states(log).index))
    name_variants(figure)
    for axis in (shares, timeline):
        axis.grid(visible=False)
    entitle(figure, f"A walk through the event log\n{setting}", apart=True)
    return figure


def _timeline(
    axis: Axes, doings: pd.DataFrame, window: tuple[float, float], clients: Sequence[str]
) -> None:
    """Draw a bar a span; tails are thin, for a client computes during them."""
    begin, end = window
    inside = doings[(doings["end"] > begin) & (doings["begin"] < end)]
    for state, colour in reversed(COLOURS.items()):
        own = inside[inside["state"] == state]
        height = 0.3 if state == "tail" else 0.8
        axis.barh(
            [clients.index(node) for node in own["node"]],
            own["end"] - own["begin"],
            height,
            left=own["begin"],
            color=colour,
            edgecolor=colour,  # what takes a millisecond is still a line
            linewidth=0.8,
            zorder=2 if state == "tail" else 3,
        )
    axis.set_yticks(range(len(clients)), clients)
    axis.set(xlim=window, ylim=(len(clients) - 0.5, -0.5))
    label_axis(axis.xaxis, "simulated time", "s")
    axis.set_title("as the first battery ran empty", fontsize=10)


def main() -> None:
    """Ask all questions, print the finding and draw the figure."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--out", type=Path, help="keep the run folder here")
    result = run(parser.parse_args().out)
    log = log_of(result)
    for question in QUESTIONS:
        print((question.__doc__ or "").splitlines()[0])
        print(question(log).round(4).to_string(), end="\n\n")
    print(finding(result))
    save(draw(log, result.setting), FIGURE)


if __name__ == "__main__":
    main()
