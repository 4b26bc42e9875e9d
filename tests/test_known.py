"""The page of five papers shows what its commands print, and has every file of scenarios/known."""

import re
from pathlib import Path

import pytest
from typer.testing import CliRunner

import fedsim
from fedsim.cli import app
from tests.conftest import ROOT
from tests.test_readme import words

KNOWN = {path.stem: path for path in sorted((ROOT / "scenarios/known").glob("*.yaml"))}
PAGE = (ROOT / "docs/howto/five-papers.md").read_text(encoding="utf-8")
SHOWN = r"^    fedsim run (\S+)\n\n```\n(.*?)^```$"
TABLES = dict(re.findall(SHOWN, PAGE, re.DOTALL | re.MULTILINE))


def test_the_page_has_every_file() -> None:
    assert set(TABLES) == set(KNOWN)
    for path in KNOWN.values():
        assert f"`{path.relative_to(ROOT)}`" in PAGE
    assert len(re.findall(r"\(https://arxiv\.org/abs/\d{4}\.\d{5}\)", PAGE)) == len(KNOWN)


def test_their_data_are_those_that_scikit_learn_ships() -> None:
    for path in KNOWN.values():
        for variant in fedsim.load(path).variants:
            data = variant.scenario.problem.data
            assert data is not None
            assert data.kind == "sklearn"


@pytest.mark.slow
@pytest.mark.parametrize("name", KNOWN)
def test_the_command_prints_the_table(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "100")
    done = CliRunner().invoke(app, ["run", name, "-q"])
    assert done.exit_code == 0, done.output
    printed = words(done.stdout)
    head = next(place for place, line in enumerate(printed) if line[:1] == [f"{name}:"])
    tail = printed.index(["final", "model", "quality"])
    assert printed[head:tail] == words(TABLES[name])
