"""Whether a run's folder is whole: what is missing, moved or does not fit is named."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import fedsim
from fedsim.core.errors import DataError
from fedsim.results.record.folder import SMALL, check_run
from fedsim.results.record.manifest import MANIFEST
from tests.runs import small


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    (run,) = fedsim.run(small(stop={"rounds": 2}), out=tmp_path_factory.mktemp("whole")).runs
    return run


@pytest.fixture
def run(whole: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(whole, tmp_path / "seed-1"))


def rewritten(file: Path, change: Callable[[pa.Table], pa.Table]) -> None:
    pq.write_table(change(pq.read_table(file)), file)


def test_a_run_as_it_was_written_is_whole(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert check_run(run)["seed"] == 1
    monkeypatch.chdir(run)
    assert check_run(Path())["seed"] == 1  # named from within
    (run.parent / "link").symlink_to(run)
    assert check_run(run.parent / "link")["seed"] == 1


@pytest.mark.parametrize("name", ["seed-2", "seed-01", "seed-11", "run"])
def test_a_run_lies_in_the_folder_of_its_seed(name: str, run: Path) -> None:
    moved = run.rename(run.parent / name)
    with pytest.raises(DataError, match="holds a run of seed 1; call the folder seed-1"):
        check_run(moved)


def test_a_run_without_a_summary_has_not_ended(run: Path) -> None:
    (run / "summary.json").unlink()
    with pytest.raises(DataError, match="has not ended"):
        check_run(run)


@pytest.mark.parametrize("table", ["events", "rounds", "clients"])
def test_a_table_that_is_missing_empty_or_without_a_column_is_named(
    table: str, run: Path, whole: Path
) -> None:
    file = run / f"{table}.parquet"
    text = "detail" if table == "events" else "joules"

    def as_bytes(each: pa.Table) -> pa.Table:
        place = each.column_names.index(text)
        wrong = pa.array([b"x"] * len(each), pa.binary())
        return each.set_column(place, text, wrong)

    changes: dict[str, Callable[[pa.Table], pa.Table]] = {
        "has no column": lambda each: each.drop_columns([text]),
        f"column {text}: got binary": as_bytes,
    }
    if table != "rounds":  # a run may end before its first one
        changes["it holds no rows"] = lambda each: each.slice(0, 0)
    for said, change in changes.items():
        shutil.copy(whole / file.name, file)
        rewritten(file, change)
        with pytest.raises(DataError, match=rf"{table}\.parquet is damaged.*{said}"):
            check_run(run)
    file.unlink()
    with pytest.raises(DataError, match=rf"there is no .*{table}\.parquet"):
        check_run(run)


@pytest.mark.parametrize("rows", [2, 4])
def test_a_run_that_is_done_has_rows_of_the_start_and_of_each_round(rows: int, run: Path) -> None:
    file = run / "rounds.parquet"
    rewritten(file, lambda each: pa.concat_tables([each, each]).slice(0, rows))
    with pytest.raises(DataError, match=f"{rows} rows, but summary.json has 2 rounds"):
        check_run(run)


@pytest.mark.parametrize("name", SMALL)
def test_a_byte_more_in_a_file_that_is_looked_through_is_damage(name: str, run: Path) -> None:
    assert "clients.parquet" in SMALL
    content = (run / name).read_bytes()
    # What is a table ends with its marks; what is text may end with space.
    (run / name).write_bytes(content[:-9] + content[-8:] if name.endswith("t") else content + b" ")
    with pytest.raises(DataError, match="is damaged"):
        check_run(run)


def test_a_manifest_of_another_schema_is_named_before_anything_else(run: Path) -> None:
    known = json.loads((run / MANIFEST).read_text(encoding="utf-8"))
    (run / MANIFEST).write_text(json.dumps(known | {"schema": 1}), encoding="utf-8")
    (run / "clients.parquet").unlink()
    with pytest.raises(DataError, match=MANIFEST):
        check_run(run)
