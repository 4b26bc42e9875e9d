"""What the plots have in common: axes to draw on, labels with units, a legend, where to save."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import pandas as pd
from matplotlib import rcParams, rcParamsDefault
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine
from matplotlib.ticker import (
    FixedFormatter,
    FixedLocator,
    FuncFormatter,
    LogLocator,
    MaxNLocator,
    NullFormatter,
)

from fedsim.core.blocks.wording import nearest
from fedsim.core.errors import DataError
from fedsim.core.table_columns import TABLES
from fedsim.core.text import unit_for
from fedsim.results.analysis.compare.runs import labels_of
from fedsim.results.analysis.costs import without_start
from fedsim.results.analysis.paper_style import PaperStyle
from fedsim.results.analysis.saving import save
from fedsim.results.analysis.style import (
    EVERY_AXIS,
    Drawing,
    InUnits,
    escape_text,
    name_variants,
    words,
)


class Recorded(Protocol):
    """Recorded runs, as their tables: a `Result`, or a `Comparison.runs`."""

    @property
    def rounds(self) -> pd.DataFrame:
        """As `Result.rounds` has them."""

    @property
    def summary(self) -> pd.DataFrame:
        """As `Result.summary` has it."""


class WithClients(Recorded, Protocol):
    """Recorded runs with their clients: a `Result`."""

    @property
    def clients(self) -> pd.DataFrame:
        """As `Result.clients` has them."""


class Logged(WithClients, Protocol):
    """Recorded runs with their clients and event logs: a `Result`."""

    @property
    def events(self) -> pd.DataFrame:
        """As `Result.events` has them."""


_HEIGHT = 0.68  # of a figure, as a share of its width
_WIDTH = 5.0  # inches, where none is asked for
_HIGHEST = 3.4  # inches of a figure over a page, which would else be as high as half of one

_UNITS = {each.name: each.unit for table in TABLES.values() for each in table if each.unit}


def axes_for(
    ax: Axes | None, width: float | str | None = None, height: float | None = None
) -> Axes:
    """Return axes to draw on: those of the caller, or those of a figure of their own.

    A figure of its own looks as matplotlib's settings say; where these are untouched, it has a
    faint grid and no frame at the top and on the right.

    Args:
        ax: of the caller; they are not restyled.
        width: of a new figure, inches, or a style of `PaperStyle`, such as "ieee", whose column it
            fits.
        height: inches; 0.68 of the width, but at most 3.4, if None.
    """
    if ax is not None:
        return ax
    wide = _WIDTH if width is None else style_width(width)
    layout = ConstrainedLayoutEngine(w_pad=0.02, h_pad=0.02)
    figure = Drawing(figsize=(wide, height or usual_height(width)), layout=layout)
    own: Axes = figure.subplots()
    dress(own)
    return own


def usual_height(width: float | str | None) -> float:
    """Return the height of a new figure of a width, both in inches; see `axes_for`."""
    return min(_HEIGHT * (_WIDTH if width is None else style_width(width)), _HIGHEST)


def style_width(width: float | str, columns: int = 1) -> float:
    """Return a width in inches; a text names a style, whose column, or page, is that wide.

    Raises:
        DataError: there is no such style.
    """
    return PaperStyle.read(width).width(columns) if isinstance(width, str) else width


def dress(axis: Axes) -> None:
    """Give axes of our own a faint grid, unless the user has chosen another style."""
    names: tuple[Any, ...] = ("axes.grid", "axes.spines.top", "axes.facecolor")
    if all(rcParams[name] == rcParamsDefault[name] for name in names):
        axis.grid(visible=True, alpha=0.3)
        axis.spines[["top", "right"]].set_visible(False)
    axis.set_axisbelow(True)


def figure_of(axis: Axes) -> Figure:
    """Return the figure that axes are in."""
    figure = axis.get_figure(root=True)
    if figure is None:
        raise ValueError("these axes are in no figure")
    return figure


def labels_for(runs: Recorded, labels: Mapping[str, str] | None) -> dict[str, str]:
    """Return what a legend calls each variant that is drawn, in order.

    Args:
        runs: that are drawn.
        labels: variant -> its name in the legend, of those that are wanted; all if None.

    Raises:
        DataError: there is no such variant.
    """
    known = {} if runs.summary.empty else labels_of(runs.summary)
    for variant in map(str, runs.rounds["variant"].unique()):
        known.setdefault(variant, variant)
    for variant in labels or ():
        if variant not in known:
            there = ", ".join(known)
            text = f"got the variant {variant!r}{nearest(variant, known)}; expected {there}"
            raise DataError("labels", text)
    return dict(labels or known)


def run_of(frame: pd.DataFrame, variant: str | None, seed: int | None) -> pd.DataFrame:
    """Return the rows of one run: of the first variant and its first seed unless they are given.

    Raises:
        DataError: there is no such run.
    """
    for column, wanted in (("variant", variant), ("seed", seed)):
        there = list(dict.fromkeys(frame[column].tolist()))
        if wanted is not None and wanted not in there:
            known = ", ".join(map(str, there)) or "none"
            raise DataError(column, f"got {wanted!r}; expected one of {known}")
        if there:
            frame = frame[frame[column] == (there[0] if wanted is None else wanted)]
    return frame


_LABELS = {**EVERY_AXIS, "gap": ("objective gap $f - f^\\star$", "")}


def variant_of(frame: pd.DataFrame, variant: str | None) -> str:
    """Return the name of a variant: the first one unless it is given.

    Raises:
        DataError: there is no such variant, or its runs have no round.
    """
    own = run_of(frame, variant, None)
    played = without_start(own) if "round" in own else own
    if played.empty:
        raise DataError("variant", "no run has completed a round: there is nothing to draw")
    return str(own["variant"].iloc[0])


def label_of(column: str) -> tuple[str, str]:
    """Return what the axis of a column is called, and its unit."""
    known = _LABELS.get(column)
    if known is not None:
        return known
    return words(column).replace("\n", " "), _UNITS.get(column, "")


def label_with_unit(axis: Axis, label: str, unit: str = "") -> None:
    """Label an axis on which all is drawn; its unit, with a prefix, stands in the label.

    The ticks are plain numbers then: "energy (kJ)" with 1, 2, 3.

    Args:
        axis: `Axes.xaxis` or `Axes.yaxis`.
        label: what it is of.
        unit: without a prefix; empty for counts and figures without one.
    """
    if axis.get_scale() == "linear":
        axis.set_major_locator(MaxNLocator(5, integer=not unit and label in _COUNTS))
    low, high = axis.get_view_interval()
    largest = max(abs(float(low)), abs(float(high)))
    if not unit or not np.isfinite(largest):
        axis.set_label_text(f"{label} ({unit})" if unit else label)
        if largest >= _THOUSANDS and axis.get_scale() == "linear":
            axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}"))
        return
    # On a logarithmic axis ticks are powers of ten, which are odd numbers of minutes.
    plain = unit == "s" and axis.get_scale() == "log" and largest >= 1.0
    factor, name = (1.0, unit) if plain else unit_for(largest, unit)
    axis.set_label_text(f"{label} ({name})")
    if axis.get_scale() == "linear" and unit == "s":
        axis.set_major_locator(InUnits(factor, 5))
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value / factor:g}"))
    if axis.get_scale() == "log":
        few = low > 0 and float(high) < _FEW_DECADES * float(low)
        axis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0) if few else (1.0,)))
        axis.set_minor_formatter(NullFormatter())


_THOUSANDS = 10_000
_FEW_DECADES = 100.0  # of a logarithmic axis: ticks stand between powers of ten, too
_COUNTS = ("rounds", "round", "transmissions", "updates", "nonzeros")


def add_keys(axis: Axes, keys: Sequence[Artist], *, own: bool) -> None:
    """Name what is drawn by its keys, if there are any: below a figure of ours, or in the axes."""
    if keys and own:
        name_variants(figure_of(axis), handles=keys)
    elif keys:
        axis.legend(handles=keys, frameon=False)


def add_legend(axis: Axes, *, own: bool, title: str = "") -> None:
    """Name what is drawn: below a figure of our own, within the axes of a caller.

    Args:
        axis: that were drawn on.
        own: whether the figure is ours.
        title: above the names.
    """
    handles, names = axis.get_legend_handles_labels()
    if not names:
        return
    if own:
        name_variants(figure_of(axis), axis, title=title)
    else:
        axis.legend(handles, names, frameon=False, title=title or None)


def finish(axis: Axes, out: Path | str | None) -> Axes:
    """Save a figure where that is asked for, and return its axes."""
    if out is not None:
        save(figure_of(axis), Path(out))
    return axis


def fit_rows(axis: Axes, row: float, rest: float, *, own: bool) -> None:
    """Make a figure of ours as high as the rows that are drawn need.

    Args:
        axis: with its rows, one a unit upwards.
        row: inches of each.
        rest: inches for all else.
        own: whether the figure is ours.
    """
    if own:
        low, high = axis.get_ylim()
        figure_of(axis).set_figheight(rest + row * abs(high - low))


def bar_row(width: float | str | None) -> float:
    """Return the inches of a row of bars, which stand closer in a column of a paper."""
    return 0.3 if width is None else 0.22


def category(axis: Axes, names: Sequence[str]) -> None:
    """Name the rows of a figure from left to right, the first one on top."""
    name_places(axis.yaxis, range(len(names)), names)
    axis.set_ylim(max(len(names), 1) - 0.5, -0.5)


def name_places(axis: Axis, places: Sequence[float], names: Sequence[str]) -> None:
    """Name places on an axis; ticks are made when they are drawn."""
    axis.set_major_locator(FixedLocator(places))
    axis.set_major_formatter(FixedFormatter([escape_text(name) for name in names]))
