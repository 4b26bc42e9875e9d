"""Large chunks of the log are hashed and written on a thread: what is left is the same."""

import threading
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import fedsim
from fedsim.core.ports import Array
from fedsim.results.record.emissions import Emissions
from fedsim.results.record.log import EventLog, Rows
from fedsim.results.record.parts import read_table
from fedsim.results.record.schema import MESSAGE, ROW_DTYPE, Event, RowColumns
from tests.campaigns.faults.operations import met
from tests.disks import Disk
from tests.tiers import examples

LARGE = 65536
"""Records of a chunk that is written on a thread; smaller ones come before."""

BEFORE = 256 + 1024 + 4096 + 16384


def records(count: int) -> Rows:
    """Return records, a third of them messages."""
    made = np.zeros(count, ROW_DTYPE)
    made["t"] = np.arange(count)
    made["event"] = np.where(np.arange(count) % 3, Event.COMPUTE, MESSAGE)
    made["node"], made["peer"] = 1, np.where(np.arange(count) % 3, -2, -1)
    made["message"], made["detail"] = -1, -1
    made["joules"], made["peer_joules"] = np.arange(count) % 7, np.arange(count) % 5
    return made


class Even:
    """Electricity of one intensity."""

    least = most = 300.0

    def averages(self, begins: Array, ends: Array) -> Array:
        """Return it."""
        return np.full(len(begins), self.most)


def ignore(_: RowColumns) -> None:
    """Audit nothing."""


def refused(_: threading.Thread) -> None:
    """Start no thread."""
    raise RuntimeError("can't start new thread")


def test_a_log_written_on_a_thread_is_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    every, written = records(BEFORE + 3 * LARGE + 10), []
    for name in ("thread", "none"):
        (tmp_path / name).mkdir()
        log = EventLog(tmp_path / name, 3, ignore)
        log.extend(every)
        log.close()
        assert log.rows == read_table(tmp_path / name, "events").num_rows
        written.append((log.sha256, (tmp_path / name / "events.parquet").read_bytes()))
        monkeypatch.setattr(threading.Thread, "start", refused)
    assert written[0] == written[1]


def test_a_log_that_is_given_up_keeps_the_part_that_a_thread_writes(tmp_path: Path) -> None:
    log = EventLog(tmp_path, 3, ignore)
    log.extend(records(BEFORE + 2 * LARGE + 10))
    log.abandon()
    assert [path.name for path in tmp_path.iterdir()] == ["events.parts"]
    table = read_table(tmp_path, "events")
    assert table.num_rows == log.rows
    assert table["seq"].to_pylist() == list(range(log.rows))


@pytest.mark.parametrize("moment", ["write", "close", "rename"])
@pytest.mark.parametrize("then", ["flush", "close"])
def test_a_full_disk_that_a_thread_meets_is_told_and_nothing_follows(
    moment: str, then: str, tmp_path: Path
) -> None:
    every = records(BEFORE + LARGE + 10)
    log = EventLog(tmp_path, 3, ignore)
    log.extend(every[:BEFORE])
    before = log.rows
    with met(tmp_path, Disk(0, moment)):  # the large part is the first file that it counts
        log.extend(every[BEFORE:])
        for _ in range(2):
            with pytest.raises(fedsim.OutputError, match="No space left on device"):
                log.flush() if then == "flush" else log.close()
            log.extend(every[:1])
    log.abandon()
    assert [path.name for path in tmp_path.iterdir()] == ["events.parts"]
    assert read_table(tmp_path, "events").num_rows == before


@examples(40)
@given(st.lists(st.integers(1, 60), max_size=30), st.integers(1, 9), st.integers(1, 9))
def test_records_that_come_in_any_pieces_are_the_same_log(
    sizes: list[int], small: int, in_cache: int
) -> None:
    """One by one, or many at once: chunks, hash, rows in memory and prices are the same."""
    every, seen = records(sum(sizes)), list[list[Any]]()
    for at_once in (False, True):
        with (
            TemporaryDirectory() as folder,
            patch("fedsim.results.record.log._SMALL", small),
            patch("fedsim.results.record.schema._IN_CACHE", in_cache),
        ):
            log, found, at = EventLog(Path(folder), 3, ignore), list[Any](), 0
            log.emissions = Emissions([Even()], np.zeros(3, np.intp))
            for size in sizes:
                some, at = every[at : at + size], at + size
                for each in [some] if at_once else np.split(some, size):
                    log.extend(each)
                found += [log.records, log.rows, log.pending().tobytes()]
                found.append(log.total_emissions() if size % 2 else None)
            log.close()
            table = read_table(Path(folder), "events") if sizes else None
            seen.append([*found, log.sha256, table])
    assert seen[0] == seen[1]
