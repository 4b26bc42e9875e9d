"""Energy: where it went, by variant and by kind of client, and what batteries held."""

from collections.abc import Mapping

import numpy as np
import pandas as pd

from fedsim.results.analysis import (
    DEVICE_COLOURS,
    ENERGY_PARTS,
    PART_COLOURS,
    energy_parts,
    state_of_charge,
    with_grams,
)
from fedsim.results.analysis.client_names import client_names
from fedsim.results.analysis.seeds import spread
from fedsim.results.record.schema import GRAMS
from fedsim.results.report.charts import Curve, curves, line_icon
from fedsim.results.report.components import (
    LegendKey,
    PageFigure,
    PageTable,
    digits,
    each_or_spread,
    number,
    stacked_bars,
    words,
)
from fedsim.results.report.study import ReportedRun, ReportedStudy
from fedsim.results.report.svg import Area, linear

_CURVES, _TIMES = 40, 300  # batteries that are drawn one by one, and points of each
_LOOKED_AT = 1000  # of more batteries

_WHOLE = "in all"

_ORDER = [name for name in PART_COLOURS if name in ENERGY_PARTS.values()]


def by_kind(study: ReportedStudy) -> pd.DataFrame:
    """Return where the energy of each kind of client went, J, means over the seeds.

    The index is variant and kind; the columns are the parts.
    """
    parts = _order(energy_parts(study.clients, ["variant", "kind"]))
    seeds = [study.seeds[str(variant)] for variant, _ in parts.index]
    return parts.div(pd.Series(seeds, index=parts.index), axis=0)


def _order(parts: pd.DataFrame) -> pd.DataFrame:
    """Return the parts that there are, in the order of their colours."""
    return parts[[name for name in _ORDER if name in parts]]


def whole(study: ReportedStudy) -> PageFigure:
    """Return the energy of each variant, by its parts."""
    parts = by_kind(study).groupby(level="variant", sort=False).sum()
    parts = parts.set_axis([study.labels[str(name)] for name in parts.index])
    return stacked_bars(
        parts, PART_COLOURS, "J", "energy of the fleet, mean over seeds", "Energy by variant"
    )


def kinds(study: ReportedStudy, variant: str) -> PageFigure:
    """Return the energy of each kind of client of a variant, by its parts."""
    every = by_kind(study)
    parts = every[every.index.get_level_values("variant") == variant].droplevel("variant")
    title = "energy of the kind, mean over seeds"
    return stacked_bars(parts, PART_COLOURS, "J", title, "Energy by kind of client")


def clients(study: ReportedStudy, variant: str) -> PageFigure:
    """Return the energy of each client of a variant; of many, how it is spread over each kind."""
    own = study.clients[study.clients["variant"] == variant]
    parts = _order(energy_parts(own, ["client", "kind"])) / study.seeds[variant]
    title = "energy of a client, mean over seeds"
    colours = PART_COLOURS | {_WHOLE: "#000000"}
    return each_or_spread(parts, colours, "J", title, _WHOLE, client_names(own))


def table(study: ReportedStudy) -> PageTable:
    """Return the energy of every kind of client, by its parts, and what that has emitted."""
    rows, grams, every = [], _grams(study), by_kind(study)
    for key, parts in every.iterrows():
        variant, kind = key if isinstance(key, tuple) else ("", key)
        amounts = [number(float(amount), "J") for amount in parts]
        whole = number(float(parts.sum()), "J")
        emitted = [] if grams is None else [number(float(grams[key]), "g")]
        rows.append([*words(study.labels[str(variant)], kind), *amounts, whole, *emitted])
    heads = ("variant", "kind", *every, "in all", *([] if grams is None else ["CO2"]))
    return PageTable("Energy by kind of client, mean over seeds", heads, rows)


def _grams(study: ReportedStudy) -> Mapping[object, float] | None:
    """Return what each kind of client has emitted, means over the seeds; None if unknown of all."""
    clients = study.clients
    if not with_grams((), clients):
        return None
    groups = clients.groupby(["variant", "kind"], sort=False, observed=True)
    sums = groups[GRAMS].sum(min_count=1)
    seeds = [study.seeds[str(variant)] for variant, _ in sums.index]
    means: dict[object, float] = sums.div(pd.Series(seeds, index=sums.index)).to_dict()
    return means


def battery_table(study: ReportedStudy) -> PageTable | None:
    """Return what batteries took in and gave, by kind; None for a fleet on mains."""
    own = study.clients.dropna(subset=["initial_joules"])
    if own.empty:
        return None
    columns = ["initial_joules", "charged_joules", "drained_joules", "final_joules"]
    groups = own.groupby(["variant", "kind"], sort=False, observed=True)
    means = groups[columns].mean()
    deaths = groups["depletions"].sum()
    rows = [
        [
            *words(study.labels[str(variant)], kind),
            *(number(float(means.loc[(variant, kind), name]), "J") for name in columns),
            digits(float(deaths[variant, kind]) / study.seeds[str(variant)]),
        ]
        for variant, kind in means.index
    ]
    heads = ("variant", "kind", "at the start", "charged", "drained", "at the end", "depletions")
    return PageTable("Batteries: means over clients and seeds; depletions a run", heads, rows)


def batteries(study: ReportedStudy, run: ReportedRun) -> PageFigure | None:
    """Return the state of charge of the batteries of a run; None for a fleet on mains.

    Of many batteries it is the median of each kind, and the middle half of them as a band.
    """
    events = run.events(["t", "node", "state_of_charge"])
    rows = events[events["state_of_charge"].notna()]
    if rows.empty:
        return None
    nodes = rows["node"].astype(str)
    names = sorted(nodes.unique(), key=lambda name: int(name.rpartition("-")[2]))
    shown = [names[place] for place in spread(len(names), _LOOKED_AT)]
    times = np.linspace(0, float(run.summary["t"]), _TIMES)
    own = rows[nodes.isin(shown)].assign(variant=run.variant, seed=run.seed, node=nodes)
    levels = state_of_charge(own, times).droplevel(["variant", "seed"], axis="columns")
    charge = 100 * levels[shown]
    kinds = run.rows(study.clients).set_index("client")["kind"].astype(str)
    colours = {
        kind: DEVICE_COLOURS[n % len(DEVICE_COLOURS)] for n, kind in enumerate(dict.fromkeys(kinds))
    }
    note = f"seed {run.seed}"
    if len(names) > _CURVES:
        drawn = _spread(charge, kinds[shown], colours)
        note += f"; {len(names):,} batteries: of each kind the line is the median, and the band "
        note += "holds the middle half"
        if len(shown) < len(names):
            note += f", by {len(shown):,} of them, spread over the fleet"
    else:
        drawn = [
            Curve(f"{name}, {kinds[name]}", colours[kinds[name]], times, charge[name])
            for name in shown
        ]
    area = Area(
        "State of charge against simulated time",
        320,
        linear(0.0, float(times[-1]), "s"),
        "simulated time",
        linear(0.0, 102.0),
        upwards="state of charge, %",
    )
    seen = [kind for kind in colours if kind in set(kinds[shown])]
    keys = tuple(LegendKey(kind, line_icon(colours[kind])) for kind in seen)
    return PageFigure(curves(area, drawn), note, keys)


def _spread(
    charge: pd.DataFrame, kinds: "pd.Series[str]", colours: Mapping[str, str]
) -> list[Curve]:
    """Return a curve a kind: the median of its batteries, and the quarters as its band."""
    found = []
    for kind in (kind for kind in colours if (kinds == kind).any()):
        own = charge[kinds.index[kinds == kind]]
        low, middle, high = (own.quantile(share, axis=1) for share in (0.25, 0.5, 0.75))
        found.append(Curve(f"{kind}, median", colours[kind], charge.index, middle, low, high))
    return found
