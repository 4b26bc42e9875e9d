"""Marks of curves that the frame of their axes cuts."""

import numpy as np
from matplotlib.figure import Figure


def cut_marks(figure: Figure) -> list[str]:
    """Return the labels of the lines of which a frame cuts a mark."""
    figure.draw_without_rendering()
    found = []
    for axis in figure.axes:
        box = axis.get_window_extent()
        for line in axis.get_lines():
            if line.get_marker() in {None, "None", "", "|"} or not line.get_clip_on():
                continue
            places = line.get_transform().transform(np.asarray(line.get_xydata(), float))
            places = places[np.isfinite(places).all(axis=1)]
            half = line.get_markersize() / 2 * figure.dpi / 72
            if len(places) and (
                (places.min(axis=0) - half < box.min).any()
                or (places.max(axis=0) + half > box.max).any()
            ):
                found.append(str(line.get_label()))
    return found
