"""Small campaigns of hostile input, and what they have found."""

from pathlib import Path

import pytest

from fedsim.problems.data import SOURCES, Source
from tests.guarded import FAULT, Play, in_process

from .data import Files
from .files import every
from .scenarios import Scenarios
from .wire import Strings


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
