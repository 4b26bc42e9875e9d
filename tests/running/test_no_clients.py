"""A run that no client is left for is not done: every command says so, above its tables."""

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

import fedsim
from fedsim.cli import app
from fedsim.results.record.summary import ENDS, NO_CLIENTS, end_of
from tests.runs import small


def invoke(*words: str | Path) -> Result:
    return CliRunner().invoke(app, [str(word) for word in words])


def dying() -> dict[str, Any]:
    """Return a scenario of one client that lasts for a few of ten rounds, and one that lasts."""
    short = {"capacity": "1e-3 Wh", "charge": "25 %"}
    group = {"count": 5, "device": "pi-4", "radio": "wifi"}
    lasting = {**short, "capacity": "1 Wh"}
    return small(
        algorithm={"kind": "gd", "step_size": "1/L"},
        fleet=[{**group, "battery": short}],
        stop={"rounds": 10},
        variants={"lasting": {"fleet": [{**group, "battery": lasting}]}},
    )


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Result]:
    folder = tmp_path_factory.mktemp("dying")
    path = folder / "dying.yaml"
    path.write_text(json.dumps(dying()))
    return folder / "out", invoke("run", path, "--out", folder / "out")


def test_the_run_says_so_above_its_tables_and_with_its_exit_code(
    study: tuple[Path, Result],
) -> None:
    out, command = study
    assert command.exit_code == end_of(NO_CLIENTS).code == 1
    head = (
        "base (gd), seed 1: no-clients: no client can take part any more: charge too low (5;"
        " threshold 20 %)"
    )
    said = " ".join(command.output.split())
    assert head in said
    assert said.index(head) < said.index("cost of the whole run")
    ends = {row["variant"]: row["status"] for row in fedsim.open(out).summary.to_dict("records")}
    assert ends == {"base": "no-clients", "lasting": "done"}


@pytest.mark.slow
def test_it_does_not_count_as_the_cheapest_whole_run(study: tuple[Path, Result]) -> None:
    out, _ = study
    result = fedsim.open(out)
    rounds = result.summary.set_index("variant")["rounds"]
    assert 0 < rounds["base"] < rounds["lasting"] == 10
    costs = fedsim.results.analysis.Target.usual(result).costs(result).set_index("variant")
    assert costs["reached"].to_dict() == {"base": False, "lasting": True}
    compared = invoke("compare", out)
    assert compared.exit_code == 0
    said = " ".join(compared.output.split())
    assert said.index("no-clients: no client") < said.index("cost of the whole run")
    assert said.count("no-clients: no client") == 1


def test_status_and_notes_say_it_and_the_run_is_kept(study: tuple[Path, Result]) -> None:
    out, _ = study
    shown = invoke("status", out)
    assert "all runs have ended" in shown.output
    assert "base, seed 1: no-clients" in " ".join(shown.output.split())
    notes = fedsim.open(out).notes
    assert [(note.about, note.key) for note in notes] == [("base, seed 1", "clients")]
    assert "base (gd) (no clients left)" in " ".join(str(fedsim.open(out)).split())


def test_every_state_that_is_no_error_is_documented() -> None:
    page = Path("docs/errors.md").read_text()
    rows = [f"| `{status}` | " for status in ENDS]
    assert all(row in page for row in rows)
