"""Draw the cost of a large fleet, and print it as the table of the page on speed.

It reads `scale.csv` beside this file, which `scale.py --csv` writes.

    python analysis/benchmarks/scale_figure.py
"""

from math import isnan
from pathlib import Path

from matplotlib.figure import Figure
from scale import ROWS, kept

from fedsim.results.analysis import COLOURS, label_axis, name_variants, panels, save
from fedsim.results.analysis.style import entitle

TABLE = Path(__file__).with_name("scale.csv")
FIGURE = Path(__file__).resolve().parents[1] / "figures" / "scale.png"

STAGES = {"start": ("start", "--"), "round": ("a round", "-"), "end": ("end", ":")}
"""What is drawn of the seconds, its name and its dashes."""

Sizes = dict[int, dict[str, float]]
"""Figures of one form by the number of clients."""


def by_form(file: Path) -> dict[str, Sizes]:
    """Return the figures of a table by form, those with other numbers of rows after the usual."""
    forms = dict[str, Sizes]()
    for (form, rows, clients), figures in sorted(kept(file).items(), key=_usual_first):
        name = form if rows == ROWS[form] else f"{form}, {rows} rows"
        forms.setdefault(name, {})[clients] = figures
    return forms


def _usual_first(line: tuple[tuple[str, int, int], object]) -> tuple[bool, str, int, int]:
    (form, rows, clients), _ = line
    return rows != ROWS[form], form, rows, clients


def draw(forms: dict[str, Sizes]) -> Figure:
    """Return the figure: seconds and memory against clients."""
    figure, (seconds, memory) = panels(2, 2, 3.2)
    for (form, sizes), colour in zip(forms.items(), COLOURS, strict=False):
        for name, (called, dashes) in STAGES.items():
            line = [row[name] for row in sizes.values()]
            label = f"{form}: {called}"
            seconds.plot([*sizes], line, dashes, marker=".", color=colour, label=label)
        line = [1e6 * row["peak"] for row in sizes.values()]
        memory.plot([*sizes], line, "-", marker=".", color=colour)
    seconds.set_ylim(1e-3, 2e2)
    memory.set_ylim(1e8, 1e10)
    for axis, label, unit in ((seconds, "processor time", "s"), (memory, "peak of memory", "B")):
        label_axis(axis.xaxis, "clients", log=True)
        label_axis(axis.yaxis, label, unit, log=True)
    name_variants(figure)
    entitle(figure, "What a large fleet costs")
    return figure


def row(form: str, clients: int, of: dict[str, float]) -> str:
    """Return a row of the table of the page on speed."""
    seconds = [f"{of[stage]:.2f} s" if of[stage] < 1 else f"{of[stage]:.1f} s" for stage in STAGES]
    first = "" if isnan(of["first"]) else f"{of['first']:.0f} us"
    cells = [f"{clients:,} {form}", *seconds, first, f"{of['peak']:.0f} MB", f"{of['log']:.0f} B"]
    return f"| {' | '.join(cells)} |"


def main() -> None:
    """Draw the figure and print the table."""
    forms = by_form(TABLE)
    save(draw(forms), FIGURE)
    titles = ("clients", "start", "per round", "end", "first sampling", "memory", "log per client")
    print(f"| {' | '.join(titles)} |")
    print("|---|---|---|---|---|---|---|")
    for form, sizes in forms.items():
        for clients, figures in sizes.items():
            print(row(form, clients, figures))


if __name__ == "__main__":
    main()
