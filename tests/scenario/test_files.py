"""Files: what can be the matter with one before it is YAML."""

from pathlib import Path

import pytest

import fedsim
from fedsim.core.errors import Fault, ScenarioError
from fedsim.scenario.yaml import LARGEST, read_file
from tests.runs import small


def file_fault(path: Path) -> Fault:
    with pytest.raises(ScenarioError) as caught:
        read_file(path)
    (fault,) = caught.value.faults
    return fault


def test_a_file_that_is_not_there_or_not_a_file(tmp_path: Path) -> None:
    missing = file_fault(tmp_path / "no.yaml")
    assert missing.where == str(tmp_path / "no.yaml")
    assert "No such file" in missing.message
    assert "it is a folder; expected a file" in file_fault(tmp_path).message
    assert "fedsim.open" not in file_fault(tmp_path).message
    assert "cannot be read" in file_fault(Path("a\0b")).message


def test_for_a_folder_of_runs_the_function_that_opens_it_is_named(tmp_path: Path) -> None:
    fedsim.run(small(), out=tmp_path)
    (tmp_path / "also.yaml").touch()
    assert file_fault(tmp_path).message.endswith(f"fedsim.open({str(tmp_path)!r}) reads them")


def test_a_file_that_is_not_utf_8(tmp_path: Path) -> None:
    path = tmp_path / "f.yaml"
    path.write_bytes(b"a: 1\nb: caf\xe9\n")
    fault = file_fault(path)
    assert fault.where.endswith(":2")
    assert "0xe9" in fault.message
    path.write_bytes("a: 1\n".encode("utf-16"))
    assert "UTF-8" in file_fault(path).message


def test_a_byte_order_mark_and_windows_line_ends_are_no_matter(tmp_path: Path) -> None:
    path = tmp_path / "f.yaml"
    path.write_bytes(b"\xef\xbb\xbfa: 1\r\nb:\r\n  c: 2\r\n")
    read, repeated = read_file(path)
    assert (read.plain(), repeated) == ({"a": 1, "b": {"c": 2}}, [])
    assert read.nearest(("b", "c"))[0].origin.line == 3


def test_a_file_that_is_too_long(tmp_path: Path) -> None:
    path = tmp_path / "f.yaml"
    path.write_bytes(b"#" * (LARGEST + 1))
    assert "longer than" in file_fault(path).message
    path.write_bytes(b"#" * LARGEST)
    assert read_file(path)[0].plain() is None
