"""Axes of a page: what is written at them."""

import pytest
from matplotlib.axes import Axes

from fedsim.results.analysis import label_axis
from fedsim.results.report.drawing import draw
from tests.results.report.conftest import captured


@pytest.mark.parametrize("log", [False, True])
@pytest.mark.parametrize("ends", [(1e-12, 1e6), (1e-9, 2e-9), (0.3, 40.0), (1e299, 1e300)])
def test_every_tick_is_written_within_its_axis(ends: tuple[float, float], log: bool) -> None:
    def plot(axis: Axes) -> None:
        axis.plot([0.0, 1.0], ends)
        label_axis(axis.yaxis, "y", log=log)

    with captured() as found:
        draw("one", "y", plot)
    (axis,) = found.values()
    low, high = axis.get_ylim()
    beside = [text for text in axis.texts if text.get_horizontalalignment() == "right"]
    assert beside
    assert all(low <= float(text.get_position()[1]) <= high for text in beside)
