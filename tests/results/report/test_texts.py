"""Texts of a page, and its picture of a fleet with malicious clients."""

import re
from pathlib import Path

from matplotlib import pyplot as plt

import fedsim
from fedsim.results.analysis.plots.network import NetworkDrawing
from tests.runs import small


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
