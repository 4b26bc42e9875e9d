"""The page of a study: its data, its sliders and its scripts, in one file."""

import json
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import isfinite
from pathlib import Path
from typing import Any

from fedsim.addons.explorer.histories import CompactHistory, pack
from fedsim.addons.explorer.sliders import SERVER, Slider, figures_of
from fedsim.addons.robustness.fleets import counts_grams
from fedsim.addons.robustness.pricing import Costs
from fedsim.core.extras import VERSION
from fedsim.results.analysis.compare.cost_tables import Target
from fedsim.results.analysis.compare.pairwise import PRACTICAL
from fedsim.results.analysis.style import COLOURS
from fedsim.results.report.page import page_script
from fedsim.results.report.templating import asset, environment, palette, script_hash
from fedsim.scenario import Group, Scenario

SCRIPTS = ("history.js", "fleet.js", "recursion.js", "values.js", "study.js", "explorer.js")
"""The scripts of the page, in order; only the last one needs a document."""

_COSTS = (("t", "time", "s"), ("joules", "energy", "J"), ("grams", "emissions", "g"))

TITLES: Mapping[tuple[str, str], str] = {
    ("radio", "up"): "uplink rate",
    ("radio", "down"): "downlink rate",
    ("radio", "latency"): "latency, one way",
    ("radio", "energy_up"): "energy of a bit sent",
    ("radio", "energy_down"): "energy of a bit received",
    ("radio", "base"): "base power of a transfer",
    ("radio", "send"): "power on air, sending",
    ("radio", "receive"): "power on air, receiving",
    ("radio", "promotion_power"): "promotion power",
    ("radio", "promotion_time"): "promotion time",
    ("radio", "tail_power"): "tail power",
    ("radio", "tail_time"): "tail time",
    ("radio", "idle"): "idle power",
    ("radio", "listen"): "listening power",
    ("radio", "sleep"): "sleep power",
    ("radio", "listening"): "share of listening",
    ("radio", "framing"): "header of a packet",
    ("device", "speed"): "speed",
    ("device", "cycles_per_sample"): "cycles per sample",
    ("device", "frequency"): "clock frequency",
    ("device", "kappa"): "capacitance (kappa)",
    ("device", "active"): "power at work",
    ("device", "idle"): "idle power",
    ("device", "battery"): "battery capacity",
    ("carbon", "intensity"): "carbon intensity",
    ("network", "uplink"): "uplink of the server",
    ("network", "downlink"): "downlink of the server",
    ("network", "latency"): "latency of the server, one way",
}
"""The words for each figure."""


@dataclass(frozen=True)
class ExploredRun:
    """A run of the page.

    Attributes:
        variant, seed: of the run.
        fleet: the number of its fleet.
        history: its history up to the target; None if it missed the target.
        costs: its costs up to the target from the log, against which the page checks its own; NaN
            if not tracked.
    """

    variant: str
    seed: int
    fleet: int
    history: CompactHistory | None
    costs: Costs


@dataclass(frozen=True)
class ExploredStudy:
    """The content of a page.

    Attributes:
        folder: of the study, as the caller named it.
        target: the target of the costs.
        labels: of the variants, in order.
        fleets: a scenario for each different fleet.
        sliders: the constants with a slider.
        runs: in the order of the variants.
        notes: notes on variants and seeds that are left out.
        whole: whether all variants of the folder are included.
        verdicts: of seeds and sampled worlds, with all constants as written, as `compare` words
            them.
    """

    folder: Path
    target: Target
    labels: Mapping[str, str]
    fleets: tuple[Scenario, ...]
    sliders: tuple[Slider, ...]
    runs: tuple[ExploredRun, ...]
    notes: tuple[str, ...]
    whole: bool
    verdicts: tuple[str, ...]

    @property
    def name(self) -> str:
        """The name of the scenario, or of its folder."""
        return self.fleets[0].name or self.folder.resolve().name

    @property
    def seeds(self) -> int:
        """The number of seeds."""
        return len({run.seed for run in self.runs})


def render(study: ExploredStudy) -> str:
    """Return the page of a study, as HTML."""
    histories = pack([run.history for run in study.runs if run.history is not None])
    script = page_script(*SCRIPTS, package="fedsim.addons.explorer")
    return (
        environment("fedsim.addons.explorer")
        .get_template("explorer.html")
        .render(
            study=study,
            goal=study.target.words,
            fedsim=VERSION,
            panels=list(_panels(study)),
            costs=_costs(study),
            palette=palette(),
            style=asset("fedsim.results.report", "page.css")
            + asset("fedsim.addons.explorer", "explorer.css"),
            script=script,
            hash=script_hash(script),
            data=_json(_data(study, histories.places)),
            block=histories.text,
        )
    )


def _json(data: object) -> str:
    """Return JSON that is safe inside a script element of HTML."""
    return json.dumps(data, allow_nan=False, separators=(",", ":")).replace("<", "\\u003c")


def _panels(study: ExploredStudy) -> Iterator[dict[str, Any]]:
    """Yield the sliders of each preset: its block and kind, the sliders and their numbers."""
    panels = dict[tuple[str, str], list[tuple[int, Slider, str]]]()
    for number, slider in enumerate(study.sliders):
        text = TITLES[slider.block, slider.field]
        panels.setdefault((slider.block, slider.kind), []).append((number, slider, text))
    for (block, kind), sliders in panels.items():
        title = "server's link" if block == "network" else f"{block} {kind}"
        named = [
            (number, slider, _distinct(slider, text, sliders)) for number, slider, text in sliders
        ]
        yield {"title": title[0].upper() + title[1:], "sliders": named}


def _distinct(slider: Slider, text: str, panel: list[tuple[int, Slider, str]]) -> str:
    """Return the title of a slider, with its groups if another one has the same figure."""
    if sum(other.field == slider.field for _, other, _ in panel) == 1:
        return text
    groups = sorted({group for places in slider.places for group in places})
    return f"{text}, fleet.{', '.join(map(str, groups))}"


def _costs(study: ExploredStudy) -> tuple[tuple[str, str, str], ...]:
    """Return the costs that are known for all fleets: name, label, unit."""
    carbon = all(counts_grams(scenario.fleet) for scenario in study.fleets)
    return _COSTS if carbon else _COSTS[:2]


def _data(study: ExploredStudy, places: tuple[dict[str, Any], ...]) -> dict[str, Any]:
    """Return the data for the scripts; see `explorer.js`."""
    names, fleet_of = list(study.labels), {run.variant: run.fleet for run in study.runs}
    rest = iter(places)
    return {
        "goal": study.target.goal,
        "verdicts": study.verdicts,
        "practical": PRACTICAL,
        "costs": _costs(study),
        "fleets": [_fleet(item, study) for item in study.fleets],
        "variants": [
            {
                "name": name,
                "label": label,
                "fleet": fleet_of[name],
                "colour": number % len(COLOURS),
            }
            for number, (name, label) in enumerate(study.labels.items())
        ],
        "runs": [
            {
                "variant": names.index(run.variant),
                "seed": run.seed,
                "history": None if run.history is None else next(rest),
                "known": [value if isfinite(value) else None for value in run.costs],
            }
            for run in study.runs
        ],
        "sliders": [_slider(study, item) for item in study.sliders],
        "commands": _commands(study, fleet_of),
    }


def _fleet(scenario: Scenario, study: ExploredStudy) -> dict[str, Any]:
    """Return the figures of a fleet; without a fleet, those of ideal clients."""
    groups = scenario.fleet or (Group(count=_clients_of(study)),)
    link = scenario.network.server  # type: ignore[attr-defined]  # it is a star
    server = {name: getattr(link, name) for name in SERVER}
    return {
        "groups": [figures_of(group) for group in groups],
        "server": {
            name: value if isfinite(value) else "Infinity" for name, value in server.items()
        },
    }


def _clients_of(study: ExploredStudy) -> int:
    """Return the number of clients, which is the same in all runs."""
    history = next(run.history for run in study.runs if run.history is not None)
    return int(history.counts.sum())


def _slider(study: ExploredStudy, slider: Slider) -> dict[str, Any]:
    fleets = range(len(study.fleets))
    return {
        "block": slider.block,
        "field": slider.field,
        "name": f"{slider.kind}.{slider.field}",
        "title": _title(slider, study.sliders),
        "value": slider.value,
        "low": slider.low,
        "high": slider.high,
        "unit": slider.unit,
        "whole": slider.field == "framing",
        "places": slider.places,
        "keys": [slider.keys(fleet) for fleet in fleets],
    }


def _title(slider: Slider, every: Sequence[Slider]) -> str:
    """Return what an axis of the map calls a constant."""
    panel = [
        (0, each, "") for each in every if (each.block, each.kind) == (slider.block, slider.kind)
    ]
    text = _distinct(slider, TITLES[slider.block, slider.field], panel)
    return text if slider.block == "network" else f"{slider.kind}: {text}"


def _commands(study: ExploredStudy, fleet_of: Mapping[str, int]) -> list[dict[str, Any]]:
    """Return the commands that re-price the study, each with the number of its fleet.

    One command takes the whole folder if all variants are there and have the same fleet.
    """
    if study.whole and len(study.fleets) == 1:
        return [{"fleet": 0, "place": shlex.quote(str(study.folder))}]
    return [
        {"fleet": fleet, "place": shlex.quote(str(study.folder / name))}
        for name, fleet in fleet_of.items()
    ]
