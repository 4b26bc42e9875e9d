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
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from rich.markup import escape
from rich.table import Table

from fedsim.core.errors import DataError
from fedsim.core.table_columns import AFTER, TITLES, UNITS
from fedsim.core.tables import plain
from fedsim.core.text import format_number, quantity
from fedsim.results.analysis.compare.answer import Leading
from fedsim.results.analysis.compare.verdict import State
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

_FEW, _SHOWN, _LARGE = 2, 0.9, 0.1
# A sentence has at most so many causes, until they explain this share of all that goes their way,
# and further ones, or those that go the other way, only from the last share on.

_SMALL = 1e-3
"""Share of the difference below which a table has no row of a cause."""

_READ: Mapping[str, Callable[[pd.DataFrame, int], Spending]] = {
    "t": time_until,
    "joules": energy_until,
    "bits": bits_until,
}


class _Phrase(NamedTuple):
    """How a sentence has a cause: the words for less and for more of it, unit, and "per round"."""

    less: str
    more: str
    unit: str
    each: str = " per round"


LAST_TAIL = "last tail"
"""The cause that radios take energy after the last round, until they sleep."""


def _amount(what: str, unit: str) -> _Phrase:
    return _Phrase(f"less {what}", f"more {what}", unit)


_PHRASES: Mapping[str, Mapping[str, _Phrase]] = {
    "joules": {
        "promotion": _amount("energy for promotions", "J"),
        "tail": _amount("energy in tails between messages", "J"),
        LAST_TAIL: _Phrase(
            "less energy in tails after the last round",
            "more energy in tails after the last round",
            "J",
            "",
        ),
        "receiving": _amount("energy for receiving", "J"),
        "sending": _amount("energy for sending", "J"),
        "sending again": _amount("energy for retransmissions", "J"),
        "forwarding": _amount("energy for forwarding", "J"),
        "at rest": _amount("energy at rest", "J"),
        "computing": _amount("energy for computing", "J"),
        REST: _amount("other energy", "J"),
    },
    "t": {
        "promotion": _amount("time for promotions", "s"),
        "download": _amount("time for downloads", "s"),
        "computing": _amount("time for computing", "s"),
        "upload": _amount("time for uploads", "s"),
        "sending again": _amount("time for retransmissions", "s"),
        "slower link": _amount("time on shared or slower links", "s"),
        "latency and queues": _amount("latency and queueing", "s"),
        "absence": _amount("time of absence", "s"),
        "after the last reply": _amount("waiting after the last reply", "s"),
        "before an exchange": _amount("waiting before an exchange", "s"),
        REST: _amount("other time", "s"),
    },
    "bits": {
        "uplink messages": _Phrase("fewer uplink messages", "more uplink messages", ""),
        "payload": _Phrase("smaller payloads", "larger payloads", "bit", " per uplink message"),
        "headers": _Phrase("smaller headers", "larger headers", "bit", " per uplink message"),
        "beacons": _Phrase("fewer bits in beacons", "more bits in beacons", "bit"),
        "sending again": _Phrase("fewer retransmitted bits", "more retransmitted bits", "bit"),
        "clients asked": _Phrase("fewer clients asked", "more clients asked", ""),
        "downlink": _Phrase("smaller downloads", "larger downloads", "bit", " per client asked"),
        REST: _Phrase("fewer bits in flight", "more bits in flight", "bit"),
    },
}
"""The parts of each cost, in the order of a table, and how a sentence has them."""

_FEWER = _Phrase("fewer rounds", "more rounds", "", "")

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
        notes: by cause, what the logs have of the mechanism behind it; a few words.
        missed: number of further seeds, which one of the two has missed; they have no causes.
    """

    cost: str
    one: str
    other: str
    seeds: int
    table: pd.DataFrame
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

    def sentence(self) -> str:
        """Return the largest causes first, with shares, as a continuation of the answer."""
        rows = self.table.sort_values("share", ascending=False, kind="stable")
        enough, said = _SHOWN * rows["share"].clip(lower=0).sum(), list[str]()
        for row in rows.head(_FEW).to_dict("records"):
            if said and (enough <= 0 or row["share"] < _LARGE):
                break
            said.append(self._clause(row, "of the difference" if not said else ""))
            enough -= row["share"]
        against = [
            self._clause(row)
            for row in rows[::-1].head(1).to_dict("records")
            if row["share"] <= -_LARGE
        ]
        despite = f"; despite {' and '.join(against)}" if against else ""
        seeds = f"{self.seeds} seed{'s' * (self.seeds > 1)}"
        means = f"; means over {seeds}" if self.seeds > 1 else ""
        if self.missed:
            means = f"; in the {seeds} in which both reached it"
        return f"because of {_and(said)}{despite}{means}"

    def _clause(self, row: Mapping[Hashable, Any], of: str = "") -> str:
        cause = str(row["cause"])
        phrase = _FEWER if cause == ROUNDS else _PHRASES[self.cost][cause]
        word = phrase.less if row["difference"] < 0 else phrase.more
        one, other = (_figure(row[name], phrase) for name in ("one", "other"))
        # Means over seeds may differ the other way than the mean of what they make does.
        agree = (row["one"] - row["other"]) * row["difference"] > 0 and one != other
        amounts = f": {one} instead of {other}{phrase.each}" if agree else ""
        share = _percent(row["share"])
        note = self.notes.get(cause, "")
        return f"{word}{amounts} ({' '.join(filter(None, (share, of)))}{note and f'; {note}'})"

    def listing(self, labels: Mapping[str, str]) -> Table:
        """Return the table for a terminal: causes that make a difference, and their sum.

        Args:
            labels: what to call each variant.
        """
        one, other = (labels.get(name, name) for name in (self.one, self.other))
        what, unit = TITLES.get(self.cost, self.cost), UNITS.get(self.cost, "bit")
        drawn = plain(f"causes of the difference in {what}: {one} less {other}")
        drawn.add_column("cause")
        for head in (escape(one), escape(other), "difference", "share"):
            drawn.add_column(head, justify="right")
        small = self.table["share"].abs() < _SMALL
        for row in self.table[~small].to_dict("records"):
            cause = str(row["cause"])
            phrase = _FEWER if cause == ROUNDS else _PHRASES[self.cost][cause]
            figures = (_figure(row[name], phrase) for name in ("one", "other"))
            difference = quantity(row["difference"], unit)
            share = _percent(row["share"])
            drawn.add_row(f"{cause}{phrase.each}", *figures, difference, share)
        rest = float(self.table.loc[small, "difference"].sum())
        if abs(rest) > _ROUNDING * abs(self.difference):
            drawn.add_row("all others", "", "", quantity(rest, unit), f"<{100 * _SMALL:g} % each")
        drawn.add_row("all", "", "", quantity(self.difference, unit), "100 %")
        return drawn


def _and(parts: list[str]) -> str:
    return ", ".join(parts[:-1]) + " and " * (len(parts) > 1) + parts[-1]


def _figure(value: float, phrase: _Phrase) -> str:
    return quantity(value, phrase.unit) if phrase.unit else format_number(value, ".3g")


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
    phrases = _PHRASES[cost]
    units = [phrases[str(name)].unit if name != ROUNDS else "" for name in table["cause"]]
    table.insert(3, "unit", units)
    table["share"] = table["difference"] / whole
    within = table[table["cause"] != ROUNDS].sort_values("share", ascending=False)
    first = str(within["cause"].iloc[0])
    notes = dict[str, str]()
    for cause, text in _mechanisms(one, other, cost, first):
        notes[cause] = "; ".join(filter(None, (notes.get(cause), text)))
    missed = int((tried == len(pair)).sum()) - len(seeds)
    return Causes(cost, *pair, len(seeds), table, notes, missed)


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
        yield from show("at rest", "seconds", "s", "rounds of {}")
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
