"""Does censoring save energy when silence needs a beacon, and radio tails cost more than bits?

    python analysis/studies/censoring_and_tails.py [--out DIR]

Runs scenarios/studies/censoring-and-tails.yaml for three radios at two paces: gradients that
take 15 and 60 s, between which an LTE radio falls asleep, and gradients that take no time to
speak of. Prints where the energy went until the gap was reached, and draws what the radios
took of it as analysis/figures/censoring-and-tails.png.
"""

import argparse
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from textwrap import fill
from typing import NamedTuple

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from rich.console import Console
from rich.progress import track
from rich.table import Table

import fedsim
from fedsim.results.analysis import (
    PART_COLOURS,
    energy_parts,
    label_axis,
    listing,
    name_variants,
    panels,
    quantity,
    save,
    stacked_bars,
)
from fedsim.results.analysis.style import entitle

ROOT = Path(__file__).resolve().parents[2]
SCENARIO = ROOT / "scenarios/studies/censoring-and-tails.yaml"
FIGURE = ROOT / "analysis/figures/censoring-and-tails.png"

CLIENTS = 10

SLOW, FAST = "gradients of 15 and 60 s", "gradients of 0.1 ms"

RADIOS = {"lte": "LTE", "wifi": "Wi-Fi", "nb-iot": "NB-IoT"}

METHODS = {
    "gd": "GD",
    "lag": "LAG, beacons",
    "lag-ps": "LAG-PS, asks few",
    "base": "HB",
    "chb": "CHB, beacons",
    "chb-deadline": "CHB, deadline",
}

RADIO_PARTS = {
    part: PART_COLOURS[part] for part in ("promotion", "tail", "receiving", "sending", "idle")
}
"""What of the energy the figure shows, and in which colours: all but the computing."""

Costs = Mapping[tuple[str, str], pd.DataFrame]
"""By pace and radio: a row a variant, with what the fleet spent by parts and in all (joules), J;
the rounds, the time t (s), transmissions and beacons."""


class Case(NamedTuple):
    """A radio at a pace.

    Attributes:
        pace: `SLOW` or `FAST`.
        radio: the preset.
        deadline: a little more than a reply takes, the radio's promotion included.
    """

    pace: str
    radio: str
    deadline: str

    @property
    def overrides(self) -> list[str]:
        """What makes the scenario this case; as written it is slow."""
        texts = [f"fleet.{group}.radio={self.radio}" for group in (0, 1)]
        if self.pace == FAST:
            texts += [f"fleet.{group}.device=cortex-m7" for group in (0, 1)]
        return [*texts, f"variants.chb-deadline.silence.after={self.deadline}"]


CASES = (
    Case(SLOW, "lte", "65 s"),
    Case(SLOW, "wifi", "65 s"),
    Case(SLOW, "nb-iot", "65 s"),
    Case(FAST, "lte", "500 ms"),
    Case(FAST, "wifi", "200 ms"),
    Case(FAST, "nb-iot", "2 s"),
)


def spent(
    cases: Sequence[Case] = CASES, out: Path | None = None, overrides: Sequence[str] = ()
) -> Costs:
    """Run the cases and return what each of them cost."""
    costs = {}
    for case in track(cases, console=Console(stderr=True)):
        folder = out and out / f"{case.radio}-{'slow' if case.pace == SLOW else 'fast'}"
        result = fedsim.run(SCENARIO, out=folder, overrides=[*case.overrides, *overrides])
        ends = result.summary.set_index("variant")
        costs[case.pace, case.radio] = energy_parts(result.clients, ["variant"]).join(
            ends[["joules", "rounds", "t", "transmissions", "beacons"]]
        )
    return costs


def table(costs: Costs) -> Table:
    """Return the costs as a table for reading."""
    parts = ("tail", "promotion", "receiving", "sending", "idle", "computing", "joules")
    rows = [
        (
            *(pace.removeprefix("gradients of "), RADIOS[radio], METHODS[str(row["variant"])]),
            *(quantity(row["rounds"]), duration(row["t"])),
            *(quantity(row["transmissions"]), quantity(row["beacons"])),
            *(quantity(row[part], "J") for part in parts),
        )
        for (pace, radio), spent in costs.items()
        for row in spent.reset_index().to_dict("records")
    ]
    heads = ("gradient", "radio", "method", "rounds", "time", "messages", "beacons")
    return listing("Ten clients until the gap is reached", (*heads, *parts[:-1], "all"), rows)


def radio_joules(spent: pd.DataFrame) -> "pd.Series[float]":
    """Return the energy of each variant without that of computing, J."""
    return spent[list(RADIO_PARTS)].sum(axis=1)


def finding(costs: Costs) -> str:
    """Return the answer in the numbers of these runs, which are of all cases."""
    lte, narrow = costs[SLOW, "lte"], costs[FAST, "nb-iot"]
    slow, fast = radio_joules(lte), radio_joules(costs[FAST, "lte"])
    at_rest = radio_joules(costs[SLOW, "nb-iot"]), radio_joules(narrow)
    return fill(
        f"CHB sends {_less(lte['transmissions'])} fewer messages than HB, but LTE radios that "
        f"sleep between rounds spend {_less(slow)} less on it, which are the "
        f"{_less(lte['rounds'])} of rounds that CHB saves: a beacon wakes a radio as a message "
        f"does, and {lte['tail']['chb'] / slow['chb']:.0%} of what they spend are tails. "
        f"Silence until a deadline takes {_less(slow, 'chb-deadline', 'chb')} off that, and a "
        f"server that contacts only the clients it needs takes "
        f"{_less(slow, 'lag-ps', 'lag')} off what LAG spends, as the broadcast "
        f"wakes every client, too; but where rounds are shorter than a "
        f"tail, LTE radios never sleep, energy follows time, and the deadline costs "
        f"{fast['chb-deadline'] / fast['chb']:.1f} times what beacons do. On NB-IoT, which has "
        f"no tail, CHB takes {_less(narrow['sending'])} off the energy of sending, and "
        f"{_less(at_rest[0])} (slow) or {_less(at_rest[1])} (fast) off that of radios which "
        f"draw power at rest as well.",
        88,
    )


def _less(costs: "pd.Series[float]", one: str = "chb", other: str = "base") -> str:
    return f"{1 - costs[one] / costs[other]:.0%}"


def draw(costs: Costs) -> Figure:
    """Draw what an average client spent: a panel a case, a bar a method."""
    paces = list(dict.fromkeys(pace for pace, _ in costs))
    radios = list(dict.fromkeys(radio for _, radio in costs))
    figure, every = panels(len(paces) * len(radios), len(paces), 1.9)
    for (pace, radio), spent in costs.items():
        row, column = radios.index(radio), paces.index(pace)
        axis = every[row * len(paces) + column]
        _panel(axis, spent.loc[[name for name in METHODS if name in spent.index]])
        axis.set_title(f"{RADIOS[radio]}, {pace}", fontsize=10)
        if column:
            axis.tick_params(labelleft=False)
    name_variants(figure)
    said = "energy of a client to the gap, without computing; beside it, the time"
    setting = "breast-cancer; ten cortex-m7; seed 1"
    entitle(figure, f"Censoring and radio tails: {said}\n{setting}", apart=True)
    return figure


def _panel(axis: Axes, spent: pd.DataFrame) -> None:
    parts = spent[list(RADIO_PARTS)].rename(index=METHODS) / CLIENTS
    stacked_bars(axis, parts, RADIO_PARTS)
    ends = parts.sum(axis=1)
    most = float(ends.max())
    for bar, (end, seconds) in enumerate(zip(ends, spent["t"], strict=True)):
        axis.text(end + 0.02 * most, bar, duration(seconds), va="center", fontsize=9)
    axis.set_xlim(0, 1.3 * most)
    label_axis(axis.xaxis, "", "J")
    axis.grid(visible=False, axis="y")
    axis.tick_params(axis="y", length=0)


def duration(seconds: float) -> str:
    """Return a time as a reader would say it."""
    for unit, length in (("h", 3600), ("min", 60)):
        if seconds >= length:
            return f"{seconds / length:.3g} {unit}"
    return f"{seconds:.3g} s"


def main() -> None:
    """Run the study, print its table and its finding, and draw its figure."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--out", type=Path, help="keep the run folders here")
    costs = spent(out=parser.parse_args().out)
    Console(width=None if sys.stdout.isatty() else 150).print(table(costs))
    print(finding(costs))
    save(draw(costs), FIGURE)


if __name__ == "__main__":
    main()
