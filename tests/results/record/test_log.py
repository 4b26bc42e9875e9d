"""The event log: what is appended is what is read, in bounded memory, at any moment."""

from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedsim.core.ports import node_name
from fedsim.results.record.log import EventLog, Rows
from fedsim.results.record.parts import read_table
from fedsim.results.record.schema import (
    ARROW_SCHEMA,
    EVENT_NAMES,
    ROW,
    ROW_DTYPE,
    SCHEMA_WITH_GRAMS,
    Event,
    RowColumns,
)
from tests.tiers import examples


def ignore(_: RowColumns) -> None:
    """Audit nothing."""


def log_in(folder: Path, clients: int = 3) -> EventLog:
    return EventLog(folder, clients, ignore)


def read(folder: Path) -> pd.DataFrame:
    frame: pd.DataFrame = read_table(folder, "events").to_pandas()
    return frame


def test_a_row_comes_back_as_it_was_appended(tmp_path: Path) -> None:
    log = log_in(tmp_path)
    word, detail = log.word("iterate"), log.word("kept")
    log.append(1.5, 0.5, Event.SEND, 2, -1, 7, word, 100, 120, 3, 0.25, 0.5, detail, 6.0, 2.0)
    log.close()
    (row,) = read(tmp_path).to_dict("records")
    assert row == {
        "seq": 0, "t": 1.5, "duration": 0.5, "event": "send", "node": "client-2",
        "peer": "server", "round": 7, "message": "iterate", "payload_bits": 100,
        "header_bits": 120, "transport_bits": 3, "joules": 0.25, "state_of_charge": 0.5,
        "operations": 6.0, "samples": 2.0, "detail": "kept",
    }  # fmt: skip


def test_what_a_row_does_not_have_is_null(tmp_path: Path) -> None:
    log = log_in(tmp_path)
    log.append(0.0, 0.0, Event.STOP, -1)
    log.close()
    row = read(tmp_path).iloc[0]
    assert row[["peer", "message", "state_of_charge", "detail"]].isna().all()


def test_a_message_has_a_row_at_either_end(tmp_path: Path) -> None:
    log = log_in(tmp_path)
    log.append_message(2.0, 0.5, 1, -1, 4, log.word("innovation"), 64, 120, 24, 0.75, 0.0)
    log.close()
    rows = read(tmp_path)
    assert rows["event"].tolist() == ["send", "receive"]
    assert rows["node"].tolist() == ["client-1", "server"]
    assert rows["peer"].tolist() == ["server", "client-1"]
    assert rows["joules"].tolist() == [0.75, 0.0]
    same = ["t", "duration", "round", "message", "payload_bits", "header_bits", "transport_bits"]
    assert rows[same].drop_duplicates().shape[0] == 1


@examples(50)
@given(st.lists(st.booleans(), max_size=60))
def test_messages_and_other_rows_keep_their_order(kinds: list[bool]) -> None:
    """Each message becomes two rows in place, whatever stands around it."""
    seen: list[Rows] = []
    with TemporaryDirectory() as folder:
        log = EventLog(Path(folder), 3, lambda rows: seen.append(rows.pack()))
        for at, message in enumerate(kinds):
            if message:
                log.append_message(float(at), 0.0, 1, -1, 1, log.word("m"), at, 120, 0, 0.5, 0.25)
            else:
                log.append(float(at), 0.0, Event.COMPUTE, 2, joules=2.0)
        log.close()
    rows = [tuple(row[["t", "event", "node", "joules"]]) for chunk in seen for row in chunk]
    expected: list[tuple[float, int, int, float]] = []
    for at, message in enumerate(kinds):
        if message:
            expected += [(at, Event.SEND, 1, 0.5), (at, Event.RECEIVE, -1, 0.25)]
        else:
            expected.append((at, Event.COMPUTE, 2, 2.0))
    assert rows == expected


def test_categories_are_pandas_categoricals(tmp_path: Path) -> None:
    log = log_in(tmp_path)
    log.append(0.0, 0.0, Event.ROUND, -1)
    log.close()
    kinds = read(tmp_path).dtypes
    for name in ("event", "node", "peer", "message", "detail"):
        assert isinstance(kinds[name], pd.CategoricalDtype)


def test_only_the_names_of_nodes_that_are_in_a_chunk_are_written_with_it(tmp_path: Path) -> None:
    log = log_in(tmp_path, clients=1_000_000)
    pairs = [(-1, 999_999), (3, -1), (999_999, -2), (70_000, 3)]
    for node, peer in pairs:
        log.append(0.0, 0.0, Event.SEND, node, peer)
        log.flush()
    log.append(0.0, 0.0, Event.COMPUTE, 3)
    log.close()
    table = read_table(tmp_path, "events")
    seen = read(tmp_path)
    named = [(node_name(node), None if peer == -2 else node_name(peer)) for node, peer in pairs]
    written = seen[["node", "peer"]].astype(object).where(seen[["node", "peer"]].notna(), None)
    assert [*written.itertuples(index=False, name=None)] == [*named, ("client-3", None)]
    assert set(table["node"].combine_chunks().dictionary.to_pylist()) == {
        name for pair in named for name in pair if name is not None
    }


def test_the_log_can_be_read_while_the_run_goes_on_and_after_a_kill(tmp_path: Path) -> None:
    log = log_in(tmp_path)
    for number in range(1000):
        log.append(float(number), 0.0, Event.COMPUTE, 0)
    assert not (tmp_path / "events.parquet").exists()
    seen = read(tmp_path)
    assert 0 < len(seen) <= 1000
    assert seen["seq"].tolist() == list(range(len(seen)))
    log.close()
    assert len(read(tmp_path)) == 1000
    assert not (tmp_path / "events.parts").exists()


def test_a_part_that_was_being_written_is_not_read(tmp_path: Path) -> None:
    log = log_in(tmp_path)
    for number in range(300):
        log.append(float(number), 0.0, Event.COMPUTE, 0)
    (tmp_path / "events.parts" / "part-000001.aside").write_bytes(b"PAR1 half a file")
    assert len(read(tmp_path)) == 256


def test_memory_holds_one_chunk_at_most(tmp_path: Path) -> None:
    log, largest = log_in(tmp_path), 0
    for number in range(200_000):
        log.append(float(number), 0.0, Event.COMPUTE, number % 3)
        largest = max(largest, len(log._buffer))
    assert largest <= 65536 * ROW.size
    log.close()
    frame = read(tmp_path)
    assert frame["seq"].tolist() == list(range(200_000))
    assert frame["t"].is_monotonic_increasing


def test_the_same_rows_give_the_same_bytes_and_other_rows_another_hash(tmp_path: Path) -> None:
    hashes, files = [], []
    for number, joules in enumerate([1.0, 1.0, 1.0 + 2**-52]):
        folder = tmp_path / str(number)
        folder.mkdir()
        log = log_in(folder)
        for at in range(5000):
            last = joules if at == 4999 else 1.0
            log.append(float(at), 0.0, Event.COMPUTE, 1, joules=last, detail=log.word("x"))
        hashes.append(log.sha256)  # also of the last rows, which are still in memory
        log.close()
        assert log.sha256 == hashes[-1]
        files.append((folder / "events.parquet").read_bytes())
    assert hashes[0] == hashes[1] != hashes[2]
    assert files[0] == files[1] != files[2]


@examples(30)
@given(st.lists(st.text(max_size=8), max_size=20))
def test_words_are_numbered_once_and_nothing_is_below_zero(words: list[str]) -> None:
    log = EventLog(Path("unused"), 1, ignore)
    numbers = {word: log.word(word) for word in words}
    assert all(log.word(word) == number for word, number in numbers.items())
    assert all((number == -1) == (word == "") for word, number in numbers.items())
    named = [number for word, number in numbers.items() if word]
    assert len(set(named)) == len(named)


def test_the_memory_layout_and_the_table_agree() -> None:
    assert ROW_DTYPE.itemsize == ROW.size
    in_memory = [name for name in ROW_DTYPE.names or () if name != "peer_joules"]
    assert ["seq", *in_memory] == ARROW_SCHEMA.names
    assert [event.name.lower() for event in Event] == EVENT_NAMES


def test_the_schema_s_documentation_names_every_column() -> None:
    from fedsim.results.record import schema  # the module itself is what is read

    listed = [
        line.split("|")[1].strip()
        for line in (schema.__doc__ or "").splitlines()
        if line.startswith("| ")
    ]
    assert listed[1:] == SCHEMA_WITH_GRAMS.names


@pytest.mark.parametrize(("node", "name"), [(-1, "server"), (0, "client-0"), (12, "client-12")])
def test_nodes_have_names(node: int, name: str) -> None:
    assert node_name(node) == name


def test_chunks_reach_the_audit_in_order(tmp_path: Path) -> None:
    seen: list[float] = []
    log = EventLog(tmp_path, 1, lambda rows: seen.extend(rows["t"].tolist()))
    for number in range(1500):
        log.append(float(number), 0.0, Event.COMPUTE, 0)
    log.close()
    assert np.array_equal(seen, np.arange(1500.0))


def test_names_that_a_column_does_not_have_are_not_written_with_it(tmp_path: Path) -> None:
    log = log_in(tmp_path, 300)
    for client in range(200):
        log.append(0.0, 0.0, Event.SEND, client, -1)
    log.append(0.0, 0.0, Event.SEND, -1, 250)
    log.close()
    file = pq.ParquetFile(tmp_path / "events.parquet")
    table = file.read_row_group(0, columns=["node", "peer"])
    (node,), (peer,) = table["node"].chunks, table["peer"].chunks
    assert node.dictionary.to_pylist() == ["server", *map(node_name, range(200))]
    assert peer.dictionary.to_pylist() == ["server", "client-250"]
    assert peer.to_pylist() == [*["server"] * 200, "client-250"]


def test_chunks_grow_with_the_log(tmp_path: Path) -> None:
    """So that a short run is seen soon, and a long one has few of them: 256, 1024, 4096 rows."""
    log = log_in(tmp_path)
    for number in range(256 * (1 + 4 + 16) + 1):
        log.append(float(number), 0.0, Event.STOP, -1)
    log.close()
    told = pq.ParquetFile(tmp_path / "events.parquet").metadata
    groups = [told.row_group(number).num_rows for number in range(told.num_row_groups)]
    assert groups == [256, 1024, 4096, 1]


def test_parts_are_read_in_the_order_in_which_they_were_written(tmp_path: Path) -> None:
    log = log_in(tmp_path)
    times = [float(number) for number in range(12)]
    for t in times:
        log.append(t, 0.0, Event.COMPUTE, 2)
        log.flush()
    parts = sorted(path.name for path in (tmp_path / "events.parts").iterdir())
    assert [name.split("-")[1] for name in parts] == [f"{number:06d}" for number in range(12)]
    assert read(tmp_path)["t"].tolist() == times  # the run goes on
    log.close()
    assert read(tmp_path)["t"].tolist() == times


def test_columns_that_are_always_filled_say_so_in_the_file(tmp_path: Path) -> None:
    writer = log_in(tmp_path)
    writer.append(1.0, 0.5, Event.COMPUTE, 2, operations=3.0)
    writer.close()
    schema = pq.read_schema(tmp_path / "events.parquet")
    assert {field.name for field in schema if field.nullable} == {"peer", "message", "detail"}
