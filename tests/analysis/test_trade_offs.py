"""Figures and terminal tables of a comparison: what they show of a table made by hand."""

from io import StringIO

import numpy as np
import pandas as pd
import pytest
from matplotlib.axes import Axes
from matplotlib.colors import to_hex
from matplotlib.container import ErrorbarContainer
from matplotlib.patches import Rectangle
from rich.console import Console
from rich.table import Table

from fedsim.analysis import COLOURS, COMPARED, cost_bars, paired, pareto_scatter, summarised
from fedsim.analysis.comparing.tables import paired_table, summary_table

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


def texts(axis: Axes) -> list[str]:
    return [text.get_text() for text in axis.texts]


def test_bars_are_as_long_as_the_means_and_say_so() -> None:
    figure = cost_bars(summarised(costs()), LABELS, "title")
    bits = figure.axes[1]
    assert bits.get_xlabel() == "bits, up and down"
    bars = [bar for bar in bits.patches if isinstance(bar, Rectangle)]
    assert [bar.get_width() for bar in bars] == [22, 38, 1800, 10]  # both directions
    assert texts(bits) == ["22 bit", "38 bit", "1.8 kbit", "10 bit (1 of 2)", "not reached"]
    assert [bool(bar.get_hatch()) for bar in bars] == [False, False, False, True]
    names = [text.get_text() for text in figure.axes[0].get_yticklabels()]
    assert names == list(LABELS.values())
    assert bits.get_ylim() == (4.5, -0.5)
    assert bits.get_xlim()[1] > 1800


def test_error_bars_are_the_intervals() -> None:
    table = summarised(costs())
    figure = cost_bars(table, {"chb": "chb"})
    (line,) = (own for own in figure.axes[2].containers if isinstance(own, ErrorbarContainer))
    ((ends,),) = (collection.get_segments() for collection in line.lines[2])
    row = table.set_index("variant").loc["chb"]
    assert ends[:, 0] == pytest.approx([row["t_low"], row["t_high"]])


def test_a_figure_of_variants_that_never_got_there_can_be_drawn() -> None:
    table = summarised(costs().query("variant == 'none'"))
    assert set(texts(cost_bars(table, {"none": "none"}).axes[0])) == {"not reached"}
    figure = pareto_scatter(table, {"none": "none"})
    assert "no variant got there" in figure.axes[1].get_title()
    figure.savefig(StringIO(), format="svg")


def points(axis: Axes) -> dict[str, tuple[bool, str]]:
    """Return by label whether a mark is full, and its colour."""
    drawn = {}
    for own in axis.containers:
        if isinstance(own, ErrorbarContainer):
            line = own.lines[0]
            assert line is not None
            colour, face = (to_hex(each) for each in (line.get_color(), line.get_markerfacecolor()))
            drawn[str(own.get_label())] = colour == face, colour.upper()
    return drawn


def test_full_marks_are_those_that_nobody_beats_in_the_two_costs_of_a_panel() -> None:
    figure = pareto_scatter(summarised(costs()), LABELS, "title")
    full = [{name: mark for name, (mark, _) in points(axis).items()} for axis in figure.axes]
    bits_time, bits_joules, time_joules = full
    assert bits_time == {"censored": True, "plain": False, "dear": False}
    assert bits_joules == time_joules == {"censored": True, "plain": True, "dear": False}


def test_colours_are_those_of_the_same_variants_elsewhere() -> None:
    figure = pareto_scatter(summarised(costs()), LABELS)
    colours = {name: colour for name, (_, colour) in points(figure.axes[0]).items()}
    assert colours == dict(zip(["censored", "plain", "dear"], COLOURS, strict=False))
    bars = cost_bars(summarised(costs()), LABELS).axes[0].patches
    assert [to_hex(bar.get_facecolor()).upper() for bar in bars] == list(COLOURS[:4])


def test_costs_that_span_decades_have_logarithmic_axes_and_the_others_begin_at_zero() -> None:
    wide, narrow = (
        pareto_scatter(summarised(table), LABELS).axes[0]
        for table in (costs(), costs().query("variant != 'dear'"))
    )
    assert wide.get_xscale() == wide.get_yscale() == "log"
    assert narrow.get_xscale() == narrow.get_yscale() == "linear"
    assert narrow.get_xlim()[0] == narrow.get_ylim()[0] == 0


def test_variants_without_a_label_are_grey_points() -> None:
    axis = pareto_scatter(summarised(costs()), {"chb": "chb"}).axes[0]
    assert list(points(axis)) == ["chb"]
    sizes = [len(np.asarray(own.get_offsets())) for own in axis.collections]
    assert max(sizes) == 2


def text(table: Table) -> str:
    console = Console(width=120, record=True, file=StringIO())
    console.print(table)
    return console.export_text()


def test_the_terminal_s_table_says_how_many_got_there_and_how_sure_it_is() -> None:
    table = summarised(costs()).assign(pareto=[True, True, False, False, False], tie=False)
    lines = text(summary_table(table, LABELS, "the [title]")).splitlines()
    assert lines[0].strip() == "the [title]"
    (censored,) = (line for line in lines if line.startswith(" censored"))
    assert censored.split()[:6] == ["censored", "2", "of", "2", "11", "11"]
    assert censored.rstrip().endswith("*")
    below = lines[lines.index(censored) + 1]  # of two runs the least, 10, and the largest, 12
    assert below.split()[0] == "\N{PLUS-MINUS SIGN}9.1%"
    assert any("1 of 2" in line for line in lines)
    assert sum("never reached" in line for line in lines) == 1


def test_the_terminal_s_pairs_have_signs_and_probabilities() -> None:
    drawn = text(paired_table(paired(costs(), "gd"), LABELS, "title"))
    (line,) = (line for line in drawn.splitlines() if line.startswith(" censored"))
    assert line.split()[:4] == ["censored", "2", "rounds", "\N{MINUS SIGN}8"]
    assert "never both" in drawn
    assert "plain" not in drawn
    assert "0.579" in line  # 11 / 19
