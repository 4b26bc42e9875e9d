"""Playing: runs that are made again in a world, where no recursion prices them."""

import tempfile
from collections.abc import Mapping
from math import floor
from pathlib import Path
from typing import Any
from warnings import catch_warnings, simplefilter

import numpy as np

from fedsim.blocks.presets import Presettable
from fedsim.blocks.spec import Spec
from fedsim.errors import RepricingError, RunWarning, TheoryWarning
from fedsim.record.folder import SCENARIO
from fedsim.repricing import reprice
from fedsim.results import Result
from fedsim.robustness.constants import Key
from fedsim.robustness.design import Worlds
from fedsim.robustness.finding import BLOCKS
from fedsim.robustness.pricing import Costs, Run
from fedsim.running.api import run as make
from fedsim.scenario import Scenario


def played(run: Run, worlds: Worlds, blocks: tuple[type[Spec], ...] = ()) -> Costs:
    """Play a run again in its world: its log where that can be, and else the training itself.

    Args:
        run: see `Run`; it has a world.
        worlds: of which it is one.
        blocks: classes of one's own that the scenario names.

    Returns:
        Seconds, joules and grams, each of shape (); infinite where it does not reach the target
        there. Grams are NaN where its log has none.

    Raises:
        ScenarioError: the scenario is wrong in that world.
    """
    overrides = overridden(run.original(blocks).scenario, worlds.one(run.world or 0))
    with tempfile.TemporaryDirectory(prefix="fedsim-") as aside:
        again = _again(run, overrides, Path(aside), blocks)
        row: dict[Any, Any] = run.target.costs(again).to_dict("records")[0]
    if again.summary["status"].iloc[0] == "done" and not row["reached"]:
        row = {name: np.inf for name in Costs._fields if name in row}
    return Costs(*(np.asarray(row.get(name, np.nan), np.float64) for name in Costs._fields))


def _again(run: Run, overrides: list[str], aside: Path, blocks: tuple[type[Spec], ...]) -> Result:
    base = Path.cwd()
    try:
        return reprice(run.folder, overrides, aside / "priced", base=base, blocks=blocks)
    except RepricingError:
        file = run.folder / SCENARIO
    with catch_warnings():  # the run itself has told them; how it ends in a world is in its row
        for category in (TheoryWarning, RunWarning):
            simplefilter("ignore", category)
        return make(file, out=aside / "made", overrides=overrides, blocks=blocks, check=False)


def overridden(scenario: Scenario, world: Mapping[Key, float]) -> list[str]:
    """Return the overrides that lay a world on a scenario.

    Args:
        scenario: of the run.
        world: the value of each constant, SI.
    """
    found = []
    for number, group in enumerate(scenario.fleet):
        for name in BLOCKS:
            block = getattr(group, name)
            if isinstance(block, Presettable):
                for key, value in world.items():
                    if key[:2] == (name, block.kind):
                        text = _written(block, key[2], value)
                        found.append(f"fleet.{number}.{name}.{key[2]}={text}")
    return found


def _written(block: Presettable, field: str, value: float) -> str:
    """Return a value as a scenario writes it."""
    whole = floor(value) if field == "framing" else value  # as prices have it
    changed = block.model_copy(update={field: float(whole)})
    return str(changed.model_dump(mode="json")[field])
