r"""Tables for a paper: LaTeX with booktabs and siunitx, and Markdown.

All numbers of a column have the unit and the prefix in its head. Bold marks the lowest cost and
every cost that is the same or not known to differ from it. Below a mean stands its interval.
"""

import re
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from math import floor, inf, isfinite, log10
from typing import NamedTuple

import pandas as pd

from fedsim.core.table_columns import TITLES, UNITS
from fedsim.core.text import format_number, unit_for, visible
from fedsim.results.analysis.compare.comparison import (
    MOST_DRAWN,
    Case,
    Comparison,
    intervals_of,
)
from fedsim.results.analysis.costs import measures_in, outcomes, with_grams

# Texts in LaTeX and in Markdown.

_SPECIAL = {
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    '"': r"\textquotedbl{}",
    **{each: f"\\{each}" for each in "#$%&_{}"},
    "\N{EN DASH}": "--",
    "\N{MINUS SIGN}": r"\ensuremath{-}",
    "\N{MICRO SIGN}": r"\ensuremath{\mu}",
    "\N{GREEK SMALL LETTER MU}": r"\ensuremath{\mu}",
    "\N{PLUS-MINUS SIGN}": r"\ensuremath{\pm}",
    "\N{MULTIPLICATION SIGN}": r"\ensuremath{\times}",
    "\N{HORIZONTAL ELLIPSIS}": r"\ldots{}",
    "\N{RIGHT SINGLE QUOTATION MARK}": "'",
    "\N{LEFT DOUBLE QUOTATION MARK}": "``",
    "\N{RIGHT DOUBLE QUOTATION MARK}": "''",
    "\N{NO-BREAK SPACE}": "~",
}

_LATIN = 0x180
"""Characters below this code are in the font encoding T1, or decompose into ones that are."""


def latex_text(text: str) -> str:
    r"""Escape a text for LaTeX; a character outside of the fonts is replaced by its name.

    >>> print(latex_text("50 % of a_b, \N{GREEK SMALL LETTER MU}s"))
    50 \% of a\_b, \ensuremath{\mu}s
    """
    return "".join(map(_latex_letter, visible(text).replace("\n", " ")))


_POWER = re.compile(r"\b(\d(?:\.\d+)?)e([+-]?)0*(\d{1,3})\b")


def latex_prose(text: str) -> str:
    r"""Return a text of fedsim for LaTeX, with powers of ten typeset.

    >>> print(latex_prose("a gap below 1e-05"), latex_prose("2.5e+06 bit"))
    a gap below \ensuremath{10^{-5}} \ensuremath{2.5\times10^{6}} bit
    """
    parts = _POWER.split(text)  # text, mantissa, sign, power, text, ...
    texts = [latex_text(parts[0])]
    for begin in range(1, len(parts), 4):
        mantissa, sign, power, rest = parts[begin : begin + 4]
        times = "" if mantissa == "1" else rf"{mantissa}\times"
        texts.append(rf"\ensuremath{{{times}10^{{{sign.strip('+')}{power}}}}}{latex_text(rest)}")
    return "".join(texts)


def _latex_letter(letter: str) -> str:
    if letter in _SPECIAL:
        return _SPECIAL[letter]
    if ord(letter) < _LATIN and (letter.isascii() or letter.isalpha()):
        return letter
    plain = unicodedata.normalize("NFKD", letter).encode("ascii", "ignore").decode()
    return plain if plain.isalnum() else rf"\texttt{{U+{ord(letter):04X}}}"


def markdown_text(text: str) -> str:
    r"""Escape a text for Markdown.

    >>> print(markdown_text("a|b *c*"))
    a\|b \*c\*
    """
    return re.sub(r"([\\|*_`\[\]<>#$&~])", r"\\\1", visible(text).replace("\n", " "))


# A table in a form common to LaTeX and Markdown.


class PaperCell(NamedTuple):
    """A cell.

    Attributes:
        text: a number with a point, or words.
        under: the interval below it, such as "[1.2, 1.4]"; empty for none.
        best: whether it is bold.
    """

    text: str
    under: str = ""
    best: bool = False


class PaperColumn(NamedTuple):
    """A column.

    Attributes:
        head: the quantity and its unit.
        cells: from top to bottom.
        numbers: whether the cells are numbers, aligned at their points.
    """

    head: str
    cells: Sequence[PaperCell]
    numbers: bool = True


_FITTED = r"\ifdim\wd0>\linewidth\resizebox{\linewidth}{!}{\usebox0}\else\usebox0\fi"


class PaperTable(NamedTuple):
    """A table.

    Attributes:
        name: the name of its file and its label.
        caption: the caption.
        columns: the first column names the rows.
    """

    name: str
    caption: str
    columns: Sequence[PaperColumn]

    def latex(self, *, wide: bool = False) -> str:
        r"""Return the table in LaTeX; it needs booktabs, siunitx and graphicx.

        A table wider than its column is scaled down to it.

        Args:
            wide: whether it spans both columns of a page, as `table*` does.
        """
        kind = "table*" if wide else "table"
        rows = "\n".join(self._latex_rows())
        heads = " & ".join(f"{{{latex_text(column.head)}}}" for column in self.columns)
        specs = "".join(_specification(column) for column in self.columns)
        return (
            f"\\begin{{{kind}}}\n\\centering\n\\caption{{{latex_prose(self.caption)}}}\n"
            f"\\label{{tab:{self.name}}}\n\\footnotesize\n\\setlength{{\\tabcolsep}}{{3pt}}\n"
            f"\\sbox0{{\\begin{{tabular}}{{@{{}}{specs}@{{}}}}\n\\toprule\n{heads} \\\\\n"
            f"\\midrule\n{rows}\n\\bottomrule\n\\end{{tabular}}}}%\n{_FITTED}\n\\end{{{kind}}}\n"
        )

    def _latex_rows(self) -> Iterator[str]:
        for cells in zip(*(column.cells for column in self.columns), strict=True):
            texts = [
                _latex_cell(cell, numbers=column.numbers)
                for cell, column in zip(cells, self.columns, strict=True)
            ]
            yield " & ".join(texts) + r" \\"
            if any(cell.under for cell in cells):
                yield " & ".join(_latex_interval(cell.under) for cell in cells) + r" \\[2pt]"

    def markdown(self) -> str:
        """Return the table in Markdown."""
        heads = [markdown_text(column.head) for column in self.columns]
        marks = ["---:" if column.numbers else "---" for column in self.columns]
        rows = [
            [_markdown_cell(cell) for cell in cells]
            for cells in zip(*(column.cells for column in self.columns), strict=True)
        ]
        lines = (f"| {' | '.join(row)} |" for row in (heads, marks, *rows))
        return f"{markdown_text(self.caption)}\n\n" + "\n".join(lines) + "\n"


def _specification(column: PaperColumn) -> str:
    """Return LaTeX's specification of a column: aligned at the point, for its longest number."""
    if not column.numbers:
        return "l"
    numbers = [cell.text.partition("e") for cell in column.cells if _is_number(cell.text)]
    parts = [mantissa.lstrip("-").partition(".") for mantissa, _, _ in numbers]
    before = max((len(whole) for whole, _, _ in parts), default=1)
    behind = max((len(rest) for _, _, rest in parts), default=0)
    sign = "-" if any(cell.text.startswith("-") for cell in column.cells) else ""
    powers = [power for _, _, power in numbers if power]
    power = f"e{'-' * any(each < '0' for each in powers)}{max(map(_digits, powers), default=0)}"
    return f"S[table-format={sign}{before}.{behind}{power if powers else ''}]"


def _digits(power: str) -> int:
    return len(power.lstrip("-"))


def _is_number(text: str) -> bool:
    return re.fullmatch(r"-?\d+(\.\d+)?(e-?\d+)?", text) is not None


_FIXED = 1e-2
"""Results below this have a power of ten: four decimals would not show them."""


_LEAST_P = 1e-4
"""A p-value below this is written as below it, since its four decimals would be zeros."""


def result_text(value: float, decimals: int, least: float) -> str:
    """Format a result for a table.

    Args:
        value: the result.
        decimals: the number of decimals, without a power of ten.
        least: the smallest magnitude above 0 in its column.

    >>> result_text(0.9512, 3, 0.91), result_text(2.679e-05, 4, 1.2e-10)
    ('0.951', '2.68e-5')
    """
    if not isfinite(value):
        return "--"
    if least >= _FIXED:
        return format_number(value, f".{decimals}f")
    mantissa, _, power = format_number(value, ".2e").partition("e")
    return f"{mantissa}e{int(power)}"


def probability_text(p: float) -> str:
    """Format a p-value with four decimals; a smaller one as "<0.0001".

    >>> probability_text(0.0312), probability_text(2e-7)
    ('0.0312', '<0.0001')
    """
    if not isfinite(p):
        return "--"
    return format_number(p, ".4f") if p >= _LEAST_P else f"<{format_number(_LEAST_P, '.4f')}"


def _latex_cell(cell: PaperCell, *, numbers: bool) -> str:
    if not (numbers and _is_number(cell.text)):
        return f"{{{latex_text(cell.text)}}}" if numbers else latex_text(cell.text)
    return rf"\bfseries {cell.text}" if cell.best else cell.text


def _latex_interval(text: str) -> str:
    if not text:
        return ""
    powers = re.sub(
        r"-?\d+(\.\d+)?e[+-]?\d+", lambda match: rf"\num{{{match[0]}}}", latex_text(text)
    )
    return f"{{\\scriptsize {powers}}}"


def _markdown_cell(cell: PaperCell) -> str:
    text = markdown_text(cell.text)
    text = f"**{text}**" if cell.best else text
    return f"{text} {markdown_text(cell.under)}" if cell.under else text


# The tables of a comparison.

_NARROW = ("round", "bits", "t", "joules")
_WIDE = ("round", "transmissions", "bits_up", "bits_down", "t", "joules")
_PAIRED = ("bits", "t", "joules")


def paper_tables(comparison: Comparison, columns: int = 1) -> Iterator[PaperTable]:
    """Yield the tables of a comparison: of costs and of pairs for each target, and of results.

    Args:
        comparison: of some variants.
        columns: the columns of a page that a table spans; with two, it has more costs.
    """
    for number, case in enumerate(comparison.cases):
        ending = f"-{number + 1}" if number else ""
        labels = comparison.choose(case, MOST_DRAWN)
        yield _costs(comparison, case, labels, f"costs{ending}", _NARROW if columns == 1 else _WIDE)
        pairs = _pairs(comparison, case, labels, f"pairs{ending}")
        if any(cell.text != "--" for cell in pairs.columns[2].cells):
            yield pairs
    yield _results(comparison)


def latex_tables(comparison: Comparison, columns: int = 1) -> list[str]:
    """Return the tables of costs of a comparison in LaTeX; see `paper_tables`."""
    every = paper_tables(comparison, columns)
    return [table.latex(wide=columns > 1) for table in every if table.name.startswith("costs")]


def _costs(
    comparison: Comparison, case: Case, labels: Mapping[str, str], name: str, shown: Sequence[str]
) -> PaperTable:
    rows = case.table.set_index("variant").loc[list(labels)]
    columns = [
        PaperColumn("Variant", [PaperCell(label) for label in labels.values()], numbers=False)
    ]
    if (rows["reached"] < rows["runs"]).any():
        counts = zip(rows["reached"], rows["runs"], strict=True)
        columns.append(
            PaperColumn("Reached", [PaperCell(f"{some}/{all_}") for some, all_ in counts], False)  # noqa: FBT003
        )
    columns += [_cost_column(case, rows, cost) for cost in with_grams(shown, rows)]
    seeds = int(rows["runs"].max())
    caption = f"{case.target.words[:1].upper()}{case.target.words[1:]}"
    if seeds > 1:
        caption += f", mean over {seeds} seeds"
        few = rows["reached"].between(2, 3).any()
        sure = "minimum and maximum" if few else f"{100 * comparison.confidence:g} % interval"
        caption += f" and {sure}"
    if rows["reached"].between(1, rows["runs"] - 1).any():
        caption += "; means are over the seeds that reached it"
    within = f"{100 * comparison.practical:g} %"
    caption += f". Bold: the lowest, and all within {within} of it or not known to differ from it."
    return PaperTable(name, caption, columns)


def _cost_column(case: Case, rows: pd.DataFrame, cost: str) -> PaperColumn:
    """Return the column of a cost, in one unit."""
    means = rows[cost].to_numpy(float)
    factor, unit, decimals = _scale([each for each in means if isfinite(each)], UNITS.get(cost, ""))
    form = f".{decimals}f"
    ranked = case.decisions.rank(cost)
    best = {ranked[0], *case.decisions.not_costlier(ranked[0], cost)} if ranked else set[str]()
    cells = []
    for variant, row in rows.to_dict("index").items():
        mean, low, high = (float(row[key]) for key in (cost, f"{cost}_low", f"{cost}_high"))
        if not isfinite(mean):
            cells.append(PaperCell("--"))
            continue
        ends = [format_number(each / factor, form) for each in (low, high)] if low < high else []
        under = f"[{', '.join(ends)}]" if ends else ""
        cells.append(PaperCell(format_number(mean / factor, form), under, str(variant) in best))
    title = TITLES.get(cost, cost)
    head = title if cost == "grams" else f"{title[:1].upper()}{title[1:]}"
    return PaperColumn(f"{head} ({unit})" if unit else head, cells)


def _scale(values: Sequence[float], unit: str) -> tuple[float, str, int]:
    """Return the size of a unit, the unit, and the number of decimals for three digits."""
    largest, least = max(values, default=0.0), min((v for v in values if v > 0), default=0.0)
    factor, name = unit_for(largest, unit) if unit else (1.0, "")
    decimals = 2 - floor(log10(least / factor)) if least else 0
    return factor, name, min(max(decimals, 0), 4)


def _pairs(comparison: Comparison, case: Case, labels: Mapping[str, str], name: str) -> PaperTable:
    """Return the paired ratios of costs to those of one variant, with their p-values."""
    costs = with_grams(_PAIRED, case.costs)
    pairs = case.pairs[case.pairs["variant"].isin(list(labels)) & case.pairs["cost"].isin(costs)]
    pairs = pairs[pairs["seeds"] > 0]
    texts: dict[str, list[PaperCell]] = {"variant": [], "cost": [], "ratio": [], "p": []}
    previous = ""
    for row in pairs.to_dict("records"):
        variant = str(row["variant"])
        texts["variant"].append(PaperCell("" if variant == previous else labels[variant]))
        texts["cost"].append(PaperCell(TITLES.get(str(row["cost"]), str(row["cost"]))))
        ends = (
            f"[{format_number(row['low'], '.3g')}, {format_number(row['high'], '.3g')}]"
            if row["low"] < row["high"]
            else ""
        )
        ratio = float(row["ratio"])  # 0 or infinite where one of the two has not reached it
        finite = 0 < ratio < inf
        texts["ratio"].append(
            PaperCell(format_number(ratio, ".3f") if finite else "--", ends if finite else "")
        )
        texts["p"].append(PaperCell(probability_text(float(row["p_holm"]))))
        previous = variant
    columns = [
        PaperColumn("Variant", texts["variant"], numbers=False),
        PaperColumn("Cost", texts["cost"], numbers=False),
        PaperColumn("Ratio", texts["ratio"]),
    ]
    other = comparison.runs.labels[comparison.against]
    caption = f"{case.target.words[:1].upper()}{case.target.words[1:]}: ratio to {other}"
    if pairs["p_holm"].notna().any():
        columns.append(PaperColumn("p (Holm)", texts["p"]))
        known = intervals_of(pairs, "seeds", comparison.confidence)
        within = f"{known}, " if known else ""
        caption += " within each seed, their geometric means,"
        caption += f" {within}and p-values corrected for all pairs"
    if (pairs["pairs"] < pairs["seeds"]).any():
        caption += "; ratios are of the seeds in which both reached it"
    caption += "."
    return PaperTable(name, caption, columns)


def _results(comparison: Comparison) -> PaperTable:
    """Return the final figures of runs: mean and standard deviation over the seeds."""
    rounds, labels = comparison.runs.rounds, comparison.runs.labels
    last, names = outcomes(rounds), measures_in(rounds)
    groups = last.astype({"variant": object}).groupby("variant")[names]
    means, spreads, counts = groups.mean(), groups.std(), groups.count()
    variants = [name for name in labels if name in means.index]
    columns = [
        PaperColumn("Variant", [PaperCell(labels[name]) for name in variants], numbers=False)
    ]
    for name in names:
        magnitudes = [abs(float(value)) for value in means[name].dropna()]
        decimals, cells = _scale(magnitudes, "")[2], []
        least = min((value for value in magnitudes if value > 0), default=1.0)
        for variant in variants:
            mean, spread = float(means[name][variant]), float(spreads[name][variant])
            spread_text = result_text(spread, decimals, least)
            under = f"\N{PLUS-MINUS SIGN} {spread_text}" if counts[name][variant] > 1 else ""
            cells.append(PaperCell(result_text(mean, decimals, least), under))
        columns.append(PaperColumn(name.replace("_", " ").capitalize(), cells))
    several = bool((counts.to_numpy() > 1).any())
    over = ", mean and standard deviation over the seeds" if several else ""
    caption = f"Results at the end of the runs{over}."
    return PaperTable("results", caption, columns)
