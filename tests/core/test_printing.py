"""Output in encodings that lack letters: similar ones stand for them, and no command ends by it."""

import os
import subprocess
import sys
from io import BytesIO, TextIOWrapper

import pytest

from fedsim.core.printing import print_in_any_encoding, similar

TEXT = "433 \N{MICRO SIGN}s \N{MULTIPLICATION SIGN} caf\u00e9, \u6771\u4eac \ud800"


@pytest.mark.parametrize("encoding", ["ascii", "gbk", "cp932", "cp949", "cp1252", "utf-8"])
def test_every_text_can_be_printed(encoding: str, monkeypatch: pytest.MonkeyPatch) -> None:
    raw = BytesIO()
    monkeypatch.setattr("sys.stdout", TextIOWrapper(raw, encoding=encoding))
    print_in_any_encoding()
    sys.stdout.write(TEXT)
    sys.stdout.flush()
    shown = raw.getvalue().decode(encoding)
    assert len(shown) == len(TEXT)
    for letter, written in zip(shown, TEXT, strict=True):
        assert letter in (written, similar(written))
    if encoding == "ascii":
        assert shown == "433 us x cafe, ?? ?"


@pytest.mark.slow
@pytest.mark.parametrize("encoding", ["ascii", "cp932"])
def test_a_command_ends_well_in_any_encoding(encoding: str) -> None:
    called = [sys.executable, "-m", "fedsim", "check", "censoring", "--details"]
    done = subprocess.run(called, env={**os.environ, "PYTHONIOENCODING": encoding}, check=True,
                          capture_output=True)  # fmt: skip
    assert " us " in done.stdout.decode(encoding)
