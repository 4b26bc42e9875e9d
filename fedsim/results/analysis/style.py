"""The style of all figures: palette, size, titles, axes and legend."""

import re
from collections.abc import Mapping, Sequence
from io import BytesIO
from textwrap import fill
from typing import Any

import numpy as np
from matplotlib import rcParams, rcParamsDefault
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine
from matplotlib.ticker import (
    EngFormatter,
    Formatter,
    FuncFormatter,
    LogLocator,
    MaxNLocator,
    NullFormatter,
    NullLocator,
    StrMethodFormatter,
)

from fedsim.core.text import unit_for, visible

# Texts of figures: users' texts are shown literally, fedsim's formulas are typeset.

_WORDS = {"gap": "objective gap\n$f - f^\\star$"}

_GREEK = ("alpha", "beta", "eta", "eps")
_ROOT = re.compile(r"\bsqrt\((\w+)\)")
_EQUATION = re.compile(rf"\b({'|'.join(_GREEK)}|[A-Za-z]) ([=<>]) ([\w.+/-]+)")
_POWER = re.compile(r"\b(\d(?:\.\d+)?)e(-?)0*(\d+)\b")


class Maths(str):
    """A text of fedsim in which $...$ is mathematics; texts of users are escaped."""

    __slots__ = ()


def words(measure: str) -> str:
    """Return the axis label of a measure."""
    return _WORDS.get(measure, measure.replace("_", " "))


def escape_text(text: str) -> str:
    r"""Escape a text for a figure: matplotlib would parse $ as mathematics, and hide a leading _.

    >>> print(escape_text("$a$"), escape_text("_b"), escape_text(Maths("$a$")))
    \$a\$  _b $a$
    """
    if isinstance(text, Maths):
        return str(text)
    text = visible(text).replace("$", r"\$")
    return f" {text}" if text.startswith("_") else text


def typeset(text: str) -> Maths:
    r"""Typeset roots, equations and powers of ten in a text of fedsim.

    >>> print(typeset("QSGD, sqrt(d) levels"), typeset("alpha = 0.1, K = 3"), typeset("5e-4"))
    QSGD, $\sqrt{d}$ levels $\alpha = 0.1$, $K = 3$ $5\times10^{-4}$
    """
    text = _ROOT.sub(r"$\\sqrt{\1}$", text)
    text = _EQUATION.sub(_equation, text)
    return Maths(_POWER.sub(lambda match: f"${_power(match)}$", text))


def typeset_labels(labels: Mapping[str, str]) -> dict[str, str]:
    """Return the legend's label of each variant, with formulas typeset."""
    return {variant: typeset(label) for variant, label in labels.items()}


def _equation(match: "re.Match[str]") -> str:
    left, sign, right = match.groups()
    name = f"\\{left}" if left in _GREEK else left
    return f"${name} {sign} {_POWER.sub(_power, right)}$"


def _power(match: "re.Match[str]") -> str:
    """Return a power of ten, without dollars."""
    mantissa, sign, exponent = match.groups()
    times = "" if mantissa == "1" else f"{mantissa}\\times"
    return f"{times}10^{{{sign}{exponent}}}"


COLOURS = ("#0072B2", "#E69F00", "#000000", "#009E73", "#56B4E9", "#D55E00", "#CC79A7")
"""The colours of variants: those of Okabe and Ito, Color Universal Design, 2008, distinguishable
for colour-blind readers, too; without their yellow, which is too light for a line on white. They
are ordered such that the first ones differ in grey."""

DASHES: tuple[Any, ...] = ("-", "--", "-.", ":", (0, (6, 1.5, 1, 1.5, 1, 1.5)))
"""The dashes of variants. They and the marks change with the colour from one variant to the next,
so that they differ in a print without colours."""

MARKS = "osD^vP*X<"
"""The marks of variants."""

DEVICE_COLOURS = (
    *("#332288", "#CC6677", "#117733", "#DDCC77"),
    *("#882255", "#44AA99", "#999933", "#AA4499"),
)
"""The colours of kinds of clients, distinct from those of variants. Tol, Colour Schemes, SRON 2021:
muted."""

PART_COLOURS = {
    "promotion": "#EEDD88",
    "tail": "#EE8866",
    "receiving": "#99DDFF",
    "sending": "#BBCC33",
    "sending again": "#EE3377",
    "forwarding": "#44BB99",
    "idle": "#DDDDDD",
    "computing": "#7755AA",
}
"""The colour of each part of the energy, by its name in `energy_parts`; distinct from the
colours of variants and of kinds of clients. After Tol, Colour Schemes, SRON 2021: light, whose two
blues and whose pink are replaced by colours that the colour-blind can tell apart, too."""

PART_HATCHES = dict(
    zip(PART_COLOURS, ("", "////", "----", "\\\\\\\\", "xxxx", "++", "", "||||"), strict=True)
)
"""Hatches of the parts, which tell them apart in grey."""

STATES = {
    "tail": ("tail", PART_COLOURS["tail"]),
    "promotion": ("promotion", PART_COLOURS["promotion"]),
    "download": ("receiving", PART_COLOURS["receiving"]),
    "compute": ("computing", PART_COLOURS["computing"]),
    "upload": ("sending", PART_COLOURS["sending"]),
    "retransmit": ("sending again", PART_COLOURS["sending again"]),
    "offline": ("offline", "#8C8C8C"),
    "empty": ("battery empty", "#4D4D4D"),
}
"""States of clients: their names and colours, those of the parts of energy spent in them; later
ones lie on top."""

STATE_ORDER = (
    *("promotion", "receiving", "computing", "sending", "sending again", "tail"),
    *("offline", "battery empty"),
)
"""States in a legend, as a client goes through them in a round."""

OUTCOME_COLOURS = {
    "replied": "#1B4F3A",
    "silent": "#D9D9D9",
    "late": "#CCBB44",
    "lost": "#EE6677",
    "skipped": "#AA3377",
}
"""The colours of a client's outcome in a round, which differ in grey, too. After Tol, Colour
Schemes, SRON 2021: bright."""

GREY = "#666666"
"""Colours of marks beside the curves: thresholds, missed targets, the setting."""

AXES = {
    "round": ("rounds", ""),
    "bits": ("bits, up and down", "bit"),
    "t": ("simulated time", "s"),
    "joules": ("energy", "J"),
}
"""The horizontal axes of figures: column, label, unit."""

EVERY_AXIS = {**AXES, "grams": ("CO2", "g"), "transmissions": ("transmissions", "")}
"""The same, transmissions, and the columns of runs with known emissions of electricity."""

_WIDTHS = {1: 5.4, 2: 3.4, 3: 3.0}
"""Inches of a panel by how many stand side by side: two, on a page 800 pixels wide, have letters
of 16 pixels, and on a telephone of 8."""
_NARROW = 2.6

_MARKED = 8  # most marks of a curve

_WIDER = 2.4, 1.9  # points: widths of the first curves, which remain visible below later ones

_BESIDE = 0.03  # of an axis that begins at zero: left of it, for marks that would be cut else

_LEFT = 1.0  # inches of a figure left of its first panel, above which small lines stand

_SHORT = 18  # longest label, in characters, that fits beside "log scale" along a panel's height

_FEW_DECADES, _NO_DECADE = 2.0, 0.7  # of a logarithmic axis: it has ticks between powers of ten
_FEW_LABELS = 1.2  # decades of a horizontal axis with room for three labels per decade


class Drawing(Figure):
    """A figure that a notebook shows by itself, without pyplot."""

    def _repr_png_(self) -> tuple[bytes, dict[str, int]]:
        """Return the figure as PNG, and its size on screen."""
        width, height = (round(self.dpi * inches) for inches in self.get_size_inches())
        return as_png(self), {"width": width, "height": height}


def as_png(figure: Figure, dpi: float = 120) -> bytes:
    """Return a figure as the bytes of a PNG file, the same ones for the same figure."""
    image = BytesIO()
    figure.savefig(image, format="png", dpi=dpi, metadata={"Software": None})
    return image.getvalue()


def panels(
    count: int, columns: int = 2, height: float = 2.4, width: float = 0.0, **shared: Any
) -> tuple[Drawing, list[Axes]]:
    """Return a figure and its panels, row by row.

    Args:
        count: the number of panels.
        columns: the largest number of panels side by side.
        height: the height of a panel with its labels, inches.
        width: the width of a panel with its labels, inches; 0 for the default of `columns`.
        shared: sharex and sharey, as `Figure.subplots` takes them.
    """
    columns = min(count, columns)
    rows = -(-count // columns)
    size = (width or _WIDTHS.get(columns, _NARROW)) * columns, height * rows + 0.5
    layout = ConstrainedLayoutEngine(w_pad=0.06, h_pad=0.06, wspace=0.03)
    figure = Drawing(figsize=size, layout=layout)
    every = list(figure.subplots(rows, columns, squeeze=False, **shared).flat)
    for spare in every[count:]:
        spare.remove()
    for axis in every[:count]:
        axis.grid(visible=True, alpha=0.3)
        axis.set_axisbelow(True)
        axis.spines[["top", "right"]].set_visible(False)
    return figure, every[:count]


def look(number: int, points: int = 0) -> dict[str, Any]:
    """Return colour, dashes and marks of a variant's curve, for `Axes.plot`.

    A cycle that the user has set (`axes.prop_cycle`, or a style of matplotlib or seaborn) is used
    in place of fedsim's colours, dashes and marks.

    Args:
        number: the number of the variant, from 0.
        points: the number of points of the curve. It has about eight marks, at other points than
            the next variant; 0 for no marks.
    """
    user_cycle = rcParams["axes.prop_cycle"]
    if user_cycle != rcParamsDefault["axes.prop_cycle"]:
        cycle = list(user_cycle)
        options: dict[str, Any] = {"linestyle": DASHES[number // len(cycle) % len(DASHES)]}
        options |= cycle[number % len(cycle)]
    else:
        colour, dash = COLOURS[number % len(COLOURS)], DASHES[number % len(DASHES)]
        options = {"color": colour, "linestyle": dash}
        usual = rcParams["lines.linewidth"] == rcParamsDefault["lines.linewidth"]
        if usual and number < len(_WIDER):
            options["linewidth"] = _WIDER[number]
    if points:
        step = max(points // _MARKED, 1)
        options = {"marker": MARKS[number % len(MARKS)], **options}
        options |= {"markevery": (number * step // 3 % step, step), "markersize": _mark_size()}
        options |= {"markeredgecolor": "white", "markeredgewidth": 0.4}
    return options


def _mark_size() -> float:
    return 0.8 * float(rcParams["lines.markersize"])


def entitle(figure: Figure, title: str, *, apart: bool = False) -> None:
    """Write the title of a figure: its first line large, the other lines small below it.

    Args:
        figure: the figure, with its panels.
        title: the content of the figure; on further lines its data, fleet and seeds.
        apart: whether the panels have titles, which take the place of the small lines.
    """
    kind = type(title)  # mathematics stays mathematics
    first, _, rest = map(kind, title.partition("\n"))
    width = figure.get_figwidth()
    letters = int((13 if apart else 16) * (width if apart else width - _LEFT))
    lines = [kind(fill(line, letters)) for line in rest.splitlines()]
    if apart:
        figure.suptitle(
            "\n".join(map(escape_text, [first, *lines])), x=0.02, ha="left", fontsize=10
        )
        return
    if first:
        figure.suptitle(escape_text(first), x=0.02, ha="left", fontsize=11)
    if rest:
        subtitle = escape_text(kind("\n".join(lines)))
        figure.axes[0].set_title(subtitle, loc="left", fontsize=8, color=GREY)


def name_variants(figure: Figure, axis: Axes | None = None, **keys: Any) -> None:
    """Write the legend below a figure, in as many columns as its width has room for.

    The figure grows by the rows of the legend after the first one, so that panels keep their size.

    Args:
        figure: the figure.
        axis: the axes whose labels are listed; the first panel if None.
        keys: handles of other marks, to list instead.
    """
    handles, names = (axis or figure.axes[0]).get_legend_handles_labels()
    handles = keys.get("handles", handles)
    names = [str(handle.get_label()) for handle in handles] if keys else names
    if not names:
        return
    style: dict[str, Any] = {"loc": "outside lower center", "frameon": False}
    style |= {"columnspacing": 1.4, "handlelength": 1.8}
    for columns in dict.fromkeys(-(-len(names) // rows) for rows in range(1, len(names) + 1)):
        legend = figure.legend(handles, names, ncols=columns, **style)
        box = legend.get_window_extent()
        if columns == 1 or box.width <= figure.bbox.width:
            break
        legend.remove()
    rows = -(-len(names) // columns)
    figure.set_figheight(figure.get_figheight() + (1 - 1 / rows) * box.height / figure.dpi)


def label_axis(axis: Axis, label: str, unit: str = "", *, log: bool = False) -> None:
    """Label an axis after all curves are drawn; numbers have a space before their unit.

    Args:
        axis: `Axes.xaxis` or `Axes.yaxis`.
        label: the quantity.
        unit: the unit, which gets prefixes; none for counts and plain numbers.
        log: whether it is logarithmic; the label then ends in "log scale".
    """
    last = label.rpartition("\n")[2]
    within = ", " if axis is axis.axes.xaxis or len(last) <= _SHORT else ",\n"
    axis.set_label_text(f"{label}{within}log scale" if log else label)
    if log:
        _logarithmic(axis, _ticks_in(unit) if unit else None)
        return
    size, name = unit_for(max(map(abs, axis.get_view_interval())), unit) if unit == "s" else (1, "")
    axis.set_major_locator(InUnits(size, 4))
    if name:
        axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value / size:g} {name}"))
    elif unit:
        axis.set_major_formatter(EngFormatter(unit))


_STEPS = (1, 1.5, 2, 3, 6, 10)
"""Steps between ticks in minutes and hours, up to a power of ten: 15 min and not 16."""


class InUnits(MaxNLocator):
    """Ticks at round numbers of a unit, such as of minutes on an axis in seconds.

    Args:
        size: what one of the unit is on the axis.
        most: the most intervals between ticks.
    """

    def __init__(self, size: float, most: int) -> None:
        super().__init__(most, steps=_STEPS if size > 1 else None)
        self._size = size

    def tick_values(self, vmin: float, vmax: float) -> Any:
        """Return the ticks between two ends."""
        return self._size * np.asarray(super().tick_values(vmin / self._size, vmax / self._size))


def _ticks_in(unit: str) -> Formatter:
    """Return the form of ticks at powers of ten, which are odd numbers of minutes."""
    short = EngFormatter(unit)
    if unit != "s":
        return short
    return FuncFormatter(lambda value, _: f"{value:,g} s" if value >= 1 else short(value))


def shared_upwards(axes: Sequence[Axes], columns: int, label: str, *, log: bool) -> None:
    """Label the shared vertical axis of panels: at the first panel of each row.

    Args:
        axes: the panels, row by row, with all curves drawn.
        columns: the number of panels side by side.
        label: the quantity.
        log: whether it is logarithmic.
    """
    for number, axis in enumerate(axes):
        if number % columns:
            axis.tick_params(labelleft=False)
        else:
            label_axis(axis.yaxis, label, log=log)


def label_count_axis(axis: Axis, label: str) -> None:
    """Label an axis of whole numbers."""
    axis.set_label_text(label)
    axis.set_major_locator(MaxNLocator(4, integer=True))
    axis.set_major_formatter(StrMethodFormatter("{x:,.0f}"))


def from_zero(axis: Axes) -> None:
    """Let the horizontal axis begin at zero, with room for the marks of the first points."""
    right = axis.get_xlim()[1]
    marked = any(line.get_marker() not in {None, "None", ""} for line in axis.get_lines())
    axis.set_xlim(left=-_BESIDE * right if marked else 0.0)


def draw_target(axis: Axes, value: float) -> None:
    """Draw a value that is to be reached: a dotted line, which a legend names."""
    axis.axhline(value, color=GREY, linewidth=1.2, linestyle=":", label=target_name(value))


def target_name(value: float) -> str:
    """Return what a legend calls the line of a target.

    >>> target_name(0.85)
    'target 0.85'
    """
    return f"target {value:.4g}"


def against_cost(axis: Axes, cost: str, costs: Mapping[str, tuple[str, str]] = EVERY_AXIS) -> None:
    """Label the horizontal axis of a cost, which begins at zero."""
    label, unit = costs[cost]
    from_zero(axis)
    if unit:
        label_axis(axis.xaxis, label, unit)
    else:
        label_count_axis(axis.xaxis, label)


def _logarithmic(axis: Axis, units: Formatter | None) -> None:
    """Make an axis logarithmic, with ticks between powers of ten if it spans few decades."""
    (axis.axes.set_xscale if axis is axis.axes.xaxis else axis.axes.set_yscale)("log")
    upwards, (low, high) = axis is axis.axes.yaxis, axis.get_view_interval()
    decades = float(np.log10(high / low)) if 0 < low < high else 0.0
    axis.set_minor_formatter(NullFormatter())
    if units is not None:
        axis.set_major_formatter(units)
    if decades >= _FEW_DECADES:
        axis.set_major_locator(LogLocator(numticks=7 if upwards else 5))
        return
    if units is None:
        axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    if decades >= _NO_DECADE:
        roomy = upwards or decades < _FEW_LABELS
        axis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0) if roomy else (1.0, 3.0)))
    else:
        axis.set_major_locator(MaxNLocator(5 if upwards else 3))
        axis.set_minor_locator(NullLocator())
