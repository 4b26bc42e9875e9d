"""What a newcomer does wrong is told in one message, with what would be accepted."""

import shlex
from pathlib import Path

import pytest
from typer.testing import CliRunner

from fedsim.cli import app
from tests.tiers import every

RIGHT = """\
problem:
  loss: {kind: logistic, l2: 1}
  data: {kind: sklearn, name: iris}
algorithm: {kind: gd, step_size: 1/L}
stop: {rounds: 3}
"""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "mine.yaml").write_text(RIGHT)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def refused(*words: str) -> str:
    """Return what is said of a command that is refused, on one line."""
    result = CliRunner().invoke(app, list(words))
    assert result.exit_code == 2, result.output
    assert "Traceback" not in result.output
    return " ".join(result.stderr.split())


@every(
    ("file", "meant"),
    [
        ("mien.yaml", "did you mean 'mine.yaml'?"),
        ("mine.yml", "did you mean 'mine.yaml'?"),
        ("quikstart.yaml", "did you mean 'quickstart'? `fedsim examples` lists them"),
        ("nowhere/near.yaml", "nowhere/near.yaml: cannot be read: No such file or directory"),
    ],
)
def test_a_file_that_is_not_there(file: str, meant: str) -> None:
    assert refused("check", file).endswith(meant)


@every("name", ["my table.csv", "TABLE.CSV", "table.csv.gz", "table.xlsx"])
def test_a_table_is_no_scenario(name: str, folder: Path) -> None:
    (folder / name).write_text("a,b,label\n1,2,0\n3,4,1\n")
    said = refused("check", name)
    assert said.endswith(
        f"{name}: it is a table and not a scenario; `fedsim init --from {shlex.quote(name)}`"
        " writes a scenario for it"
    )


@pytest.mark.slow
def test_a_block_that_is_asked_for_without_its_table() -> None:
    assert "did you mean `fedsim list algorithms scaffold`?" in refused("list", "scaffold")
    assert "did you mean `fedsim list compressors top-k`?" in refused("list", "top-k")


def test_a_colon_without_a_blank_within_braces() -> None:
    said = refused("check", "mine.yaml", "--set", "stop={rounds:500}")
    assert "a blank is missing after the colon between a key and its value" in said
    assert said.endswith("write rounds: 500")


def test_nothing_where_values_belong() -> None:
    said = refused("check", "mine.yaml", "--set", "sweep={algorithm.step_size: []}")
    assert said.endswith("at least one value")


def test_two_documents_in_one_file(folder: Path) -> None:
    (folder / "two.yaml").write_text(f"{RIGHT}---\n{RIGHT}")
    assert "a file is one scenario; leave out the line ---" in refused("check", "two.yaml")


def test_a_folder_that_is_not_there_is_so_for_every_command(folder: Path) -> None:
    for command in ("compare", "report", "trace", "reprice"):
        assert refused(command, "nowhere") == "there is no folder nowhere"
        assert refused(command, "mine.yaml").startswith("there is no folder mine.yaml: it is a")


@pytest.mark.parametrize("out", ["mine.yaml/traces", "mine.yaml/trace.json"])
def test_a_trace_that_cannot_be_written_names_the_option_before_anything_is_read(out: str) -> None:
    assert refused("trace", "nowhere", "--out", out).startswith(f"--out {out}: cannot write")
