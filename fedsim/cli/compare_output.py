"""Other outputs of `fedsim compare` than its tables: one figure, CSV, JSON or LaTeX."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from fedsim.cli.app import comparison_options, within, write_output
from fedsim.core.errors import DataError
from fedsim.core.text import as_csv
from fedsim.results.analysis import Comparison, PaperStyle, measures_in, plot_curves
from fedsim.results.analysis.captions import curves_caption, seeds_end_apart
from fedsim.results.analysis.compare.comparison import MOST_DRAWN
from fedsim.results.analysis.latex import latex_tables
from fedsim.results.analysis.saving import FORMATS, check_format

Form = Literal["", "csv", "json", "latex"]


@dataclass(frozen=True)
class Request:
    """The requested output, in place of a folder of tables and figures.

    Attributes:
        out: the file of a figure; None for no figure.
        axes: x and y of that figure, if set.
        form: the format of printed tables; empty for tables in the terminal.
    """

    out: Path | None
    axes: tuple[str | None, str | None]
    form: Form

    @classmethod
    def of(
        cls,
        out: Path | None,
        axes: tuple[str | None, str | None],
        *,
        csv: bool,
        as_json: bool,
        latex: bool,
    ) -> "Request":
        """Return the request that the options of the command describe.

        Raises:
            DataError: the options name several formats, or a figure file of an unknown format.
        """
        options: dict[Form, bool] = {"csv": csv, "json": as_json, "latex": latex}
        forms: list[Form] = [name for name, is_set in options.items() if is_set]
        if len(forms) > 1:
            names = " and ".join(f"--{name}" for name in forms)
            raise DataError("compare", f"got {names}; expected one of them")
        form = forms[0] if forms else ""
        has_axes = any(axes)
        if out is None and has_axes:
            text = "--x and --y need a figure; expected --out FILE.pdf (or svg, png, pgf)"
            raise DataError("out", text)
        if out is not None and (has_axes or out.suffix[1:].lower() in FORMATS):
            check_format(out.suffix[1:], out.name)
            return cls(out, axes, form)
        return cls(None, axes, form)

    @property
    def figure(self) -> bool:
        """Whether a figure is requested."""
        return self.out is not None

    @property
    def alone(self) -> bool:
        """Whether the request replaces the usual tables and files."""
        return self.figure or bool(self.form)

    def answer(
        self, comparison: Comparison, places: Sequence[Path], style: str, columns: int
    ) -> Iterator[str]:
        """Draw the requested figure, and yield the requested text to print.

        Args:
            comparison: the comparison of the runs.
            places: the folders of the runs.
            style: a name or file for `PaperStyle`.
            columns: 1 or 2.
        """
        if self.out is not None:
            targets = [str(case.target) for case in comparison.cases]
            x, y = self.axes
            options = {"targets": targets, "x": x, "y": y, "style": style, "columns": columns}
            with write_output("compare", places, self.out, options) as draft:
                caption = draw(comparison, draft.path, self.axes, style, columns)
            if not self.form:
                yield f"figure in {draft.place}: {caption}\n"
        if self.form:
            yield print_tables(comparison, self.form, columns)


def draw(
    comparison: Comparison, out: Path, axes: tuple[str | None, str | None], style: str, columns: int
) -> str:
    """Draw the curves of a comparison into a file, and return their caption.

    The figure is as wide as columns of a style, and has no title.

    Args:
        comparison: its variants are drawn; a target on the y axis is a line.
        out: the file.
        axes: x and y; by default rounds, and the measure of the first target.
        style: a name or file for `PaperStyle`.
        columns: 1 or 2.

    Raises:
        DataError: there is no such column or style.
        OutputError: the file cannot be written.
    """
    x, y = axes
    look, case = PaperStyle.read(style), comparison.cases[0]
    labels = comparison.choose(case, MOST_DRAWN)
    measure = y or case.target.measure or measures_in(comparison.runs.rounds)[0]
    line = case.target.value if measure == case.target.measure and measure else None
    with look.apply():
        plot_curves(
            comparison.runs,
            x or "round",
            measure,
            target=line,
            labels=labels,
            width=look.width(columns),
            out=out,
        )
    several = bool((case.table["runs"] > 1).any())
    held = seeds_end_apart(comparison.runs)
    return curves_caption(x or "round", measure, "min-max" if several else None, held=held)


def write_files(
    comparison: Comparison, places: Sequence[Path], out: Path | None, confidence: float
) -> Path:
    """Write tables and figures of a comparison; return their folder.

    Args:
        comparison: the comparison of the runs.
        places: the folders of the runs.
        out: the folder to write; `comparison` in the first place if None.
        confidence: confidence level of intervals.
    """
    titles = out is None  # figures for a document have captions instead
    folder = out or within(places[0], "comparison")
    level = {"confidence": confidence, "practical": comparison.practical}
    options = comparison_options(comparison, **level, titles=titles)
    with write_output("compare", places, folder, options) as draft:
        comparison.write(draft.path, titles=titles)
    return draft.place


def print_tables(comparison: Comparison, form: Form, columns: int = 1) -> str:
    """Return the costs as CSV, all tables as JSON, or the tables of costs as LaTeX."""
    frames = comparison.frames()
    if form == "csv":
        return as_csv(frames["costs"]).decode()
    if form == "json":
        tables = {
            name: json.loads(frame.to_json(orient="records")) for name, frame in frames.items()
        }
        texts: dict[str, Sequence[str]] = {
            "answers": comparison.answers,
            "references": [comparison.reference(case) for case in comparison.cases],
            "notes": comparison.notes,
        }
        return json.dumps({**texts, **tables}, indent=2) + "\n"
    return "\n".join(latex_tables(comparison, columns))
