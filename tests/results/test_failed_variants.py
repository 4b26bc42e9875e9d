"""A variant whose runs failed is named first with the reason, and has no costs anywhere."""

import json
from pathlib import Path
from typing import Literal

import pytest
from typer.testing import CliRunner

import fedsim
from fedsim.algorithms import GradientDescent
from fedsim.algorithms.censored import Iterate
from fedsim.cli import app
from fedsim.core.ports import Server
from fedsim.results.analysis import Comparison
from fedsim.results.report import overview
from fedsim.results.report.study import ReportedStudy
from tests.runs import small


class NoCommit(GradientDescent):
    """Asks for gradients, and forgets the commit."""

    kind: Literal["no-commit"] = "no-commit"  # type: ignore[assignment]

    async def serve(self, server: Server) -> None:
        while True:
            await server.exchange(Iterate(server.pack(server.initial)))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory, own_cache: Path) -> Path:
    place = tmp_path_factory.mktemp("failed")
    variants = {
        "wrong": {"algorithm": {"kind": "no-commit"}},
        "slow": {"algorithm": {"step_size": "0.2/L"}},
        "fast": {},
    }
    scenario = small(
        algorithm={"kind": "gd", "step_size": "1/L"},
        stop={"rounds": 200, "gap": 2000},
        variants=variants,
    )
    fedsim.run(scenario, out=place, blocks=[NoCommit], check=False)
    return place


def test_the_page_names_it_first_and_shows_no_costs(folder: Path) -> None:
    study = ReportedStudy(Comparison.of([folder]))
    first, second = (answer.text for answer in [*overview.answers(study)][:2])
    assert first.startswith("wrong (no-commit) failed: round 1 does not close")
    assert "fast" in second
    assert "wrong" not in second
    table = next(iter(overview.tables(study)))
    cells = {row[0].text: [cell.text for cell in row[1:]] for row in table.rows}
    (wrong,) = (texts for name, texts in cells.items() if name.startswith("wrong"))
    assert wrong.count("failed") >= 5  # time, energy, rounds and bits
    assert all("failed" not in texts for name, texts in cells.items() if "wrong" not in name)


def test_compare_writes_no_costs_of_it(folder: Path) -> None:
    done = CliRunner().invoke(app, ["compare", str(folder), "--json"])
    assert done.exit_code == 0
    written = json.dumps(json.loads(done.stdout)["answers"])
    assert "wrong" not in written


@pytest.mark.slow
def test_compare_prints_it_on_standard_output_above_its_tables(
    folder: Path, tmp_path: Path
) -> None:
    ended = CliRunner().invoke(app, ["compare", str(folder), "--out", str(tmp_path / "out")])
    assert ended.exit_code == 0, ended.output
    lines = ended.stdout.splitlines()
    (place,) = (
        number
        for number, line in enumerate(lines)
        if line.startswith("wrong (no-commit), seed 1: ")
    )
    (answer,) = (
        n for n, line in enumerate(lines) if line.startswith("fast (gd) reaches a gap below")
    )
    assert place < answer
    assert "wrong (no-commit), seed 1: " not in ended.stderr
    comparison = Comparison.of([folder], against="wrong")  # a baseline without costs
    assert comparison.answers == Comparison.of([folder]).answers
