"""Captions of curves."""

from fedsim.results.analysis.plots.canvas import Recorded, label_of
from fedsim.results.analysis.seeds import Band

_BANDS: dict[Band, str] = {
    "min-max": "bands from the least to the largest",
    "std": "bands of one standard deviation",
    "interval": "bands of its 95 % interval",
    "none": "",
}


def seeds_end_apart(runs: Recorded) -> bool:
    """Return whether seeds of one variant have ended after different numbers of rounds."""
    last = runs.rounds.groupby(["variant", "seed"], observed=True)["round"].max()
    ends = last.groupby("variant", observed=True)
    return bool((ends.max() > ends.min()).any())


def curves_caption(x: str, y: str, band: Band | None, *, held: bool) -> str:
    """Return the caption of curves of a column against another one.

    Args:
        x: the column of the horizontal axis.
        y: the column of the vertical axis.
        band: the band around the means over seeds; None with one seed.
        held: whether some seed ends before others, and keeps its last values in the mean.

    >>> curves_caption("joules", "gap", None, held=False)
    'Objective gap against energy.'
    """
    what, against = (label_of(name)[0].split(" $")[0] for name in (y, x))
    text = f"{what[:1].upper()}{what[1:]} against {against}"
    if band is None:
        return f"{text}."
    around = f", {_BANDS[band]}" if _BANDS[band] else ""
    ended = "; a seed that has ended holds its last values, from the small bar on" if held else ""
    return f"{text}, mean over seeds{around}{ended}."
