"""Figures as functions: what they draw, where, and how it is told apart."""

from itertools import combinations, pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import matplotlib as mpl
import numpy as np
import pandas as pd
import pytest
from cycler import cycler
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure
from scipy.stats import t as student

import fedsim
from fedsim.results import analysis
from fedsim.results.analysis import PaperStyle, over_seeds, plot_curves
from fedsim.results.analysis.saving import save
from fedsim.results.analysis.seeds import COSTS
from fedsim.results.analysis.style import (
    COLOURS,
    DEVICE_COLOURS,
    OUTCOME_COLOURS,
    PART_COLOURS,
    look,
)
from tests.runs import small
from tests.tiers import every

GRADIENTS = {"algorithm": {"kind": "gd", "step_size": "1/L"}}


@pytest.fixture(scope="module")
def result(tmp_path_factory: pytest.TempPathFactory) -> fedsim.Result:
    out = tmp_path_factory.mktemp("plots") / "out"
    scenario = small(variants={"gd": GRADIENTS}, seeds=3, stop={"rounds": 12})
    return fedsim.run(scenario, out=out)


def rounds(ends: dict[int, int]) -> pd.DataFrame:
    """Return rounds of one variant whose seeds end after so many, with 10 bits and 2 J a round."""
    rows = [
        {"variant": "a", "seed": seed, "round": number, "objective": 100.0 / (seed * number)}
        for seed, last in ends.items()
        for number in range(1, last + 1)
    ]
    table = pd.DataFrame(rows)
    spent = {name: 1.0 for name in COSTS if name != "bits"}
    return table.assign(gap=table["objective"], beacons=0, **spent).assign(joules=2.0)


# Means and bands.


def test_a_seed_that_has_ended_holds_its_last_values() -> None:
    table = over_seeds(rounds({1: 2, 2: 4}), "objective").set_index("round")
    assert table.index.tolist() == [1, 2, 3, 4]
    assert table["running"].tolist() == [2, 2, 1, 1]
    assert table["mean"].tolist() == pytest.approx([75, 37.5, (50 + 100 / 6) / 2, (50 + 12.5) / 2])
    assert table["joules"].tolist() == [2, 4, 5, 6]  # the one that has ended spends nothing more


def test_a_mean_stops_with_its_first_seed_where_that_is_asked_for() -> None:
    table = rounds({1: 2, 2: 4})
    held, stopped = over_seeds(table, "gap"), over_seeds(table, "gap", ends="stop")
    pd.testing.assert_frame_equal(held.iloc[:2], stopped)


def test_a_seed_whose_last_round_is_off_the_observed_ones_is_held_from_there_on() -> None:
    """Seeds are observed every two rounds, and at their ends, which are 3 and 6."""
    table = rounds({1: 3, 2: 6})
    seen = (table["round"] % 2 == 0) | ((table["seed"] == 1) & (table["round"] == 3))
    table[["objective", "gap"]] = table[["objective", "gap"]].where(seen)
    own = over_seeds(table, "objective").set_index("round")
    assert own.index.tolist() == [2, 4, 6]
    assert own["mean"][4] == pytest.approx((100 / 3 + 100 / 8) / 2)


@pytest.mark.parametrize("log", [False, True])
def test_bands_are_what_they_are_called(log: bool) -> None:
    table = rounds({1: 1, 2: 1, 4: 1})
    values = np.array([100.0, 50.0, 25.0])
    own = np.log(values) if log else values
    back = np.exp if log else np.array
    margin = own.std(ddof=1)
    sure = student.ppf(0.975, 2) * margin / np.sqrt(3)
    wanted: dict[str, Any] = {"min-max": (25, 100), "none": 2 * (float(back(own.mean())),)}
    wanted |= {"std": back(own.mean() + np.array([-margin, margin]))}
    wanted |= {"interval": back(own.mean() + np.array([-sure, sure]))}
    for band, ends in wanted.items():
        (row,) = over_seeds(table, "gap", log=log, band=band).to_dict("records")  # type: ignore[arg-type]
        assert (row["low"], row["high"]) == pytest.approx(tuple(map(float, ends)))
        assert row["mean"] == pytest.approx(float(back(own.mean())))


def test_one_seed_has_no_band(result: fedsim.Result) -> None:
    one = result.rounds[result.rounds["seed"] == 1]
    for band in ("std", "interval", "min-max"):
        table = over_seeds(one, "objective", band=band)
        assert (table["low"] == table["mean"]).all()
        assert (table["high"] == table["mean"]).all()


# Looks.


def lightness(colour: str) -> float:
    """Return L* of CIE 1976: what is left of a colour in grey."""
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in to_rgb(colour)]
    y = float(np.dot([0.2126, 0.7152, 0.0722], linear))
    return 116 * y ** (1 / 3) - 16 if y > 0.008856 else 903.3 * y


def test_variants_are_told_apart_without_colours() -> None:
    looks = [look(number, points=100) for number in range(12)]
    for first, second in combinations(looks, 2):
        assert (first["linestyle"], first["marker"]) != (second["linestyle"], second["marker"])
    for one, other in combinations(COLOURS[:3], 2):
        assert abs(lightness(one) - lightness(other)) > 20
    for before, after in pairwise(looks):
        assert before["linestyle"] != after["linestyle"]
        assert before["marker"] != after["marker"]


def test_a_colour_has_one_meaning() -> None:
    parts, outcomes = set(PART_COLOURS.values()), set(OUTCOME_COLOURS.values())
    palettes = set(COLOURS), set(DEVICE_COLOURS), parts, outcomes
    assert all(one.isdisjoint(other) for one, other in combinations(palettes, 2))


def test_a_cycle_of_the_user_is_used() -> None:
    with mpl.rc_context({"axes.prop_cycle": cycler(color=["#123456", "#654321"])}):
        assert [look(n)["color"] for n in range(3)] == ["#123456", "#654321", "#123456"]
        assert look(0)["linestyle"] != look(2)["linestyle"]


def test_settings_of_the_user_are_kept(result: fedsim.Result) -> None:
    with mpl.rc_context({"axes.spines.top": False, "axes.grid": True, "lines.linewidth": 3.0}):
        axis = plot_curves(result)
    assert axis.get_lines()[0].get_linewidth() == 3.0
    assert axis.spines["right"].get_visible()  # the user's style says nothing of the right


# Curves.


def test_a_curve_is_the_mean_of_its_seeds_at_their_mean_cost(result: fedsim.Result) -> None:
    axis = plot_curves(result, "joules", "objective", ends="stop", band="none")
    own = result.rounds[result.rounds["variant"] == "gd"]
    wanted = own.groupby("round")["objective"].mean()
    spent = own.assign(sum=own.groupby("seed")["joules"].cumsum()).groupby("round")["sum"].mean()
    line = next(line for line in axis.get_lines() if line.get_label() == "gd")
    assert np.allclose(np.asarray(line.get_ydata(), float), wanted)
    assert np.allclose(np.asarray(line.get_xdata(), float), spent)
    assert not axis.collections


@pytest.mark.parametrize("by", ["variant", "seed"])
def test_a_thin_line_at_the_end_leads_to_the_energy_until_radios_sleep(
    result: fedsim.Result, by: Any
) -> None:
    axis = plot_curves(result, "joules", "objective", by=by)
    ends = [line for line in axis.get_lines() if line.get_label() == "_tail"]
    assert len(ends) == (2 if by == "variant" else 6)
    lengths = [float(np.ptp(np.asarray(line.get_xdata(), float))) for line in ends]
    after = result.summary["joules_after"]
    if by == "variant":
        after = after.groupby(result.summary["variant"], sort=False).mean()
    assert lengths == pytest.approx(list(after))
    totals = result.summary["joules"] + result.summary["joules_after"]
    assert axis.get_xlim()[1] >= totals.min()
    assert axis.get_xlabel() == "energy (J); thin line: until radios sleep"
    assert "tails" not in plot_curves(result, "t", "objective").get_xlabel()


def test_any_measure_and_any_cost_can_be_an_axis(result: fedsim.Result) -> None:
    for x, y in combinations(["round", "gap", "objective", "transmissions", "bits", "t"], 2):
        axis = plot_curves(result, x, y)
        assert len(axis.get_legend_handles_labels()[1]) == 2
        assert (axis.get_yscale() == "log") == (y == "gap")


def test_a_curve_a_run_is_named_once(result: fedsim.Result) -> None:
    axis = plot_curves(result, by="seed")
    assert len(axis.get_lines()) == 6
    assert len(axis.get_legend_handles_labels()[1]) == 2


def test_axes_of_the_caller_are_drawn_on(result: fedsim.Result) -> None:
    figure = Figure()
    left, right = figure.subplots(1, 2)
    assert plot_curves(result, ax=left) is left
    assert result.plot("gap", "t", ax=right) is figure
    assert left.get_legend() is not None
    assert not figure.legends
    with pytest.raises(fedsim.DataError, match=r"got 2 columns for one axes"):
        result.plot(x=("t", "joules"), ax=left)


def test_units_stand_in_labels_and_nothing_is_entitled(result: fedsim.Result) -> None:
    axis = plot_curves(result, "bits", "joules")
    assert axis.get_xlabel().endswith("bit)")
    assert axis.get_ylabel().endswith("J)")
    assert axis.get_title() == ""
    assert axis.get_figure().get_suptitle() == ""  # type: ignore[union-attr]


def test_a_label_with_a_prefix_says_what_the_ticks_are(result: fedsim.Result) -> None:
    axis = plot_curves(result, "bits", "gap")
    figure = axis.get_figure(root=True)
    assert figure is not None
    figure.draw_without_rendering()
    prefix = axis.get_xlabel().rpartition("(")[2].removesuffix("bit)")
    factor = {"": 1.0, "k": 1e3, "M": 1e6}[prefix]
    for at, tick in zip(axis.get_xticks(), axis.get_xticklabels(), strict=True):
        assert float(tick.get_text().replace("\N{MINUS SIGN}", "-")) * factor == pytest.approx(at)


@every(
    ("wrong", "text"),
    [
        ({"x": "jouls"}, r"got 'jouls'; did you mean 'joules'\?; the rounds have"),
        ({"y": "accuracy"}, r"got 'accuracy'; the rounds have round, t"),
        ({"labels": {"dg": "x"}}, r"got the variant 'dg'.*expected base, gd"),
        (
            {"width": "iee"},
            r"got 'iee'; did you mean 'ieee'\?.*neurips, nature, or a matplotlib style",
        ),
        ({"out": "a.bmp"}, r"got 'a.bmp'; expected one of the formats png, svg, pdf, pgf"),
    ],
)
def test_what_cannot_be_drawn_is_refused(
    result: fedsim.Result, wrong: dict[str, str], text: str
) -> None:
    with pytest.raises(fedsim.DataError, match=text):
        plot_curves(result, **wrong)  # type: ignore[arg-type]


def test_the_legend_says_what_the_bar_across_a_curve_is(result: fedsim.Result) -> None:
    kept = (result.rounds["seed"] > 1) | (result.rounds["round"] <= 8)
    short = SimpleNamespace(rounds=result.rounds[kept], summary=result.summary)
    assert "first seed ended" in plot_curves(short).get_legend_handles_labels()[1]
    for axis in (plot_curves(short, ends="stop"), plot_curves(result)):
        assert axis.get_legend_handles_labels()[1] == ["base (chb)", "gd"]


def test_a_long_legend_leaves_the_panel_its_height(result: fedsim.Result) -> None:
    heights = []
    for names in (("a", "b"), ("a" * 70, "b" * 70)):
        labels = dict(zip(("base", "gd"), names, strict=True))
        axis = plot_curves(result, labels=labels, width="ieee")
        figure = axis.get_figure(root=True)
        assert figure is not None
        figure.draw_without_rendering()
        heights.append(axis.get_window_extent().height)
    assert heights[1] == pytest.approx(heights[0], rel=0.05)


# Files.


def test_a_pdf_has_outlines_of_its_fonts_and_is_the_same_every_time(
    result: fedsim.Result, tmp_path: Path
) -> None:
    files = [tmp_path / name for name in ("one.pdf", "other.pdf")]
    for file in files:
        plot_curves(result, width="ieee", out=file)
    one, other = (file.read_bytes() for file in files)
    assert one == other
    assert b"/Type3" not in one
    assert b"/CIDFontType2" in one


@pytest.mark.parametrize(("name", "columns", "inches"), [("ieee", 1, 3.5), ("acm", 2, 7.0)])
def test_a_figure_is_as_wide_as_its_column(
    result: fedsim.Result, tmp_path: Path, name: str, columns: int, inches: float
) -> None:
    style = PaperStyle.read(name)
    with style.apply():
        plot_curves(result, width=style.width(columns), out=tmp_path / "a.svg")
    assert f'width="{72 * inches:g}pt"' in (tmp_path / "a.svg").read_text()


def test_a_style_file_gives_the_width_of_a_column(tmp_path: Path) -> None:
    file = tmp_path / "mine.mplstyle"
    file.write_text("figure.figsize: 4, 3\nlines.linewidth: 7\n")
    style = PaperStyle.read(str(file))
    assert (style.width(), style.width(2)) == (4.0, 8.25)
    with style.apply():
        assert mpl.rcParams["lines.linewidth"] == 7.0
        assert mpl.rcParams["font.size"] == 8.0
    assert mpl.rcParams["lines.linewidth"] == 1.5


def test_without_tex_a_pgf_is_refused(
    result: fedsim.Result, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(fedsim.DataError, match=r"there is no pdflatex, .*: install TeX Live"):
        save(analysis.panels(1)[0], tmp_path / "a.pgf")
    assert not (tmp_path / "a.pgf").exists()
