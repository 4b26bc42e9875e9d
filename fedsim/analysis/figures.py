"""Figures of runs."""

from collections.abc import Mapping, Sequence
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import EngFormatter

from fedsim.analysis.costs import cumulative
from fedsim.record.writing import write_whole
from fedsim.visible import visible

COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#F0E442")
"""Okabe and Ito, Color Universal Design, 2008: told apart by colour-blind readers too."""

DASHES = ("-", "--", "-.", ":")

_POINTS = 2000
"""More points than that are not told apart on paper."""

AXES = {
    "round": ("rounds", ""),
    "bits": ("bits, up and down", "bit"),
    "t": ("simulated time", "s"),
    "joules": ("energy", "J"),
}
"""What figures are drawn against: a cost, what its axis is called, its unit."""

_WORDS = {"gap": "objective less the optimum\n$f - f^\\star$, log scale"}


class Drawing(Figure):
    """A figure that a notebook shows by itself, without pyplot."""

    def _repr_png_(self) -> tuple[bytes, dict[str, int]]:
        """Return the figure as PNG, and how large it is to be shown."""
        width, height = (round(self.dpi * inches) for inches in self.get_size_inches())
        return as_png(self), {"width": width, "height": height}


def convergence(
    rounds: pd.DataFrame,
    labels: Mapping[str, str],
    title: str = "",
    *,
    measures: Sequence[str] = (),
    against: Sequence[str] = (),
    columns: int | None = None,
) -> Drawing:
    """Draw the gap of every run against rounds, bits, seconds and joules.

    Where no optimum is known, the objective stands in for the gap.

    Args:
        rounds: as `Result.rounds` gives it.
        labels: variant -> what the legend calls it; the others go by their names.
        title: above the figure; what follows its first line is in smaller letters.
        measures: other columns of the rounds, in place of the gap; several have a row each.
        against: some of `AXES`, in place of all.
        columns: how many panels stand side by side; three, or rows of two, if None.
    """
    totals = cumulative(rounds)
    totals = totals[totals["objective"].notna()]  # curves join the rounds that were looked at
    totals["bits"] = totals["bits_up"] + totals["bits_down"]
    drawn_ones = list(measures) or ["gap" if totals["gap"].notna().any() else "objective"]
    costs = list(against or AXES)
    several = len(costs) if len(drawn_ones) > 1 else columns or (3 if len(costs) == 3 else 2)
    panels = _panels(len(costs) * len(drawn_ones), several)
    pairs = [(measure, cost) for measure in drawn_ones for cost in costs]
    for axis, (measure, cost) in zip(panels.flat, pairs, strict=False):
        _panel(axis, totals, cost, measure, labels)
        label, unit = AXES[cost]
        axis.set_xlabel(label)
        if unit:
            axis.xaxis.set_major_formatter(EngFormatter(unit))
        if axis in panels[:, 0]:
            axis.set_ylabel(_words(measure))
    if len(totals):  # runs that fail in their first round have nothing to name
        panels[0, 0].legend(frameon=False)
    figure: Drawing = panels[0, 0].figure
    _entitle(figure, title)
    return figure


def _words(measure: str) -> str:
    """Return what the axis of a measure is called."""
    return _WORDS.get(measure, measure.replace("_", " "))


def _entitle(figure: Figure, title: str) -> None:
    """Write a title over a figure, and below it what follows its first line."""
    first, _, rest = title.partition("\n")
    if first:
        figure.suptitle(drawn(first))
    if rest:
        figure.axes[0].set_title(drawn(rest), loc="left", fontsize=8, color="#555555")


def _panels(count: int, columns: int) -> Any:  # noqa: ANN401 - an array of axes
    """Return the axes of a figure, shape (rows, columns), of which the last may be off."""
    columns = min(count, columns)
    rows = -(-count // columns)
    width = {1: 5.5, 2: 5.5, 3: 4.0}.get(columns, 3.5)
    size = (width * columns, max(3.0, 0.64 * width) * rows)
    figure = Drawing(figsize=size, layout="constrained")
    panels = figure.subplots(rows, columns, sharey="row", squeeze=False)
    for axis in panels.flat[count:]:
        axis.axis("off")
    return panels


def stacked_bars(axis: Axes, parts: pd.DataFrame, colours: Mapping[str, str]) -> None:
    """Draw a bar a row, the first on top, made of the row's columns from left to right.

    Args:
        axis: where.
        parts: amounts of at least 0; the index names the bars, the columns their parts.
        colours: of the parts.
    """
    begins = np.zeros(len(parts))
    for name, amounts in parts.items():
        widths = amounts.to_numpy()
        axis.barh(parts.index, widths, left=begins, color=colours[str(name)], label=str(name))
        begins = begins + widths
    axis.invert_yaxis()


def drawn(text: str) -> str:
    r"""Return a text for a figure, which is no formula and hides from no legend.

    >>> print(drawn("$a$"), drawn("_b"))
    \$a\$  _b
    """
    text = visible(text).replace("$", r"\$")
    return f" {text}" if text.startswith("_") else text


def as_png(figure: Figure, dpi: float = 120) -> bytes:
    """Return a figure as the bytes of a PNG file, the same ones for the same figure."""
    image = BytesIO()
    figure.savefig(image, format="png", dpi=dpi, metadata={"Software": None})
    return image.getvalue()


def save(figure: Figure, path: Path) -> None:
    """Write a figure; the ending of the path says how. No date goes into the file.

    Raises:
        OutputError: it cannot be written.
    """
    metadata = {"Date": None} if path.suffix == ".svg" else {"Software": None}
    image = BytesIO()
    with rc_context({"svg.hashsalt": path.name}):  # else the names of its parts are drawn
        figure.savefig(image, format=path.suffix.removeprefix("."), dpi=150, metadata=metadata)
    write_whole(path, image.getvalue())


def _panel(
    axis: Axes, totals: pd.DataFrame, column: str, measure: str, labels: Mapping[str, str]
) -> None:
    groups = totals.groupby("variant", sort=False, observed=True)
    variants = {str(variant): runs for variant, runs in groups}
    for number, variant in enumerate(dict.fromkeys([*labels, *variants])):
        runs, name = variants.get(variant, totals[:0]), drawn(labels.get(variant, variant))
        for _, run in runs.groupby("seed"):
            thin = run.iloc[spread(len(run))]
            values = thin[measure].where(thin[measure] > 0) if measure == "gap" else thin[measure]
            axis.plot(
                thin[column],
                values,
                color=COLOURS[number % len(COLOURS)],
                linestyle=DASHES[number // len(COLOURS) % len(DASHES)],
                linewidth=1.5,
                label=name,
            )
            name = "_nolegend_"
    if measure == "gap":
        axis.set_yscale("log")
    axis.set_xlim(left=0)
    axis.grid(visible=True, alpha=0.3)


def spread(count: int) -> np.ndarray[tuple[int], np.dtype[np.intp]]:
    """Return the rows to draw: all, or some that are evenly spread, the last included."""
    if count <= _POINTS:
        return np.arange(count)
    return np.linspace(0, count - 1, _POINTS).astype(np.intp)
