"""The table of the split: samples and label shares, of each client or of groups of them."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rich.console import Console
from rich.table import Table

from fedsim.cli.job_table import split_table
from tests.scenario.building.plans import job

Cells = dict[str, list[str]]


def split(
    folder: Path, y: list[float], client: list[int], groups: tuple[int, ...] = (), **more: Any
) -> Table:
    """Return the table for rows with these labels and clients."""
    np.savez(folder / "rows.npz", X=np.eye(len(y)), y=np.array(y), client=np.array(client))
    problem = {
        "loss": {"kind": "squared", "l2": 1.0},
        "data": {"kind": "npz", "path": "rows.npz"},
        "split": {"kind": "groups"},
    }
    fleet = [{"count": count} for count in groups]
    return split_table(job(folder, problem=problem | more, fleet=fleet))


def cells(table: Table) -> Cells:
    """Return the rows of a table by what their first cell says, the header among them."""
    columns = [[str(column.header), *map(str, column.cells)] for column in table.columns]
    return {name: list(row) for name, *row in zip(*columns, strict=True)}


def test_few_clients_have_a_column_each(tmp_path: Path) -> None:
    table = split(tmp_path, [1, 1, 1, -1, 1, -1, -1], [0, 0, 0, 0, 5, 5, 5])
    assert table.title == "split groups: 7 samples over 2 clients"
    assert cells(table) == {
        "": ["client 0", "client 1"],
        "samples": ["4", "3"],
        "label -1": ["25 %", "67 %"],
        "label 1": ["75 %", "33 %"],
    }


def test_many_clients_are_summed_up_by_group(tmp_path: Path) -> None:
    # Clients 0..5 have 1..6 rows, of which one is labelled 1; the others have two, labelled 0.
    client = [m for m in range(6) for _ in range(m + 1)] + [m for m in range(6, 9) for _ in "ab"]
    y = [float(row == 0 or client[row] != client[row - 1]) for row in range(21)] + [0.0] * 6
    table = split(tmp_path, y, client, groups=(6, 3))
    assert cells(table) == {
        "min / median / max": ["group 0", "group 1"],
        "samples": ["1 / 4 / 6", "2"],
        "label 0": ["0 / 71 / 83 %", "100 %"],
        "label 1": ["17 / 29 / 100 %", "0 %"],
    }


def test_shares_of_a_client_add_up(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    y, client = rng.integers(4, size=400), rng.integers(3, size=400)
    table = cells(split(tmp_path, y.tolist(), client.tolist()))
    for m in range(3):
        shares = [int(table[f"label {label}"][m].removesuffix(" %")) for label in range(4)]
        assert shares == [round(100 * float(np.mean(y[client == m] == k))) for k in range(4)]


@pytest.mark.parametrize(("distinct", "shown"), [(20, 20), (21, 0)])
def test_labels_are_shown_where_they_are_few(distinct: int, shown: int, tmp_path: Path) -> None:
    y = [number / 2 for number in range(distinct)]
    table = cells(split(tmp_path, y, [0] * distinct))
    assert sum(name.startswith("label") for name in table) == shown


def test_rows_to_test_on_are_counted(tmp_path: Path) -> None:
    test = {"kind": "npz", "path": "rows.npz"}
    table = split(tmp_path, [0, 1, 1], [0, 1, 1], test=test)
    assert table.title == "split groups: 3 samples over 2 clients, 3 for testing"


def test_the_table_fits_a_modest_terminal(tmp_path: Path) -> None:
    y, client = [k % 10 for k in range(80)], [k // 10 for k in range(80)]
    console = Console(width=100)
    with console.capture() as captured:
        console.print(split(tmp_path, [float(k) for k in y], client))
    assert "..." not in captured.get()
    assert "\u2026" not in captured.get()
    assert sum("client 7" in line for line in captured.get().splitlines()) == 1
