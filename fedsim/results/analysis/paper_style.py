"""Styles of papers: widths of columns, and fonts."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from matplotlib import rc_context, rc_params_from_file

from fedsim.core.blocks.wording import nearest
from fedsim.core.errors import DataError

_GAP = 0.25
"""Inches between two columns, for a style file, which has the width of one column only."""


@dataclass(frozen=True)
class PaperStyle:
    """The look of figures in a paper.

    Attributes:
        name: the name of the style, or the path of its file.
        column: width of a column, inches.
        page: width of all columns with the space between them, inches.
        size: font size, points.
        family: "serif" or "sans-serif".
        document: the first lines of a LaTeX document in this style; they need only packages of
            the basic distribution.
        given: matplotlib settings from a style file.
    """

    name: str
    column: float
    page: float
    size: float = 8.0
    family: str = "serif"
    document: str = r"\documentclass[10pt,twocolumn]{article}"
    given: Mapping[str, Any] = field(default_factory=dict, hash=False)

    @classmethod
    def read(cls, name: str) -> "PaperStyle":
        """Return the style with a name, or from a matplotlib style file.

        In a file, the first number of `figure.figsize` is the width of a column.

        Raises:
            DataError: there is no such style and no such file.
        """
        if name in STYLES:
            return STYLES[name]
        path = Path(name)
        if not path.is_file():
            names = ", ".join(STYLES)
            hint = nearest(name, STYLES)
            text = f"style: got {name!r}{hint}; expected one of {names}, or a matplotlib style file"
            raise DataError("style", text)
        try:
            settings: dict[str, Any] = dict(
                rc_params_from_file(path, use_default_template=False).items()
            )
        except (OSError, ValueError) as error:
            raise DataError("style", f"{path} is no style file of matplotlib: {error}") from None
        width = float(settings.pop("figure.figsize", (3.5, 0.0))[0])
        return cls(str(path), width, 2 * width + _GAP, given=settings)

    def width(self, columns: int = 1) -> float:
        """Return the width of a figure over one column, or over the page, inches."""
        return self.column if columns == 1 else self.page

    @contextmanager
    def apply(self) -> Iterator[None]:
        """Use this style within the block; other matplotlib settings of the user stay."""
        settings: Any = {**_LETTERS[self.family], **_sizes(self.size), **self.given}
        with rc_context(settings):
            yield


_LETTERS: Mapping[str, dict[str, Any]] = {
    # STIX comes with matplotlib, so a figure is the same on every machine.
    "serif": {"font.family": ["STIXGeneral"], "mathtext.fontset": "stix"},
    "sans-serif": {"font.family": ["DejaVu Sans"], "mathtext.fontset": "dejavusans"},
}


def _sizes(size: float) -> dict[str, Any]:
    """Return settings for one font size and thin lines."""
    letters = ("font.size", "axes.labelsize", "axes.titlesize", "xtick.labelsize")
    more = ("ytick.labelsize", "legend.fontsize", "legend.title_fontsize", "figure.titlesize")
    lines = {"lines.linewidth": 1.0, "lines.markersize": 5.0, "axes.linewidth": 0.6}
    ticks = {"xtick.major.width": 0.6, "ytick.major.width": 0.6, "hatch.linewidth": 0.5}
    return {**dict.fromkeys((*letters, *more), size), **lines, **ticks}


_ONE_COLUMN = r"\documentclass[10pt]{article}"

STYLES: Mapping[str, PaperStyle] = {
    "ieee": PaperStyle("ieee", 3.5, 7.16),
    "acm": PaperStyle("acm", 3.333, 7.0),
    "neurips": PaperStyle("neurips", 5.5, 5.5, document=_ONE_COLUMN),
    "nature": PaperStyle("nature", 3.504, 7.205, size=7.0, family="sans-serif"),
}
"""The styles by name, from the publishers' templates and guides: IEEEtran and acmart (sigconf) with
two columns, the one column of NeurIPS, and 89 mm and 183 mm with letters of at most 7 points in
journals of Nature."""
