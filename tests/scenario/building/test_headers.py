"""What readers of files chose is a note of the run, and clients that are not in the fleet, too."""

from pathlib import Path
from typing import Any

import pytest

import fedsim
from fedsim.core.errors import ScenarioError
from fedsim.results.record.scenarios import Note
from fedsim.running.check import preflight_notes
from fedsim.scenario import load
from fedsim.scenario.building import Builder
from tests.runs import small

PEERS = {"kind": "d-psgd", "step_size": 0.1}
ROWS = {
    "intervals": ("client,start,end", "{0},0,1000"),
    "contacts": ("source,target,begin,end", "{0},{1},0,1000"),
    "positions": ("client,time,x,y", "{0},0,{0},0"),
}


def scenario(kind: str, path: Path) -> dict[str, Any]:
    """Return a scenario of three clients that follow a file."""
    fleet: dict[str, Any] = {"count": 3, "radio": "wifi"}
    if kind == "intervals":
        fleet["availability"] = {"kind": kind, "path": str(path)}
        return small(fleet=[fleet], participation={"kind": "full", "deadline": "10 s"})
    law = {"kind": kind, "path": str(path)}
    if kind == "positions":
        law |= {"range": "100 m", "every": "1 s"}
    return small(fleet=[fleet], algorithm=PEERS, network={"peers": law})


def notes(kind: str, folder: Path, clients: list[int]) -> list[Note]:
    header, row = ROWS[kind]
    path = folder / "clients.csv"
    pairs = zip(clients, [*clients[1:], clients[0]], strict=True)
    path.write_text("\n".join([header, *(row.format(*pair) for pair in pairs)]) + "\n")
    jobs = Builder(load(scenario(kind, path))).check()
    return [note for note in preflight_notes(jobs) if note.key.endswith(".path")]


@pytest.mark.parametrize("kind", ROWS)
def test_clients_of_a_file_are_those_of_the_fleet_in_every_reader(
    kind: str, tmp_path: Path
) -> None:
    assert notes(kind, tmp_path, [0, 1, 2]) == []
    (note,) = notes(kind, tmp_path, [0, 1, 2, 3, 7])
    assert note.text == (
        "clients.csv: rows of client 3, 7 are left out: the fleet is of clients 0 to 2"
    )
    with pytest.raises(ScenarioError, match="got clients of 1 to 3; count them from 0"):
        notes(kind, tmp_path, [1, 2, 3])


@pytest.mark.parametrize("kind", ["intervals", "contacts"])
def test_a_client_without_a_row_is_noted(kind: str, tmp_path: Path) -> None:
    (note,) = notes(kind, tmp_path, [0, 2])
    assert note.text == "clients.csv: no row of client 1, of clients 0 to 2"


def test_a_file_that_groups_share_says_what_it_is_once(tmp_path: Path) -> None:
    """The second group's clients have rows of their own, and need none of the first's."""
    path = tmp_path / "rate.csv"
    path.write_text("time_s,bandwidth_kbps\n0,20\n1,30\n")
    trace = {"kind": "csv", "path": str(path)}
    group = {"count": 1, "device": "pi-4", "radio": {"kind": "wifi", "up_trace": trace}}
    plan = small(fleet=[group, group])
    text = "rate.csv: bandwidth_kbps is converted from kbit/s to Mbit/s"
    for found in (fedsim.check(plan).notes, fedsim.run(plan).notes):
        assert [(note.key, note.text) for note in found if "rate.csv" in note.text] == [
            ("fleet.0.radio.up_trace", text)
        ]


def test_repricing_notes_what_it_reads(tmp_path: Path) -> None:
    group = {"count": 2, "device": "pi-4", "radio": "wifi", "carbon": "DE"}
    fedsim.run(small(fleet=[group]), out=tmp_path / "one")
    path = tmp_path / "grid.csv"
    path.write_text("hours,lbs/MWh\n0,882\n1,900\n")
    law = f"fleet.0.carbon={{kind: hourly, path: {path}}}"
    found = fedsim.reprice(tmp_path / "one", [law], tmp_path / "two")
    said = [note.text for note in found.notes if note.key == "fleet.0.carbon.path"]
    assert said == ["grid.csv: lbs/MWh is converted from lbs/MWh to g/kWh"]
    assert found.summary["grams"].iloc[0] > 0


def test_what_is_chosen_in_a_table_is_a_note_of_the_run(tmp_path: Path) -> None:
    path = tmp_path / "table.csv"
    lines = [f"{n % 7},{n % 5},{n % 2},1" for n in range(40)]
    path.write_text("\n".join(["a,b,y,same", *lines]) + "\n")
    problem = {
        "loss": {"kind": "squared", "l2": 1e-2},
        "data": {"kind": "table", "path": str(path), "label": "y"},
        "split": {"kind": "iid", "clients": 2},
    }
    found = fedsim.run(small(problem=problem, fleet=[{"count": 2}]))
    said = [note.text for note in found.notes if note.key == "problem.data"]
    assert any("'same' is left out" in text for text in said)
