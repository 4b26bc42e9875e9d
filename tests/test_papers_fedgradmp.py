"""The experiments of FedGradMP in a reduced form: their scenarios, tables, costs and figures."""

import dataclasses
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from rich.console import Console

import fedsim
from fedsim.analysis import cost_to_target
from tests.scripts import script

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore::fedsim.errors.TheoryWarning")]


paper, rates = script("papers/fedgradmp"), script("papers/fedgradmp_rates")

SMALL = [
    "seeds=1",
    "stop.rounds=4",
    "problem.data.clients=6",
    "problem.data.features=60",
    "problem.data.rows=50",
    "fleet.0.count=6",
]
COHORTS = [f"variants.cohort-{count}.participation.count={min(count, 6)}" for count in (10, 25)]


WORK = ["participation.count=4", "algorithm.batch=20"] + [
    f"variants.cohort-{count}.participation.count={count // 10}" for count in (10, 20)
]
DENSER = ["problem.data.sparsity=20"] + [
    f"{key}.sparsity=20" for key in ("algorithm", "variants.fediter-ht.algorithm")
]
# Of six clients hardly one has the large mean that diverges.
MANY = ["stop.rounds=8", "problem.data.clients=30", "fleet.0.count=30"]
OWN = {
    "cohort": COHORTS,
    "work": WORK,
    "noisy-work": WORK,
    "less-sparse": DENSER,
    "divergence": MANY,
}


def reduced(name: str) -> list[str]:
    return SMALL + OWN.get(name, [])


@pytest.fixture(scope="module", params=list(paper.PARTS))
def part(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Return a part's name, its tables and sentence, and the folder of its figure."""
    folder = tmp_path_factory.mktemp(request.param)
    return request.param, paper.run(request.param, folder, reduced(request.param), folder), folder


def shown(*parts: Any) -> str:
    """Return what a console shows."""
    console = Console(width=200)
    with console.capture() as capture:
        console.print(*parts, sep="\n")
    return capture.get()


def test_every_variant_has_a_row_and_every_part_a_figure(part: Any) -> None:
    name, (tables, sentence), folder = part
    errors = shown(tables[0])
    written = paper.PARTS[name]
    for label in written.labels.values():
        assert label in errors
    for claim in written.claims.values():
        assert claim in errors
    assert "What a relative error" in shown(tables[1])
    assert sentence
    assert (folder / f"fedgradmp-{name}.png").read_bytes().startswith(b"\x89PNG")


def test_the_labels_are_the_variants_of_the_scenarios() -> None:
    for written in paper.PARTS.values():
        plan = fedsim.load(paper.SCENARIOS / f"{written.scenario}.yaml")
        assert {variant.name for variant in plan.variants} == set(written.labels)


def test_what_the_parts_find(part: Any) -> None:
    """Noiseless it ends at rounding, FedIter-HT nowhere near; more local steps take no longer."""
    name, (tables, sentence), _ = part
    labels, reached = (tables[0].columns[place].cells for place in (0, -1))
    rounds = dict(zip(labels, reached, strict=True))
    if name == "noiseless":
        assert int(rounds.pop("FedGradMP")) <= 4
        assert set(rounds.values()) == {"0 of 1 runs"}
        assert sentence == "Only FedGradMP gets there."
    if name == "cohort":
        assert int(rounds["K = 15"]) <= int(rounds["alpha = 1, K = 3, all 50"])
    if name == "work":
        assert int(rounds["K = 15, cohort of 30"]) <= int(rounds["K = 3, cohort of 30"])
    if name == "divergence":
        assert int(rounds["FedGradMP"]) <= 4
        fourth = [float(text) for text in tables[0].columns[5].cells]
        assert fourth[-1] > 10 > fourth[1]


def errors(ends: dict[str, list[float]]) -> pd.DataFrame:
    """Return a round table of variants whose errors are told."""
    rows = [
        {"variant": name, "seed": 1, "round": number, "t": number, rates.ERROR: error}
        for name, told in ends.items()
        for number, error in enumerate(told, 1)
    ]
    costs = {"transmissions": 1, "beacons": 0, "bits_up": 1, "bits_down": 1, "joules": 1.0}
    return pd.DataFrame(rows).assign(**costs)


def test_each_method_is_judged_at_its_best_rate_of_a_grid() -> None:
    """0.1 is on the wider grid alone, and what diverged is nobody's best."""
    told = errors(
        {
            "base": [0.5, 0.05, 0.03],
            "fediter-ht-at-0.01": [0.9, 0.8, 0.7],
            "fediter-ht-at-5e-4": [0.9, 0.9, 0.9],
            "fediter-ht-at-0.1": [0.4, 0.2, 0.01],
            "fedavg-at-0.01": [2.0, 9.0],
        }
    )
    cells = [list(column.cells) for column in rates.best_table(rates.PARTS["noisy"], told).columns]
    assert cells[1][:3] == ["none", "0.01", "-"]
    assert cells[2][:3] == ["2", "never", "-"]
    assert cells[3][:3] == ["0.03", "0.7", "diverges"]
    assert cells[4][1] == "0.1"
    assert cells[6][1] == "0.01"
    assert rates.verdict(told) == (
        "Nearest at the end: on the paper's grid FedGradMP, on the wider grid FedIter-HT."
    )


def test_every_method_runs_with_every_rate(tmp_path: Path) -> None:
    """The scenario's own settings of a method stay, its rate apart."""
    variants = rates.swept(rates.SCENARIOS / "fedgradmp-noisy.yaml")
    assert len(variants) == 4 * (len(rates.PUBLISHED) + len(rates.WIDER))
    assert variants["fedmid-at-5e-6"]["problem"]["penalty"]["weight"] == 0.03125
    assert variants["fedmid-at-5e-6"]["algorithm"]["step_size"] == 5e-6
    tables, sentence = rates.run("noisy", tmp_path, [*SMALL, "stop.rounds=2"], tmp_path)
    assert tables[1].row_count == len(rates.PUBLISHED) + len(rates.WIDER)
    assert sentence.startswith("Nearest at the end: on the paper's grid ")
    assert (tmp_path / "fedgradmp-rates-noisy.png").exists()


def test_what_diverged_is_told_in_words_and_stands_last() -> None:
    """One run of two that diverges is not averaged away; a part's last row is what diverged."""
    told = errors({"fediter-ht": [0.9, 2.0], "fedavg": [5.0], "base": [0.5, 0.05]})
    again = told[told["variant"] != "fediter-ht"].assign(seed=2)
    partly = errors({"fediter-ht": [3.0]}).assign(seed=2)
    rounds = pd.concat([told, again, partly])
    part = dataclasses.replace(paper.PARTS["noisy"], marks=(1, 2))
    table = paper.error_table(part, rounds, cost_to_target(rounds, part.target, paper.ERROR))
    cells = [list(column.cells) for column in table.columns]
    assert cells[0] == ["FedGradMP", "FedIter-HT", "FedAvg"]
    assert cells[2] == ["0.5", "1.9", "5"]
    assert cells[3] == ["0.05", "1 diverged", "diverged"]
