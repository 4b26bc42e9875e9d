"""The causes of a difference in cost between two variants, with shares that add up to it.

Up to its target a run has taken N rounds, and each of them a mean cost c, which is a sum of parts:
what promotions, tails, sending, ... have cost a round. The difference of two runs, N c - N' c', is
divided between rounds and parts half-way between both runs (the value of Shapley, of two factors):

    rounds: (N - N') (c + c') / 2        part k: (c_k - c'_k) (N + N') / 2

So the causes add up to the difference, and change their signs where the runs change places. A part
that is a number of messages times their size is divided in the same way once more. Over seeds,
causes are means, as the paired difference is.

Source: L. S. Shapley, A value for n-person games, 1953.
"""

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import isfinite
from pathlib import Path
from statistics import fmean
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from rich.markup import escape
from rich.table import Table

from fedsim.core.errors import DataError
from fedsim.core.table_columns import AFTER, TITLES, UNITS
from fedsim.core.tables import plain
from fedsim.core.text import format_number, quantity, summands
from fedsim.results.analysis.compare.answer import Leading
from fedsim.results.analysis.compare.verdict import State, bare
from fedsim.results.analysis.costs import with_bits
from fedsim.results.analysis.log.spending import COLUMNS as LOGGED
from fedsim.results.analysis.log.spending import (
    REST,
    TIME_PARTS,
    Spending,
    bits_until,
    energy_until,
    time_until,
)
from fedsim.results.record.folder import SCENARIO
from fedsim.results.record.manifest import EVENTS, read_manifest
from fedsim.results.record.parts import as_frame, read_table
from fedsim.results.record.scenarios import parse, read_text, tiers_of

MOST_ROWS = 2_000_000
"""Rows of all logs of two variants together up to which they are read for their causes.

They are read one after the other: this many take up to 7 s, and 0.5 GB if they are of one run.
"""

ROUNDS = "rounds"

_LARGE = 0.1
"""Difference in a share from which on the kind of client that replied last is worth a note."""

_SMALL = 0.01
"""Part of the largest cause below which a cause has no line of its own."""

_READ: Mapping[str, Callable[[pd.DataFrame, int], Spending]] = {
    "t": time_until,
    "joules": energy_until,
    "bits": bits_until,
}


class _Name(NamedTuple):
    """What a line calls a cause, the unit of its amounts, and what they are counted per."""

    text: str
    unit: str
    each: str = " per round"


LAST_TAIL = "last tail"
"""The cause that radios take energy after the last round, until they sleep."""

_ROUNDS = _Name("rounds", "", "")

_NAMES: Mapping[str, Mapping[str, _Name]] = {
    "joules": {
        ROUNDS: _ROUNDS,
        "promotion": _Name("promotions", "J"),
        "tail": _Name("tails between messages", "J"),
        LAST_TAIL: _Name("tails after the last round", "J", ""),
        "receiving": _Name("receiving", "J"),
        "sending": _Name("sending", "J"),
        "sending again": _Name("retransmissions", "J"),
        "forwarding": _Name("forwarding", "J"),
        "idle": _Name("idle", "J"),
        "computing": _Name("computing", "J"),
        REST: _Name("other energy", "J"),
    },
    "t": {
        ROUNDS: _ROUNDS,
        "promotion": _Name("promotions", "s"),
        "download": _Name("downloads", "s"),
        "computing": _Name("computing", "s"),
        "upload": _Name("uploads", "s"),
        "sending again": _Name("retransmissions", "s"),
        "slower link": _Name("shared or slower links", "s"),
        "latency and queues": _Name("latency and queues", "s"),
        "absence": _Name("absence", "s"),
        "after the last reply": _Name("waiting after the last reply", "s"),
        "before an exchange": _Name("waiting before an exchange", "s"),
        REST: _Name("other time", "s"),
    },
    "bits": {
        ROUNDS: _ROUNDS,
        "uplink messages": _Name("uplink messages", ""),
        "payload": _Name("payloads", "bit", " per uplink message"),
        "headers": _Name("headers", "bit", " per uplink message"),
        "beacons": _Name("beacons", "bit"),
        "sending again": _Name("retransmissions", "bit"),
        "clients asked": _Name("clients asked", ""),
        "downlink": _Name("downloads", "bit", " per client asked"),
        REST: _Name("messages in flight", "bit"),
    },
}
"""The parts of each cost, in the order of a table, and what a line calls them."""

_UNITS: Mapping[str, str] = {
    "payload": "uplink messages",
    "headers": "uplink messages",
    "downlink": "clients asked",
}
"""The causes that are per one of a number, itself a cause, and its name."""

COLUMNS = ("cost", "variant", "against", "cause", "one", "other", "unit", "difference", "share")
"""The columns of `Causes.frame`."""


@dataclass(frozen=True, eq=False)
class Causes:
    """Why one variant takes less, or more, of a cost than another to reach a target.

    Attributes:
        cost: "t" (s), "joules" or "bits".
        one: the variant.
        other: the variant that it is compared with.
        seeds: number of seeds, in all of which both reached the target.
        table: one row per cause: cause; one and other, in each variant the number of rounds, or
            what the cause is per round or message; unit (of these); difference (that the cause
            makes, in the unit of the cost); share (of the whole difference). Means over the seeds.
        totals: mean cost of `one` and of `other`.
        notes: by cause, what the logs have of the mechanism behind it; a few words.
        missed: number of further seeds, which one of the two has missed; they have no causes.
    """

    cost: str
    one: str
    other: str
    seeds: int
    table: pd.DataFrame
    totals: tuple[float, float]
    notes: Mapping[str, str]
    missed: int = 0

    @property
    def difference(self) -> float:
        """What `one` takes more than `other`, in the unit of the cost; the sum of all causes."""
        return float(self.table["difference"].sum())

    @property
    def frame(self) -> pd.DataFrame:
        """The table with the cost and both variants in front."""
        own = self.table.assign(cost=self.cost, variant=self.one, against=self.other)
        return own[list(COLUMNS)]

    def lines(self) -> list[tuple[str, str, str]]:
        """Return the causes as lines of texts: name, what it makes of the difference, and amounts.

        First come those that go the way of the difference, each way from the largest one on. Small
        causes are added up. The last line is the difference: the printed parts add up to it.
        """
        size = self.table["difference"].abs()
        small = size < _SMALL * size.max()
        opposed = self.table["difference"] * self.difference < 0
        order = pd.DataFrame({"opposed": opposed, "size": -size})[~small].sort_values(
            ["opposed", "size"], kind="stable"
        )
        shown = self.table.loc[order.index].to_dict("records")
        others = float(self.table.loc[small, "difference"].sum())
        parts = [*(float(row["difference"]) for row in shown), others]
        *texts, rest, whole = summands(parts, UNITS.get(self.cost, "bit"))
        lines = [
            (_NAMES[self.cost][str(row["cause"])].text, text, self._amounts(row))
            for row, text in zip(shown, texts, strict=True)
        ]
        if any(digit in rest for digit in "123456789"):
            lines.append(("others", rest, ""))
        return [*lines, ("all", whole, self._whole())]

    def _amounts(self, row: Mapping[Hashable, Any]) -> str:
        """Return what a cause is in both variants, and the mechanism behind it, if known."""
        cause = str(row["cause"])
        name, note = _NAMES[self.cost][cause], self.notes.get(cause, "")
        one, other = (_figure(row[side], name.unit) for side in ("one", "other"))
        # Means over seeds may differ the other way than the mean of what they make does.
        if (row["one"] - row["other"]) * row["difference"] <= 0 or one == other:
            return note
        factors = self._factors(cause)
        about = "about " * (self.seeds > 1)  # each seed has its own
        times = "".join(f", \N{MULTIPLICATION SIGN} {about}{each}" for each in factors)
        if cause == ROUNDS:
            means = [format_number((row["one"] + row["other"]) / 2, ".4g"), *factors]
            note = f"{' and '.join(means)}: means of both variants"
        return f"{one} instead of {other}{name.each}{times}{note and f' ({note})'}"

    def _factors(self, cause: str) -> list[str]:
        """Return what the difference between both amounts of a cause is multiplied by.

        These are means of both variants, as the value of Shapley has them. There are none for what
        is no multiple.
        """
        if cause == LAST_TAIL:
            return []
        sides = self.table.set_index("cause")[["one", "other"]]
        means, unit = sides.mean(axis=1), UNITS.get(self.cost, "bit")
        rounds = float(means[ROUNDS])
        if cause == ROUNDS:
            parts = sides.drop(index=[ROUNDS, LAST_TAIL, *_UNITS.values()], errors="ignore")
            for name in parts.index.intersection(list(_UNITS)):
                parts.loc[name] *= sides.loc[_UNITS[name]]
            return [quantity(float(parts.sum().mean()), unit)]
        if cause in _UNITS:
            return [format_number(float(means[_UNITS[cause]]) * rounds, ".4g")]
        sizes = [name for name, counted in _UNITS.items() if counted == cause]
        size = [quantity(float(sides.loc[sizes].sum().mean()), unit)] if sizes else []
        return [format_number(rounds, ".4g"), *size]

    def _whole(self) -> str:
        one, other = (_figure(total, UNITS.get(self.cost, "bit")) for total in self.totals)
        seeds = f"{self.seeds} seed{'s' * (self.seeds > 1)}"
        means = f" (means over {seeds})" if self.seeds > 1 else ""
        if self.missed:
            means = f" (in the {seeds} in which both reached it)"
        return f"{one} instead of {other}{means}"

    def listing(self) -> Table:
        """Return the lines as a table without heads."""
        drawn = plain("")
        drawn.box, drawn.show_header, drawn.title, drawn.padding = None, False, None, (0, 1)
        for side in ("left", "right", "left"):
            drawn.add_column(justify=side)
        for line in self.lines():
            drawn.add_row(*map(escape, line))
        return drawn


def _figure(value: float, unit: str) -> str:
    return quantity(value, unit) if unit else format_number(value, ".3g")


def causes(
    folders: Mapping[tuple[str, int], Path],
    rounds: pd.DataFrame,
    costs: pd.DataFrame,
    pair: tuple[str, str],
    cost: str,
) -> Causes:
    """Take the difference in cost between two variants apart into its causes.

    Args:
        folders: of the runs, by variant and seed.
        rounds: the round tables, as `Result.rounds` has them.
        costs: one row per run, as `cost_to_target` and `final_cost` give it.
        pair: the variant, and the one to compare it with.
        cost: "t", "joules" or "bits".

    Raises:
        DataError: the cost has no causes, no seed is in both variants, both cost the same, the logs
            are missing, damaged or too large, or the rounds have no critical path.
    """
    if cost not in _READ:
        raise DataError("cost", f"got {cost!r}; expected one of {', '.join(_READ)}")
    every = with_bits(costs).astype({"variant": object})
    tried = every[every["variant"].isin(pair)].groupby("seed")["variant"].nunique()
    own = every[every["reached"] & (every["round"] > 0)]
    known = {(str(row["variant"]), int(row["seed"])): row for row in own.to_dict("records")}
    seeds = [seed for name, seed in known if name == pair[0] and (pair[1], seed) in known]
    if not seeds:
        raise DataError("causes", f"there is no seed in which both {pair[0]} and {pair[1]} ended")
    _check(folders, [(name, seed) for name in pair for seed in seeds], cost)
    one, other = (
        [
            _spent(folders[name, seed], _rounds_of(rounds, name, seed), known[name, seed], cost)
            for seed in seeds
        ]
        for name in pair
    )
    found = [_apart(ours, theirs) for ours, theirs in zip(one, other, strict=True)]
    table = pd.concat(found).groupby("cause", sort=False).mean().reset_index()
    whole = table["difference"].sum()
    if not whole or not isfinite(whole):
        same = f"{pair[0]} and {pair[1]} cost the same" if not whole else f"{cost} is not known"
        raise DataError("causes", same)
    units = [_NAMES[cost][str(name)].unit for name in table["cause"]]
    table.insert(3, "unit", units)
    table["share"] = table["difference"] / whole
    within = table[table["cause"] != ROUNDS].sort_values("share", ascending=False)
    first = str(within["cause"].iloc[0])
    notes = dict[str, str]()
    for cause, text in _mechanisms(one, other, cost, first):
        notes[cause] = "; ".join(filter(None, (notes.get(cause), text)))
    missed = int((tried == len(pair)).sum()) - len(seeds)
    ours, theirs = (fmean(float(known[name, seed][cost]) for seed in seeds) for name in pair)
    return Causes(cost, *pair, len(seeds), table, (ours, theirs), notes, missed)


def _check(folders: Mapping[tuple[str, int], Path], runs: list[tuple[str, int]], cost: str) -> None:
    """Check that logs can be read in bounded time, and that their rounds have a critical path.

    Raises:
        DataError: they cannot.
    """
    count = 0
    for run in runs:
        if run not in folders:
            raise DataError("causes", f"there is no log of {run[0]}, seed {run[1]}")
        count += int(read_manifest(folders[run])[EVENTS]["rows"])
    if count > MOST_ROWS:
        text = f"the logs have {count:,} rows; causes are computed for up to {MOST_ROWS:,}"
        raise DataError("causes", text)
    # One scenario per variant: its seeds share it.
    for path in {folders[run].parent: folders[run] for run in runs}.values():
        scenario = parse(read_text(path), path / SCENARIO)
        policy = scenario.get("participation")
        kind = policy.get("kind") if isinstance(policy, Mapping) else policy
        if cost == "t" and (kind == "asynchronous" or tiers_of(scenario)):
            what = "tiers" if kind != "asynchronous" else "an asynchronous server"
            raise DataError("causes", f"the rounds of {what} have no critical path")


def _rounds_of(rounds: pd.DataFrame, variant: str, seed: int) -> pd.DataFrame:
    return rounds[(rounds["variant"] == variant) & (rounds["seed"] == seed)]


class _Part(NamedTuple):
    """A part of a cost: a total over the rounds, which may be a number of units times their size.

    Attributes:
        total: in the unit of the cost.
        units: name and total number of what the part is a multiple of; None for the rounds.
        once: whether it is no multiple, however many rounds there are.
    """

    total: float
    units: tuple[str, float] | None = None
    once: bool = False


class _Spent(NamedTuple):
    """What one run has spent up to its target.

    Attributes:
        rounds: their number.
        parts: totals by name.
        counts: of what happened, per round or as shares, by name.
        last: share of the exchanges whose last reply came from a kind of client, by kind.
    """

    rounds: int
    parts: Mapping[str, _Part]
    counts: Mapping[str, float]
    last: Mapping[str, float]


def _spent(
    folder: Path, rounds: pd.DataFrame, reached: Mapping[Hashable, Any], cost: str
) -> _Spent:
    """Return what one run has spent up to its target, from its log and its round table."""
    last = int(reached["round"])
    log = as_frame(read_table(folder, "events", LOGGED[cost]))
    found = _READ[cost](log, last)
    if cost == "bits":
        asked = float(rounds.loc[rounds["round"] <= last, "cohort"].sum())
        messages = "uplink messages", found.counts["messages"]
        parts = {name: _Part(total) for name, total in found.parts.items()}
        for name in ("payload", "headers"):
            parts[name] = _Part(found.parts[name], messages)
        parts["downlink"] = _Part(float(reached["bits_down"]), ("clients asked", asked))
        parts[REST] = _Part(float(reached["bits_up"]) - sum(found.parts.values()))
    else:
        parts = {name: _Part(total) for name, total in found.parts.items()}
        if cost in AFTER:
            parts[LAST_TAIL] = _Part(float(reached.get(AFTER[cost], 0.0)), once=True)
        whole = float(reached[cost])
        rest = whole - sum(part.total for part in parts.values())
        small = abs(rest) <= _ROUNDING * whole
        parts[REST] = _Part(parts.get(REST, _Part(0.0)).total + (0.0 if small else rest))
    exchanges = found.counts.get("exchanges") or np.nan
    counts = {
        name: count / (exchanges if name in _OF_EXCHANGES else last)
        for name, count in found.counts.items()
    }
    counts["seconds"] = float(reached["t"]) / last
    return _Spent(last, parts, counts, _kinds(folder, found.last))


_OF_EXCHANGES = ("awake", "upload bits")
"""What is counted of exchanges, not of rounds."""


def _kinds(folder: Path, replies: Mapping[str, int]) -> dict[str, float]:
    """Return the share of last replies by the device and radio of their clients."""
    if not replies:
        return {}
    names = ["client", "device", "radio"]
    table = as_frame(read_table(folder, "clients", names, [("client", "in", list(replies))]))
    shares, whole = dict[str, float](), sum(replies.values())
    for row in table.astype(object).to_dict("records"):
        kind = f"{row['device']} on {row['radio']}"
        shares[kind] = shares.get(kind, 0.0) + replies[str(row["client"])] / whole
    return shares


_ROUNDING = 1e-9
"""Share of a cost below which its rest is an error of rounding."""


def _apart(one: _Spent, other: _Spent) -> pd.DataFrame:
    """Take the difference of two runs apart: one row per cause, as `Causes.table` has them."""
    ours, theirs = one.rounds, other.rounds
    middle = (ours + theirs) / 2
    whole = sum(
        sum(part.total for part in run.parts.values() if not part.once) / run.rounds
        for run in (one, other)
    )
    rows = {ROUNDS: [ours, theirs, (ours - theirs) * whole / 2]}
    for name in dict.fromkeys([*one.parts, *other.parts]):
        parts = [run.parts.get(name, _Part(0.0)) for run in (one, other)]
        if parts[0].once:
            own, against = (part.total for part in parts)
            rows[name] = [own, against, own - against]
            continue
        rates = [part.total / count for part, count in zip(parts, (ours, theirs), strict=True)]
        left = rates[0] - rates[1]
        if unit := parts[0].units:
            counts = [
                each.units[1] / rounds
                for each, rounds in zip(parts, (ours, theirs), strict=True)
                if each.units
            ]
            rates = _sizes(rates, counts)
            by_count = (counts[0] - counts[1]) * sum(rates) / 2
            # What remains is due to the size of the units.
            left -= by_count
            before = rows.get(unit[0], [0.0, 0.0, 0.0])[2]
            rows[unit[0]] = [*counts, before + by_count * middle]
        rows[name] = [*rates, left * middle]
    table = pd.DataFrame.from_dict(rows, orient="index", columns=["one", "other", "difference"])
    return table.rename_axis("cause").reset_index()


def _sizes(rates: Sequence[float], counts: Sequence[float]) -> list[float]:
    """Return the size of a unit in both runs; a run without units has the size of the other's."""
    sizes = [rate / count if count else 0.0 for rate, count in zip(rates, counts, strict=True)]
    turned = zip(counts, sizes, reversed(sizes), strict=True)
    return [own if count else other for count, own, other in turned]


# What the logs have of the mechanism behind a part. Nothing is concluded beyond their figures.

_ON_PATH = TIME_PARTS[:8]
"""The parts of time that belong to the client whose reply came last."""

_APART = 0.02
"""Shares, and relative differences, below which a mechanism is not worth a note."""


def _mechanisms(
    one: Sequence[_Spent], other: Sequence[_Spent], cost: str, first: str
) -> Iterator[tuple[str, str]]:
    """Yield causes with what is behind them, by means over seeds.

    Args:
        one: the runs of the variant.
        other: those that it is compared with.
        cost: of the causes.
        first: the largest cause among those of a round.
    """

    def show(cause: str, name: str, unit: str, text: str) -> Iterator[tuple[str, str]]:
        ours, theirs = (float(np.mean([run.counts[name] for run in side])) for side in (one, other))
        if abs(ours - theirs) > _APART * (1.0 if unit == "%" else max(ours, theirs)):
            shown = [
                _percent(value) if unit == "%" else quantity(value, unit)
                for value in (ours, theirs)
            ]
            yield cause, text.format(f"{shown[0]} instead of {shown[1]}")

    if cost == "joules":
        yield from show("promotion", "promotions", "", "{} promotions per round")
        yield from show("sending", "messages", "", "{} uplink messages per round")
        yield from show("idle", "seconds", "s", "rounds of {}")
    if cost == "t":
        yield from show(
            "promotion", "awake", "%", "radio of the last reply awake in {} of exchanges"
        )
        yield from show("upload", "upload bits", "bit", "a last reply of {}")
        yield from show("after the last reply", "waits", "%", "in {} of rounds")
        if first in _ON_PATH and (text := _last_replies(one, other)):
            yield first, text


def _last_replies(one: Sequence[_Spent], other: Sequence[_Spent]) -> str:
    """Return the kind of client whose share of the last replies differs most, with both shares."""
    kinds = dict.fromkeys(kind for run in (*one, *other) for kind in run.last)
    ours, theirs = (
        {kind: float(np.mean([run.last.get(kind, 0.0) for run in side])) for kind in kinds}
        for side in (one, other)
    )
    most = max(kinds, key=lambda kind: abs(ours[kind] - theirs[kind]), default=None)
    if most is None or abs(ours[most] - theirs[most]) < _LARGE:
        return ""
    less, more = _percent(ours[most]), _percent(theirs[most])
    return f"last reply from {most} in {less} instead of {more} of exchanges"


def _percent(share: float) -> str:
    """Return a share in percent, in whole ones or two digits.

    >>> _percent(1.379), _percent(-0.0123)
    ('138 %', '\N{MINUS SIGN}1.2 %')
    """
    form = ".0f" if abs(share) >= _LARGE else ".2g"
    return f"{format_number(100 * share, form)} %".replace("-", "\N{MINUS SIGN}")


def explain(
    folders: Mapping[tuple[str, int], Path],
    rounds: pd.DataFrame,
    costs: pd.DataFrame,
    answered: Leading | None,
) -> Causes | None:
    """Return the causes of the difference that the answer of a comparison is about.

    None where the answer names no cheaper variant of two, or its causes cannot be found: see
    `causes`.

    Args:
        folders: of the runs, by variant and seed.
        rounds: the round tables, as `Result.rounds` has them.
        costs: one row per run, as `cost_to_target` and `final_cost` give it.
        answered: the verdict that the answer states.
    """
    if answered is None or answered.verdict.state is not State.CHEAPER:
        return None
    if answered.cost not in _READ:
        return None
    pair = answered.one, answered.other
    try:
        found = causes(folders, rounds, costs, pair, answered.cost)
    except (DataError, OSError):
        return None
    return found if found.difference < 0 else None


def whose(found: Causes | None, labels: Mapping[str, str], against: str | None) -> str:
    """Return a line that names the two variants of some causes, if the answer names more.

    Args:
        found: the causes; None if they are not known.
        labels: what to call each variant of the answer.
        against: the baseline of the answer; None if it is about two variants.
    """
    if found is None or len(labels) < 3 or against not in {found.one, found.other}:
        return ""
    cost = TITLES.get(found.cost, found.cost)
    one, other = (bare(labels[name]) for name in (found.one, found.other))
    return f"why {one} takes less {cost} than {other}:"


def explained(
    answer: str, found: Causes | None, reference: str = "", pair: str = ""
) -> list[str | Table]:
    """Return an answer, its causes and a further verdict, without what is empty.

    Args:
        answer: the answer.
        found: the causes of its difference; None if they are not known.
        reference: the further verdict; see `reference_answer`.
        pair: the line above the causes; see `whose`.
    """
    parts = answer, pair, found.listing() if found is not None else None, reference
    return [part for part in parts if part]
