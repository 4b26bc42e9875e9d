"""The verdict on two variants in one cost: its state, and the words for it.

All commands, pages and tables take their words from here, so that they agree on a study. A verdict
follows from the ratio of two costs, from its evidence over seeds (`PairedComparison`) and, where
`fedsim robust` has sampled them, over worlds (`Worlds`).
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from math import inf, nan
from typing import Any, NamedTuple

import pandas as pd

from fedsim.core.text import format_number
from fedsim.results.analysis.compare.pairwise import PairedComparison, fewest_seeds, interval_level

SURE = 0.9
"""A verdict that holds in at least this share of worlds, or at most in the rest, is decided."""

TOO_FEW = "too few seeds to tell"
INDISTINGUISHABLE = "statistically indistinguishable"
UNCERTAIN = "depends on uncertain constants"
UNKNOWN = "neither reached it in a common seed"
CONTESTED = "no comparison: missed in some seeds"
ONE_SIDED = "reached by one in all seeds, by the other in none"
"""Reasons why a verdict is not decided."""

_LEAST = 1e-4  # smaller p-values are printed as below this


class State(StrEnum):
    """The state of one variant against another in one cost."""

    CHEAPER = "cheaper"
    COSTLIER = "costlier"
    SAME = "the same"
    UNDECIDED = "undecided"
    NOT_COMPARABLE = "not comparable"


class Worlds(NamedTuple):
    """The evidence of sampled worlds, in each of which the constants have other values.

    Attributes:
        share: of worlds in which the typical ratio is below 1.
        low, high: between which the typical ratio is in nine of ten worlds.
        worlds: how many there are.
    """

    share: float
    low: float
    high: float
    worlds: int

    @classmethod
    def of(cls, row: Mapping[Any, Any]) -> "Worlds | None":
        """Return the evidence in a row of `fedsim.addons.robustness.verdicts`, if it has some."""
        if pd.isna(row["typical"]):
            return None
        share, low, high = (float(row[key]) for key in ("typical", "ratio_low", "ratio_high"))
        return cls(share, low, high, int(row["worlds"]))

    def of_order(self, order: int) -> float:
        """Return the share of worlds in which the order is -1 (cheaper) or 1 (costlier)."""
        return self.share if order < 0 else 1 - self.share


def find_worlds(table: pd.DataFrame | None, variant: str, against: str, cost: str) -> Worlds | None:
    """Return the evidence of worlds on two variants in a cost; None if there is none.

    Args:
        table: as `fedsim.addons.robustness.verdicts` writes it; None if no worlds were sampled.
        variant: the one whose ratio it is.
        against: the one it is compared with.
        cost: column of costs.
    """
    if table is None:
        return None
    pair = (table["variant"] == variant) & (table["against"] == against)
    rows = table[pair & (table["cost"] == cost)].to_dict("records")
    return Worlds.of(rows[0]) if rows else None


def bare(name: str) -> str:
    """Return a label without its method in brackets, for a text that stands in brackets itself.

    >>> bare("chb-triple (chb)"), bare("gd")
    ('chb-triple', 'gd')
    """
    return name.partition(" (")[0]


@dataclass(frozen=True)
class Verdict:
    """What is known of the cost of one variant against that of another.

    Attributes:
        state: see `State`.
        reason: why it is not decided; empty if it is.
        pair: the evidence of the seeds.
        worlds: the evidence of sampled worlds; None if there are none.
    """

    state: State
    reason: str
    pair: PairedComparison
    worlds: Worlds | None

    @property
    def words(self) -> str:
        """The verdict in a few words, as tables print it."""
        pair = self.pair
        first, second = ("all", "none") if pair.alone[0] else ("none", "all")
        one_sided = f"reached in {first} of {pair.runs} seeds, the other in {second}"
        if self.reason or pair.one_sided:
            return one_sided if pair.one_sided else self.reason
        one = " (one seed)" if pair.seeds == 1 else ""
        if self.state is State.SAME:
            if pair.cheaper or pair.costlier:
                return f"{self.state} within {100 * pair.practical:g} %{one}"
            return f"{self.state}{one or f' in all {pair.seeds} seeds'}"
        if one:
            return f"{self.state}{one}"
        if pair.alike:
            return f"{self.state}, all seeds alike"
        both = f", both reached it in {pair.both}" if pair.missed else ""
        return f"{self.state} in {self._count}{both}" if pair.exact else str(self.state)

    def sentence(
        self, names: tuple[str, str], what: str, goal: str, advice: str = "run more seeds"
    ) -> str:
        """Return the verdict as a sentence, without its full stop.

        Args:
            names: of the variant, and of the one it is compared with.
            what: name of the cost: "energy", "time", "bits" or "rounds".
            goal: what was to be reached, such as "a gap below 0.001"; empty for the whole run.
            advice: what to do if the seeds are too few.
        """
        if self.pair.one_sided:
            reached, missed = map(bare, names if self.pair.alone[0] else reversed(names))
            got = f"{reached} reached {goal or 'the end of a run'}"
            return f"{got} in all {self.pair.runs} seeds, {missed} in none"
        return self._on_costs(names, what, goal, advice)

    def _on_costs(self, names: tuple[str, str], what: str, goal: str, advice: str) -> str:
        one, other = names
        less = f"{'fewer' if what in {'bits', 'rounds'} else 'less'} {what}"
        to = f" to {goal}" if goal else " over the whole run"
        known = self.evidence(bare(one), bare(other))
        if self.state is State.CHEAPER:
            saving = " ".join(filter(None, (self._saving, less, "than", other)))
            how = "in" if what in {"time", "rounds"} else "with"
            reaches = f"{one} reaches {goal} {how} {saving}"
            return f"{reaches if goal else f'over the whole run, {one} takes {saving}'} ({known})"
        if self.state is State.COSTLIER:
            more = f"{'more' if what in {'bits', 'rounds'} else 'the higher'} {what}"
            return f"{one} takes {more} than {other}{to} ({known})"
        if self.state is State.SAME:
            same = f"{one} and {other} take the same {what}{to}"
            if self._differs:
                return f"{same}, within {100 * self.pair.practical:g} % ({known})"
            return f"{same} ({known}): what differs between them had no effect on it"
        if self.reason == CONTESTED:
            found = "; ".join(self._where_both_reached(bare(one), bare(other)))
            return f"{one} and {other} cannot be compared in {what}{to}: {found}"
        said = {
            UNKNOWN: f"{one} and {other} cannot be compared in {what}: {self.reason}",
            INDISTINGUISHABLE: f"{one} and {other} are {self.reason} in {what}{to} ({known})",
            TOO_FEW: f"no winner yet: {self._in_few_seeds(names, less + to)}; {advice}",
            UNCERTAIN: f"whether {one} or {other} takes {less}{to} {self.reason} ({known})",
        }
        return said[self.reason]

    @property
    def beside(self) -> tuple[str, str]:
        """The verdict as a clause without its subject, for one variant and for several."""
        if self.reason == CONTESTED:
            return "cannot be compared", "cannot be compared"
        if self.reason in {TOO_FEW, ONE_SIDED}:
            return "has too few seeds to tell", "have too few seeds to tell"
        if self.reason == UNCERTAIN:
            return self.reason, "depend on uncertain constants"
        if self.reason:
            return f"is {self.reason}", f"are {self.reason}"
        if self.state is State.SAME:
            near = f" within {100 * self.pair.practical:g} %" if self._differs else ""
            return f"takes the same{near}", f"take the same{near}"
        cheaper = self.state is State.CHEAPER
        ratio = nan if self.pair.missed else self.pair.ratio
        amount = 1 - ratio if cheaper else ratio - 1
        # Three digits of hundreds: 276 rather than 2.8e+02.
        share = f"{format_number(100 * amount, '.2g' if amount < 1 else '.0f')} % "
        text = f"{share if 0 < ratio < inf else ''}{'less' if cheaper else 'more'}"
        return f"takes {text}", f"take {text}"

    def evidence(self, name: str, other: str) -> str:
        """Return what the verdict rests on: seeds, and worlds if they were sampled."""
        if self.reason == UNCERTAIN:
            return self._in_worlds(name)
        worlds = "" if self.reason or not self._differs else self._in_worlds(name)
        return "; ".join(filter(None, (self._in_seeds(name, other), worlds)))

    def _where_both_reached(self, name: str, other: str) -> Iterator[str]:
        """Yield how the costs compare where both reached the target, and where only one did."""
        pair = self.pair
        if pair.both:
            where = f"in the {_seeds(pair.both)} in which both reached it, {name} takes"
            yield f"{where} {_than(pair)}"
        else:
            yield "there is no seed in which both reached it"
        only = [
            f"only {who} reached it in {_seeds(count)}"
            for who, count in zip((name, other), pair.alone, strict=True)
            if count
        ]
        yield " and ".join(only)

    def _in_seeds(self, name: str, other: str) -> str:
        """Return what the seeds say: the interval, the sign test, or one seed."""
        pair = self.pair
        if pair.seeds < 2:
            return "one seed"
        if pair.alike:
            return f"the same in all {pair.seeds} seeds"
        if pair.exact:
            return "; ".join(self._in_signs(name, other))
        level = f"{interval_level(pair.confidence, pair.seeds):g} % interval"
        if self.state is State.CHEAPER:  # of the saving, as the sentence has it
            ends = f"{_percent(1 - pair.high)} to {_percent(1 - pair.low)}"
            return f"{level} {ends}, {pair.seeds} seeds"
        ends = f"{format_number(pair.low, '.3g')} to {format_number(pair.high, '.3g')}"
        interval, decided = f"{level} of the ratio {ends}, {pair.seeds} seeds", not self.reason
        if decided or pair.p_value > 1 - pair.confidence:
            return interval
        return f"{interval}; p{_equals(pair.p_holm)} after Holm's correction"

    def _in_signs(self, name: str, other: str) -> Iterator[str]:
        """Yield what the sign test says, after what the costs do where both reached the target."""
        pair = self.pair
        count = f"{name} takes less in {pair.cheaper} of {pair.seeds} seeds"
        if pair.missed:
            yield from self._where_both_reached(name, other)
            count += " if a miss counts as more"
        yield count
        yield f"sign test p{_equals(pair.p_value)}"

    def _in_few_seeds(self, names: tuple[str, str], less: str) -> str:
        """Return in how many seeds each variant takes less, and in how many as the other missed."""
        pair, (one, other) = self.pair, names
        because = [
            f" ({missed} of them because {bare(who)} missed the target)" if missed else ""
            for missed, who in zip(pair.alone, (other, one), strict=True)
        ]
        if pair.seeds == pair.cheaper:
            return f"{one} takes {less} than {other} in all {pair.seeds} seeds{because[0]}"
        if pair.seeds == pair.costlier:
            return f"{other} takes {less} than {one} in all {pair.seeds} seeds{because[1]}"
        first = f"{one} takes {less} in {pair.cheaper} of {_seeds(pair.seeds)}{because[0]}"
        return f"{first}, {other} in {pair.costlier}{because[1]}"

    def _in_worlds(self, name: str) -> str:
        """Return in how many worlds a variant is cheaper; empty if none were sampled."""
        worlds = self.worlds
        if worlds is None:
            return ""
        count = f"{worlds.worlds:,} worlds"
        if self.state is State.CHEAPER:
            return f"less in {_share(worlds.share)} of {count}"
        ends = f"{format_number(worlds.low, '.3g')} to {format_number(worlds.high, '.3g')}"
        if self.state is State.UNDECIDED and not self.pair.same:
            return f"{name} takes less in {_share(worlds.share)} of {count}"
        return f"ratio {ends} in nine of ten of {count}"

    @property
    def _differs(self) -> bool:
        return bool(self.pair.cheaper or self.pair.costlier)

    @property
    def _saving(self) -> str:
        """The saving, "25 %"; empty where one of the costs is 0 or infinite."""
        ratio = 0.0 if self.pair.missed else self.pair.ratio
        return _percent(1 - ratio) if 0 < ratio < 1 else ""

    @property
    def _count(self) -> str:
        return f"{max(self.pair.cheaper, self.pair.costlier)} of {self.pair.seeds} seeds"


def judge(pair: PairedComparison, worlds: Worlds | None = None) -> Verdict:
    """Return the verdict on one variant against another in one cost.

    A difference that the seeds decide is a verdict if it holds in `SURE` of the worlds, too; the
    same cost is one if the ratio is within the practical difference in nine of ten worlds.

    Args:
        pair: what the seeds say.
        worlds: what sampled worlds say; None if there are none.
    """
    if not pair.seeds:
        return Verdict(State.NOT_COMPARABLE, UNKNOWN, pair, worlds)
    if pair.contested:
        return Verdict(State.NOT_COMPARABLE, CONTESTED, pair, worlds)
    if not pair.same and not pair.order:
        # More seeds like these would decide a sign test that is corrected for many pairs.
        unanimous = pair.exact and pair.seeds in {pair.cheaper, pair.costlier}
        few = unanimous or pair.seeds < fewest_seeds(pair.confidence)
        open_reason = TOO_FEW if few else INDISTINGUISHABLE
        reason = ONE_SIDED if pair.one_sided else open_reason
        return Verdict(State.UNDECIDED, reason, pair, worlds)
    if pair.same:
        state, zone = State.SAME, 1 + pair.practical
        sure = worlds is None or (1 / zone <= worlds.low and worlds.high <= zone)
    else:
        state = State.CHEAPER if pair.order < 0 else State.COSTLIER
        sure = worlds is None or worlds.of_order(pair.order) >= SURE
    if not sure:
        return Verdict(State.UNDECIDED, UNCERTAIN, pair, worlds)
    return Verdict(state, "", pair, worlds)


def _than(pair: PairedComparison) -> str:
    """Return how the first of a pair compares where both reached the target: "12 % less"."""
    if pair.near:
        return f"the same within {100 * pair.practical:g} %"
    if not 0 < pair.like < inf:  # one of the costs is 0
        return "less" if pair.like < 1 else "more"
    return f"{_percent(abs(1 - pair.like))} {'less' if pair.like < 1 else 'more'}"


def _seeds(count: int) -> str:
    return f"{count} seed{'' if count == 1 else 's'}"


def _share(share: float) -> str:
    return f"{format_number(100 * share, '.3g')} %"


def _percent(share: float) -> str:
    return f"{format_number(100 * share, '.2g')} %"


def _equals(p_value: float) -> str:
    return f"<{_LEAST:g}" if p_value < _LEAST else f"={format_number(p_value, '.2g')}"
