"""Texts of a page, and its picture of a fleet with malicious clients."""

import re
from html import escape
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from matplotlib import pyplot as plt

import fedsim
from fedsim.core.text import span_text, unbroken_html, unit_for
from fedsim.results.analysis import Comparison
from fedsim.results.analysis.plots.network import NetworkDrawing
from fedsim.results.report.components import PageTable, number
from fedsim.results.report.overview import notes
from fedsim.results.report.study import ReportedStudy
from tests.runs import small

PREFIXES = {
    name: 10.0 ** (3 * power) for power, name in enumerate([*"qryzafpnµm", "", *"kMGTPEZYRQ"], -10)
}


def test_no_line_of_a_page_ends_between_a_number_and_its_unit(tmp_path: Path) -> None:
    """Code and drawings are left as they are."""
    result = fedsim.run(small(seeds=2, stop={"rounds": 3}), out=tmp_path / "out")
    page = result.report(tmp_path / "report.html").read_text(encoding="utf-8")
    shown = re.sub(
        r"<(script|style|pre|code|svg|title|option)\b.*?</\1>", "", page, flags=re.DOTALL
    )
    texts = re.sub(r"<[^>]*>", "|", shown)
    broken = re.findall(r"\d (?:%|(?:[mk]?bit|m?J|m?s)\b)", texts)
    assert broken == []
    assert "95\N{NO-BREAK SPACE}% interval" in texts


@pytest.mark.slow
def test_malicious_clients_are_marked_in_picture_and_table(tmp_path: Path) -> None:
    true = {"count": 3, "device": "pi-4", "radio": "wifi"}
    fleet = [true, true | {"count": 2, "attack": "sign-flip"}]
    method = {"kind": "fedavg", "step_size": 0.001}
    pages = []
    for own in (fleet, [true, true | {"count": 2}]):
        result = fedsim.run(small(algorithm=method, fleet=own, stop={"rounds": 2}))
        page = result.report(tmp_path / "report.html").read_text(encoding="utf-8")
        pages.append("malicious client" in page)
        drawing = NetworkDrawing.of_runs(result, "bits", "auto", None, None)
        figure, axis = plt.subplots()
        keys = [str(key.get_label()) for key in drawing.draw(axis, *drawing.amounts())]
        plt.close(figure)
        assert ("malicious client" in keys) == (own is fleet)
        assert any("(2, sign-flip)" in key for key in keys) == (own is fleet)
        assert (">sign-flip<" in page) == (own is fleet)
    assert pages == [True, False]


NAMES = ("fedavg-top-k", "top-k", "chb", "a<b-c")
TEXTS = [*map(str, map(escape, NAMES)), "client-12", "x-top-k", " of 10 ms, ", "<td>", "</td>", ","]


@given(st.lists(st.sampled_from(TEXTS), max_size=12))
def test_a_line_never_ends_within_a_name(parts: list[str]) -> None:
    """A hyphen of a name is within an element that does not wrap, and no text is lost."""
    page = f"<p>{' '.join(parts)}<code>top-k</code></p>"
    kept = unbroken_html(page, NAMES)
    assert re.sub(r'<span class="name">(.*?)</span>', r"\1", kept) == re.sub(
        r"(?<=\d) (?=ms)", "\xa0", page
    )
    shown = re.sub(r'<span class="name">.*?</span>|<code>.*?</code>', "", kept)
    words = re.split(r"<[^>]*>|[\s\xa0,]+", shown)
    assert not {*words} & {"fedavg-top-k", "top-k", "a&lt;b-c", "client-12"}


@given(
    st.lists(st.one_of(st.just(0.0), st.floats(1e-9, 1e9)), min_size=1, max_size=6),
    st.sampled_from(["s", "J", "bit"]),
)
def test_a_column_has_one_unit_unless_it_spans_more_than_a_factor_of_100(
    values: list[float], unit: str
) -> None:
    rows = PageTable("", ("cost",), [[number(value, unit)] for value in values]).rows
    units = {cell.text.rpartition(" ")[2] for (cell,) in rows}
    sizes = [value for value in values if value]
    if sizes and max(sizes) / 100 <= min(sizes):
        assert units == {unit_for(max(sizes), unit)[1]}
    for (cell,), value in zip(rows, values, strict=True):
        amount, _, name = cell.text.replace(",", "").partition(" ")
        assert float(amount) * _SIZES[name] == pytest.approx(value, rel=5.1e-3)


_SIZES = {
    **{f"{prefix}{unit}": size for unit in ("s", "J", "bit") for prefix, size in PREFIXES.items()},
    "min": 60.0,
    "h": 3600.0,
    "days": 86_400.0,
    "years": 31_557_600.0,
}


@given(st.floats(1e-3, 1e6), st.floats(1.0, 50.0))
def test_the_ends_of_a_range_have_one_unit(low: float, factor: float) -> None:
    first, last = span_text(low, factor * low, "s").split(" to ")
    assert " " not in first
    amount, name = last.split(" ")
    for text, value in ((first, low), (amount, factor * low)):
        assert float(text.replace(",", "")) * _SIZES[name] == pytest.approx(value, rel=5.1e-3)


def test_a_page_has_all_notes_of_its_runs(tmp_path: Path) -> None:
    rule = {"kind": "centred-clipping", "radius": 1e-3}
    method = {"kind": "fedavg", "step_size": 1e-4}
    client = {"device": "pi-4", "radio": "wifi"}
    attacked = [{"count": 2, **client}, {"count": 3, "attack": "sign-flip", **client}]
    variants = {"clipped": {"aggregation": rule}, "attacked": {"fleet": attacked}}
    scenario = small(algorithm=method, variants=variants, stop={"rounds": 3})
    folder = tmp_path / "out"
    fedsim.run(scenario, out=folder)
    study = ReportedStudy(Comparison.of([folder]))
    shown = "\n".join(notes(study))
    told = [text for run in study.runs for text in run.summary.get("notes") or ()]
    assert {text.partition(": ")[0] for text in told} >= {"aggregation.radius", "objective"}
    for text in told:
        assert text.partition(": ")[2] in shown


def test_a_page_without_a_question_says_what_its_study_is(tmp_path: Path) -> None:
    folder = tmp_path / "out"
    fedsim.run(small(name="mine", stop={"rounds": 2}), out=folder)
    study = ReportedStudy(Comparison.of([folder], ["gap=1e9"]))
    assert study.question == f"mine: {study.comparison.cases[0].target.words}"
