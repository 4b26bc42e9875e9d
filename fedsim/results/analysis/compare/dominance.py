"""Pairwise dominance of all variants in all costs: the cheapest and the Pareto-optimal ones."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from fedsim.core.ports import Array
from fedsim.results.analysis.compare.pairwise import PRACTICAL, PairedComparison, Pairwise, typical
from fedsim.results.analysis.compare.verdict import State


@dataclass(frozen=True, slots=True, eq=False)
class Decisions:
    """What the seeds say of every two variants in every cost, by the rule of `pairwise`.

    Attributes:
        variants: in the order of the table of costs.
        reached: how many runs of each reached the target.
        by_cost: cost -> the decisions of all pairs, numbered as `variants` are.
    """

    variants: tuple[str, ...]
    reached: tuple[int, ...]
    by_cost: Mapping[str, Pairwise]

    @classmethod
    def of(
        cls,
        costs: pd.DataFrame,
        columns: Sequence[str],
        confidence: float = 0.95,
        practical: float = PRACTICAL,
    ) -> "Decisions":
        """Decide all pairs of variants in some costs.

        Args:
            costs: one row per run, as `with_bits` returns it.
            columns: of costs, lower ones being better.
            confidence: of intervals and tests, between 0 and 1.
            practical: costs whose ratio is nearer to 1 than this are the same.

        Raises:
            ValueError: the confidence is not between 0 and 1.
        """
        own = costs.astype({"variant": object})
        names = [str(name) for name in own["variant"].unique()]
        count = own.groupby("variant", sort=False)["reached"].sum()
        figures = seed_costs(own, names, columns)
        decided = [Pairwise.of(each, confidence, practical) for each in figures]
        reached = tuple(int(count[name]) for name in names)
        return cls(tuple(names), reached, dict(zip(columns, decided, strict=True)))

    def pair(self, one: str, other: str, cost: str) -> PairedComparison:
        """Return what the seeds say of one variant against another in a cost.

        Raises:
            ValueError: there is no such variant.
        """
        return self.by_cost[cost].pair(self._number(one), self._number(other))

    def against(self, other: str) -> Iterator[tuple[str, str, PairedComparison]]:
        """Yield every other variant, cost, and what the seeds say of it against that variant.

        Raises:
            ValueError: there is no such variant.
        """
        number = self._number(other)
        for one, name in enumerate(self.variants):
            if one != number:
                for cost, every in self.by_cost.items():
                    yield name, cost, every.pair(one, number)

    def rank(self, cost: str) -> list[str]:
        """Return the variants that reached the target, the cheapest one first.

        The order is that of their typical costs: geometric means over seeds, or medians if a run of
        one of them missed the target. Equal costs are possible: a median is infinite if most runs
        missed it. Of variants with equal costs, the one that reached the target in more seeds comes
        first, then the one with the lower geometric mean over these seeds. At last, the first
        variant of this order that no other one beats is put in front.
        """
        every = self.by_cost[cost]
        there = [number for number, count in enumerate(self.reached) if count]
        with np.errstate(divide="ignore", invalid="ignore"):
            logs = np.log(every.costs)
            missed = there and np.isinf(every.costs[there]).any()
            usual = np.nanmedian(logs, axis=-1) if missed else typical(logs)

        def place(number: int) -> tuple[float, int, float]:
            arrived = logs[number][logs[number] < np.inf]
            median = float(np.nan_to_num(usual[number], nan=np.inf))
            mean = float(arrived.mean()) if len(arrived) else np.inf  # of an unknown cost
            return median, -len(arrived), mean

        order = sorted(there, key=place)
        # Decisions by tests are not transitive, and the lowest typical cost may come from seeds
        # that another variant lacks. So the first in order may still be beaten.
        unbeaten = [one for one in order if not (every.order[there, one] < 0).any()]
        first = unbeaten[:1] or order[:1]
        return [self.variants[one] for one in [*first, *(n for n in order if n not in first)]]

    def chain(self, cost: str, labels: Mapping[str, str]) -> str:
        """Return the variants of `labels` that reached the target, the cheapest one first.

        Between neighbours stands "<" where the first is cheaper, "=" where both cost the same, and
        "~" where the seeds do not decide.

        Args:
            cost: in which they are compared.
            labels: variant -> what it is called.
        """
        every, text, before = self.by_cost[cost], "", -1
        for name in self.rank(cost):
            if name in labels:
                number = self._number(name)
                if text:
                    same = "=" if every.same[before, number] else "~"
                    text += f" {'<' if every.order[before, number] < 0 else same} "
                text, before = f"{text}{labels[name]}", number
        return text

    def not_costlier(self, name: str, cost: str) -> list[str]:
        """Return the variants that reached the target and are not costlier than one of them.

        They cost the same, or the seeds do not decide.
        """
        order = self.by_cost[cost].order[:, self._number(name)]
        rows = zip(self.variants, self.reached, order, strict=True)
        return [own for own, count, sign in rows if count and sign <= 0 and own != name]

    def front(self, columns: Sequence[str]) -> pd.DataFrame:
        """Return the variants that are Pareto-optimal in some costs, and those that may be.

        Returns:
            One row per variant that reached the target in some seed, by name: pareto (every other
            one is costlier in some cost, or the same in all) and open (neither that nor dominated:
            no other variant is cheaper in some cost and not known to be costlier in any).
        """
        there = [number for number, count in enumerate(self.reached) if count]
        grid, names = np.ix_(there, there), [self.variants[number] for number in there]
        order = np.array([self.by_cost[cost].order[grid] for cost in columns])
        same = np.array([self.by_cost[cost].same[grid] for cost in columns])
        itself = np.eye(len(there), dtype=bool)
        # Entries are of a row's variant against a column's: a variant is Pareto-optimal by its row,
        # and dominated by its column.
        pareto = ((order < 0).any(axis=0) | same.all(axis=0) | itself).all(axis=1)
        dominated = ((order <= 0).all(axis=0) & (order < 0).any(axis=0)).any(axis=0)
        flags = {"pareto": pareto, "open": ~pareto & ~dominated}
        return pd.DataFrame(flags, index=pd.Index(names, dtype=object))

    def states(self, cost: str) -> dict[str, State]:
        """Return the state of each variant that reached the target against the first of `rank`.

        That of the first one itself is `State.CHEAPER`.
        """
        every, ranked = self.by_cost[cost], self.rank(cost)
        if not ranked:
            return {}
        first, found = self._number(ranked[0]), dict[str, State]()
        for name in ranked:
            number = self._number(name)
            if number == first or every.order[number, first] < 0:
                found[name] = State.CHEAPER
            elif every.order[number, first]:
                found[name] = State.COSTLIER
            else:
                found[name] = State.SAME if every.same[number, first] else State.UNDECIDED
        return found

    def _number(self, name: str) -> int:
        if name not in self.variants:
            there = ", ".join(self.variants)
            raise ValueError(f"there is no variant {name!r}; there are {there}")
        return self.variants.index(name)


def pareto(costs: pd.DataFrame, columns: Sequence[str], confidence: float = 0.95) -> pd.DataFrame:
    """Return the variants that are Pareto-optimal in some costs or may be; see `Decisions.front`.

    Args:
        costs: one row per run, as `with_bits` returns it.
        columns: of costs, lower ones being better.
        confidence: of the tests, between 0 and 1.
    """
    return Decisions.of(costs, columns, confidence).front(columns)


def seed_costs(costs: pd.DataFrame, names: Sequence[str], columns: Sequence[str]) -> Array:
    """Return costs as `pairwise` takes them, shape (columns, variants, seeds).

    They are infinite where a run did not reach the target, NaN where there is no such run.

    Args:
        costs: one row per run, as `with_bits` returns it.
        names: of the variants.
        columns: of costs.
    """
    seeds = costs["seed"].unique()
    figures: Any = costs[list(columns)].to_numpy(np.float64, copy=True)
    figures[~costs["reached"].to_numpy(bool)] = np.inf
    rows = pd.MultiIndex.from_arrays([costs["variant"].astype(object), costs["seed"]])
    own = pd.DataFrame(figures, index=rows)
    wanted = pd.MultiIndex.from_product([list(names), seeds])
    table = own.reindex(wanted).to_numpy().reshape(len(names), len(seeds), len(columns))
    return np.asarray(np.moveaxis(table, 2, 0))
