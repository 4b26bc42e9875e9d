"""Every reader of files is tried by the campaign of hostile data."""

from fedsim.problems.data import SOURCES, Source

from .files import every


def test_every_reader_of_files_is_tried() -> None:
    tried = {each.source.kind for each in every()}
    readers = {kind for kind, source in SOURCES.own.items() if _reads_files(source)}
    assert readers <= tried


def _reads_files(source: type[Source]) -> bool:
    return bool({"path", "images", "mapping"} & source.model_fields.keys())
