"""The style that all figures share: axes that cannot be misread, legends with room, mathematics."""

import re
from collections.abc import Sequence
from itertools import pairwise

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from fedsim.core.table_columns import COSTS
from fedsim.results.analysis.figures import progress
from fedsim.results.analysis.style import (
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
