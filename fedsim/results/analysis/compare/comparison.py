"""A comparison of variants: what each has cost to reach its targets, and how sure that is."""

from collections.abc import Collection, Hashable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from html import escape as html_escape
from math import isfinite, isnan
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd
from matplotlib.figure import Figure
from rich.markup import escape
from rich.table import Table

from fedsim.core.atomic import write_whole
from fedsim.core.blocks.wording import nearest
from fedsim.core.errors import DataError
from fedsim.core.table_columns import TITLES, TOTAL_JOULES, UNITS
from fedsim.core.tables import as_html, as_text, plain
from fedsim.core.text import as_csv, format_number, quantity, visible
from fedsim.results.analysis.batteries import BatterySummary
from fedsim.results.analysis.battery_schedule import BatterySchedule
from fedsim.results.analysis.battery_schedule import interval as interval_of
from fedsim.results.analysis.compare.answer import (
    Leading,
    answers,
    leading,
    read_cost,
    reference_answer,
    total_answer,
)
from fedsim.results.analysis.compare.causes import COLUMNS as CAUSES
from fedsim.results.analysis.compare.causes import Causes, causes, explain, explained, whose
from fedsim.results.analysis.compare.caveats import caveats, failures, read_doubts
from fedsim.results.analysis.compare.cost_tables import (
    COMPARED,
    Target,
    complete,
    failed_variants,
    pair,
    summarise,
)
from fedsim.results.analysis.compare.dominance import Decisions
from fedsim.results.analysis.compare.pairwise import PRACTICAL, fewest_seeds, interval_level
from fedsim.results.analysis.compare.quality import (
    QUALITY_COLUMNS,
    QUALITY_RULE,
    comparable,
    interval,
    quality,
    signed,
)
from fedsim.results.analysis.compare.runs import EndedRuns, gather
from fedsim.results.analysis.compare.trade_offs import TRADED, cost_bars, pareto_scatter
from fedsim.results.analysis.compare.verdict import State
from fedsim.results.analysis.costs import (
    figure,
    notes_on_seeds,
    shown_costs,
    with_bits,
    with_further,
)
from fedsim.results.analysis.figures import progress
from fedsim.results.analysis.saving import save
from fedsim.results.record.lock import hold
from fedsim.results.record.schema import GRAMS

# Tables of a comparison, as rich draws them in a terminal.

_SHOWN = ("round", "t", "joules", "bits_up", "bits_down", "transmissions")
_PAIRED = ("round", "transmissions", "bits", "t", "joules")
_LEAST, _LESS = 1e-4, "<1e-4"  # a smaller probability is not credible
_MOST_MEASURES = 4  # of model quality
_WIDE = 10  # percent, of which tenths matter no more


MARKS = {
    State.SAME: ("=", "= the same as the lowest of the column"),
    State.UNDECIDED: ("~", "~ not known to differ from the lowest of the column"),
}
"""The mark of a cost by its state against the lowest one, and what stands below the table."""


def summary_table(
    table: pd.DataFrame,
    labels: Mapping[str, str],
    title: str,
    arrived: str = "reached",
    failed: Collection[str] = (),
) -> Table:
    """Return a table of `summarise`, one row per variant: means, and below them their intervals.

    Args:
        table: with columns `pareto` and COST_state beside; see `Case`.
        labels: variant -> what the table calls it; the others are left out.
        title: above the table.
        arrived: head of the numbers of runs that the means are over.
        failed: the variants whose runs have all failed.
    """
    drawn = plain(title, keys=2)
    shown = shown_costs(table, _SHOWN)
    states = table[[f"{cost}_state" for cost in shown]]
    said = {
        "* Pareto-optimal in bits, time and energy": table["pareto"].any(),
        **{text: (states == str(state)).any(axis=None) for state, (_, text) in MARKS.items()},
    }
    drawn.caption = "; ".join(text for text, some in said.items() if some) or None
    drawn.add_column("variant")
    drawn.add_column("")  # the mark, which so is beside the name in every block of a narrow table
    drawn.add_column(arrived, justify="right")
    for cost in shown:
        drawn.add_column(TITLES.get(cost, cost), justify="right")
    for row in table.set_index("variant").loc[list(labels)].reset_index().to_dict("records"):
        mark = "*" if row["pareto"] else ""
        cells = [escape(labels[row["variant"]]), mark, f"{row['reached']} of {row['runs']}"]
        if pd.notna(row["round"]):
            cells += [_mean(row, cost) for cost in shown]
        else:
            missed = "failed" if row["variant"] in failed else "never reached"
            cells += ["", missed, *[""] * (len(shown) - 2)]
        drawn.add_row(*cells)
    return drawn


_TESTED = {"low": "low", "high": "high", "p_holm": "p"}
"""What several seeds say of a ratio, and the heads of these columns; one seed says none of it."""


def paired_table(
    pairs: pd.DataFrame,
    labels: Mapping[str, str],
    title: str,
    confidence: float = 0.95,
    practical: float = PRACTICAL,
) -> Table:
    """Return a table of `pair`, one row per variant and cost.

    Args:
        pairs: as `pair` gives it.
        labels: variant -> what the table calls it; the others are left out.
        title: above the table.
        confidence: of the intervals.
        practical: costs whose ratio is nearer to 1 than this are the same.
    """
    shown = pairs[
        pairs["cost"].isin([*_PAIRED, GRAMS, TOTAL_JOULES]) & pairs["variant"].isin(list(labels))
    ]
    shown = shown[(shown["seeds"] > 0) | (shown["cost"] == _PAIRED[0])]
    tested = [key for key in _TESTED if shown[key].notna().any()]
    drawn = plain(title, keys=3)
    drawn.caption = f"Costs within {100 * practical:g} % count as the same."
    if tested:
        drawn.caption += (
            " The ratio is the geometric mean of the seeds' paired ratios. Variants differ if both"
            " Student's t test of the ratio's logarithm and the sign test say so. With fewer than"
            f" {fewest_seeds(confidence)} seeds, all seeds have to agree, and the t test is five"
            " times stricter. p is corrected for all pairs of variants (Holm)."
        )
    missed = bool((shown["pairs"] < shown["seeds"]).any())
    if missed:
        drawn.caption += (
            " Where a run missed the target, difference and ratio are over the seeds in which both"
            " variants reached it, and p is that of the sign test, in which a miss counts as"
            " costlier."
        )
    drawn.add_column("variant")
    heads = [_TESTED[key] for key in tested]
    for head in (
        "both reached" if missed else "seeds",
        "cost",
        "difference",
        "ratio",
        *heads,
        "verdict",
    ):
        drawn.add_column(head, justify="left" if head in {"cost", "verdict"} else "right")
    previous = None
    for row in shown.to_dict("records"):
        variant, cost = row["variant"], row["cost"]
        unit = UNITS.get(cost, "")
        if previous not in {None, variant}:
            drawn.add_section()
        drawn.add_row(
            "" if variant == previous else escape(labels[variant]),
            f"{row['pairs']} of {row['seeds']} seeds" if missed else str(row["seeds"]),
            TITLES.get(cost, cost) if row["seeds"] else "",
            quantity(row["difference"], unit),
            _ratio(row["ratio"]),
            *((_p if key == "p_holm" else _ratio)(row[key]) for key in tested),
            row["verdict"],
        )
        previous = variant
    return drawn


def quality_table(found: pd.DataFrame, labels: Mapping[str, str], title: str) -> Table:
    """Return a table of `quality`, one row per measure and variant.

    Args:
        found: as `quality` returns it.
        labels: variant -> what the table calls it; the others are left out.
        title: above the table.
    """
    drawn = plain(title, keys=2)
    tested = found["low"].notna().any()  # one seed has no interval
    if tested:
        drawn.caption = QUALITY_RULE
    drawn.add_column("measure")
    drawn.add_column("variant")
    for head in ("mean", "difference", *(["interval", "p"] if tested else [])):
        drawn.add_column(head, justify="right")
    drawn.add_column("verdict")
    for number, measure in enumerate(found["measure"].unique()[:_MOST_MEASURES]):
        if number:
            drawn.add_section()
        own = found[(found["measure"] == measure) & found["variant"].isin(list(labels))]
        for place, row in enumerate(own.to_dict("records")):
            test = [interval(row["low"], row["high"], measure), _p(row["p_holm"])]
            drawn.add_row(
                "" if place else measure,
                escape(labels[row["variant"]]),
                figure(row["mean"]),
                signed(row["difference"], measure),
                *(test if tested else []),
                row["verdict"],
            )
    return drawn


def _mean(row: Mapping[Hashable, Any], cost: str) -> str:
    mean, low, high = row[cost], row[f"{cost}_low"], row[f"{cost}_high"]
    mark, _ = MARKS.get(row[f"{cost}_state"], ("", ""))
    text = f"{quantity(mean, UNITS.get(cost, ''))} {mark}".rstrip()
    if not mean or isnan(high):
        return text
    down, up = (_share(bound, mean) for bound in (mean - low, high - mean))
    around = f"\N{PLUS-MINUS SIGN}{up}%" if down == up else f"\N{MINUS SIGN}{down}%\n+{up}%"
    return f"{text}\n[dim]{around}[/]"


def _share(part: float, whole: float) -> str:
    """Return a share in percent, as fine as the three digits of a mean are."""
    share = 100 * part / whole
    return (
        format_number(share, ".0f")
        if share >= _WIDE
        else format_number(share, ".1f").removesuffix(".0")
    )


def _ratio(ratio: float) -> str:
    """Return a ratio; none to a cost of 0, or to that of a run that did not reach the target."""
    return format_number(ratio, ".3g") if isfinite(ratio) and ratio > 0 else "-"


def _p(value: float) -> str:
    if isnan(value):
        return "-"
    return _LESS if value < _LEAST else format_number(value, ".2g")


_MOST_ROWS = 40  # variants in a terminal

MOST_DRAWN = 12
"""Variants in a figure, and in a table of a paper."""


class Case(NamedTuple):
    """What one target has cost.

    Attributes:
        target: what was to be reached.
        costs: one row per run, as `cost_to_target` gives it.
        table: one row per variant, as `summarise` gives it; whether it is Pareto-optimal in bits,
            seconds and joules (pareto); and for each cost c as c_state its state against the
            cheapest variant in that cost, whose state is "cheaper" (`State`; empty if it did not
            reach the target).
        pairs: as `pair` gives it.
        decisions: which variant is cheaper than which, in every cost.
        worlds: the verdicts of `fedsim robust` on these runs; None if it sampled no worlds.
    """

    target: Target
    costs: pd.DataFrame
    table: pd.DataFrame
    pairs: pd.DataFrame
    decisions: Decisions
    worlds: pd.DataFrame | None = None


@dataclass(frozen=True, repr=False)
class Comparison:
    """Costs of variants, for a terminal, a notebook, for files and for figures.

    Attributes:
        runs: what is compared.
        against: the variant that the others are compared with seed by seed.
        confidence: of intervals.
        cases: one a target.
        practical: costs whose ratio is nearer to 1 than this are the same.
        chosen: whether the caller or the scenario chose `against`, so that the answers are about
            it.
        by: the cost that the answers are about, as a column; empty for the usual one.
        schedule: how long batteries last with a training at a fixed interval; None if not asked.
    """

    runs: EndedRuns
    against: str
    confidence: float
    cases: tuple[Case, ...]
    practical: float = PRACTICAL
    chosen: bool = False
    by: str = ""
    schedule: BatterySchedule | None = None

    @classmethod
    def of(
        cls,
        places: Sequence[Path],
        targets: Sequence[str] = (),
        against: str | None = None,
        confidence: float = 0.95,
        practical: float = PRACTICAL,
        by: str | None = None,
        every: str | None = None,
    ) -> "Comparison":
        """Compare the runs in some folders.

        Args:
            places: as for `gather`.
            targets: such as "gap=1e-5"; without any, the gap at which the runs were to stop,
                the largest if they differ, and their whole cost where some had none.
            against: a variant or its label, which tables and answers compare with; where not
                given, the baseline of the scenario. Without one, tables compare with the first
                variant, and answers the two cheapest.
            confidence: of intervals, between 0 and 1.
            practical: costs whose ratio is nearer to 1 than this are the same.
            by: the cost that answers and causes are about, such as "time"; by default CO2 if the
                runs state their electricity, else energy.
            every: time between trainings, such as "1 day": how many a battery lasts for.

        Raises:
            DataError: the folders hold no run that can be compared, no run evaluates a target,
                there is no such variant or cost, the confidence is none, or the interval is none
                or no client has a battery.
        """
        if not 0 < confidence < 1:
            text = f"--confidence: got {confidence:g}; give a number between 0 and 1"
            raise DataError("confidence", text)
        seconds = None if every is None else interval_of(every)
        runs = gather(places)
        schedule = (
            None if seconds is None else BatterySchedule.of(runs.by_name, runs.labels, seconds)
        )
        baseline = runs.baseline or None if against is None else against
        other = _variant(runs.labels, baseline)
        wanted = [Target.read(text) for text in targets] or [Target.usual(runs)]
        level = confidence, practical
        cases = [_case(runs, target, other, *level) for target in dict.fromkeys(wanted)]
        about = "" if by is None else read_cost(by, [(case.target, case.costs) for case in cases])
        chosen = baseline is not None
        return cls(runs, other, confidence, tuple(cases), practical, chosen, about, schedule)

    def __repr__(self) -> str:
        answers = ("\n".join(map(_text, parts)) for parts in self.explained_answers)
        return "\n\n".join([*answers, *map(as_text, self.tables()), *self.notes])

    def _repr_html_(self) -> str:
        """Return what a notebook shows."""
        answers = (part for parts in self.explained_answers for part in parts)
        return "\n".join(map(_html, (*answers, *self.tables(), *self.notes)))

    @property
    def answers(self) -> list[str]:
        """For each target which variant took the least, by how much, and how sure that is."""
        return [first for case in self.cases for first in self.verdicts(case)[:1]]

    def verdicts(self, case: Case) -> list[str]:
        """Return the answer to one target, and after it the verdict in each further cost."""
        known = case.decisions, self.runs.rounds, case.worlds, self._about
        return list(answers(case.costs, case.target, self._ranked, *known, self.by))

    @property
    def totals(self) -> list[str]:
        """For each target the verdict on the total energy, if server and network are counted."""
        if self.by == TOTAL_JOULES:
            return []
        rounds, labels = self.runs.rounds, self._ranked
        found = (
            total_answer(
                each.costs, each.target, labels, each.decisions, rounds, each.worlds, self._about
            )
            for each in self.cases
        )
        return list(filter(None, found))

    @cached_property
    def explanations(self) -> tuple[Causes | None, ...]:
        """For each target the causes of the difference that its answer is about, if known."""
        runs = self.runs
        return tuple(
            explain(runs.by_name, runs.rounds, each.costs, self._leading(each))
            for each in self.cases
        )

    def _leading(self, case: Case) -> Leading | None:
        known = case.decisions, case.worlds, self._about
        return leading(case.costs, case.target, self._ranked, *known, self.by)

    @property
    def _ranked(self) -> dict[str, str]:
        """The labels of the variants of which not all runs have failed."""
        failed = failed_variants(self.runs.summary)
        return {name: label for name, label in self.runs.labels.items() if name not in failed}

    @property
    def _about(self) -> str | None:
        """The variant that the answers compare with; None for the two cheapest."""
        return self.against if self.chosen else None

    @property
    def explained_answers(self) -> list[list[str | Table]]:
        """The answers, each with the causes of its difference, where known.

        A line after an open answer compares with the first variant; see `reference_answer`.
        """
        said = zip(self.cases, self.explanations, strict=True)
        return [
            explained(text, found, self.reference(case), self.whose(found))
            for case, found in said
            for text in self.verdicts(case)[:1]
        ]

    def whose(self, found: Causes | None) -> str:
        """Return a line that names the variants of causes, if the answer names more than two."""
        return whose(found, self._ranked, self._about)

    def reference(self, case: Case) -> str:
        """Return the verdict on the cheapest and the first variant; see `reference_answer`.

        Empty if the answers compare with one variant that the caller or the scenario chose.
        """
        if self.chosen:
            return ""
        known = case.decisions, case.worlds, self.by
        return reference_answer(case.costs, case.target, self._ranked, *known)

    def causes(self, one: str, other: str, cost: str = "joules") -> Causes:
        """Take the cost between two variants apart; see `fedsim.results.analysis.causes`.

        Args:
            one: a variant or its label.
            other: the variant to compare it with, or its label.
            cost: "t", "joules" or "bits", up to the first target.

        Raises:
            DataError: there is no such variant or cost, no seed in which both reached the target,
                or the causes cannot be found; the text says why.
        """
        runs, labels = self.runs, self.runs.labels
        pair = _variant(labels, one), _variant(labels, other)
        return causes(runs.by_name, runs.rounds, self.cases[0].costs, pair, cost)

    @property
    def endings(self) -> list[str]:
        """How the runs ended that no stop rule has ended; they are among the notes, too."""
        return list(failures(self.runs))

    @property
    def notes(self) -> list[str]:
        """What a reader has to know before believing the tables."""
        notes = caveats(self.runs, {case.target: case.costs for case in self.cases})
        count = len(self.runs.labels)
        if count > MOST_DRAWN:
            shown = f"tables of costs show {min(count, _MOST_ROWS)}, figures and pairs {MOST_DRAWN}"
            order = "Pareto-optimal ones, then those of the fewest bits"
            notes.append(f"of {count} variants, {shown}: {order}")
        return notes

    def tables(self) -> list[Table]:
        """Return what a terminal shows below the answers: tables of costs and pairs by target.

        At the end, tables of batteries, if clients have some, the last one on a schedule.
        """
        sure = f"{100 * self.confidence:g} % intervals"
        means = f"{sure} (of 2 or 3 runs: min and max)" if self._few else sure
        tables = []
        for case in self.cases:
            labels = self.choose(case, _MOST_ROWS)
            several = (case.table["reached"] > 1).any()  # one run has no interval
            title = self._title(case.target.words, means if several else "")
            failed = failed_variants(self.runs.summary)
            costs = case.costs[case.costs["variant"].isin(list(labels))]
            table = summary_table(case.table, labels, title, case.target.arrived, failed)
            below = [str(table.caption or ""), *notes_on_seeds(costs, case.target.missed)]
            table.caption = "\n".join(filter(None, below)) or None
            tables.append(table)
            if len(case.pairs):
                differs = f"paired difference from {self.runs.labels[self.against]}"
                ratios = intervals_of(case.pairs, "pairs", self.confidence)
                ratios = f"{ratios} of the ratio" if ratios else ""
                title = self._title(f"{case.target.words}: {differs}", ratios)
                level = self.confidence, self.practical
                labels = self.choose(case, MOST_DRAWN)
                tables.append(paired_table(case.pairs, labels, title, *level))
        if len(self.quality):
            beside = f"difference from {self.runs.labels[self.against]}"
            tested = intervals_of(self.quality, "seeds", self.confidence)
            title = self._title(f"quality at the end: paired {beside}", tested)
            labels = self.choose(self.cases[0], MOST_DRAWN)
            tables.append(quality_table(self.quality, labels, title))
        batteries = self.batteries.tables() if self.batteries else []
        return [*tables, *batteries, *([self.schedule.table()] if self.schedule else [])]

    @cached_property
    def quality(self) -> pd.DataFrame:
        """How the last models differ, as `quality` returns it.

        It has no rows for a single variant, and none if runs did not end at an equal amount of
        rounds, time, energy or bits.
        """
        summary = self.runs.summary
        done = summary[complete(summary)]
        if len(self.runs.labels) < 2 or not comparable(done):
            return pd.DataFrame(columns=list(QUALITY_COLUMNS))
        rounds = self.runs.rounds.merge(done[["variant", "seed"]])
        return quality(rounds, self.against, self.confidence)

    @cached_property
    def batteries(self) -> BatterySummary | None:
        """How long batteries last; None if no client has one."""
        return BatterySummary.of(self.runs.by_name, self.runs.labels)

    @property
    def battery_answer(self) -> str:
        """With which variants batteries last longest; empty if there is nothing to compare.

        If trainings begin at a fixed interval, the figures are those of that schedule.
        """
        if self.schedule is not None:
            return self.schedule.answer()
        return self.batteries.answer() if self.batteries else ""

    def _title(self, *parts: str) -> str:
        """Return a title of parts that are not empty; it says so where a campaign was cut off."""
        mark = f"unfinished: {self.runs.extent} have ended" if self.runs.extent else ""
        return "; ".join(filter(None, (*parts, mark)))

    @property
    def _few(self) -> bool:
        """Whether some interval of a mean is from the least run to the largest."""
        return any(case.table["reached"].between(2, 3).any() for case in self.cases)

    def frames(self) -> dict[str, pd.DataFrame]:
        """Return all tables: of runs, variants, pairs and causes, with their target in front.

        The table `quality` has none: it is of the last models, as `Comparison.quality` has it.
        If clients have batteries, there is the table `batteries` too; see `battery_figures`, and
        with an interval of trainings the table `schedule`; see `BatterySchedule`. The
        column `unfinished` has the extent of an interrupted campaign; else it is empty.
        """
        names = "runs", "costs", "pairs", "causes"
        tables: dict[str, list[pd.DataFrame]] = {name: [] for name in names}
        for case, found in zip(self.cases, self.explanations, strict=True):
            every = pd.DataFrame(columns=list(CAUSES)) if found is None else found.frame
            frames = with_bits(case.costs), case.table, case.pairs, every
            for name, frame in zip(tables, frames, strict=True):
                own = frame.copy()
                own.insert(0, "target", str(case.target))
                own.insert(1, "unfinished", self.runs.extent)
                tables[name].append(own)
        joined = {name: pd.concat(parts, ignore_index=True) for name, parts in tables.items()}
        joined["quality"] = self.quality.copy()
        joined["quality"].insert(0, "unfinished", self.runs.extent)
        if self.batteries:
            joined["batteries"] = self.batteries.figures
        if self.schedule:
            joined["schedule"] = self.schedule.figures
        return joined

    def figures(self, *, titles: bool = True) -> dict[str, Figure]:
        """Return the figures: convergence, costs with intervals, and what is traded for what.

        Args:
            titles: whether target, data, fleet and seeds stand above each, as on a screen; in a
                paper the caption says that. An interrupted campaign is marked in either case.
        """
        figures = {}
        for case in self.cases:
            labels, name = self.choose(case, MOST_DRAWN), f"{case.target}".replace("=", "-")
            full = f"{self._title(case.target.words)}\n{self.runs.setting}"
            title = full if titles else self._title()
            figures[f"convergence-{name}"] = self._convergence(case.target, labels, title)
            figures[f"costs-{name}"] = cost_bars(case.table, labels, title)
            figures[f"trade-offs-{name}"] = pareto_scatter(
                case.table, labels, case.decisions, title
            )
        return figures

    def write(self, folder: Path, *, titles: bool = True) -> None:
        """Write the tables as CSV, the figures as PNG and SVG.

        Args:
            folder: to write into; it is created if necessary.
            titles: whether figures have titles; see `figures`.

        Raises:
            OccupiedError: another process is writing into the folder.
            OutputError: one of them cannot be written.
        """
        with hold(folder):
            for name, frame in self.frames().items():
                write_whole(folder / f"{name}.csv", as_csv(frame))
            for name, figure in self.figures(titles=titles).items():
                for ending in ("png", "svg"):
                    save(figure, folder / f"{name}.{ending}")

    def _convergence(self, target: Target, labels: Mapping[str, str], title: str) -> Figure:
        rounds, known = self.runs.rounds, bool(self.runs.rounds["gap"].notna().any())
        several = len(self.runs.folders) > len(self.runs.labels)
        measure = target.measure or ("gap" if known else "objective")
        bands = "means over seeds, and bands from the least to the largest"
        return progress(
            rounds,
            labels,
            measure,
            title=f"{title}\n{bands * several}" if title else "",
            log=measure == "gap",
            target=target.value if target.measure else None,
        )

    def choose(self, case: Case, most: int) -> dict[str, str]:
        """Return the labels of all variants, or of those that matter most where there are more."""
        labels = dict(self.runs.labels)
        if len(labels) <= most:
            return labels
        table = case.table.assign(other=case.table["variant"] != self.against)
        order = ["other", "pareto", "bits"]
        first = table.sort_values(order, ascending=[True, False, True], kind="stable")
        chosen = set(first["variant"].head(most))
        return {variant: label for variant, label in labels.items() if variant in chosen}


def intervals_of(pairs: pd.DataFrame, seeds: str, confidence: float) -> str:
    """Return of what confidence paired intervals are; empty if there are none.

    Args:
        pairs: one row per variant.
        seeds: its column of the number of seeds.
        confidence: between 0 and 1, with enough seeds.
    """
    known = pairs[pairs["low"].notna()]
    if known.empty:
        return ""
    fewest = fewest_seeds(confidence)
    strict = f"{interval_level(confidence, fewest - 1):g} %"
    few = known[seeds] < fewest
    if few.all():
        return f"{strict} intervals (as of fewer than {fewest} seeds)"
    beside = f" ({strict} of fewer than {fewest} seeds)" if few.any() else ""
    return f"{100 * confidence:g} % intervals{beside}"


def _case(
    runs: EndedRuns, target: Target, against: str, confidence: float, practical: float
) -> Case:
    costs, worlds = target.costs(runs), read_doubts(runs, str(target))
    table = target.shown(summarise(costs, confidence), runs)
    own = with_bits(costs)
    decisions = Decisions.of(own, with_further(COMPARED, own), confidence, practical)
    front = decisions.front(TRADED)
    table["pareto"] = table["variant"].isin(front.index[front["pareto"].astype(bool)])
    for cost in decisions.by_cost:
        # Next to a lowest cost of 0, such as no beacons, a mark has nothing to tell.
        states = decisions.states(cost) if own.loc[own["reached"], cost].min() > 0 else {}
        table[f"{cost}_state"] = [str(states.get(name, "")) for name in table["variant"]]
    pairs = pair(costs, against, confidence, decisions, worlds)
    pairs = pairs[~pairs["variant"].isin(list(failed_variants(runs.summary)))]
    if not target.ranks(costs):
        table = table.assign(pareto=False, **{f"{cost}_state": "" for cost in decisions.by_cost})
        pairs = pairs.iloc[:0]
    return Case(target, costs, table, pairs, decisions, worlds)


def _text(part: str | Table) -> str:
    return part if isinstance(part, str) else as_text(part)


def _html(part: str | Table) -> str:
    return f"<p>{html_escape(visible(part))}</p>" if isinstance(part, str) else as_html(part)


def _variant(labels: Mapping[str, str], name: str | None) -> str:
    """Return the variant that has a name or a label."""
    if name is None:
        return next(iter(labels))
    for variant, label in labels.items():
        if name in {variant, label}:
            return variant
    hint = nearest(name, labels) or "."
    there = f"There are {', '.join(labels)}"
    raise DataError("against", f"--against: there is no variant {name!r}{hint} {there}")
