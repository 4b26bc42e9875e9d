"""Texts: each row some bytes, its label the one that follows."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedsim.core.errors import DataError
from fedsim.problems import Text

NOTHING = np.random.default_rng(0)


@given(st.binary(min_size=2, max_size=40), st.integers(1, 9), st.integers(1, 9))
def test_rows_are_passages_and_labels_what_follows(
    tmp_path_factory: pytest.TempPathFactory, content: bytes, context: int, stride: int
) -> None:
    folder = tmp_path_factory.getbasetemp()
    (folder / "text").write_bytes(b"-" + content)  # no compressed file begins like that
    content = b"-" + content
    source = Text(path=Path("text"), context=context, stride=stride)
    if len(content) <= context:
        with pytest.raises(DataError, match=f"has {len(content)} bytes; a row takes {context}"):
            source.load(folder, NOTHING)
        return
    samples = source.load(folder, NOTHING)
    begins = range(0, len(content) - context, stride)
    assert [bytes(row.astype(int).tolist()) for row in np.asarray(samples.X)] == [
        content[at : at + context] for at in begins
    ]
    assert samples.y.tolist() == [content[at + context] for at in begins]


def test_bytes_are_kept_as_they_are_until_they_are_computed_with(tmp_path: Path) -> None:
    (tmp_path / "text").write_bytes(bytes(range(200, 256)))
    assert Text(path=Path("text")).plain(tmp_path, NOTHING).X.dtype == np.uint8
