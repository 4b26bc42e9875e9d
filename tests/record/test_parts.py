"""Tables that grow on disk: encoded once, and the file is as one writer's."""

import io
import tracemalloc
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedsim.record.parts import PartWriter
from fedsim.record.row_groups import JoinedFiles
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


def test_the_file_of_a_table_is_what_one_writer_writes(tmp_path: Path) -> None:
    tables = [table(size, seed) for seed, size in enumerate([10, 2000, 0, 10])]
    writer = PartWriter(tmp_path, "models")
    for number, each in enumerate(tables):
        writer.write(each)
        assert len(list((tmp_path / "models.parts").iterdir())) == number + 1
    writer.close()
    assert [path.name for path in tmp_path.iterdir()] == ["models.parquet"]
    assert (tmp_path / "models.parquet").read_bytes() == encoded(tables)


def test_what_is_kept_of_a_part_until_the_end_is_small() -> None:
    one = encoded([table(500)])
    whole = JoinedFiles()
    tracemalloc.start()
    try:
        taken = []
        for _ in range(2):
            for _ in range(1000):
                whole.add(one)
            taken.append(tracemalloc.get_traced_memory()[0])
    finally:
        tracemalloc.stop()
    assert taken[1] - taken[0] < 1000 * 150


def test_rows_of_another_schema_are_refused(tmp_path: Path) -> None:
    writer = PartWriter(tmp_path, "events")
    writer.write(pa.table({"seq": [1]}))
    with pytest.raises(ValueError, match="expected seq: int64"):
        writer.write(pa.table({"seq": [1.5]}))
    writer.abandon()
