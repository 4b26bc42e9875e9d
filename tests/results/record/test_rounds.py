"""The round table: costs by difference, on disk soon, whole at the end."""

from math import nan
from pathlib import Path
from tempfile import TemporaryDirectory

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedsim.core.errors import DataError
from fedsim.results.record.parts import PartWriter, read_table
from fedsim.results.record.read import run_folders
from fedsim.results.record.rounds import RoundTable, Traffic
from tests.tiers import examples

COSTS = ("cohort", "transmissions", "beacons", "bits_up", "bits_down", "joules")


def add(table: RoundTable, traffic: Traffic) -> None:
    number = table.rounds + 1
    table.add(number, float(number), traffic, objective=1.0, gap=0.5, measures={})


@examples(30)
@given(st.lists(st.integers(0, 1000), min_size=1, max_size=20))
def test_the_costs_of_all_rounds_add_up_to_the_totals(steps: list[int]) -> None:
    traffic = Traffic()
    with TemporaryDirectory() as folder:
        table = RoundTable(PartWriter(Path(folder), "rounds"), "base", 1)
        for step in steps:
            traffic.cohort += 1
            traffic.transmissions += step
            traffic.bits_up += 8 * step
            traffic.joules += step / 4
            add(table, traffic)
        table.close()
        frame = read_table(Path(folder), "rounds").to_pandas()
    assert frame["transmissions"].tolist() == steps
    assert frame[list(COSTS)].sum().to_dict() == traffic.as_dict()
    assert frame["round"].tolist() == list(range(1, len(steps) + 1))


def test_a_slow_run_shows_its_rounds_before_it_ends(tmp_path: Path) -> None:
    table = RoundTable(PartWriter(tmp_path, "rounds"), "base", 1)
    for _ in range(100):
        add(table, Traffic())
    assert not (tmp_path / "rounds.parquet").exists()
    assert len(read_table(tmp_path, "rounds")) == 64
    table.close()
    assert len(read_table(tmp_path, "rounds")) == 100


def test_columns_stand_in_order_where_a_round_lacks_some(tmp_path: Path) -> None:
    """A method may give a figure of its own in some rounds alone: it stands before the costs."""
    table = RoundTable(PartWriter(tmp_path, "rounds"), "base", 1)
    for number in range(3):
        figures = {"drift": 0.25} if number == 1 else {}
        table.add(1 + number, 1.0 + number, Traffic(), objective=1.0, gap=0.5, measures=figures)
    table.close()
    columns = read_table(tmp_path, "rounds").column_names
    assert columns.index("gap") < columns.index("drift") < columns.index(COSTS[0])


def test_rounds_that_nothing_has_evaluated_wait_on_disk_for_the_columns_of_the_last(
    tmp_path: Path,
) -> None:
    """The observer may look at the last model alone, and the method may give a figure late."""
    table = RoundTable(PartWriter(tmp_path, "rounds"), "base", 1)
    traffic = Traffic()
    rounds = 64 + 256 + 1024 + 10
    for number in range(1, rounds + 1):
        traffic.bits_up += number
        figures = {"drift": 0.5} if number > 100 else {}
        table.add(number, 1.0, traffic, objective=nan, gap=nan, measures=figures, complete=False)
    assert len(table._rows) == 10
    early = read_table(tmp_path, "rounds")
    assert early["round"].to_pylist() == list(range(1, rounds - 9))
    assert not (tmp_path / "rounds.parquet").exists()
    table.amend(objective=2.0, gap=1.0, measures={"accuracy": 0.75})
    table.close()
    whole = read_table(tmp_path, "rounds")
    assert whole["round"].to_pylist() == list(range(1, rounds + 1))
    assert whole["bits_up"].to_pylist() == list(range(1, rounds + 1))
    assert whole["drift"].to_pylist() == [None] * 100 + [0.5] * (rounds - 100)
    assert whole["accuracy"].to_pylist() == [None] * (rounds - 1) + [0.75]
    assert whole["objective"].to_pylist()[-1] == 2.0
    for names in (early.column_names, whole.column_names):
        assert names.index("gap") < names.index("drift") < names.index(COSTS[0])
    assert not (tmp_path / "rounds.parts").exists()


def test_a_figure_of_early_rounds_may_be_whole(tmp_path: Path) -> None:
    table = RoundTable(PartWriter(tmp_path, "rounds"), "base", 1)
    for number in range(70):
        figures = {"drift": number if number < 64 else 0.5}
        table.add(
            number, 1.0, Traffic(), objective=1, gap=0.5, measures=figures, complete=number > 65
        )
    table.close()
    assert read_table(tmp_path, "rounds")["drift"].to_pylist() == [
        *map(float, range(64)),
        *6 * [0.5],
    ]


def test_rounds_that_are_changed_on_disk_before_the_table_is_whole_are_refused(
    tmp_path: Path,
) -> None:
    table = RoundTable(PartWriter(tmp_path, "rounds"), "base", 1)
    for number in range(70):
        table.add(number, 1.0, Traffic(), objective=nan, gap=nan, measures={}, complete=False)
    (part,) = (tmp_path / "rounds.parts").iterdir()
    part.write_bytes(part.read_bytes()[:-1])
    with pytest.raises(DataError, match=r"part-000000-.* is damaged"):
        table.close()
    table.abandon()
    assert not (tmp_path / "rounds.parquet").exists()


def test_the_first_row_is_the_start_which_costs_nothing_and_is_no_round(tmp_path: Path) -> None:
    table = RoundTable(PartWriter(tmp_path, "rounds"), "base", 1)
    traffic = Traffic()
    table.add(0, 0.0, traffic, objective=4.0, gap=3.0, measures={}, complete=False)
    assert table.rounds == 0
    traffic.bits_up += 8
    table.add(1, 2.5, traffic, objective=1.0, gap=0.5, measures={"drift": 0.25})
    table.close()
    whole = read_table(tmp_path, "rounds").to_pandas()
    assert whole["round"].tolist() == [0, 1]
    assert whole["t"].tolist() == [0.0, 2.5]
    assert whole["bits_up"].tolist() == [0, 8]
    assert whole["objective"].tolist() == [4.0, 1.0]
    assert whole["drift"].isna().tolist() == [True, False]


def test_measures_become_columns(tmp_path: Path) -> None:
    table = RoundTable(PartWriter(tmp_path, "rounds"), "base", 1)
    table.add(1, 1.0, Traffic(), objective=1.0, gap=0.5, measures={"drift": 0.25})
    table.close()
    assert read_table(tmp_path, "rounds")["drift"].to_pylist() == [0.25]


@pytest.mark.parametrize("name", ["round", "t", *COSTS])
def test_a_round_table_that_lacks_a_count_or_a_cost_is_damaged(name: str, tmp_path: Path) -> None:
    whole: dict[str, list[float | None]] = {
        key: [1, 2] for key in ("round", "t", "objective", "gap", *COSTS)
    }
    pq.write_table(pa.table(whole), tmp_path / "rounds.parquet")
    assert read_table(tmp_path, "rounds").num_rows == 2
    pq.write_table(pa.table(whole | {name: [1, None]}), tmp_path / "rounds.parquet")
    with pytest.raises(DataError, match=f"column {name} lacks values"):
        read_table(tmp_path, "rounds")


def test_a_run_without_a_round_has_the_columns_of_one_that_has_some(tmp_path: Path) -> None:
    schemas = []
    for rounds in (0, 1):
        table = RoundTable(PartWriter(tmp_path / str(rounds), "rounds"), "base", 1)
        for _ in range(rounds):
            add(table, Traffic())
        table.close()
        schemas.append(read_table(tmp_path / str(rounds), "rounds").schema)
    none, some = ({field.name: field.type for field in schema} for schema in schemas)
    assert {"transmissions", "beacons", "joules"} <= none.keys()
    assert none == {name: some[name] for name in none}
    assert some.keys() - none.keys() <= {"seed", "algorithm"}


@pytest.mark.parametrize(
    "name", ["events.parquet", "events.parts", "manifest.json", "summary.json"]
)
def test_a_run_counts_as_begun_from_its_first_file_on(name: str, tmp_path: Path) -> None:
    run = tmp_path / "base" / "seed-1"
    run.mkdir(parents=True)
    assert run_folders(tmp_path) == []
    (run / name).touch()
    assert run_folders(tmp_path) == [run]
