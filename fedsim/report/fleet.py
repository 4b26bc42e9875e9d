"""The fleet: which kinds of clients there are, what they run on, and what they sent."""

from collections.abc import Mapping
from typing import Any

import pandas as pd

from fedsim.analysis import COLOURS
from fedsim.record.scenarios import group_of
from fedsim.report.parts import Cell, Table, number, words
from fedsim.report.study import Run, Study


def fleets(study: Study) -> list[tuple[list[str], Run]]:
    """Return the different fleets and networks: the variants that have each, and a run of it."""
    found: list[tuple[list[str], Run]] = []
    for variant, run in study.variants.items():
        label = study.labels[variant]
        for names, other in found:
            if all(run.scenario[key] == other.scenario[key] for key in ("fleet", "network")):
                names.append(label)
                break
        else:
            found.append(([label], run))
    return found


def table(study: Study, run: Run) -> Table:
    """Return the kinds of clients: how many, on what, over what, from which store."""
    rows = []
    for group, own in run.rows(study.clients).groupby("group", sort=True):
        spec: Mapping[str, Any] = group_of(run.scenario, int(str(group)))
        device, radio = spec["device"], spec["radio"]
        samples = own["samples"]
        rows.append(
            [
                Cell(str(group), colour=COLOURS[int(str(group)) % len(COLOURS)]),
                number(len(own)),
                *words(device["kind"], device.get("speed") or "-", radio["kind"]),
                *words(_rate(radio, "up"), _rate(radio, "down"), _battery(spec)),
                *words(spec.get("availability", {}).get("kind", "always")),
                Cell(_range(samples), float(samples.sum())),
            ]
        )
    heads = (
        *("kind", "clients", "device", "speed", "radio", "up", "down"),
        *("battery", "availability", "samples of a client"),
    )
    return Table("Kinds of clients", heads, rows)


def _rate(radio: Mapping[str, Any], way: str) -> str:
    return str(radio.get(way) or ("trace" if radio.get(f"{way}_trace") else "-"))


def _battery(spec: Mapping[str, Any]) -> str:
    battery = spec.get("battery")
    if battery is None:
        return "mains"
    capacity = battery.get("capacity") or spec["device"].get("battery") or ""
    charge = battery.get("charge")
    return f"{capacity} at {charge}" if charge else str(capacity)


def _range(samples: "pd.Series[int]") -> str:
    least, most = int(samples.min()), int(samples.max())
    return f"{least:,}" if least == most else f"{least:,} to {most:,}"
