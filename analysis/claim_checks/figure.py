"""The picture of all claims: what was counted, then time and energy by radio."""

import re
from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from claim_checks.explanations import Finding
from claim_checks.papers import COSTS, RADIOS
from claim_checks.verdicts import Cell, Verdict, short
from fedsim.results.analysis import GREY, panels
from fedsim.results.analysis.style import entitle

COLOURS: Mapping[Verdict, str] = {
    "survives": "#0072B2",
    "tie": "#E4E4E4",
    "undecided": "#E4E4E4",
    "reversed": "#D55E00",
}


def draw(findings: Mapping[str, Sequence[Finding]]) -> Figure:
    """Draw every claim that is priced: a row a claim and silence, a column a count or a radio."""
    rows = [
        (each, silence)
        for own in findings.values()
        for each in own
        for silence in ("beacon", "deadline")
        if any(answer.world.silence == silence for answer in each.answers)
    ]
    counts = [cost for cost in COSTS if cost not in {"t", "joules"}]
    columns = [
        *((cost, "") for cost in counts),
        *((cost, radio) for cost in ("t", "joules") for radio in RADIOS),
    ]
    figure, (axis,) = panels(1, 1, 0.26 * len(rows) + 1.6, width=11.6)
    for row, (finding, silence) in enumerate(rows):
        own = {each.world.radio: each for each in finding.answers if each.world.silence == silence}
        for column, (cost, radio) in enumerate(columns):
            found = own.get(radio or next(iter(own)))
            _paint(
                axis,
                column,
                row,
                found.cells[cost] if found else None,
                counted=not radio and cost in finding.claim.counted,
                doubtful=found is not None and cost in found.sure and found.sure[cost].doubtful,
            )
    axis.set_yticks(range(len(rows)), [_name(*each) for each in rows], fontsize=8)
    heads = [RADIOS[radio] if radio else COSTS[cost] for cost, radio in columns]
    axis.set_xticks(range(len(columns)), heads, rotation=45, ha="left", fontsize=8)
    axis.xaxis.tick_top()
    axis.set(xlim=(-0.5, len(columns) - 0.5), ylim=(len(rows) - 0.5, -0.5))
    axis.tick_params(length=0)
    axis.grid(visible=False)
    axis.spines[:].set_visible(False)
    for number, (start, text) in enumerate(
        ((0, "counted"), (3, "time"), (3 + len(RADIOS), "energy"))
    ):
        width = len(counts) if number == 0 else len(RADIOS)
        axis.text(start + width / 2 - 0.5, len(rows) - 0.3, text, ha="center", va="top", fontsize=9)
        axis.axvline(start - 0.5, color="white", linewidth=4)
    entitle(
        figure,
        "Which claims survive: what the other methods need over what the better one needs\n"
        "Blue: the claim survives; orange: it is reversed; grey: a tie, or undecided. In bold what"
        " the paper counts; rounds, messages and bits as on the first radio. ?: constants decide;"
        " the claim holds in 10 to 90 % of the worlds of their doubt.",
        apart=True,
    )
    return figure


def _name(finding: Finding, silence: str) -> str:
    """Return a claim in a line's breadth: the first number of its row, and the methods."""
    place = re.sub(r" and Figure \d+", "", finding.setting.place)
    short_place = place.replace("Figure", "Fig.").replace("Simulation", "Sim.")
    claim = finding.claim
    late = ", deadline" if silence == "deadline" else ""
    return f"{short_place}: {claim.better} < {', '.join(claim.worse)}{late}"


def _paint(
    axis: Axes, column: int, row: int, cell: Cell | None, *, counted: bool, doubtful: bool
) -> None:
    if cell is None or cell.verdict == "not reached":
        axis.text(column, row, "-", ha="center", va="center", fontsize=8, color=GREY)
        return
    strength = min(abs(np.log(cell.ratio)) / np.log(3), 1.0)
    level = cell.verdict in {"tie", "undecided"}
    share = 1.0 if level else 0.25 + 0.75 * strength
    colour = [1 - share * (1 - part) for part in to_rgb(COLOURS[cell.verdict])]
    axis.add_patch(Rectangle((column - 0.48, row - 0.46), 0.96, 0.92, color=colour, linewidth=0))
    dark = np.dot(colour, (0.299, 0.587, 0.114)) < 0.55
    text = f"{cell.ratio:.1f}" if cell.ratio < 100 else f"{cell.ratio:.0f}"
    weight = "bold" if counted else "normal"
    axis.text(
        column,
        row,
        f"{short(cell.ratio) if cell.ratio < 10 else text}{' ?' if doubtful else ''}",
        ha="center",
        va="center",
        fontsize=7.5,
        color="white" if dark else "black",
        fontweight=weight,
    )
