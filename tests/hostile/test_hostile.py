"""Small campaigns of hostile input, and what they have found."""

import copy
from importlib.metadata import EntryPoints
from pathlib import Path

import numpy as np
import pytest

from fedsim.core.blocks import catalogue
from fedsim.core.errors import DataError, ScenarioError
from fedsim.problems.data import SOURCES, Csv, LibSVM, Source
from fedsim.scenario import load
from tests.guarded import FAULT, Play, in_process
from tests.runs import small

from .data import Files
from .files import every
from .scenarios import Scenarios
from .wire import Strings


@pytest.mark.slow
@pytest.mark.parametrize(
    ("play", "count", "least"), [(Files, 300, 0.02), (Scenarios, 80, 0.02), (Strings, 3, 0.01)]
)
def test_it_is_accepted_or_refused_by_the_one_error(
    play: type[Files] | type[Scenarios] | type[Strings],
    count: int,
    least: float,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("FEDSIM_MEMORY", "200 MB")
    made: Play = play(tmp_path, seed=0)
    tried = [each for _, each in in_process(made, range(count))]
    assert [each for each in tried if each.outcome == FAULT] == []
    read = sum(each.outcome == "read" for each in tried)
    assert least * len(tried) < read < 0.7 * len(tried)


def test_every_reader_of_files_is_tried() -> None:
    tried = {each.source.kind for each in every()}
    readers = {kind for kind, source in SOURCES.own.items() if _reads_files(source)}
    assert readers <= tried


def _reads_files(source: type[Source]) -> bool:
    return bool({"path", "images", "mapping"} & source.model_fields.keys())


@pytest.mark.parametrize("cells", ["1,2", "x,2", "1", '"'])
def test_a_column_is_named_in_a_few_letters(cells: str, tmp_path: Path) -> None:
    long = "n" * 50_000
    for names in (f"{long},y", f"{long},{long}", long):
        (tmp_path / "a").write_text(f"{names}\n{cells}\n", encoding="utf-8")
        for label in ("y", "z", 2) if cells != "1,2" else ("z",):
            with pytest.raises(DataError) as refused:
                Csv(path=Path("a"), label=label).load(tmp_path, np.random.default_rng(0))
            assert len(str(refused.value)) < 1000


def test_a_refused_line_is_told_in_a_few_words(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"1 1:" + b"[" * 10_000)
    with pytest.raises(DataError) as caught:
        LibSVM(path=Path("a")).read(tmp_path, np.random.default_rng(0))
    assert len(str(caught.value)) < 600


@pytest.mark.parametrize("end", ["\r", "\x85", "\u2028", "\r\n", "\n\n\r", "\x0b", "\x1c"])
@pytest.mark.parametrize("text", ["{rounds: ", "[1, ", "'a", "{a: *b"])
def test_where_a_text_is_no_yaml_is_shown_whatever_ends_its_lines(text: str, end: str) -> None:
    for written in (text + end, end + text, f"{text}{end}{end}#"):
        with pytest.raises(ScenarioError) as caught:
            load(small(), overrides=[f"stop={written}"])
        (fault,) = caught.value.faults
        assert "^" in fault.excerpt or "not" in fault.message


def test_the_line_of_a_mark_is_the_one_that_the_library_counts() -> None:
    with pytest.raises(ScenarioError) as caught:
        load(small(), overrides=["stop=a: b\x85\nd: e: f"])
    assert "2 | d: e: f" in caught.value.faults[0].excerpt


def test_packages_are_looked_through_once_however_much_is_unknown(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    searches = 0

    def entry_points() -> EntryPoints:
        nonlocal searches
        searches += 1
        return EntryPoints()

    monkeypatch.setattr(catalogue, "entry_points", entry_points)
    with pytest.raises(ScenarioError) as caught:
        load(small(fleet=[{"count": 1, "device": "phone-x", "radio": "ltte"}] * 50))
    assert len(caught.value.faults) == 100
    assert searches == 1


@pytest.mark.slow
def test_of_very_many_faults_the_first_are_told() -> None:
    with pytest.raises(ScenarioError) as caught:
        load(small(fleet=[{"count": 0}] * 5000))
    assert len(caught.value.faults) == 5000
    lines = str(caught.value).splitlines()
    assert (len(lines), lines[-1]) == (101, "and 4900 more errors")
    assert str(copy.copy(caught.value)) == str(caught.value)  # as another process hands it back
