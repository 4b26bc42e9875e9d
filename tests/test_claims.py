"""Which claims survive: verdicts in closed form, and every claim asked in a reduced form."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from tests.conftest import ROOT
from tests.scripts import script

pytestmark = pytest.mark.filterwarnings("ignore::fedsim.TheoryWarning")

sys.path.insert(0, str(ROOT / "analysis"))  # as for a script that is run there
command = script("claims")
papers, page, figure, explanations, probabilities, verdicts, worlds = (
    sys.modules[f"claim_checks.{name}"]
    for name in ("papers", "page", "figure", "explanations", "probabilities", "verdicts", "worlds")
)
sys.path.remove(str(ROOT / "analysis"))

TUMOURS = "problem.data={kind: sklearn, name: breast-cancer, preprocess: [standardise]}"
NEEDS = {"chb-ijcnn1-linear": [TUMOURS]}
"""What a scenario has to have in the place of a file that is not here."""


@pytest.mark.parametrize(
    ("ratios", "verdict"),
    [
        ([3.0], "survives"),
        ([1.01], "tie"),
        ([0.5, 0.6], "reversed"),
        ([0.9, 4.0, 4.0], "tie"),
        ([2.0, float("nan")], "not reached"),
        ([], "not reached"),
    ],
)
def test_what_ratios_of_seeds_come_to(ratios: list[float], verdict: str) -> None:
    assert verdicts.Cell.of(ratios).verdict == verdict


def test_from_five_seeds_on_the_interval_is_students_of_the_logarithms() -> None:
    logs = np.array([0.1, 0.4, 0.3, 0.7, 0.2])
    cell = verdicts.Cell.of(np.exp(logs).tolist())
    low, high = stats.t.interval(0.95, 4, loc=logs.mean(), scale=stats.sem(logs))
    assert np.log([cell.ratio, cell.low, cell.high]) == pytest.approx([logs.mean(), low, high])


def test_rounds_that_break_the_constraint_are_what_is_counted() -> None:
    rounds = pd.DataFrame(
        {
            "variant": ["base"] * 3 + ["soft"] * 2,
            "seed": 1,
            "round": [1, 2, 3, 1, 2],
            "violated": [1, 0, 1, 1, 0],
            "t": [2.0, 3.0, 7.0, 1.0, 9.0],
            "transmissions": 10,
            "bits_up": 100,
            "bits_down": 1,
            "joules": [1.0, 2.0, 4.0, 8.0, 16.0],
        }
    )
    table = papers.while_broken(SimpleNamespace(rounds=rounds)).set_index("variant")
    assert table.loc["base", ["round", "transmissions", "t", "joules"]].tolist() == [2, 20, 6, 5]
    assert table.loc["soft", ["round", "bits_up", "t", "joules"]].tolist() == [1, 100, 1, 8]


@contextmanager
def only(*radios: str) -> Iterator[None]:
    """Ask on some radios alone."""
    every = dict(papers.RADIOS)
    for radio in every.keys() - {*radios}:
        del papers.RADIOS[radio]
    try:
        yield
    finally:
        papers.RADIOS.clear()
        papers.RADIOS.update(every)


@pytest.fixture(scope="module")
def asked(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Return the answers to every claim on two radios, after a few rounds."""
    found = {}
    with only("lte", "nb-iot"):
        for key, claim in papers.CLAIMS.items():
            out = tmp_path_factory.mktemp(key)
            changed = ["stop.rounds=4", "seeds=1", *NEEDS.get(claim.scenario, [])]
            found[key] = [
                explanations.answer(claim, *each) for each in worlds.runs(claim, out, changed)
            ]
    return found


@pytest.mark.slow
def test_every_claim_is_asked_in_every_world(asked: dict[str, Any]) -> None:
    for key, claim in papers.CLAIMS.items():
        silences = ("beacon", "deadline") if claim.silent else ("beacon",)
        wanted = [(radio, silence) for radio in ("lte", "nb-iot") for silence in silences]
        assert [tuple(each.world) for each in asked[key]] == wanted


@pytest.mark.slow
def test_a_claim_is_asked_in_many_worlds_where_those_take_no_training(
    asked: dict[str, Any],
) -> None:
    for key in papers.CLAIMS:
        for each in asked[key]:
            there = each.world.silence == "beacon" and each.cells["t"].verdict != "not reached"
            assert set(each.sure) == ({"t", "joules"} if there else set())
            for sure in each.sure.values():
                assert 0 <= sure.share <= 1
                assert sure.low <= sure.high
                if sure.low > 1:
                    assert sure.share >= 0.95


@pytest.mark.slow
def test_the_world_as_written_is_the_one_that_was_run(tmp_path: Path) -> None:
    """Rounds priced one by one add up to what the tables of the run say, for both kinds."""
    for key, radios in {"fedsgm": ("lte", "nb-iot"), "fediter-ht": ("wifi", "lora-sf7")}.items():
        claim = papers.CLAIMS[key]
        changed = ["stop.rounds=12", "seeds=2"]
        with only(*radios):
            runs = worlds.runs(claim, tmp_path / key, changed)
            compared = [(probabilities.log_ratios(claim, each, {}, 1), each) for _, each in runs]
        for found, result in compared:
            cells = verdicts.cells(claim, result)
            for cost, ratios in found.items():
                assert np.exp(ratios[0]) == pytest.approx(cells[cost].ratio, rel=1e-9)
            assert found or claim.small  # LoRa has a law of its own


@pytest.mark.slow
def test_a_radio_changes_no_count(asked: dict[str, Any]) -> None:
    for answers in asked.values():
        for cost in ("round", "transmissions"):
            of = {str(each.cells[cost]) for each in answers if each.world.silence == "beacon"}
            assert len(of) == 1


@pytest.mark.slow
def test_shares_of_energy_add_up_and_a_client_is_not_busier_than_always(
    asked: dict[str, Any],
) -> None:
    for each in (each for answers in asked.values() for each in answers):
        assert each.energy.sum() == pytest.approx(1)
        assert 0 < each.busy.sum() <= 1


@pytest.mark.slow
def test_the_page_has_a_section_and_a_sentence_for_every_claim(
    asked: dict[str, Any], tmp_path: Path
) -> None:
    text = page.page(asked)
    for key, claim in papers.CLAIMS.items():
        assert f"## {claim.title[0].upper()}{claim.title[1:]}\n" in text
        assert explanations.why(claim, asked[key]).endswith(".")
        assert page.table(claim, asked[key]).row_count == len(asked[key])
    assert "nan" not in text
    figure.draw(asked).savefig(tmp_path / "claims.png")


def test_the_page_that_is_kept_is_of_these_claims() -> None:
    kept = [line for line in command.PAGE.read_text("utf-8").splitlines() if line[:3] == "## "]
    titles = [each.title for each in papers.CLAIMS.values()]
    assert kept == [f"## {title[0].upper()}{title[1:]}" for title in titles]
