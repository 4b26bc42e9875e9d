"""The fleet: which kinds of clients there are, what they run on, and what they sent."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import pandas as pd

from fedsim.core.text import format_number
from fedsim.results.analysis import DEVICE_COLOURS, plot_outcomes
from fedsim.results.analysis.client_names import display_names
from fedsim.results.analysis.costs import last_round
from fedsim.results.analysis.log.edges import node_number
from fedsim.results.analysis.log.frames import SERVER
from fedsim.results.analysis.plots.network import attacks_of
from fedsim.results.record.scenarios import group_of, tiers_of
from fedsim.results.report.components import PageTable, TableCell, client_table, number, words
from fedsim.results.report.drawing import BAR, BOX, PageFigure, draw, many
from fedsim.results.report.study import ReportedRun, ReportedStudy, RunTables

_PHYSICAL = ("fleet", "network", "tiers")


def fleets(study: ReportedStudy) -> list[tuple[list[str], ReportedRun]]:
    """Return the different fleets and networks: the variants that have each, and a run of it."""
    found: list[tuple[list[str], ReportedRun]] = []
    for variant, run in study.variants.items():
        label = study.labels[variant]
        for names, other in found:
            if all(run.scenario.get(key) == other.scenario.get(key) for key in _PHYSICAL):
                names.append(label)
                break
        else:
            found.append(([label], run))
    return found


def fleet_table(study: ReportedStudy, run: ReportedRun) -> PageTable:
    """Return the kinds of clients: how many, on what, over what, from which store."""
    rows, false = [], bool(attacks_of(run.scenario))
    for group, own in run.rows(study.clients).groupby("group", sort=True):
        spec: Mapping[str, Any] = group_of(run.scenario, int(str(group)))
        device, radio = spec["device"], spec["radio"]
        samples = own["samples"]
        rows.append(
            [
                TableCell(str(group), colour=DEVICE_COLOURS[int(str(group)) % len(DEVICE_COLOURS)]),
                number(len(own)),
                *words(device["kind"], device.get("speed") or "-", radio["kind"]),
                *words(_rate(radio, "up"), _rate(radio, "down"), _battery(spec)),
                *words(spec.get("availability", {}).get("kind", "always")),
                *(words((spec.get("attack") or {}).get("kind", "none")) if false else ()),
                TableCell(_range(samples), float(samples.sum())),
            ]
        )
    heads = (
        *("kind", "clients", "device", "speed", "radio", "up", "down"),
        *("battery", "availability"),
        *(("attack",) if false else ()),
        "samples of a client",
    )
    return PageTable("Kinds of clients", heads, rows)


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


# Participation: clients that received from the server, replied, were silent, late or left out.

COUNTS = ("received", "transmissions", "silent", "late", "lost", "skipped")
"""Columns: messages of the server that arrived; replies that carry something; the client's
decisions to say nothing; replies after the round had closed; messages lost for good; rounds in
which the policy left the client out."""

_HEADS = {"transmissions": "replied"}


def received_counts(run: ReportedRun) -> "pd.Series[int]":
    """Return how many messages of the server, or of the gateway above, arrived at each client."""
    rows = run.events(["event", "node", "peer", "detail"])
    rows = rows[(rows["event"] == "receive") & rows["detail"].isna()]
    return _count(rows, lambda node, peer: _is_above(peer, node))


def _sent_down(run: ReportedRun) -> "pd.Series[int]":
    """Return how many messages that carry something each gateway sent to those below it."""
    rows = run.events(["event", "node", "peer", "payload_bits"])
    return _count(rows[(rows["event"] == "send") & (rows["payload_bits"] > 0)], _is_above)


def _count(rows: pd.DataFrame, wanted: Callable[[str, str], bool]) -> "pd.Series[int]":
    """Return the number of rows of each node, of those whose node and peer are wanted."""
    ends = [rows[end].astype(str) for end in ("node", "peer")]
    counts = rows.groupby(ends).size()
    kept = counts[[wanted(node, peer) for node, peer in counts.index]]
    return kept.groupby(level=0).sum()


def _is_above(node: str, other: str) -> bool:
    """Return whether a node is the server, or a gateway above another node.

    >>> _is_above("gateway-7", "gateway-5"), _is_above("gateway-7", "server")
    (True, False)
    """
    if SERVER in (node, other):
        return node == SERVER
    return node.startswith("gateway-") and node_number(node) > node_number(other)


def with_received_counts(study: ReportedStudy) -> pd.DataFrame:
    """Return the client tables with the column received; gateways' transmissions are replies."""
    parts = []
    for run in study.runs:
        own = run.rows(study.clients)
        own = own.assign(received=own["client"].map(received_counts(run)).fillna(0))
        if tiers_of(run.scenario):
            replies = own["transmissions"] - own["client"].map(_sent_down(run)).fillna(0)
            own = own.assign(transmissions=replies)
        parts.append(own)
    return pd.concat(parts, ignore_index=True)


def participation_table(study: ReportedStudy, clients: pd.DataFrame) -> PageTable:
    """Return what the clients of each kind did, in a run: means over the seeds."""
    sums = clients.groupby(["variant", "kind"], sort=False, observed=True)[list(COUNTS)].sum()
    rows = []
    for variant, kind in sums.index:
        means = sums.loc[(variant, kind)] / study.seeds[str(variant)]
        cells = [number(float(means[name])) for name in COUNTS]
        rows.append([*words(study.labels[str(variant)], kind), *cells])
    heads = ("variant", "kind", *(_HEADS.get(name, name) for name in COUNTS))
    return PageTable(
        "Participation of each kind in a run: sums over its clients, means over seeds", heads, rows
    )


def given_up(study: ReportedStudy) -> PageTable | None:
    """Return how many rounds were given up, means over the seeds; None where none was."""
    counts = [int((run.events(["event"])["event"] == "abandoned").sum()) for run in study.runs]
    if not any(counts):
        return None
    rows = []
    for variant in study.variants:
        mine = [number for number, run in enumerate(study.runs) if run.variant == variant]
        rounds = sum(last_round(study.runs[number].rows(study.rounds)) for number in mine)
        given = sum(counts[number] for number in mine)
        share = f"{format_number(100 * given / rounds, '.3g')} %" if rounds else "-"
        means = [number(total / len(mine)) for total in (rounds, given)]
        rows.append([*words(study.labels[variant]), *means, *words(share)])
    heads = ("variant", "rounds", "given up", "share")
    return PageTable("Rounds with too few replies, means over seeds", heads, rows)


def figure(study: ReportedStudy, clients: pd.DataFrame, variant: str, name: str) -> PageFigure:
    """Return what each client of a variant did, in a run: means over the seeds.

    Of many clients it is how that is spread over each kind.
    """
    own = clients[clients["variant"] == variant]
    tables, note = RunTables(study.rounds, study.summary, own), many(own)
    made = draw(
        name,
        "What each client did in a run: how many times, means over seeds",
        lambda axis: plot_outcomes(tables, variant, ax=axis),
        note,
        row=BOX if note else BAR,
    )
    counts = own.groupby("client", sort=False, observed=True)[list(COUNTS)].sum()
    counts = counts.rename(columns=_HEADS) / study.seeds[variant]
    counts = counts.set_axis(display_names(counts.index, own))
    return replace(
        made,
        table=client_table("Participation of each client in a run, means over seeds", counts, ""),
    )
