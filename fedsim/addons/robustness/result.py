"""The result of `fedsim.robust`: tables, figures and sentences."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from html import escape
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from rich.table import Table as RichTable

from fedsim.addons.robustness.design import Design
from fedsim.addons.robustness.figures import deciding_table, robustness_figure, verdict_table
from fedsim.addons.robustness.verdicts import CostTable, deciding, fronts, verdicts
from fedsim.core.atomic import write_whole
from fedsim.core.ports import Array
from fedsim.core.tables import as_html, as_text
from fedsim.core.text import as_csv, format_number, quantity, visible
from fedsim.results.analysis.compare.answer import answer
from fedsim.results.analysis.compare.caveats import LESS, WORDS, seal_tables
from fedsim.results.analysis.compare.cost_tables import COMPARED, Target
from fedsim.results.analysis.compare.dominance import Decisions
from fedsim.results.analysis.compare.pairwise import PRACTICAL
from fedsim.results.analysis.costs import with_bits
from fedsim.results.analysis.saving import save
from fedsim.results.record.lock import hold
from fedsim.results.record.schema import GRAMS

_FLIPS = 6  # listed in sentences; all are in the files


@dataclass(frozen=True, repr=False)
class Robustness:
    """The robustness of a study's conclusions to uncertain constants.

    Attributes:
        target: the target of the costs.
        labels: the label of each variant.
        against: the variant that the others are compared with.
        table: the costs of all runs in all worlds.
        design: the constants and the worlds.
        flips: the values at which verdicts reverse; see
            `fedsim.addons.robustness.break_even.flips`.
        remarks: notes on precision and on what is left out.
        runs: hashes of the runs; see `fedsim.results.analysis.compare.caveats.run_hashes`.
        costs: one row per run with its cost to the target, as `Target.costs` returns it.
        rounds: the round tables.
        practical: costs whose ratio is nearer to 1 than this are the same.
        chosen: whether the caller or the scenario chose `against`, so that the answer is about it.

    Example:
        >>> found = fedsim.robust(result.folder, target="gap=1e5", worlds=64)
        >>> found.answer().partition(" than")[0]
        'gd reaches a gap below 100000 with 1.3 % less energy'
    """

    target: Target
    labels: Mapping[str, str]
    against: str
    table: CostTable
    design: Design
    flips: pd.DataFrame
    remarks: tuple[str, ...]
    runs: Mapping[str, str]
    costs: pd.DataFrame
    rounds: pd.DataFrame
    practical: float = PRACTICAL
    chosen: bool = False

    def __repr__(self) -> str:
        return "\n\n".join([*map(as_text, self.tables()), *self.notes])

    def _repr_html_(self) -> str:
        """Return HTML for notebooks."""
        notes = (f"<p>{escape(visible(note))}</p>" for note in self.notes)
        return "\n".join([*map(as_html, self.tables()), *notes])

    @cached_property
    def verdicts(self) -> pd.DataFrame:
        """One row per pair of variants and cost; see `robustness.verdicts.verdicts`."""
        drawn = self.design.drawn
        # The world as written follows the sampled ones; see `Design`.
        return verdicts(self.table, slice(0, drawn), drawn, self.practical)

    @cached_property
    def fronts(self) -> pd.DataFrame:
        """The share of worlds in which each variant is optimal; see `verdicts.fronts`."""
        return fronts(self.table, slice(0, self.design.drawn))

    @cached_property
    def deciding(self) -> pd.DataFrame:
        """One row per variant, cost and constant; see `robustness.verdicts.deciding`."""
        return deciding(self.table, self.design, self._reference)

    @property
    def constants(self) -> pd.DataFrame:
        """One row per constant: constant, value, low, high, unit, basis and source."""
        rows = [(str(constant.key), *constant[1:]) for constant in self.design.constants]
        columns = ["constant", "value", "low", "high", "unit", "basis", "source"]
        return pd.DataFrame(rows, columns=columns)

    @property
    def worlds(self) -> pd.DataFrame:
        """One row per sampled world: its constants, SI, and the mean costs of each variant."""
        drawn = slice(0, self.design.drawn)
        columns: dict[str, Array] = {
            str(constant.key): values[drawn]
            for constant, values in zip(self.design.constants, self.design.values, strict=True)
        }
        for number, name in enumerate(self.table.variants):
            for cost, costs in self.table.costs.items():
                values = costs[number]
                # Without seeds that have no cost in any world: absent, or never at the target.
                known = values[~(np.isnan(values) | np.isinf(values)).all(axis=1)]
                unknown = np.full(self.design.drawn, np.nan)
                columns[f"{name}.{cost}"] = known[:, drawn].mean(axis=0) if len(known) else unknown
        return pd.DataFrame(columns)

    @property
    def _reference(self) -> int:
        return list(self.table.variants).index(self.against)

    def answer(self) -> str:
        """Return the verdict of seeds and worlds on the cheapest variant, as `compare` words it.

        It is never about CO2, which is not priced in worlds.
        """
        costs = with_bits(self.costs.drop(columns=GRAMS, errors="ignore"))
        known = Decisions.of(costs, [c for c in COMPARED if c in costs], practical=self.practical)
        about = self.against if self.chosen else None
        return answer(costs, self.target, self.labels, known, self.rounds, self.verdicts, about)

    @property
    def notes(self) -> list[str]:
        """Conclusions in sentences, and notes."""
        return [*self._sentences(), *self.remarks]

    def _sentences(self) -> list[str]:
        """Return the values at which verdicts reverse, and the verdicts that no value reverses."""
        reversed_ = self.flips[self.flips["value"].notna()]
        lines = []
        for row in reversed_.to_dict("records"):
            where = f"{row['constant']} is {row['wins']} {_show(row['value'], row['unit'])}"
            lines.append(f"{self._less(row['variant'], row['cost'])} where {where}")
        return [
            *_first(lines, "values at which a verdict reverses"),
            *_first(list(self._steady(reversed_)), "verdicts that no single constant reverses"),
        ]

    def _less(self, variant: str, cost: str) -> str:
        return f"{self.labels[variant]} takes {LESS[cost]} than {self.labels[self.against]}"

    def _steady(self, reversed_: pd.DataFrame) -> Iterator[str]:
        """Yield sentences on verdicts that no single constant reverses within its interval."""
        known = set(zip(reversed_["variant"], reversed_["cost"], strict=True))
        for (variant, cost), rows in self.flips.groupby(["variant", "cost"], sort=False):
            ends = rows[["ratio_low", "ratio_high"]].to_numpy(float)
            # Both variants reached the target, and neither is free: their ratios are numbers.
            reached = (np.isfinite(ends) & (ends > 0)).all()
            # A line with worlds that cannot be priced has no row: a verdict may reverse in them.
            whole = rows["constant"].nunique() == len(self.design.constants)
            if (variant, cost) not in known and reached and whole and not _same(rows):
                row, end = _nearest_end(rows)
                place = f"{row['constant']} is {_show(row[end], row['unit'])}"
                ratio = f"{row[f'ratio_{end}']:.3f}"
                words = "no single constant reverses the verdict within its interval"
                pair = f"{self.labels[str(variant)]} against {self.labels[self.against]}"
                nearest = f"the ratio nearest to 1 is {ratio}, where {place}"
                yield f"{pair}, {WORDS[str(cost)]}: {words}; {nearest}"

    def tables(self) -> list[RichTable]:
        """Return the tables for a terminal: verdicts, shares of fronts, deciding constants."""
        worlds = f"{self.design.words} of {len(self.design.constants)} constants"
        against = self.labels[self.against]
        title = f"{self.target.words}, against {against}, in {worlds}"
        verdicts = self.verdicts[self.verdicts["against"] == self.against]
        tables = [verdict_table(verdicts, self.fronts, self.labels, title)]
        if len(self.design.constants) and self.design.lines and len(self.labels) > 1:
            title = f"constants that decide the ratio to {against}"
            tables.append(deciding_table(self.deciding, self.labels, title))
        return tables

    def frames(self) -> dict[str, pd.DataFrame]:
        """Return all tables, with the target in front."""
        names = "verdicts", "fronts", "deciding", "flips", "constants", "worlds"
        frames = {}
        for name in names:
            frame = getattr(self, name).copy()
            frame.insert(0, "target", str(self.target))
            frames[name] = frame
        return frames

    def figures(self) -> dict[str, Figure]:
        """Return the figures: probabilities and spreads of ratios, and a tornado per cost."""
        title = f"{self.target.words}: share of worlds in which each verdict holds"
        return {"robustness": robustness_figure(self, title)}

    def write(self, folder: Path) -> None:
        """Write the tables as CSV, with a seal for readers, and the figures as PNG and SVG.

        Raises:
            OccupiedError: another process is writing into the folder.
            OutputError: one of them cannot be written.
        """
        # The seal comes after the tables that it covers: a reader that finds it finds all of them.
        with hold(folder):
            for name, frame in self.frames().items():
                write_whole(folder / f"{name}.csv", as_csv(frame))
            seal_tables(folder, self.runs)
            for name, figure in self.figures().items():
                for ending in ("png", "svg"):
                    save(figure, folder / f"{name}.{ending}")


def _first(lines: list[str], what: str) -> list[str]:
    """Return the first sentences, and a note on the number of further ones in the files."""
    more = len(lines) - _FLIPS
    return lines if more <= 0 else [*lines[:_FLIPS], f"{more} more {what}: flips.csv"]


def _same(rows: pd.DataFrame) -> bool:
    """Return whether two variants cost the same at both ends of every interval."""
    return bool(np.allclose(rows[["ratio_low", "ratio_high"]].to_numpy(float), 1.0, atol=1e-9))


def _show(value: float, unit: str) -> str:
    return quantity(value, unit) if unit else format_number(value, ".3g")


def _nearest_end(rows: pd.DataFrame) -> tuple[dict[str, Any], str]:
    """Return the row, and "low" or "high", at which the ratio is nearest to 1."""
    ends = np.abs(np.log(rows[["ratio_low", "ratio_high"]].to_numpy(float)))
    number, side = np.unravel_index(int(np.argmin(ends)), ends.shape)
    return dict(rows.iloc[int(number)]), ("low", "high")[int(side)]
