"""The round table: costs by difference, on disk soon, whole at the end."""

from pathlib import Path
from tempfile import TemporaryDirectory

from hypothesis import given
from hypothesis import strategies as st

from fedsim.record.parts import PartWriter, read_table
from fedsim.record.rounds import RoundTable, Traffic
from tests.tiers import examples

COSTS = ("cohort", "transmissions", "beacons", "bits_up", "bits_down", "joules")


def add(table: RoundTable, traffic: Traffic) -> None:
    table.add(float(table.rounds), traffic, objective=1.0, gap=0.5, measures={})


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
        table.add(1.0 + number, Traffic(), objective=1.0, gap=0.5, measures=figures)
    table.close()
    columns = read_table(tmp_path, "rounds").column_names
    assert columns.index("gap") < columns.index("drift") < columns.index(COSTS[0])


def test_measures_become_columns(tmp_path: Path) -> None:
    table = RoundTable(PartWriter(tmp_path, "rounds"), "base", 1)
    table.add(1.0, Traffic(), objective=1.0, gap=0.5, measures={"drift": 0.25})
    table.close()
    assert read_table(tmp_path, "rounds")["drift"].to_pylist() == [0.25]
