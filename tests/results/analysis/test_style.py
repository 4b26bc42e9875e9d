"""The style that all figures share: axes that cannot be misread, legends with room, mathematics."""

import re
from collections.abc import Sequence
from itertools import combinations, pairwise

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from matplotlib.colors import to_rgb
from numpy.typing import NDArray

from fedsim.core.table_columns import COSTS
from fedsim.results.analysis.figures import progress
from fedsim.results.analysis.style import (
    PART_COLOURS,
    STATES,
    Maths,
    entitle,
    escape_text,
    label_axis,
    name_variants,
    panels,
    typeset,
)
from tests.results.analysis.marks import cut_marks
from tests.tiers import examples


def labels(low: float, high: float, unit: str = "") -> tuple[str, list[str]]:
    """Return what a logarithmic axis is called, and what is written at it between two values."""
    figure, (axis,) = panels(1)
    axis.plot([0, 1], [low, high])
    label_axis(axis.yaxis, "error", unit, log=True)
    figure.draw_without_rendering()
    least, largest = axis.get_ylim()
    ticks = zip(axis.get_yticks(), axis.get_yticklabels(), strict=True)
    seen = [text.get_text() for at, text in ticks if least <= at <= largest]
    return axis.get_ylabel(), [text for text in seen if text]


@pytest.mark.slow
@pytest.mark.parametrize("span", [1.2, 3, 8, 40, 300, 1e5, 1e12, 1e60])
@pytest.mark.parametrize("low", [1e-16, 0.07])
def test_a_logarithmic_axis_says_so_and_has_two_labels_at_least(low: float, span: float) -> None:
    called, seen = labels(low, low * span)
    assert called.endswith("log scale")
    assert 2 <= len(set(seen)) <= 9


@pytest.mark.slow
@pytest.mark.parametrize("spans", [(3, 6, 12, 30), (45, 90, 300, 1e4), (3, 30, 300, 1e7)], ids=str)
@pytest.mark.parametrize("low", [2.1e4, 3.4e5])
def test_labels_below_a_logarithmic_axis_have_room(low: float, spans: Sequence[float]) -> None:
    figure, axes = panels(4)
    for axis, span in zip(axes, spans, strict=True):
        axis.plot([low, low * span], [0, 1])
        label_axis(axis.xaxis, "bits, up and down", "bit", log=True)
    figure.draw_without_rendering()
    for axis in axes:
        least, largest = axis.get_xlim()
        ticks = zip(axis.get_xticks(), axis.get_xticklabels(), strict=True)
        boxes = [text.get_window_extent() for at, text in ticks if least <= at <= largest]
        assert all(one.x1 < other.x0 for one, other in pairwise(boxes))


def test_units_have_a_space_before_them() -> None:
    _, seen = labels(1e5, 3e9, "bit")
    assert all(re.fullmatch(r"\d+ [kMG]?bit", text) for text in seen)


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [
        (90.0, ["0 s", "25 s", "50 s", "75 s"]),
        (195.0, ["0 min", "1 min", "2 min", "3 min"]),
        (3240.0, ["0 min", "15 min", "30 min", "45 min"]),
        (4 * 3600.0, ["0 h", "1 h", "2 h", "3 h", "4 h"]),
    ],
)
def test_an_axis_of_time_has_round_numbers_of_the_unit_that_texts_have(
    seconds: float, shown: list[str]
) -> None:
    figure, (axis,) = panels(1)
    axis.set_xlim(0, seconds)
    label_axis(axis.xaxis, "time", "s")
    figure.draw_without_rendering()
    ticks = zip(axis.get_xticks(), axis.get_xticklabels(), strict=True)
    assert [text.get_text() for at, text in ticks if 0 <= at <= seconds] == shown


@pytest.mark.slow
@examples(15)
@example(["x" * 60, "y" * 60])
@given(st.lists(st.text("abcxyz ", min_size=1, max_size=30), min_size=1, max_size=12, unique=True))
def test_a_legend_is_as_wide_as_its_figure_at_most(names: list[str]) -> None:
    figure, (axis, _) = panels(2)
    for name in names:
        axis.plot([0, 1], [0, 1], label=name)
    name_variants(figure)
    figure.draw_without_rendering()
    (legend,) = figure.legends
    box = legend.get_window_extent()
    assert box.x0 >= 0
    assert box.x1 <= figure.bbox.width


def test_what_others_wrote_is_no_mathematics_and_what_we_wrote_is() -> None:
    assert escape_text("$x$ and \\alpha") == r"\$x\$ and \alpha"
    assert escape_text(typeset("c = 1e-4, sqrt(d)")) == r"$c = 10^{-4}$, $\sqrt{d}$"
    figure, _ = panels(1)
    entitle(figure, Maths("$\\alpha$\ndata; fleet; seed 1"))
    assert figure.get_suptitle() == r"$\alpha$"
    assert figure.axes[0].get_title(loc="left") == "data; fleet; seed 1"
    entitle(figure, "of $5\ndata")
    assert figure.get_suptitle() == r"of \$5"


def test_panels_stand_in_rows_and_spare_places_stay_empty() -> None:
    figure, every = panels(3, 2)
    assert figure.axes == every
    assert len({round(axis.get_position().y0, 3) for axis in every}) == 2
    assert np.isclose(figure.get_figwidth(), 6.8)


def test_what_an_axis_is_called_has_room_along_it() -> None:
    """A panel is wider than it is high."""
    for label, beside in (("short", ", "), ("as long as a name can be", ",\n")):
        _, (axis,) = panels(1)
        label_axis(axis.xaxis, label, log=True)
        label_axis(axis.yaxis, label, log=True)
        assert axis.get_xlabel() == f"{label}, log scale"
        assert axis.get_ylabel() == f"{label}{beside}log scale"


def test_labels_of_a_wide_logarithmic_axis_are_few_and_fewer_below() -> None:
    """Below, they stand beside each other: five at most; at the side, seven."""
    for decades in (4, 5, 6, 9, 30):
        figure, (axis,) = panels(1)
        ends = [1.0, 10.0**decades]
        axis.plot(ends, ends)
        label_axis(axis.xaxis, "below", "bit", log=True)
        label_axis(axis.yaxis, "beside", "bit", log=True)
        for ticks, most in ((axis.get_xticks(), 5), (axis.get_yticks(), 7)):
            inside = [at for at in ticks if ends[0] <= at <= ends[1]]
            assert 2 <= len(inside) <= most
        plt.close(figure)


def test_a_figure_of_progress_has_a_panel_a_cost_that_says_it_and_has_room_for_marks() -> None:
    spent = {"round": [1, 2, 3], "bits": [10.0, 20.0, 30.0], "t": [2.0, 4.0, 6.0]}
    rows = pd.DataFrame(
        {"variant": "gd", "seed": 1, "gap": [1.0, 0.1, 0.01], "objective": 1.0, **spent}
    )
    rows = rows.assign(**{cost: rows["t"] for cost in COSTS if cost not in spent})
    figure = progress(rows, {"gd": "plain"}, axes=("round", "bits", "t"), target=0.05)
    shown = [axis for axis in figure.axes if axis.lines]
    assert cut_marks(figure) == []
    assert all(-0.05 * right < left <= 0 for left, right in (axis.get_xlim() for axis in shown))
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["plain", "target 0.05"]
    called = [axis.get_xlabel() for axis in shown]
    assert len({*called} - {""}) == 3


# Machado, Oliveira and Fernandes 2009: the sight of those who lack one kind of cones, on linear
# RGB; and the CIE's 1976 difference of colours, of which about 2 can just be seen.
SIGHTS = {
    "trichromat": np.eye(3),
    "protanope": [[0.1523, 1.0526, -0.2049], [0.1145, 0.7863, 0.0992], [-0.0039, -0.0481, 1.052]],
    "deuteranope": [[0.3673, 0.8606, -0.228], [0.2801, 0.6725, 0.0474], [-0.0118, 0.0429, 0.9689]],
    "tritanope": [[1.2555, -0.0767, -0.1788], [-0.0784, 0.9308, 0.1476], [0.0047, 0.6914, 0.3039]],
}
TO_XYZ = [[0.4125, 0.3576, 0.1804], [0.2127, 0.7152, 0.0722], [0.0193, 0.1192, 0.9503]]


def lab(colour: str, sight: str) -> NDArray[np.float64]:
    """Return a colour as someone sees it, in CIE L*a*b*."""
    rgb = np.array(to_rgb(colour))
    linear = np.where(rgb <= 0.04045, rgb / 12.92, ((rgb + 0.055) / 1.055) ** 2.4)
    seen = np.clip(np.array(SIGHTS[sight]) @ linear, 0.0, 1.0)
    xyz = np.array(TO_XYZ) @ seen / np.array([0.9505, 1.0, 1.0888])
    x, y, z = np.where(xyz > (6 / 29) ** 3, np.cbrt(xyz), xyz / (3 * (6 / 29) ** 2) + 4 / 29)
    return np.array([116 * y - 16, 500 * (x - y), 200 * (y - z)])


@pytest.mark.parametrize("sight", SIGHTS)
def test_states_of_clients_can_be_told_apart_by_everyone(sight: str) -> None:
    """Those that fill a round stand beside one another, and differ much; a page has no hatches."""
    for picture in (dict(STATES.values()), PART_COLOURS):  # a timeline, and bars of energy
        seen = {name: lab(colour, sight) for name, colour in picture.items()}
        for one, other in combinations(seen, 2):
            fills = {one, other} <= {"receiving", "computing", "sending"}
            assert np.linalg.norm(seen[one] - seen[other]) > (30 if fills else 13), (one, other)
