"""What `fedsim compare` writes beside its tables for a terminal: one figure, CSV, JSON or LaTeX."""

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
    """What is asked for in place of a folder of tables and figures.

    Attributes:
        out: the file of a figure; None for none.
        axes: x and y of that figure, where they are given.
        form: in which tables are printed; empty for that of a terminal.
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
        """Return what the options of the command ask for.

        Raises:
            DataError: several forms are asked for, or a figure in a file of no format of figures.
        """
        wanted: dict[Form, bool] = {"csv": csv, "json": as_json, "latex": latex}
        forms: list[Form] = [name for name, asked in wanted.items() if asked]
        if len(forms) > 1:
            given = " and ".join(f"--{name}" for name in forms)
            raise DataError("compare", f"got {given}; expected one of them")
        form = forms[0] if forms else ""
        drawn = any(axes)
        if out is None and drawn:
            text = "--x and --y are of one figure; expected --out FILE.pdf (or svg, png, pgf)"
            raise DataError("out", text)
        if out is not None and (drawn or out.suffix[1:].lower() in FORMATS):
            check_format(out.suffix[1:], out.name)
            return cls(out, axes, form)
        return cls(None, axes, form)

    @property
    def figure(self) -> bool:
        """Whether it is a figure."""
        return self.out is not None

    @property
    def alone(self) -> bool:
        """Whether nothing else is printed or written."""
        return self.figure or bool(self.form)

    def answer(
        self, comparison: Comparison, places: Sequence[Path], style: str, columns: int
    ) -> Iterator[str]:
        """Draw the figure and yield what is printed, if either is asked for.

        Args:
            comparison: of the runs.
            places: where they are.
            style: of `PaperStyle`.
            columns: 1 or 2.
        """
        if self.out is not None:
            targets = [str(case.target) for case in comparison.cases]
            x, y = self.axes
            options = {"targets": targets, "x": x, "y": y, "style": style, "columns": columns}
            with write_output("compare", places, self.out, options) as made:
                caption = draw(comparison, made.path, self.axes, style, columns)
            if not self.form:
                yield f"figure in {made.place}: {caption}\n"
        if self.form:
            yield print_tables(comparison, self.form, columns)


def draw(
    comparison: Comparison, out: Path, axes: tuple[str | None, str | None], style: str, columns: int
) -> str:
    """Draw the curves of a comparison into a file, as wide as columns of a style.

    Nothing stands above them: what they show is returned, for the caption.

    Args:
        comparison: whose variants are drawn; with a target of the measure, it is a line.
        out: the file.
        axes: x and y; rounds, and what the first target is of, where they are None.
        style: of `PaperStyle`.
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
        comparison: of the runs.
        places: where they are.
        out: the folder; `comparison` in the first place if None.
        confidence: of intervals.
    """
    apart = out is not None  # figures for elsewhere, where a caption says what they show
    wanted = out or within(places[0], "comparison")
    level = {"confidence": confidence, "practical": comparison.practical}
    options = comparison_options(comparison, **level, titles=not apart)
    with write_output("compare", places, wanted, options) as made:
        comparison.write(made.path, titles=not apart)
    return made.place


def print_tables(comparison: Comparison, form: Form, columns: int = 1) -> str:
    """Return the table of costs as CSV, all tables as JSON, or those of costs as LaTeX."""
    frames = comparison.frames()
    if form == "csv":
        return as_csv(frames["costs"]).decode()
    if form == "json":
        tables = {
            name: json.loads(frame.to_json(orient="records")) for name, frame in frames.items()
        }
        said: dict[str, Sequence[str]] = {"answers": comparison.answers, "notes": comparison.notes}
        return json.dumps({**said, **tables}, indent=2) + "\n"
    return "\n".join(latex_tables(comparison, columns))
