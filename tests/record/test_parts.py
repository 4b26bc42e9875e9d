"""Tables that grow on disk: encoded once, large parts on a thread, and the file as one writer's."""

import io
import threading
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

import fedsim
from fedsim.record import parts
from fedsim.record.parts import PartWriter, read_table
from fedsim.record.row_groups import JoinedFiles
from tests.disks import Disk
from tests.faults.operations import met
from tests.tiers import examples

WRITER = {
    "compression": "zstd",
    "use_dictionary": ["node"],
    "column_encoding": {"seq": "DELTA_BINARY_PACKED"},
    "write_statistics": False,
}


def table(rows: int, seed: int = 0) -> pa.Table:
    """Return a table with columns of all forms that tables of runs have."""
    rng = np.random.default_rng(seed)
    nodes = pa.array(rng.integers(0, 2, rows).astype(np.int32), mask=rng.random(rows) < 0.1)
    models = [rng.random(rng.integers(0, 4)).tolist() for _ in range(rows)]
    return pa.table(
        {
            "seq": pa.array(np.arange(rows)),
            "t": pa.array(rng.random(rows)),
            "node": pa.DictionaryArray.from_arrays(nodes, pa.array(["server", "client-0"])),
            "models": pa.array(models, pa.list_(pa.float64())),
        }
    )


def encoded(tables: Sequence[pa.Table], **options: object) -> bytes:
    """Return what one writer makes of tables."""
    stream = io.BytesIO()
    with pq.ParquetWriter(stream, tables[0].schema, **(WRITER | options)) as writer:
        for each in tables:
            writer.write_table(each)
    return stream.getvalue()


def joined(tables: Sequence[pa.Table], **options: object) -> bytes:
    """Return the same tables, encoded one by one and joined."""
    whole = JoinedFiles()
    pages = [whole.add(encoded([each], **options)) for each in tables]
    return b"".join([*pages, whole.footer()])


@examples(60)
@given(
    sizes=st.lists(st.integers(0, 300), min_size=1, max_size=40),
    options=st.fixed_dictionaries(
        {},
        optional={
            "write_statistics": st.just(True),
            "compression": st.sampled_from(["none", "snappy"]),
        },
    ),
)
def test_files_that_are_joined_are_what_one_writer_writes(
    sizes: list[int], options: dict[str, object]
) -> None:
    tables = [table(size, seed) for seed, size in enumerate(sizes)]
    whole = joined(tables, **options)
    assert whole == encoded(tables, **options)
    assert pq.read_table(pa.py_buffer(whole)).equals(pa.concat_tables(tables))


def test_indices_of_pages_and_several_groups_of_rows_move_along() -> None:
    tables = [table(500, seed) for seed in range(3)]
    whole = JoinedFiles()
    pages = list[bytes]()
    for each in tables:
        stream = io.BytesIO()
        pq.write_table(each, stream, row_group_size=200, write_page_index=True)
        pages.append(whole.add(stream.getvalue()))
    file = pq.ParquetFile(pa.py_buffer(b"".join([*pages, whole.footer()])))
    assert file.metadata.num_row_groups == 9
    assert file.read().equals(pa.concat_tables(tables))
    assert all(
        file.read_row_group(number).equals(each.slice(200 * place, 200))
        for number, (each, place) in enumerate(
            (each, place) for each in tables for place in range(3)
        )
    )


@pytest.mark.parametrize("content", [b"", b"PAR1PAR1", b"PAR1" + bytes(8), b"no Parquet at all"])
def test_what_is_no_parquet_file_is_refused(content: bytes) -> None:
    with pytest.raises(ValueError, match="no Parquet file"):
        JoinedFiles().add(content)


@pytest.fixture
def seen(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The threads that encode, by name; parts are large from 1000 rows on."""
    names, write = list[str](), pq.write_table
    monkeypatch.setattr(parts, "_LARGE", 1000)

    def noted(*given: object, **options: object) -> None:
        names.append(threading.current_thread().name)
        write(*given, **options)

    monkeypatch.setattr(pq, "write_table", noted)
    return names


def test_large_parts_are_encoded_on_a_thread_and_each_is_there_with_the_next_call(
    tmp_path: Path, seen: list[str]
) -> None:
    sizes = 10, 1000, 2000, 10, 1000
    tables = [table(size, seed) for seed, size in enumerate(sizes)]
    writer = PartWriter(tmp_path, "models")
    for number, each in enumerate(tables):
        writer.write(each)
        assert len(list((tmp_path / "models.parts").glob("part-*"))) >= number
    writer.close()
    aside = "models.parts"
    assert seen == ["MainThread", aside, aside, "MainThread", aside]
    assert aside not in {thread.name for thread in threading.enumerate()}
    assert pq.read_table(tmp_path / "models.parquet").equals(pa.concat_tables(tables))
    assert [path.name for path in tmp_path.iterdir()] == ["models.parquet"]


@pytest.mark.usefixtures("seen")
def test_a_run_that_is_given_up_keeps_the_part_that_a_thread_writes(tmp_path: Path) -> None:
    tables = [table(1000, seed) for seed in range(3)]
    writer = PartWriter(tmp_path, "events")
    for each in tables:
        writer.write(each)
    writer.abandon()
    assert "events.parts" not in {thread.name for thread in threading.enumerate()}
    assert [path.name for path in tmp_path.iterdir()] == ["events.parts"]
    assert read_table(tmp_path, "events").equals(pa.concat_tables(tables).unify_dictionaries())


@pytest.mark.usefixtures("seen")
@pytest.mark.parametrize("moment", ["write", "close", "rename"])
@pytest.mark.parametrize("then", ["write", "close"])
def test_a_full_disk_that_a_thread_meets_is_told_by_every_call_that_follows(
    moment: str, then: str, tmp_path: Path
) -> None:
    tables = [table(size, seed) for seed, size in enumerate([10, 1000, 1000])]
    writer = PartWriter(tmp_path, "events")
    writer.write(tables[0])
    with met(tmp_path, Disk(0, moment)):  # the second part is the first file that it counts
        writer.write(tables[1])
        for _ in range(2):
            with pytest.raises(fedsim.OutputError, match="No space left on device"):
                writer.write(tables[2]) if then == "write" else writer.close()
    writer.abandon()
    assert [path.name for path in tmp_path.iterdir()] == ["events.parts"]
    assert read_table(tmp_path, "events").equals(tables[0])


def test_where_no_thread_can_be_started_parts_are_written_all_the_same(
    tmp_path: Path, seen: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", refused)
    writer = PartWriter(tmp_path, "events")
    writer.write(table(1000))
    writer.close()
    assert seen == ["MainThread"]
    assert pq.read_table(tmp_path / "events.parquet").equals(table(1000))


def test_rows_of_another_schema_are_refused(tmp_path: Path) -> None:
    writer = PartWriter(tmp_path, "events")
    writer.write(pa.table({"seq": [1]}))
    with pytest.raises(ValueError, match="expected seq: int64"):
        writer.write(pa.table({"seq": [1.5]}))
    writer.abandon()
