"""Tables in narrow terminals: no number, name or head is broken, and nothing is left out."""

import re
from io import StringIO
from xml.etree import ElementTree as ET

from rich.console import Console

from fedsim.core.tables import as_html, as_text, listing, plain
from tests.tiers import every

HEADS = ("variant", "reached", "rounds", "transmissions", "bits up", "bits down", "time", "energy")
ROW = ("chb", "10 of 10", "4,340", "218", "3.26 Mbit", "11.4 Mbit", "30.8 s", "1.12 kJ")
PROSE = "Which method classifies tumours for the fewest bits, seconds and joules?"


@every("width", [30, 45, 60, 80, 120])
def test_figures_heads_and_names_are_whole_and_no_line_is_too_long(width: int) -> None:
    text = as_text(listing("costs", HEADS, [ROW]), width)
    assert max(map(len, text.splitlines())) <= width
    for whole in (*ROW, *(word for head in HEADS for word in head.split())):
        assert whole in text


def test_a_table_of_a_notebook_is_html_with_a_cell_for_each_text() -> None:
    rows = [("a & b", "1"), ("<i>", "2")]
    page = as_html(listing("", ("name", "runs"), rows))
    root = ET.fromstring(page)  # noqa: S314 - of our own making
    assert [each.text for each in root.iterfind("thead/tr/th")] == ["name", "runs"]
    lines = [tuple(cell.text for cell in line) for line in root.iterfind("tbody/tr")]
    assert lines == rows
    assert {cell.tag for cell in root.iterfind("tbody/tr/*")} == {"td"}


def test_what_does_not_go_beside_the_rest_stands_below_it_under_the_same_names() -> None:
    rows = [("chb", *ROW[1:]), ("gd", *ROW[1:])]
    wide, narrow = (as_text(listing("costs", HEADS, rows), width) for width in (120, 60))
    assert len(re.findall(r"^ variant", wide, re.MULTILINE)) == 1
    assert len(re.findall(r"^ variant", narrow, re.MULTILINE)) == 2
    assert len(re.findall(r"^ gd ", narrow, re.MULTILINE)) == 2
    assert narrow.count("4,340") == wide.count("4,340") == 2


def test_rows_with_two_keys_have_both_in_every_block() -> None:
    table = plain("pairs", keys=2)
    for head in ("variant", "cost", "difference", "ratio"):
        table.add_column(head)
    table.add_row("hb", "transmissions", "4,912 of them", "23.532")
    text = as_text(table, 42)
    assert len(re.findall(r"^ variant +cost", text, re.MULTILINE)) == 2
    assert len(re.findall(r"^ hb +transmissions", text, re.MULTILINE)) == 2


def test_prose_is_wrapped_at_its_words_before_anything_else_gives_way() -> None:
    text = as_text(listing("examples", ("name", "question", "runs"), [("a-name", PROSE, "27")]), 50)
    assert "a-name" in text
    words = re.sub(r"a-name|name|question|runs|examples|27|─|\s+", " ", text).split()
    assert words == PROSE.split()


def test_a_title_is_as_wide_as_the_terminal_and_not_as_its_table() -> None:
    assert as_text(listing(PROSE, ("a",), [("1",)]), 80).splitlines()[0] == PROSE


def test_a_word_that_nothing_holds_is_folded_not_cut() -> None:
    text = as_text(listing("files", ("file", "rows"), [("x" * 90, "12")]), 40)
    assert text.count("x") == 90
    assert "…" not in text


def test_what_a_name_looks_like_changes_nothing() -> None:
    text = as_text(listing("[b]", ("variant",), [("[red]a[/]",), (":smile:",)]), 60)
    assert "[b]" in text
    assert "[red]a[/]" in text


def test_a_title_looks_alike_from_its_first_character_to_its_last() -> None:
    console = Console(width=80, force_terminal=True, color_system="standard", file=StringIO())
    table = listing("3 of 10 runs, 'chb'", ("name", "runs"), [("chb", "3")])
    table.caption = "of 10 runs"
    lines = console.render_lines(table)
    for line, text in ((lines[0], "3 of 10 runs, 'chb'"), (lines[-1], "of 10 runs")):
        written = [each for each in line if each.text.strip()]
        assert "".join(each.text for each in written).strip() == text
        assert len({each.style for each in written}) == 1


PAIRS = ("variant", "seeds", "time", "original time", "energy", "original energy")


@every("width", [30, 45, 60, 75, 90, 120])
def test_columns_of_a_group_stay_side_by_side(width: int) -> None:
    """Unless the two of them are wider than the page: a re-priced cost beside the original one."""
    row = ("fedavg-top-k", "5", "55.5 s\n50.1 to 58.2", "56.5 s\n51 to 59.3", "353 J", "1.09 kJ")
    text = as_text(listing("re-priced", PAIRS, [row], groups=(1, 2, 2)), width)
    for now, before in (("55.5 s", "56.5 s"), ("353 J", "1.09 kJ")):
        lines = [line for line in text.splitlines() if now in line]
        assert [before in line for line in lines] == [width >= 45]
    assert max(map(len, text.splitlines())) <= width
    assert all(cell in text for cell in ("353 J", "1.09 kJ", "56.5 s", "51 to 59.3"))
