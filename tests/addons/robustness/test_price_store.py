"""The store of prices: what it says of files that are damaged."""

from pathlib import Path

import pytest

from fedsim.addons.robustness.pricing import FOLDER, PriceStore


@pytest.mark.parametrize(
    ("damaged", "said"),
    [
        (set(), []),
        ({"one"}, ["1 file was damaged in {}: their runs were re-priced"]),
        ({"one", "two"}, ["2 files were damaged in {}: their runs were re-priced"]),
    ],
    ids=["none", "one", "two"],
)
def test_damaged_files_are_counted_with_their_folder(
    damaged: set[str], said: list[str], tmp_path: Path
) -> None:
    store = PriceStore(tmp_path)
    assert store.remarks == []
    store.damaged |= damaged
    assert store.remarks == [text.format(tmp_path / FOLDER) for text in said]
