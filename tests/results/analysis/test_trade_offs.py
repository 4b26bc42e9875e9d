"""Figures and terminal tables of a comparison: what they show of a table made by hand."""

from io import StringIO

import numpy as np
import pandas as pd
import pytest
from matplotlib.axes import Axes
from matplotlib.colors import to_hex
from matplotlib.container import ErrorbarContainer
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from rich.console import Console
from rich.table import Table

from fedsim.results.analysis import (
    COLOURS,
    COMPARED,
    Decisions,
    cost_bars,
    pair,
    pareto_scatter,
    summarise,
)
from fedsim.results.analysis.compare.comparison import paired_table, summary_table
from fedsim.results.analysis.costs import with_bits

LABELS = {"chb": "censored", "gd": "plain", "dear": "dear", "some": "some", "none": "none"}
AMOUNTS = {
    "chb": (10, 12),
    "gd": (20, 18),
    "dear": (900, 900),
    "some": (5, None),
    "none": (None,) * 2,
}


def costs() -> pd.DataFrame:
    """Return two seeds; the second ran away from `some`, and both from `none`.

    Plain is slower than censored, and spends less: neither beats the other.
    """
    rows = []
    for variant, amounts in AMOUNTS.items():
        for seed, amount in enumerate(amounts):
            spent = dict.fromkeys(COMPARED, np.nan if amount is None else float(amount))
            rows.append({"variant": variant, "seed": seed, "reached": amount is not None} | spent)
    table = pd.DataFrame(rows)
    table.loc[table["variant"] == "gd", "joules"] = 1.0
    return table


def more(table: pd.DataFrame) -> pd.DataFrame:
    """Return the same costs three times, under six seeds."""
    return pd.concat([table.assign(seed=table["seed"] + 2 * turn) for turn in range(3)])


def scatter(table: pd.DataFrame, labels: dict[str, str] = LABELS) -> Figure:
    """Return the figure of a table of costs."""
    decisions = Decisions.of(with_bits(table), ["bits", "t", "joules"])
    return pareto_scatter(summarise(table), labels, decisions, "title")


def texts(axis: Axes) -> list[str]:
    return [text.get_text() for text in axis.texts]


def test_bars_are_as_long_as_the_means_and_say_so() -> None:
    figure = cost_bars(summarise(costs()), LABELS, "title")
    bits = figure.axes[1]
    assert bits.get_xlabel() == "bits, up and down (kbit)"
    bars = [bar for bar in bits.patches if isinstance(bar, Rectangle)]
    assert [bar.get_width() for bar in bars] == [22, 38, 1800, 10]  # both directions
    assert texts(bits) == ["22 bit", "38 bit", "1.8 kbit", "10 bit (1 of 2)", "not reached"]
    assert [bool(bar.get_hatch()) for bar in bars] == [False, False, False, True]
    names = [text.get_text() for text in figure.axes[0].get_yticklabels()]
    assert names == list(LABELS.values())
    assert bits.get_ylim() == (4.5, -0.5)
    assert bits.get_xlim()[1] > 1800


@pytest.mark.slow
def test_error_bars_are_the_intervals() -> None:
    table = summarise(costs())
    figure = cost_bars(table, {"chb": "chb"})
    (line,) = (own for own in figure.axes[2].containers if isinstance(own, ErrorbarContainer))
    ((ends,),) = (collection.get_segments() for collection in line.lines[2])
    row = table.set_index("variant").loc["chb"]
    assert ends[:, 0] == pytest.approx([row["t_low"], row["t_high"]])


def test_a_figure_of_variants_that_never_got_there_can_be_drawn() -> None:
    table = costs().query("variant == 'none'")
    bars = cost_bars(summarise(table), {"none": "none"})
    assert set(texts(bars.axes[0])) == {"not reached"}
    figure = scatter(table, {"none": "none"})
    assert "no run reached the target" in figure.axes[1].get_title()
    figure.savefig(StringIO(), format="svg")


def points(axis: Axes) -> dict[str, tuple[str, str]]:
    """Return by label how full a mark is, and its colour."""
    drawn = {}
    for own in axis.containers:
        if isinstance(own, ErrorbarContainer):
            line = own.lines[0]
            assert line is not None
            colour, face = (to_hex(each) for each in (line.get_color(), line.get_markerfacecolor()))
            fill = "half" if line.get_fillstyle() == "left" else "full"
            drawn[str(own.get_label())] = fill if colour == face else "none", colour.upper()
    return drawn


def test_full_marks_are_those_that_nothing_beats_in_the_two_costs_of_a_panel() -> None:
    figure = scatter(more(costs()).query("variant != 'some'"))
    fills = [{name: mark for name, (mark, _) in points(axis).items()} for axis in figure.axes]
    bits_time, bits_joules, time_joules = fills
    # Bits and time are the least of censored in all seeds, joules of plain.
    assert bits_time == {"censored": "full", "plain": "none", "dear": "none"}
    assert bits_joules == time_joules == {"censored": "full", "plain": "full", "dear": "none"}


def test_a_variant_of_which_some_runs_got_there_is_drawn_and_says_so() -> None:
    fills = {name: mark for name, (mark, _) in points(scatter(more(costs())).axes[0]).items()}
    # Cheapest in the seeds in which it got there, costliest in the others.
    assert fills == {"censored": "half", "plain": "none", "dear": "none", "some (3 of 6)": "half"}


def test_colours_are_those_of_the_same_variants_elsewhere() -> None:
    colours = {name: colour for name, (_, colour) in points(scatter(costs()).axes[0]).items()}
    names = ["censored", "plain", "dear", "some (1 of 2)"]
    assert colours == dict(zip(names, COLOURS, strict=False))
    bars = cost_bars(summarise(costs()), LABELS).axes[0].patches
    assert [to_hex(bar.get_facecolor()).upper() for bar in bars] == list(COLOURS[:4])


def test_costs_that_span_decades_have_logarithmic_axes_and_the_others_begin_at_zero() -> None:
    wide, narrow = (
        scatter(table).axes[0] for table in (costs(), costs().query("variant != 'dear'"))
    )
    assert wide.get_xscale() == wide.get_yscale() == "log"
    assert narrow.get_xscale() == narrow.get_yscale() == "linear"
    assert narrow.get_xlim()[0] == narrow.get_ylim()[0] == 0


def test_variants_without_a_label_are_grey_points() -> None:
    axis = scatter(costs(), {"chb": "chb"}).axes[0]
    assert list(points(axis)) == ["chb"]
    sizes = [len(np.asarray(own.get_offsets())) for own in axis.collections]
    assert max(sizes) == 3


def text(table: Table) -> str:
    console = Console(width=120, record=True, file=StringIO())
    console.print(table)
    return console.export_text()


def test_the_terminal_s_table_says_how_many_got_there_and_how_sure_it_is() -> None:
    table = summarise(costs()).assign(pareto=[True, True, False, False, False])
    table = table.assign(**{f"{cost}_state": "cheaper" for cost in COMPARED})
    table.loc[table["variant"] == "dear", "t_state"] = "undecided"
    lines = text(summary_table(table, LABELS, "the [title]")).splitlines()
    assert lines[0].strip() == "the [title]"
    (censored,) = (line for line in lines if line.startswith(" censored"))
    assert censored.split()[:7] == ["censored", "*", "2", "of", "2", "11", "11"]
    below = lines[lines.index(censored) + 1]  # of two runs the least, 10, and the largest, 12
    assert below.split()[0] == "\N{PLUS-MINUS SIGN}9.1%"
    assert any("1 of 2" in line for line in lines)
    (dear,) = (line for line in lines if line.startswith(" dear"))
    assert "15 min ~" in dear
    assert dear.count("~") == 1
    assert any("~ not known to differ from the lowest of the column" in line for line in lines)
    assert sum("never reached" in line for line in lines) == 1


def test_the_terminal_s_pairs_have_ratios_and_verdicts() -> None:
    drawn = text(paired_table(pair(more(costs()), "gd"), LABELS, "title"))
    (line,) = (line for line in drawn.splitlines() if line.startswith(" censored"))
    seeds = ["6", "of", "6", "seeds"]
    assert line.split()[:7] == ["censored", *seeds, "rounds", "\N{MINUS SIGN}8"]
    assert f"{np.sqrt(10 * 12 / (20 * 18)):.3g}" in line  # the geometric mean
    assert line.split()[-1] == "cheaper"
    assert "plain" not in drawn
    (none,) = (line for line in drawn.splitlines() if line.startswith(" none"))
    assert none.split()[:8] == ["none", "0", "of", "6", "seeds", "rounds", "-", "-"]
    assert "reached in none of 6 seeds" in none  # though too few for a sign test of ten pairs
    assert "Holm" in drawn
