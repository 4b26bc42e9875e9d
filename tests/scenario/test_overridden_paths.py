"""Paths in overrides: they start from the current folder, wherever the scenario is."""

import os
from pathlib import Path

import pytest

from fedsim import ScenarioError
from fedsim.running.check import check
from fedsim.scenario.plan import dump, load

SCENARIO = """
problem: {loss: {kind: squared}, data: {kind: csv, path: beside.csv, label: y}}
algorithm: {kind: gd, step_size: 0.1}
fleet: [{count: 2, device: phone-mid, radio: wifi}]
stop: {rounds: 2}
"""


@pytest.fixture(autouse=True)
def folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder is `here`; the scenario is in `there`."""
    for name in ("here", "there"):
        (tmp_path / name).mkdir()
    (tmp_path / "there" / "study.yaml").write_text(SCENARIO, encoding="utf-8")
    monkeypatch.chdir(tmp_path / "here")
    return tmp_path


def path_of(source: str | Path, *overrides: str) -> str:
    """Return the path of the data, as runs record it."""
    data = load(source, overrides=overrides).variants[0].scenario.problem.data
    assert data is not None
    return str(data.model_dump(mode="json")["path"])


def test_a_path_of_the_file_starts_from_the_folder_of_the_file(folders: Path) -> None:
    study = folders / "there" / "study.yaml"
    assert path_of(study) == path_of(study, "stop.rounds=3") == "beside.csv"


@pytest.mark.parametrize("written", ["mine.csv", "../here/mine.csv", "sub/mine.csv"])
def test_an_overridden_path_starts_from_the_current_folder(folders: Path, written: str) -> None:
    override = f"problem.data.path={written}"
    found = Path(path_of(folders / "there" / "study.yaml", override))
    assert os.path.normpath(found) == os.path.normpath(folders / "here" / written)


def test_a_whole_block_may_have_the_path_too(folders: Path) -> None:
    override = "problem.data={kind: csv, path: mine.csv, label: y}"
    assert Path(path_of("quickstart", override)) == folders / "here" / "mine.csv"


def test_below_the_folder_of_the_file_a_path_stays_relative(
    folders: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    study = folders / "there" / "study.yaml"
    (folders / "there" / "sub").mkdir()
    monkeypatch.chdir(folders / "there")
    assert path_of("study.yaml", "problem.data.path=mine.csv") == "mine.csv"
    monkeypatch.chdir(folders / "there" / "sub")
    assert path_of(study, "problem.data.path=mine.csv") == "sub/mine.csv"


def test_an_absolute_path_is_left_alone(folders: Path) -> None:
    file = (folders / "elsewhere.csv").as_posix()
    assert path_of(folders / "there" / "study.yaml", f"problem.data.path={file}") == file


def test_each_variant_has_its_own_path(folders: Path) -> None:
    study = folders / "there" / "study.yaml"
    override = "variants={a: {}, b: {problem: {data: {path: mine.csv}}}}"
    texts = {v.name: dump(v.scenario) for v in load(study, overrides=[override]).variants}
    assert "path: beside.csv" in texts["a"]
    assert f"path: {(folders / 'here' / 'mine.csv').as_posix()}" in texts["b"]


def test_a_database_is_a_path_unless_it_has_an_address(folders: Path) -> None:
    for written, read in (
        ("mine.db", (folders / "here" / "mine.db").as_posix()),
        ("postgresql://host/name", "postgresql://host/name"),
    ):
        override = f"problem.data={{kind: sql, address: '{written}', query: SELECT 1, label: y}}"
        (variant, *_) = load("quickstart", overrides=[override]).variants
        assert f"address: {read}" in dump(variant.scenario)


def test_the_error_names_the_file_that_was_looked_for(folders: Path) -> None:
    with pytest.raises(ScenarioError) as caught:
        check("quickstart", overrides=["problem.data={kind: csv, path: mine.csv, label: y}"])
    (fault,) = caught.value.faults
    assert f"cannot read {folders / 'here' / 'mine.csv'}: " in fault.message
