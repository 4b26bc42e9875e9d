"""Tables that grow on disk: encoded once, and the file is as one writer's."""

import io
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from fedsim.results.record.parts import PartWriter, _beginning, _link, _part, read_table

WRITER = {
    "compression": "zstd",
    "compression_level": 2,
    "write_batch_size": 65536,
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


def test_the_file_of_a_table_is_what_one_writer_writes(tmp_path: Path) -> None:
    tables = [table(size, seed) for seed, size in enumerate([10, 2000, 0, 10])]
    writer = PartWriter(tmp_path, "models")
    for number, each in enumerate(tables):
        writer.write(each)
        assert len(list((tmp_path / "models.parts").iterdir())) == number + 1
    writer.close()
    assert [path.name for path in tmp_path.iterdir()] == ["models.parquet"]
    assert (tmp_path / "models.parquet").read_bytes() == encoded(tables)


def test_parts_are_arrow_files_of_which_columns_and_rows_can_be_chosen(tmp_path: Path) -> None:
    tables = [table(size, seed) for seed, size in enumerate([10, 2000, 0])]
    writer = PartWriter(tmp_path, "models")
    for each in tables:
        writer.write(each)
    files = sorted((tmp_path / "models.parts").iterdir())
    assert [pa.ipc.open_file(file).read_all() for file in files] == tables
    every = pa.concat_tables(tables).unify_dictionaries()
    assert read_table(tmp_path, "models").equals(every)
    assert read_table(tmp_path, "models", ["t", "seq"]).equals(every.select(["t", "seq"]))
    few = read_table(tmp_path, "models", ["t"], [("node", "=", "client-0")])
    assert few["t"].equals(every.filter(pc.equal(every["node"], "client-0"))["t"])
    writer.abandon()


def test_parts_that_an_earlier_version_has_written_as_parquet_are_read(tmp_path: Path) -> None:
    content = encoded([table(10)])
    chain = _link(_beginning(tmp_path / "models.parts"), content)
    (tmp_path / "models.parts").mkdir()
    (tmp_path / "models.parts" / f"{_part(0, chain)}.parquet").write_bytes(content)
    assert read_table(tmp_path, "models").equals(table(10))


def test_rows_of_another_schema_are_refused(tmp_path: Path) -> None:
    writer = PartWriter(tmp_path, "events")
    writer.write(pa.table({"seq": [1]}))
    with pytest.raises(ValueError, match="schema"):
        writer.write(pa.table({"seq": [1.5]}))
    writer.abandon()
