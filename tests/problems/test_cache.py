"""The cache: where it is, and that a file in it is whole or not there."""

from pathlib import Path

import platformdirs
import pytest

from fedsim.core.atomic import write_whole
from fedsim.problems.partition import cache_folder


def test_it_is_where_the_user_says(cache: Path) -> None:
    assert cache_folder() == cache


@pytest.mark.parametrize("unset", [True, False])
def test_it_is_the_platforms_own_otherwise(unset: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FEDSIM_CACHE", "")
    if unset:
        monkeypatch.delenv("FEDSIM_CACHE")
    assert cache_folder() == Path(platformdirs.user_cache_dir("fedsim"))


def test_files_are_written_and_replaced(tmp_path: Path) -> None:
    path = tmp_path / "a" / "b" / "file"
    for content in (b"one", b"two"):
        write_whole(path, content)
        assert path.read_bytes() == content
    assert list(path.parent.iterdir()) == [path]


def test_a_failed_write_leaves_what_was_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "file"
    write_whole(path, b"one")

    def fail(self: Path, target: Path) -> Path:
        raise OSError("no space left")

    monkeypatch.setattr(Path, "replace", fail)
    with pytest.raises(OSError, match="no space"):
        write_whole(path, b"two")
    assert [entry.read_bytes() for entry in tmp_path.iterdir()] == [b"one"]
