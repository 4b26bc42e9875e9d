"""The tables of robustness that a terminal shows, against the figures that they are of."""

from io import StringIO
from math import inf, nan
from typing import Any

import pandas as pd
from rich.console import Console
from rich.table import Table

from fedsim.addons.robustness.figures import deciding_table, verdict_table

LABELS = {"a": "the first", "b": "the second"}


def cells(table: Table) -> list[list[str]]:
    """Return the text of the cells, a list a row."""
    columns = [[*column.cells] for column in table.columns]
    return [list(map(str, row)) for row in zip(*columns, strict=True)]


def constant(variant: str, name: str, total: float, low: float, high: float) -> dict[str, Any]:
    return {
        "variant": variant,
        "cost": "joules",
        "constant": name,
        "first": total / 2,
        "first_error": 0.01,
        "total": total,
        "total_error": 0.02,
        "at_low": low,
        "at_high": high,
    }


def test_the_four_constants_that_decide_most_are_shown_with_their_shares_and_ends() -> None:
    shares = {"one": 0.1, "two": 0.5, "three": 0.2, "four": 0.15, "five": 0.04}
    rows = [constant("a", name, total, 1 - total, 1 + total) for name, total in shares.items()]
    table = deciding_table(pd.DataFrame(rows), LABELS, "deciding")
    shown = cells(table)
    assert [row[2] for row in shown] == ["two", "three", "four", "one"]
    assert [row[0] for row in shown] == ["the first", "", "", ""]
    assert shown[0][1:] == ["energy", "two", "0.25 ±0.01", "0.50 ±0.02", "0.500", "1.500"]
    assert {column.justify for column in table.columns[3:]} == {"right"}


def test_a_ratio_that_hardly_varies_has_one_line_and_an_infinite_one_has_none() -> None:
    rows = [
        constant("a", "one", nan, 0.8, 0.8),
        constant("a", "two", nan, 0.8, 0.8004),
        constant("b", "one", nan, inf, inf),
        constant("b", "two", nan, inf, 2.0),
    ]
    (line,) = cells(deciding_table(pd.DataFrame(rows), LABELS, "deciding"))
    assert line == ["the first", "energy", "none: it hardly varies", "", "", "0.800", "0.800"]


def test_an_index_that_is_not_known_is_a_dash() -> None:
    rows = [constant("b", "one", nan, 0.5, 2.0)]
    ((_, _, name, first, total, *ends),) = cells(deciding_table(pd.DataFrame(rows), LABELS, "x"))
    assert (name, first, total, ends) == ("one", "-", "-", ["0.500", "2.000"])


def test_labels_are_text_and_no_markup() -> None:
    table = deciding_table(pd.DataFrame([constant("a", "one", 0.5, 0.5, 2.0)]), {"a": "[b]x"}, "t")
    console = Console(width=120, record=True, file=StringIO())
    console.print(table)
    assert "[b]x" in console.export_text()


def row_of(cost: str, share: float, **more: float) -> dict[str, Any]:
    return {
        "variant": "b",
        "cost": cost,
        "verdict": "cheaper",
        "ratio": 0.5,
        "ratio_low": 0.25,
        "ratio_high": 1.5,
        "typical": share,
        "typical_low": share - 0.1,
        "typical_high": share + 0.1,
        "probability": share,
        "probability_low": 0.3,
        "probability_high": 0.9,
        "noise": 0.125,
        **more,
    }


def verdict_cells(rows: list[dict[str, Any]]) -> list[list[str]]:
    fronts = pd.DataFrame({"variant": ["a", "b"], "optimal": [1.0, 0.4]})
    return cells(verdict_table(pd.DataFrame(rows), fronts, LABELS, "verdicts"))


def test_a_verdict_has_its_ratio_with_its_range_and_shares_with_their_intervals() -> None:
    """The variant that the others are compared with has a share of fronts alone."""
    base, time, energy = verdict_cells([row_of("t", 0.75), row_of("joules", 0.5)])
    assert base == ["the first", *[""] * 8, "100 %"]
    assert time[:6] == ["the second", "time", "cheaper", "0.500", "0.250", "1.500"]
    assert time[6:8] == ["75 %\n[dim]65 % to 85 %[/]", "75 %\n[dim]30 % to 90 %[/]"]
    assert time[8:] == ["12.5 %", "40 %"]
    assert (energy[0], energy[1], energy[-1]) == ("", "energy", "")  # said once a variant


def test_a_verdict_without_a_common_seed_says_so_and_has_no_figures() -> None:
    none = dict.fromkeys(("ratio", "ratio_low", "ratio_high", "probability", "noise"), nan)
    (_, row) = verdict_cells([row_of("t", nan, **none)])
    said = "no seed in which both reached it"
    assert row == ["the second", "time", "cheaper", "-", "-", "-", said, said, "-", "40 %"]


def test_an_infinite_ratio_is_no_number() -> None:
    (_, row) = verdict_cells([row_of("t", 0.0, ratio=inf, ratio_high=inf)])
    assert row[3:6] == ["-", "0.250", "-"]
