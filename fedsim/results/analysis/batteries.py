"""Batteries: when they were empty, what they held at the end, how long they last, what took it.

Energy comes from the client table, the time of each depletion from the log, capacity and threshold
from the scenario.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import floor, isfinite, isinf
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import numpy as np
import pandas as pd
from rich.markup import escape
from rich.table import Table

from fedsim.core.blocks.quantities import read_energy, read_fraction
from fedsim.core.ports import Array
from fedsim.core.table_columns import JOULES_AFTER
from fedsim.core.tables import plain
from fedsim.core.text import format_number, quantity
from fedsim.results.analysis.client_names import kinds_of
from fedsim.results.analysis.energy import ENERGY_PARTS
from fedsim.results.analysis.log.energy import battery_deaths
from fedsim.results.record.folder import SCENARIO
from fedsim.results.record.parts import as_frame, read_table
from fedsim.results.record.read import summary_of
from fedsim.results.record.scenarios import parse, read_text, tiers_of
from fedsim.results.record.summary import is_whole

LOSSES = "battery losses"
"""What left a battery beyond the energy that its client drew."""

PARTS = (*ENERGY_PARTS.values(), LOSSES)

_STORED = ("initial_joules", "charged_joules", "drained_joules", "final_joules")
_FACTS = ("client", "group", "device", "radio", "left_s", "joules", *_STORED, "depletions")
_OF_BATTERIES = ["round", "depleted", "charged"]  # events from which deaths follow
_ROUNDING = 1e-9  # relative to the energy that left a battery


class HasRuns(Protocol):
    """The part of a `Result` that is read here."""

    @property
    def runs(self) -> tuple[Path, ...]:
        """The folders of the runs."""
        ...


def battery_lives(result: HasRuns) -> pd.DataFrame:
    """Return when each battery was empty, what it held at the end, and how long it lasts.

    A battery lasts until its charge falls to the threshold of participation. If the run ends before
    that, the time is extrapolated at the mean power of the run, as if rounds went on without a
    pause.

    Args:
        result: a `Result`.

    Returns:
        One row per battery of a run that did not fail: variant, seed, client, kind (group, device
        and radio), run_s and rounds (of the run), capacity_joules, initial_joules, charged_joules,
        drained_joules, final_joules, charge (at the end, as a share of the capacity), low (whether
        that is below the threshold), empty (whether the log has that it fell to the cut-off: a run
        that `stop.batteries` ends at this very time may leave others there that have not yet been
        empty), empty_s and empty_round (when it first was; infinite if never), lasts_s (infinite if
        it is charged as fast as it drains), lasts_runs (how many runs like this one it lasts for,
        if radios sleep after each), idle_watts (what an idle client takes from it) and lasts_idle_s
        (how long it lasts if its client only idles; both NaN if it was empty or charged), and the
        joules by part. The part `battery losses` is the energy that left the battery and not drawn
        by the client. Without batteries there are no rows.

    Raises:
        DataError: a file of a run is damaged.

    Example:
        >>> lives = battery_lives(result)
        >>> shown = lives[["variant", "seed", "client", "charge", "empty"]]
        >>> print(shown.head(2).round(3).to_string(index=False))
        variant  seed   client  charge  empty
           base     1 client-0     0.5  False
           base     1 client-1     0.5  False
    """
    return lives_of({(path.parent.name, _seed(path)): path for path in result.runs})


def lives_of(runs: Mapping[tuple[str, int], Path]) -> pd.DataFrame:
    """Return the table of `battery_lives` for runs by variant and seed."""
    groups: dict[str, Fleet] = {}  # of each variant; its seeds have the same
    tables = []
    for (variant, seed), folder in runs.items():
        clients = _owners(folder)
        if clients.empty:
            continue
        groups.setdefault(variant, _fleet(folder))
        tables.append(_of_run(folder, clients, *groups[variant]).assign(variant=variant, seed=seed))
    if not tables:
        return pd.DataFrame({"variant": [], "seed": [], "kind": []})
    lives = pd.concat(tables, ignore_index=True)
    first = ["variant", "seed"]
    return lives[[*first, *(name for name in lives if name not in first)]]


Fleet = tuple[Array, Array, Array]
"""Capacities and thresholds of groups, J, and efficiencies of their discharge; NaN on mains."""


def _seed(folder: Path) -> int:
    return int(folder.name.removeprefix("seed-"))


def _owners(folder: Path) -> pd.DataFrame:
    """Return the clients of a run that have a battery; none of a run that failed or took no time.

    Of a fleet on mains, one column is read.
    """
    stored = as_frame(read_table(folder, "clients", ["initial_joules"]))
    if stored["initial_joules"].isna().all():
        return pd.DataFrame()
    summary = summary_of(folder)
    if not (is_whole(summary["status"]) and summary["t"] > 0):
        return pd.DataFrame()
    clients = as_frame(read_table(folder, "clients", [*_FACTS, *ENERGY_PARTS]))
    clients = clients.assign(run_s=float(summary["t"]), rounds=int(summary["rounds"]))
    clients["after_joules"] = _after(clients, float(summary.get(JOULES_AFTER) or 0.0))
    return clients.dropna(subset=["initial_joules"])


def _after(clients: pd.DataFrame, joules: float) -> Array:
    """Return what the last tail of each client's radio takes, J.

    Only its sum over the fleet is recorded. It is divided as the energy of tails between messages.
    """
    tails = clients["tail_joules"].to_numpy(np.float64)
    whole = tails.sum()
    return joules * (tails / whole if whole else np.full(len(tails), 1 / len(tails)))


def _fleet(folder: Path) -> Fleet:
    """Return what the scenario of a run says of the batteries of each group."""
    scenario = parse(read_text(folder), folder / SCENARIO)
    groups = [*scenario["fleet"], *tiers_of(scenario)]
    least = read_fraction((scenario.get("participation") or {}).get("least_charge") or 0.0)
    full, low, efficiency = np.full((3, len(groups)), np.nan)
    for place, group in enumerate(groups):
        if battery := group.get("battery"):
            full[place] = read_energy(battery["capacity"] or group["device"]["battery"])
            low[place] = full[place] * max(read_fraction(battery["threshold"]), least)
            efficiency[place] = read_fraction(battery["discharge_efficiency"])
    return full, low, efficiency


def _of_run(
    folder: Path, clients: pd.DataFrame, full: Array, low: Array, efficiency: Array
) -> pd.DataFrame:
    """Return one row per battery of a run."""
    number = clients["group"].to_numpy(np.int64)
    capacity, threshold = full[number], low[number]
    stored = {name: clients[name].to_numpy(np.float64) for name in _STORED}
    table = clients[["client"]].assign(
        kind=kinds_of(clients),
        **{name: clients[name] for name in ("run_s", "rounds")},
        capacity_joules=capacity,
        **stored,
        charge=stored["final_joules"] / capacity,
        **_idling(clients, threshold, efficiency[number]),
        low=stored["final_joules"] < threshold * (1 - _ROUNDING),
        **_deaths(folder, clients),
    )
    lasting = _lasting(table, threshold, clients["left_s"].to_numpy(np.float64))
    return table.assign(
        lasts_s=lasting,
        lasts_runs=_runs(table, lasting, clients),
        **_parts(clients, stored["drained_joules"]),
    )


def _deaths(folder: Path, clients: pd.DataFrame) -> dict[str, Any]:
    """Return which batteries are empty at the end, and when each first was.

    The log is read only if some battery was empty at all.
    """
    never = {"empty": False, "empty_s": np.inf, "empty_round": np.inf}
    if not clients["depletions"].any():
        return never
    events = read_table(folder, "events", ["t", "event", "node"], [("event", "in", _OF_BATTERIES)])
    deaths = battery_deaths(as_frame(events))
    first, last = (deaths.drop_duplicates("client", keep=which) for which in ("first", "last"))
    names = clients["client"]
    return {
        "empty": names.isin(last.loc[~last["recovered"], "client"]).to_numpy(),
        "empty_s": names.map(first.set_index("client")["t"]).fillna(np.inf).to_numpy(np.float64),
        "empty_round": names.map(first.set_index("client")["round"])
        .fillna(np.inf)
        .to_numpy(np.float64),
    }


def _lasting(table: pd.DataFrame, threshold: Array, left: Array) -> Array:
    """Return for how long each battery keeps its client taking part, s.

    The run shows it if the client left for good since its charge was too low, or its battery was
    empty; else it follows from the mean power of the run.
    """
    lost = (table["initial_joules"] - table["final_joules"]).to_numpy(np.float64)
    usable = np.maximum(table["initial_joules"].to_numpy(np.float64) - threshold, 0.0)
    with np.errstate(divide="ignore", invalid="ignore"):
        ahead = np.where(lost > 0, table["run_s"].to_numpy(np.float64) * usable / lost, np.inf)
    seen = np.where(table["low"] & np.isfinite(left), left, np.inf)
    seen = np.minimum(seen, table["empty_s"].to_numpy(np.float64))
    return np.where(np.isfinite(seen), seen, ahead)


def _idling(clients: pd.DataFrame, threshold: Array, efficiency: Array) -> dict[str, Array]:
    """Return the power that a client takes from its battery at rest, W, and how long it lasts so.

    NaN for a battery that was empty or charged: its idle power is not known from the sums of a run.
    """
    columns = ("initial_joules", "drained_joules", "joules", "idle_joules", "run_s")
    initial, drained, joules, idle, run = (clients[name].to_numpy(np.float64) for name in columns)
    # The battery has supplied idle power, with the losses of discharging, and its self-discharge.
    taken = drained - (joules - idle) / efficiency
    taken = np.where(taken > _ROUNDING * drained, taken, 0.0)
    usable = np.maximum(initial - threshold, 0.0)
    with np.errstate(divide="ignore", invalid="ignore"):
        lasting = np.where(taken > 0, run * usable / taken, np.inf)
    charged = clients["charged_joules"].to_numpy(np.float64) > _ROUNDING * drained
    steady = (clients["depletions"] == 0) & ~charged
    return {
        "idle_watts": np.where(steady, taken / run, np.nan),
        "lasts_idle_s": np.where(steady, lasting, np.nan),
    }


def _runs(table: pd.DataFrame, lasting: Array, clients: pd.DataFrame) -> Array:
    """Return how many runs each battery lasts for, if its radio sleeps after each of them."""
    lost = (table["initial_joules"] - table["final_joules"]).to_numpy(np.float64)
    runs: Array = lasting / table["run_s"].to_numpy(np.float64)
    drawn, drained = (clients[name].to_numpy(np.float64) for name in ("joules", "drained_joules"))
    with np.errstate(divide="ignore", invalid="ignore"):
        after = clients["after_joules"].to_numpy(np.float64) * np.where(drawn, drained / drawn, 1.0)
        share = np.where(lost > 0, lost / (lost + after), 1.0)
    # A battery that was empty during the run did not come to its last tail.
    return np.where(runs > 1, runs * share, runs)


def _parts(clients: pd.DataFrame, drained: Array) -> dict[str, Array]:
    """Return the joules by part, and the rest that left the battery, without rounding residue."""
    parts = {
        text: clients[name].to_numpy(np.float64)
        for name, text in ENERGY_PARTS.items()
        if name in clients
    }
    rest = drained - sum(parts.values())
    parts[LOSSES] = np.where(np.abs(rest) > _ROUNDING * drained, rest, 0.0)
    return parts


# The figures of the table: of each run and group of clients, then over the seeds of a variant.

ALL = "all"
"""The kind of a row about all batteries of a variant."""


def battery_figures(lives: pd.DataFrame) -> pd.DataFrame:
    """Return the figures of batteries, one row per run and group of clients.

    Args:
        lives: as `battery_lives` returns them.

    Returns:
        For each run a row with the kind "all", and, if clients of several kinds have batteries, one
        row per kind: variant, seed, kind, run_s, rounds, batteries, empty and low (how many were at
        the end: at the cut-off; above it, but too low to take part), emptied (how many were empty
        at some time), first_s, first_round, half_s, half_round (when the first of the batteries was
        empty, and half of them; infinite if not within the run), charge_lowest and charge_median
        (at the end), watts (median of the power that left a battery), lasts_first_s and
        lasts_half_s (how long the first of them lasts, and half of them), lasts_half_runs (how many
        such runs half of them last for), lasts_half_idle_s (how long half of them last if clients
        only idle), joules (mean energy that left a battery) and, as shares of that, its parts.

    Example:
        >>> figures = battery_figures(battery_lives(result))
        >>> print(figures[["variant", "kind", "batteries", "empty"]].head(1).to_string(index=False))
        variant kind  batteries  empty
           base  all          3      0
    """
    kinds = [lives] if len(lives["kind"].unique()) > 1 else []
    every = pd.concat([lives.assign(kind=ALL), *kinds], ignore_index=True)
    groups = every.groupby(["variant", "seed", "kind"], sort=False, observed=True)
    return pd.DataFrame(
        {"variant": variant, "seed": seed, "kind": kind, **_figures_of(own)}
        for (variant, seed, kind), own in groups
    )


def _figures_of(own: pd.DataFrame) -> dict[str, Any]:
    """Return the figures of some batteries of one run."""
    half = (len(own) - 1) // 2
    deaths = own.sort_values("empty_s", kind="stable")
    lasts = np.sort(own["lasts_s"].to_numpy(np.float64))
    idling = np.sort(own["lasts_idle_s"].to_numpy(np.float64))
    taken = float(own["drained_joules"].sum())
    return {
        "run_s": own["run_s"].iloc[0],
        "rounds": own["rounds"].iloc[0],
        "batteries": len(own),
        "empty": int(own["empty"].sum()),
        "low": int((own["low"] & ~own["empty"]).sum()),
        "emptied": int(np.isfinite(own["empty_s"]).sum()),
        "first_s": deaths["empty_s"].iloc[0],
        "first_round": deaths["empty_round"].iloc[0],
        "half_s": deaths["empty_s"].iloc[half],
        "half_round": deaths["empty_round"].iloc[half],
        "charge_lowest": own["charge"].min(),
        "charge_median": own["charge"].median(),
        "watts": float((own["drained_joules"] / own["run_s"]).median()),
        "lasts_first_s": lasts[0],
        "lasts_half_s": lasts[half],
        "lasts_half_runs": np.sort(own["lasts_runs"].to_numpy(np.float64))[half],
        "lasts_half_idle_s": np.nan if np.isnan(idling).any() else idling[half],
        "joules": taken / len(own),
        **{name: own[name].sum() / taken for name in PARTS if taken > 0 and name in own},
    }


class Cell(NamedTuple):
    """A cell of a table of batteries: a text, a second line, and the figure behind the text."""

    text: str
    under: str = ""
    value: float | None = None


class BatteryTable(NamedTuple):
    """A table of batteries.

    Attributes:
        title: above it.
        heads: of its columns; the first two name variant and clients.
        rows: its cells.
        notes: below it, a sentence each.
    """

    title: str
    heads: Sequence[str]
    rows: Sequence[Sequence[Cell]]
    notes: Sequence[str]

    def drawn(self) -> Table:
        """Return the table for a terminal or a notebook."""
        table = plain(self.title, keys=1 + ("clients" in self.heads))
        table.caption = escape("; ".join(self.notes)) or None
        for place, head in enumerate(self.heads):
            figures = any(row[place].value is not None for row in self.rows)
            table.add_column(head, justify="right" if figures else "left")
        for row in self.rows:
            table.add_row(*map(_markup, row))
        return table


def _markup(cell: Cell) -> str:
    return escape(cell.text) + (f"\n[dim]{escape(cell.under)}[/]" if cell.under else "")


MOST_ROWS = 15
"""Rows of a table in a terminal."""

NONE = "-"

NOT_WITHIN = "not within the run"

_RUNS = "trainings"

_IDLE = "idle life"

_LONGER = 1.001
"""Batteries last beyond the end of a run if their time is longer than the run by this factor."""

_NEAR = 1.01
"""Batteries last equally long if their times are within this factor."""

_SMALL = 1e-3
"""Parts below this share of the charge that was taken are shown as 0."""


@dataclass(frozen=True)
class BatterySummary:
    """What is known of the batteries of some runs, as tables.

    Attributes:
        figures: as `battery_figures` returns them.
        labels: what to call each variant; others are left out.
    """

    figures: pd.DataFrame
    labels: Mapping[str, str]

    @classmethod
    def of(
        cls, runs: Mapping[tuple[str, int], Path], labels: Mapping[str, str]
    ) -> "BatterySummary | None":
        """Read the runs; None if no client has a battery."""
        lives = lives_of(runs)
        return cls(battery_figures(lives), labels) if len(lives) else None

    def tables(self) -> list[Table]:
        """Return the tables for a terminal: how long batteries last, and what took their charge.

        Above `MOST_ROWS` rows, there are none by group of clients.
        """
        return [table.drawn() for table in (self.lasting(MOST_ROWS), self.taken(MOST_ROWS))]

    def answer(self) -> str:
        """Return with which variants half of the batteries last longest; empty with one variant.

        If all batteries outlive runs that end at different times, such as at a target, they are
        compared by the number of runs that they last for; otherwise by time. Values are medians
        over the seeds that all variants have.
        """
        figures = self._common
        own = figures[(figures["kind"] == ALL) & figures["variant"].isin(list(self.labels))]
        times, runs, repeats = (
            own.pivot_table(name, "seed", "variant", "median", observed=True)
            for name in ("lasts_half_s", "run_s", "lasts_half_runs")
        )
        if times.shape[1] < 2:
            return ""
        by_runs = _unlike(runs) and (times > _LONGER * runs).all(axis=None)
        if by_runs:
            times = repeats
        middle = times.median().sort_values(ascending=False, kind="stable")
        longest = middle.iloc[0]
        first = middle.index[(middle == longest) | (middle * _NEAR >= longest)]
        count = len(times)
        rest = middle.drop(first)
        names = " and ".join(self.labels[str(name)] for name in first)
        if len(rest):
            won = int((times[first].max(axis=1) > times[rest.index].max(axis=1)).sum())
            seeds = "one seed" if count == 1 else f"longest in {won} of {count} seeds"
            second = self.labels[str(rest.index[0])]
        else:
            seeds = "one seed" if count == 1 else f"median over {count} seeds"
            names, second = "every variant", ""
        if by_runs:
            more = f", and {floor(rest.iloc[0]):,} with {second}" if second else ""
            text = f"one charge {enough(longest)} with {names}{more} ({seeds})"
            return text + _between_trainings(own["lasts_half_idle_s"])
        if not second:
            return f"half of the batteries last {_life(longest)} with every variant ({seeds})"
        return (
            f"batteries last longest with {names}: half of them last {_life(longest)}, and"
            f" {_life(rest.iloc[0])} with {second}, the next ({seeds})"
        )

    def lasting(self, most: int | None = None) -> BatteryTable:
        """Return how many batteries were empty, when, what is left, and how long they last."""
        groups = list(self._groups(most))
        heads = ["variant", "clients", "run", "empty", "first empty", "lowest left"]
        heads += ["median left", "shortest life", "median life", _RUNS, _IDLE]
        rows = [[*names, *self._lasting(own)] for names, own in groups]
        return self._table("batteries at the end of the run", heads, rows, list(self._notes(most)))

    def taken(self, most: int | None = None) -> BatteryTable:
        """Return what took the charge of batteries, as shares."""
        groups = list(self._groups(most))
        parts = [
            name for name in PARTS if name in self.figures and self.figures[name].max() >= _SMALL
        ]
        rows = [
            [
                *names,
                _over_seeds(own["watts"], lambda value: quantity(value, "W")),
                _over_seeds(own["joules"], lambda value: quantity(value, "J")),
                *(_over_seeds(own[name], _percent)._replace(under="") for name in parts),
            ]
            for names, own in groups
        ]
        heads = ["variant", "clients", "mean power", "per battery", *parts]
        return self._table("what took the charge of batteries", heads, rows, [])

    def _table(
        self, title: str, heads: Sequence[str], rows: list[list[Cell]], notes: Sequence[str]
    ) -> BatteryTable:
        """Return a table without columns that say the same in all rows: one kind, nothing empty."""
        idle = {"clients": ALL, "first empty": NOT_WITHIN, _RUNS: NONE, _IDLE: NONE}
        kept = [
            place
            for place, head in enumerate(heads)
            if any(row[place].text != idle.get(head) for row in rows)
        ]
        return BatteryTable(
            title, [heads[place] for place in kept], [[row[n] for n in kept] for row in rows], notes
        )

    def _groups(self, most: int | None) -> Iterator[tuple[list[Cell], pd.DataFrame]]:
        """Yield the names and the figures of each row: a variant, and a group of its clients."""
        figures = self._common
        if self._shortened(most):
            figures = figures[figures["kind"] == ALL]
        for variant, label in self.labels.items():
            own = figures[figures["variant"] == variant]
            for place, (kind, rows) in enumerate(own.groupby("kind", sort=False)):
                yield [Cell("" if place else label), Cell(str(kind))], rows

    def _shortened(self, most: int | None) -> bool:
        rows = self.figures.drop_duplicates(["variant", "kind"])
        return most is not None and len(rows) > most

    @property
    def _common(self) -> pd.DataFrame:
        """The figures of the seeds that all variants have; of all seeds if there are none."""
        seeds = [set(own["seed"]) for _, own in self.figures.groupby("variant", sort=False)]
        common = set.intersection(*seeds)
        return self.figures[self.figures["seed"].isin(common)] if common else self.figures

    def _lasting(self, own: pd.DataFrame) -> Iterator[Cell]:
        yield _over_seeds(own["run_s"], _time)
        yield self._empty(own)
        yield _first_empty(own)
        yield from (_over_seeds(own[f"charge_{which}"], _charge) for which in ("lowest", "median"))
        yield from (_lasts(own, f"lasts_{which}_s") for which in ("first", "half"))
        repeats = _repeats(own)
        yield repeats
        known = repeats.value is not None and own["lasts_half_idle_s"].notna().all()
        yield _over_seeds(own["lasts_half_idle_s"], _life) if known else Cell(NONE)

    def _empty(self, own: pd.DataFrame) -> Cell:
        """Return how many batteries are empty at the end."""
        count = _over_seeds(own["empty"], _count)
        text = f"{count.text} of {_count(own['batteries'].median())}"
        low, emptied = own["low"].median(), own["emptied"].median()
        more = [f"{_count(low)} too low"] if low else []
        more += [f"{_count(emptied)} at some time"] if emptied > own["empty"].median() else []
        return Cell(text, "; ".join([*([count.under] if count.under else []), *more]), count.value)

    def _notes(self, most: int | None) -> Iterator[str]:
        figures = self._common
        yield "empty: at the cut-off"
        if figures["low"].any():
            yield "too low: above the cut-off, but below the threshold of participation"
        yield "life: until a battery is empty, or too low for its client to take part"
        if (figures["lasts_half_s"] > _LONGER * figures["run_s"]).any():
            yield (
                "about: extrapolated at the mean power of the run, as if rounds went on without a"
                " pause"
            )
            yield (
                f"{_RUNS}: runs per charge (median battery), without energy between runs; radios"
                " sleep after each run"
            )
            if figures["lasts_half_idle_s"].notna().any():
                yield f"{_IDLE}: life (median battery) if clients only idle"
        every = figures[figures["kind"] == ALL]
        if _unlike(every.pivot_table("run_s", "seed", "variant", observed=True)):
            yield (
                "the runs end at different times: compare how long batteries last, not the charge"
                " that is left"
            )
        seeds = figures["seed"].nunique()
        if seeds > 1:
            yield f"medians over {seeds} seeds, below them minimum and maximum"
        if self._shortened(most):
            yield "by group of clients: fedsim report, or batteries.csv of fedsim compare"


def enough(trainings: float) -> str:
    """Return for how many whole trainings a charge is enough, after "one charge"."""
    if isinf(trainings):
        return "lasts for ever"
    count = floor(trainings)
    return f"is enough for {count:,} training{'s' if count != 1 else ''}"


def _between_trainings(idle: "pd.Series[float]") -> str:
    """Return what a number of trainings leaves out: what devices take until the next one."""
    lives = {_life(seconds) for seconds in idle}
    if np.isinf(idle).all():
        return ""
    text = ", if the devices take no power in between"
    if idle.isna().any() or len(lives) > 1:
        return text
    return f"{text}; without training, a charge lasts {lives.pop()}"


def _over_seeds(values: "pd.Series[Any]", form: Any) -> Cell:
    """Return the median over seeds, and below it the range if it is not a single text."""
    numbers = values.to_numpy(np.float64)
    middle = float(np.median(numbers))
    low, high = form(float(numbers.min())), form(float(numbers.max()))
    return Cell(form(middle), f"{low} to {high}" if low != high else "", middle)


def _first_empty(own: pd.DataFrame) -> Cell:
    """Return time and round in which the first battery was empty."""
    time = _over_seeds(own["first_s"], _within)
    number = float(np.median(own["first_round"]))
    return time._replace(text=f"{time.text}, round {_count(number)}") if isfinite(number) else time


def _time(seconds: float) -> str:
    return quantity(seconds, "s")


def _within(seconds: float) -> str:
    return _time(seconds) if isfinite(seconds) else NOT_WITHIN


def _lasts(own: pd.DataFrame, name: str) -> Cell:
    """Return how long batteries last; extrapolated beyond the end of the run."""
    cell = _over_seeds(own[name], _life)
    middle = float(np.median(own[name]))
    ahead = isfinite(middle) and middle > _LONGER * float(np.median(own["run_s"]))
    return cell._replace(text=f"about {cell.text}") if ahead else cell


def _repeats(own: pd.DataFrame) -> Cell:
    """Return how many runs like these half of the batteries last for, if more than one."""
    middle = float(np.median(own["lasts_half_runs"]))
    return _over_seeds(own["lasts_half_runs"], _count) if _LONGER < middle < np.inf else Cell(NONE)


def _life(seconds: float) -> str:
    return "for ever" if isinf(seconds) else _time(seconds)


def _unlike(runs: pd.DataFrame) -> bool:
    """Return whether runs of one seed end at different times; one row per seed."""
    return bool((runs.max(axis=1) > runs.min(axis=1) * (1 + 1e-3)).any())


def _count(value: float) -> str:
    return format_number(float(value), ",.3g" if value < 100 else ",.0f")


def _charge(share: float) -> str:
    return f"{format_number(100 * share, '.3g')} %"


def _percent(share: float) -> str:
    if 0 < share < _SMALL:
        return f"< {100 * _SMALL:g} %"
    return f"{format_number(100 * share, '.2g')} %"
