"""Commands whose output is not read: the reader of a pipe has left, or streams are closed."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.runs import small

pytestmark = pytest.mark.skipif(os.name != "posix", reason="pipes and shells of POSIX")


@pytest.fixture
def words(tmp_path: Path) -> list[str]:
    """The command that runs a short scenario, which is JSON and therefore YAML."""
    file = tmp_path / "short.yaml"
    file.write_text(json.dumps(small()), encoding="utf-8")
    return [sys.executable, "-m", "fedsim", "run", str(file), "--out", str(tmp_path / "runs")]


def test_a_reader_that_leaves_stops_no_work(tmp_path: Path, words: list[str]) -> None:
    reader, writer = os.pipe()
    os.close(reader)  # as `head` does once it has its lines
    ended = subprocess.run(words, stdout=writer, stderr=subprocess.PIPE, text=True, check=False)
    os.close(writer)
    assert ended.returncode == 1
    assert "Traceback" not in ended.stderr
    assert "Broken pipe" not in ended.stderr
    assert (tmp_path / "runs" / "convergence.png").is_file()


@pytest.mark.slow
@pytest.mark.parametrize("closed", [">&-", ">&- 2>&-"])
def test_closed_streams_stop_no_work(tmp_path: Path, words: list[str], closed: str) -> None:
    ended = subprocess.run(["sh", "-c", f'"$@" {closed}', "sh", *words], check=False)  # noqa: S607
    assert ended.returncode == 0
    assert (tmp_path / "runs" / "convergence.png").is_file()
