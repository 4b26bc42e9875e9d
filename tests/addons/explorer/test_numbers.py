"""The page's own arithmetic against the simulator, at random positions of all sliders."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fedsim
from fedsim.addons.explorer.histories import compact
from fedsim.addons.repricing.history import read_history
from tests.addons.explorer.studies import STUDIES, data, priced, replayed, run
from tests.tiers import Tier, some

EXACT = 1e-9


@pytest.mark.slow
@pytest.mark.parametrize("name", some([*STUDIES], "shared"))
def test_a_position_costs_what_its_overrides_cost_in_the_simulator(
    name: str, tmp_path: Path
) -> None:
    folder = run(name, tmp_path / "run")
    page = fedsim.explore(folder)
    known = data(page)
    rng = np.random.default_rng(4)
    count = len(known["sliders"])
    corners = rng.integers(0, 2, (1, count)).astype(float)
    shares = np.vstack([corners, rng.random((1 if Tier.few else 4, count))])
    for number, found in enumerate(priced(page, shares.tolist())):
        assert any(found["overrides"])
        costs: dict[Path, Any] = {}
        for variant, own in enumerate(known["variants"]):
            place = folder if len(known["fleets"]) == 1 else folder / own["name"]
            if place not in costs:  # of one fleet all variants are replayed at once
                overrides = found["overrides"][own["fleet"]]
                costs[place] = replayed(place, overrides, tmp_path / f"{number}-{variant}")
            _check(known, found, variant, costs[place])


def _check(known: Any, found: Any, variant: int, costs: dict[tuple[str, int], Any]) -> None:
    """Compare the costs of a variant's runs, in the order of the page."""
    runs = {seed: row for (label, seed), row in costs.items() if _is(known, variant, label)}
    assert runs
    for number, (name, _, _) in enumerate(known["costs"]):
        seen = dict(found["costs"][number][variant])
        assert seen.keys() == runs.keys()
        for seed, row in runs.items():
            assert seen[seed] == pytest.approx(row[name], rel=EXACT), (name, seed)


def _is(known: Any, variant: int, label: str) -> bool:
    return len(known["variants"]) == 1 or known["variants"][variant]["name"] == label


def test_equal_clients_are_one_class_and_equal_exchanges_one_load(tmp_path: Path) -> None:
    """Of gradient descent every round is alike; a sampled cohort is not."""
    folder = run("shared", tmp_path / "run")
    history = read_history(folder / "gd/seed-1", 5)
    found = compact(history, 5, [0, 0, 0, 1, 1], 160)
    assert found.sequence.tolist() == [0] * 5
    assert found.counts.sum() == 5
    by_group = np.bincount(found.group, found.counts)
    assert by_group.tolist() == [3, 2]
    tasks = history.tasks
    bits = sum(tasks.bits[: 5 * 5]) + 25 * 160
    own = found.kinds[found.task_kind, 1] * found.counts[found.task_class]
    assert 5 * own.sum() == bits
    works = found.kinds[found.task_kind, 2] * found.counts[found.task_class]
    assert 5 * works.sum() == pytest.approx(sum(tasks.operations))
