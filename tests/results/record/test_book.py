"""The book of a run: whole and audited where the world has ended, readable parts where not."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from fedsim.core.errors import AuditError
from fedsim.core.ports import SERVER
from fedsim.results.record.ledger import Meters
from fedsim.results.record.models import ModelTable
from fedsim.results.record.parts import PartWriter, read_table
from fedsim.results.record.recorder import RunRecorder
from fedsim.results.record.rounds import Traffic
from fedsim.results.record.schema import Event, RowColumns

TABLES = "events", "rounds", "models"


def book_in(folder: Path, look: Callable[[RowColumns], None] = lambda _: None) -> RunRecorder:
    return RunRecorder(
        folder, 2, "censored", 7, ModelTable(PartWriter(folder, "models"), (1,), 1), look
    )


def write(book: RunRecorder, joules: float = 3.0) -> None:
    """Write one round, in which client 1 has worked."""
    book.log.append(1.0, 1.0, Event.COMPUTE, 1, joules=joules)
    book.log.append(1.0, 0.0, Event.ROUND, SERVER, round_number=1)
    book.rounds.add(1, 1.0, Traffic(), objective=1.0, gap=0.5, measures={})
    book.models.see(1, np.ones(1), lambda _: 1.0)


def meters(joules: float = 3.0) -> Meters:
    return Meters(0, 0, 0, 0, 0, np.array([0.0, joules]), np.zeros(2))


def check_tables(folder: Path, *, whole: bool) -> None:
    for name in TABLES:
        assert (folder / f"{name}.parquet").exists() == whole
        assert (folder / f"{name}.parts").exists() != whole
        assert len(read_table(folder, name)) == (2 if name == "events" else 1)
    assert read_table(folder, "rounds")["variant"].to_pylist() == ["censored"]
    assert read_table(folder, "rounds")["seed"].to_pylist() == [7]


def test_a_run_that_has_ended_is_audited_and_its_tables_are_whole(tmp_path: Path) -> None:
    with book_in(tmp_path) as book:
        write(book)
        book.end(meters())
    check_tables(tmp_path, whole=True)


def test_tables_that_the_audit_refuses_are_whole_all_the_same(tmp_path: Path) -> None:
    def fail() -> None:
        with book_in(tmp_path) as book:
            write(book)
            book.end(meters(4.0))

    with pytest.raises(AuditError, match=r"client-1: 3\.0 logged, 4\.0 metered"):
        fail()
    check_tables(tmp_path, whole=True)


@pytest.mark.parametrize("error", [KeyboardInterrupt, ValueError])
@pytest.mark.parametrize("ended", [True, False])
def test_an_error_leaves_parts_that_can_be_read_and_no_audit_hides_it(
    error: type[BaseException], ended: bool, tmp_path: Path
) -> None:
    def fail() -> None:
        with book_in(tmp_path) as book:
            write(book)
            if ended:
                book.end(meters(4.0))
            raise error

    with pytest.raises(error):
        fail()
    check_tables(tmp_path, whole=False)


def test_a_world_that_has_not_ended_is_not_told_to_have(tmp_path: Path) -> None:
    with book_in(tmp_path) as book:
        write(book)
    check_tables(tmp_path, whole=False)


def test_an_error_while_the_tables_are_closed_leaves_parts(tmp_path: Path) -> None:
    def look(_: RowColumns) -> None:
        raise KeyboardInterrupt

    def fail() -> None:
        with book_in(tmp_path, look) as book:
            write(book)
            book.end(meters())

    with pytest.raises(KeyboardInterrupt):
        fail()
    assert not list(tmp_path.glob("*.parquet"))
    assert len(read_table(tmp_path, "rounds")) == 1


def test_the_clients_so_far_are_those_of_the_log_so_far(tmp_path: Path) -> None:
    seen: list[int] = []
    with book_in(tmp_path, lambda rows: seen.append(len(rows))) as book:
        for turn in (1, 2):
            write(book)
            table = book.clients({"group": [0, 1]}, meters(3.0 * turn))
            assert table["compute_joules"].tolist() == [0.0, 3.0 * turn]
            assert table["group"].tolist() == [0, 1]
            assert seen == [2] * turn
